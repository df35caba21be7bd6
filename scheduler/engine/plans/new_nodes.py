"""The shapes of nodes that a cluster has, each by one of its nodes.

Pure. Does not own: adding a node to a copy (`world`), node groups of autoscalers (`engine.nodegroups`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.engine.columns import NodeColumns
from scheduler.engine.objects.types import Node
from scheduler.engine.whatif.nodes import HOSTNAME, copy_node

MAX_SHAPES: Final = 16


def list_shapes(nodes: NodeColumns) -> list[str]:
    """Return one node of each shape by name: nodes with equal labels, taints and amounts have one shape.

    The shapes of the most nodes come first, and are at most MAX_SHAPES.
    """
    found: dict[object, list[str]] = {}
    for node in nodes.nodes:
        if node is not None:
            found.setdefault(_describe(node), []).append(node.metadata.name)
    ranked = sorted(found.values(), key=lambda names: (-len(names), min(names)))
    return [min(names) for names in ranked[:MAX_SHAPES]]


def _describe(node: Node) -> object:
    empty = copy_node(node, "")
    labels = {key: value for key, value in (empty.metadata.labels or {}).items() if key != HOSTNAME}
    return _freeze(labels), tuple(empty.spec.taints or ()), _freeze(empty.status.allocatable or {})


def _freeze(values: Mapping[str, object]) -> frozenset[tuple[str, str]]:
    return frozenset((key, str(value)) for key, value in values.items())
