"""The answer document `NodeHistory`: what a node was considered for and how it fared.

Owns: the document's shape. Does not own: counting (`store.counters`), HTTP, layout on a screen. Pure.

Considered is a node in every decision that had it in its node table; evaluated, where the filters looked at it. What
fits is therefore a share of what was evaluated: nobody asked whether it fits elsewhere.

Invariant: every number is a sum over whole rollup buckets of the window, except `recent`, which says how many
decisions it holds and how many were looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from herodotus_endpoint import parameters
from herodotus_endpoint.store import Involved, NodeFacts, Share
from herodotus_endpoint.store.counters import Name
from herodotus_endpoint.store.listing import COUNTED
from herodotus_endpoint.store.reader import LOOKED_AT
from herodotus_endpoint.store.rollups import BUCKET_US, bucket_of
from herodotus_record import reasons
from herodotus_record.explain import Json, margin, state, weighted
from herodotus_record.model import API_VERSION, Evaluation, Reason
from herodotus_record.one_node import rejections
from herodotus_record.placements import kept_getting
from herodotus_record.units import timestamp

DEFAULT_WINDOW_S = 24 * 3600
SPANS = 48  # of a history over time: up to two days by the hour
WORKLOADS = 20  # named in an answer; the rest is counted


@dataclass(frozen=True)
class Window:
    """What was asked for, as buckets: `from_us` is the start of the first one."""

    from_us: int
    to_us: int


def window(since_us: int, now_us: int) -> Window:
    """The window that covers the time since then in whole buckets."""
    return Window(since_us // BUCKET_US * BUCKET_US, now_us)


def asked(clock: Callable[[], float]) -> Window:
    """The window that the request's `since` asks for; by default the last day."""
    now_us = int(clock() * 1e6)
    since_us = parameters.since("since", clock)
    return window(now_us - DEFAULT_WINDOW_S * 1_000_000 if since_us is None else since_us, now_us)


def window_document(over: Window) -> Json:
    """The window as answers write it."""
    return {
        "from": timestamp(over.from_us),
        "to": timestamp(over.to_us),
        "bucketSeconds": BUCKET_US // 1_000_000,
    }


def node_history(node: str, over: Window, facts: NodeFacts, share: Share, recent: Sequence[Involved]) -> Json:
    """The document of kind NodeHistory. `share`: of all nodes over the same window."""
    c, kept = facts.counters, kept_getting(facts.decided)
    workloads = facts.workloads.most_common()
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeHistory",
        "metadata": {"name": node},
        "window": window_document(over),
        "considered": c[Name("considered")],  # it was in the node table
        "evaluated": c[Name("evaluated")],
        "notEvaluated": c[Name("considered")] - c[Name("evaluated")],
        "feasible": c[Name("feasible")],
        "chosen": c[Name("chosen")],
        "overTime": _over_time(facts.hours, over),
        "eligibility": {
            "feasible": c[Name("feasible")],
            "evaluated": c[Name("evaluated")],
            "rate": _share(c[Name("feasible")], c[Name("evaluated")]),
        },
        "filters": [_filter(c, plugin) for plugin in _plugins(c, "filter_reached")],
        "scores": {
            "attempts": c[Name("scored")],
            "accumulated": c[Name("total")],
            "average": _share(c[Name("total")], c[Name("scored")]),
            "plugins": [
                {
                    "plugin": plugin,
                    "accumulated": c[Name("score", plugin)],
                    "average": _share(c[Name("score", plugin)], c[Name("scored")]),
                }
                for plugin in _plugins(c, "score")
            ],
        },
        "won": _won(c),
        "lost": _lost(c),
        "workloads": [_workload(name, count) for name, count in workloads[:WORKLOADS]],
        "workloadsOmitted": len(workloads) - len(workloads[:WORKLOADS]),
        "share": {"placements": share.placements, "nodes": share.nodes},
        "keepsGetting": kept[:WORKLOADS],
        "keepsGettingOf": sum(row["placements"] for row in kept),
        "recent": [_recent(involved) for involved in recent],
        "recentOf": LOOKED_AT,
    }


