"""Build the answer document `Balance`: which nodes won, on which plugins, and which would win with other weights.

Owns: reweighing recorded decisions, and the document's shape. Does not own: selecting the sample of decisions (the
store). Pure.

A total is the sum of each plugin's normalized score times its weight, computed as the scheduler does. Other weights may
therefore give the same decision another winner. Each decision is reweighed alone: the calculation ignores that its pod
would have left room on another node. A plugin that the profile did not run has no scores to reweigh.

Invariant: with the recorded weights every winner is the recorded one, and wins add up to the number of decisions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypedDict

from herodotus_answers.changes import RecordedDecision
from herodotus_answers.declare import Document
from herodotus_answers.workload import find_deciding_factor
from herodotus_record.model import API_VERSION, Decision
from herodotus_record.units import format_timestamp, natural_sort_key, pluralize

MAX_NODES: Final = 200  # listed nodes, those with the most wins first; 0.2 kB each
MAX_SPANS: Final = 24  # of equal length, for placements over time
MAX_MOVES: Final = 20  # listed decisions with another winner
_UNWEIGHED: Final = "Pods were placed, but the scores of every node are no longer kept of any of them."


class PluginShare(TypedDict):
    """The share of a score plugin in the placements."""

    plugin: Annotated[str, "The score plugin."]
    weight: Annotated[int, "Its weight in the newest decision that it scored."]
    decided: Annotated[int, "Number of placements that it decided: its share in the lead was the largest."]
    movesWithout: Annotated[int, "Number of decisions that would have another winner if its weight were 0."]


_Start = TypedDict("_Start", {"from": Annotated[str, "Start of the time bucket."]})


class PlacementSpan(_Start):
    """Placements in a time bucket."""

    placed: Annotated[int, "Number of placements."]
    nodes: Annotated[int, "Number of nodes with placements."]
    most: Annotated[int, "Highest number of placements on one node."]


class NodeBalance(TypedDict):
    """How often a node was chosen."""

    node: Annotated[str, "Name of the node."]
    fit: Annotated[int, "Number of decisions in which it was feasible."]
    expected: Annotated[float, "Number of wins to expect if each decision drew among its feasible nodes."]
    won: Annotated[int, "Number of decisions that chose it."]
    share: Annotated[float, "Share of all decisions that chose it, from 0 to 1."]
    decidedBy: Annotated[dict[str, int], "Number of its wins by what decided them: a plugin, a tie or another reason."]
    wouldWin: Annotated[float | None, "Number of wins with the other weights, ties shared; null without such weights."]


_ChosenNode = TypedDict("_ChosenNode", {"from": Annotated[str, "Node that was chosen."]})


class MovedPlacement(_ChosenNode):
    """A decision that the other weights would have changed."""

    namespace: Annotated[str, "Namespace of the pod."]
    pod: Annotated[str, "Name of the pod."]
    id: Annotated[str, "ID of the decision."]
    to: Annotated[str | None, "Node that would be chosen; null if several share the best total."]
    drawnAmong: Annotated[int | None, "Number of nodes that share the best total; null if one alone has it."]


class Balance(Document):
    """How placements spread over nodes, which plugins decided, and which node would win with other weights."""

    kind: Literal["Balance"]
    since: Annotated[str, "Start of the time window."]
    to: Annotated[str, "End of the time window."]
    decisions: Annotated[int, "Number of decisions that are counted."]
    complete: Annotated[bool, "Whether every decision of the requested time window is counted."]
    headline: Annotated[str, "The balance in one sentence."]
    plugins: Annotated[list[PluginShare], "Share of each score plugin in the placements."]
    overTime: Annotated[list[PlacementSpan], "Placements by time bucket."]
    otherReasons: Annotated[dict[str, int], "Number of placements that no plugin decided, by the reason."]
    nodes: Annotated[list[NodeBalance], "Placements by node."]
    nodesOmitted: Annotated[int, "Number of nodes that are not listed."]
    weights: Annotated[dict[str, int] | None, "The other weights by plugin; null without any."]
    moved: Annotated[int | None, "Number of decisions that the other weights would have changed; null without any."]
    moves: Annotated[list[MovedPlacement], "Decisions that the other weights would have changed."]
    movesOmitted: Annotated[int, "Number of such decisions that are not listed."]


class UnknownPluginError(Exception):
    """A weight names a plugin that scored no decision of the sample. The message lists the plugins that did."""


@dataclass(frozen=True)
class _Reweighed:
    """The result of one decision with other weights: the best slots, and whether the recorded winner is among them.

    If it is, the decision counts as unchanged (`stays`).
    """

    best: tuple[int, ...]
    stays: bool


def build_balance(
    sample: Sequence[RecordedDecision], weights: Mapping[str, int], *, since_us: int, until_us: int, complete: bool
) -> Balance:
    """Return the JSON document of kind Balance: which nodes won how often, on which plugins, and with other weights.

    `sample` holds decisions that placed a pod, newest first. `weights` maps plugins to the other weights and may be
    empty. `complete` is whether `sample` holds all decisions from `since_us` to `until_us`, in microseconds since 1970.
    Raises UnknownPluginError for a weight of a plugin that did not score.
    """
    plugins = _find_plugins(sample)
    unknown = sorted(weights.keys() - plugins.keys())
    if unknown:
        raise UnknownPluginError(f"no decision was scored by {', '.join(unknown)}; there are: {', '.join(plugins)}")
    wins, expected, fits = _count_wins(sample), _expect_wins(sample), _count_fits(sample)
    moves_without = Counter(plugin for r in sample for plugin in list_plugins_that_change_winner(r.decision))
    reweighed = [_reweigh(r.decision, weights) for r in sample] if weights else []
    reweighed_wins = _count_reweighed_wins(sample, reweighed)
    rows: list[NodeBalance] = [
        {
            "node": node,
            "fit": fits[node],
            "expected": round(expected[node], 3),
            "won": sum(wins.get(node, {}).values()),
            "share": sum(wins.get(node, {}).values()) / len(sample),
            "decidedBy": dict(wins.get(node, Counter()).most_common()),
            "wouldWin": round(reweighed_wins.get(node, 0.0), 3) if weights else None,
        }
        for node in expected
    ]
    most = sorted(
        rows, key=lambda row: (-max(row["won"], row["wouldWin"] or 0), -row["fit"], natural_sort_key(row["node"]))
    )
    listed = sorted(most[:MAX_NODES], key=lambda row: (-row["won"], natural_sort_key(row["node"])))
    moves = [_move(r, w) for r, w in zip(sample, reweighed, strict=bool(weights)) if not w.stays]
    return {
        "apiVersion": API_VERSION,
        "kind": "Balance",
        "metadata": {},
        "since": format_timestamp(since_us),
        "to": format_timestamp(until_us),
        "decisions": len(sample),
        "complete": complete,
        "headline": _headline(rows, len(sample), weights, len(moves)) if sample or complete else _UNWEIGHED,
        "plugins": [
            {
                "plugin": p,
                "weight": w,
                "decided": _count_decided(wins, p),
                "movesWithout": moves_without[p],
            }
            for p, w in plugins.items()
        ],
        "overTime": _placements_over_time(sample),
        "otherReasons": {by: n for by, n in _sum_wins(wins).most_common() if by not in plugins},
        "nodes": listed,
        "nodesOmitted": len(rows) - len(listed),
        "weights": dict(weights) or None,
        "moved": len(moves) if weights else None,
        "moves": moves[:MAX_MOVES],
        "movesOmitted": max(0, len(moves) - MAX_MOVES),
    }


def _reweigh(d: Decision, weights: Mapping[str, int]) -> _Reweighed:
    """Return which nodes would be best in a decision with other weights, by plugin.

    Plugins that `weights` omits keep their recorded weight. If nothing was scored, the chosen node stays the winner.
    """
    from herodotus_record.codec import as_numpy  # here, because the plugin has these types without numpy

    assert d.chosen is not None
    feasible = as_numpy(d.rank) > 0
    columns = [
        as_numpy(s.normalized).astype("int64") * weights.get(s.plugin, s.weight)
        for s in d.scores
        if not s.skipped and len(s.normalized)
    ]
    if not columns or not len(d.totals):
        return _Reweighed((d.chosen,), stays=True)
    totals = columns[0].copy()
    for column in columns[1:]:
        totals += column
    best = totals[feasible].max()
    winners = tuple(int(slot) for slot in ((totals == best) & feasible).nonzero()[0])
    return _Reweighed(winners, stays=d.chosen in winners)


def _find_plugins(sample: Iterable[RecordedDecision]) -> dict[str, int]:
    """Return the plugins that scored any decision, with their weight in the newest of them, in the profile's order."""
    weights: dict[str, int] = {}
    for r in sample:
        for s in r.decision.scores:
            if not s.skipped:
                weights.setdefault(s.plugin, s.weight)
    return weights


