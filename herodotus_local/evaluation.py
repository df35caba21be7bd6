"""Decide pods on the cluster that was read, with the engine of the scheduler, and make records of the decisions.

Does not own: reading the cluster (`cluster_reader`), decisions (`scheduler.engine`), what happens to the records
(`service`).

Invariant: each pod is decided on the cluster as it is, alone, or with the waiting pods of its pod group, all of them or
none. A pod on a node is decided as if it were not there, and its record states the node that it is on.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

import msgspec

from herodotus_answers.cluster_questions import ClusterQuestion
from herodotus_answers.cluster_review import ClusterReviewStatus
from herodotus_answers.live.objects import MAY_FIT
from herodotus_answers.pending import list_unknown_reasons
from herodotus_local.cluster_reader import ALLOCATES, ClusterListing
from herodotus_local.conditions import read_rejection
from herodotus_local.configuration import DEFAULT_NAME
from herodotus_record.codec import fill_derived
from herodotus_record.model import (
    EVALUATION,
    POD_GROUP_PHASE,
    Agreement,
    AllocatedDevice,
    AttemptKey,
    Cause,
    Code,
    Decision,
    DecisionPath,
    Frame,
    NodeRows,
    Outcome,
    PodGroupCycle,
    Reason,
    Reconstruction,
    Source,
    Suggestion,
)
from herodotus_record.templates import PodTemplate
from scheduler.config import Configuration, Registry, build_profile
from scheduler.config.rules import resolve_rules
from scheduler.config.types import PluginRef, Plugins, PluginSet
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule_regardless_of_group
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.manifests.cluster import assemble_cluster
from scheduler.engine.nodegroups.reading import AutoscalingObjects
from scheduler.engine.objects.pod import FINISHED_PHASES, PodGroupKey, PodInfo
from scheduler.engine.objects.types import Pod
from scheduler.engine.plugins.dynamic_resources.reporting import list_present_devices
from scheduler.engine.plugins.volume_binding.claims import find_claims
from scheduler.engine.progress import ProgressReport
from scheduler.engine.records import build
from scheduler.engine.records.build import AttemptData, Origin, RecordIdentity
from scheduler.engine.records.ids import uuid7
from scheduler.engine.rules import Rules
from scheduler.engine.suggestions.search import Suggester
from scheduler.engine.whatif.changes import answer_review
from scheduler.engine.whatif.claims import SimulatedClaims
from scheduler.engine.whatif.controllers import ensure
from scheduler.engine.whatif.placement import CopiedCluster, place
from scheduler.engine.whatif.pod_groups import UNSCHEDULABLE, find_quorum, sort_members
from scheduler.engine.whatif.pods import PriorityClass, build_pods
from scheduler.engine.whatif.simulation import WhatIfState
from scheduler.offline.evaluate.engine import NoCluster
from scheduler.offline.observe.agreement import follows, with_outcome

CLUSTER: Final = "local"  # the cluster's ID in records
IDENTITY: Final = "kubectl-herodotus"  # the scheduler's identity in records
SUGGESTION_SHARE: Final = 0.5  # of the time, after the burst: a reader waits, and no scheduling does
SUGGESTION_BURST_S: Final = 2.0  # some two hundred pods of different templates
SEED: Final = 0  # which of equally good nodes a scheduler would draw is unknown
UNREAD_PODS: Final = "pods of other namespaces were not read"
UNKNOWN: Final = ("seed", "times.queueSeconds", "requeuedBy")


@dataclass(frozen=True)
class ReviewedPods:
    """The pods of a review: `replicas` pods of a template in a namespace, for the scheduler name `scheduler`."""

    template: PodTemplate
    namespace: str
    scheduler: str
    replicas: int


class _Evaluated(NamedTuple):
    """The decision on a pod, with the result of its cycle, and the node rows that changed since the one before."""

    rows: list[NodeRows]
    decision: Decision
    result: CycleResult


class ClusterEvaluation:
    """Decides pods of one cluster, with one framework for each scheduler name that its pods have.

    Pods of a scheduler name without a profile are decided with the first profile.
    """

    def __init__(self, found: ClusterListing, config: Configuration, registry: Registry) -> None:
        """Build the node columns of the cluster. The plugins in `found.disabled` do not run.

        If DynamicResources is among them, it does run for pods without resource claims, for which it needs no objects.
        """
        cluster = assemble_cluster([*found.nodes, *found.others, *found.pods])
        cluster.nodes.count_pods_as(resolve_rules(config).pod_counting)  # before any snapshot of the nodes is taken
        self.nodes: NodeColumns = cluster.nodes
        self.node_names = {node.metadata.name for node in found.nodes}
        self.pods = {(pod.metadata.namespace, pod.metadata.name): pod for pod in found.pods}
        self._objects, self._nominator = cluster.objects, cluster.nominator
        self._priority_classes = found.priority_classes
        self._config, self._registry = _without_plugins(config, found.disabled - {ALLOCATES}), registry
        self._config_without_devices = _without_plugins(config, found.disabled)
        self._disabled, self._is_partial = found.disabled, found.is_partial
        self._frameworks: dict[tuple[int, bool], Framework] = {}
        self._index = {profile.scheduler_name: i for i, profile in enumerate(self._config.profiles)}
        self._unread = ""
        self._incarnation = str(uuid.uuid4())
        self._sequence, self._base = 0, -1
        self._cycle_number = 0  # of the last evaluation of a group
        self._suggester = Suggester(time.monotonic, SUGGESTION_SHARE, SUGGESTION_BURST_S)

    def decide(self, pods: Sequence[Pod]) -> Iterator[Frame]:
        """Decide pods and yield frames: changed node-table rows, a decision per pod, and an outcome per placed pod.

        If a pod without a node belongs to a pod group, all waiting pods of the group are decided together, including
        those that are not in `pods`. Afterwards each pod is again where it was before.
        """
        alone = [pod for pod in pods if pod.spec.node_name or not pod.spec.scheduling_group]
        keys = dict.fromkeys(PodInfo(pod).pod_group for pod in pods if not pod.spec.node_name)
        for key in filter(None, keys):
            yield from self._decide_group(key, self._list_waiting(key))
        for pod in alone:
            node, info = pod.spec.node_name, PodInfo(_without_node(pod))
            claims = SimulatedClaims(self._objects)
            devices = list_present_devices(info, self._objects) if node else ()
            if node:
                self.nodes.remove_pod(info.uid, node)
                claims.release(info, deletes_generated=False)
            try:
                yield from self._decide(info, node, devices)
            finally:
                if node:
                    claims.undo(0)
                    self.nodes.add_pod(PodInfo(pod, running=True), node)

    def list_members(self, pod: Pod) -> list[Pod]:
        """Return the pods that `decide` decides for a pod.

        These are the waiting pods of its group, or the pod alone if it has a node or no group.
        """
        key = None if pod.spec.node_name else PodInfo(pod).pod_group
        return [pod] if key is None else [member.pod for member in self._list_waiting(key)]

    def read_amounts(self) -> dict[str, tuple[dict[str, int], dict[str, int]]]:
        """Return a pair by node name: the node's allocatable amounts and those that its pods request, by resource."""
        slots = sorted(self.nodes.index.values())
        _, allocatable, requested = self.nodes.amounts(slots)
        amounts: dict[str, tuple[dict[str, int], dict[str, int]]] = {self.nodes.names[slot]: ({}, {}) for slot in slots}
        for resource, free, used in zip(self.nodes.resources, allocatable, requested, strict=True):
            for slot, most, taken in zip(slots, free, used, strict=True):
                if most or taken:
                    of_node = amounts[self.nodes.names[slot]]
                    of_node[0][resource], of_node[1][resource] = int(most), int(taken)
        return amounts

    def list_other_members(self, namespace: str, group: str) -> list[tuple[str, str]]:
        """Return (name, reason) pairs, sorted by name, for the pods of a group without a node that are not tried.

        Such a pod waits for its scheduling gates or is being deleted.
        """
        key, others = PodGroupKey(namespace, group), list[tuple[str, str]]()
        for pod in self.pods.values():
            if PodInfo(pod).pod_group != key or pod.spec.node_name or is_waiting(pod):
                continue
            gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates or ())
            others.append(
                (pod.metadata.name, f"waits for its scheduling gates ({gates})" if gates else "is being deleted")
            )
        return sorted(others)

    def _list_waiting(self, key: PodGroupKey) -> list[PodInfo]:
        """Return the pods of a group that wait for a node, in the order in which they are decided."""
        waiting_pods = map(PodInfo, filter(is_waiting, self.pods.values()))
        return sort_members((pod for pod in waiting_pods if pod.pod_group == key), lambda pod: pod)

    def _decide_group(self, key: PodGroupKey, members: Sequence[PodInfo]) -> Iterator[Frame]:
        """Decide the waiting pods of a group in order, each with the earlier ones on their nodes, and yield frames.

        If too few pods fit for the group, every placement gets an outcome that undoes it. Afterwards no pod is on a
        node.
        """
        quorum = find_quorum(key, len(members), self.nodes, self._objects, resolve_rules(self._config))
        claims, assumed = SimulatedClaims(self._objects), list[tuple[Decision, PodInfo, str]]()
        frames: list[Frame] = []
        try:
            for pod in members:
                rows, decision, result = self._evaluate(pod, "", ())
                frames += [*rows, fill_derived(decision)]
                if result.chosen is None:
                    continue
                node = self.nodes.names[result.chosen]
                claims.allocate(pod, node, result.state)
                self.nodes.add_pod(pod, node)
                assumed.append((decision, pod, node))
        finally:
            for _, pod, node in reversed(assumed):
                self.nodes.remove_pod(pod.uid, node)
            claims.undo(0)
        fits = not quorum.problem and quorum.is_reached(len(assumed))
        self._cycle_number += 1
        cycle = PodGroupCycle(self._cycle_number, 0, len(members), quorum.scheduled, quorum.min_count)
        for frame in frames:
            if not isinstance(frame, Decision):
                yield frame
                continue
            cycle = replace(cycle, position=cycle.position + 1)
            # the pod's own decision says that it fits; it was made before the group's
            is_undone = frame.chosen is not None and not fits
            message = (quorum.problem or UNSCHEDULABLE) if is_undone else frame.message
            yield replace(frame, message=message, group_cycle=cycle)
        for decision, _, node in assumed:
            if fits:
                yield self._outcome(decision, EVALUATION, Code.PENDING, node)
            else:
                yield self._outcome(
                    decision, POD_GROUP_PHASE, Code.UNSCHEDULABLE, node, quorum.problem or UNSCHEDULABLE
                )

    def review(self, question: ReviewedPods) -> Iterator[Frame]:
        """Place hypothetical pods one after the other and yield the frames of their decisions.

        The pods stay on their nodes, so this object cannot decide anything else afterwards. Raises ManifestError for an
        invalid pod.
        """
        pods = build_pods(question.template, question.namespace, question.scheduler, question.replicas, self._classes())
        ensure(pods.controller, self._objects)
        copy = CopiedCluster(self.nodes, self._objects)
        framework = self.framework(question.scheduler, has_claims=any(_has_claims(info.pod) for info in pods.pods))
        return place(framework, copy, pods, Origin(CLUSTER, IDENTITY), SEED)

    def add_node_groups(self, read: AutoscalingObjects) -> None:
        """Add the objects that describe node groups, and the note on those that could not be read.

        Call it before a question about node groups.
        """
        for obj in read.objects:
            self._objects.set(obj)
        self._unread = read.note

    def review_cluster(self, spec: ClusterQuestion, report: ProgressReport) -> ClusterReviewStatus:
        """Answer a question about the whole cluster. `report` is called with the numbers of decided and known pods.

        Unless the question is about node groups or scale-down, it changes the cluster, so nothing else can be decided
        afterwards. Raises ClusterReviewError or ManifestError.
        """
        pending = [pod for pod in self.pods.values() if not pod.spec.node_name]
        has_claims = any(map(_has_claims, self.pods.values())) or b'"resourceClaims"' in msgspec.json.encode(spec)
        framework = partial(self.framework, has_claims=has_claims)  # may decide any pod of the cluster or the question
        state = WhatIfState(self.nodes, self._objects, self._nominator, framework, pending, self._unread)
        state.rebuild = partial(self._rebuild, has_claims=has_claims)
        state.rules, state.feature_gates = resolve_rules(self._config), self._config.feature_gates
        return answer_review(state, spec, report, SEED, self._classes())

    def _classes(self) -> dict[str, PriorityClass] | None:
        classes = self._priority_classes
        return None if classes is None else {c.metadata.name: c for c in classes}

    def has_node_of(self, pod: Pod) -> bool:
        """Return whether the pod has no node, or a node that exists.

        Pods of a deleted node remain in the API server for minutes.
        """
        return not pod.spec.node_name or pod.spec.node_name in self.node_names

    @property
    def scheduler_names(self) -> list[str]:
        """The scheduler names of the profiles and of all pods."""
        return sorted({*self._index, *(pod.spec.scheduler_name for pod in self.pods.values())} - {""})

    def framework(self, scheduler: str, *, has_claims: bool) -> Framework:
        """Return the framework that decides pods of a scheduler name with, or without, resource claims (`has_claims`).

        It is that of the first profile if no profile has the name. It decides pods with claims without DynamicResources
        if a kind of object that the plugin needs was not read.
        """
        i = self._index.get(scheduler, 0)
        if (i, has_claims) not in self._frameworks:
            self._frameworks[i, has_claims] = self._build(i, has_claims, None)
            self._frameworks[i, has_claims].prepare(self.nodes)
        return self._frameworks[i, has_claims]

    def _rebuild(self, rules: Rules, *, has_claims: bool) -> Callable[[str], Framework]:
        """Return a function that builds the framework of a scheduler name with `rules` instead of the configured.

        `has_claims` says whether the framework is for pods with resource claims.
        """
        return lambda scheduler: self._build(self._index.get(scheduler, 0), has_claims, rules)

    def _build(self, index: int, has_claims: bool, rules: Rules | None) -> Framework:
        config = self._config_without_devices if has_claims else self._config
        profile = build_profile(config, index, self._registry, NoCluster(self._objects), rules)
        return Framework(profile, time.monotonic, (), self._nominator)

    def _decide(self, pod: PodInfo, node: str, devices: tuple[AllocatedDevice, ...]) -> Iterator[Frame]:
        """Decide a pod; yield changed node-table rows, its decision, and an outcome if it has a node or finds one.

        `node` is the pod's present node or "". `devices` are those that its claims have there.
        """
        rows, decision, result = self._evaluate(pod, node, devices)
        yield from rows
        yield fill_derived(decision)
        if node:
            yield self._outcome(decision, "Bind", Code.SUCCESS, node)
        elif result.chosen is not None:
            yield self._outcome(decision, EVALUATION, Code.PENDING, self.nodes.names[result.chosen])

    def _evaluate(self, pod: PodInfo, node: str, devices: tuple[AllocatedDevice, ...]) -> _Evaluated:
        """Decide a pod as if it had no node; return the decision, the cycle's result, and changed node-table rows.

        `node` is the pod's present node or "". With a node, the decision says whether the evaluation agrees with it,
        and has `devices`, those that the pod's claims have there.
        """
        slots: Iterable[int] = self.nodes.take_changed_slots()
        if self._base < 0:
            slots = range(self.nodes.slots)
        rows = build.node_rows(self.nodes, list(slots), CLUSTER, self._incarnation, self._base)
        changed = [rows] if self._base < 0 or rows.slot else []
        self._base = self.nodes.generation
        started_us = time.time_ns() // 1000
        snapshot = Snapshot.from_columns(self.nodes)
        framework = self.framework(pod.pod.spec.scheduler_name, has_claims=_has_claims(pod.pod))
        result = schedule_regardless_of_group(framework, pod, snapshot, SEED)
        slot = self.nodes.index[node] if node else None
        name = pod.pod.spec.scheduler_name or framework.profile.scheduler_name
        reconstruction = None
        if node:
            reconstruction = _compare(result, slot)
            result = with_outcome(result, slot, "")
            result.trace.list_devices = lambda _node: devices
        elif result.chosen is not None:
            result = replace(result, message=f"{self._describe_fit(pod, name)}; {name} has not placed it yet")
        attempt = AttemptData(
            pod=pod,
            number=1,
            profile=name,
            snapshot=snapshot,
            result=result,
            times=build.build_evaluation_times(pod, result, started_us),
            seed=SEED,
            unknown=UNKNOWN,
            reconstruction=reconstruction,
            suggestions=() if node else self._suggest(framework, pod, result),
        )
        self._sequence += 1
        key = AttemptKey(CLUSTER, Source.EVALUATED, self._incarnation, pod.uid, 1)
        scheduler = build.describe_scheduler(attempt.profile, IDENTITY, framework.profile.rules)
        identity = RecordIdentity(uuid7(), key, self._sequence, scheduler)
        decision = build.decision(attempt, identity, notes=(Reason("evaluated"),))
        return _Evaluated(changed, decision, result)

    def _suggest(self, framework: Framework, pod: PodInfo, result: CycleResult) -> tuple[Suggestion, ...]:
        """Return the suggestions for a pod, as unchecked if a part of the pod or the cluster could not be evaluated."""
        waiting = map(PodInfo, filter(is_waiting, self.pods.values()))
        suggestions = self._suggester.suggest(framework, pod, self.nodes, result, waiting)
        if self._is_partial or self._find_unknown(pod.pod):
            return tuple(replace(suggestion, is_checked=False) for suggestion in suggestions)
        return suggestions

    def _describe_fit(self, pod: PodInfo, scheduler: str) -> str:
        """Return a clause on a pod that finds a node: `fits now`, or `may fit` with what is not known."""
        unknown = self._find_unknown(pod.pod)
        limits = f" (whether {unknown} is unknown)" if unknown else ""
        if self._is_partial:
            return f"{MAY_FIT}{limits}: {UNREAD_PODS}"
        if scheduler not in (*self._index, DEFAULT_NAME):  # decided as the first profile would
            said = read_rejection(pod.pod)
            own = f"; {scheduler} said: {said}" if said else f", and {scheduler}'s own are not known"
            return f"{MAY_FIT}{limits}: kube-scheduler's filters let it pass{own}"
        if unknown:
            return f"{MAY_FIT}{limits}"
        claims = find_claims(pod, self._objects)
        awaited = [each.metadata.name for each in (claims.delayed if claims else ()) if each.annotations.selected_node]
        return f"fits, and waits for the volume of claim {', '.join(awaited)}" if awaited else "fits now"

    def _find_unknown(self, pod: Pod) -> str:
        """Return what could not be evaluated for the pod, as a clause such as `its volumes fit`; "" if nothing."""
        if has_volumes(pod) and self._disabled - {ALLOCATES}:
            return "its volumes fit"
        if _has_claims(pod) and ALLOCATES in self._disabled:
            return "its devices can be allocated"
        is_known = pod.spec.scheduler_name in (*self._index, DEFAULT_NAME)  # else its words are given as a whole
        others = list_unknown_reasons(read_rejection(pod)) if is_known else []
        return f'{pod.spec.scheduler_name} would still state "{others[0]}"' if others else ""

    def _outcome(self, decision: Decision, phase: str, status: Code, node: str, message: str = "") -> Outcome:
        self._sequence += 1
        return Outcome(
            incarnation=self._incarnation,
            sequence=self._sequence,
            decision_id=decision.id,
            decision_sequence=decision.sequence,
            phase=phase,
            status=status,
            node=node,
            message=message,
            at_us=decision.times.started_us,
            duration_s=0.0,
            final=True,
        )


