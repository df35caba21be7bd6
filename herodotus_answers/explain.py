"""Answer questions about a decision from what it recorded.

Owns: the ranking, the margin, grouped rejections, possible changes. Does not own: suggestions (`suggestions`), the
results of one node (`node_results`), sentences (`headlines`), the document that contains them all (`pod`), storage,
HTTP, layout on a screen.

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
from typing import Annotated, Final, NamedTuple, TypedDict, TypeVar

from herodotus_answers.node_results import (
    ReasonDetail,
    build_reason_detail,
    describe_capacity,
    describe_kept,
    describe_reason,
    find_resource,
    format_request,
    is_absent,
    list_obstacles,
    list_possible_node_changes,
    list_rejections,
    rate_effort,
)
from herodotus_record import reasons
from herodotus_record.kubernetes_version import find_wording_version
from herodotus_record.model import (
    POD_GROUP_PHASE,
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
from herodotus_record.units import natural_sort_key

Answer = TypeVar("Answer")
MAX_KINDS: Final = 3  # kinds of rejections that a headline tells
MAX_NAMED_BY_KIND: Final = 3  # nodes of a kind that a headline names; of more, only the nearest
# Parameters that tell apart kinds of a reason; all of them where the code is not listed.
_KIND_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "ports": ("ports",),
    "spread": ("key",),
    "pod-anti-affinity": ("key",),
    "existing-anti-affinity": ("key",),
    "claim-in-use": ("claims",),
    "disk-conflict": ("disk",),
    "volume-limit": ("driver",),
    "volume-affinity": ("volume",),
    "cannot-allocate": ("claim", "request"),
}
Shares = tuple[tuple[str, int], ...]  # plugin and its weighted points, largest first; plugins without points are absent


class SnapshotCounts(TypedDict):
    """Numbers of nodes in the snapshot of an attempt."""

    total: Annotated[int, "Number of all nodes."]
    evaluated: Annotated[int, "Number of nodes on which the filters ran."]
    feasible: Annotated[int, "Number of nodes that passed every filter."]


class GroupReason(TypedDict):
    """A reason why a group of nodes was rejected, without the numbers of one node."""

    code: Annotated[str, "Stable code of the reason."]
    sentence: Annotated[str, "kube-scheduler's sentence for the reason."]
    params: Annotated[dict[str, str], "Parameters of the reason by name."]
    text: Annotated[str, "The reason in a few words."]
    resource: Annotated[str | None, "Resource that is lacking; null if it is none."]


class RejectedNode(TypedDict):
    """A node of a rejection group, with its own amounts."""

    node: Annotated[str, "Name of the node."]
    reasons: Annotated[list[ReasonDetail], "Reasons of the first filter that rejected it."]
    alsoRejectedBy: Annotated[list[str], "Further filters that rejected it."]


class RejectionGroup(TypedDict):
    """Nodes that one filter rejected first, for equal reasons."""

    plugin: Annotated[str, "The filter."]
    count: Annotated[int, "Number of the nodes."]
    reasons: Annotated[list[GroupReason], "Reasons of the filter."]
    alsoRejectedBy: Annotated[dict[str, int], "Number of the nodes that further filters rejected, by filter."]
    nodes: Annotated[list[RejectedNode], "Some of the nodes, the nearest to holding the pod first."]
    nodesOmitted: Annotated[int, "Number of the nodes that are not listed."]


class RejectionKind(NamedTuple):
    """Nodes that one filter rejected first for reasons of one kind, such as too little of a resource.

    `position` is the filter's index, and `nodes` the number of nodes. `named` has the slots of the nearest ones, that
    of the first suggestion before the others. `reasons` are the different reasons of all. `is_usable` is whether the
    pod's own selectors leave it any of the nodes.
    """

    position: int
    nodes: int
    named: tuple[int, ...]
    reasons: tuple[Reason, ...]
    is_usable: bool = True


@dataclass(frozen=True)
class Margin:
    """The lead of the best node over the next one, in points: the total, and the share of each plugin.

    `best` and `runner_up` are the slots (row indices) of the two nodes.
    """

    best: int
    runner_up: int
    points: int
    shares: Shares


def _memoized(question: Callable[..., Answer]) -> Callable[..., Answer]:
    """Return `question`, a function of a decision (and a node table), with its result cached on the decision.

    One answer document asks the same question several times.
    """

    def answer_once(decision: Decision, *table: NodeTable) -> Answer:
        memo = decision.__dict__.setdefault("_memo", {})
        key = (question, *map(id, table))
        if key not in memo:
            memo[key] = (question(decision, *table), table)  # keeps the table alive, so that its id stays unique
        answer: Answer = memo[key][0]
        return answer

    return answer_once


PLACED_STATES: Final = ("Bound", "Binding", "DryRun")  # those of `derive_state` in which the pod has a node


def derive_state(decision: Decision, outcomes: Sequence[Outcome]) -> str:
    """Return the state of the pod's attempt: Bound, DryRun, Binding (in progress), Failed, Unschedulable or Error.

    Failed means that a phase after the choice of a node failed.
    """
    if decision.chosen is None:
        return "Error" if decision.path is DecisionPath.ERROR else "Unschedulable"
    last = next((o for o in outcomes if o.final), None)
    return "Binding" if last is None else state_after_outcome(last)


def state_after_outcome(last: Outcome) -> str:
    """Return the state of an attempt after its last outcome: Bound, DryRun (deliberately not bound) or Failed.

    It is Unschedulable if the placement was undone because the pod's group was not placed.
    """
    if last.phase == POD_GROUP_PHASE and last.status.is_rejection:
        return "Unschedulable"
    return {Code.SUCCESS: "Bound", Code.SKIP: "DryRun"}.get(last.status, "Failed")


def rank_slots(decision: Decision) -> list[int]:
    """Return the slots (row indices) of the feasible nodes, best first; of equal nodes, the chosen one is first."""
    rank, chosen = decision.rank, decision.chosen
    order = sorted(compress(range(len(rank)), rank), key=rank.__getitem__)  # stable: equals keep their order
    if chosen is not None and rank[chosen]:
        order.remove(chosen)
        order.insert(bisect_left(order, rank[chosen], key=rank.__getitem__), chosen)
    return order


def _first_two(decision: Decision) -> list[int]:
    """Return the slots of the best two nodes, as `rank_slots` orders them, without sorting the others."""
    rank, slots = decision.rank, list[int]()
    for level in heapq.nsmallest(2, {*rank} - {0}):
        equals = [slot for slot, r in enumerate(rank) if r == level] if rank.count(level) > 1 else [rank.index(level)]
        slots += sorted(equals, key=lambda slot: slot != decision.chosen)
        if len(slots) > 1:
            break
    return slots[:2]


def count_nodes(decision: Decision) -> SnapshotCounts:
    """Return the numbers of all, of evaluated and of feasible nodes in the snapshot, as JSON."""
    return {"total": decision.nodes_total, "evaluated": decision.nodes_evaluated, "feasible": decision.nodes_feasible}


def count_tied(decision: Decision) -> int:
    """Return how many nodes shared the best total; 0 if one node alone had it."""
    return decision.summary.ties if decision.summary else len(decision.ties)


def weigh_scores(decision: Decision, slot: int) -> dict[str, int]:
    """Return, by plugin, the weighted score of the slot's node; plugins that were skipped are absent."""
    return {s.plugin: s.normalized[slot] * s.weight for s in decision.scores if not s.skipped and len(s.normalized)}


