"""Answer questions about a decision from what it recorded.

Owns: the ranking, the margin, grouped rejections, suggestions. Does not own: the results of one node (`node_results`),
sentences (`headlines`), the answer document that contains them all (`answers`), storage, HTTP, layout on a screen.

Pure: functions take a decision, its outcomes and its node table (at the decision's generation) and return plain values.
Amounts are in the answers twice: exactly in base units, and as text.

Invariant: an answer holds nothing that does not follow from the record.
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
    DecisionPath,
    Evaluation,
    FirstRejection,
    NodeTable,
    Outcome,
    Reason,
)
from herodotus_record.node_results import (
    build_reason_detail,
    describe_reason,
    find_resource,
    format_request,
    list_obstacles,
    list_rejections,
    suggest_node_changes,
)
from herodotus_record.units import natural_sort_key

Json = dict[str, Any]
Answer = TypeVar("Answer")
Shares = tuple[tuple[str, int], ...]  # plugin and its weighted points, largest first; plugins without points are absent


@dataclass(frozen=True)
class Margin:
    """The lead of the best node over the next: total points, and each plugin's share of them."""

    runner_up: int  # slot
    points: int
    shares: Shares


def _memoized(question: Callable[..., Answer]) -> Callable[..., Answer]:
    """Memoize a question about a decision (and a table) on the decision, because one answer asks it several times."""

    def answer_once(decision: Decision, *table: NodeTable) -> Answer:
        memo = decision.__dict__.setdefault("_memo", {})
        key = (question, *map(id, table))
        if key not in memo:
            memo[key] = (question(decision, *table), table)  # keeps the table alive, so that its id stays unique
        answer: Answer = memo[key][0]
        return answer

    return answer_once


def derive_state(decision: Decision, outcomes: Sequence[Outcome]) -> str:
    """Return Bound, DryRun, Binding (in progress), Failed (in a later phase), Unschedulable or Error."""
    if decision.chosen is None:
        return "Error" if decision.path is DecisionPath.ERROR else "Unschedulable"
    last = next((o for o in outcomes if o.final), None)
    return "Binding" if last is None else state_after_outcome(last)


def state_after_outcome(last: Outcome) -> str:
    """Return a decision's state after its last outcome: Bound, DryRun (deliberately not bound) or Failed."""
    return {Code.SUCCESS: "Bound", Code.SKIP: "DryRun"}.get(last.status, "Failed")


def rank_slots(decision: Decision) -> list[int]:
    """Return the feasible slots, best first; the chosen one first among equals."""
    rank, chosen = decision.rank, decision.chosen
    order = sorted(compress(range(len(rank)), rank), key=rank.__getitem__)  # stable: equals keep their order
    if chosen is not None and rank[chosen]:
        order.remove(chosen)
        order.insert(bisect_left(order, rank[chosen], key=rank.__getitem__), chosen)
    return order


def _first_two(decision: Decision) -> list[int]:
    """Return the first two slots of `rank_slots` without sorting all the others."""
    rank, found = decision.rank, list[int]()
    for level in heapq.nsmallest(2, {*rank} - {0}):
        equals = [slot for slot, r in enumerate(rank) if r == level] if rank.count(level) > 1 else [rank.index(level)]
        found += sorted(equals, key=lambda slot: slot != decision.chosen)
        if len(found) > 1:
            break
    return found[:2]


def count_tied(decision: Decision) -> int:
    """Return how many nodes shared the best total; 0 if one node alone had it."""
    return decision.summary.ties if decision.summary else len(decision.ties)


def weigh_scores(decision: Decision, slot: int) -> dict[str, int]:
    """Return each plugin's weighted score of a slot; skipped plugins contribute nothing and are absent."""
    return {s.plugin: s.normalized[slot] * s.weight for s in decision.scores if not s.skipped and len(s.normalized)}


def compute_margin(decision: Decision) -> Margin | None:
    """Return the lead of the best node over the next, or None if fewer than two nodes were scored."""
    order = _first_two(decision) if len(decision.totals) else []
    if len(order) < 2:
        return None
    best, next_ = order
    return Margin(next_, decision.totals[best] - decision.totals[next_], compare_scores(decision, best, next_))


def compare_scores(decision: Decision, slot: int, other: int) -> Shares:
    """Return by how many points each plugin puts a slot ahead of another one."""
    ours, theirs = weigh_scores(decision, slot), weigh_scores(decision, other)
    return tuple(sorted(((p, ours[p] - theirs[p]) for p in ours if ours[p] != theirs[p]), key=lambda s: (-s[1], s[0])))


