"""Questions about one node of a decision: what each filter said of it, why, and what would have to change.

Owns: verdicts, rejections, reasons with a node's numbers, remedies, why no filter looked. Does not own: what all nodes
together mean (`explain`), texts of reasons whose parameters say all (`wording`).

Invariant: a remedy answers every reason that is recorded against the node, so that the node is feasible once all of
them are followed; a filter that stops at its first reason may then find another.
"""

from __future__ import annotations

from typing import Any

from herodotus_record import reasons, wording
from herodotus_record.model import NOT_RUN, Decision, Evaluation, NodeTable, Reason, Verdict
from herodotus_record.units import quantity

Json = dict[str, Any]

_CORDON_TAINT = "node.kubernetes.io/unschedulable:NoSchedule"


def verdicts(decision: Decision, slot: int) -> list[tuple[str, Verdict]]:
    """What every filter that ran on a slot's node said, in evaluation order; empty where it was not evaluated."""
    if decision.evaluation[slot] != Evaluation.EVALUATED:
        return []
    said = ((f.plugin, f.verdicts[f.ids[slot] if len(f.ids) else 0]) for f in decision.filters if not f.skipped)
    return [(plugin, verdict) for plugin, verdict in said if verdict != NOT_RUN]


def rejections(decision: Decision, slot: int) -> list[tuple[str, Verdict]]:
    """The filters that turned the node away, in evaluation order: the first is *the* reason, the others hold too."""
    return [(plugin, verdict) for plugin, verdict in verdicts(decision, slot) if verdict.against]


def detail(decision: Decision, table: NodeTable, slot: int, reason: Reason) -> Json:
    """A reason with its numbers on this node: sentence, text, and requested, free and allocatable where they count."""
    answer: Json = {"code": reason.code, "sentence": reasons.sentence(reason), "params": dict(reason.params)}
    resource = resource_of(reason)
    if resource:
        requested = decision.pod.requests.get(resource, 0) if resource != "pods" else 1
        free, allocatable = table.free(slot, resource), table.allocatable[slot].get(resource, 0)
        answer |= {"resource": resource, "requested": requested, "free": free, "allocatable": allocatable}
        free_text = f"free {quantity(resource, free)} of {quantity(resource, allocatable)}"
        answer["text"] = f"{asks(resource, requested)}; {free_text if allocatable else 'the node has none'}"
    else:
        answer["text"] = text(reason)
    return answer


def what_would_change(decision: Decision, table: NodeTable, slot: int) -> list[str]:
    """What would have to be different for the node to pass every filter that rejects it, one step a reason."""
    return [_remedy(decision, table, slot, reason) for reason in obstacles(decision, slot)]


def evaluated(decision: Decision, slot: int) -> bool:
    """Whether the filters looked at the slot's node."""
    return decision.evaluation[slot] == Evaluation.EVALUATED


def why_not_evaluated(decision: Decision, slot: int) -> str:
    """Why no filter looked at the slot's node, and what would make one look; "" where they did."""
    match Evaluation(decision.evaluation[slot]):
        case Evaluation.NARROWED:
            return f"{', '.join(decision.narrowed_by) or 'a PreFilter plugin'} had narrowed the pod to other nodes"
        case Evaluation.NOT_SAMPLED:
            return "enough feasible nodes had been found before (percentageOfNodesToScore: 100 looks at every node)"
        case Evaluation.NOT_NEEDED:
            return "the node that preemption had nominated fitted, so no other was looked at"
        case Evaluation.NOT_REACHED if decision.pre_filters:
            return f"{decision.pre_filters[-1].plugin} turned the pod away before nodes were looked at"
        case Evaluation.NOT_REACHED:
            return "the attempt ended in an error before"
        case Evaluation.UNRECORDED:
            return "what was said of it is not in the log"
        case _:
            return ""