def compute_margin(decision: Decision) -> Margin | None:
    """Return the lead of the best node over the next one, or None if fewer than two nodes were scored."""
    order = _first_two(decision) if len(decision.totals) else []
    if len(order) < 2:
        return None
    best, next_ = order
    return Margin(best, next_, decision.totals[best] - decision.totals[next_], compare_scores(decision, best, next_))


def compare_scores(decision: Decision, slot: int, other: int) -> Shares:
    """Return, by plugin, how many points the node of `slot` is ahead of the node of `other`, the largest lead first.

    Leads are negative where it is behind. Plugins that give both nodes the same points are absent.
    """
    ours, theirs = weigh_scores(decision, slot), weigh_scores(decision, other)
    return tuple(sorted(((p, ours[p] - theirs[p]) for p in ours if ours[p] != theirs[p]), key=lambda s: (-s[1], s[0])))


def format_shares(shares: Shares, most: int = 3) -> str:
    """Return the largest point differences by plugin as text: `NodeResourcesFit +14, ImageLocality -7`.

    Those beyond `most` are summed up, so that the points add up to the difference of the totals.
    """
    ordered = sorted(shares, key=lambda s: -abs(s[1]))
    texts = [f"{plugin} {points:+d}" for plugin, points in ordered[:most]]
    rest = ordered[most:]
    if len(rest) == 1:
        texts.append(f"{rest[0][0]} {rest[0][1]:+d}")
    elif rest:
        texts.append(f"{len(rest)} others {sum(points for _, points in rest):+d}")
    return ", ".join(texts)


