"""What PodTopologySpread and InterPodAffinity share: pods counted by topology domain, and first rejections.

A domain is a value of a topology key. Counts are kept by value, so that they can be asked about other node columns
than those they were counted on, and changed a pod at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import SUCCESS, Verdict
from scheduler.columns import NodeColumns
from scheduler.framework.interface import Mask
from scheduler.framework.verdicts import PASS, Verdicts

Counts = NDArray[np.int64]

_NO_VALUE: Final = 0  # number of the value of nodes that lack the key, in every label column


class Domains:
    """How many pods count in each domain of a key. A domain with a count of 0 is there all the same.

    Counts are kept by the numbers that the label column gives to values, which other columns may number otherwise.
    """

    def __init__(self, key: str, values: list[str | None], present: Mask, counts: Counts) -> None:
        """`values`: of the column, by number; shared with it, so replaced, never changed."""
        self.key = key
        self._values = values
        self._present = present
        self._counts = counts
        self._numbers: dict[str | None, int] | None = None  # of the values, once they are asked for

    @classmethod
    def of(cls, key: str, nodes: NodeColumns, where: Mask, pods: Counts) -> Domains:
        """The domains of the nodes of the mask that have the key. `pods`: those that count, a slot."""
        column = nodes.label(key)
        numbers = column.ids(nodes.slots)[where]
        present = np.bincount(numbers, minlength=len(column.values)) > 0
        counts = np.bincount(numbers, pods[where], minlength=len(column.values)).astype(np.int64)
        present[_NO_VALUE] = False
        counts[_NO_VALUE] = 0
        return cls(key, column.values, present, counts)

    @classmethod
    def none(cls, key: str) -> Domains:
        """No domain yet."""
        return cls(key, [None], np.zeros(1, np.bool_), np.zeros(1, np.int64))

    def clone(self) -> Domains:
        """A copy to change."""
        copy = Domains(self.key, self._values, self._present.copy(), self._counts.copy())
        copy._numbers = self._numbers
        return copy

    def __len__(self) -> int:
        return int(np.count_nonzero(self._present))

    @property
    def counts(self) -> Counts:
        """The count of each domain, in no order."""
        return self._counts[self._present]

    def on(self, nodes: NodeColumns) -> Counts:
        """The count of each slot's domain; 0 where there is no such domain or the node lacks the key."""
        column = nodes.label(self.key)
        ids = column.ids(nodes.slots)
        if column.values is self._values and len(column.values) == len(self._counts):
            return self._counts.take(ids)
        numbers = self._known()
        return self._counts.take([numbers.get(value, _NO_VALUE) for value in column.values]).take(ids)

    def add(self, nodes: NodeColumns, slot: int, change: int) -> None:
        """Count pods on a node, more or fewer. Nothing changes where the node lacks the key."""
        value = labels_of(nodes, slot).get(self.key)
        if value is None:
            return
        number = self._known().get(value)
        if number is None:
            number = len(self._counts)
            self._values = [*self._values[:number], value]
            self._numbers = {**self._known(), value: number}
            self._present, self._counts = np.append(self._present, False), np.append(self._counts, 0)
        self._present[number] = True
        self._counts[number] += change

    def _known(self) -> Mapping[str | None, int]:
        if self._numbers is None:
            self._numbers = {value: number for number, value in enumerate(self._values[: len(self._counts)])}
        return self._numbers


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
            if verdict not in self._table:  # two constraints may have the same words
                self._table.append(verdict)
            self._ids[where] = self._table.index(verdict)

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
