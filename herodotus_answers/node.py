"""Build the answer document `NodeHistory`: how often a node was considered, rejected and chosen, and why.

Owns: the document's shape, and the counts that it is built from. Does not own: counting
(`herodotus_endpoint.store.counters`), HTTP, screen layout. Pure.

A node is considered in every decision whose node table holds it, and evaluated where the filters ran on it. The
eligibility rate is therefore a share of the evaluations: the other decisions do not show whether the node fits.

Invariant: every number is a sum over whole rollup buckets of the window, except `recent`, which says how many decisions
it holds and how many were searched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple, TypedDict

from herodotus_answers.declare import Document, NotRequired, Page
from herodotus_answers.explain import compute_margin, derive_state, weigh_scores
from herodotus_answers.node_list import NodeSummary
from herodotus_answers.node_results import list_rejections
from herodotus_answers.workload import PlacementCount, WorkloadOnNode, list_top_workloads
from herodotus_record import reasons
from herodotus_record.model import API_VERSION, Decision, Evaluation, NodeTable, Outcome, Reason
from herodotus_record.units import format_number, format_percent, format_timestamp, pluralize

SPANS: Final = 48  # of `overTime`: up to two days by the hour
WORKLOADS: Final = 20  # listed by name in an answer; the rest is counted


class CounterName(NamedTuple):
    """The name of a node counter: what it counts, for which plugin, and a detail such as a reason code."""

    counter: str
    plugin: str = ""
    detail: str = ""


@dataclass(frozen=True)
class NodeHistoryCounts:
    """The history of all nodes with one name over some hours: counters, placements by workload, and hourly sums.

    `decided` has placements by workload and deciding factor. `hours` has, by bucket and oldest first, the numbers of
    decisions in which the node was considered, evaluated, feasible and chosen, in this order.
    """

    counters: Counter[CounterName]
    workloads: Counter[str]
    decided: Mapping[str, Mapping[str, PlacementCount]]
    hours: Mapping[int, Sequence[int]]


@dataclass(frozen=True)
class ClusterTotals:
    """The number of placements on all nodes over some hours, and the largest number of nodes in one of these hours."""

    placements: int
    nodes: int


@dataclass(frozen=True)
class NodeDecision:
    """A decision that considered a given node, with its outcomes.

    `slot` is the node's slot, its index in the columns of the decision.
    """

    decision: Decision
    outcomes: tuple[Outcome, ...]
    slot: int


@dataclass(frozen=True)
class HistoryWindow:
    """The time range that a node history covers, and the length of a rollup bucket, in microseconds.

    `from_us` and `to_us` are times since 1970, and `from_us` is the start of a bucket.
    """

    from_us: int
    to_us: int
    bucket_us: int


TimeWindow = TypedDict(
    "TimeWindow",
    {
        "from": Annotated[str, "Start of the window."],
        "to": Annotated[str, "End of the window."],
        "bucketSeconds": Annotated[int, "Length of a bucket in seconds."],
    },
)


class CountedDecisions(TypedDict):
    """Numbers of decisions by what the node was in them."""

    considered: Annotated[int, "Number of decisions whose snapshot had the node."]
    evaluated: Annotated[int, "Number of decisions whose filters evaluated the node."]
    feasible: Annotated[int, "Number of decisions in which the node passed every filter."]
    chosen: Annotated[int, "Number of decisions that chose the node."]


_Start = TypedDict("_Start", {"from": Annotated[str, "Start of the span."]})


class Span(_Start, CountedDecisions):
    """A span of the window, with its counts."""


class Eligibility(TypedDict):
    """Evaluations of the node and how many of them it passed."""

    feasible: Annotated[int, "Number of decisions in which the node passed every filter."]
    evaluated: Annotated[int, "Number of decisions whose filters evaluated the node."]
    rate: Annotated[float | None, "Share of these that it passed, from 0 to 1; null if there were none."]


class CountedReason(TypedDict):
    """A reason why a filter rejected the node."""

    code: Annotated[str, "Stable code of the reason."]
    resource: Annotated[str | None, "Resource that was lacking; null if it was none."]
    text: Annotated[str, "kube-scheduler's sentence for the reason."]
    count: Annotated[int, "Number of decisions with the reason."]


class CountedFilter(TypedDict):
    """How often a filter evaluated, passed and rejected the node, regardless of other filters."""

    plugin: Annotated[str, "The filter."]
    evaluated: Annotated[int, "Number of decisions in which it evaluated the node."]
    passed: Annotated[int, "Number of decisions in which it passed the node."]
    rejected: Annotated[int, "Number of decisions in which it rejected the node."]
    decisive: Annotated[int, "Number of decisions in which it was the first filter to reject the node."]
    rate: Annotated[float | None, "Share of the evaluations that passed, from 0 to 1; null if there were none."]
    reasons: Annotated[list[CountedReason], "Its reasons, the most frequent first."]


class SummedScores(TypedDict):
    """Scores that a plugin gave the node."""

    plugin: Annotated[str, "The plugin."]
    accumulated: Annotated[int, "Sum of its weighted scores, in points."]
    average: Annotated[float | None, "Mean of its weighted scores, in points; null if there are none."]


class NodeScores(TypedDict):
    """Scores that the plugins gave the node."""

    attempts: Annotated[int, "Number of decisions that scored the node."]
    accumulated: Annotated[int, "Sum of the node's totals, in points."]
    average: Annotated[float | None, "Mean of the node's totals, in points; null if there are none."]
    plugins: Annotated[list[SummedScores], "Scores of each plugin."]


class Won(TypedDict):
    """Decisions that the node won: its lead, and the plugin that contributed most to it."""

    count: Annotated[int, "Number of decisions that chose the node."]
    contested: Annotated[int, "Number of these in which another node was feasible."]
    uncontested: Annotated[int, "Number of these in which no other evaluated node was feasible."]
    ties: Annotated[int, "Number of these that were drawn among equals."]
    outscored: Annotated[int, "Number of these in which another node scores higher, so that this one has no lead."]
    misfit: Annotated[int, "Number of these, by another scheduler, in which a filter rejects the node nevertheless."]
    meanMargin: Annotated[float | None, "Mean lead over the next node in points; null if it never had one."]
    carriedBy: Annotated[dict[str, int], "Number of these by the plugin that decided, the most frequent first."]


class Lost(TypedDict):
    """Decisions in which the node was feasible but not chosen, and the plugins that cost it most."""

    count: Annotated[int, "Number of these decisions."]
    ahead: Annotated[
        int,
        "Number of these, by another scheduler, in which it scores higher than the chosen node, or a filter rejects"
        " that one. The points leave them out.",
    ]
    meanBehind: Annotated[float | None, "Mean distance to the chosen node in points; null if it never was behind."]
    costsMost: Annotated[
        dict[str, float], "Mean of the node's weighted score minus the chosen node's, by plugin, lowest first."
    ]


class CountedWorkload(TypedDict):
    """A workload with pods that were placed on the node."""

    namespace: Annotated[str | None, "Namespace of the workload; null for workloads that are counted together."]
    workload: Annotated[str, "The workload as KIND/NAME."]
    count: Annotated[int, "Number of its pods that were placed on the node."]


class ClusterShare(TypedDict):
    """Placements on all nodes, and the highest number of nodes in an hour, to compare with this node."""

    placements: Annotated[int, "Number of placements on all nodes."]
    nodes: Annotated[int, "Highest number of nodes in an hour."]


class ResultOnNode(TypedDict):
    """How the node fared in a decision."""

    result: Annotated[str, "Result for the node: chosen, lost, rejected or not-evaluated."]
    why: NotRequired[Annotated[str, "Why it was not evaluated."]]
    rejectedBy: NotRequired[Annotated[str, "First filter that rejected it."]]
    rank: NotRequired[Annotated[int | None, "Rank of the node, from 1; null if it was not ranked."]]
    total: NotRequired[Annotated[int | None, "Total of the weighted scores; null if nothing was scored."]]
    points: NotRequired[
        Annotated[
            int | None,
            "Lead over the next node in points if it was chosen, else distance to the chosen node. Negative where"
            " another scheduler decided: another node scores higher than the chosen one, or this one does.",
        ]
    ]
    decidedBy: NotRequired[
        Annotated[str | None, "Plugin that made most of the difference, or tie; null if no plugin did."]
    ]


class DecisionOnNode(ResultOnNode):
    """A decision whose snapshot had the node."""

    namespace: Annotated[str, "Namespace of the pod."]
    pod: Annotated[str, "Name of the pod."]
    attempt: Annotated[int, "Number of the attempt."]
    id: Annotated[str, "ID of the decision."]
    startedAt: Annotated[str, "Start of the attempt."]
    state: Annotated[str, "State of the attempt: Bound, Binding, DryRun, Failed, Unschedulable or Error."]


class NodeResources(TypedDict):
    """What pods may request on the node and what they request, as the newest decision saw it."""

    at: Annotated[str, "Start of that decision's attempt."]
    allocatable: Annotated[dict[str, int], "Allocatable amounts by resource; cpu in millicores."]
    requested: Annotated[dict[str, int], "Requested amounts by resource, `pods` being their number; cpu in millicores."]


class ListedNodeHistory(Document, CountedDecisions):
    """Counts of one node in a list."""

    kind: Annotated[str, "NodeHistory."]
    window: Annotated[TimeWindow, "Time window in which decisions are counted."]
    resources: NotRequired[
        Annotated[NodeResources | None, "If asked for; null if the newest decision did not see the node."]
    ]


class NodeHistory(Document, CountedDecisions):
    """How often a node was considered, rejected and chosen in a time window, and why."""

    kind: Literal["NodeHistory"]
    source: NotRequired[
        Annotated[str, "`evaluated` if the answer is an evaluation of the present cluster, which local mode makes."]
    ]
    headline: Annotated[str, "The history in one sentence."]
    present: NotRequired[Annotated[NodeSummary, "The node as the API server has it now, which the plugin reads."]]
    window: Annotated[TimeWindow, "Time window in which decisions are counted."]
    resources: NotRequired[
        Annotated[NodeResources, "What pods request on it, as the newest decision saw it; absent if that did not."]
    ]
    notEvaluated: Annotated[int, "Number of decisions that did not evaluate the node."]
    notEvaluatedBy: Annotated[
        dict[str, int],
        "Number of these by reason: restricted, not-sampled, not-needed, not-reached, unrecorded (of a log), or"
        " not-counted (of a service that did not count reasons), the most frequent first.",
    ]
    notCompared: Annotated[
        int,
        "Number of decisions in which the node was feasible and neither won nor lost: they chose no node, or did not"
        " compare scores.",
    ]
    eligibility: Annotated[Eligibility, "Evaluations of the node and how many of them it passed."]
    overTime: Annotated[list[Span], "The same counts for spans of whole hours."]
    filters: Annotated[list[CountedFilter], "Verdicts and reasons of each filter, counted."]
    scores: NodeScores
    won: Won
    lost: Lost
    workloads: Annotated[
        list[CountedWorkload],
        "Workloads with the most pods placed on the node; all hidden workloads count as one.",
    ]
    workloadsOmitted: Annotated[int, "Number of workloads that are not listed."]
    share: ClusterShare
    keepsGetting: Annotated[
        list[WorkloadOnNode],
        "Workloads with the most pods placed on the node, with the plugins that decided.",
    ]
    keepsGettingOf: Annotated[int, "Number of placements on the node for which the deciding plugin was counted."]
    recent: Annotated[list[DecisionOnNode], "Newest decisions whose snapshot had the node."]
    recentOf: Annotated[int, "Maximum number of decisions that are searched for `recent`."]


class NodeHistoryList(Page):
    """A page of items of kind NodeHistory."""

    kind: Literal["NodeHistoryList"]
    items: Annotated[list[ListedNodeHistory], "Items of this page."]


def build_node_history(
    node: str,
    over: HistoryWindow,
    facts: NodeHistoryCounts,
    share: ClusterTotals,
    recent: Sequence[NodeDecision],
    *,
    searched: int,
) -> NodeHistory:
    """Return the NodeHistory document of a node from its counts in the window `over`.

    `share` holds the placements and nodes of the whole cluster in the same window. `recent` holds the latest decisions
    that considered the node, for which at most `searched` decisions were searched.
    """
    c, top_workloads = facts.counters, list_top_workloads(facts.decided)
    workloads = facts.workloads.most_common()
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeHistory",
        "metadata": {"name": node},
        "headline": _headline(c, share),
        "window": _window(over),
        "considered": c[CounterName("considered")],  # it was in the node table
        "evaluated": c[CounterName("evaluated")],
        "notEvaluated": c[CounterName("considered")] - c[CounterName("evaluated")],
        "notEvaluatedBy": _count_not_evaluated(c),
        "feasible": c[CounterName("feasible")],
        "chosen": c[CounterName("chosen")],
        "notCompared": c[CounterName("feasible")]
        + c[CounterName("misfit")]
        - c[CounterName("chosen")]
        - c[CounterName("lost")],
        "overTime": _over_time(facts.hours, over),
        "eligibility": {
            "feasible": c[CounterName("feasible")],
            "evaluated": c[CounterName("evaluated")],
            "rate": _share(c[CounterName("feasible")], c[CounterName("evaluated")]),
        },
        "filters": [_filter(c, plugin) for plugin in _plugins(c, "filter_reached")],
        "scores": {
            "attempts": c[CounterName("scored")],
            "accumulated": c[CounterName("total")],
            "average": _share(c[CounterName("total")], c[CounterName("scored")]),
            "plugins": [
                {
                    "plugin": plugin,
                    "accumulated": c[CounterName("score", plugin)],
                    "average": _share(c[CounterName("score", plugin)], c[CounterName("scored")]),
                }
                for plugin in _plugins(c, "score")
            ],
        },
        "won": _won(c),
        "lost": _lost(c),
        "workloads": [_workload(name, count) for name, count in workloads[:WORKLOADS]],
        "workloadsOmitted": len(workloads) - len(workloads[:WORKLOADS]),
        "share": {"placements": share.placements, "nodes": share.nodes},
        "keepsGetting": top_workloads[:WORKLOADS],
        "keepsGettingOf": sum(row["placements"] for row in top_workloads),
        "recent": [_recent(involved) for involved in recent],
        "recentOf": searched,
    }


def _count_not_evaluated(c: Counter[CounterName]) -> dict[str, int]:
    """Return by reason how many decisions did not evaluate the node. The values add up to `notEvaluated`."""
    counts = Counter({name.detail: n for name, n in c.items() if name.counter == "not_evaluated" and n})
    rest = c[CounterName("considered")] - c[CounterName("evaluated")] - counts.total()
    return dict((counts + Counter({"not-counted": rest})).most_common())


def read_node_resources(table: NodeTable, slot: int, at_us: int) -> NodeResources:
    """Return the amounts of the node in a slot of a decision's table. `at_us` is the start of the attempt."""
    return {
        "at": format_timestamp(at_us),
        "allocatable": dict(table.allocatable[slot]),
        "requested": dict(table.requested[slot]),
    }