def is_waiting(pod: Pod) -> bool:
    """Return whether a scheduler tries the pod.

    It does if the pod has no node and no scheduling gates, has not ended, and is not being deleted.
    """
    ended = pod.status.phase in FINISHED_PHASES or pod.metadata.deletion_timestamp
    return not (pod.spec.node_name or pod.spec.scheduling_gates or ended)


def _has_claims(pod: Pod) -> bool:
    """Return whether the pod has resource claims, so that it needs devices."""
    return bool(pod.spec.resource_claims)


def has_volumes(pod: Pod) -> bool:
    """Return whether the pod has volumes other than those that every node can provide."""
    return any(volume.is_storage for volume in pod.spec.volumes or ())


def _compare(result: CycleResult, slot: int | None) -> Reconstruction:
    """Return whether `result` agrees with the pod's present node, in the slot `slot`, and the cause if it does not."""
    if result.path is DecisionPath.ERROR:
        return Reconstruction(Agreement.UNKNOWN, Cause.NOT_EVALUATED)
    if follows(result, slot):
        return Reconstruction(Agreement.AGREE)
    return Reconstruction(Agreement.DISAGREE, Cause.EVALUATED_LATER)


def _without_node(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))


def _without_plugins(config: Configuration, disabled: frozenset[str]) -> Configuration:
    """Return a copy of the configuration without the `disabled` plugins and without extenders.

    The copy evaluates every node, because percentageOfNodesToScore is 100.
    """

    def kept(plugins: Plugins) -> Plugins:
        names = [field.name for field in msgspec.structs.fields(Plugins)]
        points = {name: _without(getattr(plugins, name), disabled) for name in names}
        points["multi_point"] = msgspec.structs.replace(
            points["multi_point"],
            disabled=(*points["multi_point"].disabled, *(PluginRef(name=name) for name in sorted(disabled))),
        )
        return Plugins(**points)

    profiles = tuple(
        msgspec.structs.replace(profile, plugins=kept(profile.plugins), percentage_of_nodes_to_score=100)
        for profile in config.profiles
    )
    return msgspec.structs.replace(config, profiles=profiles, extenders=())


def _without(point: PluginSet, disabled: frozenset[str]) -> PluginSet:
    return msgspec.structs.replace(point, enabled=tuple(ref for ref in point.enabled if ref.name not in disabled))
