r"""The scheduling loop: the one thread that changes the cache and the queue.

    inbox (watches, finished bindings) -> cache, queue -> pop -> cycle -> record -> assume -> binding thread
                                                             \-> record -> event, condition, back to the queue

Owns: the order of these steps. Does not own: decisions (`cycle`), how cluster events change the cache and the queue
(`event_handlers`), requests to the API server (`scheduler.kube`, through `Writes`), the form of a record (`recorder`).

Source: pkg/scheduler/schedule_one.go v1.36.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from herodotus_record import reasons
from herodotus_record.model import Decision, DecisionPath, Reason, Retry, Times
from scheduler import klog
from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.event_handlers import EventHandlers
from scheduler.backend.queue import QueuedPod, SchedulingQueue
from scheduler.engine.cache_verification import CacheVerifier
from scheduler.engine.cycle import CycleResult, schedule
from scheduler.engine.framework.nominated import CLEARED, Nomination
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.times import parse_microseconds
from scheduler.engine.objects.types import Object
from scheduler.engine.records.build import AttemptData
from scheduler.engine.suggestions.search import Suggester
from scheduler.kube.watch import ListResult, WatchEvent
from scheduler.live.binding import Assumed, Binder, BindingResult, PendingPreBind
from scheduler.live.binding_cycle import BindingCycles, InFlightBinding, PermitResult
from scheduler.live.dry_run_binding import DryRunBinding
from scheduler.live.metrics import ERROR, UNSCHEDULABLE, LoopSizes, SchedulerMetrics
from scheduler.live.preemption import EvictionsFinished, EvictionWrites, Preemptions
from scheduler.recorder.recorder import Recorder

IDLE_S: Final = 0.5  # The longest sleep of an idle loop, so that its heartbeat metric stays current.
CAPACITY_WAIT_S: Final = 0.02  # The longest wait for bindings before the loop reads its inbox again.


@dataclass(frozen=True)
class LoopTask:
    """A function that another thread puts into the loop's inbox, to run in the loop's thread between two cycles.

    It must not raise.
    """

    run: Callable[[], None]


Message = (
    ListResult[Any] | WatchEvent[Any] | BindingResult | PendingPreBind | PermitResult | EvictionsFinished | LoopTask
)


class Writes(EvictionWrites, Protocol):
    """The scheduling loop's writes to the API server.

    The methods here do not wait for responses. Those of `EvictionWrites` do, and run in other threads.
    """

    def scheduled(self, pod: PodInfo, node: str) -> None:
        """Report that the pod is bound to the node, by an event."""

    def not_scheduled(self, pod: PodInfo, reason: str, message: str, nomination: Nomination | None) -> None:
        """Report a failed attempt by the pod's event, condition and nominated node.

        `reason` is Unschedulable or SchedulerError.
        """

    def skipped(self, pod: PodInfo, note: str) -> None:
        """Report, by an event only, that the scheduler does not try the pod. `note` is the event's text."""

    def finish_bindings(self) -> None:
        """Wait, for a limited time, until the result of every binding is known."""


