"""Answer questions about one node of a decision: each filter's verdict, the reasons, and what would change it.

Owns: verdicts, rejections, reasons with a node's numbers, remedies, why no filter ran. Does not own: results over all
nodes (`explain`), texts of reasons that need only parameters (`wording`).

Invariant: there is a remedy for every recorded reason against the node, so the node is feasible once all of them are
applied. A filter that stops at its first reason may then find another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypedDict

from herodotus_answers import wording
from herodotus_answers.declare import NotRequired
from herodotus_record import reasons
from herodotus_record.kubernetes_version import DEFAULT_VERSION, KubernetesVersion, find_wording_version
from herodotus_record.model import NOT_RUN, Decision, Evaluation, NodeTable, Reason, Verdict
from herodotus_record.node_labels import is_hardware, names_identity
from herodotus_record.node_taints import NodeTaint, TaintKind, find_node_taint, find_taint_against
from herodotus_record.units import format_available, format_requested, natural_sort_key, pluralize

_NOT_FOR_POD: Final = (TaintKind.LEAVES, TaintKind.RESERVED, TaintKind.FOR_DEVICES)
_HOSTNAMES = re.compile(r"kubernetes\.io/hostname(?:=([^ ,]+)| in \(([^ )]+)\))")  # as `format_requirement` writes
_UNOFFERED = "unhealthy, or their device plugin has stopped"
_CORDON_TAINT = "node.kubernetes.io/unschedulable:NoSchedule"


class ReasonDetail(TypedDict):
    """A reason why a node was rejected, with the node's numbers."""

    code: Annotated[str, "Stable code of the reason."]
    sentence: Annotated[str, "kube-scheduler's sentence for the reason."]
    params: Annotated[dict[str, str], "Parameters of the reason by name."]
    resource: NotRequired[Annotated[str, "Resource that is lacking."]]
    requested: NotRequired[Annotated[int, "Amount that the pod requests, in base units: millicores, bytes or pieces."]]
    free: NotRequired[Annotated[int, "Amount that is free on the node, in base units."]]
    allocatable: NotRequired[Annotated[int, "Amount that the node has for pods, in base units."]]
    text: Annotated[str, "The reason in a few words."]


def list_verdicts(decision: Decision, slot: int) -> list[tuple[str, Verdict]]:
    """Return pairs of plugin and verdict, in order, for every filter that ran on the slot's node.

    The list is empty if the node was not evaluated.
    """
    if decision.evaluation[slot] != Evaluation.EVALUATED:
        return []
    verdicts = ((f.plugin, f.verdicts[f.ids[slot] if len(f.ids) else 0]) for f in decision.filters if not f.skipped)
    return [(plugin, verdict) for plugin, verdict in verdicts if verdict != NOT_RUN]


def list_rejections(decision: Decision, slot: int) -> list[tuple[str, Verdict]]:
    """Return pairs of plugin and verdict, in order, for every filter that rejected the slot's node.

    The first one determines the FailedScheduling message.
    """
    return [(plugin, verdict) for plugin, verdict in list_verdicts(decision, slot) if verdict.rejects_node]


def build_reason_detail(decision: Decision, table: NodeTable, slot: int, reason: Reason) -> ReasonDetail:
    """Return, as JSON, a reason why the slot's node was rejected: its code, kube-scheduler's sentence and a short text.

    For a resource it adds the requested, free and allocatable amounts.
    """
    version = find_wording_version(decision.scheduler.rules)
    sentence = reasons.format_reason(reason, version)
    detail: ReasonDetail = {"code": reason.code, "sentence": sentence, "params": dict(reason.params), "text": ""}
    resource = find_resource(reason)
    if resource:
        requested = decision.pod.requests.get(resource, 0) if resource != "pods" else 1
        free, allocatable = _find_free(table, slot, reason), table.allocatable[slot].get(resource, 0)
        detail |= {"resource": resource, "requested": requested, "free": free, "allocatable": allocatable}
        offer = _describe_offer(reason, resource, free, allocatable)
        offer += _describe_huge_pages(table, slot, requested - free) if resource == "memory" else ""
        detail["text"] = f"{format_request(resource, requested, reason)}; {offer}"
    else:
        detail["text"] = describe_reason(reason, version)
    return detail


