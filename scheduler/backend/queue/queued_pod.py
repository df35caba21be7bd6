"""A queued pod with its history in the queue, and a heap of queued pods.

Owns: what the queue keeps about a pod between attempts, and the order of pods by a key. Does not own: a pod's
transitions (`scheduling_queue`).

Invariant: a pod is in a heap at most once. Entries of removed pods stay until they reach the top, or until they
outnumber the others.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from herodotus_record.model import PluginVerdict, RequeueEvent
from scheduler.engine.objects.pod import PodInfo

ACTIVE, BACKOFF, UNSCHEDULABLE, GATED, POPPED = "active", "backoff", "unschedulable", "gated", ""
PLACES = (ACTIVE, BACKOFF, UNSCHEDULABLE, GATED)
MIN_REMOVED: Final = 64  # number of removed entries below which compaction is not worthwhile


@dataclass
class QueuedPod:
    """A pod in the queue or in flight, with its history. Times are monotonic seconds unless named otherwise."""

    pod: PodInfo
    first_seen_us: int  # wall clock
    attempts: int = 0
    rejections: int = 0  # since the last error
    errors: int = 0  # in a row
    denials: int = 0  # preemptions in a row in which an eviction failed
    queued_at: float = 0.0  # when it was added or returned from an attempt; orders pods of equal priority
    since: float = 0.0  # when it entered its present queue
    where: str = POPPED
    ready_at: float = 0.0  # end of backoff
    first_active: float | None = None  # when it first entered the active queue; orders the pods of a group
    gate: PluginVerdict | None = None  # the PreEnqueue plugin that keeps it out of the active queue
    rejectors: frozenset[str] = frozenset()  # plugins that rejected the last attempt, or gate the pod
    pending: frozenset[str] = frozenset()  # rejectors that returned Pending: their event also ends the backoff
    requeued_by: RequeueEvent | None = None  # the event that requeued it; None if it did not wait for one
    waited_s: dict[str, float] = field(default_factory=dict)  # in each queue, since the last attempt
    uid: str = field(init=False)  # the pod's UID, kept here because every move reads it

    def __post_init__(self) -> None:
        self.uid = self.pod.uid


_Entry = tuple[Any, int, QueuedPod]


class PodHeap:
    """A priority queue of pods, smallest key first. Pods with equal keys come in order of insertion."""

    def __init__(self) -> None:
        self._heap: list[_Entry] = []
        self._live: dict[str, int] = {}  # pod UID -> number of its entry
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._live)

    def push(self, key: Any, queued: QueuedPod) -> None:
        """Add a pod under `key`. If the pod is in the heap already, change its key."""
        number = next(self._numbers)
        self._live[queued.uid] = number
        heapq.heappush(self._heap, (key, number, queued))
        if len(self._heap) > 2 * len(self._live) + MIN_REMOVED:
            self._heap = [entry for entry in self._heap if self._is_live(entry)]
            heapq.heapify(self._heap)

    def discard(self, uid: str) -> None:
        """Remove the pod with this UID if it is in the heap."""
        self._live.pop(uid, None)

    def first(self) -> tuple[Any, QueuedPod] | None:
        """Return the smallest key and its pod without removing them, or None if the heap is empty."""
        while self._heap and not self._is_live(self._heap[0]):
            heapq.heappop(self._heap)
        return (self._heap[0][0], self._heap[0][2]) if self._heap else None

    def _is_live(self, entry: _Entry) -> bool:
        return self._live.get(entry[2].uid) == entry[1]
