"""The order in which a cycle visits nodes: one node of each zone in turn, as in kube-scheduler's node tree.

Source: pkg/scheduler/backend/cache/node_tree.go. It matters only where not every node is evaluated
(`percentageOfNodesToScore`), and for the choice among equals that kube-scheduler's heap makes.
"""

from __future__ import annotations

from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.objects.types import Node

_REGIONS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
_ZONES = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")


def zone_key(node: Node) -> tuple[str, str]:
    """Return (region, zone) from the node's labels, "" for a missing one; beta labels take precedence."""
    labels = node.metadata.labels or {}

    def first(keys: tuple[str, str]) -> str:
        return next((labels[k] for k in keys if k in labels), "")

    return first(_REGIONS), first(_ZONES)


class VisitOrder:
    """The order in which a cycle visits nodes: one node of each zone in turn.

    Within a zone, nodes keep the order in which they were added.
    """

    def __init__(self) -> None:
        self._zones: dict[tuple[str, str], dict[int, None]] = {}
        self._zone_of: dict[int, tuple[str, str]] = {}
        self._list: NDArray[np.intp] | None = None

    def set(self, slot: int, node: Node) -> None:
        """Add the node in `slot`; if it is known and its zone changed, move it to the end of its new zone."""
        key = zone_key(node)
        if self._zone_of.get(slot) == key:
            return
        self.remove(slot)
        self._zones.setdefault(key, {})[slot] = None
        self._zone_of[slot] = key

    def remove(self, slot: int) -> None:
        """Remove the node in `slot`. A zone without nodes loses its position."""
        self._list = None
        key = self._zone_of.pop(slot, None)
        if key is not None:
            del self._zones[key][slot]
            if not self._zones[key]:
                del self._zones[key]

    def slots(self) -> NDArray[np.intp]:
        """Return the slots of all nodes in visiting order, one node of each zone in turn."""
        if self._list is None:
            turns = zip_longest(*self._zones.values())
            self._list = np.array([s for turn in turns for s in turn if s is not None], np.intp)
        return self._list
