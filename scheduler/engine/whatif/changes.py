"""The answer to a ClusterReview: what follows if nodes are drained, added or changed, and workloads created or scaled.

    answer_review(state, spec, report, seed) -> ClusterReviewStatus

`state` is a `WhatIfState`, a copy of a cluster that the review changes. The scheduler makes it from its own state in a
forked process, the observer from the state that it follows, and local mode from what it read. `report(done, total)` is
called for each pod that was decided.

Owns: what each change does to nodes, and the order of changes. After each change the pods that wait are scheduled; pods
that were pending before are tried as well. Does not own: evictions by a drain (`eviction`), scheduling (`simulation`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec

from herodotus_answers.cluster_headlines import NODE_ADDED
from herodotus_answers.cluster_questions import (
    AddNodes,
    Change,
    ClusterQuestion,
    Cordon,
    Create,
    Drain,
    LabelNodes,
    RemoveNodes,
    Scale,
    TaintNodes,
    Uncordon,
)
from herodotus_answers.cluster_review import ChangedNode, ClusterReviewStatus, NodeAmounts, build_empty_status
from herodotus_record.templates import POD, PodTemplateError, parse_pod_template
from scheduler.engine.descheduler.answers import answer_deschedule
from scheduler.engine.descheduler.policy import DeschedulePolicyError
from scheduler.engine.manifests.cluster import decode_pod_group
from scheduler.engine.nodegroups.answers import answer_node_groups, answer_scale_down
from scheduler.engine.nodegroups.discovery import NodeGroupError
from scheduler.engine.objects import requests, types
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import PodGroup
from scheduler.engine.objects.storage import CSINode
from scheduler.engine.objects.taints import is_tolerated
from scheduler.engine.objects.types import Node, NodeSelector, NodeSelectorTerm, Pod, Requirement
from scheduler.engine.plans.answers import answer_plan
from scheduler.engine.plans.fitting import PlanError
from scheduler.engine.progress import ProgressReport
from scheduler.engine.whatif.budgets import is_ready
from scheduler.engine.whatif.capacity import MAX_PODS as MAX_CAPACITY
from scheduler.engine.whatif.capacity import list_nodes, measure_capacity
from scheduler.engine.whatif.consolidation import consolidate
from scheduler.engine.whatif.controllers import ensure
from scheduler.engine.whatif.eviction import DrainResult, drain
from scheduler.engine.whatif.nodes import copy_node, mark_schedulable
from scheduler.engine.whatif.owners import DAEMON_SET, STATEFUL_SET, build_replacement
from scheduler.engine.whatif.pods import PriorityClass, build_pods
from scheduler.engine.whatif.simulation import Simulation, WhatIfState
from scheduler.engine.whatif.upgrade import UpgradeError, compare_versions

_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}  # of pods, in the order of their deletion
MAX_PODS: Final = 10_000  # that one review creates
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class ClusterReviewError(ValueError):
    """A review that makes no sense in this cluster. The message names the change and the object."""


class _Amounts(NamedTuple):
    node: Node
    amounts: NodeAmounts


def answer_review(
    state: WhatIfState,
    spec: ClusterQuestion,
    report: ProgressReport,
    seed: int,
    classes: dict[str, PriorityClass] | None = None,
) -> ClusterReviewStatus:
    """Apply the changes of a review to a state, or answer its question, and return what becomes of pods and nodes.

    `classes` are the cluster's priority classes by name, or None if they are unknown. Raises ClusterReviewError if a
    node or workload does not exist or a value is invalid, ManifestError for an invalid manifest.
    """
    question = _Question(state, spec, report, seed, classes)
    for name, answer in _GOALS.items():
        if getattr(spec, name) is not None:
            return answer(question)
    return _answer_changes(question)


class _Question(NamedTuple):
    """The arguments of `answer_review`."""

    state: WhatIfState
    spec: ClusterQuestion
    report: ProgressReport
    seed: int
    classes: dict[str, PriorityClass] | None

    def simulate(self) -> Simulation:
        return Simulation(self.state, self.report, self.seed)

    def review(self, simulation: Simulation) -> _Review:
        return _Review(simulation, self.classes, self.spec.scheduler_name)


@contextmanager
def _naming(subject: str, *errors: type[Exception]) -> Iterator[None]:
    """Raise a ClusterReviewError that begins with `subject` instead of these errors."""
    try:
        yield
    except errors as e:
        raise ClusterReviewError(f"{subject}: {e}") from e


def _answer_node_groups(question: _Question) -> ClusterReviewStatus:
    with _naming("nodeGroups", NodeGroupError, PodTemplateError):
        groups, notes = answer_node_groups(
            question.state, question.spec, question.classes, question.report, question.seed
        )
    return {**build_empty_status(), "nodeGroups": groups, "notes": notes}


def _answer_upgrade(question: _Question) -> ClusterReviewStatus:
    assert question.spec.upgrade is not None  # so in _GOALS, as below
    try:
        upgrade, notes = compare_versions(question.state, question.spec.upgrade, question.report)
    except UpgradeError as e:
        raise ClusterReviewError(str(e)) from e
    return {**build_empty_status(), "upgrade": upgrade, "notes": notes}


def _answer_plan(question: _Question) -> ClusterReviewStatus:
    assert question.spec.plan is not None
    with _naming("plan", PlanError, PodTemplateError):
        plan, notes = answer_plan(
            question.state, question.spec.plan, question.report, question.classes, question.spec.scheduler_name
        )
    return {**build_empty_status(), "plan": plan, "notes": notes}


def _answer_deschedule(question: _Question) -> ClusterReviewStatus:
    assert question.spec.deschedule is not None
    with _naming("deschedule", DeschedulePolicyError):
        evictions, notes = answer_deschedule(
            question.state, question.spec.deschedule, question.report, question.classes, question.seed
        )
    return {**build_empty_status(), "deschedule": evictions, "notes": notes}


def _answer_scale_down(question: _Question) -> ClusterReviewStatus:
    assert question.spec.scale_down is not None
    simulation, unread = question.simulate(), question.state.unread
    with _naming("scaleDown", NodeGroupError):
        scale_down = answer_scale_down(simulation, question.spec.scale_down)
    return {
        **build_empty_status(),
        "scaleDown": scale_down,
        "notes": [*([unread] if unread else []), *simulation.notes],
    }


def _answer_capacity(question: _Question) -> ClusterReviewStatus:
    wanted = question.spec.capacity
    assert wanted is not None
    if not 1 <= wanted.limit <= MAX_CAPACITY:
        raise ClusterReviewError(f"capacity: limit: expected 1 to {MAX_CAPACITY}, got {wanted.limit}")
    simulation = question.simulate()
    old, review = list_nodes(simulation), question.review(simulation)
    with _naming("capacity: object", PodTemplateError):
        review.apply_all(wanted.changes)
        capacity = measure_capacity(simulation, wanted, question.spec.scheduler_name, question.classes, old)
    return {**build_empty_status(), "capacity": capacity, "notes": [*review.notes, *simulation.notes]}


def _answer_consolidation(question: _Question) -> ClusterReviewStatus:
    wanted, simulation = question.spec.consolidate, question.simulate()
    assert wanted is not None
    missing = [name for name in wanted.nodes or () if simulation.node(name) is None]
    if missing:
        raise ClusterReviewError(f'consolidate: nodes "{missing[0]}" not found')
    return {
        **build_empty_status(),
        "consolidation": consolidate(simulation, wanted),
        "notes": [*simulation.notes],
    }


def _answer_changes(question: _Question) -> ClusterReviewStatus:
    simulation = question.simulate()
    before, review = _measure(simulation), question.review(simulation)
    review.apply_all(question.spec.changes or ())
    placements, pending, still_pending = simulation.list_placements()
    return {
        **build_empty_status(),
        "placements": placements,
        "pending": pending,
        "stillPending": still_pending,
        "groups": simulation.list_groups(),
        "blocked": review.drained.list_blocked(simulation),
        "budgets": review.drained.list_budgets(),
        "drained": review.drained.list_nodes(),
        "drainCommands": review.drained.list_commands(simulation),
        "ignored": review.drained.list_ignored(simulation),
        "deleted": simulation.list_ended(),
        "nodes": list(_compare(before, _measure(simulation))),
        "notes": [*review.notes, *simulation.notes],
    }


# By the field of ClusterQuestion that asks for it, the first one counts; without one, the question is about changes.
_GOALS: Final[dict[str, Callable[[_Question], ClusterReviewStatus]]] = {
    "node_groups": _answer_node_groups,
    "upgrade": _answer_upgrade,
    "plan": _answer_plan,
    "deschedule": _answer_deschedule,
    "scale_down": _answer_scale_down,
    "capacity": _answer_capacity,
    "consolidate": _answer_consolidation,
}


class _Review:
    """One review while its changes are applied."""

    def __init__(self, simulation: Simulation, classes: dict[str, PriorityClass] | None, scheduler: str) -> None:
        self._simulation, self._classes, self._scheduler = simulation, classes, scheduler
        self._created = 0
        self.drained = DrainResult()
        self.notes: list[str] = []

    def apply_all(self, changes: Sequence[Change]) -> None:
        """Apply the changes one after the other. After each, the pods that it displaces or makes room for are placed.

        Raises ClusterReviewError, with the number of the change.
        """
        for number, change in enumerate(changes, 1):
            try:
                self.apply(change)
            except (ClusterReviewError, PodTemplateError) as e:
                raise ClusterReviewError(f"change {number} ({type(change).__name__}): {e}") from e
            self._simulation.settle()

    def apply(self, change: Change) -> None:
        match change:
            case Drain():
                self._drain(change)
            case Cordon():
                self._set_unschedulable(change.nodes, True)
            case Uncordon():
                self._set_unschedulable(change.nodes, False)
            case RemoveNodes():
                self._remove(change.nodes)
            case AddNodes():
                self._add(change)
            case TaintNodes():
                self._taint(change)
            case LabelNodes():
                self._label(change)
            case Scale():
                self._scale(change)
            case Create():
                self._create(change.object, change.replicas, change.namespace, "Created")

    def _nodes(self, names: Sequence[str]) -> list[Node]:
        """Return the Node objects with these names. Raises ClusterReviewError if one of them does not exist."""
        if not names:
            raise ClusterReviewError("nodes: required")
        return [self._node(name) for name in dict.fromkeys(names)]

    def _node(self, name: str) -> Node:
        node = self._simulation.node(name)
        if node is None:
            raise ClusterReviewError(f'nodes "{name}" not found')
        return node

    def _drain(self, change: Drain) -> None:
        self._set_unschedulable(change.nodes, True)
        self.drained.add(change)
        for name in dict.fromkeys(change.nodes):
            drain(self._simulation, name, change, self.drained)

    def _set_unschedulable(self, names: Sequence[str], unschedulable: bool) -> None:
        for node in self._nodes(names):
            changed = mark_schedulable(node, not unschedulable)
            if changed is not node:
                self._simulation.set_node(changed)

    def _replace_spec(self, node: Node, **values: object) -> None:
        spec = msgspec.structs.replace(node.spec, **values)
        if spec != node.spec:
            self._simulation.set_node(msgspec.structs.replace(node, spec=spec))

    def _remove(self, names: Sequence[str]) -> None:
        for node in self._nodes(names):
            self._simulation.remove_node(node.metadata.name)

    def _add(self, change: AddNodes) -> None:
        if not 1 <= change.count <= MAX_PODS:
            raise ClusterReviewError(f"count: expected 1 to {MAX_PODS}, got {change.count}")
        like = self._node(change.like)
        pinned = [pod for pod in self._simulation.waiting if _is_pinned(pod.pod, change.like)]
        daemons = [pod.pod for pod in (*self._simulation.pods_on(change.like), *pinned) if pod.pod.is_of_daemon_set]
        number = 0
        for _ in range(change.count):
            number += 1
            while self._simulation.node(f"{change.like}-new-{number}") is not None:
                number += 1
            self._add_node(copy_node(like, f"{change.like}-new-{number}", change.zone), change.like, daemons)

    def _add_node(self, node: Node, like: str, daemons: Iterable[Pod]) -> None:
        simulation, name = self._simulation, node.metadata.name
        simulation.set_node(node)
        simulation.claims.copy_devices(like, name)
        limits = simulation.objects.get(CSINode, like)
        if limits is not None:
            metadata = msgspec.structs.replace(limits.metadata, name=name)
            simulation.objects.set(msgspec.structs.replace(limits, metadata=metadata))
        for daemon in daemons:
            pod = build_replacement(daemon, simulation.next_number()).pod
            simulation.create(PodInfo(_pin(pod, name)), NODE_ADDED)

    def _taint(self, change: TaintNodes) -> None:
        edits = [_parse_taint(text) for text in change.taints]
        if not edits:
            raise ClusterReviewError("taints: required")
        for node in self._nodes(change.nodes):
            taints = list(node.spec.taints or ())
            for edit in edits:
                same = [t for t in taints if t.key == edit.taint.key and edit.taint.effect in ("", t.effect)]
                taints = [t for t in taints if t not in same] + ([] if edit.removes else [edit.taint])
            self._replace_spec(node, taints=taints or None)
            self._evict_intolerant(node.metadata.name, [t for t in taints if t.effect == "NoExecute"])

    def _evict_intolerant(self, node: str, taints: Sequence[types.Taint]) -> None:
        """Evict the node's pods that do not tolerate these NoExecute taints, regardless of disruption budgets."""
        for pod in self._simulation.pods_on(node) if taints else ():
            tolerations = pod.pod.spec.tolerations or ()
            if not all(is_tolerated(taint, tolerations) for taint in taints):
                self._simulation.budgets.delete(pod.pod)
                self._simulation.evict(pod, node, "Tainted")

    def _label(self, change: LabelNodes) -> None:
        for node in self._nodes(change.nodes):
            labels = {**(node.metadata.labels or {}), **{k: v for k, v in change.labels.items() if v is not None}}
            unchanged = {k: v for k, v in labels.items() if change.labels.get(k, v) is not None}
            if unchanged != node.metadata.labels:
                metadata = msgspec.structs.replace(node.metadata, labels=unchanged)
                self._simulation.set_node(msgspec.structs.replace(node, metadata=metadata))

    def _scale(self, change: Scale) -> None:
        if not 0 <= change.replicas <= MAX_PODS:
            raise ClusterReviewError(f"replicas: expected 0 to {MAX_PODS}, got {change.replicas}")
        namespace = change.namespace or "default"
        pods = self._simulation.pods_of(namespace, change.workload)
        more = change.replicas - len(pods)
        if pods:
            self._simulation.budgets.scale(pods[0][0].pod, more)
        if more < 0:
            for pod, node in _choose_pods_to_delete(change.workload.partition("/")[0], pods, -more):
                self._simulation.budgets.delete(pod.pod)
                self._simulation.delete(pod, node, "ScaledDown")
        elif more and pods:
            self._scale_up(change.workload, [pod for pod, _ in pods], more)
        elif more and change.object is not None:
            self._create(change.object, more, namespace, "ScaledUp")
        elif more:
            raise ClusterReviewError(f"{namespace}/{change.workload} has no pod to copy: give its manifest as object")

    def _scale_up(self, workload: str, pods: Sequence[PodInfo], more: int) -> None:
        self._count(more)
        for pod_there in pods:
            self._simulation.claims.remember_templates(pod_there)
        newest = max(pods, key=lambda pod: (pod.pod.metadata.creation_timestamp or "", pod.name)).pod
        taken = {pod.name for pod in pods}
        ordinals = (f"{workload.partition('/')[2]}-{i}" for i in range(len(pods) + more))
        free = (name for name in ordinals if name not in taken)
        for _ in range(more):
            pod = build_replacement(newest, self._simulation.next_number()).pod
            if workload.startswith(f"{STATEFUL_SET}/"):
                pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=next(free)))
            self._simulation.create(PodInfo(pod), "ScaledUp")

    def _create(self, manifest: dict[str, object], replicas: int | None, namespace: str, cause: str) -> None:
        if manifest.get("kind") == DAEMON_SET:
            raise ClusterReviewError("a DaemonSet cannot be created: its controller makes a pod for each node")
        if manifest.get("kind") == PodGroup.__name__:
            self._simulation.objects.set(decode_pod_group(manifest, namespace))
            return
        template = parse_pod_template(manifest)
        count = template.replicas if replicas is None else replicas
        if count < 0:
            raise ClusterReviewError(f"replicas: expected 0 to {MAX_PODS}, got {count}")
        self._count(count)
        wanted = template.namespace or namespace
        pods = build_pods(template, wanted, template.scheduler or self._scheduler, max(count, 1), self._classes)
        ensure(pods.controller, self._simulation.objects)
        for pod in pods.pods[:count]:
            metadata = pod.pod.metadata
            unique = f"{metadata.namespace}/{metadata.name}/{self._simulation.next_number()}"
            named = msgspec.structs.replace(metadata, uid=unique)
            self._simulation.create(PodInfo(msgspec.structs.replace(pod.pod, metadata=named)), cause)
        if count and template.kind == POD and count > 1:
            self.notes.append(f"{count} pods were made from the Pod {wanted or 'default'}/{template.name}")

    def _count(self, more: int) -> None:
        """Count `more` pods as created by the review. Raises ClusterReviewError if they then exceed `MAX_PODS`."""
        self._created += more
        if self._created > MAX_PODS:
            raise ClusterReviewError(f"a review can create {MAX_PODS} pods, not {self._created}")


