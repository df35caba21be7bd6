"""Replays a trace with a configuration: the scheduling queue and the scheduling cycle on virtual time.

    simulation = TraceSimulation(config, registry, seed=0)
    simulation.run(events, watch)

Owns: when pods arrive, are tried and end, what binding and preemption lead to. Does not own: the state of the cluster
(`virtual_cluster`), the queue's rules (`SchedulingQueue`), figures (`metrics`).

An attempt and a binding take no time, and a victim of preemption ends at once, in the cycle of a pod group after the
cycle. If a controller owns the victim, a new
pod arrives at that moment and runs as long as the first would have, unless the trace has the pod in its place. A pod
runs from its binding as long as it ran in the trace. A pod that the trace found on its node is not decided. A pod
that waits for five minutes is tried again only when something else happens, because nothing has changed by then.

Invariant: equal events, configuration and seed give equal results.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterable

import numpy as np
from msgspec.structs import replace

from scheduler.backend.attempt_failure import AttemptFailure
from scheduler.backend.pod_groups.cycle import PodGroupDecider, explain_failure, find_name_conflict, pop_members
from scheduler.backend.pod_groups.placing import GroupMember, PodGroupResult
from scheduler.backend.queue import QueuedPod
from scheduler.backend.queue.scheduling_queue import WINDOW_S
from scheduler.config import Configuration, Registry
from scheduler.engine.cycle import CycleResult
from scheduler.engine.objects.pod import PodGroupKey, PodInfo
from scheduler.offline.simulate.pod_groups import SimulatedStages
from scheduler.offline.simulate.virtual_cluster import SimulatedAttempt, SimulationWatcher, VirtualCluster
from scheduler.offline.traces.document import Event, NodeAdded, ObjectSet, PodArrived
from scheduler.offline.traces.redaction import OBJECT_KINDS


class TraceSimulation:
    """A cluster on virtual time, with the scheduler of a configuration."""

    def __init__(
        self,
        config: Configuration,
        registry: Registry,
        seed: int,
        observe: Callable[[SimulatedAttempt], None] = lambda _: None,
    ) -> None:
        """Start with an empty cluster. Raises ConfigError.

        `seed` draws between equally good nodes. `observe` gets each attempt before anything follows from it.
        """
        self._observe = observe
        self._random = random.Random(seed)
        self._cluster = cluster = VirtualCluster(config, registry)
        self._queue = cluster.queue
        self._groups = PodGroupDecider(
            cluster.state, cluster.framework, SimulatedStages(cluster, observe), self._random
        )
        self._due: list[tuple[float, int, Event | str]] = []  # an event, or the UID of a pod that ends
        self._number = 0
        self._changed_s = 0.0  # when a pod or another object last came, went or was bound
        self._settles_s = config.pod_max_backoff_seconds + WINDOW_S  # in which each pod in backoff is tried once

    def run(
        self,
        events: Iterable[Event],
        watcher: SimulationWatcher,
        report: Callable[[float], None],
        until_s: float = math.inf,
    ) -> None:
        """Simulate the events until nothing can change any more, or what happens before `until_s`.

        `report` gets the time after each change.

        Raises SimulationError for a pod with a group or a resource claim that is not simulated or not in the trace.
        """
        cluster = self._cluster
        for event in events:
            self._plan(event.at_s, event)
            cluster.declare(event)
        while (at_s := self._find_next_time()) is not None and at_s < until_s:
            if not self._due and at_s > self._changed_s + self._settles_s:
                break  # pods of groups, and those with errors, would come out of backoff for ever
            watcher.advance(at_s, cluster.cache.columns, len(self._queue))
            cluster.now_s = at_s
            while self._due and self._due[0][0] <= at_s:
                self._apply(heapq.heappop(self._due)[2], watcher)
            while (queued := self._queue.pop(at_s)) is not None:
                self._attempt(queued, watcher)
            report(at_s)
        watcher.advance(cluster.now_s, cluster.cache.columns, len(self._queue))

    def list_present(self, at_s: float) -> list[Event]:
        """Return events at the time `at_s` that lead to the present state: its nodes, and its pods there or waiting."""
        ends_s = {what: end_s for end_s, _, what in self._due if isinstance(what, str)}
        columns = self._cluster.cache.columns
        node_of = {uid: columns.names[slot] for slot in np.flatnonzero(columns.live) for uid in columns.pods[slot]}
        events: list[Event] = [NodeAdded(at_s, node) for node in columns.nodes if node is not None]
        events += (ObjectSet(at_s, obj) for kind in OBJECT_KINDS.values() for obj in self._cluster.objects.all(kind))
        for uid, arrival in self._cluster.arrivals.items():
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

    def _apply(self, what: Event | str, watcher: SimulationWatcher) -> None:
        self._changed_s = self._cluster.now_s
        if isinstance(what, str):
            if what in self._cluster.arrivals:
                self._cluster.end(what)
            return
        self._cluster.apply(what, watcher)
        if isinstance(what, PodArrived) and self._cluster.cache.is_counted(what.pod.metadata.uid):
            self._plan_end(what.pod.metadata.uid)

    # --- attempts -----------------------------------------------------------------------------------------------------

    def _attempt(self, queued: QueuedPod, watcher: SimulationWatcher) -> None:
        """Decide a pod from the queue, with its group if it has one. Bind it, or return it to the queue and preempt."""
        pod, cluster = queued.pod, self._cluster
        if pod.pod_group is not None:
            self._attempt_group(queued, pod.pod_group, watcher)
            return
        attempt = cluster.decide(pod, self._random.getrandbits(32))
        if attempt.result.chosen is not None:
            attempt = cluster.reserve(attempt, attempt.result.chosen)
        self._observe(attempt)
        result = attempt.result
        if result.chosen is not None:
            self._bind(queued, attempt.snapshot.nodes.names[result.chosen], result, watcher)
            return
        self._fail(queued, AttemptFailure.from_result(result), watcher)
        cluster.claims.deallocate(result.state)
        self._evict(_list_victims(result), watcher)

    def _attempt_group(self, first: QueuedPod, key: PodGroupKey, watcher: SimulationWatcher) -> None:
        """Decide the waiting pods of a group. Bind those that are placed, return the others and evict the victims."""
        cluster, victims = self._cluster, dict[str, PodInfo]()
        pods = pop_members(self._queue, cluster.state.pod_groups, first, key, cluster.now_s)
        conflict = find_name_conflict(pods)
        result = PodGroupResult[GroupMember](error=conflict) if conflict else self._groups.decide(key, pods)
        for member in result.members:
            if result.is_schedulable and member.node:
                self._bind(member.queued, member.node, member.result, watcher)
            else:
                self._fail(member.queued, explain_failure(member, result), watcher)
                cluster.claims.deallocate(member.result.state)
                victims |= {victim.uid: victim for victim in _list_victims(member.result)}
        for queued in pods[len(result.members) :]:
            self._fail(queued, result.explain_undecided(), watcher)
        self._evict({**victims, **{victim.uid: victim for victim in result.victims}}.values(), watcher)

    def _bind(self, queued: QueuedPod, node: str, result: CycleResult, watcher: SimulationWatcher) -> None:
        self._changed_s = self._cluster.now_s
        watcher.decided(self._changed_s, queued.pod, node)
        self._cluster.bind(queued.pod, node, result.state)
        self._queue.done(queued.uid)
        self._plan_end(queued.uid)

    def _plan_end(self, uid: str) -> None:
        """Plan the end of a pod that is bound now."""
        runs_s = self._cluster.arrivals[uid].runs_s
        if runs_s is not None:
            self._plan(self._cluster.now_s + runs_s, uid)

    def _fail(self, queued: QueuedPod, failure: AttemptFailure, watcher: SimulationWatcher) -> None:
        """Return a pod to the queue after an attempt without a node.

        Source: pkg/scheduler/schedule_one.go v1.36 handleSchedulingFailure.
        """
        now_s = self._cluster.now_s
        watcher.decided(now_s, queued.pod, "")
        self._queue.add_unschedulable_if_not_present(
            queued, failure.rejectors, now_s, error=failure.is_error, pending=failure.pending
        )
        self._cluster.nominate(queued.pod, failure.nomination)

    def _evict(self, victims: Iterable[PodInfo], watcher: SimulationWatcher) -> None:
        for victim in victims:
            self._evict_one(victim, watcher)

    def _evict_one(self, victim: PodInfo, watcher: SimulationWatcher) -> None:
        now_s = self._changed_s = self._cluster.now_s
        watcher.preempted(now_s, victim)
        arrival = self._cluster.arrivals[victim.uid]
        self._cluster.end(victim.uid)
        metadata = arrival.pod.metadata
        if arrival.owner_kind and not arrival.was_evicted:
            self._number += 1
            uid = f"{metadata.uid}/{self._number}"
            anew = replace(arrival.pod, metadata=replace(metadata, uid=uid))
            ended = None if arrival.runs_s is None else now_s + arrival.runs_s
            self._plan(now_s, PodArrived(now_s, anew, ended_at_s=ended))


def _list_victims(result: CycleResult) -> tuple[PodInfo, ...]:
    """Return the pods that the preemption of an attempt evicts."""
    preemption = result.trace.preemption
    return result.trace.victims if preemption is not None and preemption.evicted else ()