def _over_time(hours: Mapping[int, Sequence[int]], over: Window) -> list[Json]:
    """The counts by spans of equal length, from the first hour that has some: at most SPANS, each of whole hours."""
    if not hours:
        return []
    first, last = min(hours), max(bucket_of(over.to_us), *hours)  # a scheduler's clock may be ahead of ours
    length = -(-(last + 1 - first) // SPANS)
    spans = {start: [0] * len(COUNTED) for start in range(first, last + 1, length)}
    for hour, counts in hours.items():
        start = first + (hour - first) // length * length
        spans[start] = [n + more for n, more in zip(spans[start], counts, strict=True)]
    return [
        {"from": timestamp(start * BUCKET_US)} | dict(zip(COUNTED, counts, strict=True))
        for start, counts in spans.items()
    ]


def _filter(c: Counter[Name], plugin: str) -> Json:
    """What the filter said whenever it ran, whatever the others said; `decisive`: it was the first to reject."""
    evaluated, rejected = c[Name("filter_evaluated", plugin)], c[Name("filter_rejected", plugin)]
    counts = [(name.detail, n) for name, n in c.items() if name[:2] == ("reason", plugin) and n]
    return {
        "plugin": plugin,
        "evaluated": evaluated,
        "passed": evaluated - rejected,
        "rejected": rejected,
        "decisive": c[Name("filter_blocked", plugin)],
        "rate": _share(evaluated - rejected, evaluated),
        "reasons": [_reason(detail, n) for detail, n in sorted(counts, key=lambda x: (-x[1], x[0]))],
    }


def _reason(detail: str, count: int) -> Json:
    code, _, resource = detail.partition("/")
    try:
        text = reasons.sentence(Reason(code, {"resource": resource} if resource else {}))
    except KeyError:  # a code that shows more parameters, or one of a newer scheduler
        text = code
    return {"code": code, "resource": resource or None, "text": text, "count": count}


def _won(c: Counter[Name]) -> Json:
    """`uncontested`: it was the only one that fitted, or no other was looked at."""
    contested = c[Name("won")]
    return {
        "count": c[Name("chosen")],
        "contested": contested,
        "uncontested": c[Name("chosen")] - contested,
        "ties": c[Name("tied")],
        "meanMargin": _share(c[Name("lead")], contested),
        "carriedBy": {
            p: n for n, p in sorted(((c[Name("carried", p)], p) for p in _plugins(c, "carried")), reverse=True) if n
        },
    }


def _lost(c: Counter[Name]) -> Json:
    """`costsMost`: per plugin the mean of its points minus those of the winner, the costliest first."""
    lost = c[Name("lost")]
    costs = sorted((c[Name("cost", plugin)], plugin) for plugin in _plugins(c, "cost"))
    return {
        "count": lost,
        "meanBehind": _share(c[Name("behind")], lost),
        "costsMost": {plugin: points / lost for points, plugin in costs if lost and points < 0},
    }


def _workload(name: str, count: int) -> Json:
    namespace, _, workload = name.partition("/")
    if not workload:  # those beyond the number that a bucket names
        return {"namespace": None, "workload": name, "count": count}
    return {"namespace": namespace, "workload": workload, "count": count}


def _recent(involved: Involved) -> Json:
    d, slot = involved.decision, involved.slot
    entry: Json = {
        "namespace": d.pod.namespace,
        "pod": d.pod.name,
        "attempt": d.key.attempt,
        "id": d.id,
        "startedAt": timestamp(d.times.started_us),
        "state": state(d, involved.outcomes),
    }
    if d.evaluation[slot] != Evaluation.EVALUATED:
        why = Evaluation(d.evaluation[slot]).label
        return entry | {"result": "not-evaluated", "why": why}
    rejected = rejections(d, slot)
    if rejected:
        return entry | {"result": "rejected", "rejectedBy": rejected[0][0]}
    return entry | _fared(involved)


def _fared(involved: Involved) -> Json:
    """A node that passed the filters: how it stands against the winner, or the winner against the next."""
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
        lead = margin(d)
        entry["points"] = lead.points if lead else None
        entry["decidedBy"] = _decided(d.ties, lead.shares if lead else ())
    elif scored and d.chosen is not None:
        ours, winners = weighted(d, slot), weighted(d, d.chosen)
        entry["points"] = d.totals[d.chosen] - d.totals[slot]
        shares = sorted(((p, winners[p] - ours[p]) for p in ours), key=lambda s: (-s[1], s[0]))
        entry["decidedBy"] = _decided(d.ties if slot in d.ties else (), shares)
    return entry


def _decided(ties: Sequence[int], shares: Sequence[tuple[str, int]]) -> str | None:
    """The plugin that made most of the difference; `tie` where none did."""
    if ties:
        return "tie"
    return shares[0][0] if shares and shares[0][1] > 0 else None


def _plugins(c: Counter[Name], counter: str) -> list[str]:
    """The plugins of a counter, in the order in which decisions brought them."""
    return [name.plugin for name in c if name.counter == counter]


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
