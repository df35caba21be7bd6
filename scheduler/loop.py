"""The scheduling loop: one thread that alone changes the cache and the queue.

    inbox (watches, finished bindings) -> cache, queue -> pop -> cycle -> record -> assume -> binding thread
                                                             \\-> record -> event, condition, back to the queue

Owns: the order of these steps, and what an API object that appears, changes or goes means to cache and queue. Does not
own: any decision (`cycle`), any request (`scheduler.kube`, through `Writes`), the record's form (`recorder`).

Source: pkg/scheduler/schedule_one.go and eventhandlers.go v1.36.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from herodotus_record import reasons
from herodotus_record.model import Code, Decision, Path, PluginVerdict, Reason, Times
from scheduler import klog
from scheduler.binding import Assumed, Binder, Bound
from scheduler.cache import Cache
from scheduler.cycle import CycleResult, schedule
from scheduler.framework.events import Event, object_event
from scheduler.framework.runtime import Framework, message_of
from scheduler.framework.verdicts import error
from scheduler.kube.watch import Changed, Listed
from scheduler.objects.cluster import ClusterObjects
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Node, Object, Pod
from scheduler.queue import QueuedPod, SchedulingQueue
from scheduler.recorder.build import microseconds
from scheduler.recorder.recorder import Recorder

NODES, PODS = "nodes", "pods"
IDLE_S: Final = 0.5  # the longest the loop sleeps without looking at its stop flag
FINISHED: Final = ("Succeeded", "Failed")

Message = Listed[Any] | Changed[Any] | Bound


class Writes(Protocol):
    """What the loop tells the API server, none of which it waits for."""

    def scheduled(self, pod: PodInfo, node: str) -> None:
        """The pod is bound."""

    def not_scheduled(self, pod: PodInfo, reason: str, message: str) -> None:
        """The attempt failed: event and condition. `reason`: Unschedulable or SchedulerError."""

    def skipped(self, pod: PodInfo, note: str) -> None:
        """The pod was not even tried: event only."""


@dataclass
class _InFlight:
    """A pod whose binding is under way, and what became of it meanwhile."""

    queued: QueuedPod
    assumed: Assumed
    evaluated: int
    feasible: int
    deleted: bool = False


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
        self.objects = objects
        self._kinds = kinds
        self.cache = Cache()
        self.inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.binder = Binder(binding_threads, recorder, self.inbox.put)
        self._frameworks = frameworks
        self._recorder = recorder
        self._writes = writes
        self._in_flight: dict[str, _InFlight] = {}
        self._synced: set[str] = set()
        self._absent: dict[str, str] = {}  # kinds that the API server does not serve, and what records say of it
        self._next_start = 0
        first = next(iter(frameworks.values()))
        self.queue = SchedulingQueue(
            first.profile.queue_sort[0].sort_key,
            lambda pod: self._framework(pod).run_pre_enqueue(pod),
            self._wakes_on,
            initial_backoff_s,
            max_backoff_s,
        )

    def run(self, stop: threading.Event) -> None:
        """Schedule until `stop`; then wait for the bindings under way."""
        while not stop.is_set():
            self.step(IDLE_S)
        self.binder.close()
        self._receive(0.0)

    def step(self, wait_s: float) -> bool:
        """Apply what came and try one pod; whether there was one. Waits at most so long when there is nothing to do."""
        self._receive(0.0)
        queued = self.queue.pop(time.monotonic()) if self.synced else None
        if queued is None:
            self._recorder.settle()
            self._receive(self._until_due(wait_s))
            return False
        self._attempt(queued)
        return True

    @property
    def synced(self) -> bool:
        """Whether everything was listed once: before, the cluster looks emptier than it is."""
        return self._synced >= {NODES, PODS, *self._kinds}

    # --- one attempt ----------------------------------------------------------------------------------------------

    def _attempt(self, queued: QueuedPod) -> None:
        pod = queued.pod
        if pod.terminating:
            klog.info(3, "Skip schedule deleting pod", pod=pod.full_name)
            self._writes.skipped(pod, f"skip schedule deleting pod: {pod.full_name}")
            return
        if self.cache.bound(pod.uid):
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
            marks=(*framework.profile.marks, *self._absent.values()),
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
        self._in_flight[pod.uid] = _InFlight(queued, assumed, evaluated, feasible)
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
            if flight.deleted:  # its deletion was seen first; nothing else will take it off the node
                self._pod_gone(pod.uid)
            return
        klog.info(1, "Failed to bind pod", pod=pod.full_name)
        self._undo(assumed)
        self.queue.wake(Event.POD_DELETE, time.monotonic())
        if flight.deleted:
            self._pod_gone(pod.uid)
            return
        if self.cache.bound(pod.uid):  # the watch has shown it bound: to another node, or by another scheduler
            return
        message = f'running Bind plugin "{done.failure.plugin}": {message_of(done.failure.verdict)}'
        klog.error(message, "Error scheduling pod; retrying", pod=pod.full_name)
        self._give_back(queued, message, frozenset(), failed=True)

    def _undo(self, assumed: Assumed) -> None:
        assumed.framework.run_unreserve(assumed.state, assumed.pod, assumed.node)
        self.cache.forget(assumed.pod.uid)

    def _give_back(self, queued: QueuedPod, message: str, rejectors: frozenset[str], *, failed: bool) -> None:
        self.queue.give_back(queued, rejectors, time.monotonic(), error=failed)
        self._writes.not_scheduled(queued.pod, "SchedulerError" if failed else "Unschedulable", message)

    def _framework(self, pod: PodInfo) -> Framework:
        return self._frameworks[pod.pod.spec.scheduler_name]

    def _wakes_on(self, pod: PodInfo, plugins: frozenset[str]) -> frozenset[Event]:
        return self._framework(pod).profile.wakes_on(plugins)

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
        elif isinstance(message, Listed):
            self._listed(message)
            self._synced.add(message.kind)
        elif message.kind in self._kinds:
            self._object(self._kinds[message.kind], message.type, message.object)
        elif message.kind == NODES:
            if message.type == "DELETED":
                self._node_gone(message.object.metadata.name)
            else:
                self._node(message.object)
        elif message.type == "DELETED":
            self._pod_gone(message.object.metadata.uid)
        else:
            self._pod(message.object)

    def _listed(self, message: Listed[Any]) -> None:
        if message.kind == NODES:
            self._nodes_listed(message.objects)
        elif message.kind == PODS:
            self._pods_listed(message.objects)
        else:
            self._objects_listed(message)

    def _objects_listed(self, message: Listed[Any]) -> None:
        kind = self._kinds[message.kind]
        self.objects.replace_all(kind, message.objects)
        self._absent.pop(message.kind, None)
        if message.absent:
            self._absent[message.kind] = f"absent: {message.kind} are not served, so there are none"
        if message.kind in self._synced:  # what changed unseen may be anything
            for action in ("Add", "Update", "Delete"):
                self._wake_for(kind, action)

    def _object(self, kind: type[Object], change: str, obj: Object) -> None:
        """Something else than a node or pod appeared, changed or went."""
        known = self.objects.get(kind, obj.metadata.name, obj.metadata.namespace) is not None
        if change == "DELETED":
            self.objects.remove(obj)
            self._wake_for(kind, "Delete")
        else:
            self.objects.set(obj)
            self._wake_for(kind, "Update" if known else "Add")

    def _wake_for(self, kind: type[Object], action: str) -> None:
        event = object_event(kind.__name__, action)
        if event is not None:
            self.queue.wake(event, time.monotonic())

    def _nodes_listed(self, nodes: Iterable[Node]) -> None:
        listed = {node.metadata.name: node for node in nodes}
        for name in self.cache.node_names():
            if name not in listed:
                self._node_gone(name)
        for node in listed.values():
            self._node(node)

    def _node(self, node: Node) -> None:
        old = self.cache.node(node.metadata.name)
        events = node_events(old, node)
        if old is None or events or _differ(old, node):
            self.cache.set_node(node)
        for event in events:
            self.queue.wake(event, time.monotonic())

    def _node_gone(self, name: str) -> None:
        self.cache.remove_node(name)
        self.queue.wake(Event.NODE_DELETE, time.monotonic())

    def _pods_listed(self, pods: Iterable[Pod]) -> None:
        listed = {pod.metadata.uid: pod for pod in pods}
        for uid in [*self.cache.pod_uids(), *self.queue.uids(), *self._in_flight]:
            if uid not in listed:
                self._pod_gone(uid)
        for uid in self.cache.assumed_uids() - listed.keys() - self._in_flight.keys():
            self._pod_gone(uid)  # bound, and deleted before the watch showed either
        for pod in listed.values():
            self._pod(pod)

    def _pod(self, pod: Pod) -> None:
        """A pod as it is now: on a node, waiting for us, or none of our business."""
        uid, now = pod.metadata.uid, time.monotonic()
        if pod.status.phase in FINISHED:
            self._pod_gone(uid)
        elif pod.spec.node_name:
            self.queue.delete(uid)
            old, new = None if self.cache.assumed(uid) else self.cache.pod(uid), PodInfo(pod, running=True)
            self.cache.set_pod(new)
            for event in pod_events(old, new):
                self.queue.wake(event, now)
        elif pod.spec.scheduler_name not in self._frameworks:
            self.queue.delete(uid)
        elif uid in self._in_flight:
            self._in_flight[uid].queued.pod = PodInfo(pod)
        elif uid in self.queue:
            self.queue.update(PodInfo(pod), now)
        elif not self.cache.bound(uid):
            self.queue.add(PodInfo(pod), now, time.time_ns() // 1000)

    def _pod_gone(self, uid: str) -> None:
        self.queue.delete(uid)
        if uid in self._in_flight:
            self._in_flight[uid].deleted = True  # it counts until its binding is done
        elif self.cache.remove_pod(uid):
            self.queue.wake(Event.POD_DELETE, time.monotonic())


def _differ(old: Node, new: Node) -> bool:
    """Whether nodes differ in what wakes no pod and yet is in the columns: a node of the same name may be another."""
    return (old.metadata.uid, old.spec, old.status.images) != (new.metadata.uid, new.spec, new.status.images)


def pod_events(old: PodInfo | None, new: PodInfo) -> list[Event]:
    """What a change of a pod on a node may mean to waiting pods. `old`: None where it was not confirmed there yet.

    Source: framework/events.go podSchedulingPropertiesChange.
    """
    if old is None:
        return [Event.POD_ADD]
    events = []
    if old.labels != new.labels:
        events.append(Event.POD_LABEL)
    if any(new.requests.get(resource, 0) < amount for resource, amount in old.requests.items()):
        events.append(Event.POD_SCALE_DOWN)
    return events


def node_events(old: Node | None, new: Node) -> list[Event]:
    """What a node's change may mean to waiting pods. Source: framework/events.go nodeSchedulingPropertiesChange."""
    if old is None:
        return [Event.NODE_ADD]
    events = []
    if old.status.allocatable != new.status.allocatable:
        events.append(Event.NODE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        events.append(Event.NODE_LABEL)
    if old.spec.taints != new.spec.taints or (old.spec.unschedulable and not new.spec.unschedulable):
        events.append(Event.NODE_TAINT)
    if old.status.declared_features != new.status.declared_features:
        events.append(Event.NODE_FEATURE)
    return events
