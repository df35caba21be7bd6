"""Changes to a pod's spec, or to a node, that answer the reasons for which a filter rejected the node.

Owns: one change for each code of reason, as a changed spec, as a strategic merge patch and as a code with parameters.
Does not own: whether the pod then fits (`check`), sentences and commands (`herodotus_answers.suggestions`). Pure.

Invariant: the patch turns the old spec into the new one, except for changes to the node and for tolerations, which a
pending pod may be given in place.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np

from herodotus_record.model import Reason
from herodotus_record.node_labels import BUILT_FOR, is_hardware, is_same_platform, names_identity
from herodotus_record.node_taints import NodeTaint, TaintKind, find_taint_against
from herodotus_record.units import format_exact_quantity
from scheduler.engine.columns import NodeColumns
from scheduler.engine.objects import quantity, requests
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.selectors import field_matches, format_requirement, requirement_matches
from scheduler.engine.objects.taints import HARD_EFFECTS, UNSCHEDULABLE, is_tolerated
from scheduler.engine.objects.types import (
    Affinity,
    Container,
    Node,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodSpec,
    Requirement,
    ResourceRequirements,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from scheduler.engine.plugins.node_affinity import match_required_affinity
from scheduler.engine.suggestions.near_tolerations import NearToleration, find_near_toleration

Json = dict[str, Any]
MIN_SHARE: Final = 0.1  # of the old request: with less, the program would hardly be the same
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_HOSTNAME: Final = "kubernetes.io/hostname"
_OTHER_PLATFORM: Final = 1000  # more than the unmet requirements of a node may be
_RESERVED: Final = (TaintKind.RESERVED, TaintKind.FOR_DEVICES)
# Values of labels that say what a node is not, and what such a label has on the other nodes. An empty value says that a
# node is what the label stands for, as that of a role does.
_OPPOSITES: Final = {"false": "true", "False": "True", "no": "yes", "0": "1"}
_CONTROLLER_ADDS: Final = "node.kubernetes.io/"  # tolerations of admission and of the DaemonSet controller


@dataclass(frozen=True)
class Draft:
    """A pod's spec after some changes, with the patch and the list of the changes.

    `is_exact` is False if the changes differ in effect from the changed spec with which they are checked.
    """

    spec: PodSpec
    patch: Json
    changes: tuple[Reason, ...] = ()
    is_exact: bool = True

    def with_change(self, code: str, params: Mapping[str, str], spec: PodSpec, patch: Json | None = None) -> Draft:
        """Return this draft with one more change, whose patch is merged into the present one."""
        merged = _merge(self.patch, patch) if patch else self.patch
        return replace(self, spec=spec, patch=merged, changes=(*self.changes, Reason(code, params)))


@dataclass(frozen=True)
class Place:
    """A node that rejects a pod: what a change for this node needs to know."""

    pod: PodInfo
    nodes: NodeColumns
    slot: int

    @property
    def node(self) -> Node:
        node = self.nodes.nodes[self.slot]
        assert node is not None
        return node

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.metadata.labels or {}

    def free(self, resource: str) -> int:
        """Return how much of a resource is free on the node, in base units."""
        return int(self.nodes.allocatable(resource)[self.slot] - self.nodes.requested(resource)[self.slot])


def find_change(draft: Draft, reason: Reason, place: Place, preferred: int = 0) -> Draft | None:
    """Return the draft with the changes that answer the reason on this node, or None if no change is known.

    A reason may have several answers. The one at index `preferred` is tried first, then those before and after it.
    """
    answers = _CHANGES.get(reason.code, ())
    first = answers[preferred : preferred + 1]
    for answer in (*first, *(a for a in answers if a not in first)):
        changed = answer(draft, reason, place)
        if changed is not None:
            return changed
    return None


def count_answers(reasons: Iterable[Reason]) -> int:
    """Return the largest number of answers that one of the reasons has."""
    return max((len(_CHANGES.get(reason.code, ())) for reason in reasons), default=0)


def has_change(reason: Reason) -> bool:
    """Return whether a change may answer a reason with this code."""
    return reason.code in _CHANGES


# --- the node -----------------------------------------------------------------------------------------------------


def _uncordon(draft: Draft, reason: Reason, place: Place) -> Draft | None:
    if not place.node.spec.unschedulable:
        return None
    return _without_taint(draft, "uncordon", {}, UNSCHEDULABLE)


def _without_taint(draft: Draft, code: str, params: Mapping[str, str], taint: Taint) -> Draft:
    """Return the draft with a change of the node that removes a taint, which is checked as if it were tolerated."""
    tolerated = Toleration(key=taint.key, operator="Exists", effect=taint.effect)
    spec = _with_tolerations(draft.spec, [tolerated])
    counts_taints = any(c.node_taints_policy == "Honor" for c in _hard_constraints(spec))
    return replace(draft.with_change(code, params, spec), is_exact=draft.is_exact and not counts_taints)


def tolerate_removed_taints(draft: Draft, spec: PodSpec) -> PodSpec | None:
    """Return the spec of any pod with tolerations of the taints that the draft removes from the node.

    Return None if the draft changes anything else.
    """
    removed = list[Toleration]()
    for change in draft.changes:
        if change.code == "uncordon":
            removed.append(Toleration(key=UNSCHEDULABLE.key, operator="Exists", effect=UNSCHEDULABLE.effect))
        elif change.code in ("remove-taint", "open-node", "clear-taint"):
            p = change.params
            removed.append(Toleration(key=p.get("key", ""), operator="Exists", effect=p.get("effect", "")))
        else:
            return None
    return _with_tolerations(spec, removed)


def label_node(place: Place) -> Draft | None:
    """Return the draft that labels the node as the pod's node selector and required terms demand, if that is sensible.

    It is not for labels that state what a node is or has, or if no node has the demanded value: a label that is not
    true would mislead every other pod that selects it.
    """
    spec, wanted = place.pod.pod.spec, dict[str, str]()
    if _hard_constraints(spec):
        return None  # they count the nodes that the pod selects, so the label would change what they demand
    for key, value in (spec.node_selector or {}).items():
        if place.labels.get(key) != value:
            wanted[key] = value
    terms = list_required_terms(spec)
    if terms and not any(_term_matches(term, place) for term in terms):
        for r in min((_failing(term, place) for term in terms), key=len):
            if r.operator != "In" or r.key in wanted or not r.values:
                return None
            wanted[r.key] = next((v for v in r.values if _is_in_use(v, r.key, place.nodes)), r.values[0])
    if not wanted or any(names_identity(k) or not _is_in_use(v, k, place.nodes) for k, v in wanted.items()):
        return None
    if any(list_lost_hardware(k, (v,), place) for k, v in wanted.items()):
        return None
    selector = {k: v for k, v in (spec.node_selector or {}).items() if k not in wanted}
    without = msgspec.structs.replace(
        spec, node_selector=selector, affinity=_with_required_terms(spec.affinity, None) if terms else spec.affinity
    )
    draft = Draft(spec, {})
    for key, value in wanted.items():
        draft = draft.with_change("label-node", {"key": key, "value": value, "from": place.labels.get(key, "")}, spec)
    return replace(draft, spec=without)


def list_lost_hardware(key: str, values: Sequence[str], place: Place) -> list[str]:
    """Return the resources that all nodes with one of these labels have and this node has not.

    Such a label stands for the hardware, so that a pod that selects it may need this too without requesting it.
    """
    nodes = place.nodes
    labelled = nodes.label(key).among(nodes.slots, tuple(values)) & nodes.live
    amounts = {each: nodes.allocatable(each) for each in nodes.resources if is_hardware(each)} if labelled.any() else {}
    return sorted(each for each, has in amounts.items() if not has[place.slot] and (has[labelled] > 0).all())


def _describe_lost(labels: Iterable[tuple[str, Sequence[str]]], place: Place) -> dict[str, str]:
    """Return the parameter that names the hardware which a pod gives up on this node with what it selects, or {}."""
    lost = sorted({each for key, values in labels for each in list_lost_hardware(key, values, place)})
    return {"lost": ", ".join(lost)} if lost else {}


def _is_in_use(value: str, key: str, nodes: NodeColumns) -> bool:
    return bool((nodes.label(key).among(nodes.slots, (value,)) & nodes.live).any())


# --- tolerations --------------------------------------------------------------------------------------------------


def _tolerate(draft: Draft, reason: Reason, place: Place) -> Draft | None:
    return _answer_taints(draft, place, _add_toleration)


def _remove_taint(draft: Draft, reason: Reason, place: Place) -> Draft | None:
    return _answer_taints(draft, place, _untaint)


def _answer_taints(draft: Draft, place: Place, answer: Callable[[Draft, Taint, Place], Draft | None]) -> Draft | None:
    """Return the draft with an answer to each taint of the node that the pod does not tolerate, or None.

    `answer` is for taints that an operator set. The others go with what they state, and first: a node is repaired
    before an operator ends its maintenance. No pod is let onto tainted nodes that it does not select, or that are
    reserved for other pods or for devices that it does not request, while it may select another node, unless it nearly
    tolerates that; nor onto those that are being removed.
    """
    cleared = set[str]()
    for taint in sorted(place.node.spec.taints or (), key=lambda each: _is_maintained(each, place)):
        if taint.effect not in HARD_EFFECTS or is_tolerated(taint, draft.spec.tolerations or ()):
            continue
        params = {"key": taint.key, "value": taint.value, "effect": taint.effect}
        declared = _find_declared(taint, place.node, place.pod)
        if taint.key == UNSCHEDULABLE.key:
            if place.node.spec.unschedulable:
                continue  # goes with the cordon
            changed: Draft | None = _without_taint(draft, "clear-taint", params, taint)
        elif declared is None or declared.kind in _RESERVED:
            is_for_others = _is_of_other_pool(place) or (declared is not None and _may_select_unreserved(place))
            is_meant = not is_for_others or _find_near(taint, place) is not None
            changed = answer(draft, taint, place) if is_meant else None
        elif declared.kind is TaintKind.MAINTAINED:
            changed = _without_taint(draft, "remove-taint", params, taint)
        elif declared.kind is TaintKind.CLEARS and not place.node.spec.unschedulable:  # else it is in maintenance
            changed = _without_taint(draft, "clear-taint", params, taint)
            if taint.key in cleared:  # one condition may set taints with two effects
                changed = replace(draft, spec=changed.spec)
            cleared.add(taint.key)
        else:
            changed = None
        if changed is None:
            return None
        draft = changed
    return draft


def _is_maintained(taint: Taint, place: Place) -> bool:
    declared = _find_declared(taint, place.node, place.pod)
    return declared is not None and declared.kind is TaintKind.MAINTAINED


def _find_near(taint: Taint, place: Place) -> NearToleration | None:
    return find_near_toleration(taint, place.pod.pod.spec.tolerations or ())


def _add_toleration(draft: Draft, taint: Taint, place: Place) -> Draft:
    before = place.pod.pod.spec.tolerations or ()
    params = {"key": taint.key, "value": taint.value, "effect": taint.effect, "count": str(len(before))}
    params["templateCount"] = str(sum(not t.key.startswith(_CONTROLLER_ADDS) for t in before))
    if near := _find_near(taint, place):
        params |= {"tolerated": near.text, "differs": near.differs}
    operator = "Equal" if taint.value else "Exists"
    added = Toleration(key=taint.key, operator=operator, value=taint.value, effect=taint.effect)
    return draft.with_change("add-toleration", params, _with_tolerations(draft.spec, [added]))


def _untaint(draft: Draft, taint: Taint, place: Place) -> Draft | None:
    """Return the draft that removes a taint from the node, or None if it keeps the node for some pods on purpose."""
    declared = _find_declared(taint, place.node, place.pod)
    if declared is None or declared.kind is TaintKind.FOR_DEVICES or _find_near(taint, place):
        return None
    return _without_taint(draft, "open-node", {"key": taint.key, "value": taint.value, "effect": taint.effect}, taint)


def _may_select_unreserved(place: Place) -> bool:
    """Return whether the pod may select a node that is not reserved for other pods.

    One that selects no node at all may once its selector is corrected, so that every node counts.
    """
    nodes = place.nodes
    selected = match_required_affinity(place.pod, nodes) & nodes.live
    return any(
        not _is_reserved(node, place.pod)
        for slot in np.flatnonzero(selected if selected.any() else nodes.live)
        if (node := nodes.nodes[slot]) is not None
    )


def _is_of_other_pool(place: Place) -> bool:
    """Return whether the pod selects nodes that exist, and this one is not among them."""
    selected = match_required_affinity(place.pod, place.nodes) & place.nodes.live
    return bool(selected.any()) and not selected[place.slot]


def _is_reserved(node: Node, pod: PodInfo) -> bool:
    """Return whether a taint reserves the node for other pods, such as those of the control plane."""
    hard = [taint for taint in node.spec.taints or () if taint.effect in HARD_EFFECTS]
    declared = [_find_declared(taint, node, pod) for taint in hard]
    return any(taint is not None and taint.kind in _RESERVED for taint in declared)


def _find_declared(taint: Taint, node: Node, pod: PodInfo) -> NodeTaint | None:
    """Return the declaration of a node's taint against a pod, or None for a taint that the pod may tolerate."""
    requested = [resource for resource, amount in pod.requests.items() if amount > 0]
    has_claims = bool(pod.pod.spec.resource_claims)
    return find_taint_against(
        taint.key, taint.value, node.status.allocatable or (), requested, claims_devices=has_claims
    )


