"""From the choice of a node to the pod's binding, or back to the queue: everything that waits on this way.

    assume, Reserve, Permit -> [waits on Permit] -> PreBind -> [parked: a plugin waits] -> Bind -> PostBind
                      |                 |              |                |                  |
                      +--------- a refusal: Unreserve in reverse, forget, back to the queue <

Owns: the pods on this way, in memory and in the record, and the undoing. Does not own: threads (`binding`), the queue's
rules, why a pod is tried again. For the loop's thread only, which never waits here.

Source: pkg/scheduler/schedule_one.go v1.36 (prepareForBindingCycle, bindingCycle, handleBindingCycleError).

Invariant: each phase's end is an Outcome before the next begins, and so is each waiting while it lasts (code Wait, not
final): after a crash the record says where the pod was.
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
from scheduler.binding import Assumed, Binder, Bound, Parked
from scheduler.cycle import CycleResult
from scheduler.eventhandlers import InFlight
from scheduler.framework.answers import message_of
from scheduler.framework.runtime import Framework
from scheduler.framework.verdicts import error
from scheduler.framework.waiting import WaitingPod
from scheduler.metrics import ERROR, SCHEDULED, Metrics
from scheduler.objects.pod import PodInfo
from scheduler.queue import QueuedPod, SchedulingQueue
from scheduler.recorder.recorder import Recorder
from scheduler.shared import Shared

POLL_S: Final = 1.0  # how often a parked plugin is asked, upstream's interval


@dataclass(frozen=True)
class Permitted:
    """The waiting on Permit is over: `refusal` is None where every plugin allowed the pod."""

    uid: str
    refusal: PluginVerdict | None


class Around(Protocol):
    """What the loop does for a pod that leaves this way."""

    def give_back(
        self,
        queued: QueuedPod,
        message: str,
        rejectors: frozenset[str],
        *,
        failed: bool,
        pending: frozenset[str] = frozenset(),
    ) -> None:
        """The pod is tried again: after an error (`failed`), or when something happens that may help.

        `pending`: those of the rejectors that said Pending.
        """

    def left(self, assumed: Assumed) -> None:
        """Its room is free again; others may want it."""

    def bound(self, assumed: Assumed) -> None:
        """The pod is on its node."""


class BindingCycles:
    """All that are under way. `in_flight` is by pod UID."""

    def __init__(
        self,
        shared: Shared,
        in_flight: dict[str, InFlight],
        queue: SchedulingQueue,
        recorder: Recorder,
        metrics: Metrics,
        binder: Binder,
        expect: Callable[[InFlight], None],
        permitted: Callable[[Permitted], None],
        around: Around,
    ) -> None:
        """`expect`: writes the node into the status of a pod that waits. `permitted`: only enqueues."""
        self._shared = shared
        self._in_flight = in_flight
        self._queue = queue
        self._recorder = recorder
        self._metrics = metrics
        self._binder = binder
        self._expect = expect
        self._permitted = permitted
        self._around = around
        self._parked: dict[str, tuple[Parked, float]] = {}  # and when it is asked next
        self._waiting_since: dict[str, float] = {}

    # --- in the scheduling cycle ------------------------------------------------------------------------------------

    def start(self, queued: QueuedPod, framework: Framework, result: CycleResult, decision: Decision) -> None:
        """Assume, Reserve, Permit; then a binding thread goes on, or the pod waits."""
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
        flight = InFlight(
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
        """From now on the pod counts on its node, as nodes count their pods; None when a plugin refuses."""
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
        """Unreserve in reverse order, and count the pod no longer."""
        assumed.framework.run_unreserve(assumed.state, assumed.pod, assumed.node)
        self._shared.cache.forget(assumed.pod.uid)

    def _refused(self, queued: QueuedPod, assumed: Assumed, phase: str, refusal: PluginVerdict) -> None:
        """Reserve or Permit said no, at once or after waiting."""
        code = refusal.verdict.code
        message = message_of(refusal.verdict)
        self._record(assumed, phase, code, message, self._waited_s(assumed.pod.uid), final=True)
        self.undo(assumed)
        if code.rejected:
            message = reasons.fit_error(1, [(reasons.sentence(r), 1) for r in refusal.verdict.reasons])
        elif assumed.pod.uid not in self._waiting_since:
            message = f'running {phase} plugin "{refusal.plugin}": {message}'
        self._waiting_since.pop(assumed.pod.uid, None)
        by = frozenset({refusal.plugin})
        pending = by if code is Code.PENDING else frozenset[str]()
        self._around.give_back(queued, message, by, failed=not code.rejected, pending=pending)

    # --- waiting on Permit ------------------------------------------------------------------------------------------

    def _wait(self, flight: InFlight, timeouts_s: dict[str, float]) -> None:
        assumed, now = flight.assumed, time.monotonic()
        uid = assumed.pod.uid
        waiting = WaitingPod(
            assumed.pod, assumed.node, timeouts_s, now, lambda refusal: self._permitted(Permitted(uid, refusal))
        )
        until = {plugin: _wall(at - now) for plugin, at in waiting.pending_plugins().items()}
        message = f"waiting for {', '.join(f'{plugin} until {at}' for plugin, at in until.items())}"
        klog.info(4, "One or more plugins asked to wait and no plugin rejected pod", pod=assumed.pod.full_name)
        self._record(assumed, "Permit", Code.WAIT, message, 0.0)
        self._waiting_since[uid] = now
        self._shared.waiting.add(waiting)
        self._expect(flight)

    def permitted(self, message: Permitted) -> None:
        """A pod waits no longer."""
        self._shared.waiting.remove(message.uid)
        flight = self._in_flight[message.uid]
        assumed = flight.assumed
        if message.refusal is None:
            self._record(assumed, "Permit", Code.SUCCESS, "", self._waited_s(message.uid))
            del self._waiting_since[message.uid]
            self._binder.submit(assumed)
            return
        refusal = message.refusal
        klog.info(4, "Pod rejected while waiting on permit", pod=assumed.pod.full_name, err=message_of(refusal.verdict))
        del self._in_flight[message.uid]
        if self._is_over(flight):
            self._record(assumed, "Permit", refusal.verdict.code, message_of(refusal.verdict), 0.0, final=True)
            self._waiting_since.pop(message.uid)
            self.undo(assumed)
            self._drop(assumed.pod)
        else:
            self._refused(flight.queued, assumed, "Permit", refusal)
        self._around.left(assumed)

    def _waited_s(self, uid: str) -> float:
        since = self._waiting_since.get(uid)
        return 0.0 if since is None else time.monotonic() - since

    # --- waiting in PreBind -----------------------------------------------------------------------------------------

    @property
    def parked(self) -> Set[str]:
        """The pods that wait there."""
        return self._parked.keys()

    def park(self, parked: Parked) -> None:
        """A PreBind plugin waits."""
        self._parked[parked.uid] = parked, parked.since + POLL_S

    def poll(self, now: float) -> None:
        """Ask what is due; end the waiting of pods that are gone or taken back."""
        for waiting in self._shared.waiting():
            flight = self._in_flight.get(waiting.pod.uid)
            if flight is not None and flight.deleted:
                waiting.reject("", "removed")
        self._shared.waiting.expire(now)
        for uid, (parked, due) in list(self._parked.items()):
            flight = self._in_flight[uid]
            if due > now and not flight.deleted and flight.assumed.turnstile.cancelled is None:
                continue
            self._parked[uid] = parked, now + POLL_S
            verdict = self._ask(parked, flight, now)
            if verdict is not None:
                del self._parked[uid]
                self._unpark(parked, flight, verdict, now)

    def next_due(self) -> float | None:
        """When `poll` will have something to do (monotonic seconds)."""
        dues = [due for _, due in self._parked.values()]
        waits = self._shared.waiting.next_due()
        return min([*dues, *([] if waits is None else [waits])], default=None)

    @staticmethod
    def _ask(parked: Parked, flight: InFlight, now: float) -> Verdict | None:
        if flight.assumed.turnstile.cancelled is not None:
            return error(flight.assumed.turnstile.cancelled)
        if flight.deleted:
            return error("pod does not exist any more")
        try:
            said = parked.pending.check()
        except Exception as e:  # as if it had said so
            return error(str(e))
        return parked.pending.late if said is None and now - parked.since >= parked.pending.timeout_s else said

    def _unpark(self, parked: Parked, flight: InFlight, verdict: Verdict, now: float) -> None:
        if verdict.code is Code.SUCCESS:
            self._binder.submit(flight.assumed, parked)
            return
        taken_back = flight.assumed.turnstile.cancelled is not None
        failure = PluginVerdict("" if taken_back else parked.plugin, verdict)
        self.ended(Bound(parked.uid, self._binder.ended(flight.assumed, "PreBind", failure, now - parked.began)))

    # --- the end ----------------------------------------------------------------------------------------------------

    def ended(self, done: Bound) -> None:
        """A binding thread is done."""
        flight = self._in_flight.pop(done.uid)
        queued, assumed = flight.queued, flight.assumed
        pod = assumed.pod
        if done.failure is None:
            self._metrics.ended(pod.uid, SCHEDULED, pod.pod.spec.scheduler_name)
            self._metrics.scheduled(queued.attempts, time.time() - queued.first_seen_us / 1e6)
            self._around.bound(assumed)
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
            self._around.give_back(queued, done.failure, frozenset(), failed=True)
        self._around.left(assumed)  # after it was given back: its own leaving does not help it

    def _drop(self, pod: PodInfo) -> None:
        """It is nobody's business any more."""
        self._metrics.ended(pod.uid, ERROR, pod.pod.spec.scheduler_name)
        self._queue.done(pod.uid)

    def _is_over(self, flight: InFlight) -> bool:
        """The pod is gone, or the watch has shown it bound: to another node, or by another scheduler."""
        cache, uid = self._shared.cache, flight.assumed.pod.uid
        return flight.deleted or (cache.bound(uid) and not cache.assumed(uid))

    def _record(
        self, assumed: Assumed, phase: str, code: Code, message: str, duration_s: float, *, final: bool = False
    ) -> None:
        self._recorder.outcome(assumed.decision, phase, code, assumed.node, message, duration_s, final=final)


def _wall(in_s: float) -> str:
    return (datetime.now(timezone.utc) + timedelta(seconds=in_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
