"""Questions to a decision, answered from what it recorded.

Owns: ranking, margin, rejections, why not a node, what would have to change, and the one-line summary. Does not own:
the answer document they make up (`answers`), storage, HTTP, layout on a screen.

Pure: a decision, its outcomes and its node table (at the decision's generation) in, plain values out. Amounts stand in
the answers twice: exact in base units, and as text.

Invariant: an answer holds nothing that the record does not say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from herodotus_record import reasons, wording
from herodotus_record.model import (
    NOT_RUN,
    Code,
    Column,
    Decision,
    Evaluation,
    NodeTable,
    Outcome,
    Path,
    Reason,
    Verdict,
)
from herodotus_record.units import natural_key, quantity

Json = dict[str, Any]

_CORDON_TAINT = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True)
class Margin:
    """How far the best node is ahead of the next: points, and each plugin's weighted share, largest first."""

    runner_up: int  # slot
    points: int
    shares: tuple[tuple[str, int], ...]


def state(decision: Decision, outcomes: Sequence[Outcome]) -> str:
    """Bound, DryRun, Binding (in progress), Failed (a later phase failed), Unschedulable or Error."""
    if decision.chosen is None:
        return "Error" if decision.path is Path.ERROR else "Unschedulable"
    last = next((o for o in outcomes if o.final), None)
    return "Binding" if last is None else ended(last)


def ended(last: Outcome) -> str:
    """What the last outcome of a decision makes of it: Bound, DryRun (chosen, and not bound on purpose) or Failed."""
    return {Code.SUCCESS: "Bound", Code.SKIP: "DryRun"}.get(last.status, "Failed")


def ranking(decision: Decision) -> list[int]:
    """The feasible slots, best first; the chosen one first among equals."""
    feasible = [slot for slot, rank in enumerate(decision.rank) if rank]
    return sorted(feasible, key=lambda slot: (decision.rank[slot], slot != decision.chosen, slot))


def weighted(decision: Decision, slot: int) -> dict[str, int]:
    """Each plugin's contribution to a slot's total. Skipped plugins contribute nothing and are absent."""
    return {s.plugin: s.normalized[slot] * s.weight for s in decision.scores if not s.skipped and len(s.normalized)}


def margin(decision: Decision) -> Margin | None:
    """The best node's lead over the next; None where fewer than two were scored."""
    order = ranking(decision)
    if len(order) < 2 or not len(decision.totals):
        return None
    best, next_ = order[0], order[1]
    ours, theirs = weighted(decision, best), weighted(decision, next_)
    shares = sorted(((p, ours[p] - theirs[p]) for p in ours if ours[p] != theirs[p]), key=lambda s: (-s[1], s[0]))
    return Margin(next_, decision.totals[best] - decision.totals[next_], tuple(shares))


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
    resource = _resource(reason)
    if resource:
        requested = decision.pod.requests.get(resource, 0) if resource != "pods" else 1
        free, allocatable = table.free(slot, resource), table.allocatable[slot].get(resource, 0)
        answer |= {"resource": resource, "requested": requested, "free": free, "allocatable": allocatable}
        free_text = f"free {quantity(resource, free)} of {quantity(resource, allocatable)}"
        answer["text"] = f"{_asks(resource, requested)}; {free_text if allocatable else 'the node has none'}"
    else:
        answer["text"] = _text(reason)
    return answer


def what_would_change(decision: Decision, table: NodeTable, slot: int) -> list[str]:
    """What would have to be different for the node to pass every filter that rejects it, one step a reason."""
    return [_remedy(decision, table, slot, reason) for reason in _obstacles(decision, slot)]


def _obstacles(decision: Decision, slot: int) -> list[Reason]:
    """Every reason of every filter against the node, but for the taint that goes when the node is uncordoned."""
    found = [reason for _, verdict in rejections(decision, slot) for reason in verdict.reasons]
    cordoned = any(reason.code == "unschedulable" for reason in found)
    return [r for r in found if not (cordoned and r.params.get("key") == _CORDON_TAINT)]


def headline(decision: Decision, table: NodeTable) -> str:
    """What happened, in one sentence."""
    total, feasible = decision.nodes_total, decision.nodes_feasible
    if decision.chosen is None:
        return _headline_unplaced(decision, table)
    node = table.names[decision.chosen]
    if decision.path is Path.NOMINATED:
        return f"On {node}: nominated by an earlier attempt's preemption, and it fits."
    if decision.path is Path.ONLY_FEASIBLE:
        looked = f"{decision.nodes_evaluated} that were looked at" if decision.nodes_evaluated < total else str(total)
        return f"On {node}: the only node of {looked} that fits; scoring was not needed."
    lead = margin(decision)
    if lead is None:
        return f"On {node}: first of {feasible} feasible nodes out of {total}; no plugin scored them."
    if decision.ties:
        return (
            f"On {node}: drawn among {len(decision.ties)} nodes with the best total"
            f" ({decision.totals[decision.chosen]} points), {feasible} feasible nodes out of {total}."
        )
    shares = ", ".join(f"{plugin} {points:+d}" for plugin, points in lead.shares[:3])
    return (
        f"On {node}: best of {feasible} feasible nodes out of {total},"
        f" {_count(lead.points, 'point')} ahead of {table.names[lead.runner_up]} ({shares})."
    )


