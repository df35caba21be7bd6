"""Running sums over the pods on each slot: computed once for a query, then updated one pod at a time.

A query is a hashable description of which pods count and how much. Owns: the sums of each query by slot and by label
value, and the journal of added and removed pods from which a sum catches up at its next use. Does not own: rows of pods
(`pods`), the meaning of a query.

Invariant: a tally equals the sum over all pods. A query that is not used again costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from herodotus_record.lru import Lru
from scheduler.engine.columns.dictionary import DictionaryColumn
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_affinity import PodTerms

Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]

MAX_TALLIES: Final = (
    256  # queries, from terms and constraints of pod templates; 8 bytes a slot each, 10 MB at 5,000 nodes
)
MAX_LABELS_PER_TALLY: Final = 4  # mostly one; sums by host name take as much memory as the tally
MAX_JOURNAL_LABELS: Final = 32_768  # of all pods in the journal: 5 MB, while one pod may have 20,000
MAX_JOURNAL_ENTRIES: Final = 1024  # each costs some microseconds to apply; with more, counting all pods is faster
_MIN_JOURNAL_ENTRIES: Final = 32  # also for the costliest query: pods change while one is counted in parts
_CHEAP: Final = 64  # so many selectors tried for a pod cost about as much as applying a journal entry


class CountedPod(NamedTuple):
    """The part of a pod on which it depends whether the pod counts for a query.

    `terms` only identifies the pod's affinity terms (`PodTerms.identity`).
    """

    namespace: str
    labels: Mapping[str, str]
    terms: PodTerms | None
    terminating: bool


@dataclass(frozen=True)
class PodWeights:
    """How much each pod counts for a query. The sum may be counted in several parts, one after the other.

    `weigh` returns how much a pod counts in the first so many parts. `count` computes one part's sums over all pods
    anew. `tried` is the number of selectors that `weigh` tries for a pod.
    """

    weigh: Callable[[CountedPod, int], int]
    count: Callable[[int], Counts]
    parts: int = 1
    tried: int = 1

    @property
    def max_journal_entries(self) -> int:
        """The number of changed pods above which counting all pods again is faster than weighing the changed ones."""
        return max(MAX_JOURNAL_ENTRIES // (1 + self.tried // _CHEAP), _MIN_JOURNAL_ENTRIES)


class _ByValue:
    """The sums of one query over all nodes with the same value of a node label, indexed by the value's ID.

    `where` is the mask of the node slots that count; None means all.
    """

    def __init__(self, column: DictionaryColumn[Any], where: Mask | None, counts: Counts) -> None:
        self.column = column
        self.where = where
        self.version = column.version
        ids = column.ids(len(counts))
        if where is not None:
            ids, counts = ids[where[: len(ids)]], counts[where[: len(counts)]]
        self.sums: Counts = np.bincount(ids, counts, minlength=len(column.values)).astype(np.int64)

    def is_current(self, column: DictionaryColumn[Any], where: Mask | None) -> bool:
        """Return whether the sums are for this column and mask, and the column has not changed since."""
        return self.column is column and self.where is where and self.version == column.version

    def add(self, slot: int, change: int) -> None:
        """Add `change` to the sum of the label value that the node in `slot` has."""
        if self.version == self.column.version and (self.where is None or self.where[slot : slot + 1].any()):
            self.sums[self.column.ids(slot + 1)[slot]] += change


class Tally:
    """The sum over the pods on each node for one query, such as the number of pods that match a selector.

    `up_to` is the position in the journal of pod changes up to which the sums are current. Callers must not change the
    arrays, nor keep them.
    """

    def __init__(self, counts: Counts, up_to: int = 0) -> None:
        self._counts = counts
        self._by_value: list[_ByValue] = []  # most recently used last
        self.slots = len(counts)
        self.up_to = up_to
        self.parts = 1  # of the query: so many are counted

    @property
    def counts(self) -> Counts:
        """The query's sum for each node, by node slot (row index)."""
        return self._counts[: self.slots]

    def by_value(self, column: DictionaryColumn[Any], where: Mask | None = None) -> Counts:
        """Return the sums over all nodes with the same value of a node label, indexed by the column's value IDs.

        `where` is the mask of the node slots that count; None means all. Callers must pass the same array object as
        long as the mask is the same.
        """
        for i, counts in enumerate(self._by_value):
            if counts.is_current(column, where):
                self._by_value.append(self._by_value.pop(i))
                break
        else:
            self._by_value.append(_ByValue(column, where, self.counts))
            del self._by_value[:-MAX_LABELS_PER_TALLY]
        return self._by_value[-1].sums

    def add(self, slot: int, change: int) -> None:
        """Add `change` to the sum of the node in `slot`, and to the sum of the node's label values."""
        if slot >= len(self._counts):
            self.extend(slot + 1)
        self._counts[slot] += change
        for counts in self._by_value:
            counts.add(slot, change)

    def add_part(self, counts: Counts) -> None:
        """Add the sums of the query's next part (`PodWeights`) to the tally."""
        self.extend(max(len(counts), self.slots))
        self._counts[: len(counts)] += counts
        self._by_value.clear()
        self.parts += 1

    def extend(self, slots: int) -> None:
        """Set the number of node slots; new slots have the sum 0."""
        if slots > len(self._counts):
            self._counts = np.pad(self._counts, (0, slots - len(self._counts)))
        self.slots = slots


