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
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from herodotus_record import reasons
from herodotus_record.model import Code, Decision, Path, PluginVerdict, Reason, Retry, Times
from scheduler import klog
from scheduler.binding import Assumed, Binder, Bound
from scheduler.cache import Cache
from scheduler.cycle import CycleResult, schedule
from scheduler.eventhandlers import EventHandlers, InFlight
from scheduler.framework.runtime import Framework, message_of
from scheduler.framework.verdicts import error
from scheduler.kube.watch import Changed, Listed
from scheduler.objects.cluster import ClusterObjects
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Object
from scheduler.queue import QueuedPod, SchedulingQueue
from scheduler.recorder.build import microseconds
from scheduler.recorder.recorder import Recorder

IDLE_S: Final = 0.5  # the longest the loop sleeps without looking at its stop flag

Message = Listed[Any] | Changed[Any] | Bound


class Writes(Protocol):
    """What the loop tells the API server, none of which it waits for."""

    def scheduled(self, pod: PodInfo, node: str) -> None:
        """The pod is bound."""

    def not_scheduled(self, pod: PodInfo, reason: str, message: str) -> None:
        """The attempt failed: event and condition. `reason`: Unschedulable or SchedulerError."""

    def skipped(self, pod: PodInfo, note: str) -> None:
        """The pod was not even tried: event only."""