def summary(decision: Decision, table: NodeTable) -> str:
    """One line: the FailedScheduling event's message where the pod was not placed, otherwise the headline."""
    return decision.message or headline(decision, table)


def next_steps(decision: Decision, table: NodeTable) -> list[str]:
    """For a pod that fits nowhere: what would place it with the fewest changes, on the node nearest to holding it."""
    if decision.chosen is not None:
        return []
    obstacles = (
        (len(_obstacles(decision, slot)), slot) for slots in _first_rejections(decision).values() for slot in slots
    )
    effort = [(count, _shortfall(decision, table, slot), slot) for count, slot in obstacles]
    if not effort:
        return []
    least = min(effort)[:2]
    nearest = min((slot for *e, slot in effort if tuple(e) == least), key=lambda slot: natural_key(table.names[slot]))
    return what_would_change(decision, table, nearest)


def rejection_groups(decision: Decision, table: NodeTable, *, named: int | None = None) -> list[Json]:
    """Rejected nodes by the filter that rejected them first and its reasons, most nodes first, nearest node first.

    `named`: how many nodes to list for each group; None for all. `alsoRejectedBy` counts over the whole group.
    """
    groups: dict[tuple[int, tuple[Reason, ...]], list[int]] = {}
    for (position, number), slots in _first_rejections(decision).items():
        reasons_given = decision.filters[position].verdicts[number].reasons
        groups.setdefault((position, reasons_given), []).extend(slots)
    answer = []
    for (position, reasons_given), slots in groups.items():
        nearest = sorted(slots, key=lambda slot: (_shortfall(decision, table, slot), natural_key(table.names[slot])))
        shown = nearest if named is None else nearest[:named]
        answer.append(
            {
                "plugin": decision.filters[position].plugin,
                "count": len(slots),
                "reasons": [_text_of_group(decision, reason) for reason in reasons_given],
                "alsoRejectedBy": _also_rejected(decision, position, slots),
                "nodes": [_rejected(decision, table, slot) for slot in shown],
                "nodesOmitted": len(slots) - len(shown),
            }
        )
    position_of = {f.plugin: i for i, f in enumerate(decision.filters)}
    return sorted(answer, key=lambda g: (-g["count"], position_of[g["plugin"]], str(g["reasons"])))


def _rejecting(decision: Decision) -> list[tuple[int, Column, list[bool]]]:
    """The filters that may have rejected a node: (position, ids, whether each verdict rejects)."""
    return [
        (position, f.ids, [v.against for v in f.verdicts]) for position, f in enumerate(decision.filters) if len(f.ids)
    ]


def _first_rejections(decision: Decision) -> dict[tuple[int, int], list[int]]:
    """Evaluated slots by the filter (position) and verdict (number) that rejected them first."""
    found: dict[tuple[int, int], list[int]] = {}
    rejecting = _rejecting(decision)
    for slot, evaluation in enumerate(decision.evaluation):
        if evaluation == Evaluation.EVALUATED:
            for position, ids, rejects in rejecting:
                if rejects[ids[slot]]:
                    found.setdefault((position, ids[slot]), []).append(slot)
                    break
    return found


def _also_rejected(decision: Decision, first: int, slots: Sequence[int]) -> dict[str, int]:
    """How many of the slots each later filter rejected too."""
    counts = {
        decision.filters[position].plugin: sum(rejects[ids[slot]] for slot in slots)
        for position, ids, rejects in _rejecting(decision)
        if position > first
    }
    return {plugin: count for plugin, count in counts.items() if count}


def _text_of_group(decision: Decision, reason: Reason) -> Json:
    """A reason without a node's numbers: what all nodes of a group have in common."""
    resource = _resource(reason)
    requested = decision.pod.requests.get(resource, 0) if resource != "pods" else 1
    return {
        "code": reason.code,
        "sentence": reasons.sentence(reason),
        "params": dict(reason.params),
        "text": _asks(resource, requested) if resource else _text(reason),
        "resource": resource or None,
    }


