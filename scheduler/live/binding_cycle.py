"""The binding cycle of every pod: from the chosen node to the bound pod, or back to the queue.

    assume, Reserve, Permit -> [waits on Permit] -> PreBind -> [parked: a plugin waits] -> Bind -> PostBind
                      |                 |              |                |                  |
                      +--------- on failure: Unreserve in reverse, forget, back to the queue

Owns: the pods whose binding is in flight, their outcomes in the record, and undoing a failed binding. Does not own:
threads (`binding`), the queue's rules. Only the loop's thread calls this module, and it never waits here.

Source: pkg/scheduler/schedule_one.go v1.36 (prepareForBindingCycle, bindingCycle, handleBindingCycleError).

Invariant: the end of each phase is recorded as an Outcome before the next begins, and so is the start of each wait
(code Wait, not final), so that after a crash the record says where the pod was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Final, Protocol

import numpy as np

from herodotus_record import reasons
from herodotus_record.model import Code, Decision, PluginVerdict, Verdict
from scheduler import klog
from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.queue import QueuedPod, SchedulingQueue
from scheduler.engine.cycle import CycleResult
from scheduler.engine.framework.plugin_results import join_reasons
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.verdicts import error
from scheduler.engine.framework.waiting import WaitingPod
from scheduler.engine.objects.pod import PodInfo
from scheduler.live.binding import Assumed, Binder, BindingResult, PendingPreBind
from scheduler.live.metrics import ERROR, SCHEDULED, SchedulerMetrics
from scheduler.recorder.recorder import PhaseResult, Recorder

POLL_S: Final = 1.0  # how often a waiting PreBind plugin is polled, upstream's interval


@dataclass
class InFlightBinding:
    """A pod whose binding is in flight. The event handlers set `deleted` if the pod is deleted before the binding ends.

    `evaluated` and `feasible` are the numbers of nodes that its scheduling cycle evaluated and found feasible.
    """

    queued: QueuedPod
    assumed: Assumed
    evaluated: int
    feasible: int
    deleted: bool = False


@dataclass(frozen=True)
class PermitResult:
    """The end of a pod's wait on Permit.

    `refusal` is None if every plugin allowed the pod, else the rejecting verdict.
    """

    uid: str
    refusal: PluginVerdict | None


class BindingCallbacks(Protocol):
    """What the scheduling loop does when a binding cycle ends."""

    def handle_scheduling_failure(
        self,
        queued: QueuedPod,
        message: str,
        rejectors: frozenset[str],
        *,
        failed: bool,
        pending: frozenset[str] = frozenset(),
    ) -> None:
        """Return a pod that was not bound to the queue, after an error (`failed`) or a rejection.

        `rejectors` are the plugins that rejected it, and `pending` those of them whose status code was Pending.
        """

    def handle_unreserved(self, assumed: Assumed) -> None:
        """Requeue pods that may fit now that this pod no longer counts on its node."""

    def handle_bound(self, assumed: Assumed) -> None:
        """Report that the pod is bound."""


class BindingCycles:
    """The binding cycles of all pods.

    `in_flight` maps a pod's UID to its binding and is shared with the event handlers.
    """

    def __init__(
        self,
        shared: ClusterState,
        in_flight: dict[str, InFlightBinding],
        queue: SchedulingQueue,
        recorder: Recorder,
        metrics: SchedulerMetrics,
        binder: Binder,
        expect: Callable[[InFlightBinding], None],
        permitted: Callable[[PermitResult], None],
        callbacks: BindingCallbacks,
    ) -> None:
        """Take references to the loop's parts.

        `expect` writes the chosen node into the status of a pod that waits on Permit. `permitted` receives the end of
        such a wait in any thread and must only enqueue it.
        """
        self._shared = shared
        self._in_flight = in_flight
        self._queue = queue
        self._recorder = recorder
        self._metrics = metrics
        self._binder = binder
        self._expect = expect
        self._permitted = permitted
        self._callbacks = callbacks
        self._parked: dict[str, tuple[PendingPreBind, float]] = {}  # with the time of the next poll
        self._waiting_since: dict[str, float] = {}

    # --- in the scheduling cycle ------------------------------------------------------------------------------------

    def start(self, queued: QueuedPod, framework: Framework, result: CycleResult, decision: Decision) -> None:
        """Assume the pod on its chosen node and run Reserve and Permit.

        Then submit its binding, or let it wait on Permit. A pod that a plugin rejects returns to the queue.
        """
        assumed = self.reserve(queued, framework, result, decision)
        if assumed is None:
            return
        pod, node, state = assumed.pod, assumed.node, assumed.state
        permit = framework.run_permit(state, pod, node)
        if isinstance(permit, PluginVerdict):
            self._refused(queued, assumed, "Permit", permit)
            return
        pre_binds = framework.run_pre_bind_pre_flight(state, pod, node)
        assumed = replace(assumed, pre_binds=pre_binds, expected=bool(permit))
        trace = result.trace
        flight = InFlightBinding(
            queued, assumed, int(np.count_nonzero(trace.evaluated)), int(np.count_nonzero(trace.feasible))
        )
        self._in_flight[pod.uid] = flight
        if permit:
            self._wait(flight, permit)
        else:
            self._binder.submit(assumed)

    def reserve(
        self, queued: QueuedPod, framework: Framework, result: CycleResult, decision: Decision
    ) -> Assumed | None:
        """Assume the pod on its chosen node and run Reserve. Return the assumed pod, or None if a plugin rejects it.

        A rejected pod returns to the queue.
        """
        assert result.chosen is not None
        node = self._shared.cache.columns.names[result.chosen]
        pod = replace(queued.pod, running=True)
        self._shared.cache.assume(pod, node)
        self._shared.nominator.remove(pod.uid)
        assumed = Assumed(pod, node, framework, result.state, decision)
        refusal = framework.run_reserve(result.state, pod, node)
        if refusal is not None:
            self._refused(queued, assumed, "Reserve", refusal)
            return None
        return assumed

    def undo(self, assumed: Assumed) -> None:
        """Run Unreserve in reverse order and remove the assumed pod from the cache."""
        assumed.framework.run_unreserve(assumed.state, assumed.pod, assumed.node)
        self._shared.cache.forget(assumed.pod.uid)

    def _refused(self, queued: QueuedPod, assumed: Assumed, phase: str, refusal: PluginVerdict) -> None:
        """Record that `phase` (Reserve or Permit) rejected the pod, undo its assumption and return it to the queue."""
        code = refusal.verdict.code
        message = join_reasons(refusal.verdict)
        self._recorder.record_outcome(
            assumed.decision,
            PhaseResult(phase, code, assumed.node, message, self._waited_s(assumed.pod.uid), final=True),
        )
        self.undo(assumed)
        if code.is_rejection:
            message = reasons.format_fit_error(1, [(reasons.format_reason(r), 1) for r in refusal.verdict.reasons])
        elif assumed.pod.uid not in self._waiting_since:
            message = f'running {phase} plugin "{refusal.plugin}": {message}'
        self._waiting_since.pop(assumed.pod.uid, None)
        by = frozenset({refusal.plugin})
        pending = by if code is Code.PENDING else frozenset[str]()
        self._callbacks.handle_scheduling_failure(queued, message, by, failed=not code.is_rejection, pending=pending)

    # --- waiting on Permit ------------------------------------------------------------------------------------------

    def _wait(self, flight: InFlightBinding, timeouts_s: dict[str, float]) -> None:
        assumed, now = flight.assumed, time.monotonic()
        uid = assumed.pod.uid
        waiting = WaitingPod(
            assumed.pod, assumed.node, timeouts_s, now, lambda refusal: self._permitted(PermitResult(uid, refusal))
        )
        until = {plugin: _wall(at - now) for plugin, at in waiting.pending_plugins().items()}
        message = f"waiting for {', '.join(f'{plugin} until {at}' for plugin, at in until.items())}"
        klog.info(4, "One or more plugins asked to wait and no plugin rejected pod", pod=assumed.pod.full_name)
        self._recorder.record_outcome(assumed.decision, PhaseResult("Permit", Code.WAIT, assumed.node, message))
        self._waiting_since[uid] = now
        self._shared.waiting.add(waiting)
        self._expect(flight)

    def permitted(self, message: PermitResult) -> None:
        """Continue the binding cycle of a pod whose wait on Permit ended, or undo it if a plugin rejected the pod."""
        self._shared.waiting.remove(message.uid)
        flight = self._in_flight[message.uid]
        assumed = flight.assumed
        if message.refusal is None:
            self._recorder.record_outcome(
                assumed.decision, PhaseResult("Permit", Code.SUCCESS, assumed.node, "", self._waited_s(message.uid))
            )
            del self._waiting_since[message.uid]
            self._binder.submit(assumed)
            return
        refusal = message.refusal
        klog.info(
            4, "Pod rejected while waiting on permit", pod=assumed.pod.full_name, err=join_reasons(refusal.verdict)
        )
        del self._in_flight[message.uid]
        if self._is_over(flight):
            self._recorder.record_outcome(
                assumed.decision,
                PhaseResult(
                    "Permit", refusal.verdict.code, assumed.node, join_reasons(refusal.verdict), 0.0, final=True
                ),
            )
            self._waiting_since.pop(message.uid)
            self.undo(assumed)
            self._drop(assumed.pod)
        else:
            self._refused(flight.queued, assumed, "Permit", refusal)
        self._callbacks.handle_unreserved(assumed)

    def _waited_s(self, uid: str) -> float:
        since = self._waiting_since.get(uid)
        return 0.0 if since is None else time.monotonic() - since

    # --- waiting in PreBind -----------------------------------------------------------------------------------------

    @property
    def parked(self) -> Set[str]:
        """The UIDs of pods in PreBind, for which a plugin waits."""
        return self._parked.keys()

    def park(self, parked: PendingPreBind) -> None:
        """Keep a pod for which a PreBind plugin waits. `poll` then checks the plugin every POLL_S seconds."""
        self._parked[parked.uid] = parked, parked.since + POLL_S

    def poll(self, now: float) -> None:
        """End the waits on Permit and in PreBind that are over, and continue or undo the binding cycles of these pods.

        The waits of deleted pods and of cancelled bindings end too. `now` is in monotonic seconds.
        """
        for waiting in self._shared.waiting():
            flight = self._in_flight.get(waiting.pod.uid)
            if flight is not None and flight.deleted:
                waiting.reject("", "removed")
        self._shared.waiting.expire(now)
        for uid, (parked, due) in list(self._parked.items()):
            flight = self._in_flight[uid]
            if due > now and not flight.deleted and flight.assumed.bind_or_cancel.cancelled is None:
                continue
            self._parked[uid] = parked, now + POLL_S
            verdict = self._poll_plugin(parked, flight, now)
            if verdict is not None:
                del self._parked[uid]
                self._unpark(parked, flight, verdict, now)

    def next_due(self) -> float | None:
        """Return the monotonic time at which `poll` has to be called next, or None if no pod waits."""
        dues = [due for _, due in self._parked.values()]
        waits = self._shared.waiting.next_due()
        return min([*dues, *([] if waits is None else [waits])], default=None)

    @staticmethod
    def _poll_plugin(parked: PendingPreBind, flight: InFlightBinding, now: float) -> Verdict | None:
        if flight.assumed.bind_or_cancel.cancelled is not None:
            return error(flight.assumed.bind_or_cancel.cancelled)
        if flight.deleted:
            return error("pod does not exist any more")
        try:
            verdict = parked.pending.check()
        except Exception as e:  # counts as the plugin's error
            return error(str(e))
        return parked.pending.late if verdict is None and now - parked.since >= parked.pending.timeout_s else verdict

    def _unpark(self, parked: PendingPreBind, flight: InFlightBinding, verdict: Verdict, now: float) -> None:
        if verdict.code is Code.SUCCESS:
            self._binder.submit(flight.assumed, parked)
            return
        is_cancelled = flight.assumed.bind_or_cancel.cancelled is not None
        failure = PluginVerdict("" if is_cancelled else parked.plugin, verdict)
        self.ended(
            BindingResult(parked.uid, self._binder.ended(flight.assumed, "PreBind", failure, now - parked.began))
        )

    # --- the end ----------------------------------------------------------------------------------------------------

    def ended(self, done: BindingResult) -> None:
        """Apply the result of a binding: report a bound pod, or undo the assumption and return the pod to the queue."""
        flight = self._in_flight.pop(done.uid)
        queued, assumed = flight.queued, flight.assumed
        pod = assumed.pod
        if done.failure is None:
            self._metrics.ended(pod.uid, SCHEDULED, pod.pod.spec.scheduler_name)
            self._metrics.scheduled(queued.attempts, time.time() - queued.first_seen_us / 1e6)
            self._callbacks.handle_bound(assumed)
            klog.info(
                2,
                "Successfully bound pod to node",
                pod=pod.full_name,
                node=assumed.node,
                evaluatedNodes=flight.evaluated,
                feasibleNodes=flight.feasible,
            )
            self._queue.done(pod.uid)
            return
        klog.info(1, "Failed to bind pod", pod=pod.full_name)
        self.undo(assumed)
        if self._is_over(flight):
            self._drop(pod)
        else:
            klog.error(done.failure, "Error scheduling pod; retrying", pod=pod.full_name)
            self._callbacks.handle_scheduling_failure(queued, done.failure, frozenset(), failed=True)
        self._callbacks.handle_unreserved(assumed)  # after the pod is queued again: its own release does not requeue it

    def _drop(self, pod: PodInfo) -> None:
        """Forget a pod that must not return to the queue, because it was deleted or bound elsewhere."""
        self._metrics.ended(pod.uid, ERROR, pod.pod.spec.scheduler_name)
        self._queue.done(pod.uid)

    def _is_over(self, flight: InFlightBinding) -> bool:
        """Return whether the pod was deleted, bound to another node or bound by another scheduler in the meantime."""
        cache, uid = self._shared.cache, flight.assumed.pod.uid
        return flight.deleted or (cache.is_counted(uid) and not cache.is_assumed(uid))


def _wall(in_s: float) -> str:
    return (datetime.now(timezone.utc) + timedelta(seconds=in_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
