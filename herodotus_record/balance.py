"""The answer document `Balance`: which nodes won, which plugins carried them, and who would win with other weights.

Owns: weighing recorded decisions again, and the document's shape. Does not own: which decisions are a sample (the
store). Pure; not for the plugin, for it computes with whole columns.

A total is the sum of each plugin's normalised score times its weight, as the scheduler adds it up, so with other
weights the same decision has another winner. Each decision is weighed for itself: that its pod would then have left
room elsewhere is not followed. A plugin that the profile did not run has no scores to weigh.

Invariant: with the recorded weights every winner is the recorded one; wins add up to the number of decisions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from herodotus_record.changes import Recorded
from herodotus_record.codec import as_numpy
from herodotus_record.model import API_VERSION, Decision
from herodotus_record.one_node import count
from herodotus_record.placements import why
from herodotus_record.units import natural_key, timestamp

Json = dict[str, Any]

TOLD: Final = 200  # nodes, those that win most; 0.2 kB each
SPANS: Final = 24  # of placements over time
MOVED: Final = 20  # decisions with another winner that are told one by one
_UNWEIGHED: Final = "Pods were placed, but the scores of every node are no longer kept of any of them."


class UnknownPluginError(Exception):
    """A weight for a plugin that no decision of the sample was scored by. The message names it and those there are."""


@dataclass(frozen=True)
class _Weighed:
    """A decision with other weights: the best slots, and whether the recorded winner is among them."""

    best: tuple[int, ...]
    stays: bool


def balance(
    sample: Sequence[Recorded], weights: Mapping[str, int], *, since_us: int, until_us: int, complete: bool
) -> Json:
    """The document of kind Balance. `sample`: placed decisions, newest first. UnknownPluginError."""
    plugins = _plugins(sample)
    unknown = sorted(weights.keys() - plugins.keys())
    if unknown:
        raise UnknownPluginError(f"no decision was scored by {', '.join(unknown)}; there are: {', '.join(plugins)}")
    wins, expected, fits = _wins(sample), _expected(sample), _fits(sample)
    weighed = [_weigh(r.decision, weights) for r in sample] if weights else []
    won_with = _wins_with(sample, weighed)
    rows: list[Json] = [
        {
            "node": node,
            "fit": fits[node],
            "expected": round(expected[node], 3),
            "won": sum(wins.get(node, {}).values()),
            "share": sum(wins.get(node, {}).values()) / len(sample),
            "decidedBy": dict(wins.get(node, Counter()).most_common()),
            "wouldWin": round(won_with.get(node, 0.0), 3) if weights else None,
        }
        for node in expected
    ]
    most = sorted(rows, key=lambda row: (-max(row["won"], row["wouldWin"] or 0), -row["fit"], natural_key(row["node"])))
    told = sorted(most[:TOLD], key=lambda row: (-row["won"], natural_key(row["node"])))
    moves = [_move(r, w) for r, w in zip(sample, weighed, strict=bool(weights)) if not w.stays]
    return {
        "apiVersion": API_VERSION,
        "kind": "Balance",
        "metadata": {},
        "since": timestamp(since_us),
        "to": timestamp(until_us),
        "decisions": len(sample),
        "complete": complete,
        "headline": _headline(rows, len(sample), weights, len(moves)) if sample or complete else _UNWEIGHED,
        "plugins": [
            {"plugin": p, "weight": w, "decided": _decided(wins, p), "movesWithout": _moved_without(sample, p)}
            for p, w in plugins.items()
        ],
        "overTime": _over_time(sample),
        "otherReasons": {by: n for by, n in _all(wins).most_common() if by not in plugins},
        "nodes": told,
        "nodesOmitted": len(rows) - len(told),
        "weights": dict(weights) or None,
        "moved": len(moves) if weights else None,
        "moves": moves[:MOVED],
        "movesOmitted": max(0, len(moves) - MOVED),
    }


def _weigh(d: Decision, weights: Mapping[str, int]) -> _Weighed:
    """The winners of a decision with other weights; where nothing was scored the winner stays."""
    assert d.chosen is not None
    feasible = as_numpy(d.rank) > 0
    columns = [
        as_numpy(s.normalized).astype("int64") * weights.get(s.plugin, s.weight)
        for s in d.scores
        if not s.skipped and len(s.normalized)
    ]
    if not columns or not len(d.totals):
        return _Weighed((d.chosen,), stays=True)
    totals = columns[0].copy()
    for column in columns[1:]:
        totals += column
    best = totals[feasible].max()
    winners = tuple(int(slot) for slot in ((totals == best) & feasible).nonzero()[0])
    return _Weighed(winners, stays=d.chosen in winners)


def _plugins(sample: Iterable[Recorded]) -> dict[str, int]:
    """The plugins that scored, with their weight in the newest decision, in the profile's order."""
    found: dict[str, int] = {}
    for r in sample:
        for s in r.decision.scores:
            if not s.skipped:
                found.setdefault(s.plugin, s.weight)
    return found


