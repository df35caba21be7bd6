"""A cache of nodes by name that a watch keeps current, for schedulers that send only names (`nodeCacheCapable`).

Invariant: many threads read it; only the watch's thread changes it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from herodotus_agents.objects import NodeView
from herodotus_kube.watch import ListResult, WatchEvent
from scheduler.engine.columns import NodeObjectColumns
from scheduler.engine.objects.types import NodeMetadata

LONGEST_PAUSE_S: Final = 5.0  # between two tries to list or watch: an agent that starts waits at most 30 s for nodes


class NodeCache:
    """A cache of all nodes by name, which a watch fills. Many threads may read it; one thread writes."""

    def __init__(self) -> None:
        self.listed = threading.Event()  # set once all nodes are in the cache
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
        nodes = self._nodes
        columns = NodeObjectColumns([nodes.get(name) or NodeView(metadata=NodeMetadata(name=name)) for name in names])
        self._latest = revision, columns
        return columns

    def list_all(self) -> list[NodeView]:
        """Return every node, sorted by name."""
        return [node for _, node in sorted(self._nodes.items())]

    def update(self, message: ListResult[NodeView] | WatchEvent[NodeView]) -> None:
        """Replace the content of the cache with a list of all nodes, or apply the change of one node."""
        if isinstance(message, ListResult):
            self._nodes = {node.name: node for node in message.objects}
            self.listed.set()
        elif message.type == "DELETED":
            self._nodes.pop(message.object.name, None)
        else:
            self._nodes[message.object.name] = message.object
        self._revision += 1