def list_possible_node_changes(decision: Decision, table: NodeTable, slot: int) -> list[str]:
    """Return what would have to change for the slot's node to pass every filter: one sentence for each reason."""
    return list(dict.fromkeys(_remedy(decision, table, slot, reason) for reason in list_obstacles(decision, slot)))


def is_evaluated(decision: Decision, slot: int) -> bool:
    """Return whether the filters ran on the slot's node."""
    return decision.evaluation[slot] == Evaluation.EVALUATED


def explain_not_evaluated(decision: Decision, slot: int) -> str:
    """Return why no filter ran on the slot's node, or "" if filters ran or the slot has no node."""
    match Evaluation(decision.evaluation[slot]):
        case Evaluation.RESTRICTED:
            return f"{', '.join(decision.restricted_by) or 'a PreFilter plugin'} restricted the pod to other nodes"
        case Evaluation.NOT_SAMPLED:
            return "enough feasible nodes were found first (percentageOfNodesToScore: 100 evaluates every node)"
        case Evaluation.NOT_NEEDED:
            return "the node nominated by preemption fits, so no other was evaluated"
        case Evaluation.NOT_REACHED if decision.pre_filters:
            return f"{decision.pre_filters[-1].plugin} rejected the pod before any node was evaluated"
        case Evaluation.NOT_REACHED:
            return "the attempt ended in an error first"
        case Evaluation.UNRECORDED:
            return "the log has no verdict on it"
        case _:
            return ""


def list_obstacles(decision: Decision, slot: int) -> list[Reason]:
    """Return every reason that every filter gave against the slot's node.

    The taint of a cordoned node is left out, because it disappears when the node is uncordoned.
    """
    reasons = [reason for _, verdict in list_rejections(decision, slot) for reason in verdict.reasons]
    cordoned = any(reason.code == "unschedulable" for reason in reasons)
    return [r for r in reasons if not (cordoned and _taints(r.params) == [_CORDON_TAINT])]


def rate_effort(decision: Decision, table: NodeTable, slot: int) -> tuple[bool, int]:
    """Return how hard it is to make the pod fit on the slot's node: whether the node is not for it, and the obstacles.

    A node is not for the pod if a taint reserves it for other pods or says that it is being removed.
    """
    obstacles = list_obstacles(decision, slot)
    taints = [taint for r in obstacles if r.code == "untolerated-taint" for taint in _taints(r.params)]
    declared = [_find_declared(decision, table, slot, taint) for taint in taints]
    return any(d is not None and d.kind in _NOT_FOR_POD for d in declared), len(obstacles)


def _find_declared(decision: Decision, table: NodeTable, slot: int, taint: str) -> NodeTaint | None:
    """Return the declaration of a taint of the slot's node against the pod, None for one that it may tolerate.

    The taint has the form of `kubectl taint`.
    """
    (key, _, value), offered = taint.rpartition(":")[0].partition("="), table.allocatable[slot]
    requested = [resource for resource, amount in decision.pod.requests.items() if amount > 0]
    claims = any(run.plugin == "DynamicResources" and not run.skipped for run in decision.filters)
    return find_taint_against(key, value, offered, requested, claims_devices=claims)


def find_resource(reason: Reason) -> str:
    """Return the name of the resource that a reason is about, or "" if it is about none."""
    return "pods" if reason.code == "too-many-pods" else reason.params.get("resource", "")


def format_request(resource: str, requested: int, reason: Reason) -> str:
    """Return the pod's request for a resource as text, with what makes it up: `cpu: requests 6 (init container x)`."""
    parts = reason.params.get("parts")
    return f"{resource}: requests {format_requested(resource, requested)}" + (f" ({parts})" if parts else "")


