"""Questions to a decision, answered from what it recorded.

Owns: ranking, margin, grouped rejections, the next step. Does not own: what was said of one node (`one_node`), the
sentences (`headlines`), the answer document that all make up (`answers`), storage, HTTP, layout on a screen.

Pure: a decision, its outcomes and its node table (at the decision's generation) in, plain values out. Amounts stand in
the answers twice: exact in base units, and as text.

Invariant: an answer holds nothing that the record does not say.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from typing import Any, TypeVar

from herodotus_record import reasons
from herodotus_record.model import (
    Code,
    Column,
    Decision,
    Evaluation,
    FirstRejection,
    NodeTable,
    Outcome,
    Path,
    Reason,
)
from herodotus_record.one_node import (
    asks,
    detail,
    obstacles,
    rejections,
    resource_of,
    text,
    what_would_change,
)
from herodotus_record.units import natural_key

Json = dict[str, Any]
Answer = TypeVar("Answer")
Shares = tuple[tuple[str, int], ...]  # plugin and its weighted points, the largest first; plugins without are absent


@dataclass(frozen=True)
class Margin:
    """How far the best node is ahead of the next: points, and each plugin's share of them."""

    runner_up: int  # slot
    points: int
    shares: Shares


def _once(question: Callable[..., Answer]) -> Callable[..., Answer]:
    """A question about a decision (and a table) whose answer is kept with it: it would be asked several times over."""

    def asked(decision: Decision, *table: NodeTable) -> Answer:
        kept = decision.__dict__.setdefault("_asked", {})
        key = (question, *map(id, table))
        if key not in kept:
            kept[key] = (question(decision, *table), table)  # with the table, so that no other one gets its id
        answer: Answer = kept[key][0]
        return answer

    return asked


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
        found += sorted(equals, key=lambda slot: slot != decision.chosen)
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


def signed(shares: Shares, most: int = 3) -> str:
    """The largest shares in words: `NodeResourcesFit +14, ImageLocality -7`."""
    largest = sorted(shares, key=lambda s: -abs(s[1]))[:most]
    return ", ".join(f"{plugin} {points:+d}" for plugin, points in largest)


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
    return next(iter(nearest_of(decision, table, rejected, 1)), None)


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
        found += nearest_of(decision, table, slots, 1)
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
        shown = nearest_of(decision, table, slots, named)
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


@_once
def first_rejections(decision: Decision) -> dict[tuple[int, int], list[int]]:
    """Evaluated slots by the filter (position) and verdict (number) that rejected them first."""
    found: dict[tuple[int, int], list[int]] = {}
    for position, number, slots in _rejected_alike(decision):
        found.setdefault((position, number), []).extend(slots)
    return {verdict: sorted(slots) for verdict, slots in found.items()}


@_once
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


def nearest_of(decision: Decision, table: NodeTable, slots: Sequence[int], most: int | None) -> list[int]:
    """The slots nearest to holding the pod, in order, by name among equals: `most` of them, or all."""
    shortfall = dict(zip(slots, _shortfalls(decision, table, slots), strict=True))
    if most is not None and most < len(slots):
        farthest = heapq.nsmallest(most, shortfall.values())[-1]
        slots = [slot for slot in slots if shortfall[slot] <= farthest]
    return sorted(slots, key=lambda slot: (shortfall[slot], natural_key(table.names[slot])))[:most]


def _shortfalls(decision: Decision, table: NodeTable, slots: Sequence[int]) -> list[float]:
    """How far each slot's node is from holding the pod: the largest missing share of what it requests."""
    known = _known_shortfalls(decision, table)
    unknown = [slot for slot in slots if slot not in known]
    missing = [
        [(requested - free) / requested for free in table.free_of(unknown, resource)]
        for resource, requested in decision.pod.requests.items()
        if requested > 0
    ]
    known |= zip(unknown, map(max, zip(*missing, strict=True)) if missing else repeat(0.0), strict=False)
    return [known[slot] for slot in slots]


@_once
def _known_shortfalls(decision: Decision, table: NodeTable) -> dict[int, float]:
    """What was found so far, by slot."""
    return {}
