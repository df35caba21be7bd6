"""The scheduling loop: one thread that alone changes the cache and the queue.

    inbox (watches, finished bindings) -> cache, queue -> pop -> cycle -> record -> assume -> binding thread
                                                             \\-> record -> event, condition, back to the queue

Owns: the order of these steps. Does not own: any decision (`cycle`), what a change of the cluster means to cache and
queue (`eventhandlers`), any request (`scheduler.kube`, through `Writes`), the record's form (`recorder`).

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
from herodotus_record.model import Decision, Path, Reason, Retry, Times
from scheduler import klog
from scheduler.binding import Assumed, Binder, Bound, Parked
from scheduler.binding_cycle import BindingCycles, Permitted
from scheduler.cycle import CycleResult, schedule
from scheduler.dry_run_binding import DryRunBinding
from scheduler.eventhandlers import EventHandlers, InFlight
from scheduler.framework.nominated import CLEARED, Nomination
from scheduler.framework.runtime import Framework
from scheduler.kube.watch import Changed, Listed
from scheduler.metrics import ERROR, UNSCHEDULABLE, Metrics, Sizes
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Object
from scheduler.preemption import Evicted, EvictionWrites, Preemptions
from scheduler.queue import QueuedPod, SchedulingQueue
from scheduler.recorder.build import Attempt, microseconds
from scheduler.recorder.recorder import Recorder
from scheduler.shared import Shared

IDLE_S: Final = 0.5  # the longest the loop sleeps, so that its heartbeat goes on
CROWDED_S: Final = 0.02  # the longest it waits for bindings before it looks what has come in


@dataclass(frozen=True)
class Asked:
    """Something that the loop's thread does between two cycles, for another thread. It must not raise."""

    run: Callable[[], None]


Message = Listed[Any] | Changed[Any] | Bound | Parked | Permitted | Evicted | Asked


class Writes(EvictionWrites, Protocol):
    """What the loop tells the API server, none of which it waits for; others do, in threads (`EvictionWrites`)."""

    def scheduled(self, pod: PodInfo, node: str) -> None:
        """The pod is bound."""

    def not_scheduled(self, pod: PodInfo, reason: str, message: str, nomination: Nomination | None) -> None:
        """The attempt failed: event, condition, nominated node. `reason`: Unschedulable or SchedulerError."""

    def skipped(self, pod: PodInfo, note: str) -> None:
        """The pod was not even tried: event only."""