def _with_tolerations(spec: PodSpec, more: list[Toleration]) -> PodSpec:
    return msgspec.structs.replace(spec, tolerations=[*(spec.tolerations or ()), *more])


# --- resources ----------------------------------------------------------------------------------------------------


def _lower_request(draft: Draft, reason: Reason, place: Place) -> Draft | None:
    resource = reason.params["resource"]
    target = place.free(resource) - int(reason.params.get("kept") or 0)
    if _total_of(draft.spec, resource) <= target:
        return draft
    at_pod_level = resource in ((draft.spec.resources.requests if draft.spec.resources else None) or {})
    lowered = _lower_pod_level(draft, resource, target) if at_pod_level else draft
    while not at_pod_level and lowered is not None and _total_of(lowered.spec, resource) > target:
        lowered = _lower_largest(lowered, resource, target)
    return lowered if lowered is not None and _total_of(lowered.spec, resource) <= target else None


def _lower_largest(draft: Draft, resource: str, target: int) -> Draft | None:
    """Return the draft with one container's request lowered by what the pod's total exceeds `target`.

    If containers and sidecars exceed it together, the largest of them is lowered, otherwise the largest init container.
    Returns None if less than `MIN_SHARE` of the request would remain.
    """
    spec = draft.spec
    inits = [c for c in spec.init_containers or () if c.restart_policy != "Always"]
    running = [c for c in (*(spec.containers or ()), *(spec.init_containers or ())) if c not in inits]
    overhead = _amount((spec.overhead or {}).get(resource, 0), resource)
    together = sum(_request_of(c, resource) for c in running) + overhead
    pool, excess = (running, together - target) if together > target else (inits, _total_of(spec, resource) - target)
    if not pool:
        return None
    largest = max(pool, key=lambda c: _request_of(c, resource))
    old = _request_of(largest, resource)
    new = round_request(resource, old - excess)
    if new < max(1, old * MIN_SHARE):
        return None
    return _set_request(draft, largest, resource, old, new)


