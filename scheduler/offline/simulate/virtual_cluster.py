"""A cluster on virtual time: its nodes, pods and other objects, and the profiles of a configuration that decide.

    cluster = VirtualCluster(config, registry)
    cluster.now_s = event.at_s
    cluster.apply(event, watcher)

Owns: the state, and what an event, a decision and a binding change in it. Does not own: when something happens
(`simulation`, `following`), the scheduling queue's rules (`SchedulingQueue`), decisions (`engine.cycle`).
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from herodotus_kube.watch import ListResult, WatchEvent
from herodotus_record.model import Code, DecisionPath
from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.event_handlers import NODES, PODS, EventHandlers
from scheduler.backend.pod_groups.placing import MemberInput
from scheduler.backend.queue import SchedulingQueue
from scheduler.config import Configuration, Registry, build_profile
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule, schedule_group_member
from scheduler.engine.framework.nominated import Nomination
from scheduler.engine.framework.plugin import PodGroupStates
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import PodGroup
from scheduler.engine.objects.resource_api import ResourceClaim
from scheduler.engine.objects.times import format_seconds
from scheduler.engine.objects.types import Node, Object, PodStatus
from scheduler.engine.rules.feature_gates import GENERIC_WORKLOAD
from scheduler.engine.whatif.claims import SimulatedClaims
from scheduler.offline.evaluate import NoCluster
from scheduler.offline.traces.document import Event, NodeAdded, NodeRemoved, ObjectRemoved, ObjectSet, PodArrived
from scheduler.offline.traces.redaction import OBJECT_KINDS


class SimulationError(ValueError):
    """The trace has something that is not simulated. The message names it."""


class SimulationWatcher(Protocol):
    """What follows the course of a simulation. `now_s` is in seconds since the start of the trace."""

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


class VirtualCluster:
    """The state of a simulated cluster. `now_s` is in seconds since the start of the trace.

    `arrivals` has the pods that wait or run, by UID. `queue` has those that wait. `state` is what plugins see of it.
    """

    def __init__(self, config: Configuration, registry: Registry, *, starts_pods: bool = True) -> None:
        """Start with an empty cluster, whose kubelets start pods unless `starts_pods` is False. Raises ConfigError."""
        self.now_s, self._starts_pods = 0.0, starts_pods
        self.state = state = ClusterState()
        handle = _PluginHandle(state)
        self._frameworks = {
            profile.scheduler_name: Framework(
                build_profile(config, i, registry, handle), self._clock, (), state.nominator
            )
            for i, profile in enumerate(config.profiles)
        }
        self._default_name = next(iter(self._frameworks))
        self.queue = SchedulingQueue.for_profiles(
            self._frameworks, config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
        )
        self._handlers = EventHandlers(state, self.queue, OBJECT_KINDS, self._frameworks, {}, self._clock)
        self.objects = state.objects
        self.claims = SimulatedClaims(state.objects, partial(self._handlers.requeue_for, ResourceClaim))
        self._declared: dict[str, Object] = {}  # what the trace has at any time, by `ObjectSet.name`
        self.cache = state.cache
        self.arrivals: dict[str, PodArrived] = {}
        self.next_start = 0  # the position in the visiting order at which the next cycle starts its search
        for kind in (NODES, PODS):
            self._handlers.apply(ListResult(kind, []))
        for framework in self._frameworks.values():
            framework.prepare(self.cache.columns)

    def _clock(self) -> float:
        return self.now_s

    # --- what happens -------------------------------------------------------------------------------------------------

    def declare(self, event: Event) -> None:
        """Take note of an event of the trace before anything happens, so that pods may refer to its objects."""
        if isinstance(event, ObjectSet):
            self._declared[event.name] = event.object

    def apply(self, event: Event, watcher: SimulationWatcher) -> None:
        """Carry out an event. Raises SimulationError for a pod whose needs are not simulated."""
        match event:
            case NodeAdded():
                self._handlers.apply(WatchEvent(NODES, "ADDED", event.node))
            case NodeRemoved():
                self._remove_node(event.name)
            case ObjectSet():
                self._handlers.apply(WatchEvent(event.kind, "ADDED", event.object))
            case ObjectRemoved():
                self._remove_object(event)
            case PodArrived():
                self._add_pod(event, watcher)

    def _remove_node(self, name: str) -> None:
        node = self.cache.node(name)
        if node is None:
            return
        for uid in list(self.cache.columns.pods[self.cache.columns.index[name]]):
            self.end(uid)
        self._handlers.apply(WatchEvent(NODES, "DELETED", node))

    def _remove_object(self, event: ObjectRemoved) -> None:
        obj = self.objects.get(OBJECT_KINDS[event.kind], event.object_name, event.object_namespace)
        if obj is not None:
            self._handlers.apply(WatchEvent(event.kind, "DELETED", obj))

    def _add_pod(self, arrival: PodArrived, watcher: SimulationWatcher) -> None:
        spec = arrival.pod.spec
        self._refuse_unknown(arrival)
        name = spec.scheduler_name if spec.scheduler_name in self._frameworks else self._default_name
        node = arrival.node if arrival.was_on_node and self.cache.node(arrival.node) is not None else ""
        spec = replace(spec, node_name=node, scheduler_name=name)
        waits = replace(arrival.pod.status, phase="Pending", nominated_node_name="")
        status = self._start(waits) if node else waits
        pod = replace(arrival.pod, spec=spec, status=status)
        if spec.resource_claims and not node:  # the claims that it had on a node, if it was on one, are freed
            self.claims.release(PodInfo(pod))
            pod = replace(pod, status=replace(status, resource_claim_statuses=None))
            pod = self.claims.generate(PodInfo(pod)).pod
        self.arrivals[pod.metadata.uid] = replace(arrival, pod=pod)
        if not node:
            watcher.arrived(self.now_s, PodInfo(pod))
        self._handlers.apply(WatchEvent(PODS, "ADDED", pod))

    def _refuse_unknown(self, arrival: PodArrived) -> None:
        """Raise SimulationError for a pod that a simulation would only let wait: what it needs is not in the trace."""
        spec, namespace = arrival.pod.spec, arrival.pod.metadata.namespace
        if not arrival.was_on_node:
            self._refuse_group(PodInfo(arrival.pod))
        for wanted in () if arrival.was_on_node else spec.resource_claims or ():
            kind, name = "ResourceClaim", wanted.resource_claim_name
            if not name:
                kind, name = "ResourceClaimTemplate", wanted.resource_claim_template_name
            if f"{kind}/{namespace}/{name}" not in self._declared:
                raise SimulationError(f"pod {arrival.name}: the trace does not have its {kind} {name}")

    def _refuse_group(self, pod: PodInfo) -> None:
        """Raise SimulationError for a pod whose group no profile schedules, or whose group is not in the trace."""
        key, problem = pod.pod_group, ""
        if pod.pod.spec.workload_ref is not None:
            problem = "the groups of Workload objects (workloadRef) are not simulated"
        elif key is not None:
            group = self._declared.get(f"{PodGroup.__name__}/{key}")
            if not all(each.profile.rules.enabled(GENERIC_WORKLOAD) for each in self._frameworks.values()):
                problem = f"its PodGroup {key.name} needs the feature gate {GENERIC_WORKLOAD} in the configuration"
            elif not isinstance(group, PodGroup):
                problem = f"the trace does not have its {PodGroup.__name__} {key.name}"
            elif group.spec.resource_claims:
                problem = f"the claims of its PodGroup {key.name} are not simulated"
        if problem:
            raise SimulationError(f"pod {pod.full_name}: {problem}")

    def end(self, uid: str) -> None:
        """Remove a pod that waits or runs."""
        pod = self.arrivals.pop(uid).pod
        if next(iter(self.objects.all(ResourceClaim)), None) is not None:
            self.claims.release(PodInfo(pod))
            self.claims.forget_changes()
        self._handlers.delete_pod(uid)

    # --- decisions ----------------------------------------------------------------------------------------------------

    def framework(self, pod: PodInfo) -> Framework:
        """Return the framework of the profile that the pod's schedulerName selects."""
        return self._frameworks[pod.pod.spec.scheduler_name]

    def decide(self, pod: PodInfo, seed: int, member: MemberInput | None = None) -> SimulatedAttempt:
        """Run the scheduling cycle of a waiting pod, which changes nothing.

        If `member` is given, the cycle is part of that of the pod's group and has these inputs.
        """
        framework = self.framework(pod)
        if member is None:
            snapshot = self.cache.snapshot()
            result = schedule(framework, pod, snapshot, seed, self.next_start)
        else:
            snapshot = self.cache.snapshot(member.mask)
            start = self.next_start if member.start is None else member.start
            result = schedule_group_member(framework, pod, snapshot, seed, start)
        self.next_start = result.next_start
        return SimulatedAttempt(self.now_s, framework, pod, snapshot, seed, result)

    def assume(self, pod: PodInfo, node: str) -> None:
        """Count a waiting pod on a node until it is bound there or forgotten."""
        self.cache.assume(dataclasses.replace(pod, running=True), node)
        self.state.nominator.hide(pod.uid)

    def forget(self, pod: PodInfo, node: str, state: CycleState) -> None:
        """Undo what Reserve did for an assumed pod, and count it on no node."""
        self.framework(pod).run_unreserve(state, pod, node)
        self.cache.forget(pod.uid)

    def reserve(self, attempt: SimulatedAttempt, slot: int) -> SimulatedAttempt:
        """Run the Reserve plugins for a node, and return the attempt with it, or with none if one refuses."""
        framework, pod, result = attempt.framework, attempt.pod, attempt.result
        node = attempt.snapshot.nodes.names[slot]
        refusal = framework.run_reserve(result.state, pod, node)
        if refusal is None:
            return attempt._replace(result=dataclasses.replace(result, chosen=slot))
        framework.run_unreserve(result.state, pod, node)
        path = DecisionPath.ERROR if refusal.verdict.code is Code.ERROR else DecisionPath.NONE
        refused = dataclasses.replace(result, chosen=None, path=path, rejectors=frozenset({refusal.plugin}))
        return attempt._replace(result=refused)

    def bind(self, pod: PodInfo, node: str, state: CycleState | None = None) -> None:
        """Put a waiting pod on a node, with the devices that the attempt with `state` reserved there."""
        if state is not None:
            self.claims.allocate(pod, node, state)
            self.claims.forget_changes()
        spec = replace(pod.pod.spec, node_name=node)
        status = self._start(pod.pod.status)
        self._handlers.apply(WatchEvent(PODS, "MODIFIED", replace(pod.pod, spec=spec, status=status)))

    def _start(self, status: PodStatus) -> PodStatus:
        """Return the status of a pod on its node, as a kubelet sets it: the older one is spared by preemption."""
        started = format_seconds(self.now_s) if self._starts_pods else None
        return replace(status, phase="Running", nominated_node_name="", start_time=started)

    def nominate(self, pod: PodInfo, nomination: Nomination | None) -> None:
        """Set the node that a waiting pod is nominated for; None leaves that of its status."""
        self.state.nominator.set_nomination(pod, nomination)
        if nomination is not None and nomination.node != pod.pod.status.nominated_node_name:
            status = replace(pod.pod.status, nominated_node_name=nomination.node)
            self._handlers.apply(WatchEvent(PODS, "MODIFIED", replace(pod.pod, status=status)))


class _PluginHandle(NoCluster):
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