def _count_wins(sample: Iterable[RecordedDecision]) -> dict[str, Counter[str]]:
    """Return, for each chosen node, how often each factor (a plugin, or a tie) decided for it."""
    wins: dict[str, Counter[str]] = {}
    for r in sample:
        wins.setdefault(_chosen(r), Counter())[find_deciding_factor(r.decision).by] += 1
    return wins


def _expect_wins(sample: Iterable[RecordedDecision]) -> dict[str, float]:
    """Return how many wins each node would have if every decision had been drawn among its feasible nodes.

    A node that was never feasible has 0.
    """
    expected: dict[str, float] = {}
    for r in sample:
        names, rank = r.table.names, r.decision.rank
        share = 1 / r.decision.nodes_feasible
        for slot, name in enumerate(names[: len(rank)]):
            if name:
                expected[name] = expected.get(name, 0.0) + (share if rank[slot] else 0.0)
    return expected


def _count_fits(sample: Iterable[RecordedDecision]) -> Counter[str]:
    fits: Counter[str] = Counter()
    for r in sample:
        fits.update(r.table.names[slot] for slot, rank in enumerate(r.decision.rank) if rank)
    return fits


def _count_reweighed_wins(sample: Iterable[RecordedDecision], reweighed: Iterable[_Reweighed]) -> dict[str, float]:
    """Return how often each node would win with the other weights.

    A decision whose recorded winner is still among the best counts for that node. Otherwise, the best nodes share it
    evenly.
    """
    wins: dict[str, float] = {}
    for r, w in zip(sample, reweighed, strict=False):
        winners = [_chosen(r)] if w.stays else [r.table.names[slot] for slot in w.best]
        for name in winners:
            wins[name] = wins.get(name, 0.0) + 1 / len(winners)
    return wins