def _set_request(draft: Draft, container: Container, resource: str, old: int, new: int) -> Draft:
    text = format_exact_quantity(resource, new)
    resources = container.resources or ResourceRequirements()
    amounts: Json = {"requests": {resource: text}}
    if resource in (resources.limits or {}) and requests.is_scalar(resource):
        amounts["limits"] = {resource: text}  # the API server demands that they are equal
    changed = msgspec.structs.replace(
        container,
        resources=msgspec.structs.replace(
            resources,
            requests={**(resources.requests or {}), resource: text},
            limits={**(resources.limits or {}), **amounts.get("limits", {})} or None,
        ),
    )
    spec, group = _with_container(draft.spec, container, changed)
    params = {
        "container": container.name,
        "group": group,
        "resource": resource,
        "from": format_exact_quantity(resource, old),
        "to": text,
    }
    return draft.with_change("set-request", params, spec, {group: [{"name": container.name, "resources": amounts}]})


def _lower_pod_level(draft: Draft, resource: str, target: int) -> Draft | None:
    resources = draft.spec.resources
    assert resources is not None
    assert resources.requests is not None
    old = _amount(resources.requests[resource], resource)
    overhead = _amount((draft.spec.overhead or {}).get(resource, 0), resource)
    new = round_request(resource, target - overhead)
    containers = msgspec.structs.replace(draft.spec, resources=None, overhead=None)
    if new < max(1, old * MIN_SHARE, _total_of(containers, resource)):  # the containers' requests must fit in it
        return None
    text = format_exact_quantity(resource, new)
    amounts: Json = {"requests": {resource: text}}
    if resource in (resources.limits or {}) and requests.is_scalar(resource):
        amounts["limits"] = {resource: text}
    changed = msgspec.structs.replace(resources, requests={**resources.requests, resource: text})
    params = {
        "container": "",
        "group": "",
        "resource": resource,
        "from": format_exact_quantity(resource, old),
        "to": text,
    }
    spec = msgspec.structs.replace(draft.spec, resources=changed)
    return draft.with_change("set-request", params, spec, {"resources": amounts})


