"""The commands, in the order in which the help lists them.

Each is a module of its name, with the command as a function of that name; only the one that is called is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click

COMMANDS = (
    "pod",
    "pending",
    "compare",
    "workload",
    "node",
    "balance",
    "whatif",
    "disagreements",
    "watch",
    "ui",
    "version",
)


def command(name: str) -> click.Command:
    """A command of COMMANDS."""
    found: click.Command = getattr(import_module(f"{__name__}.{name}"), name)
    return found