class Tallies:
    """A cache of the tallies of recent queries, which a journal of added and removed pods keeps current."""

    def __init__(self) -> None:
        self._journal: list[tuple[int, CountedPod, int]] = []  # slot, pod, +1 added or -1 removed
        self._first = 0  # position of the journal's first entry
        self._labels = 0  # of all pods in the journal
        self._tallies: Lru[Hashable, Tally] = Lru(MAX_TALLIES)

    def record(self, slot: int, pod: PodInfo, change: int) -> None:
        """Add to the journal that a pod was added to (`change` +1) or removed from (-1) the node in `slot`.

        A changed pod is recorded as removed, then as added. The journal keeps no affinity terms, of which one pod may
        have a megabyte, and a bounded number of labels: a pod may be deleted long before its entry goes.
        """
        terms = None if pod.terms is None else pod.terms.identity
        self._journal.append((slot, CountedPod(pod.namespace, pod.labels, terms, pod.terminating), change))
        self._labels += len(pod.labels)
        while len(self._journal) > 2 * MAX_JOURNAL_ENTRIES or self._labels > MAX_JOURNAL_LABELS:
            oldest = -(-len(self._journal) // 2)
            self._labels -= sum(len(entry.labels) for _, entry, _ in self._journal[:oldest])
            del self._journal[:oldest]
            self._first += oldest

    def get(self, query: Hashable, slots: int, weights: PodWeights) -> Tally:
        """Return the current tally of a query over the first `slots` node slots.

        `query` is the key in the cache: queries must be equal if and only if `weights` are equivalent.
        """
        return self.count_parts(query, slots, weights, lambda: True)

    def count_parts(self, query: Hashable, slots: int, weights: PodWeights, has_time: Callable[[], bool]) -> Tally:
        """Return the current tally of a query; count further parts of it until `has_time` returns False.

        At least the first part is counted. `Tally.parts` is the number of counted parts.
        """
        now = self._first + len(self._journal)
        tally = self._tallies.get(query)
        if tally is None or tally.up_to < max(self._first, now - weights.max_journal_entries):
            tally = self._tallies.put(query, Tally(weights.count(0), now))
        for slot, pod, change in self._journal[tally.up_to - self._first :]:
            weight = weights.weigh(pod, tally.parts)
            if weight:
                tally.add(slot, change * weight)
        tally.up_to = now
        while tally.parts < weights.parts and has_time():
            tally.add_part(weights.count(tally.parts))
        tally.extend(slots)
        return tally
