"""Nodes by name, kept up to date by a watch: for schedulers that send names alone (`nodeCacheCapable`).

Invariant: read by many threads, changed by the watch's thread alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from herodotus_agents.objects import Metadata, Node


class KnownNodes:
    """What the watch has shown."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def of(self, names: Sequence[str]) -> list[Node]:
        """In the order of the names. A node that the watch has not shown yet has no capacity and no annotations."""
        known = self._nodes
        return [known.get(name) or Node(metadata=Metadata(name=name)) for name in names]

    def listed(self, objects: Sequence[Any]) -> None:
        """These are all there are."""
        nodes = (msgspec.json.decode(raw, type=Node) for raw in objects)
        self._nodes = {node.name: node for node in nodes}

    def changed(self, kind: str, raw: Any) -> None:
        """One was added, modified or deleted."""
        node = msgspec.json.decode(raw, type=Node)
        if kind == "DELETED":
            self._nodes.pop(node.name, None)
        else:
            self._nodes[node.name] = node
