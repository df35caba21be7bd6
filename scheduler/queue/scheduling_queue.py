"""The scheduling queue: active, backoff, unschedulable.

                  add                      pop                    done (bound, or gone)
    (unknown) ----------> active --------------------> in flight ----------------------->
                 |          ^ backoff is over              |
          gated  |          |<--------- backoff <----------| give_back: an error, or something happened meanwhile
                 |          |              ^               |
                 |          | an event that may help       | give_back: rejected
                 +-----> unschedulable <-------------------+

Owns: which pod is next, and when a rejected one is tried again. Does not own: what an event means to a plugin (their
hints), the cluster's state. Times are monotonic seconds, passed in. Not thread-safe: only the loop's thread touches it.

Source: pkg/scheduler/backend/queue v1.36, with its gates SchedulerQueueingHints and SchedulerPopFromBackoffQ on.

Invariant: a pod is in exactly one place (active, backoff, unschedulable, in flight), and an event that may help one
that is in flight is not forgotten before it is given back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final

from herodotus_record.model import PluginVerdict, Retry, WokenBy
from scheduler.framework.changes import pod_events
from scheduler.framework.events import Event
from scheduler.framework.hints import QueueingHints
from scheduler.objects.pod import PodInfo
from scheduler.queue.heap import PodHeap
from scheduler.queue.in_flight import InFlight
from scheduler.queue.queued_pod import ACTIVE, BACKOFF, GATED, PLACES, POPPED, UNSCHEDULABLE, QueuedPod
from scheduler.queue.waiting import WaitingPods

FLUSH_AFTER_S: Final = 300.0  # an unschedulable pod is tried again after this long even if nothing happened
FLUSH_EVERY_S: Final = 30.0  # how often those are looked for
WINDOW_S: Final = 1.0  # backoffs end on whole seconds; those of one second are ordered as the active queue is

# What moves a pod besides events, as metrics call it.
ATTEMPT_FAILED, BACKOFF_OVER, POPPED_EARLY = "ScheduleAttemptFailure", "BackoffComplete", "PopFromBackoffQ"


class _Requeue(IntEnum):
    """What an event does to a pod that it may help."""

    AFTER_BACKOFF = 1
    AT_ONCE = 2  # a plugin that said Pending is content


class SchedulingQueue:
    """Of all profiles."""

    def __init__(
        self,
        sort_key: Callable[[PodInfo, float], Any],
        pre_enqueue: Callable[[PodInfo], PluginVerdict | None],
        hints: Mapping[str, QueueingHints],
        initial_backoff_s: float = 1.0,
        max_backoff_s: float = 10.0,
    ) -> None:
        """`hints`: by scheduler name."""
        self.incoming: Counter[tuple[str, str]] = Counter()  # pods that came, by (queue, event), since the start
        self._sort_key = sort_key
        self._pre_enqueue = pre_enqueue
        self._hints = hints
        self._initial_backoff_s = initial_backoff_s
        self._max_backoff_s = max_backoff_s
        self._window_s = min(WINDOW_S, initial_backoff_s)
        self._pods: dict[str, QueuedPod] = {}  # every pod that is in a queue
        self._lengths = dict.fromkeys(PLACES, 0)
        self._active = PodHeap()
        self._backoff = PodHeap()
        self._error_backoff = PodHeap()  # of pods that failed by error
        self._waiting = WaitingPods(hints)
        self._in_flight = InFlight()
        self._next_flush = 0.0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[QueuedPod]:
        """Every pod that is in a queue."""
        return iter(list(self._pods.values()))

    def get(self, uid: str) -> QueuedPod | None:
        """The pod, if it is in a queue or in flight."""
        return self._pods.get(uid) or self._in_flight.get(uid)

    def lengths(self) -> dict[str, int]:
        """How many pods wait where; gated ones on their own."""
        return dict(self._lengths)

    def in_flight(self) -> tuple[int, int]:
        """How many pods were popped and are not done, and how many events are kept for them."""
        return len(self._in_flight), self._in_flight.events

    # --- in -------------------------------------------------------------------------------------------------------

    def add(self, pod: PodInfo, now: float, now_us: int) -> None:
        """A new pod to schedule."""
        queued = QueuedPod(pod, now_us, queued_at=now, since=now)
        self._let_in(queued, ACTIVE, now, Event.WAITING_POD_ADD.label)

    def update(self, pod: PodInfo, now: float) -> None:
        """A pod that waits or is in flight changed. One that waits for an event is tried again where that may help."""
        flying = self._in_flight.get(pod.uid)
        queued = self._pods[pod.uid] if flying is None else flying
        old, queued.pod = queued.pod, pod
        if flying is not None:
            for event in pod_events(old, pod):
                self._in_flight.note(event, old, pod)
        elif queued.where in (ACTIVE, BACKOFF):
            self._file(queued)  # its priority may have changed
        else:
            self._file(queued)
            for event in pod_events(old, pod):
                how = self._worth(queued, event, old, pod)
                if how is not None and self._requeue(queued, how, event.label, now):
                    break

    def give_back(
        self,
        queued: QueuedPod,
        rejectors: frozenset[str],
        now: float,
        *,
        error: bool = False,
        pending: frozenset[str] = frozenset(),
    ) -> None:
        """A popped pod was not placed.

        After an error, or where something happened meanwhile that may help, it backs off; otherwise it waits for an
        event. `pending`: those of the rejectors that said Pending.
        """
        queued.rejectors, queued.pending = (frozenset(), frozenset()) if error else (rejectors, pending)
        if queued.rejectors:
            queued.rejections += 1
            queued.errors = 0
        else:
            queued.errors += 1
        queued.queued_at = queued.since = now
        queued.waited_s, queued.woken_by, queued.gate = {}, None, None
        queued.ready_at = self._backoff_end(queued.errors or queued.rejections, now)
        missed = self._missed(queued)
        self._in_flight.done(queued.uid)
        if missed is None:
            self._place(queued, UNSCHEDULABLE, now, ATTEMPT_FAILED)
        else:
            self._requeue(queued, missed, ATTEMPT_FAILED, now)

    def retry(self, queued: QueuedPod, now: float, now_us: int, *, error: bool) -> Retry:
        """When a popped pod is tried again if it is given back now. `now_us`: wall clock, as records have it."""
        tries = 1 + (queued.errors if error else queued.rejections)
        backoff_s = max(self._backoff_end(tries, now) - now, 0.0)
        not_before_us = now_us + int(backoff_s * 1e6)
        if error:
            return Retry(BACKOFF, not_before_us, None)
        return Retry(UNSCHEDULABLE, not_before_us, now_us + int((FLUSH_AFTER_S + FLUSH_EVERY_S) * 1e6))

    # --- out ------------------------------------------------------------------------------------------------------

    def pop(self, now: float) -> QueuedPod | None:
        """The next pod to schedule. With none active, one whose backoff is not over yet, unless it failed by error.

        It is in flight until it is given back or `done`.
        """
        self.flush(now)
        first = self._active.first()
        if first is None:
            first = self._backoff.first()
            if first is None:
                return None
            self.incoming[ACTIVE, POPPED_EARLY] += 1
        queued = first[1]
        self._leave(queued, now)
        queued.attempts += 1
        self._in_flight.start(queued)
        return queued

    def done(self, uid: str) -> None:
        """A popped pod is bound, or no longer to be scheduled. Harmless for one that is not in flight."""
        self._in_flight.done(uid)

    def delete(self, uid: str) -> QueuedPod | None:
        """Forget a waiting pod, and say which it was. One in flight stays so until it is done."""
        queued = self._pods.get(uid)
        if queued is not None:
            self._leave(queued, queued.since)
        return queued

    # --- time and events ------------------------------------------------------------------------------------------

    def flush(self, now: float) -> None:
        """Backoffs that are over, and pods that nothing has woken for long."""
        for heap in (self._backoff, self._error_backoff):
            while (first := heap.first()) is not None and first[1].ready_at <= now:
                self._place(first[1], ACTIVE, now, BACKOFF_OVER)
        if now >= self._next_flush:
            self._next_flush = now + FLUSH_EVERY_S
            for queued in self._waiting:
                if queued.gate is None and now - queued.queued_at > FLUSH_AFTER_S:
                    queued.woken_by = WokenBy(Event.TIMEOUT.label, "")
                    self._requeue(queued, _Requeue.AFTER_BACKOFF, Event.TIMEOUT.label, now)

    def wake(
        self, event: Event, now: float, old: Any = None, new: Any = None, among: Callable[[PodInfo], bool] | None = None
    ) -> int:
        """Something happened: retry the pods that it may help, and say how many.

        `old`, `new`: the object before and after, as hints get it. `among`: only these of the waiting pods.
        """
        worth: dict[str, tuple[QueuedPod, _Requeue]] = {}
        for plugin, pods in self._waiting.helped_by(event, old, new):
            because = WokenBy(event.label, plugin)
            for queued in pods:
                if (among is not None and not among(queued.pod)) or not self._may_be_ungated_by(queued, event):
                    continue
                said = self._says(queued, plugin)
                if queued.uid not in worth or said > worth[queued.uid][1]:
                    queued.woken_by = because
                    worth[queued.uid] = (queued, said)
        moved = sum(self._requeue(queued, said, event.label, now) for queued, said in worth.values())
        self._in_flight.note(event, old, new)
        return moved

    def activate(self, uid: str, now: float) -> bool:
        """Try this pod now, whatever it waits for; whether it was waiting. One in flight will not wait for an event."""
        queued = self._pods.get(uid)
        if queued is None:
            flying = self._in_flight.get(uid)
            if flying is not None:
                self._in_flight.note(Event.FORCE_ACTIVATE, None, flying.pod)
            return False
        label = Event.FORCE_ACTIVATE.label
        if queued.where == BACKOFF:
            self._place(queued, ACTIVE, now, label)
        elif queued.where != ACTIVE:
            queued.woken_by = WokenBy(label, "")
            self._requeue(queued, _Requeue.AT_ONCE, label, now)
        return queued.where == ACTIVE

    def next_due(self) -> float | None:
        """When `pop` may have something without any event: the end of the first backoff."""
        firsts = [heap.first() for heap in (self._backoff, self._error_backoff)]
        return min((first[1].ready_at for first in firsts if first is not None), default=None)

    # --- whether an event may help ----------------------------------------------------------------------------------

    def _missed(self, queued: QueuedPod) -> _Requeue | None:
        """What happened during the attempt means to the pod."""
        happened = self._in_flight.since_start(queued.uid) if queued.uid in self._in_flight else []
        if not queued.rejectors or happened is None:
            return _Requeue.AFTER_BACKOFF
        best: _Requeue | None = None
        for event, old, new in happened:
            said = self._worth(queued, event, old, new)
            if said is _Requeue.AT_ONCE or (said and not queued.pending):
                return said
            best = best or said
        return best

    def _worth(self, queued: QueuedPod, event: Event, old: Any, new: Any) -> _Requeue | None:
        """Ask the hints of the pod's rejectors about one event, for this pod alone."""
        if event.wildcard:
            if new is not None and new.uid != queued.uid:
                return None
            queued.woken_by = WokenBy(event.label, "")
            return _Requeue.AFTER_BACKOFF
        best: _Requeue | None = None
        hints = self._hints[queued.pod.pod.spec.scheduler_name]
        for plugin in sorted(queued.rejectors):
            if not hints.may_help(plugin, event, queued.pod, old, new):
                continue
            said = self._says(queued, plugin)
            if best is None or said > best:
                best, queued.woken_by = said, WokenBy(event.label, plugin)
        return best

    def _may_be_ungated_by(self, queued: QueuedPod, event: Event) -> bool:
        """A gated pod is worth a look where its gate asks about such events."""
        if queued.gate is None:
            return True
        return self._hints[queued.pod.pod.spec.scheduler_name].asks(queued.gate.plugin, event)

    @staticmethod
    def _says(queued: QueuedPod, plugin: str) -> _Requeue:
        return _Requeue.AT_ONCE if plugin in queued.pending else _Requeue.AFTER_BACKOFF

    # --- places ---------------------------------------------------------------------------------------------------

    def _requeue(self, queued: QueuedPod, how: _Requeue, label: str, now: float) -> bool:
        """Out of the unschedulable pods, unless a gate keeps it there; whether it is in another queue now."""
        if how is _Requeue.AFTER_BACKOFF and queued.ready_at > now:
            return self._let_in(queued, BACKOFF, now, label)
        return self._let_in(queued, ACTIVE, now, label)

    def _let_in(self, queued: QueuedPod, where: str, now: float, label: str) -> bool:
        """Into the active or backoff queue if no PreEnqueue plugin objects; otherwise its gate is noted."""
        gate = self._pre_enqueue(queued.pod)
        if gate is not None:
            queued.rejectors |= {gate.plugin}
        queued.gate = gate
        if gate is not None and queued.where == GATED:
            self._file(queued)
        else:
            self._place(queued, where if gate is None else GATED, now, label)
        return gate is None

    def _place(self, queued: QueuedPod, where: str, now: float, label: str) -> None:
        self._leave(queued, now)
        queued.where, queued.since = where, now
        self._pods[queued.uid] = queued
        self._lengths[where] += 1
        self.incoming[UNSCHEDULABLE if where == GATED else where, label] += 1
        self._file(queued)

    def _file(self, queued: QueuedPod) -> None:
        key = self._sort_key(queued.pod, queued.queued_at)
        if queued.where == ACTIVE:
            self._active.push(key, queued)
        elif queued.where == BACKOFF:
            heap = self._backoff if queued.rejectors else self._error_backoff
            heap.push((queued.ready_at, key), queued)
        else:
            self._waiting.add(queued)

    def _leave(self, queued: QueuedPod, now: float) -> None:
        if queued.where == POPPED:
            return
        queued.waited_s[queued.where] = queued.waited_s.get(queued.where, 0.0) + now - queued.since
        self._lengths[queued.where] -= 1
        if queued.where in (ACTIVE, BACKOFF):
            for heap in (self._active, self._backoff, self._error_backoff):
                heap.discard(queued.uid)
        else:
            self._waiting.remove(queued.uid)
        queued.where = POPPED
        del self._pods[queued.uid]

    def _backoff_end(self, tries: int, now: float) -> float:
        """The first moment after the window in which the backoff ends; 0 where backoff is switched off."""
        if not self._max_backoff_s:
            return 0.0
        backoff_s = min(self._initial_backoff_s * 2.0 ** min(tries - 1, 32), self._max_backoff_s)
        return (math.floor((now + backoff_s) / self._window_s) + 1) * self._window_s
