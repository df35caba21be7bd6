"""The scheduling queue: active, backoff, unschedulable.

                  add                      pop                    done (bound or deleted)
    (unknown) ----------> active --------------------> in flight ----------------------->
                 |          ^ backoff is over              |
          gated  |          |<--------- backoff <----------| returned: error, or an event in the meantime
                 |          |              ^               |
                 |          | event that may help          | returned: rejected
                 +-----> unschedulable <-------------------+

`add_unschedulable_if_not_present` returns a pod that was popped and not placed.

Owns: which pod is next, and when a rejected pod is tried again. Does not own: whether an event may help (the plugins'
queueing hints), the cluster's state. Times are monotonic seconds, passed in. Not thread-safe: only the loop's thread
uses it.

Source: pkg/scheduler/backend/queue v1.36, with its gate SchedulerQueueingHints on.

Invariant: a pod is in exactly one place (active, backoff, unschedulable, in flight), and an event that occurs while a
pod is in flight is kept until the pod returns.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from herodotus_record.model import PluginVerdict, RequeueEvent, Retry
from scheduler.backend.queue.in_flight import InFlight
from scheduler.backend.queue.queued_pod import ACTIVE, BACKOFF, GATED, PLACES, POPPED, UNSCHEDULABLE, PodHeap, QueuedPod
from scheduler.backend.queue.unschedulable_pods import UnschedulablePods
from scheduler.engine.framework.events import ClusterEvent
from scheduler.engine.framework.queueing_hints import QueueingHints
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.update_events import list_pod_events
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.rules import DEFAULT_RULES, Rules
from scheduler.engine.rules.feature_gates import GENERIC_WORKLOAD, POP_FROM_BACKOFF

FLUSH_AFTER_S: Final = 300.0  # an unschedulable pod is tried again after this time even without an event
FLUSH_EVERY_S: Final = 30.0  # how often the queue looks for such pods
MAX_DENIALS: Final = 1  # preemptions in a row that may fail before the pod waits for its backoff
WINDOW_S: Final = 1.0  # backoffs end on whole seconds; pods with the same end are ordered as in the active queue

# What moves a pod besides cluster events, by its name in metrics.
ATTEMPT_FAILED, BACKOFF_OVER, POPPED_EARLY = "ScheduleAttemptFailure", "BackoffComplete", "PopFromBackoffQ"


class _Requeue(IntEnum):
    """Whether an event moves a pod to the active queue after its backoff or at once."""

    AFTER_BACKOFF = 1
    AT_ONCE = 2  # the event is for a plugin that returned Pending


class BackoffLimits(NamedTuple):
    """The shortest and the longest backoff of a pod, in seconds."""

    initial_s: float = 1.0
    max_s: float = 10.0


class SchedulingQueue:
    """The scheduling queue of all profiles, with kube-scheduler's active, backoff and unschedulable queues."""

    def __init__(
        self,
        sort_key: Callable[[PodInfo, float], Any],
        pre_enqueue: Callable[[PodInfo], PluginVerdict | None],
        hints: Mapping[str, QueueingHints],
        backoff: BackoffLimits,
        rules: Rules = DEFAULT_RULES,
    ) -> None:
        """Create an empty queue.

        `sort_key` orders pods by the pod and its queueing time. `pre_enqueue` returns the verdict of the plugin that
        gates a pod, or None. `hints` maps a scheduler name to the queueing hints of its profile.
        """
        self.incoming: Counter[tuple[str, str]] = Counter()  # number of pods by (queue, event) since the start
        self._sort_key = sort_key
        self._pre_enqueue = pre_enqueue
        self._hints = hints
        self._initial_backoff_s, self._max_backoff_s = backoff
        self._window_s = min(WINDOW_S, backoff.initial_s)
        self.pops_from_backoff = rules.enabled(POP_FROM_BACKOFF)
        self._schedules_groups = rules.enabled(GENERIC_WORKLOAD)
        self._pods: dict[str, QueuedPod] = {}  # every pod that is in a queue
        self._lengths = dict.fromkeys(PLACES, 0)
        self._active = PodHeap()
        self._backoff = PodHeap()
        self._full_backoff = PodHeap()  # whole backoff: no event moved them, or their evictions fail
        self._unschedulable = UnschedulablePods(hints)
        self._in_flight = InFlight()
        self._next_flush = 0.0

    @classmethod
    def for_profiles(
        cls, frameworks: Mapping[str, Framework], initial_backoff_s: float = 1.0, max_backoff_s: float = 10.0
    ) -> SchedulingQueue:
        """Return an empty queue for the pods of these profiles. `frameworks` maps a scheduler name to its framework."""
        return cls(
            next(iter(frameworks.values())).profile.queue_sort[0].sort_key,
            lambda pod: frameworks[pod.pod.spec.scheduler_name].run_pre_enqueue(pod),
            {name: framework.profile.hints for name, framework in frameworks.items()},
            BackoffLimits(initial_backoff_s, max_backoff_s),
            next(iter(frameworks.values())).profile.rules,
        )

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[QueuedPod]:
        """Iterate over a copy of the pods in all queues, without those in flight."""
        return iter(list(self._pods.values()))

    def get(self, uid: str) -> QueuedPod | None:
        """Return the pod with this UID, or None if it is neither in a queue nor in flight."""
        return self._pods.get(uid) or self._in_flight.get(uid)

    def lengths(self) -> dict[str, int]:
        """Return the number of pods in each queue by name: active, backoff, unschedulable and gated."""
        return dict(self._lengths)

    def in_flight(self) -> tuple[int, int]:
        """Return the number of pods in a scheduling or binding cycle, and of the cluster events kept for them."""
        return len(self._in_flight), self._in_flight.events

    # --- in -------------------------------------------------------------------------------------------------------

    def add(self, pod: PodInfo, now: float, now_us: int) -> None:
        """Add a new pod to the active queue, or to the gated pods if a PreEnqueue plugin gates it."""
        queued = QueuedPod(pod, now_us, queued_at=now, since=now)
        self._enqueue(queued, ACTIVE, now, ClusterEvent.WAITING_POD_ADD.label)

    def update(self, pod: PodInfo, now: float) -> None:
        """Replace the object of a pod that is in a queue or in flight.

        An unschedulable or gated pod is requeued if the update may help it.
        """
        flying = self._in_flight.get(pod.uid)
        queued = self._pods[pod.uid] if flying is None else flying
        old, queued.pod = queued.pod, pod
        if flying is not None:
            for event in list_pod_events(old, pod):
                self._in_flight.add_event(event, old, pod)
        elif queued.where in (ACTIVE, BACKOFF):
            self._insert(queued)  # its priority may have changed
        else:
            self._insert(queued)
            for event in list_pod_events(old, pod):
                how = self._evaluate_event(queued, event, old, pod)
                if how is not None and self._requeue(queued, how, event.label, now):
                    break

    def add_unschedulable_if_not_present(
        self,
        queued: QueuedPod,
        rejectors: frozenset[str],
        now: float,
        *,
        error: bool = False,
        pending: frozenset[str] = frozenset(),
    ) -> None:
        """Put a pod that was popped and not placed back into the queue.

        It goes to the backoff queue after an error, or if an event during the attempt may help it, and otherwise to the
        unschedulable queue. `rejectors` names the plugins that rejected it, and `pending` those of them with the status
        Pending.
        """
        queued.rejectors, queued.pending = (frozenset(), frozenset()) if error else (rejectors, pending)
        if queued.rejectors:
            queued.rejections += 1
            queued.errors = 0
        else:
            queued.errors += 1
        queued.queued_at = queued.since = now
        queued.waited_s, queued.requeued_by, queued.gate = {}, None, None
        queued.ready_at = self._backoff_end(queued.errors or queued.rejections, now)
        missed = self._evaluate_missed_events(queued)
        self._in_flight.done(queued.uid)
        if missed is None:
            self._move(queued, UNSCHEDULABLE, now, ATTEMPT_FAILED)
        else:
            self._requeue(queued, missed, ATTEMPT_FAILED, now)

    def predict_retry(self, queued: QueuedPod, now: float, now_us: int, *, error: bool) -> Retry:
        """Return when a popped pod will be tried again if it goes back to the queue now.

        `now` is monotonic time in seconds, `now_us` the wall clock in microseconds. `error` says that the attempt ended
        with an error.
        """
        tries = 1 + (queued.errors if error else queued.rejections)
        backoff_s = max(self._backoff_end(tries, now) - now, 0.0)
        not_before_us = now_us + int(backoff_s * 1e6)
        if error or self._backs_off_always(queued):
            return Retry(BACKOFF, not_before_us, None)
        return Retry(UNSCHEDULABLE, not_before_us, now_us + int((FLUSH_AFTER_S + FLUSH_EVERY_S) * 1e6))

    # --- out ------------------------------------------------------------------------------------------------------

    def pop(self, now: float) -> QueuedPod | None:
        """Remove and return the next pod to schedule, or None if no pod is ready.

        If the active queue is empty, a pod that an event moved is taken early from backoff, unless the gate
        SchedulerPopFromBackoffQ is off. The pod is in flight until it goes back to the queue or until `done`.
        """
        self.flush(now)
        first = self._active.first()
        if first is None:
            first = self._backoff.first() if self.pops_from_backoff else None
            if first is None:
                return None
            self.incoming[ACTIVE, POPPED_EARLY] += 1
        return self._start_attempt(first[1], now)

    def pop_pod(self, uid: str, now: float) -> QueuedPod | None:
        """Remove and return the pod with this UID for an attempt, or None if it is in no queue or gated.

        A pod in the backoff or unschedulable queue is moved to the active queue first, as by `activate`.
        """
        queued = self._pods.get(uid)
        if queued is None or not self.activate(uid, now):
            return None
        return self._start_attempt(queued, now)

    def _start_attempt(self, queued: QueuedPod, now: float) -> QueuedPod:
        self._remove(queued, now)
        queued.attempts += 1
        self._in_flight.start(queued)
        return queued

    def set_aside(self, queued: QueuedPod, now: float) -> None:
        """Put a popped pod into the active queue so that `pop` skips it and only `pop_pod` returns it.

        The pod's number of attempts is reduced by one, because the attempt for which it was popped does not take place.
        """
        self._in_flight.done(queued.uid)
        queued.attempts -= 1
        queued.where, queued.since = ACTIVE, now
        self._pods[queued.uid] = queued
        self._lengths[ACTIVE] += 1

    def done(self, uid: str) -> None:
        """Remove a bound or deleted pod from the pods in flight (in a scheduling or binding cycle), if it is there."""
        self._in_flight.done(uid)

    def delete(self, uid: str) -> QueuedPod | None:
        """Remove the pod with this UID from its queue and return it, or None if it is in no queue.

        A pod in flight stays in flight until `done`.
        """
        queued = self._pods.get(uid)
        if queued is not None:
            self._remove(queued, queued.since)
        return queued

    # --- time and events ------------------------------------------------------------------------------------------

    def flush(self, now: float) -> None:
        """Move pods whose backoff is over to the active queue.

        Requeue pods that were unschedulable for FLUSH_AFTER_S.
        """
        for heap in (self._backoff, self._full_backoff):
            while (first := heap.first()) is not None and first[1].ready_at <= now:
                if self.pops_from_backoff:
                    self._move(first[1], ACTIVE, now, BACKOFF_OVER)  # PreEnqueue ran before the backoff
                else:
                    self._enqueue(first[1], ACTIVE, now, BACKOFF_OVER)
        if now >= self._next_flush:
            self._next_flush = now + FLUSH_EVERY_S
            for queued in self._unschedulable:
                if queued.gate is None and now - queued.queued_at > FLUSH_AFTER_S:
                    queued.requeued_by = RequeueEvent(ClusterEvent.TIMEOUT.label, "")
                    self._requeue(queued, _Requeue.AFTER_BACKOFF, ClusterEvent.TIMEOUT.label, now)

    def move_all_to_active_or_backoff_queue(
        self,
        event: ClusterEvent,
        now: float,
        old: Any = None,
        new: Any = None,
        among: Callable[[PodInfo], bool] | None = None,
    ) -> int:
        """Requeue the unschedulable pods that the event may help, and return how many were requeued.

        `old` and `new` are the event's object before and after, for the queueing hints. If `among` is given, only pods
        for which it returns True are requeued. The event is kept for pods in flight.
        """
        to_move: dict[str, tuple[QueuedPod, _Requeue]] = {}
        for plugin, pods in self._unschedulable.select_for_event(event, old, new):
            requeue_event = RequeueEvent(event.label, plugin)
            for queued in pods:
                if (among is not None and not among(queued.pod)) or not self._may_be_ungated(queued, event):
                    continue
                how = self._requeue_mode(queued, plugin)
                if queued.uid not in to_move or how > to_move[queued.uid][1]:
                    queued.requeued_by = requeue_event
                    to_move[queued.uid] = (queued, how)
        moved = sum(self._requeue(queued, how, event.label, now) for queued, how in to_move.values())
        self._in_flight.add_event(event, old, new)
        return moved

    def run_pre_enqueue_again(self, now: float) -> None:
        """Run PreEnqueue for all gated pods again, and move those that it lets pass to the active queue.

        Call it once every kind was listed: pods that were listed before the objects that PreEnqueue reads, such as
        their PodGroup, are gated without a reason, and no event follows.
        """
        for queued in [queued for queued in self._unschedulable if queued.gate is not None]:
            self._enqueue(queued, ACTIVE, now, ClusterEvent.WAITING_POD_ADD.label)

    def activate(self, uid: str, now: float) -> bool:
        """Move the pod with this UID to the active queue at once, and return whether it is there afterwards.

        Return False if the pod is in no queue. A pod in flight is requeued when its attempt ends without a placement.
        """
        queued = self._pods.get(uid)
        if queued is None:
            flying = self._in_flight.get(uid)
            if flying is not None:
                self._in_flight.add_event(ClusterEvent.FORCE_ACTIVATE, None, flying.pod)
            return False
        label = ClusterEvent.FORCE_ACTIVATE.label
        if queued.where == BACKOFF:
            self._move(queued, ACTIVE, now, label)
        elif queued.where != ACTIVE:
            queued.requeued_by = RequeueEvent(label, "")
            self._requeue(queued, _Requeue.AT_ONCE, label, now)
        return queued.where == ACTIVE

    def end_preemption(self, uid: str, now: float, *, failed: bool) -> None:
        """Try to move a preemptor to the active queue after its evictions ended, if one failed or if it is gated.

        After the second failure in a row it waits for its backoff first, also if the active queue is empty: upstream
        activates it at once, and then a webhook or budget that denies evictions causes 50 to 140 attempts a second.
        """
        queued = self.get(uid)
        if queued is None:
            return
        queued.denials = queued.denials + 1 if failed else 0
        if not failed and queued.gate is None:
            return
        if queued.denials <= MAX_DENIALS or queued.where == POPPED:
            self.activate(uid, now)
        elif queued.where in (UNSCHEDULABLE, GATED):
            label = ClusterEvent.FORCE_ACTIVATE.label
            queued.requeued_by = RequeueEvent(label, "")
            self._requeue(queued, _Requeue.AFTER_BACKOFF, label, now)

    def next_backoff_end(self) -> float | None:
        """Return the monotonic time at which the first backoff ends, or None if no pod is in backoff."""
        firsts = [heap.first() for heap in (self._backoff, self._full_backoff)]
        return min((first[1].ready_at for first in firsts if first is not None), default=None)

    # --- whether an event may help ----------------------------------------------------------------------------------

    def _evaluate_missed_events(self, queued: QueuedPod) -> _Requeue | None:
        """Return how to requeue a pod for the events that occurred during its attempt, or None if none helps."""
        events = self._in_flight.events_since_start(queued.uid) if queued.uid in self._in_flight else []
        if not queued.rejectors or events is None or self._backs_off_always(queued):
            return _Requeue.AFTER_BACKOFF
        best: _Requeue | None = None
        for event, old, new in events:
            how = self._evaluate_event(queued, event, old, new)
            if how is _Requeue.AT_ONCE or (how and not queued.pending):
                return how
            best = best or how
        return best

    def _evaluate_event(self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> _Requeue | None:
        """Return how to requeue a pod for one event, or None if the event cannot help it.

        The queueing hints of the plugins that rejected the pod decide. The pod's `requeued_by` is set to the event that
        helps.
        """
        if event.wildcard:
            if new is not None and new.uid != queued.uid:
                return None
            queued.requeued_by = RequeueEvent(event.label, "")
            return _Requeue.AFTER_BACKOFF
        best: _Requeue | None = None
        hints = self._hints[queued.pod.pod.spec.scheduler_name]
        for plugin in sorted(queued.rejectors):
            if not hints.may_help(plugin, event, queued.pod, old, new):
                continue
            how = self._requeue_mode(queued, plugin)
            if best is None or how > best:
                best, queued.requeued_by = how, RequeueEvent(event.label, plugin)
        return best

    def _backs_off_always(self, queued: QueuedPod) -> bool:
        """Return whether every failed attempt sends the pod to backoff.

        That is so for a pod of a pod group, if pod groups are enabled.
        """
        return self._schedules_groups and queued.pod.pod_group is not None

    def _may_be_ungated(self, queued: QueuedPod, event: ClusterEvent) -> bool:
        """Return whether the plugin that gates the pod registered for the event; True for a pod that is not gated."""
        if queued.gate is None:
            return True
        return self._hints[queued.pod.pod.spec.scheduler_name].is_registered(queued.gate.plugin, event)

    @staticmethod
    def _requeue_mode(queued: QueuedPod, plugin: str) -> _Requeue:
        return _Requeue.AT_ONCE if plugin in queued.pending else _Requeue.AFTER_BACKOFF

    # --- places ---------------------------------------------------------------------------------------------------

    def _requeue(self, queued: QueuedPod, how: _Requeue, label: str, now: float) -> bool:
        """Move a pod to the active queue, or to the backoff queue if `how` says so and its backoff is not over.

        Return False if a PreEnqueue plugin gates the pod instead. `label` names the event for metrics.
        """
        if how is _Requeue.AFTER_BACKOFF and queued.ready_at > now:
            return self._enqueue(queued, BACKOFF, now, label)
        return self._enqueue(queued, ACTIVE, now, label)

    def _enqueue(self, queued: QueuedPod, where: str, now: float, label: str) -> bool:
        """Move a pod to the queue `where` (active or backoff), or to the gated pods if a PreEnqueue plugin gates it.

        Return whether the pod was not gated. For the backoff queue, PreEnqueue runs only if the queue pops pods before
        their backoff ends. `label` names the event for metrics.
        """
        runs = where == ACTIVE or self.pops_from_backoff
        gate = self._pre_enqueue(queued.pod) if runs else None
        if gate is not None:
            queued.rejectors |= {gate.plugin}
        queued.gate = gate
        if gate is not None and queued.where == GATED:
            self._insert(queued)
        else:
            self._move(queued, where if gate is None else GATED, now, label)
        return gate is None

    def _move(self, queued: QueuedPod, where: str, now: float, label: str) -> None:
        self._remove(queued, now)
        queued.where, queued.since = where, now
        if where == ACTIVE and queued.first_active is None:
            queued.first_active = now
        self._pods[queued.uid] = queued
        self._lengths[where] += 1
        self.incoming[UNSCHEDULABLE if where == GATED else where, label] += 1
        self._insert(queued)

    def _insert(self, queued: QueuedPod) -> None:
        key = self._sort_key(queued.pod, queued.queued_at)
        if queued.where == ACTIVE:
            self._active.push(key, queued)
        elif queued.where == BACKOFF:
            # Without an event since the last attempt, the next one would fail in the same way, without a pause.
            may_leave_early = queued.requeued_by is not None and queued.denials <= MAX_DENIALS
            heap = self._backoff if may_leave_early else self._full_backoff
            heap.push((queued.ready_at, key), queued)
        else:
            self._unschedulable.add(queued)

    def _remove(self, queued: QueuedPod, now: float) -> None:
        if queued.where == POPPED:
            return
        queued.waited_s[queued.where] = queued.waited_s.get(queued.where, 0.0) + now - queued.since
        self._lengths[queued.where] -= 1
        if queued.where in (ACTIVE, BACKOFF):
            for heap in (self._active, self._backoff, self._full_backoff):
                heap.discard(queued.uid)
        else:
            self._unschedulable.remove(queued.uid)
        queued.where = POPPED
        del self._pods[queued.uid]

    def _backoff_end(self, tries: int, now: float) -> float:
        """Return the monotonic time at which the backoff after `tries` failures ends, or 0 if backoff is disabled.

        If the queue pops pods before their backoff ends, it is rounded up to the end of a window of at most one second:
        pods of one window are ordered as in the active queue.
        """
        if not self._max_backoff_s:
            return 0.0
        backoff_s = min(self._initial_backoff_s * 2.0 ** min(tries - 1, 32), self._max_backoff_s)
        if not self.pops_from_backoff:
            return now + backoff_s
        return (math.floor((now + backoff_s) / self._window_s) + 1) * self._window_s