def list_possible_changes(decision: Decision, table: NodeTable) -> list[str]:
    """Return the fewest changes that would make a rejected pod fit, as sentences about the node nearest to holding it.

    Returns an empty list if the pod was placed or the record lacks the results of some nodes.
    """
    if decision.chosen is not None or Evaluation.UNRECORDED in decision.evaluation:
        return []  # a node whose result is not recorded may be nearer
    nearest = _find_least_effort(decision, table)
    return [] if nearest is None else list_possible_node_changes(decision, table, nearest)


def _find_least_effort(decision: Decision, table: NodeTable) -> int | None:
    """Return the slot of the rejected node that needs the fewest changes, or None if no node was rejected."""
    effort = [(rate_effort(decision, table, slots[0]), slots) for _, _, slots in _group_by_verdicts(decision)]
    least = min((needed for needed, _ in effort), default=(False, 0))
    rejected = [slot for needed, slots in effort if needed == least for slot in slots]
    unoffered = [s for s in rejected if any(r.params.get("capacity") for r in list_obstacles(decision, s))]
    rejected = unoffered or rejected
    return next(iter(select_nearest(decision, table, rejected, 1)), None)


def select_nearest_rejected(decision: Decision, table: NodeTable, most: int) -> list[int]:
    """Return the slots of the rejected nodes that a pruned record must keep so that its explanation stays the same.

    They are the node that needs the fewest changes, the nearest node of each of the `most` filters that rejected most
    nodes, and those that the headline names. `format_headline` and `list_possible_changes` give the same result for
    these nodes alone as for all, but for sentences about all nodes of the cluster.
    """
    by_filter: dict[int, list[int]] = {}
    for (position, _), slots in find_first_rejections(decision).items():
        by_filter.setdefault(position, []).extend(slots)
    largest = sorted(by_filter.items(), key=lambda item: (-len(item[1]), item[0]))[:most]
    least = _find_least_effort(decision, table)
    nearest = [] if least is None else [least]
    for _, slots in largest:
        nearest += select_nearest(decision, table, slots, 1)
    suggested = find_suggested_slot(decision, table)
    nearest += [] if suggested is None else [suggested]
    for kind in group_by_kind(decision, table)[:MAX_KINDS]:
        nearest += kind.named
    return list(dict.fromkeys(nearest))


def find_suggested_slot(decision: Decision, table: NodeTable) -> int | None:
    """Return the slot of the node on which the pod fits with the first suggestion; None if that node was not rejected.

    A pruned record of an earlier version may lack the node.
    """
    slot = table.find_slot(decision.suggestions[0].node) if decision.suggestions else None
    rejected = slot is not None and slot < len(decision.evaluation) and list_rejections(decision, slot)
    return slot if rejected else None