def list_plugins_that_change_winner(decision: Decision) -> tuple[str, ...]:
    """Return the plugins without whose scores another node would win than the chosen one.

    There is none if the chosen node does not win with the recorded weights either, because another scheduler chose it.
    """
    if not _reweigh(decision, {}).stays:
        return ()
    return tuple([s.plugin for s in decision.scores if not s.skipped and find_winners_without(decision, s.plugin)])


def find_winners_without(decision: Decision, plugin: str) -> tuple[int, ...]:
    """Return the slots of the nodes that would be best without the plugin's scores; () if the chosen node is one."""
    without = _reweigh(decision, {plugin: 0})
    return () if without.stays else without.best


def _placements_over_time(sample: Sequence[RecordedDecision]) -> list[PlacementSpan]:
    """Return, as JSON, the placements in consecutive spans of equal length, oldest first.

    `most` is the highest number of placements on one node in that span.
    """
    starts = [r.decision.times.started_us for r in sample]
    if not starts:
        return []
    first, length = min(starts), (max(starts) - min(starts)) // MAX_SPANS + 1
    won: list[Counter[str]] = [Counter() for _ in range((max(starts) - first) // length + 1)]
    for r, start in zip(sample, starts, strict=True):
        won[(start - first) // length][_chosen(r)] += 1
    return [
        {
            "from": format_timestamp(first + n * length),
            "placed": sum(nodes.values()),
            "nodes": len(nodes),
            "most": max(nodes.values(), default=0),
        }
        for n, nodes in enumerate(won)
    ]


def _move(r: RecordedDecision, w: _Reweighed) -> MovedPlacement:
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


def _chosen(r: RecordedDecision) -> str:
    assert r.decision.chosen is not None
    return r.table.names[r.decision.chosen]


def _count_decided(wins: Mapping[str, Counter[str]], by: str) -> int:
    return sum(counter[by] for counter in wins.values())


def _sum_wins(wins: Mapping[str, Counter[str]]) -> Counter[str]:
    return sum(wins.values(), Counter())


def _headline(rows: Sequence[NodeBalance], decisions: int, weights: Mapping[str, int], moved: int) -> str:
    if not decisions:
        return "No pod was placed."
    won = [row for row in rows if row["won"]]
    first = max(won, key=lambda row: (row["won"], row["node"]))
    headline = (
        f"{pluralize(decisions, 'pod')} went to {len(won)} of {pluralize(len(rows), 'node')}. {first['node']} got most:"
        f" {first['won']}, where a draw among the nodes that fit would give {first['expected']:.1f}."
    )
    if not weights:
        return headline
    changed = ", ".join(f"{plugin}={weight}" for plugin, weight in weights.items())
    return f"With {changed}, {moved} of {pluralize(decisions, 'pod')} would have gone elsewhere."
