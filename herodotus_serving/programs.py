"""What the console scripts of the servers' distribution run: a check of the package `scheduler`, then the command line.

Owns: the order. Does not own: the check (`herodotus_record.installation`), the command lines.

Invariant: nothing of another project's `scheduler` is executed; a program that finds one ends with one line on stderr
and exit code 1. So the command lines are imported after the check.
"""

import gc

from herodotus_record.escaping import escape
from herodotus_record.installation import ForeignSchedulerError, require_own_scheduler


def run_scheduler() -> int:
    """Run `herodotus-scheduler` and return its exit code."""
    _refuse_foreign_scheduler()
    gc.disable()  # while modules are imported, see scheduler/__main__.py
    from scheduler.commands.main import main

    gc.enable()
    return main()


def run_endpoint() -> int:
    """Run `herodotus-endpoint`, the decisions service, and return its exit code."""
    _refuse_foreign_scheduler()
    from herodotus_endpoint.__main__ import main

    return main()


def run_agents() -> int:
    """Run `herodotus-agents` or `python -m herodotus_agents`, and return its exit code."""
    _refuse_foreign_scheduler()
    from herodotus_agents.command_line import main

    return main()


def run_sim() -> int:
    """Run `herodotus-sim`, the simulated API server, and return its exit code."""
    _refuse_foreign_scheduler()
    from herodotus_sim.__main__ import main

    return main()


def _refuse_foreign_scheduler() -> None:
    try:
        require_own_scheduler()
    except ForeignSchedulerError as e:
        raise SystemExit(f"error: {escape(str(e))}") from None