def group_by_kind(decision: Decision, table: NodeTable) -> list[RejectionKind]:
    """Return the rejected nodes grouped by filter and kind of reason; those that the pod's selectors exclude are last.

    The kind of the node of the first suggestion is first, then nodes with devices that they do not offer. The others
    follow by their number of nodes, those without a resource after those that are full of it. But nodes that the pod's
    own selectors exclude are last: people ask what stops the nodes that the pod may use. If the selectors exclude every
    node, that is what stops the pod, and comes first, also before what else is against these nodes.
    """
    suggested, slots_of = find_suggested_slot(decision, table), find_first_rejections(decision)
    rejections: dict[tuple[int, frozenset[tuple[str, ...]]], list[FirstRejection]] = {}
    for rejection in count_first_rejections(decision):
        reasons_given = decision.filters[rejection.filter].verdicts[rejection.verdict].reasons
        rejections.setdefault((rejection.filter, frozenset(map(_find_kind, reasons_given))), []).append(rejection)
    kinds = list[RejectionKind]()
    for (position, _), group in rejections.items():
        slots = [slot for r in group for slot in slots_of.get((r.filter, r.verdict), ())]
        nodes = sum(r.nodes for r in group)
        most = MAX_NAMED_BY_KIND if nodes <= MAX_NAMED_BY_KIND else 1  # of many, one is an example
        named = select_nearest(decision, table, slots, most)
        if suggested in slots and suggested is not None:
            named = [suggested, *(slot for slot in named if slot != suggested)][:most]
        verdicts = [decision.filters[r.filter].verdicts[r.verdict] for r in group]
        reasons_given = tuple(dict.fromkeys(reason for verdict in verdicts for reason in verdict.reasons))
        is_usable = not all(is_left_out(decision, rejection) for rejection in group)
        kinds.append(RejectionKind(position, nodes, tuple(named), reasons_given, is_usable))

    short = [reason for kind in kinds for reason in kind.reasons if reason.code == "insufficient"]
    scarce = {find_resource(reason) for reason in short if not is_absent(reason)}

    def order(kind: RejectionKind) -> tuple[bool, bool, bool, bool, bool, int, int, str]:
        is_selected = not are_exclusions(kind.reasons)
        unoffered = any(reason.params.get("capacity") for reason in kind.reasons)
        is_elsewhere = any(is_absent(reason) and find_resource(reason) in scarce for reason in kind.reasons)
        by_size = not unoffered, is_elsewhere, -kind.nodes, kind.position, str(kind.reasons)
        return not kind.is_usable, is_selected and not kind.is_usable, suggested not in kind.named, *by_size

    return sorted(kinds, key=order)


def are_exclusions(given: Sequence[Reason]) -> bool:
    """Return whether all reasons say that the pod's own selectors exclude a node."""
    return bool(given) and all(reason.code in reasons.EXCLUDED_BY_POD for reason in given)


def is_left_out(decision: Decision, rejection: FirstRejection) -> bool:
    """Return whether the pod's own selectors exclude all nodes of a rejection, whichever filter was the first."""
    if are_exclusions(decision.filters[rejection.filter].verdicts[rejection.verdict].reasons):
        return True
    return any(
        rejection.also.get(column.plugin) == rejection.nodes
        and all(are_exclusions(verdict.reasons) for verdict in column.verdicts if verdict.reasons)
        for column in decision.filters
    )


def _find_kind(reason: Reason) -> tuple[str, ...]:
    """Return what two reasons must have in common to share a sentence: the code and some parameters."""
    if reason.code == "insufficient":  # none at all and devices that a node does not offer are matters of their own
        mark = "capacity" if reason.params.get("capacity") else "absent" if is_absent(reason) else ""
        return reason.code, reason.params.get("resource", ""), mark
    names = _KIND_PARAMETERS.get(reason.code)
    return (reason.code, *(reason.params.get(name, "") for name in (sorted(reason.params) if names is None else names)))


def group_rejections(decision: Decision, table: NodeTable, *, named: int | None = None) -> list[RejectionGroup]:
    """Return the rejected nodes as JSON, grouped by the filter that rejected them first and its reasons.

    The largest group is first, and in a group the node closest to fitting. `named` is how many nodes to list for each
    group, None for all. `alsoRejectedBy` counts over the whole group.
    """
    groups: dict[tuple[int, tuple[Reason, ...]], list[FirstRejection]] = {}
    slots_of = find_first_rejections(decision)
    for rejection in count_first_rejections(decision):
        reasons_given = decision.filters[rejection.filter].verdicts[rejection.verdict].reasons
        groups.setdefault((rejection.filter, reasons_given), []).append(rejection)
    answer = list[RejectionGroup]()
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
    """Return each filter that has a rejecting verdict, as a tuple.

    The tuple holds the filter's index, its column of verdict numbers by node slot, and for each number whether that
    verdict rejects.
    """
    filters = ((position, f.ids, [v.rejects_node for v in f.verdicts]) for position, f in enumerate(decision.filters))
    return [(position, ids, rejects) for position, ids, rejects in filters if len(ids) and any(rejects)]