def _total_of(spec: PodSpec, resource: str) -> int:
    return PodInfo(Pod(spec=spec)).requests.get(resource, 0)


def _request_of(container: Container, resource: str) -> int:
    requests = (container.resources.requests if container.resources else None) or {}
    return _amount(requests.get(resource, 0), resource)


def _amount(text: str | int | float, resource: str) -> int:
    return quantity.scaled_value(text, quantity.MILLI if resource == requests.CPU else quantity.WHOLE)


def round_request(resource: str, amount: int) -> int:
    """Return the amount, rounded down to two digits or more where that gives up little and reads better."""
    if resource == requests.CPU:
        step = 100 if amount >= 5000 else 10 if amount >= 500 else 1
    elif resource.startswith("hugepages-"):
        step = _amount(resource.removeprefix("hugepages-"), resource)
    elif resource in (requests.MEMORY, requests.STORAGE):
        step = 1 << 20 if amount >= 1 << 24 else 1
    else:
        step = 1
    return amount - amount % step


# --- ports --------------------------------------------------------------------------------------------------------


def _remove_host_ports(draft: Draft, reason: Reason, place: Place) -> Draft | None:
    if draft.spec.host_network:
        return None  # its containers use the node's ports whether they declare them or not
    wanted = set(reason.params.get("ports", "").split(", "))
    spec = draft.spec
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        for port in container.ports or ():
            address = "" if port.host_ip in ("", "0.0.0.0") else f"{port.host_ip}:"
            name = f"{address}{port.host_port}/{port.protocol or 'TCP'}"
            if port.host_port <= 0 or name not in wanted:
                continue
            if sum(p.container_port == port.container_port for p in container.ports or ()) > 1:
                return None  # a strategic merge patch addresses a port by its containerPort alone
            current = next(c for c in _containers(draft.spec) if c.name == container.name)
            ports = [p if p != port else msgspec.structs.replace(p, host_port=0) for p in current.ports or ()]
            changed, group = _with_container(draft.spec, current, msgspec.structs.replace(current, ports=ports))
            entry = {"containerPort": port.container_port, "hostPort": None, "hostIP": None}
            draft = draft.with_change(
                "remove-host-port",
                {"container": container.name, "group": group, "ports": name, "from": str(port.host_port)},
                changed,
                {group: [{"name": container.name, "ports": [entry]}]},
            )
    return draft


