"""What the console scripts of the servers' distribution run: a check of the package `scheduler`, then the command line.

Owns: the order, garbage collection during the imports. Does not own: the check (`herodotus_record.installation`), the
command lines.

Invariant: nothing of another project's `scheduler` is executed; a program that finds one ends with one line on stderr
and exit code 1. So the command lines are imported after the check.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from herodotus_record.escaping import escape
from herodotus_record.installation import ForeignSchedulerError, require_own_scheduler


def run_scheduler() -> int:
    """Run `herodotus-scheduler` or `python -m scheduler`, and return its exit code."""
    _refuse_foreign_scheduler()
    with _exclude_imported_from_collections():
        from scheduler.commands.main import main

    return main()


def run_endpoint() -> int:
    """Run `herodotus-endpoint`, the decisions service, and return its exit code."""
    _refuse_foreign_scheduler()
    with _exclude_imported_from_collections():
        from herodotus_endpoint.__main__ import main

    return main()


def run_agents() -> int:
    """Run `herodotus-agents` or `python -m herodotus_agents`, and return its exit code."""
    _refuse_foreign_scheduler()
    with _exclude_imported_from_collections():
        from herodotus_agents.command_line import main

    return main()


def run_sim() -> int:
    """Run `herodotus-sim`, the simulated API server, and return its exit code."""
    _refuse_foreign_scheduler()
    with _exclude_imported_from_collections():
        from herodotus_sim.__main__ import main

    return main()


@contextmanager
def _exclude_imported_from_collections() -> Iterator[None]:
    """Collect no garbage in the context, and leave all objects that then exist out of later collections.

    It is for importing modules. Of the scheduler's 67,000 objects 800 are garbage. Looking for it takes a twelfth of
    the start during the imports, and a sixth in the first collections after them.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def _refuse_foreign_scheduler() -> None:
    try:
        require_own_scheduler()
    except ForeignSchedulerError as e:
        raise SystemExit(f"error: {escape(str(e))}") from None
