"""A heap of queued pods that supports removal of any pod.

Invariant: a pod is in the heap at most once. Entries of removed pods stay until they reach the top, or until they
outnumber the others.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any, Final

from scheduler.backend.queue.queued_pod import QueuedPod

SLACK: Final = 64  # number of removed entries below which compaction is not worthwhile

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
        if len(self._heap) > 2 * len(self._live) + SLACK:
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
