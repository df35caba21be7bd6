"""Entry point of `python -m scheduler`, the scheduler's command line."""

import gc

gc.disable()  # while modules are imported: they hold no garbage, and looking for it takes a twelfth of the start

from scheduler.commands.main import main  # noqa: E402

gc.enable()

if __name__ == "__main__":
    raise SystemExit(main())
