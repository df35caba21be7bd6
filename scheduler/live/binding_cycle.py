"""The binding cycle of every pod: from the chosen node to the bound pod, or back to the queue.

    assume, Reserve, Permit -> [waits on Permit] -> PreBind -> [parked: a plugin waits] -> Bind -> PostBind
                      |                 |              |                |                  |
                      +--------- on failure: Unreserve in reverse, forget, back to the queue

Owns: the order of these phases, their outcomes in the record, undoing a failed binding, and what `--dry-run-binding`
does instead. Does not own: the queue's rules, the requests in flight and their limit (`in_flight`), sending
(`api_writes`), results that are unknown (`unknown_bindings`). `Binder` runs PreBind, Bind and PostBind in background
threads. Only the loop's thread calls the other classes, and it never waits here.

Source: pkg/scheduler/schedule_one.go v1.36 (prepareForBindingCycle, bindingCycle, handleBindingCycleError).

Invariants: the decision is in the spool before anything here runs, so no bind request leaves unrecorded. The end of
each phase is recorded as an Outcome before the next begins, and so is the start of each wait (code Wait, not final), so
that after a crash the record says where the pod was. A background thread waits only for the response to a request, and
not for a DeferredBind. A PreBind plugin that must wait ends as a `PendingPreBind`, and `Binder.submit` resumes it.
Nothing is sent once another process may lead.
"""

from __future__ import annotations

import time
from collections.abc import Set
from dataclasses import replace
from typing import Any, Final

import numpy as np

from herodotus_kube.watch import ListResult, WatchEvent
from herodotus_record import klog
from herodotus_record.model import Code, Decision, PluginVerdict, Verdict
from scheduler.backend.attempt_failure import AttemptFailure
from scheduler.backend.event_handlers import PODS, EventHandlers
from scheduler.backend.queue import QueuedPod
from scheduler.engine.cycle import CycleResult
from scheduler.engine.framework.plugin_results import join_reasons
from scheduler.engine.framework.reserve_and_bind import DeferredBind
from scheduler.engine.framework.verdicts import Pending, error
from scheduler.engine.framework.waiting import WaitingPod
from scheduler.engine.objects.times import format_seconds
from scheduler.engine.objects.types import Pod
from scheduler.engine.rules.feature_gates import NOMINATION_FOR_EXPECTATION
from scheduler.live.in_flight import BindingResult, InFlightBinding, PendingPreBind, PermitResult
from scheduler.live.metrics import ERROR, SCHEDULED
from scheduler.live.scheduler import Scheduler
from scheduler.recorder.recorder import PhaseResult

POLL_S: Final = 1.0  # how often a waiting PreBind plugin is polled, upstream's interval
NOT_LEADING: Final = "leadership is lost: nothing is bound any more"
DRY_RUN_MESSAGE: Final = "dry run: the pod is not bound; Permit, PreBind and Bind were not asked"
_NOT_LEADING: Final = PluginVerdict("", error(NOT_LEADING))


