"""Changes to a pod's spec, or to a node, that answer the reasons for which a filter rejected the node.

Owns: one change for each code of reason, as a changed spec, as a strategic merge patch and as a code with parameters.
Does not own: whether the pod then fits (`check`), sentences and commands (`herodotus_answers.suggestions`). Pure.

Invariant: the patch turns the old spec into the new one, except for changes to the node and for tolerations, which a
pending pod may be given in place.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from herodotus_record.model import Reason
from herodotus_record.node_taints import find_taint_remedy
from herodotus_record.units import format_quantity
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
    Toleration,
    TopologySpreadConstraint,
)

Json = dict[str, Any]
MIN_SHARE: Final = 0.1  # of the old request: with less, the program would hardly be the same
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
# Labels that state what a node is. Changing them would be a lie to every other pod, or is undone by the kubelet.
_IDENTITY_LABEL: Final = re.compile(r"([^/]*\.)?(kubernetes|k8s)\.io/.*")
# Labels of the platform that an image is made for: another value needs another image.
PLATFORM_LABELS: Final = ("kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch")
_POD_DEFAULTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")  # tolerated by admission


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


def find_change(draft: Draft, reason: Reason, place: Place) -> Draft | None:
    """Return the draft with the changes that answer the reason on this node, or None if no change is known."""
    change = _CHANGES.get(reason.code)
    return change(draft, reason, place) if change else None


def has_change(reason: Reason) -> bool:
    """Return whether a change may answer a reason with this code."""
    return reason.code in _CHANGES


# --- the node -----------------------------------------------------------------------------------------------------


def _uncordon(draft: Draft, reason: Reason, place: Place) -> Draft | None:
    if not place.node.spec.unschedulable:
        return None
    tolerated = Toleration(key=UNSCHEDULABLE.key, operator="Exists", effect=UNSCHEDULABLE.effect)
    spec = _with_tolerations(draft.spec, [tolerated])
    counts_taints = any(c.node_taints_policy == "Honor" for c in _hard_constraints(spec))
    return replace(draft.with_change("uncordon", {}, spec), is_exact=draft.is_exact and not counts_taints)


def label_node(place: Place) -> Draft | None:
    """Return the draft that labels the node as the pod's node selector and required terms demand, if that is sensible.

    It is not for labels that state what a node is, or if no node has the demanded value.
    """
    spec, wanted = place.pod.pod.spec, dict[str, str]()
    if _hard_constraints(spec):
        return None  # they count the nodes that the pod selects, so the label would change what they demand
    for key, value in (spec.node_selector or {}).items():
        if place.labels.get(key) != value:
            wanted[key] = value
    terms = _required_terms(spec)
    if terms and not any(_term_matches(term, place) for term in terms):
        for r in min((_failing(term, place) for term in terms), key=len):
            if r.operator != "In" or r.key in wanted or not r.values:
                return None
            wanted[r.key] = next((v for v in r.values if _is_in_use(v, r.key, place.nodes)), r.values[0])
    if not wanted or any(_IDENTITY_LABEL.fullmatch(k) or not _is_in_use(v, k, place.nodes) for k, v in wanted.items()):
        return None
    selector = {k: v for k, v in (spec.node_selector or {}).items() if k not in wanted}
    without = msgspec.structs.replace(
        spec, node_selector=selector, affinity=_with_required_terms(spec.affinity, None) if terms else spec.affinity
    )
    draft = Draft(spec, {})
    for key, value in wanted.items():
        draft = draft.with_change("label-node", {"key": key, "value": value, "from": place.labels.get(key, "")}, spec)
    return replace(draft, spec=without)


def _is_in_use(value: str, key: str, nodes: NodeColumns) -> bool:
    return bool((nodes.label(key).among(nodes.slots, (value,)) & nodes.live).any())


# --- tolerations --------------------------------------------------------------------------------------------------


def _tolerate(draft: Draft, reason: Reason, place: Place) -> Draft | None:
    own = list(draft.spec.tolerations or ())
    for taint in place.node.spec.taints or ():
        if taint.effect not in HARD_EFFECTS or is_tolerated(taint, own):
            continue
        if taint.key == UNSCHEDULABLE.key and place.node.spec.unschedulable:
            continue  # goes with the cordon
        if find_taint_remedy(taint.key) is not None:
            return None  # its component removes it
        before = place.pod.pod.spec.tolerations or ()
        params = {"key": taint.key, "value": taint.value, "effect": taint.effect, "count": str(len(before))}
        params["templateCount"] = str(sum(t.key not in _POD_DEFAULTS for t in before))
        operator = "Equal" if taint.value else "Exists"
        added = Toleration(key=taint.key, operator=operator, value=taint.value, effect=taint.effect)
        own.append(added)
        draft = draft.with_change("add-toleration", params, _with_tolerations(draft.spec, [added]))
    return draft


def _with_tolerations(spec: PodSpec, more: list[Toleration]) -> PodSpec:
    return msgspec.structs.replace(spec, tolerations=[*(spec.tolerations or ()), *more])


# --- resources ----------------------------------------------------------------------------------------------------


def _lower_request(draft: Draft, reason: Reason, place: Place) -> Draft | None:
    resource = reason.params["resource"]
    target = place.free(resource)
    if _total_of(draft.spec, resource) <= target:
        return draft
    at_pod_level = resource in ((draft.spec.resources.requests if draft.spec.resources else None) or {})
    lowered = _lower_pod_level(draft, resource, target) if at_pod_level else draft
    while not at_pod_level and lowered is not None and _total_of(lowered.spec, resource) > target:
        lowered = _lower_largest(lowered, resource, target)
    return lowered if lowered is not None and _total_of(lowered.spec, resource) <= target else None


def _lower_largest(draft: Draft, resource: str, target: int) -> Draft | None:
    """Return the draft with the request of the container that determines the total lowered, or None if it is too large.

    That is the init container with the largest request if it alone exceeds the target, otherwise the container or
    sidecar with the largest request.
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
    new = _round_down(resource, old - excess)
    if new < max(1, old * MIN_SHARE):
        return None
    return _set_request(draft, largest, resource, old, new)


