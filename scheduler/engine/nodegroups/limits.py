"""Whether a group may get one more node: its maximum size, or a NodePool's limits.

Source: Karpenter's limits: the capacity of the new node and the capacities that the NodePool has together must not
exceed them. Here the new node counts with its allocatable amounts, which are a little smaller.
"""

from __future__ import annotations

from collections.abc import Mapping

from herodotus_record.units import format_available, format_requested
from scheduler.engine.nodegroups.shapes import FoundGroup, parse_amounts
from scheduler.engine.objects.types import Amounts

NODES = "nodes"  # a limit of a NodePool on their number


def find_limit(group: FoundGroup, allocatable: Amounts | None = None, more: int = 1) -> str:
    """Return the limit that prevents `more` nodes with these allocatable amounts, as text, or "" if none is known."""
    size = group.present_size
    if group.max_size is not None and size + more > group.max_size:
        return f"size {size} of at most {group.max_size}"
    if group.requirements is not None and group.size is not None:
        return f"a static NodePool with {group.size} replicas"
    needed = parse_amounts(allocatable)
    used = {NODES: len(group.nodes)} | group.used
    for resource, limit in group.limits.items():
        one = 1 if resource == NODES else needed.get(resource, 0)
        total = used.get(resource, 0) + max(one, 0) * more
        if total > limit or (not one and used.get(resource, 0) >= limit):
            return _format_limit(resource, used, limit)
    return ""


def _format_limit(resource: str, used: Mapping[str, int], limit: int) -> str:
    amounts = f"{format_requested(resource, used.get(resource, 0))} of at most {format_available(resource, limit)}"
    return f"{resource}: {amounts}"
