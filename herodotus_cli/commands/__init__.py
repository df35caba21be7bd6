"""The commands, in the order of the help text.

Each is a function in a module of the same name. Only the module of the called command is imported.
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
    "podgroup",
    "node",
    "balance",
    "whatif",
    "capacity",
    "consolidate",
    "nodegroups",
    "preemptions",
    "disagreements",
    "watch",
    "top",
    "report",
    "clusters",
    "explain",
    "schema",
    "ui",
    "mcp",
    "completion",
    "version",
)


ALIASES = {
    "podgroups": "podgroup",
    "po": "pod",
    "pods": "pod",
    "no": "node",
    "nodes": "node",
}  # as kubectl abbreviates these resources


def load_command(name: str) -> click.Command:
    """Import the module of a command and return the command. `name` is one of COMMANDS."""
    command: click.Command = getattr(import_module(f"{__name__}.{name}"), name)
    return command