def obstacles(decision: Decision, slot: int) -> list[Reason]:
    """Every reason of every filter against the node, but for the taint that goes when the node is uncordoned."""
    found = [reason for _, verdict in rejections(decision, slot) for reason in verdict.reasons]
    cordoned = any(reason.code == "unschedulable" for reason in found)
    return [r for r in found if not (cordoned and _taints(r.params) == [_CORDON_TAINT])]


def count(n: int, noun: str) -> str:
    """`1 point`, `2 points`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def resource_of(reason: Reason) -> str:
    """The resource that a reason is about; "" where it is about none."""
    return "pods" if reason.code == "too-many-pods" else reason.params.get("resource", "")


def asks(resource: str, requested: int) -> str:
    """What the pod asks for."""
    return f"{resource}: requests {quantity(resource, requested)}"


def text(reason: Reason) -> str:
    """A reason without a node's numbers, in our words."""
    p = reason.params
    match reason.code:
        case "untolerated-taint":
            taints = _taints(p)
            return f"taint{'s' if len(taints) > 1 else ''} {', '.join(taints)} not tolerated"
        case "unschedulable":
            return "cordoned (spec.unschedulable)"
        case "node-affinity" if p.get("wants"):
            return f"does not match {p['wants']}"
        case "ports" if p.get("ports"):
            return f"host port {p['ports']} is taken"
        case "spread":
            return (
                f"{p.get('key')}: {count(int(p.get('pods', 0)), 'matching pod')} here with this one,"
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
            return wording.text(reason)


def _taints(p: Any) -> list[str]:
    """Every taint that is not tolerated, as `kubectl taint` writes them; of old records the first one alone."""
    first = f"{p.get('key', '')}{'=' + p['value'] if p.get('value') else ''}:{p.get('effect', '')}"
    return [first, *filter(None, p.get("others", "").split(", "))]


def _remedy(decision: Decision, table: NodeTable, slot: int, reason: Reason) -> str:
    node, resource = table.names[slot], resource_of(reason)
    if resource == "pods":
        return f"remove a pod from {node}: its limit of {table.allocatable[slot].get(resource, 0)} pods is reached"
    if resource:
        requested = decision.pod.requests.get(resource, 0)
        free, allocatable = table.free(slot, resource), table.allocatable[slot].get(resource, 0)
        if requested <= allocatable:
            return f"free {quantity(resource, requested - free, up=True)} {resource} on {node}"
        if free > 0:
            now, whole = quantity(resource, free), quantity(resource, allocatable)
            return f"request at most {now} {resource} (free now; {node} has {whole} in all), or add a larger node"
        if allocatable:
            return f"add a node with {quantity(resource, requested)} {resource} free"
        return f"add a node that has {resource}"
    match reason.code:
        case "untolerated-taint":
            taints = [taint for taint in _taints(reason.params) if taint != _CORDON_TAINT]
            return f"tolerate {' and '.join(taints)} ({node})" if taints else f"uncordon {node}"
        case "unschedulable":
            return f"uncordon {node}"
        case "node-affinity":
            return f"label {node} so that it matches {reason.params.get('wants', 'the node affinity')}"
        case "ports":
            return f"free host port {reason.params.get('ports', '')} on {node}"
        case "spread":
            skew = int(reason.params.get("pods", 0)) - int(reason.params.get("fewest", 0))
            return f"raise maxSkew to {skew} for {reason.params.get('key')}, or move matching pods away from {node}"
        case "spread-label" | "pod-affinity" if reason.params.get("lacks") != "pods":
            return f"label {node} with {reason.params.get('key')}"
        case "pod-affinity":
            return f"run a pod that matches {reason.params.get('wants')} in the {reason.params.get('key')} of {node}"
        case "pod-anti-affinity" | "existing-anti-affinity":
            there = f"the {reason.params.get('key')} of {node}"
            return f"move {reason.params.get('pod') or 'the pods that exclude this one'} out of {there}"
        case _:
            return wording.remedy(reason, node)