class Loop:
    """The scheduling loop of one process: its state, and the thread that alone changes it."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        recorder: Recorder,
        writes: Writes,
        shared: ClusterState,
        kinds: Mapping[str, type[Object]],
        metrics: SchedulerMetrics,
        *,
        binding_threads: int,
        leading: Callable[[], bool] = lambda: True,
        dry_run: bool = False,
        on_synced: Callable[[], None] = lambda: None,
        initial_backoff_s: float = 1.0,
        max_backoff_s: float = 10.0,
        cache_verifier: CacheVerifier | None = None,
    ) -> None:
        """Build the queue and the binder.

        `frameworks` maps a scheduler name to its framework. `kinds` are the kinds besides nodes and pods that are
        watched into `shared.objects`. `leading` returns whether this process may still write; binding threads call it.
        With `dry_run`, pods are decided and not bound. `on_synced` is called once, before the first attempt.
        `cache_verifier` computes some of the decisions again.
        """
        self.cache = shared.cache
        self.inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.binder = Binder(binding_threads, recorder, self.inbox.put, writes.nominate, leading, metrics)
        self._shared = shared
        self._frameworks = frameworks
        self._recorder = recorder
        self._writes = writes
        self._metrics = metrics
        self._in_flight: dict[str, InFlightBinding] = {}
        self._next_start = 0
        self._suggester = Suggester(time.monotonic)
        self._on_synced = on_synced
        self._cache_verifier = cache_verifier
        self._prepared = False
        first = next(iter(frameworks.values()))
        self.queue = SchedulingQueue(
            first.profile.queue_sort[0].sort_key,
            lambda pod: self._framework(pod).run_pre_enqueue(pod),
            {name: framework.profile.hints for name, framework in frameworks.items()},
            initial_backoff_s,
            max_backoff_s,
        )
        annotations = frozenset(key for framework in frameworks.values() for key in framework.profile.annotations)
        self._handlers = EventHandlers(shared, self.queue, kinds, frameworks.keys(), self._in_flight, annotations)
        self._preemptions = Preemptions(shared, self._in_flight, writes, recorder, self.binder.aside, self.inbox.put)
        self._cycles = BindingCycles(
            shared,
            self._in_flight,
            self.queue,
            recorder,
            metrics,
            self.binder,
            lambda flight: self.binder.aside(lambda: writes.nominate(flight.assumed.pod, flight.assumed.node)),
            self.inbox.put,
            self,
        )
        self._dry_run = DryRunBinding(self._cycles, self.queue, recorder) if dry_run else None
        self._start = self._cycles.start if self._dry_run is None else self._dry_run.start

    def run(self, stop: threading.Event) -> None:
        """Schedule pods until `stop` is set. Then wait for the bindings in flight."""
        threading.Thread(target=self._wake_on, args=(stop,), name="stop", daemon=True).start()
        while not stop.is_set():
            self.step(IDLE_S)
        self.binder.close()
        self._writes.finish_bindings()
        self._receive(0.0)

    def _wake_on(self, stop: threading.Event) -> None:
        """Wait for `stop`, then wake the loop if it sleeps, so that it ends at once."""
        stop.wait()
        self.inbox.put(LoopTask(lambda: None))

    @property
    def synced(self) -> bool:
        """Whether every watched kind was listed at least once. Before that, no pod is scheduled."""
        return self._handlers.synced

    def step(self, wait_s: float) -> bool:
        """Apply the messages in the inbox and try to schedule one pod. Return whether there may be more to do at once.

        If there is nothing to do, wait at most `wait_s` seconds for a message. While too many bindings wait for the API
        server, no pod is tried: a later attempt knows more and is shorter.
        """
        if self._metrics.beat():
            self._metrics.observe(self._sizes())
        has_capacity = self.binder.wait_for_capacity(CAPACITY_WAIT_S)
        self._receive(0.0)
        self._cycles.poll(time.monotonic())
        if not self._prepared and self._handlers.synced:
            self._prepare()
        if not has_capacity:
            return True
        queued = self.queue.pop(time.monotonic()) if self._prepared else None
        if queued is None:
            self._recorder.check_spool()
            self._receive(self._until_due(wait_s))
            return False
        self._attempt(queued)
        return True

    def _prepare(self) -> None:
        """Have plugins build their state about the cluster, and call `on_synced`.

        This happens once, after every kind was listed and before the first attempt.
        """
        for framework in self._frameworks.values():
            framework.prepare(self.cache.columns)
        self._on_synced()
        self._prepared = True

    # --- one attempt ----------------------------------------------------------------------------------------------

    def _attempt(self, queued: QueuedPod) -> None:
        pod = queued.pod
        if pod.terminating:
            klog.info(3, "Skip schedule deleting pod", pod=pod.full_name)
            self._writes.skipped(pod, f"skip schedule deleting pod: {pod.full_name}")
            self.queue.done(pod.uid)
            return
        if self.cache.is_counted(pod.uid):
            self.queue.done(pod.uid)
            return
        klog.info(3, "Attempting to schedule pod", pod=pod.full_name)
        framework = self._framework(pod)
        self._metrics.started(pod.uid)
        started, started_us, seed = time.monotonic(), time.time_ns() // 1000, random.getrandbits(32)
        snapshot = self.cache.snapshot()
        decide = schedule if self._cache_verifier is None else self._cache_verifier.schedule
        result = decide(framework, pod, snapshot, seed, self._next_start)
        self._next_start = result.next_start
        decided = time.monotonic()
        self._metrics.cycle(framework.profile.scheduler_name, result, decided - started)
        attempt = AttemptData(
            pod=pod,
            number=queued.attempts,
            profile=framework.profile.scheduler_name,
            snapshot=snapshot,
            result=result,
            times=Times(
                created_us=parse_microseconds(pod.pod.metadata.creation_timestamp),
                queued_us=queued.first_seen_us,
                started_us=started_us,
                phases_s=dict(result.trace.phases_s),
                queues_s=dict(queued.waited_s),
            ),
            seed=seed,
            notes=tuple(self._handlers.absent.values()),
            requeued_by=queued.requeued_by,
            retry=self._retry(queued, result),
            suggestions=self._suggester.suggest(framework, pod, snapshot.nodes, result),
        )
        decision = self._recorder.record_decision(attempt)
        self._metrics.recorded(time.monotonic() - decided)
        self._log_scores(pod, result, self.cache.columns.names)
        if result.chosen is None:
            self._handle_no_node(queued, result, decision)
        else:
            self._start(queued, framework, result, decision)

    def _handle_no_node(self, queued: QueuedPod, result: CycleResult, decision: Decision) -> None:
        pod, trace = queued.pod, result.trace
        failed = result.path is DecisionPath.ERROR
        if failed:
            klog.error(result.message, "Error scheduling pod; retrying", pod=pod.full_name)
        elif result.message == reasons.format_reason(Reason("no-nodes")):
            klog.info(2, "Unable to schedule pod; no nodes are registered to the cluster; waiting", pod=pod.full_name)
        else:
            klog.info(2, "Unable to schedule pod; no fit; waiting", pod=pod.full_name, err=result.message)
        if trace.victims and trace.preemption is not None and trace.preemption.evicted:
            plugin = trace.post_filters[-1].plugin
            self._metrics.preempted(len(trace.victims))
            self._preemptions.start(pod, plugin, trace.preemption.nominated_node, trace.victims, decision)
        # Without PostFilter no plugin proposed a node, so an earlier nomination is cleared.
        is_current = trace.post_filters and not failed
        nomination = trace.nomination if is_current else CLEARED
        self.handle_scheduling_failure(
            queued, result.message, result.rejectors, failed=failed, nomination=nomination, pending=result.pending
        )

    def handle_scheduling_failure(
        self,
        queued: QueuedPod,
        message: str,
        rejectors: frozenset[str],
        *,
        failed: bool,
        nomination: Nomination | None = CLEARED,
        pending: frozenset[str] = frozenset(),
    ) -> None:
        """Return a pod that was not bound to the queue, and report why in its event and condition.

        `failed` says that the attempt ended with an error and not by a rejection.
        """
        self._metrics.ended(queued.uid, ERROR if failed else UNSCHEDULABLE, queued.pod.pod.spec.scheduler_name)
        self.queue.add_unschedulable_if_not_present(queued, rejectors, time.monotonic(), error=failed, pending=pending)
        self._shared.nominator.set_nomination(queued.pod, nomination)
        reason = "SchedulerError" if failed else "Unschedulable"
        self._writes.not_scheduled(queued.pod, reason, message, nomination)

    def handle_unreserved(self, assumed: Assumed) -> None:
        """Requeue pods that may fit now that `assumed`, whose binding failed, no longer counts on its node."""
        self._handlers.requeue_after_removal(assumed.pod, assumed.node)

    def handle_bound(self, assumed: Assumed) -> None:
        """Report a bound pod by an event."""
        self._writes.scheduled(assumed.pod, assumed.node)

    def _finish_evictions(self, evicted: EvictionsFinished) -> None:
        """Allow a preemptor whose evictions ended into the active queue.

        Try to move it there at once if an eviction failed or if a PreEnqueue plugin gates it.
        """
        self._preemptions.finished(evicted)
        waiting = self.queue.get(evicted.uid)
        if evicted.failed or (waiting is not None and waiting.gate is not None):
            self.queue.activate(evicted.uid, time.monotonic())

    def _retry(self, queued: QueuedPod, result: CycleResult) -> Retry | None:
        """Return when the pod will be tried again, for its record, or None if the attempt chose a node."""
        if result.chosen is not None:
            return None
        now_us = time.time_ns() // 1000
        error = result.path is DecisionPath.ERROR or not result.rejectors
        return self.queue.predict_retry(queued, time.monotonic(), now_us, error=error)

    def _framework(self, pod: PodInfo) -> Framework:
        return self._frameworks[pod.pod.spec.scheduler_name]

    def _sizes(self) -> LoopSizes:
        return LoopSizes(
            queues=self.queue.lengths(),
            incoming=dict(self.queue.incoming),
            unschedulable=[(q.rejectors, q.pod.pod.spec.scheduler_name) for q in self.queue if q.rejectors],
            nodes=int(self.cache.columns.live.sum()),
            pods=len(self.cache.pod_uids()),
            assumed=len(self.cache.assumed_uids()),
            binding=len(self._in_flight),
        )

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
                self._cycles.ended(message)
            case PendingPreBind():
                self._cycles.park(message)
            case PermitResult():
                self._cycles.permitted(message)
            case EvictionsFinished():
                self._finish_evictions(message)
            case LoopTask():
                message.run()
            case _:
                if self._dry_run is not None:
                    self._dry_run.observe(message)
                self._handlers.apply(message)