@_memoized
def find_first_rejections(decision: Decision) -> dict[tuple[int, int], list[int]]:
    """Return the slots of the rejected nodes, grouped by the verdict that rejected them first.

    A key is the index of the filter in `decision.filters` and the index of the verdict in its `verdicts`.
    """
    slots_by_verdict: dict[tuple[int, int], list[int]] = {}
    for position, number, slots in _group_by_verdicts(decision):
        slots_by_verdict.setdefault((position, number), []).extend(slots)
    return {verdict: sorted(slots) for verdict, slots in slots_by_verdict.items()}


@_memoized
def _group_by_verdicts(decision: Decision) -> list[tuple[int, int, list[int]]]:
    """Return the slots of the rejected nodes in groups for which every filter has the same verdict.

    An element is the index of the first rejecting filter, the index of its verdict, and the slots. Thousands of nodes
    are rejected in few ways, so callers evaluate what follows from the verdicts once for each group.
    """
    rejecting = _list_rejecting_filters(decision)
    ways: dict[tuple[int, ...], list[int]] = {}
    verdict_numbers = zip(*(ids for _, ids, _ in rejecting), strict=True)
    for slot, (evaluation, way) in enumerate(zip(decision.evaluation, verdict_numbers, strict=False)):
        if evaluation == Evaluation.EVALUATED:
            ways.setdefault(way, []).append(slot)
    groups = []
    for way, slots in ways.items():
        against = ((p, number) for (p, _, rejects), number in zip(rejecting, way, strict=True) if rejects[number])
        first = next(against, None)
        if first:
            groups.append((*first, slots))
    return groups


def count_evaluations(decision: Decision) -> Mapping[str, int]:
    """Return how many node slots have each value of Evaluation, by label.

    A pruned record does not count slots without a node.
    """
    if decision.summary:
        return decision.summary.evaluation
    return {Evaluation(value).label: n for value, n in Counter(decision.evaluation).items()}


def count_verdicts(decision: Decision) -> Sequence[Sequence[int]]:
    """Return, for each filter and each of its verdicts, how many node slots have that verdict.

    Use only the counts of verdicts other than Success: slots that were not evaluated may count as Success, and a filter
    that every node passed has no counts.
    """
    if decision.summary:
        return decision.summary.verdicts
    counters = (Counter(f.ids) for f in decision.filters)
    return [
        [counts[number] for number in range(len(f.verdicts))]
        for f, counts in zip(decision.filters, counters, strict=True)
    ]


def count_rejected_by_filter(decision: Decision) -> dict[int, int]:
    """Return how many nodes each filter was the first to reject, by the filter's index.

    Nodes whose entries were pruned are counted too.
    """
    counts: Counter[int] = Counter()
    if decision.summary:
        for rejection in decision.summary.first_rejections:
            counts[rejection.filter] += rejection.nodes
    else:
        for (position, _), slots in find_first_rejections(decision).items():
            counts[position] += len(slots)
    return counts


def count_first_rejections(decision: Decision) -> Sequence[FirstRejection]:
    """Return, for each verdict that was the first to reject nodes, how many nodes it rejected.

    Nodes whose entries were pruned are counted too.
    """
    if decision.summary:
        return decision.summary.first_rejections
    return [
        FirstRejection(position, number, len(slots), _count_also_rejected(decision, position, slots))
        for (position, number), slots in find_first_rejections(decision).items()
    ]


def _sum_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return dict(sum(map(Counter, counts), Counter()))


def _count_also_rejected(decision: Decision, first: int, slots: Sequence[int]) -> dict[str, int]:
    """Return, by plugin, how many of the slots' nodes each filter after the filter `first` rejected as well."""
    counts = {
        decision.filters[position].plugin: sum(rejects[ids[slot]] for slot in slots)
        for position, ids, rejects in _list_rejecting_filters(decision)
        if position > first
    }
    return {plugin: count for plugin, count in counts.items() if count}