class Loop:
    """One scheduler process' state and thread."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        recorder: Recorder,
        writes: Writes,
        shared: Shared,
        kinds: Mapping[str, type[Object]],
        metrics: Metrics,
        *,
        binding_threads: int,
        leading: Callable[[], bool] = lambda: True,
        dry_run: bool = False,
        on_synced: Callable[[], None] = lambda: None,
        initial_backoff_s: float = 1.0,
        max_backoff_s: float = 10.0,
    ) -> None:
        """`frameworks`: by scheduler name. `kinds`: what is watched into `shared.objects`, besides nodes and pods.

        `leading`: whether this process may still write. Asked in binding threads. `dry_run`: decide, bind nothing.
        `on_synced`: called once, before the first attempt.
        """
        self.cache = shared.cache
        self.inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.binder = Binder(binding_threads, recorder, self.inbox.put, writes.nominate, leading, metrics)
        self._shared = shared
        self._frameworks = frameworks
        self._recorder = recorder
        self._writes = writes
        self._metrics = metrics
        self._in_flight: dict[str, InFlight] = {}
        self._next_start = 0
        self._on_synced = on_synced
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
        """Schedule until `stop`; then wait for the bindings under way."""
        threading.Thread(target=self._wake_on, args=(stop,), name="stop", daemon=True).start()
        while not stop.is_set():
            self.step(IDLE_S)
        self.binder.close()
        self._receive(0.0)

    def _wake_on(self, stop: threading.Event) -> None:
        """An idle loop sleeps on its inbox; a successor must not wait for that."""
        stop.wait()
        self.inbox.put(Asked(lambda: None))

    @property
    def synced(self) -> bool:
        """Whether everything was listed once: before, nothing is scheduled."""
        return self._handlers.synced

    def step(self, wait_s: float) -> bool:
        """Apply what came and try one pod; whether there is more to do. Waits at most so long when there is not.

        While the API server is behind with bindings no pod is tried: later more is known, and its attempt is shorter.
        """
        if self._metrics.beat():
            self._metrics.observe(self._sizes())
        crowded = self.binder.crowded(CROWDED_S)
        self._receive(0.0)
        self._cycles.poll(time.monotonic())
        if not self._prepared and self._handlers.synced:
            self._prepare()
        if crowded:
            return True
        queued = self.queue.pop(time.monotonic()) if self._prepared else None
        if queued is None:
            self._recorder.settle()
            self._receive(self._until_due(wait_s))
            return False
        self._attempt(queued)
        return True

    def _prepare(self) -> None:
        """Everything was listed once: plugins build what they keep about the cluster before the first pod needs it."""
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
        if self.cache.bound(pod.uid):
            self.queue.done(pod.uid)
            return
        klog.info(3, "Attempting to schedule pod", pod=pod.full_name)
        framework = self._framework(pod)
        self._metrics.started(pod.uid)
        started, started_us, seed = time.monotonic(), time.time_ns() // 1000, random.getrandbits(32)
        snapshot = self.cache.snapshot()
        result = schedule(framework, pod, snapshot, seed, self._next_start)
        self._next_start = result.next_start
        decided = time.monotonic()
        self._metrics.cycle(framework.profile.scheduler_name, result, decided - started)
        attempt = Attempt(
            pod=pod,
            number=queued.attempts,
            profile=framework.profile.scheduler_name,
            snapshot=snapshot,
            result=result,
            times=Times(
                created_us=microseconds(pod.pod.metadata.creation_timestamp),
                queued_us=queued.first_seen_us,
                started_us=started_us,
                phases_s=dict(result.trace.phases_s),
                queues_s=dict(queued.waited_s),
            ),
            seed=seed,
            marks=tuple(self._handlers.absent.values()),
            woken_by=queued.woken_by,
            retry=self._retry(queued, result),
        )
        decision = self._recorder.decision(attempt)
        self._metrics.recorded(time.monotonic() - decided)
        self._log_scores(pod, result, self.cache.columns.names)
        if result.chosen is None:
            self._not_placed(queued, result, decision)
        else:
            self._start(queued, framework, result, decision)

    def _not_placed(self, queued: QueuedPod, result: CycleResult, decision: Decision) -> None:
        pod, trace = queued.pod, result.trace
        failed = result.path is Path.ERROR
        if failed:
            klog.error(result.message, "Error scheduling pod; retrying", pod=pod.full_name)
        elif result.message == reasons.sentence(Reason("no-nodes")):
            klog.info(2, "Unable to schedule pod; no nodes are registered to the cluster; waiting", pod=pod.full_name)
        else:
            klog.info(2, "Unable to schedule pod; no fit; waiting", pod=pod.full_name, err=result.message)
        if trace.victims and trace.preemption is not None and trace.preemption.evicted:
            plugin = trace.post_filters[-1].plugin
            self._metrics.preempted(len(trace.victims))
            self._preemptions.start(pod, plugin, trace.preemption.nominated, trace.victims, decision)
        # nobody was asked for another node: what was hoped for before is over
        asked = trace.post_filters and not failed
        nomination = trace.nomination if asked else CLEARED
        self.give_back(
            queued, result.message, result.rejectors, failed=failed, nomination=nomination, pending=result.pending
        )

    def give_back(
        self,
        queued: QueuedPod,
        message: str,
        rejectors: frozenset[str],
        *,
        failed: bool,
        nomination: Nomination | None = CLEARED,
        pending: frozenset[str] = frozenset(),
    ) -> None:
        """A pod was not placed, or not bound: it waits again, and is told why."""
        self._metrics.ended(queued.uid, ERROR if failed else UNSCHEDULABLE, queued.pod.pod.spec.scheduler_name)
        self.queue.give_back(queued, rejectors, time.monotonic(), error=failed, pending=pending)
        self._shared.nominator.decide(queued.pod, nomination)
        reason = "SchedulerError" if failed else "Unschedulable"
        self._writes.not_scheduled(queued.pod, reason, message, nomination)

    def left(self, assumed: Assumed) -> None:
        """A pod that was on its way to a node no longer is."""
        self._handlers.left(assumed.pod, assumed.node)

    def bound(self, assumed: Assumed) -> None:
        """A pod is on its node."""
        self._writes.scheduled(assumed.pod, assumed.node)

    def _evicted(self, evicted: Evicted) -> None:
        """The preemptor may enter the queue again: at once after a failure, or where only we kept it out."""
        self._preemptions.finished(evicted)
        waiting = self.queue.get(evicted.uid)
        if evicted.failed or (waiting is not None and waiting.gate is not None):
            self.queue.activate(evicted.uid, time.monotonic())

    def _retry(self, queued: QueuedPod, result: CycleResult) -> Retry | None:
        """When a pod that no node was chosen for is tried again, before it is given back: its record says so."""
        if result.chosen is not None:
            return None
        now_us = time.time_ns() // 1000
        error = result.path is Path.ERROR or not result.rejectors
        return self.queue.retry(queued, time.monotonic(), now_us, error=error)

    def _framework(self, pod: PodInfo) -> Framework:
        return self._frameworks[pod.pod.spec.scheduler_name]

    def _sizes(self) -> Sizes:
        return Sizes(
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
                if run.normalized is not None and not run.extender:  # theirs are logged as they come
                    score = int(run.normalized[slot]) * run.weight
                    klog.info(
                        10, "Plugin scored node for pod", pod=pod.full_name, plugin=run.plugin, node=node, score=score
                    )
            total = int(totals[slot])
            klog.info(10, "Calculated node's final score for pod", pod=pod.full_name, node=node, score=total)

    # --- what comes in --------------------------------------------------------------------------------------------

    def _until_due(self, at_most_s: float) -> float:
        dues = [due for due in (self.queue.next_due(), self._cycles.next_due()) if due is not None]
        return min(max(min(dues) - time.monotonic(), 0.0), at_most_s) if dues else at_most_s

    def _receive(self, wait_s: float) -> None:
        """Apply everything in the inbox; wait for the first message so long."""
        try:
            message = self.inbox.get(timeout=wait_s) if wait_s > 0 else self.inbox.get_nowait()
            while True:
                self._apply(message)
                message = self.inbox.get_nowait()
        except queue.Empty:
            return

    def _apply(self, message: Message) -> None:
        match message:
            case Bound():
                self._cycles.ended(message)
            case Parked():
                self._cycles.park(message)
            case Permitted():
                self._cycles.permitted(message)
            case Evicted():
                self._evicted(message)
            case Asked():
                message.run()
            case _:
                if self._dry_run is not None:
                    self._dry_run.observe(message)
                self._handlers.apply(message)
