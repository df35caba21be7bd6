"""The answer document `WorkloadPlacement`, and which workloads a node keeps getting: placements added up, and why.

Owns: what decided a placement, sums over placements, the document's shape. Does not own: which placements there are
(the store). Pure.

Invariant: of every sum it is told over how many placements it runs; the record knows where pods went, not which of
them still exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from herodotus_record.explain import margin
from herodotus_record.model import API_VERSION, Decision, Path
from herodotus_record.one_node import count
from herodotus_record.units import natural_key, timestamp

Json = dict[str, Any]

TIE: Final = "tie"
ONLY: Final = "the only node that fits"
NOMINATED: Final = "nominated by preemption"
UNSCORED: Final = "nothing was scored"
RECENT: Final = 10  # placements told one by one


@dataclass(frozen=True)
class Why:
    """What decided a placement: a plugin, or one of TIE, ONLY, NOMINATED, UNSCORED. `points` ahead of the next node."""

    by: str
    points: int | None


class Tally(NamedTuple):
    """Placements that one reason decided: how many, and the points ahead in sum, None where nothing was ahead."""

    times: int
    points: int | None

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        known = [points for points in (self.points, other.points) if points is not None]
        return Tally(self.times + other.times, sum(known) if known else None)


@dataclass(frozen=True)
class Placement:
    """Where a pod went, or (`node` None) that it went nowhere. `why`: None where that record was not read."""

    namespace: str
    pod: str
    workload: str
    node: str | None
    started_us: int
    state: str
    message: str = ""
    why: Why | None = None


def why(decision: Decision) -> Why:
    """What put the pod of a placed decision on its node."""
    if decision.path is Path.ONLY_FEASIBLE:
        return Why(ONLY, None)
    if decision.path is Path.NOMINATED:
        return Why(NOMINATED, None)
    ahead = margin(decision)
    if ahead is None:
        return Why(UNSCORED, None)
    tied = decision.ties or not ahead.shares or ahead.shares[0][1] <= 0
    return Why(TIE if tied else ahead.shares[0][0], ahead.points)


def workload_placement(
    namespace: str, workload: str, placements: Sequence[Placement], *, since_us: int, nodes_total: int, complete: bool
) -> Json:
    """The document of kind WorkloadPlacement. `placements`: the last of each pod, newest first.

    `workload`: `Kind/name`. `nodes_total`: in the cluster at the newest one. `complete`: whether these are all since
    `since_us`.
    """
    placed = [p for p in placements if p.node is not None]
    waiting = [p for p in placements if p.node is None]
    on = Counter(str(p.node) for p in placed)
    known = [p for p in placed if p.why]
    rows = [_node(node, [p for p in placed if p.node == node], len(placed)) for node in on]
    return {
        "apiVersion": API_VERSION,
        "kind": "WorkloadPlacement",
        "metadata": {"namespace": namespace, "name": workload},
        "since": timestamp(since_us),
        "complete": complete,
        "headline": _headline(workload, placed, len(waiting), on, nodes_total),
        "placed": len(placed),
        "pending": [{"pod": p.pod, "message": p.message, "startedAt": timestamp(p.started_us)} for p in waiting],
        "nodesTotal": nodes_total,
        "skew": max(on.values()) - (min(on.values()) if len(on) >= nodes_total else 0) if on else 0,
        "decided": len(known),
        "decidedBy": tally(known),
        "nodes": sorted(rows, key=lambda row: (-row["pods"], natural_key(row["node"]))),
        "recent": [_recent(p) for p in placed[:RECENT]],
    }


def tally(placements: Iterable[Placement]) -> Json:
    """How many placements each reason decided, the most first."""
    counted = Counter(p.why.by for p in placements if p.why)
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def kept_getting(decided: Mapping[str, Mapping[str, Tally]]) -> list[Json]:
    """The workloads that a node got, the most frequent first, with what decided for them.

    `decided`: by workload and reason.
    """
    rows = [
        {
            "workload": workload,
            "placements": sum(tally.times for tally in by.values()),
            "decidedBy": {reason: t.times for reason, t in sorted(by.items(), key=lambda r: (-r[1].times, r[0]))},
            "meanMargin": _mean([t for t in by.values() if t.points is not None]),
        }
        for workload, by in decided.items()
    ]
    return sorted(rows, key=lambda row: (-row["placements"], row["workload"]))


def _mean(tallies: Sequence[Tally]) -> float | None:
    return sum(t.points or 0 for t in tallies) / sum(t.times for t in tallies) if tallies else None


def _headline(workload: str, placed: Sequence[Placement], waiting: int, on: Mapping[str, int], nodes_total: int) -> str:
    pending = f" {count(waiting, 'pod')} found no node." if waiting else ""
    if not placed:
        return f"No pod of {workload} was placed.{pending}"
    most = max(on.values())
    busiest = sorted((node for node, n in on.items() if n == most), key=natural_key)
    where = f"{count(len(placed), 'pod')} went to {len(on)} of {count(nodes_total, 'node')}"
    spread = f", {most} to each" if len(busiest) == len(on) else f", at most {most} to one ({', '.join(busiest[:3])})"
    decided = tally(placed)
    total = sum(decided.values())
    first = next(iter(decided.items()), None)
    reason = f" {_decided(*first)} {first[1]} of {total}." if first else ""
    return f"{where}{spread if len(placed) > 1 else ''}.{reason}{pending}"


def _decided(by: str, _count: int) -> str:
    """A reason as the subject of "decided N of M"."""
    return {TIE: "A draw among equals", ONLY: "That only one node fitted", NOMINATED: "Preemption"}.get(
        by, by
    ) + " decided"


def _node(node: str, members: Sequence[Placement], placed: int) -> Json:
    return {
        "node": node,
        "pods": len(members),
        "share": len(members) / placed,
        "decidedBy": tally(members),
        "meanMargin": _mean_margin(members),
        "lastAt": timestamp(max(p.started_us for p in members)),
    }


def _mean_margin(members: Iterable[Placement]) -> float | None:
    points = [p.why.points for p in members if p.why and p.why.points is not None]
    return sum(points) / len(points) if points else None


def _recent(p: Placement) -> Json:
    return {
        "pod": p.pod,
        "node": p.node,
        "startedAt": timestamp(p.started_us),
        "state": p.state,
        "decidedBy": p.why.by if p.why else None,
        "points": p.why.points if p.why else None,
    }
