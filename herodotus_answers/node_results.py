"""Answer questions about one node of a decision: each filter's verdict, the reasons, and what would change it.

Owns: verdicts, rejections, reasons with a node's numbers, remedies, why no filter ran. Does not own: results over all
nodes (`explain`), texts of reasons that need only parameters (`wording`).

Invariant: there is a remedy for every recorded reason against the node, so the node is feasible once all of them are
applied. A filter that stops at its first reason may then find another.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, TypedDict

from herodotus_answers import wording
from herodotus_answers.declare import NotRequired
from herodotus_record import reasons
from herodotus_record.kubernetes_version import DEFAULT_VERSION, KubernetesVersion, find_wording_version
from herodotus_record.model import NOT_RUN, Decision, Evaluation, NodeTable, Reason, Verdict
from herodotus_record.node_taints import TaintKind, find_node_taint
from herodotus_record.units import format_quantity

_HOSTNAMES = re.compile(r"kubernetes\.io/hostname(?:=([^ ,]+)| in \(([^ )]+)\))")  # as `format_requirement` writes
_IDENTITY_LABEL = re.compile(r"\b(kubernetes|k8s)\.io/")  # labels that state what a node is
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
        free, allocatable = table.free(slot, resource), table.allocatable[slot].get(resource, 0)
        detail |= {"resource": resource, "requested": requested, "free": free, "allocatable": allocatable}
        free_text = f"free {format_quantity(resource, free)} of {format_quantity(resource, allocatable)}"
        detail["text"] = f"{format_request(resource, requested)}; {free_text if allocatable else 'the node has none'}"
    else:
        detail["text"] = describe_reason(reason, version)
    return detail


def list_possible_node_changes(decision: Decision, table: NodeTable, slot: int) -> list[str]:
    """Return what would have to change for the slot's node to pass every filter: one sentence for each reason."""
    return [_remedy(decision, table, slot, reason) for reason in list_obstacles(decision, slot)]


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


def rate_effort(decision: Decision, slot: int) -> tuple[bool, int]:
    """Return how hard it is to make the pod fit on the slot's node: whether the node is not for it, and the obstacles.

    A node is not for the pod if a taint reserves it for other pods or says that it is being removed.
    """
    obstacles = list_obstacles(decision, slot)
    declared = [
        find_node_taint(r.params["key"]) for r in obstacles if r.code == "untolerated-taint" and "key" in r.params
    ]
    return any(d is not None and d.kind is not TaintKind.CLEARS for d in declared), len(obstacles)


def pluralize(n: int, noun: str) -> str:
    """Return a count with its noun: `1 point`, `2 points`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def find_resource(reason: Reason) -> str:
    """Return the name of the resource that a reason is about, or "" if it is about none."""
    return "pods" if reason.code == "too-many-pods" else reason.params.get("resource", "")


def format_request(resource: str, requested: int) -> str:
    """Return the pod's request for a resource as text, such as `cpu: requests 500m`."""
    return f"{resource}: requests {format_quantity(resource, requested)}"


