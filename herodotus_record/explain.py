"""Questions to a decision, answered from what it recorded.

Owns: ranking, margin, grouped rejections, the next step, and the one-line summaries. Does not own: what was said of one
node (`one_node`), the answer document that both make up (`answers`), storage, HTTP, layout on a screen.

Pure: a decision, its outcomes and its node table (at the decision's generation) in, plain values out. Amounts stand in
the answers twice: exact in base units, and as text.

Invariant: an answer holds nothing that the record does not say.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from herodotus_record import reasons
from herodotus_record.model import (
    Cause,
    Code,
    Column,
    Decision,
    Evaluation,
    FirstRejection,
    NodeTable,
    Outcome,
    Path,
    Reason,
    Source,
)
from herodotus_record.one_node import (
    asks,
    count,
    detail,
    obstacles,
    rejections,
    resource_of,
    text,
    verdicts,
    what_would_change,
    why_not_evaluated,
)
from herodotus_record.units import natural_key
from herodotus_record.wording import CAUSES

Json = dict[str, Any]
Shares = tuple[tuple[str, int], ...]  # plugin and its weighted points, the largest first; plugins without are absent


@dataclass(frozen=True)
class Margin:
    """How far the best node is ahead of the next: points, and each plugin's share of them."""

    runner_up: int  # slot
    points: int
    shares: Shares


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
    rank, chosen = decision.rank, decision.chosen
    order = sorted(compress(range(len(rank)), rank), key=rank.__getitem__)  # stable: equals stay in order
    if chosen is not None and rank[chosen]:
        order.remove(chosen)
        order.insert(bisect_left(order, rank[chosen], key=rank.__getitem__), chosen)
    return order


def _first_two(decision: Decision) -> list[int]:
    """As `ranking` begins, without putting all the others in order."""
    rank, found = decision.rank, list[int]()
    for level in heapq.nsmallest(2, {*rank} - {0}):
        equals = [slot for slot, r in enumerate(rank) if r == level] if rank.count(level) > 1 else [rank.index(level)]
        found += sorted(equals, key=decision.chosen.__ne__)
        if len(found) > 1:
            break
    return found[:2]


def tied(decision: Decision) -> int:
    """How many nodes shared the best total; 0 where one had it alone."""
    return decision.summary.ties if decision.summary else len(decision.ties)


def weighted(decision: Decision, slot: int) -> dict[str, int]:
    """Each plugin's contribution to a slot's total. Skipped plugins contribute nothing and are absent."""
    return {s.plugin: s.normalized[slot] * s.weight for s in decision.scores if not s.skipped and len(s.normalized)}


def margin(decision: Decision) -> Margin | None:
    """The best node's lead over the next; None where fewer than two were scored."""
    order = _first_two(decision) if len(decision.totals) else []
    if len(order) < 2:
        return None
    best, next_ = order
    return Margin(next_, decision.totals[best] - decision.totals[next_], lead(decision, best, next_))


def lead(decision: Decision, slot: int, other: int) -> Shares:
    """By how many points each plugin puts a slot ahead of another one."""
    ours, theirs = weighted(decision, slot), weighted(decision, other)
    return tuple(sorted(((p, ours[p] - theirs[p]) for p in ours if ours[p] != theirs[p]), key=lambda s: (-s[1], s[0])))


def headline_of_node(decision: Decision, table: NodeTable, slot: int) -> str:
    """How one node fared, in one sentence."""
    node, feasible = table.names[slot], decision.nodes_feasible
    unseen = why_not_evaluated(decision, slot)
    if decision.evaluation[slot] == Evaluation.UNRECORDED:
        return f"{node}: {unseen}."
    if unseen:
        return f"{node} was not looked at: {unseen}."
    against = rejections(decision, slot)
    if against:
        which, ran = " and ".join(plugin for plugin, _ in against), len(verdicts(decision, slot))
        return f"{node} does not fit: rejected by {which}, {len(against)} of {count(ran, 'filter')}."
    if slot == decision.chosen:
        return headline(decision, table)
    if not decision.rank[slot]:
        return f"{node} passed every filter that ran; the attempt ended before it was ranked."
    place = f"{node} fits, and ranks {decision.rank[slot]} of {feasible}"
    best = ranking(decision)[0]
    if not len(decision.totals):
        return f"{place}."
    points = decision.totals[best] - decision.totals[slot]
    if not points:
        return f"{place} with the best total: {table.names[best]} was drawn among {tied(decision)} equals."
    return f"{place}, {count(points, 'point')} behind {table.names[best]} ({signed(lead(decision, slot, best))})."