def _set_request(draft: Draft, container: Container, resource: str, old: int, new: int) -> Draft:
    text = _format_exactly(resource, new)
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
        "from": format_quantity(resource, old),
        "to": text,
    }
    return draft.with_change("set-request", params, spec, {group: [{"name": container.name, "resources": amounts}]})


def _lower_pod_level(draft: Draft, resource: str, target: int) -> Draft | None:
    resources = draft.spec.resources
    assert resources is not None
    assert resources.requests is not None
    old = _amount(resources.requests[resource], resource)
    overhead = _amount((draft.spec.overhead or {}).get(resource, 0), resource)
    new = _round_down(resource, target - overhead)
    containers = msgspec.structs.replace(draft.spec, resources=None, overhead=None)
    if new < max(1, old * MIN_SHARE, _total_of(containers, resource)):  # the containers' requests must fit in it
        return None
    text = _format_exactly(resource, new)
    amounts: Json = {"requests": {resource: text}}
    if resource in (resources.limits or {}) and requests.is_scalar(resource):
        amounts["limits"] = {resource: text}
    changed = msgspec.structs.replace(resources, requests={**resources.requests, resource: text})
    params = {"container": "", "group": "", "resource": resource, "from": format_quantity(resource, old), "to": text}
    spec = msgspec.structs.replace(draft.spec, resources=changed)
    return draft.with_change("set-request", params, spec, {"resources": amounts})


def _total_of(spec: PodSpec, resource: str) -> int:
    return PodInfo(Pod(spec=spec)).requests.get(resource, 0)


def _request_of(container: Container, resource: str) -> int:
    requests = (container.resources.requests if container.resources else None) or {}
    return _amount(requests.get(resource, 0), resource)


def _amount(text: str | int | float, resource: str) -> int:
    return quantity.scaled_value(text, quantity.MILLI if resource == requests.CPU else quantity.WHOLE)


def _round_down(resource: str, amount: int) -> int:
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