# --- node selection -----------------------------------------------------------------------------------------------


def _select_node(draft: Draft, reason: Reason, place: Place) -> Draft | None:
    spec = draft.spec
    for key, value in (spec.node_selector or {}).items():
        there = place.labels.get(key)
        if there == value:
            continue
        if key in BUILT_FOR and not is_same_platform(key, value, there or ""):
            return None
        lost = _describe_lost([(key, (value,))], place)
        is_set = there is not None and key != _HOSTNAME  # another node's name would pin the pod to that node
        other = _find_other_key(key, value, place.labels) if there is None else None
        if other is not None:
            selector = {k: v for k, v in (draft.spec.node_selector or {}).items() if k != key} | {other: value}
            draft = draft.with_change(
                "rename-node-selector",
                {"key": key, "value": value, "to": other} | lost,
                msgspec.structs.replace(draft.spec, node_selector=selector),
                {"nodeSelector": {key: None, other: value}},
            )
            continue
        selector = {k: v for k, v in (draft.spec.node_selector or {}).items() if k != key}
        selector |= {key: there} if is_set and there is not None else {}
        draft = draft.with_change(
            "set-node-selector" if is_set else "remove-node-selector",
            {"key": key, "from": value} | ({"to": there} if is_set and there is not None else {}) | lost,
            msgspec.structs.replace(draft.spec, node_selector=selector),
            {"nodeSelector": {key: there if is_set else None}},
        )
    terms = list_required_terms(spec)
    if not terms or any(_term_matches(term, place) for term in terms):
        return draft
    if place.pod.pod.is_of_daemon_set:
        return None  # the controller replaces the terms by one that names the node
    return _widen_terms(draft, terms, place)


def _find_other_key(key: str, value: str, labels: Mapping[str, str]) -> str | None:
    """Return the one key that has the value and the same name after its domain, or a name that is much the same.

    Such as topology.kubernetes.io/zone for failure-domain.beta.kubernetes.io/zone, and disktype for disk-type.
    """
    name = key.rpartition("/")[2]
    by_name = {each.rpartition("/")[2]: each for each, there in labels.items() if there == value and each != _HOSTNAME}
    close = difflib.get_close_matches(name, by_name, n=2, cutoff=0.85)
    if name in by_name:
        return by_name[name]
    return by_name[close[0]] if len(close) == 1 else None


def _widen_terms(draft: Draft, terms: Sequence[NodeSelectorTerm], place: Place) -> Draft | None:
    """Return the draft with one required term changed so that the node meets it, the one with the fewest changes.

    The node has to meet one of the terms. If each would have to be removed as a whole, all are removed.
    """
    failing = [_failing(term, place) for term in terms]
    possible = [
        i for i in range(len(terms)) if failing[i] and not any(_is_of_other_platform(r, place) for r in failing[i])
    ]
    if not possible:
        return None
    widened = {i: new for i in possible if (new := _widen(terms[i], place)) is not None}
    selected = [(r.key, r.values or ()) for i in possible for r in failing[i] if r.operator == "In"]
    if not widened:
        if any(r.key in BUILT_FOR for term in terms for r in term.match_expressions or ()):
            return None
        params = {"from": " or ".join(_format_term(term) for term in terms)} | _describe_lost(selected, place)
        spec = msgspec.structs.replace(draft.spec, affinity=_with_required_terms(draft.spec.affinity, None))
        return draft.with_change(
            "remove-node-affinity", params, spec, {"affinity": {"nodeAffinity": {_REQUIRED: None}}}
        )
    position = min(widened, key=lambda i: len(failing[i]))
    old, new = terms[position], widened[position]
    changed = [*terms[:position], new, *terms[position + 1 :]]
    required = msgspec.to_builtins(NodeSelector(node_selector_terms=changed))
    params = {"from": _format_term(old), "to": _format_term(new), "difference": _describe_difference(old, new)}
    params |= _describe_lost([(r.key, r.values or ()) for r in failing[position] if r.operator == "In"], place)
    return draft.with_change(
        "set-node-affinity",
        params,
        msgspec.structs.replace(draft.spec, affinity=_with_required_terms(draft.spec.affinity, changed)),
        {"affinity": {"nodeAffinity": {_REQUIRED: _without_null(required)}}},
    )