def is_absent(reason: Reason) -> bool:
    """Return whether a reason says that a node has nothing at all of a resource, not even devices that are ill."""
    return reason.params.get("allocatable") == "0" and not reason.params.get("capacity")


def describe_capacity(reason: Reason) -> str:
    """Return a clause on a node that has none of a resource, or does not offer all of it; "" if the reason has none."""
    capacity, resource = reason.params.get("capacity"), find_resource(reason)
    if not capacity:
        return "; the node has none" if is_absent(reason) else ""
    why = f"but not all allocatable: {_UNOFFERED}" if "/" in resource else "and none allocatable: see its kubelet"
    return f"; capacity {format_available(resource, int(capacity))}, {why}"


def _describe_offer(reason: Reason, resource: str, free: int, allocatable: int) -> str:
    """Return how much of a resource a node has free, of how much, and devices that it has but does not offer."""
    capacity = int(reason.params.get("capacity") or 0)
    if capacity > allocatable:
        kept = f"{format_available(resource, capacity - allocatable)} of {format_available(resource, capacity)} are not"
        kept += f" allocatable: {_UNOFFERED}" if "/" in resource else " allocatable: see its kubelet"
        return f"free {free} of {allocatable}; {kept}" if allocatable else kept
    amounts = f"free {format_available(resource, free)} of {format_available(resource, allocatable)}"
    return amounts + describe_kept(reason) if allocatable else "the node has none"


def _describe_huge_pages(table: NodeTable, slot: int, missing: int) -> str:
    """Return a clause on memory of the node that is reserved as huge pages; "" if less than `missing` is unused."""
    pages = {r: amount for r, amount in table.allocatable[slot].items() if r.startswith("hugepages-") and amount > 0}
    unused = sum(table.free(slot, resource) for resource in pages)
    if not pages or unused < missing:
        return ""
    reserved, left = (format_available("memory", amount) for amount in (sum(pages.values()), unused))
    return f"; {reserved} more reserved as {', '.join(sorted(pages))}, {left} of it unused"


def _find_free(table: NodeTable, slot: int, reason: Reason) -> int:
    """Return how much of a reason's resource is free on the slot's node, without what is kept for nominated pods."""
    return table.free(slot, find_resource(reason)) - int(reason.params.get("kept") or 0)


def describe_kept(reason: Reason) -> str:
    """Return a clause on what a node keeps for pods that are nominated for it, "" if that is nothing."""
    p = reason.params
    kept = format_requested(find_resource(reason), int(p.get("kept") or 0))
    return f"; {kept} kept for nominated {p['nominated']}" if p.get("nominated") else ""


def describe_reason(reason: Reason, version: KubernetesVersion = DEFAULT_VERSION) -> str:
    """Return a short text for a reason, made from its parameters, without amounts of a single node."""
    p = reason.params
    match reason.code:
        case "untolerated-taint":
            declared = find_node_taint(p.get("key", ""), p.get("value", ""))
            leaves = declared is not None and declared.kind is TaintKind.LEAVES
            return f"{describe_taints(p)} not tolerated" + (": the node is being removed" if leaves else "")
        case "unschedulable":
            return "cordoned (spec.unschedulable)"
        case "node-affinity" if p.get("wants"):
            return f"does not match {wording.shorten_lists(p['wants'])}"
        case "ports" if p.get("ports"):
            return f"host port {p['ports']} is taken" + (f" by {p['pod']}" if p.get("pod") else "")
        case "device-claim-elsewhere" if p.get("claims"):
            return f"the devices that {p['claims']} is allocated cannot be used there"
        case "spread":
            return _describe_spread(p)
        case "spread-label":
            return f"has no label {p.get('key')} to spread over"
        case "pod-affinity" if p.get("lacks") == "label":
            return f"has no label {p.get('key')}, which the pod affinity needs"
        case "pod-affinity":
            return f"no pod that matches {describe_wanted_pods(p)} in the same {p.get('key')}"
        case "pod-anti-affinity":
            return f"{p.get('pod') or 'a pod'} is in the same {p.get('key')}: the pod must not be near it"
        case "existing-anti-affinity":
            pod, labels = p.get("pod") or "a pod", describe_selected_labels(p)
            return f"{pod} in the same {p.get('key')} must not be near this pod{labels}"
        case _:
            return wording.describe_reason(reason, version)


