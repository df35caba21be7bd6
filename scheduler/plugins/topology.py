"""What PodTopologySpread and InterPodAffinity share: pods counted by topology domain, and first rejections.

A domain is a value of a topology key. Counts are kept by value, so that they can be asked about other node columns
than those they were counted on, and changed a pod at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import SUCCESS, Verdict
from scheduler.columns import NodeColumns
from scheduler.framework.interface import Mask
from scheduler.framework.verdicts import PASS, Verdicts

Counts = NDArray[np.int64]


@dataclass
class Domains:
    """How many pods count in each domain of a key. A domain with a count of 0 is there all the same."""

    key: str
    _places: Mapping[str | None, int]  # value -> place in `counts`; shared by clones, so replaced, never changed
    counts: Counts

    @classmethod
    def of(cls, key: str, nodes: NodeColumns, where: Mask, pods: Counts) -> Domains:
        """The domains of the nodes of the mask that have the key. `pods`: those that count, a slot."""
        column = nodes.label(key)
        ids = column.ids(nodes.slots)
        where = where & has_label(key, nodes)
        present = np.flatnonzero(np.bincount(ids[where], minlength=len(column.values)))
        sums = np.bincount(ids[where], pods[where], minlength=len(column.values))
        places = {column.values[number]: place for place, number in enumerate(present)}
        return cls(key, places, sums[present].astype(np.int64))

    @classmethod
    def none(cls, key: str) -> Domains:
        """No domain yet."""
        return cls(key, {}, np.zeros(0, np.int64))

    def clone(self) -> Domains:
        """A copy to change."""
        return Domains(self.key, self._places, self.counts.copy())

    def on(self, nodes: NodeColumns) -> Counts:
        """The count of each slot's domain; 0 where there is no such domain or the node lacks the key."""
        column = nodes.label(self.key)
        places = [self._places.get(value, -1) for value in column.values]
        return np.append(self.counts, 0)[places].take(column.ids(nodes.slots))

    def add(self, nodes: NodeColumns, slot: int, change: int) -> None:
        """Count pods on a node, more or fewer. Nothing changes where the node lacks the key."""
        value = labels_of(nodes, slot).get(self.key)
        if value is None:
            return
        place = self._places.get(value)
        if place is None:
            place = len(self.counts)
            self._places = {**self._places, value: place}
            self.counts = np.append(self.counts, 0)
        self.counts[place] += change


class FirstRejections:
    """A verdict column in the making: each slot keeps the first verdict it is given."""

    def __init__(self, slots: int) -> None:
        self._table = [SUCCESS]
        self._ids = np.zeros(slots, np.uint16)

    @property
    def undecided(self) -> Mask:
        """The slots that no verdict was given to."""
        undecided: Mask = self._ids == 0
        return undecided

    def reject(self, where: Mask, verdict: Verdict) -> None:
        """Give the undecided slots of the mask this verdict."""
        where = where & self.undecided
        if where.any():
            self._ids[where] = len(self._table)
            self._table.append(verdict)

    def verdicts(self) -> Verdicts:
        """The finished column."""
        return Verdicts(tuple(self._table), self._ids) if len(self._table) > 1 else PASS


def has_label(key: str, nodes: NodeColumns) -> Mask:
    """Which nodes have a label, whatever its value."""
    return ~nodes.label(key).among(nodes.slots, (None,))


def labels_of(nodes: NodeColumns, slot: int) -> Mapping[str, str]:
    """A node's labels; none where the slot has no node."""
    node = nodes.nodes[slot]
    return (node.metadata.labels if node else None) or {}