def _is_of_other_platform(requirement: Requirement, place: Place) -> bool:
    """Return whether a requirement is for nodes that run other programs: another spelling of the node's value is not.

    A program is built for an operating system and an architecture, so that a pod cannot run where they differ.
    """
    key, there = requirement.key, place.labels.get(requirement.key) or ""
    meant = requirement.operator == "In" and any(is_same_platform(key, v, there) for v in requirement.values or ())
    return key in BUILT_FOR and not meant


def _describe_difference(old: NodeSelectorTerm, new: NodeSelectorTerm) -> str:
    """Return what a widened term allows that the old one did not."""
    parts = []
    by_key = {(r.key, r.operator): r for r in new.match_expressions or ()}
    for r in old.match_expressions or ():
        after = by_key.get((r.key, r.operator))
        if after is None and (excluding := by_key.get((r.key, "NotIn"))) is not None:
            excluded = ", ".join(f"{r.key}={value}" for value in excluding.values or ())
            parts.append(f"exclude only {excluded}, in place of every node with that label")
        elif after is None:
            parts.append(f"drop {format_requirement(r)}")
        elif after != r and r.operator == "In":
            parts += [f"allow {r.key}={v}" for v in after.values or () if v not in (r.values or ())]
        elif after != r:
            parts += [f"no longer exclude {r.key}={v}" for v in r.values or () if v not in (after.values or ())]
    kept = new.match_fields or ()
    parts += [f"drop {format_requirement(r)}" for r in old.match_fields or () if r not in kept]
    return ", ".join(parts)


def list_required_terms(spec: PodSpec) -> list[NodeSelectorTerm]:
    """Return the terms of a spec's required node affinity, of which a node has to meet one."""
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    required = node_affinity.required if node_affinity else None
    return list((required.node_selector_terms if required else None) or ())


def _with_required_terms(affinity: Affinity | None, terms: list[NodeSelectorTerm] | None) -> Affinity | None:
    if affinity is None or affinity.node_affinity is None:
        return affinity
    required = NodeSelector(node_selector_terms=terms) if terms else None
    return msgspec.structs.replace(
        affinity, node_affinity=msgspec.structs.replace(affinity.node_affinity, required=required)
    )


def _failing(term: NodeSelectorTerm, place: Place) -> list[Requirement]:
    """Return the requirements of a term that the node does not meet, those on the node's name included."""
    expressions = [r for r in term.match_expressions or () if not requirement_matches(r, place.labels.get(r.key))]
    return [*expressions, *(r for r in term.match_fields or () if not field_matches(r, place.node.metadata.name))]


def _term_matches(term: NodeSelectorTerm, place: Place) -> bool:
    return bool(term.match_expressions or term.match_fields) and not _failing(term, place)


def count_unmet_requirements(place: Place) -> int:
    """Return how many entries of the pod's node selector, and of its nearest required term, the node does not meet.

    A label that the pod excludes counts twice if its value says that the node has what the label stands for. Another
    platform, for which the program is not built, counts more than anything else.
    """
    spec = place.pod.pod.spec
    unmet = sum(
        _OTHER_PLATFORM if key in BUILT_FOR and not is_same_platform(key, value, place.labels.get(key) or "") else 1
        for key, value in (spec.node_selector or {}).items()
        if place.labels.get(key) != value
    )
    return unmet + min((_weigh(_failing(term, place), place) for term in list_required_terms(spec)), default=0)


def _weigh(failing: Sequence[Requirement], place: Place) -> int:
    excluding = (r for r in failing if r.operator == "DoesNotExist")
    others = sum(_OTHER_PLATFORM for r in failing if _is_of_other_platform(r, place))
    return len(failing) + others + sum(place.labels.get(r.key) not in _OPPOSITES for r in excluding)


def _widen(term: NodeSelectorTerm, place: Place) -> NodeSelectorTerm | None:
    """Return the term changed so that the node meets it, or None if nothing of it would be left."""
    failing = _failing(term, place)
    requirements: list[Requirement] = []
    for r in term.match_expressions or ():
        there = place.labels.get(r.key)
        if r not in failing:
            requirements.append(r)
        elif r.operator == "In" and there is not None and not _names_no_node(r, place):
            requirements.append(msgspec.structs.replace(r, values=[*(r.values or ()), there]))
        elif r.operator == "DoesNotExist" and there in _OPPOSITES:
            requirements.append(msgspec.structs.replace(r, operator="NotIn", values=[_OPPOSITES[there]]))
        elif r.operator == "NotIn" and len(r.values or ()) > 1:
            requirements.append(msgspec.structs.replace(r, values=[v for v in r.values or () if v != there]))
    fields = [r for r in term.match_fields or () if r not in failing]
    if not requirements and not fields:
        return None
    return NodeSelectorTerm(match_expressions=requirements or None, match_fields=fields or None)


