"""Follows a trace: makes each recorded attempt again, in the state in which the recorded scheduler made it.

    FollowedTrace(config, registry, observe).run(events, attempts, watcher)

Owns: the order of what was recorded. Does not own: the state of the cluster (`virtual_cluster`), figures (`metrics`),
where the attempts come from, as a trace does not have them: a scheduler's log or its records.

Nothing is decided by a queue of its own. Pods arrive, are bound and end when and where the source says so, and a pod is
tried when the source tried it. A node that the source chose takes the pod even where this attempt rejects it, so that
a difference in one attempt is not the cause of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from scheduler.config import Configuration, Registry
from scheduler.engine.framework.nominated import Nomination
from scheduler.engine.objects.pod import PodInfo
from scheduler.offline.simulate.virtual_cluster import (
    SimulatedAttempt,
    SimulationError,
    SimulationWatcher,
    VirtualCluster,
)
from scheduler.offline.traces.document import JOINING, LEAVING, Event, PodArrived, PodBound, PodEnded


class FollowedAttempt(NamedTuple):
    """An attempt of the recorded scheduler: when it began, and the chosen node, or "".

    `nominated_node` is the node that the pod is nominated for after an attempt without a node, or "".
    """

    at_s: float
    uid: str
    node: str = ""
    nominated_node: str = ""


_Step = Event | PodBound | PodEnded | FollowedAttempt
_ORDER: Final = (*LEAVING, PodEnded, *JOINING, FollowedAttempt, PodBound)  # of one time


class FollowedTrace:
    """A cluster on virtual time in which everything happens as it was recorded."""

    def __init__(
        self,
        config: Configuration,
        registry: Registry,
        observe: Callable[[SimulatedAttempt], None] = lambda _: None,
        *,
        starts_pods: bool = True,
    ) -> None:
        """Start with an empty cluster. Raises ConfigError.

        `observe` gets each attempt, in the order of time, before the recorded node takes the pod. With `starts_pods`
        the recorded cluster had kubelets, which start pods.
        """
        self._cluster, self._observe = VirtualCluster(config, registry, starts_pods=starts_pods), observe

    def run(self, events: Iterable[Event], attempts: Iterable[FollowedAttempt], watcher: SimulationWatcher) -> None:
        """Make the attempts again. A pod without an attempt that chose a node is bound when the events say so.

        Raises SimulationError for an attempt of a pod that does not wait at that time or has a group, and as
        `TraceSimulation.run`.
        """
        cluster = self._cluster
        for step in sorted(self._list_steps(events, [*attempts]), key=lambda s: (s.at_s, _ORDER.index(type(s)))):
            watcher.advance(step.at_s, cluster.cache.columns, len(cluster.queue))
            cluster.now_s = step.at_s
            match step:
                case FollowedAttempt():
                    self._attempt(step, watcher)
                case PodBound():
                    self._bind(step, watcher)
                case PodEnded():
                    self._end(step, watcher)
                case _:
                    cluster.apply(step, watcher)

    def _list_steps(self, events: Iterable[Event], attempts: list[FollowedAttempt]) -> Iterator[_Step]:
        placed = {attempt.uid for attempt in attempts if attempt.node}
        yield from attempts
        for event in events:
            yield event
            self._cluster.declare(event)
            if not isinstance(event, PodArrived):
                continue
            uid = event.pod.metadata.uid
            if event.bound_at_s is not None and not event.was_on_node and uid not in placed:
                yield PodBound(event.bound_at_s, uid, event.node)
            if event.ended_at_s is not None:
                yield PodEnded(event.ended_at_s, uid, event.was_evicted)

    def _attempt(self, recorded: FollowedAttempt, watcher: SimulationWatcher) -> None:
        cluster, pod = self._cluster, self._find_waiting(recorded.uid)
        if pod is None:
            raise SimulationError(f"pod {recorded.uid}: an attempt at {recorded.at_s} s, when it does not wait")
        if pod.pod_group is not None:
            raise SimulationError(f"pod {pod.full_name}: attempts of pod groups are not followed")
        attempt = cluster.decide(pod, 0)
        slot, is_reserved = attempt.snapshot.nodes.index.get(recorded.node), False
        if slot is not None and (attempt.result.trace.feasible[slot] or attempt.result.chosen == slot):
            attempt = cluster.reserve(attempt, slot)
            is_reserved = attempt.result.chosen == slot
        self._observe(attempt)
        watcher.decided(cluster.now_s, pod, recorded.node)
        if recorded.node:
            cluster.bind(pod, recorded.node, attempt.result.state if is_reserved else None)
        else:
            cluster.nominate(pod, Nomination(recorded.nominated_node))
            cluster.claims.deallocate(attempt.result.state)

    def _bind(self, bound: PodBound, watcher: SimulationWatcher) -> None:
        pod = self._find_waiting(bound.uid)
        if pod is not None:
            watcher.decided(self._cluster.now_s, pod, bound.node)
            self._cluster.bind(pod, bound.node)

    def _end(self, ended: PodEnded, watcher: SimulationWatcher) -> None:
        arrival = self._cluster.arrivals.get(ended.uid)
        if arrival is None:  # it ended with its node
            return
        if ended.was_evicted:
            watcher.preempted(self._cluster.now_s, PodInfo(arrival.pod))
        self._cluster.end(ended.uid)

    def _find_waiting(self, uid: str) -> PodInfo | None:
        queued = self._cluster.queue.get(uid)
        return None if queued is None else queued.pod
