r"""The scheduling loop: the one thread that changes the cache and the queue.

Each attempt passes these stages; `Loop.schedule_one` calls them in this order:

    queue -> snapshot -> cycle -> record -> assume -> Reserve -> Permit -> PreBind, Bind, PostBind (background threads)
                                       \-> preempt, back to the queue, condition and event      |
                                                                       inbox <- result ---------'

Owns: the order of these stages, and the inbox with the messages of other threads. Does not own: decisions (`cycle`),
how cluster events change the cache and the queue (`event_handlers`), the way from the chosen node to the bound pod
(`binding_cycle`), requests to the API server (`herodotus_kube`, through `Writes`), the form of a record (`recorder`).

Source: pkg/scheduler/schedule_one.go v1.36.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from herodotus_record import klog, reasons
from herodotus_record.model import Decision, DecisionPath, PodGroupCycle, Reason, Retry, Times
from scheduler.backend.attempt_failure import AttemptFailure
from scheduler.backend.event_handlers import EventHandlers
from scheduler.backend.pod_groups.placing import MemberInput
from scheduler.backend.queue import QueuedPod
from scheduler.engine.cache_verification import CacheVerifier
from scheduler.engine.cycle import CycleResult, schedule, schedule_group_member
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.times import parse_microseconds
from scheduler.engine.objects.types import Object
from scheduler.engine.records.build import AttemptData
from scheduler.engine.rules.feature_gates import GENERIC_WORKLOAD
from scheduler.engine.suggestions.search import Suggester
from scheduler.live.binding_cycle import Binder, BindingCycles, DryRunBinding
from scheduler.live.event_explanations import EventExplainer
from scheduler.live.gradual_preparation import SLICE_S, GradualPreparation
from scheduler.live.in_flight import BindingResult, InFlightBinding, PendingPreBind, PermitResult
from scheduler.live.node_series import NodeSeries
from scheduler.live.pod_group_cycle import AttemptStages, PodGroupCycles
from scheduler.live.preemption import ChosenVictims, Preemptions
from scheduler.live.scheduler import Attempt, EvictionsFinished, LoopTask, Message, Scheduler

IDLE_S: Final = 0.5  # The longest sleep of an idle loop, so that its heartbeat metric stays current.
CAPACITY_WAIT_S: Final = 0.02  # The longest wait for bindings before the loop reads its inbox again.


class Loop:
    """The scheduling loop of one process: the thread that alone changes the process's state."""

    def __init__(
        self,
        scheduler: Scheduler,
        kinds: Mapping[str, type[Object]],
        *,
        dry_run: bool = False,
        on_synced: Callable[[], None] = lambda: None,
        cache_verifier: CacheVerifier | None = None,
        event_explainer: EventExplainer | None = None,
        node_series: NodeSeries | None = None,
    ) -> None:
        """Prepare a loop.

        `kinds` are the kinds besides nodes and pods that are watched, by resource name. With `dry_run`, pods are
        decided and not bound. `on_synced` is called once, before the first attempt. `cache_verifier` computes some of
        the decisions again. `event_explainer` builds the text at the end of events of rejected pods. `node_series`
        counts rejections and scores by node.
        """
        self.scheduler = scheduler
        self.cache = scheduler.cluster.cache
        self.inbox = scheduler.inbox
        self.queue = scheduler.queue
        self.binder = Binder(scheduler)
        self._on_synced = on_synced
        self._event_explainer = event_explainer
        self._node_series = node_series
        self._schedule = schedule if cache_verifier is None else cache_verifier.schedule
        self._schedule_member = (
            schedule_group_member if cache_verifier is None else cache_verifier.schedule_group_member
        )
        self._suggester = Suggester(time.monotonic)
        self._handlers = EventHandlers(
            scheduler.cluster, scheduler.queue, kinds, scheduler.frameworks, scheduler.in_flight
        )
        self._preemptions = Preemptions(scheduler)
        self._cycles = BindingCycles(scheduler, self._handlers, self.binder)
        self._dry_run = DryRunBinding(scheduler, self._cycles) if dry_run else None
        rules = next(iter(scheduler.frameworks.values())).profile.rules
        self._groups = self._pod_group_cycles() if rules.enabled(GENERIC_WORKLOAD) else None
        self._gradual = GradualPreparation(scheduler)
        self._next_start = 0
        self._prepared = False

    def run(self, stop: threading.Event) -> None:
        """Schedule pods until `stop` is set. Then wait for the bindings in flight."""
        threading.Thread(target=self._wake_on, args=(stop,), name="stop", daemon=True).start()
        while not stop.is_set():
            self.step(IDLE_S)
        self.binder.close()
        self.scheduler.writes.finish_bindings()
        self._receive(0.0)

    def _wake_on(self, stop: threading.Event) -> None:
        """Wait for `stop`, then wake the loop if it sleeps, so that it ends at once."""
        stop.wait()
        self.submit(lambda: None)

    def submit(self, task: Callable[[], None]) -> None:
        """Run `task`, which must not raise, in the loop's thread between two cycles. Return at once."""
        self.inbox.put(LoopTask(task))

    @property
    def synced(self) -> bool:
        """Whether every watched kind was listed at least once. Before that, no pod is scheduled."""
        return self._handlers.synced

    def step(self, wait_s: float) -> bool:
        """Apply the messages in the inbox and try to schedule one pod. Return whether there may be more to do at once.

        If there is nothing to do, wait at most `wait_s` seconds for a message. While too many bindings wait for the API
        server, no pod is tried: a later attempt knows more and is shorter.
        """
        metrics = self.scheduler.metrics
        if metrics.beat():
            metrics.observe(self.scheduler.sizes())
            self.scheduler.recorder.check_spool()
            if self._node_series is not None:
                self._node_series.update_nodes(self.cache.columns.names)
        has_capacity = self.scheduler.requests.wait_for_capacity(CAPACITY_WAIT_S)
        self._receive(0.0)
        self._cycles.poll(time.monotonic())
        if not self._prepared and self._handlers.synced:
            self._prepare()
        if not has_capacity:
            return True
        prepared = self._gradual.advance() if self._prepared else None
        if prepared is not None:
            self.schedule_one(prepared)
            return True
        queued = self.queue.pop(time.monotonic()) if self._prepared else None
        if queued is None:
            self.scheduler.recorder.check_spool()
            self._receive(min(self._until_due(wait_s), SLICE_S) if self._gradual else self._until_due(wait_s))
            return bool(self._gradual)
        if not self._gradual.defer(queued):
            self.schedule_one(queued)
        return True

    def _prepare(self) -> None:
        """Have plugins build their state about the cluster, and call `on_synced`.

        This happens once, after every kind was listed and before the first attempt.
        """
        for framework in self.scheduler.frameworks.values():
            framework.prepare(self.cache.columns)
        self.queue.run_pre_enqueue_again(time.monotonic())
        self._on_synced()
        self._prepared = True

    # --- one attempt ----------------------------------------------------------------------------------------------

    def schedule_one(self, queued: QueuedPod) -> None:
        """Run one attempt for a pod from the queue.

        It ends with the pod back in the queue, or in its binding cycle, whose result arrives in the inbox.
        """
        if self._groups is not None and queued.pod.pod_group is not None:
            self._groups.schedule(queued, time.monotonic())
            return
        if self._is_skipped(queued.pod):
            self.queue.done(queued.uid)
            return
        attempt = self._decide(queued)
        decision = self._record(attempt)
        if attempt.result.chosen is None:
            self._handle_no_node(attempt, decision)
            return
        binding = self._cycles.assume(queued, attempt.result, decision)
        if self._cycles.reserve(binding):
            self._bind(binding)

    def _bind(self, binding: InFlightBinding) -> None:
        """Run Permit for a reserved pod, and begin to bind it if no plugin waits or rejects it."""
        if self._dry_run is not None:
            self._dry_run.keep(binding)
        elif self._cycles.permit(binding):
            self.binder.submit(binding)

    def _pod_group_cycles(self) -> PodGroupCycles:
        stages = AttemptStages(
            is_skipped=lambda queued: self._is_skipped(queued.pod),
            decide=self._decide,
            find_start=lambda: self._next_start,
            record=self._record,
            preempt=self._preempt,
            explain_failure=self._explain_failure,
            bind=self._bind,
        )
        return PodGroupCycles(self.scheduler, self._cycles, stages, self._preemptions.start)

    def _is_skipped(self, pod: PodInfo) -> bool:
        """Return whether the pod must not be scheduled, because it is being deleted or already counts on a node."""
        if pod.terminating:
            klog.info(3, "Skip schedule deleting pod", pod=pod.full_name)
            self.scheduler.writes.skipped(pod, f"skip schedule deleting pod: {pod.full_name}")
        return pod.terminating or self.cache.is_counted(pod.uid)

    def _decide(self, queued: QueuedPod, member: MemberInput | None = None) -> Attempt:
        """Take a snapshot of the cluster, run the pod's scheduling cycle on it, and return the attempt.

        If `member` is given, the cycle is part of that of the pod's group and has these inputs.
        """
        pod, metrics = queued.pod, self.scheduler.metrics
        klog.info(3, "Attempting to schedule pod", **klog.pod_fields(pod.full_name, pod.uid))
        framework = self.scheduler.framework(pod)
        metrics.started(pod.uid)
        started, started_us = time.monotonic(), time.time_ns() // 1000
        if member is None:
            seed, snapshot = random.getrandbits(32), self.cache.snapshot()
            result = self._schedule(framework, pod, snapshot, seed, self._next_start)
        else:
            seed, snapshot = member.seed, self.cache.snapshot(member.mask)
            start = self._next_start if member.start is None else member.start
            result = self._schedule_member(framework, pod, snapshot, seed, start)
        self._next_start = result.next_start
        metrics.cycle(framework.profile.scheduler_name, result, time.monotonic() - started)
        if self._node_series is not None:
            self._node_series.add(snapshot.nodes.names, result.trace)
        return Attempt(queued, snapshot, seed, started_us, result)

    def _record(self, attempt: Attempt, group_cycle: PodGroupCycle | None = None) -> Decision:
        """Record the attempt's decision, with suggestions if no node was chosen, and return it.

        `group_cycle` is the cycle of the pod's group if the pod was decided in one.
        """
        began = time.monotonic()
        queued, result, pod = attempt.queued, attempt.result, attempt.queued.pod
        framework = self.scheduler.framework(pod)
        data = AttemptData(
            pod=pod,
            number=queued.attempts,
            profile=framework.profile.scheduler_name,
            snapshot=attempt.snapshot,
            result=result,
            times=Times(
                created_us=parse_microseconds(pod.pod.metadata.creation_timestamp),
                queued_us=queued.first_seen_us,
                started_us=attempt.started_us,
                phases_s=dict(result.trace.phases_s),
                queues_s=dict(queued.waited_s),
            ),
            seed=attempt.seed,
            notes=tuple(self._handlers.absent.values()),
            requeued_by=queued.requeued_by,
            retry=self._retry(queued, result),
            suggestions=self._suggester.suggest(
                framework, pod, attempt.snapshot.nodes, result, (other.pod for other in self.queue)
            ),
            group_cycle=group_cycle,
        )
        decision = self.scheduler.recorder.record_decision(data)
        self.scheduler.metrics.recorded(pod.uid, decision, time.monotonic() - began)
        self._log_scores(pod, result, self.cache.columns.names)
        return decision

    def _handle_no_node(self, attempt: Attempt, decision: Decision) -> None:
        """Evict the victims of preemption, if there are any, and return the pod to the queue."""
        failure = self._explain_failure(attempt)
        if self._event_explainer is not None and not failure.is_error:
            failure = replace(failure, explanation=self._event_explainer.explain(decision))
        self._preempt(attempt, decision)
        self.scheduler.handle_failure(attempt.queued, failure)

    def _preempt(self, attempt: Attempt, decision: Decision) -> None:
        """Evict the victims that the attempt chose, if there are any."""
        victims = ChosenVictims.from_trace(attempt.queued.pod, attempt.result.trace, decision)
        if victims is not None:
            self._preemptions.start(victims)

    def _explain_failure(self, attempt: Attempt) -> AttemptFailure:
        """Log why an attempt chose no node, and return that as an AttemptFailure."""
        pod, result = attempt.queued.pod, attempt.result
        failed, fields = result.path is DecisionPath.ERROR, klog.pod_fields(pod.full_name, pod.uid)
        if failed:
            klog.error(result.message, "Error scheduling pod; retrying", **fields)
        elif result.message == reasons.format_reason(Reason("no-nodes")):
            klog.info(2, "Unable to schedule pod; no nodes are registered to the cluster; waiting", **fields)
        else:
            klog.info(2, "Unable to schedule pod; no fit; waiting", **fields, err=result.message)
        return AttemptFailure.from_result(result)

    def _retry(self, queued: QueuedPod, result: CycleResult) -> Retry | None:
        """Return when the pod will be tried again if it is requeued now, or None if the attempt chose a node."""
        if result.chosen is not None:
            return None
        now_us = time.time_ns() // 1000
        error = result.path is DecisionPath.ERROR or not result.rejectors
        return self.queue.predict_retry(queued, time.monotonic(), now_us, error=error)

    @staticmethod
    def _log_scores(pod: PodInfo, result: CycleResult, names: list[str]) -> None:
        trace, totals = result.trace, result.trace.totals
        if not klog.enabled(10) or totals is None:
            return
        for slot in trace.feasible.nonzero()[0].tolist():
            node = names[slot]
            for run in trace.scores:
                if run.normalized is not None and not run.extender:  # an extender's scores are logged when they arrive
                    score = int(run.normalized[slot]) * run.weight
                    klog.info(
                        10, "Plugin scored node for pod", pod=pod.full_name, plugin=run.plugin, node=node, score=score
                    )
            total = int(totals[slot])
            klog.info(10, "Calculated node's final score for pod", pod=pod.full_name, node=node, score=total)

    # --- the inbox -------------------------------------------------------------------------------------------------

    def _until_due(self, at_most_s: float) -> float:
        dues = [due for due in (self.queue.next_backoff_end(), self._cycles.next_due()) if due is not None]
        return min(max(min(dues) - time.monotonic(), 0.0), at_most_s) if dues else at_most_s

    def _receive(self, wait_s: float) -> None:
        """Apply every message in the inbox. Wait at most `wait_s` seconds for the first one."""
        try:
            message = self.inbox.get(timeout=wait_s) if wait_s > 0 else self.inbox.get_nowait()
            while True:
                self._apply(message)
                message = self.inbox.get_nowait()
        except queue.Empty:
            return

    def _apply(self, message: Message) -> None:
        match message:
            case BindingResult():
                self._cycles.finish(message)
            case PendingPreBind():
                self._cycles.park(message)
            case PermitResult():
                self._cycles.end_wait(message)
            case EvictionsFinished():
                self._preemptions.finish(message)
            case LoopTask():
                message.run()
            case _:
                if self._dry_run is not None:
                    self._dry_run.observe(message)
                self._handlers.apply(message)