def _names_no_node(requirement: Requirement, place: Place) -> bool:
    """Return whether a requirement selects nodes by hostname of which none exists."""
    values = requirement.values or ()
    return requirement.key == _HOSTNAME and not any(_is_in_use(value, _HOSTNAME, place.nodes) for value in values)


def _format_term(term: NodeSelectorTerm) -> str:
    return ", ".join(format_requirement(r) for r in (*(term.match_expressions or ()), *(term.match_fields or ())))


# --- other pods ---------------------------------------------------------------------------------------------------


def _raise_max_skew(draft: Draft, reason: Reason, place: Place) -> Draft | None:
    constraint = _constraint(draft.spec, reason.params["key"])
    if constraint is None:
        return None
    skew = int(reason.params["pods"]) - int(reason.params["fewest"])
    if skew <= constraint.max_skew:
        return None
    params = {"key": constraint.topology_key, "from": str(constraint.max_skew), "to": str(skew)}
    spec = _with_constraint(draft.spec, constraint, msgspec.structs.replace(constraint, max_skew=skew))
    entry = {"topologyKey": constraint.topology_key, "maxSkew": skew}
    return draft.with_change("set-max-skew", params, spec, {"topologySpreadConstraints": [entry]})


def _spread_if_possible(draft: Draft, reason: Reason, place: Place) -> Draft | None:
    constraint = _constraint(draft.spec, reason.params["key"])
    if constraint is None:
        return None
    soft = msgspec.structs.replace(constraint, when_unsatisfiable="ScheduleAnyway", min_domains=None)
    entry: Json = {"topologyKey": constraint.topology_key, "whenUnsatisfiable": "ScheduleAnyway"}
    entry |= {"minDomains": None} if constraint.min_domains is not None else {}
    params = {"key": constraint.topology_key, "from": "DoNotSchedule", "to": "ScheduleAnyway"}
    spec = _with_constraint(draft.spec, constraint, soft)
    return draft.with_change("set-when-unsatisfiable", params, spec, {"topologySpreadConstraints": [entry]})


def _honor_taints(draft: Draft, reason: Reason, place: Place) -> Draft | None:
    """Return the draft that leaves nodes with taints that the pod does not tolerate out of the count of domains."""
    constraint = _constraint(draft.spec, reason.params["key"])
    if constraint is None or constraint.node_taints_policy == "Honor":
        return None
    spec = _with_constraint(draft.spec, constraint, msgspec.structs.replace(constraint, node_taints_policy="Honor"))
    entry = {"topologyKey": constraint.topology_key, "nodeTaintsPolicy": "Honor"}
    params = {"key": constraint.topology_key, "from": constraint.node_taints_policy or "Ignore", "to": "Honor"}
    return draft.with_change("set-taints-policy", params, spec, {"topologySpreadConstraints": [entry]})


def _honor_affinity(draft: Draft, reason: Reason, place: Place) -> Draft | None:
    """Return the draft that leaves nodes that the pod does not select out of the count of domains."""
    constraint = _constraint(draft.spec, reason.params["key"])
    if constraint is None or constraint.node_affinity_policy != "Ignore":
        return None
    spec = _with_constraint(draft.spec, constraint, msgspec.structs.replace(constraint, node_affinity_policy="Honor"))
    entry = {"topologyKey": constraint.topology_key, "nodeAffinityPolicy": "Honor"}
    params = {"key": constraint.topology_key, "from": "Ignore", "to": "Honor"}
    return draft.with_change("set-affinity-policy", params, spec, {"topologySpreadConstraints": [entry]})


def _remove_min_domains(draft: Draft, reason: Reason, place: Place) -> Draft | None:
    constraint = _constraint(draft.spec, reason.params["key"])
    if constraint is None or (constraint.min_domains or 1) <= 1:
        return None
    spec = _with_constraint(draft.spec, constraint, msgspec.structs.replace(constraint, min_domains=None))
    entry = {"topologyKey": constraint.topology_key, "minDomains": None}
    params = {"key": constraint.topology_key, "from": str(constraint.min_domains)}
    return draft.with_change("remove-min-domains", params, spec, {"topologySpreadConstraints": [entry]})


def _hard_constraints(spec: PodSpec) -> list[TopologySpreadConstraint]:
    return [c for c in spec.topology_spread_constraints or () if c.when_unsatisfiable != "ScheduleAnyway"]