def build_listed_node_history(node: str, over: HistoryWindow, counts: Sequence[int]) -> ListedNodeHistory:
    """Return a NodeHistory list item: the node's counts in the window `over`.

    `counts` has the numbers of decisions in which the node was considered, evaluated, feasible and chosen.
    """
    considered, evaluated, feasible, chosen = counts
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeHistory",
        "metadata": {"name": node},
        "window": _window(over),
        "considered": considered,
        "evaluated": evaluated,
        "feasible": feasible,
        "chosen": chosen,
    }


def list_node_resources(table: NodeTable, at_us: int) -> dict[str, NodeResources]:
    """Return the amounts of each node of a decision's table by its name. `at_us` is the start of the attempt."""
    return {name: read_node_resources(table, slot, at_us) for slot, name in enumerate(table.names) if name}


def build_unconsidered_node(node: str, over: HistoryWindow) -> NodeHistory:
    """Return the NodeHistory document of a node that no decision in the window `over` considered."""
    facts = NodeHistoryCounts(Counter(), Counter(), {}, {})
    return build_node_history(node, over, facts, ClusterTotals(0, 0), (), searched=0)


def mark_as_evaluated(answer: MutableMapping[str, Any]) -> None:
    """Change a NodeHistory, in place, to one that counts evaluations of the present cluster in place of attempts."""
    considered, feasible = answer["considered"], answer["feasible"]
    answer["source"] = "evaluated"
    if not considered:
        answer["headline"] = "No active pod is on it, and no waiting pod was evaluated for it."
        return
    answer["headline"] = (
        f"Evaluated for {pluralize(considered, 'pod')}: feasible for {feasible}"
        f" ({format_percent(feasible / considered)}), runs {answer['chosen']}."
    )


