"""Entry point of `python -m scheduler`, the scheduler's command line."""

from scheduler.commands.main import main

if __name__ == "__main__":
    raise SystemExit(main())
