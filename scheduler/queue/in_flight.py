"""What happened while pods were being tried: a pod that comes back must not have missed what may help it.

    position      0     1     2     3     4     5
                 pod A        event       pod B event        A has missed two events, B one

Owns: one list of events for all pods that are in their cycle or their binding, and where in it each began. Does not
own: whether an event helps (`scheduling_queue`).

Source: pkg/scheduler/backend/queue/active_queue.go v1.36 (inFlightPods, inFlightEvents).

Invariant: events before the start of the oldest pod in flight are forgotten, and so are the oldest of too many.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Any, Final, NamedTuple

from scheduler.framework.events import Event
from scheduler.queue.queued_pod import QueuedPod

MAX_EVENTS: Final = 10_000  # each keeps an old object alive (up to 10 KB); a pod that missed more is tried anyway


class Happened(NamedTuple):
    """An event and its object before and after."""

    event: Event
    old: Any
    new: Any


class InFlight:
    """Pods in flight, in the order in which they started."""

    def __init__(self, max_events: int = MAX_EVENTS) -> None:
        self._max_events = max_events
        self._pods: dict[str, tuple[QueuedPod, int]] = {}  # and its position
        self._events: deque[Happened] = deque()
        self._first = 0  # position of the first event that is kept

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def events(self) -> int:
        """How many events are kept."""
        return len(self._events)

    def start(self, queued: QueuedPod) -> None:
        """A pod's attempt begins."""
        self._pods[queued.uid] = (queued, self._first + len(self._events))

    def get(self, uid: str) -> QueuedPod | None:
        """The pod, if it is in flight."""
        found = self._pods.get(uid)
        return found[0] if found else None

    def note(self, event: Event, old: Any, new: Any) -> None:
        """Something happened; it is kept if a pod is in flight."""
        if not self._pods:
            return
        self._events.append(Happened(event, old, new))
        if len(self._events) > self._max_events:
            self._events.popleft()
            self._first += 1

    def since_start(self, uid: str) -> list[Happened] | None:
        """What happened since the pod's attempt began; None where that was too much to be kept."""
        position = self._pods[uid][1]
        if position < self._first:
            return None
        return list(islice(self._events, position - self._first, None))

    def done(self, uid: str) -> None:
        """A pod's attempt is over, one way or the other. Harmless for a pod that is not in flight."""
        if self._pods.pop(uid, None) is None:
            return
        oldest = next(iter(self._pods.values()), None)
        keep_from = self._first + len(self._events) if oldest is None else oldest[1]
        while self._first < keep_from:
            self._events.popleft()
            self._first += 1