def describe_reason(reason: Reason, version: KubernetesVersion = DEFAULT_VERSION) -> str:
    """Return a short text for a reason, made from its parameters, without amounts of a single node."""
    p = reason.params
    match reason.code:
        case "untolerated-taint":
            taints = _taints(p)
            return f"taint{'s' if len(taints) > 1 else ''} {', '.join(taints)} not tolerated"
        case "unschedulable":
            return "cordoned (spec.unschedulable)"
        case "node-affinity" if p.get("wants"):
            return f"does not match {wording.shorten_lists(p['wants'])}"
        case "ports" if p.get("ports"):
            return f"host port {p['ports']} is taken"
        case "spread":
            return (
                f"{p.get('key')}: {pluralize(int(p.get('pods', 0)), 'matching pod')} here with this one,"
                f" {p.get('fewest')} where fewest, at most {p.get('maxSkew')} apart allowed"
            )
        case "spread-label":
            return f"has no label {p.get('key')} to spread over"
        case "pod-affinity" if p.get("lacks") == "label":
            return f"has no label {p.get('key')}, which the pod affinity needs"
        case "pod-affinity":
            return f"no pod that matches {p.get('wants')} in the same {p.get('key')}"
        case "pod-anti-affinity":
            return f"{p.get('pod') or 'a pod'} is in the same {p.get('key')}: the pod must not be near it"
        case "existing-anti-affinity":
            return f"{p.get('pod') or 'a pod'} in the same {p.get('key')} must not be near this pod"
        case _:
            return wording.describe_reason(reason, version)


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
            declared = [(taint, find_node_taint(re.split("[=:]", taint)[0])) for taint in taints]
            actions = {d.action.format(node=node): taint for taint, d in declared if d is not None}
            if actions:  # while the node has these, the others do not matter
                action, taint = next(iter(actions.items()))
                derived = {"action": action, "taint": taint}
                return wording.describe_remedy(reason, node, derived, "untolerated-taint/declared")
            return wording.describe_remedy(reason, node, {"taints": " and ".join(taints)})
        case "node-affinity":
            wants = wording.shorten_lists(p.get("wants", "the node affinity"))
            variant = "node-affinity/identity" if _IDENTITY_LABEL.search(wants) else ""
            return wording.describe_remedy(reason, node, {"wants": wants}, variant)
        case "spread":
            skew = int(p.get("pods", 0)) - int(p.get("fewest", 0))
            return wording.describe_remedy(reason, node, {"skew": str(skew)})
        case "volume-affinity" if gone := _find_missing_nodes(decision, table, p.get("wants", "")):
            return wording.describe_remedy(reason, node, {"wants": " or ".join(gone)}, "volume-affinity/gone")
        case "pod-affinity" if p.get("lacks") != "pods":
            return wording.describe_remedy(reason, node, variant="pod-affinity/label")
        case "pod-anti-affinity" | "existing-anti-affinity":
            pod = p.get("pod") or "the pods that exclude this one"
            return wording.describe_remedy(reason, node, {"pod": pod})
        case _:
            return wording.describe_remedy(reason, node)


def _find_missing_nodes(decision: Decision, table: NodeTable, wants: str) -> list[str]:
    """Return the nodes that a volume's requirement names by hostname if none of them exists, else [].

    A pruned record does not tell, because it keeps some nodes only.
    """
    match = _HOSTNAMES.fullmatch(wants)
    names = [] if match is None or decision.summary else (match[1] or match[2]).split(",")
    return [] if {*names} & {*table.names} else names


def _remedy_shortage(decision: Decision, table: NodeTable, slot: int, reason: Reason) -> str:
    """Return what to change if the slot's node has too little of the resource that a reason is about."""
    resource = find_resource(reason)
    requested = decision.pod.requests.get(resource, 0)
    free, allocatable = table.free(slot, resource), table.allocatable[slot].get(resource, 0)
    owner = decision.pod.owner
    is_daemon = owner is not None and owner.kind == "DaemonSet" and requested <= allocatable
    if resource == "pods":
        variant = "too-many-pods/daemon" if is_daemon else "too-many-pods"
    elif requested <= allocatable:
        variant = "insufficient/daemon" if is_daemon else "insufficient"
    elif free > 0:
        variant = "insufficient/crowded"
    else:
        variant = "insufficient/full" if allocatable else "insufficient/absent"
    amounts = {"requested": requested, "free": free, "allocatable": allocatable}
    derived = {name: format_quantity(resource, amount) for name, amount in amounts.items()}
    derived["owner"] = f"{owner.kind}/{owner.name}" if owner else ""
    derived["missing"] = format_quantity(resource, requested - free, up=True)
    return wording.describe_remedy(reason, table.names[slot], derived, variant)
