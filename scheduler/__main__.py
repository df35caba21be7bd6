"""`python -m scheduler`."""

from scheduler.app import main

if __name__ == "__main__":
    raise SystemExit(main())
