"""Entry point of `python -m herodotus_agents`, the command line of agents and annotators."""

from herodotus_serving.programs import run_agents

if __name__ == "__main__":
    raise SystemExit(run_agents())
