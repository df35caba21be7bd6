"""The scheduling queue: active, backoff, unschedulable.

Owns: which pod is next, and when a rejected one is tried again. Does not own: what an event means to a plugin (plugins
declare the events that may change their mind), the cluster's state. Times are monotonic seconds, passed in.

Source: pkg/scheduler/backend/queue/scheduling_queue.go v1.36. Not built yet: hints that look at the event's object.

Invariant: a pod is in exactly one place (active, backoff, unschedulable, or popped and not given back).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, cast

from herodotus_record.model import PluginVerdict
from scheduler.framework.events import EVERY_EVENT, Event
from scheduler.objects.pod import PodInfo

ACTIVE, BACKOFF, UNSCHEDULABLE, POPPED = "active", "backoff", "unschedulable", ""
FLUSH_AFTER_S: Final = 300.0  # an unschedulable pod is tried again after this long even if nothing happened
FLUSH_EVERY_S: Final = 30.0  # how often those are looked for


@dataclass
class QueuedPod:
    """A waiting pod and its history in the queue."""

    pod: PodInfo
    first_seen_us: int  # wall clock
    attempts: int = 0
    rejections: int = 0  # since the last error
    errors: int = 0  # in a row
    queued_at: float = 0.0  # when it came, or came back: its place among equals, wherever it waits meanwhile
    since: float = 0.0  # when it was put where it is
    where: str = POPPED
    ready_at: float = 0.0  # end of backoff
    gate: PluginVerdict | None = None  # what keeps it out of the active queue
    rejectors: frozenset[str] = frozenset()  # the plugins that turned it away last
    waited_s: dict[str, float] = field(default_factory=dict)  # in each queue, since the last attempt
    entry: int = 0  # number of its valid heap entry

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.pod.uid


class SchedulingQueue:
    """Not thread-safe: only the loop's thread touches it."""

    def __init__(
        self,
        sort_key: Callable[[PodInfo, float], Any],
        pre_enqueue: Callable[[PodInfo], PluginVerdict | None],
        wakes_on: Callable[[PodInfo, frozenset[str]], frozenset[Event]],
        initial_backoff_s: float = 1.0,
        max_backoff_s: float = 10.0,
    ) -> None:
        """`wakes_on`: the events that may help a pod that these plugins rejected."""
        self._sort_key = sort_key
        self._pre_enqueue = pre_enqueue
        self._wakes_on = wakes_on
        self._initial_backoff_s = initial_backoff_s
        self._max_backoff_s = max_backoff_s
        self._pods: dict[str, QueuedPod] = {}  # every pod that is in a queue
        self._unschedulable: dict[str, QueuedPod] = {}  # those of them that wait for an event, gated ones included
        self._next_flush = 0.0
        self._active: list[tuple[Any, int, QueuedPod]] = []
        self._backoff: list[tuple[float, int, QueuedPod]] = []
        self._error_backoff: list[tuple[float, int, QueuedPod]] = []  # of pods that failed by error
        self._entries = count(1)

    def __len__(self) -> int:
        return len(self._pods)

    def lengths(self) -> dict[str, int]:
        """How many pods wait where; gated ones on their own."""
        lengths = {ACTIVE: 0, BACKOFF: 0, UNSCHEDULABLE: 0, "gated": 0}
        for queued in self._pods.values():
            lengths["gated" if queued.gate else queued.where] += 1
        return lengths

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def uids(self) -> Iterable[str]:
        """Every waiting pod."""
        return self._pods.keys()

    # --- in -------------------------------------------------------------------------------------------------------

    def add(self, pod: PodInfo, now: float, now_us: int) -> None:
        """A new pod to schedule."""
        self._enter(QueuedPod(pod, now_us, queued_at=now), now)

    def update(self, pod: PodInfo, now: float) -> None:
        """A waiting pod changed. One whose labels or spec did is tried again where that may help."""
        queued = self._pods[pod.uid]
        old, queued.pod = queued.pod, pod
        changed = (old.pod.spec, old.labels) != (pod.pod.spec, pod.labels)
        if changed and queued.where == ACTIVE:
            self._place(queued, ACTIVE, now)  # its priority may have changed
        elif changed and queued.where == UNSCHEDULABLE:
            if queued.gate is not None:
                self._enter(queued, now)
            elif Event.POD_CHANGED in self._events(queued):
                self._retry(queued, now)

    def give_back(self, queued: QueuedPod, rejectors: frozenset[str], now: float, *, error: bool = False) -> None:
        """A popped pod was not placed. After an error it backs off; otherwise it waits for an event that may help."""
        queued.rejectors = rejectors
        if error or not rejectors:
            queued.errors += 1
        else:
            queued.rejections += 1
            queued.errors = 0
        queued.queued_at, queued.ready_at, queued.waited_s = now, now + self._backoff_s(queued), {}
        self._pods[queued.uid] = queued
        self._place(queued, UNSCHEDULABLE if rejectors and not error else BACKOFF, now)

    # --- out ------------------------------------------------------------------------------------------------------

    def pop(self, now: float) -> QueuedPod | None:
        """The next pod to schedule. With none active, one whose backoff is not over yet, unless it failed by error."""
        self.flush(now)
        queued = self._first(self._active, ACTIVE) or self._first(self._backoff, BACKOFF)
        if queued is None:
            return None
        self._leave(queued, now)
        del self._pods[queued.uid]
        queued.attempts += 1
        return queued

    def delete(self, uid: str) -> bool:
        """Forget a waiting pod; whether it was waiting."""
        queued = self._pods.pop(uid, None)
        if queued is not None:
            self._leave(queued, queued.since)
        return queued is not None

    # --- time and events ------------------------------------------------------------------------------------------

    def flush(self, now: float) -> None:
        """Backoffs that are over, and pods that nothing has woken for long."""
        for heap in (self._backoff, self._error_backoff):
            while heap and (self._stale(heap[0][1:], BACKOFF) or heap[0][0] <= now):
                _, entry, queued = heapq.heappop(heap)
                if not self._stale((entry, queued), BACKOFF):
                    self._place(queued, ACTIVE, now)
        if now >= self._next_flush:
            self._next_flush = now + FLUSH_EVERY_S
            for queued in [q for q in self._unschedulable.values() if q.gate is None]:
                if now - queued.since >= FLUSH_AFTER_S:
                    self._retry(queued, now)

    def wake(self, event: Event, now: float) -> int:
        """Something happened: retry the pods that it may help. How many."""
        woken = [q for q in self._unschedulable.values() if q.gate is None and event in self._events(q)]
        for queued in woken:
            self._retry(queued, now)
        return len(woken)

    def next_due(self) -> float | None:
        """When `pop` may have something without any event: the end of the first backoff."""
        return min((heap[0][0] for heap in (self._backoff, self._error_backoff) if heap), default=None)

    # --- places ---------------------------------------------------------------------------------------------------

    def _enter(self, queued: QueuedPod, now: float) -> None:
        self._pods[queued.uid] = queued
        queued.gate = self._pre_enqueue(queued.pod)
        self._place(queued, UNSCHEDULABLE if queued.gate else ACTIVE, now)

    def _retry(self, queued: QueuedPod, now: float) -> None:
        self._place(queued, BACKOFF if queued.ready_at > now else ACTIVE, now)

    def _place(self, queued: QueuedPod, where: str, now: float) -> None:
        self._leave(queued, now)
        queued.where, queued.since, queued.entry = where, now, next(self._entries)
        if where == ACTIVE:
            heapq.heappush(self._active, (self._sort_key(queued.pod, queued.queued_at), queued.entry, queued))
        elif where == BACKOFF:
            heap = self._error_backoff if queued.errors else self._backoff
            heapq.heappush(heap, (queued.ready_at, queued.entry, queued))
        else:
            self._unschedulable[queued.uid] = queued

    def _leave(self, queued: QueuedPod, now: float) -> None:
        self._unschedulable.pop(queued.uid, None)
        if queued.where != POPPED:
            queued.waited_s[queued.where] = queued.waited_s.get(queued.where, 0.0) + now - queued.since
        queued.where, queued.entry = POPPED, 0

    def _first(self, heap: list[Any], where: str) -> QueuedPod | None:
        """The heap's first valid entry. Entries of pods that moved on are thrown away."""
        while heap:
            _, entry, queued = heapq.heappop(heap)
            if not self._stale((entry, queued), where):
                return cast(QueuedPod, queued)
        return None

    @staticmethod
    def _stale(entry: tuple[int, QueuedPod], where: str) -> bool:
        number, queued = entry
        return queued.entry != number or queued.where != where

    def _events(self, queued: QueuedPod) -> frozenset[Event]:
        return self._wakes_on(queued.pod, queued.rejectors) if queued.rejectors else EVERY_EVENT

    def _backoff_s(self, queued: QueuedPod) -> float:
        tries = queued.errors or queued.rejections
        doubled = self._initial_backoff_s * 2.0 ** min(tries - 1, 32) if tries else 0.0
        return min(doubled, self._max_backoff_s)
