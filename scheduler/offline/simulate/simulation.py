"""Replays a trace with a configuration: the scheduling queue and the scheduling cycle on virtual time.

    simulation = TraceSimulation(config, registry, seed=0)
    simulation.run(events, watch)

Owns: virtual time, arrivals and ends, what binding and preemption lead to. Does not own: the queue's rules
(`SchedulingQueue`), decisions (`engine.cycle`), figures (`metrics`).

An attempt and a binding take no time, and a victim of preemption ends at once. If a controller owns the victim, a new
pod arrives at that moment and runs as long as the first would have, unless the trace has the pod in its place. A pod
runs from its binding as long as it ran in the trace. A pod that the trace found on its node is not decided. A pod
that waits for five minutes is tried again only when something else happens, because nothing has changed by then.

A simulation that follows the trace puts each pod on its node in the trace if that node fits, ends it when it ended
there, and evicts nothing itself. So each decision is made in the state in which the recorded scheduler made it.

Invariant: equal events, configuration and seed give equal results.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, Protocol, cast

import numpy as np
from msgspec.structs import replace

from herodotus_kube.watch import ListResult, WatchEvent
from herodotus_record.model import Code, DecisionPath
from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.event_handlers import NODES, PODS, EventHandlers
from scheduler.backend.queue import QueuedPod, SchedulingQueue
from scheduler.config import Configuration, Registry, build_profile
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule
from scheduler.engine.framework.nominated import CLEARED
from scheduler.engine.framework.plugin import PodGroupStates
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.resource_api import ResourceClaim
from scheduler.engine.objects.types import Node
from scheduler.engine.whatif.claims import SimulatedClaims
from scheduler.offline.evaluate import NoCluster
from scheduler.offline.traces.document import (
    Event,
    NodeAdded,
    NodeRemoved,
    ObjectRemoved,
    ObjectSet,
    PodArrived,
)
from scheduler.offline.traces.redaction import OBJECT_KINDS


class SimulationError(ValueError):
    """The trace has something that is not simulated. The message names it."""


class SimulationWatcher(Protocol):
    """What is told of the course of a simulation. `now_s` is in seconds since the start of the trace."""

    def advance(self, now_s: float, nodes: NodeColumns, waiting: int) -> None:
        """Take the state that held until `now_s`; it changes after the call."""

    def arrived(self, now_s: float, pod: PodInfo) -> None:
        """Take a pod that arrives, for the first time or anew."""

    def decided(self, now_s: float, pod: PodInfo, node: str) -> None:
        """Take the end of an attempt: the node, or "" if there is none."""

    def preempted(self, now_s: float, victim: PodInfo) -> None:
        """Take a pod that is evicted to make room."""


class SimulatedAttempt(NamedTuple):
    """An attempt of a simulation. Its snapshot can be read until the next change of the simulated cluster."""

    now_s: float
    framework: Framework
    pod: PodInfo
    snapshot: Snapshot
    seed: int
    result: CycleResult


class TraceSimulation:
    """A cluster on virtual time, with the scheduler of a configuration."""

    def __init__(
        self,
        config: Configuration,
        registry: Registry,
        seed: int,
        observe: Callable[[SimulatedAttempt], None] = lambda _: None,
        *,
        follows_trace: bool = False,
    ) -> None:
        """Start with an empty cluster. Raises ConfigError.

        `seed` draws between equally good nodes. `observe` gets each attempt before anything follows from it, also
        before a simulation that follows the trace chooses the node.
        """
        self._now, self._observe, self._follows_trace = 0.0, observe, follows_trace
        self._random = random.Random(seed)
        cluster = ClusterState()
        handle = _SimulatedCluster(cluster)
        self._frameworks = {
            profile.scheduler_name: Framework(
                build_profile(config, i, registry, handle), self._clock, (), cluster.nominator
            )
            for i, profile in enumerate(config.profiles)
        }
        self._default_name = next(iter(self._frameworks))
        self._queue = SchedulingQueue.for_profiles(
            self._frameworks, config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
        )
        self._handlers = EventHandlers(cluster, self._queue, OBJECT_KINDS, self._frameworks, {}, self._clock)
        self._objects = cluster.objects
        self._claims = SimulatedClaims(cluster.objects, partial(self._handlers.requeue_for, ResourceClaim))
        self._known_claims: set[str] = set()  # those that the trace has at any time, by `ObjectSet.name`
        self._cache, self._nominator = cluster.cache, cluster.nominator
        self._arrivals: dict[str, PodArrived] = {}  # by UID: pods that wait or run
        self._due: list[tuple[float, int, Event | str]] = []  # an event, or the UID of a pod that ends
        self._number = 0
        self._next_start = 0

    def _clock(self) -> float:
        return self._now

    def run(
        self,
        events: Iterable[Event],
        watcher: SimulationWatcher,
        report: Callable[[float], None],
        until_s: float = math.inf,
    ) -> None:
        """Simulate the events until nothing can change any more, or what happens before `until_s`.

        `report` gets the time after each change.

        Raises SimulationError for a pod of a pod group, or with a resource claim that the trace never has.
        """
        for event in events:
            self._plan(event.at_s, event)
            if isinstance(event, ObjectSet):
                self._known_claims.add(event.name)
        for kind in (NODES, PODS):
            self._handlers.apply(ListResult(kind, []))
        for framework in self._frameworks.values():
            framework.prepare(self._cache.columns)
        while (at_s := self._find_next_time()) is not None and at_s < until_s:
            watcher.advance(at_s, self._cache.columns, len(self._queue))
            self._now = at_s
            while self._due and self._due[0][0] <= at_s:
                self._apply(heapq.heappop(self._due)[2], watcher)
            while (queued := self._queue.pop(self._now)) is not None:
                self._attempt(queued, watcher)
            report(at_s)
        watcher.advance(self._now, self._cache.columns, len(self._queue))

    def list_present(self, at_s: float) -> list[Event]:
        """Return events at the time `at_s` that lead to the present state: its nodes, and its pods there or waiting."""
        ends_s = {what: end_s for end_s, _, what in self._due if isinstance(what, str)}
        columns = self._cache.columns
        node_of = {uid: columns.names[slot] for slot in np.flatnonzero(columns.live) for uid in columns.pods[slot]}
        events: list[Event] = [NodeAdded(at_s, node) for node in columns.nodes if node is not None]
        events += (ObjectSet(at_s, obj) for kind in OBJECT_KINDS.values() for obj in self._objects.all(kind))
        for uid, arrival in self._arrivals.items():
            node, runs_s = node_of.get(uid, ""), arrival.runs_s
            ended_s = ends_s.get(uid) if node else None if runs_s is None else at_s + runs_s
            events.append(
                replace(arrival, at_s=at_s, bound_at_s=None, node=node, ended_at_s=ended_s, was_on_node=node != "")
            )
        return events

    def _find_next_time(self) -> float | None:
        """Return when something happens next: an event, or the end of a backoff; None if nothing does."""
        times = [self._due[0][0]] if self._due else []
        backoff = self._queue.next_backoff_end()
        return min([*times, *([] if backoff is None else [backoff])], default=None)

    def _plan(self, at_s: float, what: Event | str) -> None:
        self._number += 1
        heapq.heappush(self._due, (at_s, self._number, what))

    # --- what happens -------------------------------------------------------------------------------------------------

    def _apply(self, what: Event | str, watcher: SimulationWatcher) -> None:
        match what:
            case NodeAdded():
                self._handlers.apply(WatchEvent(NODES, "ADDED", what.node))
            case NodeRemoved():
                self._remove_node(what.name)
            case ObjectSet():
                self._handlers.apply(WatchEvent(what.kind, "ADDED", what.object))
            case ObjectRemoved():
                self._remove_object(what)
            case PodArrived():
                self._add_pod(what, watcher)
            case str() as uid if uid in self._arrivals:
                self._end(uid)

    def _remove_node(self, name: str) -> None:
        node = self._cache.node(name)
        if node is None:
            return
        for uid in list(self._cache.columns.pods[self._cache.columns.index[name]]):
            self._end(uid)
        self._handlers.apply(WatchEvent(NODES, "DELETED", node))

    def _remove_object(self, event: ObjectRemoved) -> None:
        obj = self._objects.get(OBJECT_KINDS[event.kind], event.object_name, event.object_namespace)
        if obj is not None:
            self._handlers.apply(WatchEvent(event.kind, "DELETED", obj))

    def _add_pod(self, arrival: PodArrived, watcher: SimulationWatcher) -> None:
        spec = arrival.pod.spec
        self._refuse_unknown(arrival)
        name = spec.scheduler_name if spec.scheduler_name in self._frameworks else self._default_name
        node = arrival.node if arrival.was_on_node and self._cache.node(arrival.node) is not None else ""
        spec = replace(spec, node_name=node, scheduler_name=name)
        status = replace(arrival.pod.status, phase="Running" if node else "Pending", nominated_node_name="")
        pod = replace(arrival.pod, spec=spec, status=status)
        if spec.resource_claims and not node:  # the claims that it had on a node, if it was on one, are freed
            self._claims.release(PodInfo(pod))
            pod = replace(pod, status=replace(status, resource_claim_statuses=None))
            pod = self._claims.generate(PodInfo(pod)).pod
        self._arrivals[pod.metadata.uid] = replace(arrival, pod=pod)
        if not node:
            watcher.arrived(self._now, PodInfo(pod))
        self._handlers.apply(WatchEvent(PODS, "ADDED", pod))
        if node:
            self._plan_end(pod.metadata.uid)
        if self._follows_trace and arrival.ended_at_s is not None:
            self._plan(arrival.ended_at_s, pod.metadata.uid)

    def _refuse_unknown(self, arrival: PodArrived) -> None:
        """Raise SimulationError for a pod that a simulation would only let wait: what it needs is not in the trace."""
        spec, namespace = arrival.pod.spec, arrival.pod.metadata.namespace
        if spec.scheduling_group is not None or spec.workload_ref is not None:
            raise SimulationError(f"pod {arrival.name}: pod groups are not simulated")
        for wanted in () if arrival.was_on_node else spec.resource_claims or ():
            kind, name = "ResourceClaim", wanted.resource_claim_name
            if not name:
                kind, name = "ResourceClaimTemplate", wanted.resource_claim_template_name
            if f"{kind}/{namespace}/{name}" not in self._known_claims:
                raise SimulationError(f"pod {arrival.name}: the trace does not have its {kind} {name}")

    def _end(self, uid: str) -> None:
        pod = self._arrivals.pop(uid).pod
        if next(iter(self._objects.all(ResourceClaim)), None) is not None:
            self._claims.release(PodInfo(pod))
            self._claims.forget_changes()
        self._handlers.delete_pod(uid)

    # --- attempts -----------------------------------------------------------------------------------------------------

    def _attempt(self, queued: QueuedPod, watcher: SimulationWatcher) -> None:
        """Decide a pod from the queue. Bind it, or return it to the queue and evict the victims of its preemption."""
        pod = queued.pod
        framework = self._frameworks[pod.pod.spec.scheduler_name]
        seed, snapshot = self._random.getrandbits(32), self._cache.snapshot()
        result = schedule(framework, pod, snapshot, seed, self._next_start)
        self._next_start = result.next_start
        if result.chosen is not None:
            result = self._reserve(framework, pod, result)
        self._observe(SimulatedAttempt(self._now, framework, pod, snapshot, seed, result))
        if self._follows_trace:
            result = _choose_recorded(result, snapshot.nodes, self._arrivals[pod.uid].node)
        if result.chosen is None:
            watcher.decided(self._now, pod, "")
            self._fail(queued, result, watcher)
            return
        node = self._cache.columns.names[result.chosen]
        watcher.decided(self._now, pod, node)
        self._claims.allocate(pod, node, result.state)
        self._claims.forget_changes()
        status = replace(pod.pod.status, phase="Running", nominated_node_name="")
        self._handlers.apply(
            WatchEvent(PODS, "MODIFIED", replace(pod.pod, spec=replace(pod.pod.spec, node_name=node), status=status))
        )
        self._queue.done(pod.uid)
        self._plan_end(pod.uid)

    def _plan_end(self, uid: str) -> None:
        """Plan the end of a pod that is bound now, unless its end was planned when it arrived."""
        runs_s = self._arrivals[uid].runs_s
        if runs_s is not None and not self._follows_trace:
            self._plan(self._now + runs_s, uid)

    def _reserve(self, framework: Framework, pod: PodInfo, result: CycleResult) -> CycleResult:
        """Run the Reserve plugins for the chosen node, and return the result, without a node if one refuses."""
        node = self._cache.columns.names[cast(int, result.chosen)]
        refusal = framework.run_reserve(result.state, pod, node)
        if refusal is None:
            return result
        framework.run_unreserve(result.state, pod, node)
        path = DecisionPath.ERROR if refusal.verdict.code is Code.ERROR else DecisionPath.NONE
        return dataclasses.replace(result, chosen=None, path=path, rejectors=frozenset({refusal.plugin}))

    def _fail(self, queued: QueuedPod, result: CycleResult, watcher: SimulationWatcher) -> None:
        """Return a pod to the queue after an attempt without a node, and evict what its preemption chose.

        Source: pkg/scheduler/schedule_one.go v1.36 handleSchedulingFailure.
        """
        trace, is_error = result.trace, result.path is DecisionPath.ERROR
        nomination = trace.nomination if trace.post_filters and not is_error else CLEARED
        self._queue.add_unschedulable_if_not_present(
            queued, result.rejectors, self._now, error=is_error, pending=result.pending
        )
        self._nominator.set_nomination(queued.pod, nomination)
        if nomination is not None and nomination.node != queued.pod.pod.status.nominated_node_name:
            status = replace(queued.pod.pod.status, nominated_node_name=nomination.node)
            self._handlers.apply(WatchEvent(PODS, "MODIFIED", replace(queued.pod.pod, status=status)))
        self._claims.deallocate(result.state)
        if trace.preemption is not None and trace.preemption.evicted and not self._follows_trace:
            for victim in trace.victims:
                self._evict(victim, watcher)

    def _evict(self, victim: PodInfo, watcher: SimulationWatcher) -> None:
        watcher.preempted(self._now, victim)
        arrival = self._arrivals[victim.uid]
        self._end(victim.uid)
        metadata = arrival.pod.metadata
        if arrival.owner_kind and not arrival.was_evicted:
            self._number += 1
            uid = f"{metadata.uid}/{self._number}"
            anew = replace(arrival.pod, metadata=replace(metadata, uid=uid))
            ended = None if arrival.runs_s is None else self._now + arrival.runs_s
            self._plan(self._now, PodArrived(self._now, anew, ended_at_s=ended))


def _choose_recorded(result: CycleResult, nodes: NodeColumns, node: str) -> CycleResult:
    """Return the result with the node that a trace has for the pod, if that node is feasible, and as it is if not."""
    slot = nodes.index.get(node)
    if result.chosen is None or slot is None or not result.trace.feasible[slot]:
        return result
    return dataclasses.replace(result, chosen=slot)


class _SimulatedCluster(NoCluster):
    """The plugins' handle in a simulation: the state of its cluster, and no writes."""

    def __init__(self, cluster: ClusterState) -> None:
        super().__init__(cluster.objects)
        self.waiting_pods = cluster.waiting
        self._cluster = cluster

    def is_preempting(self, uid: str) -> bool:
        return uid in self._cluster.preempting

    def node(self, name: str) -> Node | None:
        return self._cluster.cache.node(name)

    @property
    def pod_groups(self) -> PodGroupStates:
        return self._cluster.pod_groups