def format_shares(shares: Shares, most: int = 3) -> str:
    """Return the `most` largest shares as text: `NodeResourcesFit +14, ImageLocality -7`."""
    largest = sorted(shares, key=lambda s: -abs(s[1]))[:most]
    return ", ".join(f"{plugin} {points:+d}" for plugin, points in largest)


def suggest_changes(decision: Decision, table: NodeTable) -> list[str]:
    """Return the fewest changes that would make a rejected pod fit, on the node nearest to holding it."""
    if decision.chosen is not None or Evaluation.UNRECORDED in decision.evaluation:
        return []  # a node whose result is not recorded may be nearer
    nearest = _find_least_effort(decision, table)
    return [] if nearest is None else suggest_node_changes(decision, table, nearest)


def _find_least_effort(decision: Decision, table: NodeTable) -> int | None:
    """Return the rejected node that needs the fewest changes, or None if no node was rejected."""
    effort = [(len(list_obstacles(decision, slots[0])), slots) for _, _, slots in _group_by_verdicts(decision)]
    least = min((needed for needed, _ in effort), default=0)
    rejected = [slot for needed, slots in effort if needed == least for slot in slots]
    return next(iter(select_nearest(decision, table, rejected, 1)), None)


def select_nearest_rejected(decision: Decision, table: NodeTable, most: int) -> list[int]:
    """Return the node that needs the fewest changes, then the nearest node of each filter, most rejections first.

    `format_headline` and `suggest_changes` give the same result for these nodes alone as for all nodes.
    """
    by_filter: dict[int, list[int]] = {}
    for (position, _), slots in find_first_rejections(decision).items():
        by_filter.setdefault(position, []).extend(slots)
    largest = sorted(by_filter.items(), key=lambda item: (-len(item[1]), item[0]))[:most]
    least = _find_least_effort(decision, table)
    found = [] if least is None else [least]
    for _, slots in largest:
        found += select_nearest(decision, table, slots, 1)
    return list(dict.fromkeys(found))


def group_rejections(decision: Decision, table: NodeTable, *, named: int | None = None) -> list[Json]:
    """Return rejected nodes by first rejecting filter and its reasons: largest group first, closest to fitting first.

    `named` is how many nodes to list for each group; None lists all. `alsoRejectedBy` counts over the whole group.
    """
    groups: dict[tuple[int, tuple[Reason, ...]], list[FirstRejection]] = {}
    slots_of = find_first_rejections(decision)
    for rejection in count_first_rejections(decision):
        reasons_given = decision.filters[rejection.filter].verdicts[rejection.verdict].reasons
        groups.setdefault((rejection.filter, reasons_given), []).append(rejection)
    answer = []
    for (position, reasons_given), group in groups.items():
        slots = [slot for r in group for slot in slots_of.get((r.filter, r.verdict), ())]
        nodes = sum(r.nodes for r in group)
        shown = select_nearest(decision, table, slots, named)
        answer.append(
            {
                "plugin": decision.filters[position].plugin,
                "count": nodes,
                "reasons": [_group_reason(decision, reason) for reason in reasons_given],
                "alsoRejectedBy": _sum_counts(r.also for r in group),
                "nodes": [_rejected_node(decision, table, slot) for slot in shown],
                "nodesOmitted": nodes - len(shown),
            }
        )
    position_of = {f.plugin: i for i, f in enumerate(decision.filters)}
    return sorted(answer, key=lambda g: (-g["count"], position_of[g["plugin"]], str(g["reasons"])))


def _list_rejecting_filters(decision: Decision) -> list[tuple[int, Column, list[bool]]]:
    """Return each filter with a rejecting verdict: its index, the verdict id of each node, and which ids reject."""
    found = ((position, f.ids, [v.rejects_node for v in f.verdicts]) for position, f in enumerate(decision.filters))
    return [(position, ids, rejects) for position, ids, rejects in found if len(ids) and any(rejects)]


@_memoized
def find_first_rejections(decision: Decision) -> dict[tuple[int, int], list[int]]:
    """Return the evaluated slots by the filter (position) and verdict (number) that rejected them first."""
    found: dict[tuple[int, int], list[int]] = {}
    for position, number, slots in _group_by_verdicts(decision):
        found.setdefault((position, number), []).extend(slots)
    return {verdict: sorted(slots) for verdict, slots in found.items()}


@_memoized
def _group_by_verdicts(decision: Decision) -> list[tuple[int, int, list[int]]]:
    """Return the rejected slots in groups with equal verdicts, each with its first rejection (position, number).

    Thousands of nodes are rejected in few ways, so callers evaluate what follows from the verdicts once for each group.
    """
    rejecting = _list_rejecting_filters(decision)
    ways: dict[tuple[int, ...], list[int]] = {}
    given = zip(*(ids for _, ids, _ in rejecting), strict=True)
    for slot, (evaluation, way) in enumerate(zip(decision.evaluation, given, strict=False)):
        if evaluation == Evaluation.EVALUATED:
            ways.setdefault(way, []).append(slot)
    found = []
    for way, slots in ways.items():
        against = ((p, number) for (p, _, rejects), number in zip(rejecting, way, strict=True) if rejects[number])
        first = next(against, None)
        if first:
            found.append((*first, slots))
    return found