class Loop:
    """One scheduler process' state and thread."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        recorder: Recorder,
        writes: Writes,
        objects: ClusterObjects,
        kinds: Mapping[str, type[Object]],
        *,
        binding_threads: int,
        initial_backoff_s: float = 1.0,
        max_backoff_s: float = 10.0,
    ) -> None:
        """`frameworks`: by scheduler name. `kinds`: what is watched into `objects`, besides nodes and pods."""
        self.cache = Cache()
        self.inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.binder = Binder(binding_threads, recorder, self.inbox.put)
        self._frameworks = frameworks
        self._recorder = recorder
        self._writes = writes
        self._in_flight: dict[str, InFlight] = {}
        self._next_start = 0
        first = next(iter(frameworks.values()))
        self.queue = SchedulingQueue(
            first.profile.queue_sort[0].sort_key,
            lambda pod: self._framework(pod).run_pre_enqueue(pod),
            {name: framework.profile.hints for name, framework in frameworks.items()},
            initial_backoff_s,
            max_backoff_s,
        )
        self._handlers = EventHandlers(self.cache, self.queue, objects, kinds, frameworks.keys(), self._in_flight)

    def run(self, stop: threading.Event) -> None:
        """Schedule until `stop`; then wait for the bindings under way."""
        while not stop.is_set():
            self.step(IDLE_S)
        self.binder.close()
        self._receive(0.0)

    def step(self, wait_s: float) -> bool:
        """Apply what came and try one pod; whether there was one. Waits at most so long when there is nothing to do."""
        self._receive(0.0)
        queued = self.queue.pop(time.monotonic()) if self._handlers.synced else None
        if queued is None:
            self._recorder.settle()
            self._receive(self._until_due(wait_s))
            return False
        self._attempt(queued)
        return True

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
        started_us, seed = time.time_ns() // 1000, random.getrandbits(32)
        snapshot = self.cache.snapshot()
        result = schedule(framework, pod, snapshot, seed, self._next_start)
        self._next_start = result.next_start
        decision = self._recorder.decision(
            pod=pod,
            attempt=queued.attempts,
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
            marks=(*framework.profile.marks, *self._handlers.absent.values()),
            woken_by=queued.woken_by,
            retry=self._retry(queued, result),
        )
        self._log_scores(pod, result, self.cache.columns.names)
        if result.chosen is None:
            self._not_placed(queued, result)
        else:
            self._place(queued, framework, result, decision)

    def _not_placed(self, queued: QueuedPod, result: CycleResult) -> None:
        pod = queued.pod
        failed = result.path is Path.ERROR
        if failed:
            klog.error(result.message, "Error scheduling pod; retrying", pod=pod.full_name)
        elif result.message == reasons.sentence(Reason("no-nodes")):
            klog.info(2, "Unable to schedule pod; no nodes are registered to the cluster; waiting", pod=pod.full_name)
        else:
            klog.info(2, "Unable to schedule pod; no fit; waiting", pod=pod.full_name, err=result.message)
        self._give_back(queued, result.message, result.rejectors, failed=failed)

    def _place(self, queued: QueuedPod, framework: Framework, result: CycleResult, decision: Decision) -> None:
        """Assume, Reserve, Permit; then a binding thread goes on."""
        assert result.chosen is not None
        node = self.cache.columns.names[result.chosen]
        # running: from now on the pod counts as nodes count their pods
        pod = replace(queued.pod, running=True)
        self.cache.assume(pod, node)
        assumed = Assumed(pod, node, framework, result.state, decision)
        for phase, run in (("Reserve", framework.run_reserve), ("Permit", framework.run_permit)):
            refusal = run(result.state, pod, node)
            if refusal is None:
                continue
            code = refusal.verdict.code
            if code is Code.WAIT:
                refusal = PluginVerdict(refusal.plugin, error("waiting on Permit is not supported yet"))
            message = message_of(refusal.verdict)
            self._recorder.outcome(decision, phase, code, node, message, 0.0, final=True)
            self._undo(assumed)
            if code.rejected:
                message = reasons.fit_error(1, [(reasons.sentence(r), 1) for r in refusal.verdict.reasons])
            else:
                message = f'running {phase} plugin "{refusal.plugin}": {message}'
            self._give_back(queued, message, frozenset({refusal.plugin}), failed=not code.rejected)
            return
        trace = result.trace
        evaluated, feasible = int(trace.evaluated.sum()), int(trace.feasible.sum())
        self._in_flight[pod.uid] = InFlight(queued, assumed, evaluated, feasible)
        self.binder.submit(assumed)

    def _bound(self, done: Bound) -> None:
        """A binding thread is done."""
        flight = self._in_flight.pop(done.uid)
        queued, assumed = flight.queued, flight.assumed
        pod = assumed.pod
        if done.failure is None:
            self._writes.scheduled(pod, assumed.node)
            klog.info(
                2,
                "Successfully bound pod to node",
                pod=pod.full_name,
                node=assumed.node,
                evaluatedNodes=flight.evaluated,
                feasibleNodes=flight.feasible,
            )
            self.queue.done(pod.uid)
            return
        klog.info(1, "Failed to bind pod", pod=pod.full_name)
        self._undo(assumed)
        # gone, or the watch has shown it bound: to another node, or by another scheduler
        if flight.deleted or self.cache.bound(pod.uid):
            self.queue.done(pod.uid)
        else:
            message = f'running Bind plugin "{done.failure.plugin}": {message_of(done.failure.verdict)}'
            klog.error(message, "Error scheduling pod; retrying", pod=pod.full_name)
            self._give_back(queued, message, frozenset(), failed=True)
        self._handlers.left(pod, assumed.node)  # after it was given back: its own leaving does not help it

    def _undo(self, assumed: Assumed) -> None:
        assumed.framework.run_unreserve(assumed.state, assumed.pod, assumed.node)
        self.cache.forget(assumed.pod.uid)

    def _give_back(self, queued: QueuedPod, message: str, rejectors: frozenset[str], *, failed: bool) -> None:
        self.queue.give_back(queued, rejectors, time.monotonic(), error=failed)
        self._writes.not_scheduled(queued.pod, "SchedulerError" if failed else "Unschedulable", message)

    def _retry(self, queued: QueuedPod, result: CycleResult) -> Retry | None:
        """When a pod that no node was chosen for is tried again, before it is given back: its record says so."""
        if result.chosen is not None:
            return None
        now_us = time.time_ns() // 1000
        error = result.path is Path.ERROR or not result.rejectors
        return self.queue.retry(queued, time.monotonic(), now_us, error=error)

    def _framework(self, pod: PodInfo) -> Framework:
        return self._frameworks[pod.pod.spec.scheduler_name]

    @staticmethod
    def _log_scores(pod: PodInfo, result: CycleResult, names: list[str]) -> None:
        trace, totals = result.trace, result.trace.totals
        if not klog.enabled(10) or totals is None:
            return
        for slot in trace.feasible.nonzero()[0].tolist():
            node = names[slot]
            for run in trace.scores:
                if run.normalized is not None:
                    score = int(run.normalized[slot]) * run.weight
                    klog.info(
                        10, "Plugin scored node for pod", pod=pod.full_name, plugin=run.plugin, node=node, score=score
                    )
            total = int(totals[slot])
            klog.info(10, "Calculated node's final score for pod", pod=pod.full_name, node=node, score=total)

    # --- what comes in --------------------------------------------------------------------------------------------

    def _until_due(self, at_most_s: float) -> float:
        due = self.queue.next_due()
        return at_most_s if due is None else min(max(due - time.monotonic(), 0.0), at_most_s)

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
        if isinstance(message, Bound):
            self._bound(message)
        else:
            self._handlers.apply(message)
