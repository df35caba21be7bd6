"""A cache of nodes by name that a watch keeps current, for schedulers that send only names (`nodeCacheCapable`).

Invariant: many threads read it; only the watch's thread changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from herodotus_agents.objects import NodeView, ObjectMeta


class NodeCache:
    """A cache of all nodes by name, which a watch fills. Many threads may read it; one thread writes."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeView] = {}

    def get(self, names: Sequence[str]) -> list[NodeView]:
        """Return the nodes with these names, in this order.

        A node that the watch has not delivered yet has no capacity and no annotations.
        """
        known = self._nodes
        return [known.get(name) or NodeView(metadata=ObjectMeta(name=name)) for name in names]

    def list_all(self) -> list[NodeView]:
        """Return every node, sorted by name."""
        return [node for _, node in sorted(self._nodes.items())]

    def replace(self, objects: Sequence[Any]) -> None:
        """Replace the content of the cache with the listed nodes, given as JSON."""
        nodes = (msgspec.json.decode(raw, type=NodeView) for raw in objects)
        self._nodes = {node.name: node for node in nodes}

    def handle_event(self, event_type: str, raw: Any) -> None:
        """Apply one watch event (ADDED, MODIFIED or DELETED) of a node, given as JSON, to the cache."""
        node = msgspec.json.decode(raw, type=NodeView)
        if event_type == "DELETED":
            self._nodes.pop(node.name, None)
        else:
            self._nodes[node.name] = node
