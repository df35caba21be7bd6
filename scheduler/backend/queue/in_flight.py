"""Events that occur while pods are in flight, so that a pod that returns to the queue has not missed one.

    position      0     1     2     3     4     5
                 pod A        event       pod B event        A has missed two events, B one

Owns: one list of events for all pods that are in a scheduling or binding cycle, and the position at which each started.
Does not own: whether an event helps a pod (`scheduling_queue`).

Source: pkg/scheduler/backend/queue/active_queue.go v1.36 (inFlightPods, inFlightEvents).

Invariant: events before the start of the oldest pod in flight are dropped, and so are the oldest beyond the limit.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Any, Final, NamedTuple

from scheduler.backend.queue.queued_pod import QueuedPod
from scheduler.engine.framework.events import ClusterEvent

MAX_EVENTS: Final = (
    10_000  # each keeps an old object in memory (up to 10 KB); a pod that missed more is requeued anyway
)


class InFlightEvent(NamedTuple):
    """A cluster event that occurred while a pod was in flight, with the changed object before and after."""

    event: ClusterEvent
    old: Any
    new: Any


class InFlight:
    """The pods in a scheduling or binding cycle, and the cluster events since the oldest of these attempts started."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[QueuedPod, int]] = {}  # with the position of its start
        self._events: deque[InFlightEvent] = deque()
        self._first = 0  # position of the first event that is kept

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def events(self) -> int:
        """The number of cluster events that are stored for the pods in flight."""
        return len(self._events)

    def start(self, queued: QueuedPod) -> None:
        """Add a pod whose attempt starts. Later events are kept for it until `done`."""
        self._pods[queued.uid] = (queued, self._first + len(self._events))

    def get(self, uid: str) -> QueuedPod | None:
        """Return the pod with this UID, or None if it is not in flight."""
        entry = self._pods.get(uid)
        return entry[0] if entry else None

    def add_event(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Keep a cluster event, with its object before and after, if at least one pod is in flight."""
        if not self._pods:
            return
        self._events.append(InFlightEvent(event, old, new))
        if len(self._events) > MAX_EVENTS:
            self._events.popleft()
            self._first += 1

    def events_since_start(self, uid: str) -> list[InFlightEvent] | None:
        """Return the events since the pod's attempt started, or None if some of them were dropped at the limit."""
        position = self._pods[uid][1]
        if position < self._first:
            return None
        return list(islice(self._events, position - self._first, None))

    def done(self, uid: str) -> None:
        """Remove a pod whose attempt ended, and the events that no other pod needs.

        Ignore a pod that is not in flight.
        """
        if self._pods.pop(uid, None) is None:
            return
        oldest = next(iter(self._pods.values()), None)
        keep_from = self._first + len(self._events) if oldest is None else oldest[1]
        while self._first < keep_from:
            self._events.popleft()
            self._first += 1