def count_evaluations(decision: Decision) -> Mapping[str, int]:
    """Return how many slots have each `Evaluation.label`; a summary omits slots without a node."""
    if decision.summary:
        return decision.summary.evaluation
    return {Evaluation(value).label: n for value, n in Counter(decision.evaluation).items()}


def count_verdicts(decision: Decision) -> Sequence[Sequence[int]]:
    """Return for each filter how many slots hold each verdict; slots that were not evaluated count as Success."""
    if decision.summary:
        return decision.summary.verdicts
    counted = (Counter(f.ids) for f in decision.filters)
    return [
        [counts[number] for number in range(len(f.verdicts))]
        for f, counts in zip(decision.filters, counted, strict=True)
    ]


def count_rejected_by_filter(decision: Decision) -> dict[int, int]:
    """Return how many nodes each filter, by position, was the first to reject, pruned nodes included."""
    counts: Counter[int] = Counter()
    if decision.summary:
        for rejection in decision.summary.first_rejections:
            counts[rejection.filter] += rejection.nodes
    else:
        for (position, _), slots in find_first_rejections(decision).items():
            counts[position] += len(slots)
    return counts


def count_first_rejections(decision: Decision) -> Sequence[FirstRejection]:
    """Return the counts of `find_first_rejections` over all nodes, including those that a summary does not keep."""
    if decision.summary:
        return decision.summary.first_rejections
    return [
        FirstRejection(position, number, len(slots), _count_also_rejected(decision, position, slots))
        for (position, number), slots in find_first_rejections(decision).items()
    ]


def _sum_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return dict(sum(map(Counter, counts), Counter()))


def _count_also_rejected(decision: Decision, first: int, slots: Sequence[int]) -> dict[str, int]:
    """Return how many of the slots each later filter rejected as well."""
    counts = {
        decision.filters[position].plugin: sum(rejects[ids[slot]] for slot in slots)
        for position, ids, rejects in _list_rejecting_filters(decision)
        if position > first
    }
    return {plugin: count for plugin, count in counts.items() if count}


def _group_reason(decision: Decision, reason: Reason) -> Json:
    """Return a reason without the numbers of a single node, as it applies to a whole group."""
    resource = find_resource(reason)
    requested = decision.pod.requests.get(resource, 0) if resource != "pods" else 1
    return {
        "code": reason.code,
        "sentence": reasons.format_reason(reason),
        "params": dict(reason.params),
        "text": format_request(resource, requested) if resource else describe_reason(reason),
        "resource": resource or None,
    }


def _rejected_node(decision: Decision, table: NodeTable, slot: int) -> Json:
    rejected = list_rejections(decision, slot)
    return {
        "node": table.names[slot],
        "reasons": [build_reason_detail(decision, table, slot, reason) for reason in rejected[0][1].reasons],
        "alsoRejectedBy": [plugin for plugin, _ in rejected[1:]],
    }


def select_nearest(decision: Decision, table: NodeTable, slots: Sequence[int], most: int | None) -> list[int]:
    """Return the slots nearest to holding the pod, in order, by name among equals: `most` of them, or all."""
    shortfall = dict(zip(slots, _compute_shortfalls(decision, table, slots), strict=True))
    if most is not None and most < len(slots):
        farthest = heapq.nsmallest(most, shortfall.values())[-1]
        slots = [slot for slot in slots if shortfall[slot] <= farthest]
    return sorted(slots, key=lambda slot: (shortfall[slot], natural_sort_key(table.names[slot])))[:most]


def _compute_shortfalls(decision: Decision, table: NodeTable, slots: Sequence[int]) -> list[float]:
    """Return how far each slot's node is from holding the pod: the largest missing share of a requested resource."""
    known = _memoized_shortfalls(decision, table)
    unknown = [slot for slot in slots if slot not in known]
    missing = [
        [(requested - free) / requested for free in table.free_amounts(unknown, resource)]
        for resource, requested in decision.pod.requests.items()
        if requested > 0
    ]
    known |= zip(unknown, map(max, zip(*missing, strict=True)) if missing else repeat(0.0), strict=False)
    return [known[slot] for slot in slots]


@_memoized
def _memoized_shortfalls(decision: Decision, table: NodeTable) -> dict[int, float]:
    """Return the memoized shortfalls by slot, to which `_compute_shortfalls` adds."""
    return {}
