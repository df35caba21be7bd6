"""What happened, in one sentence: of a decision, of one node in it.

Owns: the sentences. Does not own: what they say of ranks, margins and rejections (`explain`, `one_node`). Pure.

Invariant: a sentence says nothing that the record does not say; of what is not recorded it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herodotus_record import reasons
from herodotus_record.explain import (
    first_rejections,
    lead,
    margin,
    nearest_of,
    ranking,
    rejected_by,
    signed,
    tied,
)
from herodotus_record.model import Cause, Decision, Evaluation, NodeTable, Path, Source
from herodotus_record.one_node import count, detail, rejections, verdicts, why_not_evaluated
from herodotus_record.wording import CAUSES

Json = dict[str, Any]


def headline(decision: Decision, table: NodeTable) -> str:
    """What happened, in one sentence."""
    total, feasible = decision.nodes_total, decision.nodes_feasible
    out_of = f"{decision.nodes_evaluated} that were looked at" if "snapshot.nodes" in decision.unknown else str(total)
    if decision.reconstruction is not None and decision.reconstruction.cause is not None:
        return _otherwise(decision, decision.reconstruction.cause, table)
    if decision.chosen is None:
        return _unplaced(decision, table)
    node = table.names[decision.chosen]
    if decision.key.source is Source.LOGGED and not decision.scores:
        return _unscored(decision, node)
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


def summary(decision: Decision, table: NodeTable) -> str:
    """One line: the FailedScheduling event's message where the pod was not placed, otherwise the headline."""
    return decision.message or headline(decision, table)


def _otherwise(decision: Decision, cause: Cause, table: NodeTable) -> str:
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


def _unscored(decision: Decision, node: str) -> str:
    """Of a log that has no scores, or whose only feasible node needed none."""
    feasible, looked = decision.nodes_feasible, decision.nodes_evaluated
    if "snapshot.feasible" in decision.unknown:
        return f"On {node}: how many nodes fitted, and their scores, are not in the log."
    if decision.path is Path.ONLY_FEASIBLE:
        return f"On {node}: the only node of {looked} that fits; scoring was not needed."
    if decision.path is Path.UNKNOWN:
        return f"On {node}: the one node that was looked at, and it fits; why no other was is not in the log."
    return f"On {node}: one of {feasible} feasible nodes out of {looked} that were looked at; no scores in the log."


def _unplaced(decision: Decision, table: NodeTable) -> str:
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
    who = "The only node is" if looked == 1 else f"{nodes} of {looked} nodes {'is' if nodes == 1 else 'are'}"
    said = f"No node fits. {who} rejected first by {plugin}"
    if not slots:
        return f"{said}."
    (nearest,) = nearest_of(decision, table, slots, 1)
    verdict = decision.filters[position].verdicts[decision.filters[position].ids[nearest]]
    details = [detail(decision, table, nearest, reason) for reason in verdict.reasons]
    words = ", ".join(d["text"] for d in details) or "it gave no reason"  # an extender need not
    where = f" on {table.names[nearest]}{', the nearest' if nodes > 1 else ''}" if _numeric(details) else ""
    narrowed = f" Only {looked} of {decision.nodes_total} may be used ({', '.join(decision.narrowed_by)})."
    return f"{said}: {words}{where}." + (narrowed if decision.narrowed_by else "")


def _numeric(details: Sequence[Json]) -> bool:
    """Whether a reason has numbers of one node, of which another may have more."""
    return any(d.get("allocatable") for d in details)
