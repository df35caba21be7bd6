"""How many pods of each slot match: counted once, then kept up to date a pod at a time.

Owns: running counts by question, and the journal of pods that came and went, by which a count catches up when
asked for again. Does not own: rows of pods (`pods`), what matches a question.

Invariant: a tally equals counting every pod anew. Nothing is done for a question that nobody asks again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.objects.pod import PodInfo

Counts = NDArray[np.int64]

KEPT: Final = 256  # questions: some templates' terms and constraints; 8 bytes a slot each, 10 MB at 5,000 nodes
JOURNAL: Final = 1024  # pods; asking each costs some microseconds, so that counting all anew is faster beyond


class _Tally:
    """One question's counts, as of an entry of the journal."""

    def __init__(self, counts: Counts, up_to: int) -> None:
        self.counts = counts
        self.up_to = up_to


class Tallies:
    """Running counts over the pods on all nodes."""

    def __init__(self) -> None:
        self._journal: list[tuple[int, PodInfo, int]] = []  # slot, pod, +1 came or -1 went
        self._first = 0  # number of the journal's first entry
        self._kept: OrderedDict[Hashable, _Tally] = OrderedDict()  # the one asked for last at the end

    def note(self, slot: int, pod: PodInfo, change: int) -> None:
        """A pod came to a slot (+1) or went (-1). A pod that changed went as it was and came as it is."""
        self._journal.append((slot, pod, change))
        if len(self._journal) > 2 * JOURNAL:
            del self._journal[:JOURNAL]
            self._first += JOURNAL

    def of(
        self, question: Hashable, slots: int, matches: Callable[[PodInfo], bool], count: Callable[[], Counts]
    ) -> Counts:
        """The matching pods of each of the first `slots` slots; not to be changed, valid until pods do.

        `question`: what is asked, equal when `matches` and `count` are of the same. `count`: counts every pod.
        """
        now = self._first + len(self._journal)
        known = self._kept.get(question)
        if known is None or known.up_to < max(self._first, now - JOURNAL):
            known = self._kept[question] = _Tally(count(), now)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        if len(known.counts) < slots:
            known.counts = np.pad(known.counts, (0, slots - len(known.counts)))
        for slot, pod, change in self._journal[known.up_to - self._first :]:
            if matches(pod):
                known.counts[slot] += change
        known.up_to = now
        self._kept.move_to_end(question)
        return known.counts[:slots]