class Binder:
    """Runs the last phases of binding cycles (PreBind, Bind, PostBind). Their results arrive in the loop's inbox."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._inbox = scheduler.inbox
        self._leading = scheduler.fence.leading
        self._metrics = scheduler.metrics
        self._recorder = scheduler.recorder
        self._requests = scheduler.requests
        self._threads = scheduler.threads
        self._writes = scheduler.writes

    def submit(self, binding: InFlightBinding, after: PendingPreBind | None = None) -> None:
        """Run the pod's PreBind, Bind and PostBind without waiting.

        `after` is the PreBind wait that ended, if the binding is resumed. After `close` nothing is bound.
        """
        if binding.pre_binds or not binding.framework.binds_at_once(binding.pod):
            self._threads.submit(lambda: self._bind(binding, after))
        else:
            self._requests.enqueue(lambda: self._send_binding(binding))

    def close(self) -> None:
        """Wait for the bindings in flight; drop those that have not begun."""
        self._requests.close()
        self._threads.close()

    def _bind(self, binding: InFlightBinding, after: PendingPreBind | None) -> None:
        try:
            ended = self._pre_bind(binding, after)
        except (Exception, SystemExit) as e:  # a binding that never ends would hold its node's room for ever
            klog.error(e, "Binding failed", pod=binding.pod.full_name)
            ended = str(e)
        if ended is None:
            self._requests.send_now(lambda: self._send_binding(binding))
        else:
            self._inbox.put(ended if isinstance(ended, PendingPreBind) else BindingResult(binding.pod.uid, ended))

    def _pre_bind(self, binding: InFlightBinding, after: PendingPreBind | None) -> str | PendingPreBind | None:
        """Run the pod's PreBind plugins.

        Return None on success, the failure message, or a PendingPreBind if a plugin waits. `after` is the PreBind wait
        that ended, if the binding is resumed. If no plugin has work to do, nothing is recorded.
        """
        pod, framework = binding.pod, binding.framework
        if not binding.pre_binds:
            return None
        if isinstance(binding.pre_binds, PluginVerdict):
            return self.record_end(binding, "PreBind", binding.pre_binds, 0.0)
        expects = framework.profile.rules.enabled(NOMINATION_FOR_EXPECTATION)
        if expects and after is None and binding.waiting_since is None and self._leading():
            self._writes.nominate(pod, binding.node)
        began, done = (time.monotonic(), 0) if after is None else (after.began, after.done)
        result: PluginVerdict | tuple[int, Pending] | None = _NOT_LEADING
        if self._leading():
            result = framework.run_pre_bind(binding.state, pod, binding.node, done)
        now = time.monotonic()
        if isinstance(result, tuple):
            number, pending = result
            plugin = framework.profile.pre_bind[number].name
            waits = PhaseResult("PreBind", Code.WAIT, binding.node, f"{plugin} waits for {pending.what}", now - began)
            self._recorder.record_outcome(binding.decision, waits)
            return PendingPreBind(pod.uid, plugin, pending, number + 1, began, now)
        return self.record_end(binding, "PreBind", result, now - began)

    def _send_binding(self, binding: InFlightBinding) -> None:
        pod, start = binding.pod, time.monotonic()
        if not binding.bind_or_cancel.begin_binding():
            cancelled = PluginVerdict("", error(binding.bind_or_cancel.cancelled or ""))
            self._finish(binding, self.record_end(binding, "PreBind", cancelled, 0.0), None)
            return
        self._requests.begin(binding)
        try:
            result = binding.framework.run_bind(binding.state, pod, binding.node) if self._leading() else _NOT_LEADING
            if isinstance(result, DeferredBind):
                result.begin(lambda failure: self._bound(binding, failure, start, deferred=True))
                return
        except (Exception, SystemExit) as e:
            result = PluginVerdict("", error(str(e)))
        self._bound(binding, result, start)

    def _bound(
        self, binding: InFlightBinding, failure: PluginVerdict | None, start: float, *, deferred: bool = False
    ) -> None:
        """Record the result of Bind (`failure` is None if the pod is bound), and run PostBind if the pod is bound.

        A deferred bind is a request that ends in a thread that serves all such requests. PostBind, which may take long,
        then runs in another thread. `start` is when Bind began, in monotonic seconds.
        """
        took_s = time.monotonic() - start
        message = self.record_end(binding, "Bind", failure, took_s)
        answered_s = took_s if deferred and failure is None else None  # a failed request may never have been sent
        if message is not None or not binding.framework.profile.post_bind:
            self._finish(binding, message, answered_s)
        elif deferred:
            self._threads.submit(lambda: self._post_bind(binding, answered_s))
        else:
            self._post_bind(binding, answered_s)

    def _post_bind(self, binding: InFlightBinding, answered_s: float | None) -> None:
        try:
            binding.framework.run_post_bind(binding.state, binding.pod, binding.node)
        except (Exception, SystemExit) as e:
            klog.error(e, "PostBind failed; the pod is bound", pod=binding.pod.full_name)
        self._finish(binding, None, answered_s)

    def _finish(self, binding: InFlightBinding, failure: str | None, answered_s: float | None) -> None:
        counts = self._requests.remove(binding.pod.uid)
        self._inbox.put(BindingResult(binding.pod.uid, failure))
        if counts:
            self._requests.release(answered_s)

    def record_end(
        self, binding: InFlightBinding, phase: str, failure: PluginVerdict | None, duration_s: float
    ) -> str | None:
        """Record how `phase` of the binding cycle ended. Return the message of its failure, or None if it succeeded."""
        code = Code.SUCCESS if failure is None else failure.verdict.code
        message = "" if failure is None else join_reasons(failure.verdict)
        if failure is not None and failure.plugin:
            message = f'running {phase} plugin "{failure.plugin}": {message}'
        self._metrics.phase(phase, code, binding.decision.scheduler.profile, duration_s)
        is_final = failure is not None or phase == "Bind"
        result = PhaseResult(phase, code, binding.node, message, duration_s, is_final)
        self._recorder.record_outcome(binding.decision, result)
        return None if failure is None else message


class BindingCycles:
    """The binding cycles of all pods."""

    def __init__(self, scheduler: Scheduler, handlers: EventHandlers, binder: Binder) -> None:
        self._scheduler = scheduler
        self._in_flight = scheduler.in_flight
        self._recorder = scheduler.recorder
        self._waiting = scheduler.cluster.waiting
        self._handlers = handlers
        self._binder = binder
        self._parked: dict[str, tuple[PendingPreBind, float]] = {}  # with the time of the next poll

    # --- in the scheduling cycle ------------------------------------------------------------------------------------

    def assume(self, queued: QueuedPod, result: CycleResult, decision: Decision, node: str = "") -> InFlightBinding:
        """Assume the pod in the cache on `node` ("": the node that its cycle chose), and return its InFlightBinding."""
        cluster, trace = self._scheduler.cluster, result.trace
        pod = replace(queued.pod, running=True)
        if not node:
            assert result.chosen is not None
            node = cluster.cache.columns.names[result.chosen]
        cluster.cache.assume(pod, node)
        cluster.nominator.hide(pod.uid)
        framework = self._scheduler.framework(pod)
        evaluated, feasible = int(np.count_nonzero(trace.evaluated)), int(np.count_nonzero(trace.feasible))
        return InFlightBinding(queued, pod, node, framework, result.state, decision, evaluated, feasible)

    def reserve(self, binding: InFlightBinding) -> bool:
        """Run Reserve for an assumed pod. If a plugin rejects the pod, return it to the queue and return False."""
        refusal = binding.framework.run_reserve(binding.state, binding.pod, binding.node)
        if refusal is not None:
            self._reject(binding, "Reserve", refusal)
        return refusal is None

    def permit(self, binding: InFlightBinding) -> bool:
        """Run Permit for a reserved pod, and return whether the pod can be bound now.

        If a plugin waits, the pod becomes a waiting pod. If one rejects the pod, undo its assumption and return it to
        the queue.
        """
        pod, node, state = binding.pod, binding.node, binding.state
        permit = binding.framework.run_permit(state, pod, node)
        if isinstance(permit, PluginVerdict):
            self._reject(binding, "Permit", permit)
            return False
        binding.pre_binds = binding.framework.run_pre_bind_pre_flight(state, pod, node)
        self._in_flight[pod.uid] = binding
        if permit:
            self._wait(binding, {name: wait.timeout_s for name, wait in permit.items()})
        return not permit

    def undo(self, binding: InFlightBinding) -> None:
        """Run Unreserve in reverse order and remove the assumed pod from the cache."""
        binding.framework.run_unreserve(binding.state, binding.pod, binding.node)
        self._scheduler.cluster.cache.forget(binding.pod.uid)

    def _reject(self, binding: InFlightBinding, phase: str, refusal: PluginVerdict) -> None:
        self._scheduler.handle_failure(binding.queued, self.reject(binding, phase, refusal))

    def reject(self, binding: InFlightBinding, phase: str, refusal: PluginVerdict) -> AttemptFailure:
        """Record that `phase` (Reserve or Permit) rejected the pod, undo its assumption, and return the failure."""
        code, message = refusal.verdict.code, join_reasons(refusal.verdict)
        self._record(binding, PhaseResult(phase, code, binding.node, message, _waited_s(binding), final=True))
        self.undo(binding)
        named = phase if binding.waiting_since is None else ""
        return AttemptFailure.from_refusal(refusal, named, binding.framework.profile.rules)

    # --- waiting on Permit ------------------------------------------------------------------------------------------

    def _wait(self, binding: InFlightBinding, timeouts_s: dict[str, float]) -> None:
        scheduler, pod, node = self._scheduler, binding.pod, binding.node
        now = binding.waiting_since = time.monotonic()
        waiting = WaitingPod(
            pod, node, timeouts_s, now, lambda refusal: scheduler.inbox.put(PermitResult(pod.uid, refusal))
        )
        until = {plugin: _wall(at - now) for plugin, at in waiting.pending_plugins().items()}
        message = f"waiting for {', '.join(f'{plugin} until {at}' for plugin, at in until.items())}"
        klog.info(4, "One or more plugins asked to wait and no plugin rejected pod", pod=pod.full_name)
        self._record(binding, PhaseResult("Permit", Code.WAIT, node, message))
        self._waiting.add(waiting)
        if binding.framework.profile.rules.enabled(NOMINATION_FOR_EXPECTATION):
            scheduler.threads.submit(lambda: scheduler.writes.nominate(pod, node))

    def end_wait(self, message: PermitResult) -> None:
        """Continue the binding cycle of a pod whose wait on Permit ended, or undo it if a plugin rejected the pod."""
        self._waiting.remove(message.uid)
        binding, refusal = self._in_flight[message.uid], message.refusal
        if refusal is None:
            self._record(binding, PhaseResult("Permit", Code.SUCCESS, binding.node, "", _waited_s(binding)))
            self._binder.submit(binding)
            return
        why = join_reasons(refusal.verdict)
        klog.info(4, "Pod rejected while waiting on permit", pod=binding.pod.full_name, err=why)
        del self._in_flight[message.uid]
        if self._is_over(binding):
            self._record(binding, PhaseResult("Permit", refusal.verdict.code, binding.node, why, final=True))
            self.undo(binding)
            self._drop(binding)
        else:
            self._reject(binding, "Permit", refusal)
        self._handlers.requeue_after_removal(binding.pod, binding.node)

    # --- waiting in PreBind -----------------------------------------------------------------------------------------

    @property
    def parked(self) -> Set[str]:
        """The UIDs of pods in PreBind, for which a plugin waits."""
        return self._parked.keys()

    def park(self, parked: PendingPreBind) -> None:
        """Store a pod for which a PreBind plugin waits. `poll` then checks the plugin every POLL_S seconds."""
        self._parked[parked.uid] = parked, parked.since + POLL_S

    def poll(self, now: float) -> None:
        """End the waits on Permit and in PreBind that are over, and continue or undo the binding cycles of these pods.

        The waits of deleted pods and of cancelled bindings end too. `now` is in monotonic seconds.
        """
        for waiting in self._waiting():
            binding = self._in_flight.get(waiting.pod.uid)
            if binding is not None and binding.deleted:
                waiting.reject("", "removed")
        self._waiting.expire(now)
        for uid, (parked, due) in list(self._parked.items()):
            binding = self._in_flight[uid]
            if due > now and not binding.deleted and binding.bind_or_cancel.cancelled is None:
                continue
            self._parked[uid] = parked, now + POLL_S
            verdict = self._poll_plugin(parked, binding, now)
            if verdict is not None:
                del self._parked[uid]
                self._unpark(parked, binding, verdict, now)

    def next_due(self) -> float | None:
        """Return the monotonic time at which `poll` has to be called next, or None if no pod waits."""
        dues = [due for _, due in self._parked.values()]
        waits = self._waiting.next_due()
        return min([*dues, *([] if waits is None else [waits])], default=None)

    @staticmethod
    def _poll_plugin(parked: PendingPreBind, binding: InFlightBinding, now: float) -> Verdict | None:
        if binding.bind_or_cancel.cancelled is not None:
            return error(binding.bind_or_cancel.cancelled)
        if binding.deleted:
            return error("pod does not exist any more")
        try:
            verdict = parked.pending.check()
        except Exception as e:  # counts as the plugin's error
            return error(str(e))
        return parked.pending.late if verdict is None and now - parked.since >= parked.pending.timeout_s else verdict

    def _unpark(self, parked: PendingPreBind, binding: InFlightBinding, verdict: Verdict, now: float) -> None:
        if verdict.code is Code.SUCCESS:
            self._binder.submit(binding, parked)
            return
        is_cancelled = binding.bind_or_cancel.cancelled is not None
        failure = PluginVerdict("" if is_cancelled else parked.plugin, verdict)
        message = self._binder.record_end(binding, "PreBind", failure, now - parked.began)
        self.finish(BindingResult(parked.uid, message))

    # --- the end ----------------------------------------------------------------------------------------------------

    def finish(self, done: BindingResult) -> None:
        """Apply the result of a binding: report a bound pod, or undo the assumption and return the pod to the queue."""
        scheduler, binding = self._scheduler, self._in_flight.pop(done.uid)
        queued, pod, node = binding.queued, binding.pod, binding.node
        if done.failure is None:
            scheduler.metrics.ended(pod.uid, SCHEDULED, pod.pod.spec.scheduler_name)
            waited_s = time.time() - queued.first_seen_us / 1e6
            scheduler.metrics.scheduled(queued.attempts, waited_s, binding.decision)
            scheduler.writes.scheduled(pod, node)
            klog.info(
                2,
                "Successfully bound pod to node",
                **klog.pod_fields(pod.full_name, pod.uid),
                node=node,
                evaluatedNodes=binding.evaluated,
                feasibleNodes=binding.feasible,
            )
            scheduler.queue.done(pod.uid)
            return
        klog.info(1, "Failed to bind pod", **klog.pod_fields(pod.full_name, pod.uid))
        self.undo(binding)
        if self._is_over(binding):
            self._drop(binding)
        else:
            klog.error(done.failure, "Error scheduling pod; retrying", **klog.pod_fields(pod.full_name, pod.uid))
            scheduler.handle_failure(queued, AttemptFailure(done.failure, is_error=True))
        self._handlers.requeue_after_removal(pod, node)  # after the pod is queued: its own removal does not requeue it

    def _drop(self, binding: InFlightBinding) -> None:
        """Remove a pod from the queue and end its attempt, because the pod was deleted or bound elsewhere."""
        pod = binding.pod
        self._scheduler.metrics.ended(pod.uid, ERROR, pod.pod.spec.scheduler_name)
        self._scheduler.queue.done(pod.uid)

    def _is_over(self, binding: InFlightBinding) -> bool:
        """Return whether the pod must not be tried again: it was deleted, or the API server shows it on a node."""
        cache, uid = self._scheduler.cluster.cache, binding.pod.uid
        return binding.deleted or (cache.is_counted(uid) and not cache.is_assumed(uid))

    def _record(self, binding: InFlightBinding, result: PhaseResult) -> None:
        self._recorder.record_outcome(binding.decision, result)


class DryRunBinding:
    """Replaces the binding cycle under `--dry-run-binding`: keeps decided pods assumed and binds none.

    Only the loop's thread calls it.
    """

    def __init__(self, scheduler: Scheduler, cycles: BindingCycles) -> None:
        self._queue = scheduler.queue
        self._recorder = scheduler.recorder
        self._metrics = scheduler.metrics
        self._cycles = cycles
        self._bindings: dict[str, InFlightBinding] = {}

    def keep(self, binding: InFlightBinding) -> None:
        """Record the outcome DryRun of a reserved pod instead of binding it, and leave it assumed."""
        result = PhaseResult("DryRun", Code.SKIP, binding.node, DRY_RUN_MESSAGE, final=True)
        self._recorder.record_outcome(binding.decision, result)
        self._bindings[binding.pod.uid] = binding
        self._metrics.discarded(binding.pod.uid)
        self._queue.done(binding.pod.uid)

    def observe(self, message: ListResult[Any] | WatchEvent[Any]) -> None:
        """Undo the assumption of each decided pod that was changed, bound or deleted according to a watch message.

        Call it before other handlers see the message.
        """
        if message.kind != PODS:
            return
        if isinstance(message, ListResult):
            listed = {pod.metadata.uid: pod for pod in message.objects}
            for uid in list(self._bindings):
                self._compare(uid, listed.get(uid))
        elif message.object.metadata.uid in self._bindings:
            self._compare(message.object.metadata.uid, None if message.type == "DELETED" else message.object)

    def _compare(self, uid: str, now: Pod | None) -> None:
        binding = self._bindings[uid]
        was = binding.pod.pod
        if now is not None and (now.spec, now.metadata.labels) == (was.spec, was.metadata.labels):
            return
        del self._bindings[uid]
        self._cycles.undo(binding)


def _waited_s(binding: InFlightBinding) -> float:
    return 0.0 if binding.waiting_since is None else time.monotonic() - binding.waiting_since


def _wall(in_s: float) -> str:
    return format_seconds(time.time() + in_s)
