"""What the pods on each slot add up to by some question: counted once, then kept up to date a pod at a time.

Owns: running sums by question, by slot and by the values of a label, and the journal of pods that came and went, by
which a sum catches up when asked for again. Does not own: rows of pods (`pods`), what a question means.

Invariant: a tally equals adding up every pod anew. Nothing is done for a question that nobody asks again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.columns.dictionary import DictionaryColumn
from scheduler.objects.pod import PodInfo

Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]

KEPT: Final = 256  # questions: some templates' terms and constraints; 8 bytes a slot each, 10 MB at 5,000 nodes
KEPT_LABELS: Final = 4  # of a question: mostly one; of a host name as much again
JOURNAL: Final = 1024  # pods; asking each costs some microseconds, so that counting all anew is faster beyond


class _ByValue:
    """A question's sums over the slots that have the same value of a label, by the value's number."""

    def __init__(self, column: DictionaryColumn[Any], where: Mask | None, counts: Counts) -> None:
        self.column = column
        self.where = where
        self.version = column.version
        ids = column.ids(len(counts))
        if where is not None:
            ids, counts = ids[where[: len(ids)]], counts[where[: len(counts)]]
        self.sums: Counts = np.bincount(ids, counts, minlength=len(column.values)).astype(np.int64)

    def of(self, column: DictionaryColumn[Any], where: Mask | None) -> bool:
        """Whether it is about this label and these slots, and no slot has got another value since."""
        return self.column is column and self.where is where and self.version == column.version

    def add(self, slot: int, change: int) -> None:
        """A pod more or less on a slot."""
        if self.version == self.column.version and (self.where is None or self.where[slot : slot + 1].any()):
            self.sums[self.column.ids(slot + 1)[slot]] += change


class Tally:
    """One question's sums, as of an entry of the journal. Arrays change when pods do, and are not the caller's to."""

    def __init__(self, counts: Counts, up_to: int = 0) -> None:
        self._counts = counts
        self._by_value: list[_ByValue] = []  # the one asked for last at the end
        self.slots = len(counts)
        self.up_to = up_to

    @property
    def counts(self) -> Counts:
        """By slot."""
        return self._counts[: self.slots]

    def by_value(self, column: DictionaryColumn[Any], where: Mask | None = None) -> Counts:
        """By number of the column's values. `where`: slots to add up, the same array as long as these are the same."""
        for i, known in enumerate(self._by_value):
            if known.of(column, where):
                self._by_value.append(self._by_value.pop(i))
                break
        else:
            self._by_value.append(_ByValue(column, where, self.counts))
            del self._by_value[:-KEPT_LABELS]
        return self._by_value[-1].sums

    def add(self, slot: int, change: int) -> None:
        """A pod came to a slot, or went."""
        if slot >= len(self._counts):
            self.extend(slot + 1)
        self._counts[slot] += change
        for known in self._by_value:
            known.add(slot, change)

    def extend(self, slots: int) -> None:
        """There are so many slots now."""
        if slots > len(self._counts):
            self._counts = np.pad(self._counts, (0, slots - len(self._counts)))
        self.slots = slots


class Tallies:
    """Running sums over the pods on all nodes."""

    def __init__(self) -> None:
        self._journal: list[tuple[int, PodInfo, int]] = []  # slot, pod, +1 came or -1 went
        self._first = 0  # number of the journal's first entry
        self._kept: OrderedDict[Hashable, Tally] = OrderedDict()  # the one asked for last at the end

    def note(self, slot: int, pod: PodInfo, change: int) -> None:
        """A pod came to a slot (+1) or went (-1). A pod that changed went as it was and came as it is."""
        self._journal.append((slot, pod, change))
        if len(self._journal) > 2 * JOURNAL:
            del self._journal[:JOURNAL]
            self._first += JOURNAL

    def of(self, question: Hashable, slots: int, weigh: Callable[[PodInfo], int], count: Callable[[], Counts]) -> Tally:
        """What the pods of each of the first `slots` slots add up to.

        `question`: what is asked, equal when `weigh` and `count` are of the same. `weigh`: how much a pod counts.
        `count`: adds up every pod.
        """
        now = self._first + len(self._journal)
        known = self._kept.get(question)
        if known is None or known.up_to < max(self._first, now - JOURNAL):
            known = self._kept[question] = Tally(count(), now)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        for slot, pod, change in self._journal[known.up_to - self._first :]:
            weight = weigh(pod)
            if weight:
                known.add(slot, change * weight)
        known.up_to = now
        known.extend(slots)
        self._kept.move_to_end(question)
        return known