def signed(shares: Shares, most: int = 3) -> str:
    """The largest shares in words: `NodeResourcesFit +14, ImageLocality -7`."""
    largest = sorted(shares, key=lambda s: -abs(s[1]))[:most]
    return ", ".join(f"{plugin} {points:+d}" for plugin, points in largest)


def headline(decision: Decision, table: NodeTable) -> str:
    """What happened, in one sentence."""
    total, feasible = decision.nodes_total, decision.nodes_feasible
    out_of = f"{decision.nodes_evaluated} that were looked at" if "snapshot.nodes" in decision.unknown else str(total)
    if decision.reconstruction is not None and decision.reconstruction.cause is not None:
        return _headline_otherwise(decision, decision.reconstruction.cause, table)
    if decision.chosen is None:
        return _headline_unplaced(decision, table)
    node = table.names[decision.chosen]
    if decision.key.source is Source.LOGGED and not decision.scores:
        return _headline_unscored(decision, node)
    if decision.path is Path.NOMINATED:
        return f"On {node}: nominated by an earlier attempt's preemption, and it fits."
    if decision.path is Path.ONLY_FEASIBLE:
        looked = f"{decision.nodes_evaluated} that were looked at" if decision.nodes_evaluated < total else str(total)
        return f"On {node}: the only node of {looked} that fits; scoring was not needed."
    ahead = margin(decision)
    if ahead is None:
        return f"On {node}: first of {feasible} feasible nodes out of {total}; no plugin scored them."
    if decision.ties:
        return (
            f"On {node}: drawn among {tied(decision)} nodes with the best total"
            f" ({decision.totals[decision.chosen]} points), {feasible} feasible nodes out of {out_of}."
        )
    shares = ", ".join(f"{plugin} {points:+d}" for plugin, points in ahead.shares[:3])
    return (
        f"On {node}: best of {feasible} feasible nodes out of {out_of},"
        f" {count(ahead.points, 'point')} ahead of {table.names[ahead.runner_up]} ({shares})."
    )


def _headline_otherwise(decision: Decision, cause: Cause, table: NodeTable) -> str:
    """Of another scheduler's outcome that does not follow from the evaluation: theirs, ours, why they may differ."""
    scheduler, order, slot = decision.scheduler.profile, ranking(decision), decision.chosen
    if slot is not None:
        theirs = f"On {table.names[slot]}, by {scheduler}."
    else:
        theirs = f"By {scheduler}: {decision.message.rstrip('.')}."
    if not order:
        ours = "The evaluation finds no node that fits"
    elif slot is None:
        ours = f"The evaluation finds {count(len(order), 'feasible node')}, {table.names[order[0]]} the best"
    elif not decision.rank[slot]:
        which = ", ".join(plugin for plugin, _ in rejections(decision, slot)) or "it was not looked at"
        ours = f"The evaluation finds that it does not fit there ({which})"
    elif decision.rank[slot] == 1:
        ours = "The evaluation prefers it too"
    else:
        points = count(decision.totals[order[0]] - decision.totals[slot], "point")
        lead_of = signed(lead(decision, order[0], slot))
        ours = f"The evaluation puts {table.names[order[0]]} {points} ahead ({lead_of})"
    return f"{theirs} {ours}: {CAUSES[cause]}."


def summary(decision: Decision, table: NodeTable) -> str:
    """One line: the FailedScheduling event's message where the pod was not placed, otherwise the headline."""
    return decision.message or headline(decision, table)


def _headline_unscored(decision: Decision, node: str) -> str:
    """Of a log that has no scores, or whose only feasible node needed none."""
    feasible, looked = decision.nodes_feasible, decision.nodes_evaluated
    if "snapshot.feasible" in decision.unknown:
        return f"On {node}: how many nodes fitted, and their scores, are not in the log."
    if decision.path is Path.ONLY_FEASIBLE:
        return f"On {node}: the only node of {looked} that fits; scoring was not needed."
    if decision.path is Path.UNKNOWN:
        return f"On {node}: the one node that was looked at, and it fits; why no other was is not in the log."
    return f"On {node}: one of {feasible} feasible nodes out of {looked} that were looked at; no scores in the log."


def next_steps(decision: Decision, table: NodeTable) -> list[str]:
    """For a pod that fits nowhere: what would place it with the fewest changes, on the node nearest to holding it."""
    if decision.chosen is not None or Evaluation.UNRECORDED in decision.evaluation:
        return []  # a node that is not recorded may be nearer
    nearest = _least_effort(decision, table)
    return [] if nearest is None else what_would_change(decision, table, nearest)