def describe_selected_labels(p: Mapping[str, str]) -> str:
    """Return for which labels of this pod another pod keeps it away, as a clause with a space; "" if unknown."""
    return f" (its term selects {p['labels']})" if p.get("labels") else ""


def describe_wanted_pods(p: Mapping[str, str]) -> str:
    """Return what a pod affinity wants, from the parameters of a reason: `app=redis in namespace shop`."""
    return f"{p.get('wants')} in {p['namespaces']}" if p.get("namespaces") else str(p.get("wants"))


def _describe_spread(p: Mapping[str, str]) -> str:
    """Return why a topology domain has too many matching pods, from the parameters of a reason."""
    here = pluralize(int(p.get("pods", 0)), "matching pod")
    counted = {"true": " with this one", "false": ", this one does not match"}.get(p.get("matches", "true"), "")
    domains = [domain for domain in p.get("domains", "").split(", ") if "=" in domain]
    where = [value for value, _, pods in (d.rpartition("=") for d in domains) if pods == p.get("fewest")]
    fewest = f"{p.get('fewest')} where fewest"
    if p.get("minDomains"):
        fewest += f" (fewer domains than minDomains {p['minDomains']})"
    elif where:
        fewest += f" ({', '.join(where[:2])}{', …' if len(where) > 2 else ''})"
    return f"{p.get('key')}: {here} here{counted}, {fewest}, at most {p.get('maxSkew')} apart allowed"


def describe_taints(p: Mapping[str, str]) -> str:
    """Return the untolerated taints in a reason's parameters `p` as text: `taint dedicated=gpu:NoSchedule`."""
    taints = _taints(p)
    return f"taint{'s' if len(taints) > 1 else ''} {', '.join(taints)}"


def list_similar_resources(table: NodeTable, resource: str) -> list[tuple[int, str]]:
    """Return slots and names of other resources of the same vendor on nodes that have none of the resource.

    Device plugins offer slices and shares of a device under names of their own, and huge pages have several sizes.
    """
    prefix = "hugepages-" if resource.startswith("hugepages-") else resource.partition("/")[0] + "/"
    if prefix == f"{resource}/":  # neither an extended resource nor a huge page
        return []
    return [
        (slot, other)
        for slot, amounts in enumerate(table.allocatable)
        if not amounts.get(resource)
        for other, amount in amounts.items()
        if other != resource and other.startswith(prefix) and amount > 0
    ]


def _taints(p: Any) -> list[str]:
    """Return the untolerated taints in a reason's parameters `p`, in the form of `kubectl taint`."""
    first = f"{p.get('key', '')}{'=' + p['value'] if p.get('value') else ''}:{p.get('effect', '')}"
    return [first, *filter(None, p.get("others", "").split(", "))]