def _rejected(decision: Decision, table: NodeTable, slot: int) -> Json:
    rejected = rejections(decision, slot)
    return {
        "node": table.names[slot],
        "reasons": [detail(decision, table, slot, reason) for reason in rejected[0][1].reasons],
        "alsoRejectedBy": [plugin for plugin, _ in rejected[1:]],
    }


def _headline_unplaced(decision: Decision, table: NodeTable) -> str:
    if decision.path is Path.ERROR:
        return f"The attempt ended in an error: {decision.message}"
    if not decision.nodes_total:
        return "No node fits: the cluster has no nodes."
    if decision.pre_filters:
        v = decision.pre_filters[-1]
        why = ", ".join(reasons.sentence(reason) for reason in v.verdict.reasons)
        return f"No node fits: {v.plugin} turned the pod away before looking at nodes: {why}."
    by_filter: dict[int, list[int]] = {}
    for (position, _), slots in _first_rejections(decision).items():
        by_filter.setdefault(position, []).extend(slots)
    if not by_filter:
        if decision.narrowed_by:
            return f"No node fits: {', '.join(decision.narrowed_by)} names no node of the cluster."
        return f"No node fits: none of {decision.nodes_total} nodes was left to look at."
    position, slots = max(by_filter.items(), key=lambda item: (len(item[1]), -item[0]))
    nearest = min(slots, key=lambda slot: (_shortfall(decision, table, slot), natural_key(table.names[slot])))
    verdict = decision.filters[position].verdicts[decision.filters[position].ids[nearest]]
    details = [detail(decision, table, nearest, reason) for reason in verdict.reasons]
    words = ", ".join(d["text"] for d in details) or "it gave no reason"  # an extender need not
    where = f" on {table.names[nearest]}{', the nearest' if len(slots) > 1 else ''}" if _numeric(details) else ""
    plugin = decision.filters[position].plugin
    looked = decision.nodes_evaluated
    narrowed = f" Only {looked} of {decision.nodes_total} may be used ({', '.join(decision.narrowed_by)})."
    lead = f"No node fits. {len(slots)} of {looked} nodes are rejected first by {plugin}: {words}{where}."
    return lead + (narrowed if decision.narrowed_by else "")


def _numeric(details: Sequence[Json]) -> bool:
    """Whether a reason has numbers of one node, of which another may have more."""
    return any(d.get("allocatable") for d in details)


def _resource(reason: Reason) -> str:
    """The resource that a reason is about; "" where it is about none."""
    return "pods" if reason.code == "too-many-pods" else reason.params.get("resource", "")


def _asks(resource: str, requested: int) -> str:
    return f"{resource}: requests {quantity(resource, requested)}"


def _text(reason: Reason) -> str:
    p = reason.params
    match reason.code:
        case "untolerated-taint":
            return f"taint {_taint(p)} not tolerated"
        case "unschedulable":
            return "cordoned (spec.unschedulable)"
        case "node-affinity" if p.get("wants"):
            return f"does not match {p['wants']}"
        case "ports" if p.get("ports"):
            return f"host port {p['ports']} is taken"
        case "spread":
            return (
                f"{p.get('key')}: {_count(int(p.get('pods', 0)), 'matching pod')} here with this one,"
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


def _taint(p: Any) -> str:
    return f"{p.get('key', '')}{'=' + p['value'] if p.get('value') else ''}:{p.get('effect', '')}"


def _remedy(decision: Decision, table: NodeTable, slot: int, reason: Reason) -> str:
    node, resource = table.names[slot], _resource(reason)
    if resource == "pods":
        return f"remove a pod from {node}: its limit of {table.allocatable[slot].get(resource, 0)} pods is reached"
    if resource:
        requested = decision.pod.requests.get(resource, 0)
        free, allocatable = table.free(slot, resource), table.allocatable[slot].get(resource, 0)
        if requested <= allocatable:
            return f"free {quantity(resource, requested - free)} {resource} on {node}"
        if free > 0:
            now, whole = quantity(resource, free), quantity(resource, allocatable)
            return f"request at most {now} {resource} (free now; {node} has {whole} in all), or add a larger node"
        if allocatable:
            return f"add a node with {quantity(resource, requested)} {resource} free"
        return f"add a node that has {resource}"
    match reason.code:
        case "untolerated-taint":
            return f"tolerate {_taint(reason.params)} ({node})"
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


def _shortfall(decision: Decision, table: NodeTable, slot: int) -> float:
    """How far the node is from holding the pod: the largest missing share of what it requests; 0 when it has room."""
    return max(
        (
            (requested - table.free(slot, resource)) / requested
            for resource, requested in decision.pod.requests.items()
            if requested > 0
        ),
        default=0.0,
    )


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
