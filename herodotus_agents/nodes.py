"""A cache of nodes by name that a watch keeps current, for schedulers that send only names (`nodeCacheCapable`).

Invariant: many threads read it; only the watch's thread changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from herodotus_agents.objects import NodeView
from scheduler.engine.columns import NodeObjectColumns
from scheduler.engine.objects.types import NodeMetadata


class NodeCache:
    """A cache of all nodes by name, which a watch fills. Many threads may read it; one thread writes."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeView] = {}
        self._revision = 0  # increases after each change
        self._latest = (0, NodeObjectColumns([]))  # and the revision for which they are valid

    def get_columns(self, names: Sequence[str]) -> NodeObjectColumns:
        """Return the nodes with these names as columns, in this order.

        A node that the watch has not delivered yet has no capacity and no annotations. The columns of the latest call
        are reused if it had the same names and no node changed, because a scheduler calls several verbs for each pod.
        """
        revision, (latest_revision, latest) = self._revision, self._latest
        if latest_revision == revision and latest.names == names:
            return latest
        known = self._nodes
        columns = NodeObjectColumns([known.get(name) or NodeView(metadata=NodeMetadata(name=name)) for name in names])
        self._latest = revision, columns
        return columns

    def list_all(self) -> list[NodeView]:
        """Return every node, sorted by name."""
        return [node for _, node in sorted(self._nodes.items())]

    def replace(self, objects: Sequence[Any]) -> None:
        """Replace the content of the cache with the listed nodes, given as JSON."""
        nodes = (msgspec.json.decode(raw, type=NodeView) for raw in objects)
        self._nodes = {node.name: node for node in nodes}
        self._revision += 1

    def handle_event(self, event_type: str, raw: Any) -> None:
        """Apply one watch event (ADDED, MODIFIED or DELETED) of a node, given as JSON, to the cache."""
        node = msgspec.json.decode(raw, type=NodeView)
        if event_type == "DELETED":
            self._nodes.pop(node.name, None)
        else:
            self._nodes[node.name] = node
        self._revision += 1