def _least_effort(decision: Decision, table: NodeTable) -> int | None:
    """The rejected node that needs the fewest changes; None where none was rejected."""
    effort = [(len(obstacles(decision, slots[0])), slots) for _, _, slots in _rejected_alike(decision)]
    least = min((obstacles for obstacles, _ in effort), default=0)
    rejected = [slot for obstacles, slots in effort if obstacles == least for slot in slots]
    return next(iter(_nearest(decision, table, rejected, 1)), None)


def nearest_rejected(decision: Decision, table: NodeTable, most: int) -> list[int]:
    """The node that needs the fewest changes, then the nearest one of each of the filters that turned most away first.

    So `headline` and `next_steps` say the same of these nodes alone, and of all.
    """
    by_filter: dict[int, list[int]] = {}
    for (position, _), slots in first_rejections(decision).items():
        by_filter.setdefault(position, []).extend(slots)
    largest = sorted(by_filter.items(), key=lambda item: (-len(item[1]), item[0]))[:most]
    least = _least_effort(decision, table)
    found = [] if least is None else [least]
    for _, slots in largest:
        found += _nearest(decision, table, slots, 1)
    return list(dict.fromkeys(found))


def rejection_groups(decision: Decision, table: NodeTable, *, named: int | None = None) -> list[Json]:
    """Rejected nodes by the filter that rejected them first and its reasons, most nodes first, nearest node first.

    `named`: how many nodes to list for each group; None for all. `alsoRejectedBy` counts over the whole group.
    """
    groups: dict[tuple[int, tuple[Reason, ...]], list[FirstRejection]] = {}
    slots_of = first_rejections(decision)
    for rejection in counted_rejections(decision):
        reasons_given = decision.filters[rejection.filter].verdicts[rejection.verdict].reasons
        groups.setdefault((rejection.filter, reasons_given), []).append(rejection)
    answer = []
    for (position, reasons_given), group in groups.items():
        slots = [slot for r in group for slot in slots_of.get((r.filter, r.verdict), ())]
        nodes = sum(r.nodes for r in group)
        shown = _nearest(decision, table, slots, named)
        answer.append(
            {
                "plugin": decision.filters[position].plugin,
                "count": nodes,
                "reasons": [_text_of_group(decision, reason) for reason in reasons_given],
                "alsoRejectedBy": _added_up(r.also for r in group),
                "nodes": [_rejected(decision, table, slot) for slot in shown],
                "nodesOmitted": nodes - len(shown),
            }
        )
    position_of = {f.plugin: i for i, f in enumerate(decision.filters)}
    return sorted(answer, key=lambda g: (-g["count"], position_of[g["plugin"]], str(g["reasons"])))


def _rejecting(decision: Decision) -> list[tuple[int, Column, list[bool]]]:
    """The filters that may have rejected a node: (position, ids, whether each verdict rejects)."""
    found = ((position, f.ids, [v.against for v in f.verdicts]) for position, f in enumerate(decision.filters))
    return [(position, ids, rejects) for position, ids, rejects in found if len(ids) and any(rejects)]


def first_rejections(decision: Decision) -> dict[tuple[int, int], list[int]]:
    """Evaluated slots by the filter (position) and verdict (number) that rejected them first."""
    found: dict[tuple[int, int], list[int]] = {}
    for position, number, slots in _rejected_alike(decision):
        found.setdefault((position, number), []).extend(slots)
    return {verdict: sorted(slots) for verdict, slots in found.items()}


def _rejected_alike(decision: Decision) -> list[tuple[int, int, list[int]]]:
    """The rejected slots, those together of which every filter said the same: its first rejection (position, number).

    Thousands of nodes are rejected in a few ways, so what follows from the verdicts is asked once a way.
    """
    rejecting = _rejecting(decision)
    ways: dict[tuple[int, ...], list[int]] = {}
    said = zip(*(ids for _, ids, _ in rejecting), strict=True)
    for slot, (evaluation, way) in enumerate(zip(decision.evaluation, said, strict=False)):
        if evaluation == Evaluation.EVALUATED:
            ways.setdefault(way, []).append(slot)
    found = []
    for way, slots in ways.items():
        against = ((p, number) for (p, _, rejects), number in zip(rejecting, way, strict=True) if rejects[number])
        first = next(against, None)
        if first:
            found.append((*first, slots))
    return found


