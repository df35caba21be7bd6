"""Entry point of `python -m scheduler`, the scheduler's command line."""

from herodotus_serving.programs import run_scheduler

if __name__ == "__main__":
    raise SystemExit(run_scheduler())