def _remedy(decision: Decision, table: NodeTable, slot: int, reason: Reason) -> str:
    node, p = table.names[slot], reason.params
    match reason.code:
        case _ if find_resource(reason):
            return _remedy_shortage(decision, table, slot, reason)
        case "untolerated-taint":
            taints = [taint for taint in _taints(p) if taint != _CORDON_TAINT]
            if not taints:
                return wording.describe_remedy(Reason("unschedulable"), node)
            declared = [(taint, _find_declared(decision, table, slot, taint)) for taint in taints]
            actions = {d.action.format(node=node): taint for taint, d in declared if d is not None}
            if actions:  # while the node has these, the others do not matter
                action, taint = next(iter(actions.items()))
                derived = {"action": action, "taint": taint}
                return wording.describe_remedy(reason, node, derived, "untolerated-taint/declared")
            return wording.describe_remedy(reason, node, {"taints": " and ".join(taints)})
        case "node-affinity":
            wants = wording.shorten_lists(p.get("wants", "the node affinity"))
            variant = "node-affinity/identity" if names_identity(wants) else ""
            return wording.describe_remedy(reason, node, {"wants": wants}, variant)
        case "spread":
            skew = int(p.get("pods", 0)) - int(p.get("fewest", 0))
            return wording.describe_remedy(reason, node, {"skew": str(skew)})
        case "cannot-allocate" if p.get("devices") == "0" and "extendedResource" not in p:
            return wording.describe_remedy(reason, node, variant="cannot-allocate/none")
        case "volume-affinity" if gone := _find_missing_nodes(decision, table, p.get("wants", "")):
            return wording.describe_remedy(reason, node, {"wants": " or ".join(gone)}, "volume-affinity/gone")
        case "pod-affinity" if p.get("lacks") != "pods":
            return wording.describe_remedy(reason, node, variant="pod-affinity/label")
        case "pod-anti-affinity" | "existing-anti-affinity":
            pod = p.get("pod") or "the pods that exclude this one"
            variant = "existing-anti-affinity/labels" if p.get("labels") else ""
            return wording.describe_remedy(reason, node, {"pod": pod}, variant)
        case _:
            return wording.describe_remedy(reason, node)


def _find_missing_nodes(decision: Decision, table: NodeTable, wants: str) -> list[str]:
    """Return the nodes that a volume's requirement names by hostname if none of them exists, else [].

    A pruned record does not tell, because it keeps some nodes only.
    """
    match = _HOSTNAMES.fullmatch(wants)
    names = [] if match is None or decision.summary else (match[1] or match[2]).split(",")
    return [] if {*names} & {*table.names} else names


def _format_hardware(decision: Decision, table: NodeTable, resource: str) -> str:
    """Return what a new node has to have for a pod that lacks this resource: also other hardware that it requests."""
    wanted = {r: amount for r, amount in decision.pod.requests.items() if amount > 0 and is_hardware(r)}
    if resource not in wanted or len(wanted) == 1:
        return resource
    names = " and ".join(sorted(wanted, key=natural_sort_key))
    has_all = any(all(has.get(r, 0) >= amount for r, amount in wanted.items()) for has in table.allocatable)
    return names if has_all else f"{names}: no node has {'both' if len(wanted) == 2 else 'all of them'}"


def _remedy_shortage(decision: Decision, table: NodeTable, slot: int, reason: Reason) -> str:
    """Return what to change if the slot's node has too little of the resource that a reason is about."""
    resource = find_resource(reason)
    requested = decision.pod.requests.get(resource, 0)
    free, allocatable = _find_free(table, slot, reason), table.allocatable[slot].get(resource, 0)
    owner = decision.pod.owner
    is_daemon = owner is not None and owner.kind == "DaemonSet" and requested <= allocatable
    if reason.params.get("nominated") and requested <= allocatable:
        variant = "insufficient/nominated"
    elif resource == "pods":
        variant = "too-many-pods/daemon" if is_daemon else "too-many-pods"
    elif requested > allocatable and reason.params.get("capacity"):
        variant = "insufficient/unoffered" if "/" in resource else "insufficient/unoffered-by-kubelet"
    elif requested <= allocatable:
        variant = "insufficient/daemon" if is_daemon else "insufficient"
    elif free > 0:
        variant = "insufficient/crowded"
    else:
        variant = "insufficient/full" if allocatable else "insufficient/absent"
    there = {"free": free, "allocatable": allocatable}
    derived = {name: format_available(resource, amount) for name, amount in there.items()}
    derived["capacity"] = format_available(resource, int(reason.params.get("capacity") or 0))
    derived["requested"] = format_requested(resource, requested)
    derived["owner"] = str(owner) if owner else ""
    derived["priority"] = str(decision.pod.priority)
    derived["missing"] = format_requested(resource, requested - free)
    derived["resource"] = resource
    derived["hardware"] = _format_hardware(decision, table, resource)
    derived["kept"] = format_requested(resource, int(reason.params.get("kept") or 0))
    return wording.describe_remedy(reason, table.names[slot], derived, variant)