def evaluations(decision: Decision) -> Mapping[str, int]:
    """How many slots there are of each `Evaluation.label`; a summary leaves out those without a node."""
    if decision.summary:
        return decision.summary.evaluation
    return {Evaluation(value).label: n for value, n in Counter(decision.evaluation).items()}


def verdict_counts(decision: Decision) -> Sequence[Sequence[int]]:
    """For each filter how many slots hold each of its verdicts; those not evaluated hold the first, Success."""
    if decision.summary:
        return decision.summary.verdicts
    counted = (Counter(f.ids) for f in decision.filters)
    return [
        [counts[number] for number in range(len(f.verdicts))]
        for f, counts in zip(decision.filters, counted, strict=True)
    ]


def rejected_by(decision: Decision) -> dict[int, int]:
    """How many nodes each filter, by its position, was the first to turn away; also of those that are not kept."""
    counts: Counter[int] = Counter()
    if decision.summary:
        for rejection in decision.summary.first_rejections:
            counts[rejection.filter] += rejection.nodes
    else:
        for (position, _), slots in first_rejections(decision).items():
            counts[position] += len(slots)
    return counts


def counted_rejections(decision: Decision) -> Sequence[FirstRejection]:
    """As `first_rejections`, counted over all nodes, also over those that a summary does not keep."""
    if decision.summary:
        return decision.summary.first_rejections
    return [
        FirstRejection(position, number, len(slots), _also_rejected(decision, position, slots))
        for (position, number), slots in first_rejections(decision).items()
    ]


def _added_up(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return dict(sum(map(Counter, counts), Counter()))


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
    resource = resource_of(reason)
    requested = decision.pod.requests.get(resource, 0) if resource != "pods" else 1
    return {
        "code": reason.code,
        "sentence": reasons.sentence(reason),
        "params": dict(reason.params),
        "text": asks(resource, requested) if resource else text(reason),
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
    for (position, _), slots in first_rejections(decision).items():
        by_filter.setdefault(position, []).extend(slots)
    counts = rejected_by(decision)
    if decision.key.source is Source.LOGGED:
        told, total = sum(counts.values()), decision.nodes_total
        return f"No node fits. Of {told} of {total} nodes the log says which filter rejected them."
    if not counts:
        if decision.narrowed_by:
            return f"No node fits: {', '.join(decision.narrowed_by)} names no node of the cluster."
        return f"No node fits: none of {decision.nodes_total} nodes was left to look at."
    position, nodes = max(counts.items(), key=lambda item: (item[1], -item[0]))
    plugin, looked, slots = decision.filters[position].plugin, decision.nodes_evaluated, by_filter.get(position, [])
    said = f"No node fits. {nodes} of {looked} nodes are rejected first by {plugin}"
    if not slots:
        return f"{said}."
    (nearest,) = _nearest(decision, table, slots, 1)
    verdict = decision.filters[position].verdicts[decision.filters[position].ids[nearest]]
    details = [detail(decision, table, nearest, reason) for reason in verdict.reasons]
    words = ", ".join(d["text"] for d in details) or "it gave no reason"  # an extender need not
    where = f" on {table.names[nearest]}{', the nearest' if nodes > 1 else ''}" if _numeric(details) else ""
    narrowed = f" Only {looked} of {decision.nodes_total} may be used ({', '.join(decision.narrowed_by)})."
    return f"{said}: {words}{where}." + (narrowed if decision.narrowed_by else "")


def _numeric(details: Sequence[Json]) -> bool:
    """Whether a reason has numbers of one node, of which another may have more."""
    return any(d.get("allocatable") for d in details)


def _nearest(decision: Decision, table: NodeTable, slots: Sequence[int], most: int | None) -> list[int]:
    """The slots nearest to holding the pod, in order, by name among equals: `most` of them, or all."""
    shortfall = dict(zip(slots, _shortfalls(decision, table, slots), strict=True))
    if most is not None and most < len(slots):
        farthest = heapq.nsmallest(most, shortfall.values())[-1]
        slots = [slot for slot in slots if shortfall[slot] <= farthest]
    return sorted(slots, key=lambda slot: (shortfall[slot], natural_key(table.names[slot])))[:most]


def _shortfalls(decision: Decision, table: NodeTable, slots: Sequence[int]) -> list[float]:
    """How far each slot's node is from holding the pod: the largest missing share of what it requests."""
    missing = [
        [(requested - free) / requested for free in table.free_of(slots, resource)]
        for resource, requested in decision.pod.requests.items()
        if requested > 0
    ]
    return [max(shares) for shares in zip(*missing, strict=True)] if missing else [0.0] * len(slots)
