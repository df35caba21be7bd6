"""Counts attempts that repeat the recorded attempt before them, so that a loop of attempts does not fill the store.

Owns: when an attempt repeats another, and the memory of recent attempts. Does not own: writing the count (`recorder`).

A pod may be tried hundreds of times a second: a flapping node requeues it, its owner updates it, or its evictions are
denied. An attempt without a node whose record would be the same is counted on the record of the attempt before it.

Invariant: nothing is counted on a record that is older than WINDOW_US, so a loop leaves at least one record a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from herodotus_record.model import Decision
from scheduler.engine.columns import NodeColumns

WINDOW_US: Final = 1_000_000
MAX_WEIGHT: Final = 1024  # pods; 5,000 nodes and five rejecting filters that differ for each pod are 25 MB
LARGE_WEIGHT: Final = 64  # of a pod whose manifest is large: the record repeats its labels and requests

# Identity, times and cause of an attempt. The seed chooses among nodes, of which there is none. Amounts of nodes are
# not in the record but in the node table of its generation; the reasons, which name what lacks, are compared.
_DIFFERS_BETWEEN_EQUALS: Final = {"id", "key", "sequence", "times", "generation", "seed", "requeued_by", "retry"}
_get_content: Final = attrgetter(*(f.name for f in fields(Decision) if f.name not in _DIFFERS_BETWEEN_EQUALS))


class RecentAttempt:
    """The last recorded attempt of a pod that chose no node, and how often it was repeated since.

    `first_us` and `last_us` are the starts of the first and the last repeat.
    """

    __slots__ = ("decision", "first_us", "last_us", "membership", "recorded_us", "repeats", "weight")

    def __init__(self, decision: Decision, membership: int, recorded_us: int, weight: int) -> None:
        self.decision, self.membership, self.recorded_us, self.weight = decision, membership, recorded_us, weight
        self.repeats = self.first_us = self.last_us = 0

    def is_repeated_by(self, decision: Decision, membership: int) -> bool:
        """Return whether the record of a later attempt of the pod would state the same, apart from times.

        `membership` must be equal, so that each slot of the node table stands for the same node. Equal parts are mostly
        the same objects, so the comparison takes microseconds. Of `retry`, only the queue is compared.
        """
        return (
            membership == self.membership
            and _get_queue(decision) == _get_queue(self.decision)
            and bool(_get_content(decision) == _get_content(self.decision))
        )

    def count(self, started_us: int) -> None:
        """Count a repeat that started at this time."""
        self.first_us, self.last_us = self.first_us or started_us, started_us
        self.repeats += 1


class RecentAttempts:
    """The recorded attempts of the last second, one for each pod. Not thread-safe.

    While it is full, attempts of further pods are not remembered, and all of them are recorded. Those that it has stay,
    because a loop over more pods than fit would otherwise replace each before its repeat.
    """

    def __init__(self) -> None:
        self._by_uid: dict[str, RecentAttempt] = {}  # the oldest first
        self._weight = 0

    def add(self, decision: Decision, columns: NodeColumns, now_us: int, *, is_large: bool) -> None:
        """Remember an attempt without a node that was recorded now. Call `pop` for the pod's earlier attempt first.

        The attempt is not remembered if the limit is reached.
        """
        weight = LARGE_WEIGHT if is_large else 1
        if self._weight + weight <= MAX_WEIGHT:
            self._by_uid[decision.key.pod_uid] = RecentAttempt(decision, columns.membership, now_us, weight)
            self._weight += weight

    def find(self, decision: Decision, columns: NodeColumns) -> RecentAttempt | None:
        """Return the recent attempt that the decision repeats, or None."""
        recent = self._by_uid.get(decision.key.pod_uid)
        return recent if recent is not None and recent.is_repeated_by(decision, columns.membership) else None

    def pop(self, pod_uid: str) -> RecentAttempt | None:
        """Forget the recent attempt of a pod and return it if it was repeated, otherwise None."""
        recent = self._by_uid.pop(pod_uid, None)
        if recent is None:
            return None
        self._weight -= recent.weight
        return recent if recent.repeats else None

    def pop_expired(self, now_us: int) -> Iterator[RecentAttempt]:
        """Forget the attempts that were recorded WINDOW_US ago or earlier, and yield those that were repeated.

        After the clock was set back, the attempts with a later time are forgotten too.
        """
        while self._by_uid:
            uid, recent = next(iter(self._by_uid.items()))
            if 0 <= now_us - recent.recorded_us < WINDOW_US:
                return
            if self.pop(uid) is not None:
                yield recent

    def pop_all(self) -> Iterator[RecentAttempt]:
        """Forget all attempts, and yield those that were repeated."""
        for uid in list(self._by_uid):
            recent = self.pop(uid)
            if recent is not None:
                yield recent


def _get_queue(decision: Decision) -> Any:
    return decision.retry and decision.retry.queue