def _format_exactly(resource: str, amount: int) -> str:
    if resource == requests.CPU:
        return format_quantity(resource, amount)
    for suffix, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if not requests.is_extended(resource) and amount and amount % size == 0:
            return f"{amount // size}{suffix}"
    return str(amount)


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
        if there != value and key in PLATFORM_LABELS:
            return None
        if there != value:
            selector = {k: v for k, v in (draft.spec.node_selector or {}).items() if k != key}
            selector |= {key: there} if there is not None else {}
            draft = draft.with_change(
                "set-node-selector",
                {"key": key, "from": value} | ({"to": there} if there is not None else {}),
                msgspec.structs.replace(draft.spec, node_selector=selector),
                {"nodeSelector": {key: there}},
            )
    terms = _required_terms(spec)
    if not terms or any(_term_matches(term, place) for term in terms):
        return draft
    if all(any(r.key in PLATFORM_LABELS for r in _failing(term, place)) for term in terms):
        return None
    widened = [_widen(term, place) for term in terms]
    position = min(range(len(terms)), key=lambda i: (widened[i] is None, len(_failing(terms[i], place)) or 99))
    new = widened[position]
    old = [terms[position]] if new else terms
    changed = [*terms[:position], new, *terms[position + 1 :]] if new else None
    affinity = _with_required_terms(spec.affinity, changed)
    required = msgspec.to_builtins(NodeSelector(node_selector_terms=changed)) if changed else None
    return draft.with_change(
        "set-node-affinity",
        {"from": " or ".join(map(_format_term, old))} | ({"to": _format_term(new)} if new else {}),
        msgspec.structs.replace(draft.spec, affinity=affinity),
        {"affinity": {"nodeAffinity": {_REQUIRED: _without_null(required)}}},
    )


def _required_terms(spec: PodSpec) -> list[NodeSelectorTerm]:
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
    """Return how many entries of the pod's node selector, and of its nearest required term, the node does not meet."""
    spec = place.pod.pod.spec
    unmet = sum(place.labels.get(key) != value for key, value in (spec.node_selector or {}).items())
    return unmet + min((len(_failing(term, place)) for term in _required_terms(spec)), default=0)


def _widen(term: NodeSelectorTerm, place: Place) -> NodeSelectorTerm | None:
    """Return the term changed so that the node meets it, or None if nothing of it would be left."""
    failing = _failing(term, place)
    requirements: list[Requirement] = []
    for r in term.match_expressions or ():
        there = place.labels.get(r.key)
        if r not in failing:
            requirements.append(r)
        elif r.key in PLATFORM_LABELS:
            return None
        elif r.operator == "In" and there is not None:
            requirements.append(msgspec.structs.replace(r, values=[*(r.values or ()), there]))
        elif r.operator == "NotIn" and len(r.values or ()) > 1:
            requirements.append(msgspec.structs.replace(r, values=[v for v in r.values or () if v != there]))
    fields = [r for r in term.match_fields or () if r not in failing]
    if not requirements and not fields:
        return None
    return NodeSelectorTerm(match_expressions=requirements or None, match_fields=fields or None)


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


def honor_taints(place: Place) -> Draft | None:
    """Return the draft whose hard spread constraints leave out nodes with taints that the pod does not tolerate.

    kube-scheduler counts such nodes by default, so a domain that the pod cannot use is the one with the fewest pods.
    None if no such constraint has a topology key of its own.
    """
    draft = Draft(place.pod.pod.spec, {})
    for constraint in _hard_constraints(place.pod.pod.spec):
        if constraint.node_taints_policy == "Honor" or _constraint(draft.spec, constraint.topology_key) is None:
            continue
        spec = _with_constraint(draft.spec, constraint, msgspec.structs.replace(constraint, node_taints_policy="Honor"))
        entry = {"topologyKey": constraint.topology_key, "nodeTaintsPolicy": "Honor"}
        params = {"key": constraint.topology_key, "from": "Ignore", "to": "Honor"}
        draft = draft.with_change("set-node-taints-policy", params, spec, {"topologySpreadConstraints": [entry]})
    return draft if draft.changes else None


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
    """Return the draft without the required terms of a pod affinity; None unless there is exactly one.

    A patch can only replace the whole list, and the list of a pod differs from that of its template.
    """
    whole = draft.spec.affinity
    affinity: PodAffinity | None = getattr(whole, field, None)
    if whole is None or affinity is None or len(affinity.required or ()) != 1:
        return None
    changed = msgspec.structs.replace(whole, **{field: msgspec.structs.replace(affinity, required=None)})
    spec = msgspec.structs.replace(draft.spec, affinity=changed)
    return draft.with_change(code, {"key": reason.params["key"]}, spec, {"affinity": {name: {_REQUIRED: None}}})


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


_CHANGES: Final[Mapping[str, Callable[[Draft, Reason, Place], Draft | None]]] = {
    "unschedulable": _uncordon,
    "untolerated-taint": _tolerate,
    "insufficient": _lower_request,
    "ports": _remove_host_ports,
    "node-affinity": _select_node,
    "spread": _raise_max_skew,
    "spread-label": _spread_if_possible,
    "pod-affinity": _remove_pod_affinity,
    "pod-anti-affinity": _remove_pod_anti_affinity,
}
