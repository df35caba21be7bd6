"""The commands, in the groups and the order of the help text.

Each is a function in a module of the same name. Only the module of the called command is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import click

# The groups of the help text, which fits a terminal of 24 lines. OTHERS have no lines of their own there.
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Pods and workloads": ("pod", "pending", "workload", "compare", "podgroup"),
    "Nodes and the cluster": ("top", "node", "balance", "nodegroups", "preemptions", "disagreements", "watch"),
    "What would happen (nothing is changed)": ("plan", "whatif", "capacity", "consolidate"),
}
OTHERS: Final[Mapping[str, str]] = {
    "report": "to a file",
    "explain": "a word",
    "simulate": "arrivals",
    "ui": "pages",
    "mcp": "AI assistants",
    "clusters": "",
    "schema": "",
    "completion": "",
    "options": "of all",
    "version": "",
}
COMMANDS: Final = (*(name for names in GROUPS.values() for name in names), *OTHERS)

ALIASES: Final = {
    "podgroups": "podgroup",
    "po": "pod",
    "pods": "pod",
    "no": "node",
    "nodes": "node",
}  # as kubectl abbreviates these resources
# Words of kubectl and of operators that are no commands here, and what answers their question.
SEE_INSTEAD: Final = {
    "rollout": ("workload",),
    "deployment": ("workload",),
    "deploy": ("workload",),
    "statefulset": ("workload",),
    "sts": ("workload",),
    "daemonset": ("workload",),
    "ds": ("workload",),
    "job": ("workload",),
    "scale": ("whatif scale",),
    "describe": ("pod",),
    "why": ("pod",),
    "events": ("pod NAME --timeline",),
    "history": ("pod NAME --attempts",),
    "attempts": ("pod NAME --attempts",),
    "evict": ("whatif drain", "preemptions"),
    "move": ("whatif drain",),
    "restart": ("workload",),
    "evictions": ("preemptions",),
    "evicted": ("preemptions",),
    "diff": ("compare",),
    "get": ("pod", "node"),
    "replay": ("simulate",),
    "export": ("pod -A --full -o json",),
}


def load_command(name: str) -> click.Command:
    """Import the module of a command and return the command. `name` is one of COMMANDS."""
    command: click.Command = getattr(import_module(f"{__name__}.{name}"), name)
    return command