class _TaintEdit(NamedTuple):
    taint: types.Taint
    removes: bool


def _parse_taint(text: str) -> _TaintEdit:
    """Return the edit for a taint in the notation of `kubectl taint`. Raises ClusterReviewError if it is malformed."""
    removes = text.endswith("-")
    left, colon, effect = text.removesuffix("-").partition(":")
    key, equals, value = left.partition("=")
    if not key or (not colon and not removes) or (removes and equals):
        raise ClusterReviewError(f"taints: expected KEY[=VALUE]:EFFECT or KEY[:EFFECT]-, got {text!r}")
    if effect not in _EFFECTS and (colon or not removes):
        raise ClusterReviewError(f"taints: {text!r}: the effect must be one of {', '.join(_EFFECTS)}")
    return _TaintEdit(types.Taint(key=key, value=value, effect=effect), removes)


def _is_pinned(pod: Pod, node: str) -> bool:
    """Return whether the node's name is in the pod's required node affinity, as in a DaemonSet's pod for that node."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    terms = (affinity and affinity.required and affinity.required.node_selector_terms) or ()
    return any(node in (field.values or ()) for term in terms for field in term.match_fields or ())


def _pin(pod: Pod, node: str) -> Pod:
    """Return a DaemonSet's pod whose required node affinity selects `node` by name, as its controller sets it."""
    field = Requirement(key="metadata.name", operator="In", values=[node])
    affinity = pod.spec.affinity or types.Affinity()
    of_node = affinity.node_affinity or types.NodeAffinity()
    terms = (of_node.required.node_selector_terms if of_node.required else None) or [NodeSelectorTerm()]
    pinned = NodeSelector(node_selector_terms=[msgspec.structs.replace(term, match_fields=[field]) for term in terms])
    of_node = msgspec.structs.replace(of_node, required=pinned)
    spec = msgspec.structs.replace(pod.spec, affinity=msgspec.structs.replace(affinity, node_affinity=of_node))
    return msgspec.structs.replace(pod, spec=spec)