def _headline(c: Counter[CounterName], share: ClusterTotals) -> str:
    considered, feasible, chosen = (c[CounterName(name)] for name in ("considered", "feasible", "chosen"))
    if not considered:
        return "Not considered for any pod."
    unseen = considered - c[CounterName("evaluated")]
    missed = f" not evaluated {unseen} ({format_percent(unseen / considered)})," if unseen else ""
    equal = format_number(share.placements / share.nodes) if share.nodes > 1 else ""
    fair = f" An equal share among {share.nodes} nodes would be {equal}." if equal else ""
    return (
        f"Considered {pluralize(considered, 'time')}: feasible {feasible} ({format_percent(feasible / considered)}),"
        f"{missed} chosen {chosen} ({format_percent(chosen / considered)}).{fair}"
    )


def _window(over: HistoryWindow) -> TimeWindow:
    return {
        "from": format_timestamp(over.from_us),
        "to": format_timestamp(over.to_us),
        "bucketSeconds": over.bucket_us // 1_000_000,
    }


def _counted(counts: Sequence[int]) -> CountedDecisions:
    considered, evaluated, feasible, chosen = counts
    return {"considered": considered, "evaluated": evaluated, "feasible": feasible, "chosen": chosen}


def _over_time(hours: Mapping[int, Sequence[int]], over: HistoryWindow) -> list[Span]:
    """Return the sums of a node's counts in at most SPANS equal spans of time, from the first hour with counts.

    `hours` maps the number of an hour since 1970 to the counts, in the order of `NodeHistoryCounts.hours`.
    """
    if not hours:
        return []
    first, last = min(hours), max(over.to_us // over.bucket_us, *hours)  # a scheduler's clock may be ahead of ours
    length = -(-(last + 1 - first) // SPANS)
    spans = {start: [0] * len(hours[first]) for start in range(first, last + 1, length)}
    for hour, counts in hours.items():
        start = first + (hour - first) // length * length
        spans[start] = [n + more for n, more in zip(spans[start], counts, strict=True)]
    return [{"from": format_timestamp(start * over.bucket_us), **_counted(counts)} for start, counts in spans.items()]


def _filter(c: Counter[CounterName], plugin: str) -> CountedFilter:
    """Return the JSON object about one filter plugin: how often it evaluated, passed and rejected the node, and why.

    `decisive` counts the decisions in which it was the first filter to reject the node. The other counts ignore other
    filters.
    """
    evaluated, rejected = c[CounterName("filter_evaluated", plugin)], c[CounterName("filter_rejected", plugin)]
    counts = [(name.detail, n) for name, n in c.items() if name[:2] == ("reason", plugin) and n]
    return {
        "plugin": plugin,
        "evaluated": evaluated,
        "passed": evaluated - rejected,
        "rejected": rejected,
        "decisive": c[CounterName("filter_blocked", plugin)],
        "rate": _share(evaluated - rejected, evaluated),
        "reasons": [_reason(detail, n) for detail, n in sorted(counts, key=lambda x: (-x[1], x[0]))],
    }


def _reason(detail: str, count: int) -> CountedReason:
    code, _, resource = detail.partition("/")
    try:
        text = reasons.format_reason(Reason(code, {"resource": resource} if resource else {}))
    except KeyError:  # a code that shows more parameters, or one of a newer scheduler
        text = code
    return {"code": code, "resource": resource or None, "text": text, "count": count}


def _won(c: Counter[CounterName]) -> Won:
    """Return the JSON object about the decisions that chose the node: counts, mean margin and deciding plugins.

    `uncontested` counts the decisions in which no other evaluated node was feasible.
    """
    contested = c[CounterName("won")]
    return {
        "count": c[CounterName("chosen")],
        "contested": contested,
        "uncontested": c[CounterName("chosen")] - contested,
        "ties": c[CounterName("tied")],
        "outscored": c[CounterName("outscored")],
        "misfit": c[CounterName("misfit")],
        "meanMargin": _share(c[CounterName("lead")], contested - c[CounterName("outscored")]),
        "carriedBy": {
            p: n
            for n, p in sorted(((c[CounterName("carried", p)], p) for p in _plugins(c, "carried")), reverse=True)
            if n
        },
    }


def _lost(c: Counter[CounterName]) -> Lost:
    """Return the JSON object about the decisions in which the node was feasible but not chosen.

    `costsMost` maps a plugin to the node's weighted points minus the chosen node's, as a mean per decision, lowest
    first. Plugins with a mean of zero or more are left out, and so are decisions in which the node was ahead.
    """
    lost, ahead = c[CounterName("lost")], c[CounterName("ahead")]
    behind = lost - ahead
    costs = sorted((c[CounterName("cost", plugin)], plugin) for plugin in _plugins(c, "cost"))
    return {
        "count": lost,
        "ahead": ahead,
        "meanBehind": _share(c[CounterName("behind")], behind),
        "costsMost": {plugin: points / behind for points, plugin in costs if behind and points < 0},
    }


def _workload(name: str, count: int) -> CountedWorkload:
    namespace, _, workload = name.partition("/")
    if not workload:  # those beyond the number that a bucket names
        return {"namespace": None, "workload": name, "count": count}
    return {"namespace": namespace, "workload": workload, "count": count}


def _recent(involved: NodeDecision) -> DecisionOnNode:
    d = involved.decision
    return {
        "namespace": d.pod.namespace,
        "pod": d.pod.name,
        "attempt": d.key.attempt,
        "id": d.id,
        "startedAt": format_timestamp(d.times.started_us),
        "state": derive_state(d, involved.outcomes),
        **_result(involved),
    }


def _result(involved: NodeDecision) -> ResultOnNode:
    d, slot = involved.decision, involved.slot
    if d.evaluation[slot] != Evaluation.EVALUATED:
        return {"result": "not-evaluated", "why": Evaluation(d.evaluation[slot]).label}
    rejected = list_rejections(d, slot)
    return {"result": "rejected", "rejectedBy": rejected[0][0]} if rejected else _result_after_filters(involved)


def _result_after_filters(involved: NodeDecision) -> ResultOnNode:
    """Return how the node fared in a decision in which it passed all filters: result, rank, total and points.

    `points` is the node's lead over the next node if it was chosen, otherwise its distance to the chosen node. It is
    negative where another scheduler chose and the evaluation finds another node better, such as this one. No plugin
    decided then.
    """
    d, slot = involved.decision, involved.slot
    scored = bool(len(d.totals) and d.rank[slot])
    entry: ResultOnNode = {
        "result": "chosen" if slot == d.chosen else "lost",
        "rank": d.rank[slot] or None,
        "total": d.totals[slot] if scored else None,
        "points": None,
        "decidedBy": None,
    }
    if slot == d.chosen:
        lead = compute_margin(d)
        if lead and d.totals[slot] < d.totals[lead.best]:  # evaluated now, and another node is the best
            entry["points"] = d.totals[slot] - d.totals[lead.best]
            return entry
        entry["points"] = lead.points if lead else None
        entry["decidedBy"] = _deciding_plugin(d.ties, lead.shares if lead else ())
    elif scored and d.chosen is not None and d.rank[d.chosen]:  # no filter rejects the chosen node
        ours, winners = weigh_scores(d, slot), weigh_scores(d, d.chosen)
        behind = entry["points"] = d.totals[d.chosen] - d.totals[slot]
        shares = sorted(((p, winners[p] - ours[p]) for p in ours), key=lambda s: (-s[1], s[0]))
        entry["decidedBy"] = _deciding_plugin(d.ties if slot in d.ties else (), shares) if behind >= 0 else None
    return entry


def _deciding_plugin(ties: Sequence[int], shares: Sequence[tuple[str, int]]) -> str | None:
    """Return the plugin that made most of the difference in points between two nodes, or "tie" if `ties` is not empty.

    `shares` holds each plugin's part of the difference, largest first. The result is None if no part is positive.
    """
    if ties:
        return "tie"
    return shares[0][0] if shares and shares[0][1] > 0 else None


def _plugins(c: Counter[CounterName], counter: str) -> list[str]:
    """Return the plugins for which `c` has a counter of the kind `counter`, in the order in which they were added."""
    return [name.plugin for name in c if name.counter == counter]


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