def _group_reason(decision: Decision, reason: Reason) -> GroupReason:
    """Return a reason as JSON without the amounts of a single node, so that it applies to a group of nodes."""
    resource = find_resource(reason)
    requested = decision.pod.requests.get(resource, 0) if resource != "pods" else 1
    version = find_wording_version(decision.scheduler.rules)
    return {
        "code": reason.code,
        "sentence": reasons.format_reason(reason, version),
        "params": dict(reason.params),
        "text": format_request(resource, requested, reason) + describe_capacity(reason) + describe_kept(reason)
        if resource
        else describe_reason(reason, version),
        "resource": resource or None,
    }


def _rejected_node(decision: Decision, table: NodeTable, slot: int) -> RejectedNode:
    rejected = list_rejections(decision, slot)
    return {
        "node": table.names[slot],
        "reasons": [build_reason_detail(decision, table, slot, reason) for reason in rejected[0][1].reasons],
        "alsoRejectedBy": [plugin for plugin, _ in rejected[1:]],
    }


def select_nearest(decision: Decision, table: NodeTable, slots: Sequence[int], most: int | None) -> list[int]:
    """Return at most `most` slots (all if None), ordered by the largest share of a request that the node lacks.

    Among equals, a node comes first that has more of what the pod asks for, in use or not; then the node's name counts.
    """
    shortfall = dict(zip(slots, _compute_shortfalls(decision, table, slots), strict=True))
    missing = {slot: max(0.0, share) for slot, share in shortfall.items()}
    if most is not None and most < len(slots):
        farthest = heapq.nsmallest(most, missing.values())[-1]
        slots = [slot for slot in slots if missing[slot] <= farthest]

    def distance(slot: int) -> tuple[object, ...]:
        offer = _rate_offer(decision, table, slot)
        return missing[slot], *offer, shortfall[slot], natural_sort_key(table.names[slot])

    return sorted(slots, key=distance)[:most]


def _rate_offer(decision: Decision, table: NodeTable, slot: int) -> tuple[int, tuple[int, int]]:
    """Return how little the slot's node has of what the pod asks for, whether it is in use or not; the least first.

    These are the number of requested resources that an empty node would lack, and the devices of a resource claim,
    usable ones and all of them, as negative numbers.
    """
    there = table.allocatable[slot]
    lacking = sum(there.get(resource, 0) < requested for resource, requested in decision.pod.requests.items())
    return lacking, _count_claimed_devices(decision).get(slot, (0, 0))


@_memoized
def _count_claimed_devices(decision: Decision) -> dict[int, tuple[int, int]]:
    """Return by node slot the usable and all devices, as negative numbers, of nodes that lack devices of a claim."""
    counts = dict[int, tuple[int, int]]()
    for column in decision.filters:
        offers = {
            number: (-int(reason.params.get("usable") or 0), -int(reason.params.get("devices") or 0))
            for number, verdict in enumerate(column.verdicts)
            for reason in verdict.reasons
            if reason.code == "cannot-allocate"
        }
        if offers:
            counts |= {slot: offers[number] for slot, number in enumerate(column.ids) if number in offers}
    return counts


def _compute_shortfalls(decision: Decision, table: NodeTable, slots: Sequence[int]) -> list[float]:
    """Return, for each slot, how far its node is from holding the pod.

    For each requested resource the shortfall is (requested - free) / requested. The result is the largest of them, at
    most 0 if every request fits.
    """
    memoized = _memoized_shortfalls(decision, table)
    unknown = [slot for slot in slots if slot not in memoized]
    missing = [
        [(requested - free) / requested for free in table.free_amounts(unknown, resource)]
        for resource, requested in decision.pod.requests.items()
        if requested > 0
    ]
    memoized |= zip(unknown, map(max, zip(*missing, strict=True)) if missing else repeat(0.0), strict=False)
    return [memoized[slot] for slot in slots]


@_memoized
def _memoized_shortfalls(decision: Decision, table: NodeTable) -> dict[int, float]:
    """Return the decision's cache of shortfalls by node slot for this table, which `_compute_shortfalls` fills."""
    return {}
