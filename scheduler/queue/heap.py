"""A heap of waiting pods from which any of them can be taken.

Invariant: a pod is in it at most once. Entries of pods that left stay behind until they surface, or until they
outnumber the others.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any, Final

from scheduler.queue.queued_pod import QueuedPod

SLACK: Final = 64  # dead entries that are never worth clearing out

_Entry = tuple[Any, int, QueuedPod]


class PodHeap:
    """Smallest key first, and who came first among equals."""

    def __init__(self) -> None:
        self._heap: list[_Entry] = []
        self._live: dict[str, int] = {}  # pod UID -> number of its entry
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._live)

    def push(self, key: Any, queued: QueuedPod) -> None:
        """Put a pod in, or to another place."""
        number = next(self._numbers)
        self._live[queued.uid] = number
        heapq.heappush(self._heap, (key, number, queued))
        if len(self._heap) > 2 * len(self._live) + SLACK:
            self._heap = [entry for entry in self._heap if self._alive(entry)]
            heapq.heapify(self._heap)

    def discard(self, uid: str) -> None:
        """Take a pod out, if it is in."""
        self._live.pop(uid, None)

    def first(self) -> tuple[Any, QueuedPod] | None:
        """The smallest key and its pod."""
        while self._heap and not self._alive(self._heap[0]):
            heapq.heappop(self._heap)
        return (self._heap[0][0], self._heap[0][2]) if self._heap else None

    def _alive(self, entry: _Entry) -> bool:
        return self._live.get(entry[2].uid) == entry[1]
