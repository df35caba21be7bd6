"""The document `NodeHistory`: how often a node was considered, rejected and chosen.

Owns: the format of the document. Does not own: counting (`store.counters`), HTTP, screen layout. Pure.

A node is considered in every decision whose node table holds it, and evaluated where the filters ran on it. The
eligibility rate is therefore a share of the evaluations: the other decisions do not show whether the node fits.

Invariant: every number is a sum over whole rollup buckets of the window, except `recent`, which says how many decisions
it holds and how many were searched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from herodotus_answers.explain import compute_margin, derive_state, weigh_scores
from herodotus_answers.node_results import list_rejections
from herodotus_answers.workload import list_top_workloads
from herodotus_endpoint.parameters import SINCE
from herodotus_endpoint.store import ClusterTotals, NodeDecision, NodeHistoryCounts
from herodotus_endpoint.store.counters import CounterName
from herodotus_endpoint.store.listing import COUNTED
from herodotus_endpoint.store.reader import MAX_SEARCHED
from herodotus_endpoint.store.rollups import BUCKET_US, bucket_of
from herodotus_record import reasons
from herodotus_record.model import API_VERSION, Evaluation, Reason
from herodotus_record.units import format_timestamp

Json = dict[str, Any]

DEFAULT_WINDOW_S = 24 * 3600
SPANS = 48  # of `overTime`: up to two days by the hour
WORKLOADS = 20  # listed by name in an answer; the rest is counted


@dataclass(frozen=True)
class HistoryWindow:
    """The time range that a node history covers, in microseconds since 1970.

    `from_us` is the start of a rollup bucket, which is a whole hour.
    """

    from_us: int
    to_us: int


def build_window(since_us: int, now_us: int) -> HistoryWindow:
    """Return the window from the start of the hour that contains `since_us` until `now_us`."""
    return HistoryWindow(since_us // BUCKET_US * BUCKET_US, now_us)


def parse_window(clock: Callable[[], float]) -> HistoryWindow:
    """Return the window that ends now and begins at the time in the query parameter `since`, by default a day ago.

    `clock` returns seconds since 1970.
    """
    now_us = int(clock() * 1e6)
    since_us = SINCE.parse(clock)
    return build_window(now_us - DEFAULT_WINDOW_S * 1_000_000 if since_us is None else since_us, now_us)


def build_window_document(over: HistoryWindow) -> Json:
    """Return the window as a JSON object with its start, its end and the length of a rollup bucket."""
    return {
        "from": format_timestamp(over.from_us),
        "to": format_timestamp(over.to_us),
        "bucketSeconds": BUCKET_US // 1_000_000,
    }


def build_node_history(
    node: str, over: HistoryWindow, facts: NodeHistoryCounts, share: ClusterTotals, recent: Sequence[NodeDecision]
) -> Json:
    """Return the NodeHistory document of a node from its counts in the window `over`.

    `share` holds the placements and nodes of the whole cluster in the same window. `recent` holds the latest decisions
    that considered the node.
    """
    c, top_workloads = facts.counters, list_top_workloads(facts.decided)
    workloads = facts.workloads.most_common()
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeHistory",
        "metadata": {"name": node},
        "window": build_window_document(over),
        "considered": c[CounterName("considered")],  # it was in the node table
        "evaluated": c[CounterName("evaluated")],
        "notEvaluated": c[CounterName("considered")] - c[CounterName("evaluated")],
        "feasible": c[CounterName("feasible")],
        "chosen": c[CounterName("chosen")],
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
        "recentOf": MAX_SEARCHED,
    }


def _over_time(hours: Mapping[int, Sequence[int]], over: HistoryWindow) -> list[Json]:
    """Return the sums of a node's counts in at most SPANS equal spans of time, from the first hour with counts.

    `hours` maps the number of an hour since 1970 to the counts in the order of COUNTED.
    """
    if not hours:
        return []
    first, last = min(hours), max(bucket_of(over.to_us), *hours)  # a scheduler's clock may be ahead of ours
    length = -(-(last + 1 - first) // SPANS)
    spans = {start: [0] * len(COUNTED) for start in range(first, last + 1, length)}
    for hour, counts in hours.items():
        start = first + (hour - first) // length * length
        spans[start] = [n + more for n, more in zip(spans[start], counts, strict=True)]
    return [
        {"from": format_timestamp(start * BUCKET_US)} | dict(zip(COUNTED, counts, strict=True))
        for start, counts in spans.items()
    ]


def _filter(c: Counter[CounterName], plugin: str) -> Json:
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


def _reason(detail: str, count: int) -> Json:
    code, _, resource = detail.partition("/")
    try:
        text = reasons.format_reason(Reason(code, {"resource": resource} if resource else {}))
    except KeyError:  # a code that shows more parameters, or one of a newer scheduler
        text = code
    return {"code": code, "resource": resource or None, "text": text, "count": count}


def _won(c: Counter[CounterName]) -> Json:
    """Return the JSON object about the decisions that chose the node: counts, mean margin and deciding plugins.

    `uncontested` counts the decisions in which no other evaluated node was feasible.
    """
    contested = c[CounterName("won")]
    return {
        "count": c[CounterName("chosen")],
        "contested": contested,
        "uncontested": c[CounterName("chosen")] - contested,
        "ties": c[CounterName("tied")],
        "meanMargin": _share(c[CounterName("lead")], contested),
        "carriedBy": {
            p: n
            for n, p in sorted(((c[CounterName("carried", p)], p) for p in _plugins(c, "carried")), reverse=True)
            if n
        },
    }


def _lost(c: Counter[CounterName]) -> Json:
    """Return the JSON object about the decisions in which the node was feasible but not chosen.

    `costsMost` maps a plugin to the node's weighted points minus the chosen node's, as a mean per decision, lowest
    first. Plugins with a mean of zero or more are left out.
    """
    lost = c[CounterName("lost")]
    costs = sorted((c[CounterName("cost", plugin)], plugin) for plugin in _plugins(c, "cost"))
    return {
        "count": lost,
        "meanBehind": _share(c[CounterName("behind")], lost),
        "costsMost": {plugin: points / lost for points, plugin in costs if lost and points < 0},
    }


def _workload(name: str, count: int) -> Json:
    namespace, _, workload = name.partition("/")
    if not workload:  # those beyond the number that a bucket names
        return {"namespace": None, "workload": name, "count": count}
    return {"namespace": namespace, "workload": workload, "count": count}


def _recent(involved: NodeDecision) -> Json:
    d, slot = involved.decision, involved.slot
    entry: Json = {
        "namespace": d.pod.namespace,
        "pod": d.pod.name,
        "attempt": d.key.attempt,
        "id": d.id,
        "startedAt": format_timestamp(d.times.started_us),
        "state": derive_state(d, involved.outcomes),
    }
    if d.evaluation[slot] != Evaluation.EVALUATED:
        why = Evaluation(d.evaluation[slot]).label
        return entry | {"result": "not-evaluated", "why": why}
    rejected = list_rejections(d, slot)
    if rejected:
        return entry | {"result": "rejected", "rejectedBy": rejected[0][0]}
    return entry | _result_after_filters(involved)


def _result_after_filters(involved: NodeDecision) -> Json:
    """Return the JSON fields about one decision in which the node passed all filters: result, rank, total and points.

    `points` is the node's lead over the next node if it was chosen, otherwise its distance to the chosen node.
    """
    d, slot = involved.decision, involved.slot
    scored = bool(len(d.totals) and d.rank[slot])
    entry: Json = {
        "result": "chosen" if slot == d.chosen else "lost",
        "rank": d.rank[slot] or None,
        "total": d.totals[slot] if scored else None,
        "points": None,
        "decidedBy": None,
    }
    if slot == d.chosen:
        lead = compute_margin(d)
        entry["points"] = lead.points if lead else None
        entry["decidedBy"] = _deciding_plugin(d.ties, lead.shares if lead else ())
    elif scored and d.chosen is not None:
        ours, winners = weigh_scores(d, slot), weigh_scores(d, d.chosen)
        entry["points"] = d.totals[d.chosen] - d.totals[slot]
        shares = sorted(((p, winners[p] - ours[p]) for p in ours), key=lambda s: (-s[1], s[0]))
        entry["decidedBy"] = _deciding_plugin(d.ties if slot in d.ties else (), shares)
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