def _wins(sample: Iterable[Recorded]) -> dict[str, Counter[str]]:
    """Per node, what decided for it."""
    found: dict[str, Counter[str]] = {}
    for r in sample:
        found.setdefault(_chosen(r), Counter())[why(r.decision).by] += 1
    return found


def _expected(sample: Iterable[Recorded]) -> dict[str, float]:
    """Per node, the wins if every node that fits were as good as the others; nodes that never fitted have 0."""
    found: dict[str, float] = {}
    for r in sample:
        names, rank = r.table.names, r.decision.rank
        share = 1 / r.decision.nodes_feasible
        for slot, name in enumerate(names[: len(rank)]):
            if name:
                found[name] = found.get(name, 0.0) + (share if rank[slot] else 0.0)
    return found


def _fits(sample: Iterable[Recorded]) -> Counter[str]:
    found: Counter[str] = Counter()
    for r in sample:
        found.update(r.table.names[slot] for slot, rank in enumerate(r.decision.rank) if rank)
    return found


def _wins_with(sample: Iterable[Recorded], weighed: Iterable[_Weighed]) -> dict[str, float]:
    """Wins with the other weights; a draw of which the recorded winner is no part is shared."""
    found: dict[str, float] = {}
    for r, w in zip(sample, weighed, strict=False):
        winners = [_chosen(r)] if w.stays else [r.table.names[slot] for slot in w.best]
        for name in winners:
            found[name] = found.get(name, 0.0) + 1 / len(winners)
    return found


def _moved_without(sample: Iterable[Recorded], plugin: str) -> int:
    """How many decisions would have another winner if the plugin had no say."""
    return sum(not _weigh(r.decision, {plugin: 0}).stays for r in sample)


def _over_time(sample: Sequence[Recorded]) -> list[Json]:
    """Placements by spans of equal length, from the oldest of the sample to the newest; `most`: of one node."""
    starts = [r.decision.times.started_us for r in sample]
    if not starts:
        return []
    first, length = min(starts), (max(starts) - min(starts)) // SPANS + 1
    won: list[Counter[str]] = [Counter() for _ in range((max(starts) - first) // length + 1)]
    for r, start in zip(sample, starts, strict=True):
        won[(start - first) // length][_chosen(r)] += 1
    return [
        {
            "from": timestamp(first + n * length),
            "placed": sum(nodes.values()),
            "nodes": len(nodes),
            "most": max(nodes.values(), default=0),
        }
        for n, nodes in enumerate(won)
    ]


def _move(r: Recorded, w: _Weighed) -> Json:
    d = r.decision
    to = [r.table.names[slot] for slot in w.best]
    return {
        "namespace": d.pod.namespace,
        "pod": d.pod.name,
        "id": d.id,
        "from": _chosen(r),
        "to": to[0] if len(to) == 1 else None,
        "drawnAmong": len(to) if len(to) > 1 else None,
    }


def _chosen(r: Recorded) -> str:
    assert r.decision.chosen is not None
    return r.table.names[r.decision.chosen]


def _decided(wins: Mapping[str, Counter[str]], by: str) -> int:
    return sum(counter[by] for counter in wins.values())


def _all(wins: Mapping[str, Counter[str]]) -> Counter[str]:
    return sum(wins.values(), Counter())


def _headline(rows: Sequence[Json], decisions: int, weights: Mapping[str, int], moved: int) -> str:
    if not decisions:
        return "No pod was placed."
    won = [row for row in rows if row["won"]]
    first = max(won, key=lambda row: (row["won"], row["node"]))
    said = (
        f"{count(decisions, 'pod')} went to {len(won)} of {count(len(rows), 'node')}. {first['node']} got most:"
        f" {first['won']}, where a draw among the nodes that fit would give {first['expected']:.1f}."
    )
    if not weights:
        return said
    asked = ", ".join(f"{plugin}={weight}" for plugin, weight in weights.items())
    return f"With {asked}, {moved} of {count(decisions, 'pod')} would have gone elsewhere."