def _measure(simulation: Simulation) -> dict[str, _Amounts]:
    """Return, by name, each Node object with the requested pods, cpu and memory on the node."""
    nodes = simulation.nodes
    pods, cpu, memory = (nodes.requested(name).tolist() for name in (requests.PODS, requests.CPU, requests.MEMORY))
    figures = {}
    for name, slot in nodes.index.items():
        node = nodes.nodes[slot]
        if node is not None:
            figures[name] = _Amounts(node, {"pods": pods[slot], "cpu": cpu[slot], "memory": memory[slot]})
    return figures


def _compare(before: dict[str, _Amounts], after: dict[str, _Amounts]) -> Iterable[ChangedNode]:
    """Yield the nodes whose Node object or amounts differ, sorted by name."""
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old != new:
            yield {
                "name": name,
                "before": old.amounts if old else None,
                "after": new.amounts if new else None,
                "schedulable": new is not None and not new.node.spec.unschedulable,
            }


def _choose_pods_to_delete(kind: str, pods: Sequence[tuple[PodInfo, str]], count: int) -> list[tuple[PodInfo, str]]:
    """Return the `count` pods that a controller of this kind deletes first; `pods` has each with its node or "".

    Sources: pkg/controller/controller_utils.go ActivePodsWithRanks and pkg/controller/statefulset v1.36. Two criteria
    are ignored because they are not known here: the annotation pod-deletion-cost, and restarts of containers. Among
    pods that became Ready at about the same time the ReplicaSet controller decides by chance; here the newer pod goes
    first.
    """
    if kind == STATEFUL_SET:
        return sorted(pods, key=lambda placed: _ordinal(placed[0].name), reverse=True)[:count]
    together = Counter(node for _, node in pods)

    newest_first = sorted(pods, key=lambda placed: (_created(placed[0]), placed[0].uid), reverse=True)

    def order(placed: tuple[PodInfo, str]) -> tuple[bool, int, bool, int]:
        pod, node = placed
        return bool(node), _PHASES.get(pod.pod.status.phase, 0), is_ready(pod.pod), -together[node]

    return sorted(newest_first, key=order)[:count]


def _created(pod: PodInfo) -> str:
    return pod.pod.metadata.creation_timestamp or "9999"  # a pod that a review created is the newest


def _ordinal(name: str) -> int:
    number = name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1
