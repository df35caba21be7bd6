"""Pods counted by topology domain and first rejections, shared by PodTopologySpread and InterPodAffinity.

A domain is a value of a topology key. Counts are stored by value, so that they apply to other node columns than those
that they were counted on, and can change by single pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import SUCCESS, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.columns.tallies import Tally
from scheduler.engine.framework.interface import Mask
from scheduler.engine.framework.verdicts import PASS, Verdicts

Counts = NDArray[np.int64]

_NO_VALUE: Final = 0  # in every label column, the number of the value None, for nodes that lack the key


@dataclass(frozen=True, eq=False)
class DomainEntries:
    """An array with an entry for each topology domain of a key, such as its points.

    `values` are the values of the label `key`; `entries` has an entry for each of them, by its number in the column.
    """

    key: str
    values: list[str | None]
    entries: NDArray[Any]

    def per_slot(self, nodes: NodeColumns) -> NDArray[Any]:
        """Return, for each node slot, the entry of the node's domain.

        The label column of `nodes` must have the values that `entries` is indexed by.
        """
        return self.entries.take(nodes.label(self.key).ids(nodes.slots))

    def changed_slots(self, before: DomainEntries, nodes: NodeColumns) -> NDArray[np.intp] | None:
        """Return the slots of the nodes whose entry differs from that in `before`, or None if every node may differ."""
        column = nodes.label(self.key)
        if self.values is not before.values or self.values is not column.values:
            return None
        count = len(before.entries)  # nodes with newer values have changed rows anyway
        numbers = np.flatnonzero(self.entries[:count] != before.entries)
        if not len(numbers):
            return numbers
        ids = column.ids(nodes.slots)
        if len(numbers) == 1:
            return np.flatnonzero(ids == numbers[0])
        chosen = np.zeros(len(column.values), np.bool_)
        chosen[numbers] = True
        return np.flatnonzero(chosen.take(ids))


class DomainCounts:
    """The number of pods in each topology domain of a key. A domain may have 0 pods.

    `by_value` holds the counts, indexed by the label column's number of each value; 0 if the value is no domain. Other
    columns may number values differently.
    """

    def __init__(self, key: str, values: list[str | None], present: Mask, counts: Counts) -> None:
        """Store the label's `values` and, for each value, whether it is a domain (`present`) and its number of pods.

        The list `values` belongs to the label column and is never changed in place.
        """
        self.key = key
        self.values = values
        self.by_value = counts
        self._present = present
        self._numbers: dict[str | None, int] | None = None  # value -> its number, built at first use

    @classmethod
    def from_tally(cls, key: str, nodes: NodeColumns, tally: Tally) -> DomainCounts:
        """Return the domains that contain pods. `tally` has the number of pods by node slot."""
        column = nodes.label(key)
        counts = tally.by_value(column).copy()
        counts[_NO_VALUE] = 0
        return cls(key, column.values, counts > 0, counts)

    @classmethod
    def from_nodes(cls, key: str, nodes: NodeColumns, where: Mask, present: Mask, tally: Tally) -> DomainCounts:
        """Return the domains of the nodes in the mask `where`, including those without pods.

        `present` tells for each value of the label whether it is a domain. `tally` has the number of pods by node slot.
        The masks must not change.
        """
        column = nodes.label(key)
        return cls(key, column.values, present, np.where(present, tally.by_value(column, where), 0))

    @classmethod
    def empty(cls, key: str, values: list[str | None] = [None]) -> DomainCounts:  # noqa: B006 - never changed
        """Return counts without any domain. `values` are the values of the label column."""
        return cls(key, values, np.zeros(len(values), np.bool_), np.zeros(len(values), np.int64))

    def clone(self) -> DomainCounts:
        """Return a copy that may be changed without changing this object."""
        copy = DomainCounts(self.key, self.values, self._present.copy(), self.by_value.copy())
        copy._numbers = self._numbers
        return copy

    def __len__(self) -> int:
        return int(np.count_nonzero(self._present))

    @property
    def counts(self) -> Counts:
        """The number of pods in each domain, in no particular order."""
        return self.by_value[self._present]

    def list_present(self) -> list[tuple[str, int]]:
        """Return the domains by their label values, each with its number of pods."""
        numbers = np.flatnonzero(self._present).tolist()
        return [(self.values[number] or "", int(self.by_value[number])) for number in numbers]

    def per_slot(self, nodes: NodeColumns) -> Counts:
        """Return, for each node slot, the number of pods in its domain; 0 if the node is in no known domain."""
        return self.map_to_slots(self.by_value, nodes)

    def map_to_slots(self, by_value: NDArray[Any], nodes: NodeColumns) -> NDArray[Any]:
        """Return, for each node slot, the entry of `by_value` for the node's value of the label.

        A node without the label, or with an unknown value, gets entry 0.
        """
        column = nodes.label(self.key)
        ids = column.ids(nodes.slots)
        if column.values is self.values and len(column.values) == len(by_value):
            return by_value.take(ids)
        numbers = self._numbers_by_value()
        return by_value.take([numbers.get(value, _NO_VALUE) for value in column.values]).take(ids)

    def changed_slots(self, before: DomainCounts, nodes: NodeColumns) -> NDArray[np.intp] | None:
        """Return the slots of the nodes whose topology domain is in only one of `self` and `before`.

        Return None if every node may be affected.
        """
        return self.entries(self._present).changed_slots(before.entries(before._present), nodes)

    def entries(self, by_value: NDArray[Any]) -> DomainEntries:
        """Return `by_value`, an array indexed like `self.by_value`, as `DomainEntries` of this topology key."""
        return DomainEntries(self.key, self.values, by_value)

    def add(self, nodes: NodeColumns, slot: int, change: int) -> None:
        """Add `change` to the number of pods in the domain of a node slot; do nothing if its node lacks the key."""
        value = get_labels(nodes, slot).get(self.key)
        if value is None:
            return
        number = self._numbers_by_value().get(value)
        if number is None:
            number = len(self.by_value)
            self.values = [*self.values[:number], value]
            self._numbers = {**self._numbers_by_value(), value: number}
            self._present, self.by_value = np.append(self._present, False), np.append(self.by_value, 0)
        self._present[number] = True
        self.by_value[number] += change

    def _numbers_by_value(self) -> Mapping[str | None, int]:
        if self._numbers is None:
            self._numbers = {value: number for number, value in enumerate(self.values[: len(self.by_value)])}
        return self._numbers


class FirstRejections:
    """A builder of a filter's verdicts, in which each node slot keeps the first rejection that it gets."""

    def __init__(self, slots: int) -> None:
        self._table = [SUCCESS]
        self._ids = np.zeros(slots, np.uint16)

    @property
    def undecided(self) -> Mask:
        """A mask of the node slots without a rejection so far."""
        undecided: Mask = self._ids == 0
        return undecided

    def reject(self, where: Mask, verdict: Verdict) -> None:
        """Set the verdict of the node slots in the mask `where` that have no rejection so far."""
        where = where & self.undecided
        if where.any():
            self._ids[where] = self._number(verdict)

    def reject_by_number(self, verdicts: Sequence[Verdict], numbers: NDArray[np.integer]) -> None:
        """Set the verdict of each node slot without a rejection so far, by the slot's entry in `numbers`.

        The entry n stands for `verdicts[n - 1]`, and 0 for no rejection.
        """
        assigned = np.where(self.undecided, numbers, 0)
        occurring = np.flatnonzero(np.bincount(assigned, minlength=1)[1:]) + 1
        if len(occurring):
            numbers_of = np.zeros(int(occurring[-1]) + 1, np.uint16)
            for number in occurring.tolist():
                numbers_of[number] = self._number(verdicts[number - 1])
            self._ids = np.where(assigned > 0, numbers_of.take(assigned), self._ids)

    def _number(self, verdict: Verdict) -> int:
        if verdict not in self._table:  # two constraints may give equal verdicts
            self._table.append(verdict)
        return self._table.index(verdict)

    def verdicts(self) -> Verdicts:
        return Verdicts(tuple(self._table), self._ids) if len(self._table) > 1 else PASS


def has_label(key: str, nodes: NodeColumns) -> Mask:
    """Return a mask of the nodes that have the label; it is cached, and callers must not change it."""
    if key not in nodes.label_keys:
        return np.zeros(nodes.slots, np.bool_)
    return nodes.cached(("label", key), lambda: ~nodes.label(key).among(nodes.slots, (None,)))


def find_present_values(key: str, nodes: NodeColumns, where: Mask) -> Mask:
    """Return a mask of the values of the label `key` that occur on the nodes in the mask `where`.

    It is indexed by the value's number in the label column.
    """
    column = nodes.label(key)
    present = np.zeros(len(column.values), np.bool_)
    present[column.ids(nodes.slots)[where]] = True
    present[_NO_VALUE] = False
    return present


def get_labels(nodes: NodeColumns, slot: int) -> Mapping[str, str]:
    """Return the labels of the node in a slot, or an empty mapping if the slot has no node."""
    node = nodes.nodes[slot]
    return (node.metadata.labels if node else None) or {}