def _constraint(spec: PodSpec, key: str) -> TopologySpreadConstraint | None:
    """Return the spec's hard constraint on a topology key, or None unless it is the only one: a patch names the key."""
    constraints = [c for c in spec.topology_spread_constraints or () if c.topology_key == key]
    return constraints[0] if len(constraints) == 1 and constraints[0].when_unsatisfiable != "ScheduleAnyway" else None


def _with_constraint(spec: PodSpec, old: TopologySpreadConstraint, new: TopologySpreadConstraint) -> PodSpec:
    constraints = [new if c is old else c for c in spec.topology_spread_constraints or ()]
    return msgspec.structs.replace(spec, topology_spread_constraints=constraints)


def _remove_pod_affinity(draft: Draft, reason: Reason, place: Place) -> Draft | None:
    return _remove_term(draft, "pod_affinity", "podAffinity", "remove-pod-affinity", reason)


def _remove_pod_anti_affinity(draft: Draft, reason: Reason, place: Place) -> Draft | None:
    return _remove_term(draft, "pod_anti_affinity", "podAntiAffinity", "remove-pod-anti-affinity", reason)


def _remove_term(draft: Draft, field: str, name: str, code: str, reason: Reason) -> Draft | None:
    """Return the draft without the required term of a pod affinity for the reason's key; None unless it is one term.

    A strategic merge patch can only replace the whole list, and the list of a pod differs from that of its template.
    So one of several terms is removed by its index, a parameter.
    """
    whole = draft.spec.affinity
    affinity: PodAffinity | None = getattr(whole, field, None)
    terms = list((affinity.required if affinity else None) or ())
    matching = [i for i, term in enumerate(terms) if term.topology_key == reason.params["key"]]
    if whole is None or affinity is None or len(matching) != 1 or any(c.code == code for c in draft.changes):
        return None
    rest = [term for i, term in enumerate(terms) if i != matching[0]] or None
    changed = msgspec.structs.replace(whole, **{field: msgspec.structs.replace(affinity, required=rest)})
    spec = msgspec.structs.replace(draft.spec, affinity=changed)
    params = {"key": reason.params["key"]}
    if rest:
        return draft.with_change(code, params | {"index": str(matching[0])}, spec)
    return draft.with_change(code, params, spec, {"affinity": {name: {_REQUIRED: None}}})


# --- specs and patches --------------------------------------------------------------------------------------------


def _containers(spec: PodSpec) -> Iterable[Container]:
    return (*(spec.containers or ()), *(spec.init_containers or ()))


def _with_container(spec: PodSpec, old: Container, new: Container) -> tuple[PodSpec, str]:
    """Return the spec with one container replaced, and the name of the list that has it."""
    if any(c is old for c in spec.containers or ()):
        containers = [new if c is old else c for c in spec.containers or ()]
        return msgspec.structs.replace(spec, containers=containers), "containers"
    inits = [new if c is old else c for c in spec.init_containers or ()]
    return msgspec.structs.replace(spec, init_containers=inits), "initContainers"


_MERGE_KEYS: Final = {
    "containers": "name",
    "initContainers": "name",
    "ports": "containerPort",
    "topologySpreadConstraints": "topologyKey",
}


def _merge(patch: Json, more: Json) -> Json:
    """Return two strategic merge patches as one; where both set a value, `more` wins."""
    merged = copy.copy(patch)
    for name, value in more.items():
        old = merged.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            merged[name] = _merge(old, value)
        elif name in _MERGE_KEYS and isinstance(old, list):
            key = _MERGE_KEYS[name]
            by_key = {entry[key]: entry for entry in old}
            for entry in value:
                by_key[entry[key]] = _merge(by_key.get(entry[key], {}), entry)
            merged[name] = list(by_key.values())
        else:
            merged[name] = value
    return merged


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_null(v) for name, v in value.items() if v is not None}
    return [_without_null(v) for v in value] if isinstance(value, list) else value


CHANGES_OF_NODES: Final = frozenset({"uncordon", "label-node", "remove-taint", "open-node", "clear-taint"})
_CHANGES: Final[Mapping[str, tuple[Callable[[Draft, Reason, Place], Draft | None], ...]]] = {
    "unschedulable": (_uncordon,),
    "untolerated-taint": (_tolerate, _remove_taint),
    "insufficient": (_lower_request,),
    "ports": (_remove_host_ports,),
    "node-affinity": (_select_node,),
    "spread": (_raise_max_skew, _honor_taints, _honor_affinity, _remove_min_domains, _spread_if_possible),
    "spread-label": (_spread_if_possible,),
    "pod-affinity": (_remove_pod_affinity,),
    "pod-anti-affinity": (_remove_pod_anti_affinity,),
}
