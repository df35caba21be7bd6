"""Format what happened in one sentence: for a decision, and for one node in it.

Owns: the sentences. Does not own: the ranks, margins and rejections that they report (`explain`, `node_results`), the
sentences on rejected nodes (`rejection_sentences`). Pure.

Invariant: a sentence says only what follows from the record, and names what the record does not hold.
"""

from __future__ import annotations

from herodotus_answers.explain import (
    compare_scores,
    compute_margin,
    count_rejected_by_filter,
    count_tied,
    format_shares,
    rank_slots,
)
from herodotus_answers.node_results import explain_not_evaluated, list_rejections, list_verdicts
from herodotus_answers.rejection_sentences import format_rejections
from herodotus_answers.wording import CAUSES
from herodotus_record import reasons
from herodotus_record.kubernetes_version import find_wording_version
from herodotus_record.model import Cause, Decision, DecisionPath, Evaluation, NodeTable, Source
from herodotus_record.units import pluralize


def format_headline(decision: Decision, table: NodeTable) -> str:
    """Return one sentence about what the decision means for the pod: on which node it is and why, or why on none."""
    if decision.reconstruction is not None and decision.reconstruction.cause is not None:
        return _disagreement(decision, decision.reconstruction.cause, table)
    if decision.chosen is None:
        return _unplaced(decision, table)
    text = _placed(decision, table)
    if decision.key.source is Source.EVALUATED and decision.reconstruction is not None:  # the pod is there already
        return text.replace(": ", ". Evaluated now: ", 1)
    return text


def _placed(decision: Decision, table: NodeTable) -> str:
    """Return the sentence about a node that was chosen: which it is and why."""
    assert decision.chosen is not None
    total, feasible = decision.nodes_total, decision.nodes_feasible
    out_of = f"{decision.nodes_evaluated} evaluated" if "snapshot.nodes" in decision.unknown else str(total)
    node = table.names[decision.chosen]
    if decision.key.source is Source.LOGGED and not decision.scores:
        return _unscored(decision, node)
    if decision.path is DecisionPath.NOMINATED:
        return f"On {node}: nominated by an earlier attempt's preemption, and it fits."
    if decision.path is DecisionPath.ONLY_FEASIBLE:
        looked = f"{decision.nodes_evaluated} evaluated" if decision.nodes_evaluated < total else str(total)
        return f"On {node}: the only node of {looked} that fits; scoring was not needed."
    ahead = compute_margin(decision)
    if ahead is None:
        return f"On {node}: first of {feasible} feasible nodes out of {total}; no plugin scored them."
    if decision.ties:
        return (
            f"On {node}: drawn among {count_tied(decision)} nodes with the best total"
            f" ({decision.totals[decision.chosen]} points), {feasible} feasible nodes out of {out_of}."
        )
    shares = format_shares(ahead.shares)
    return (
        f"On {node}: best of {feasible} feasible nodes out of {out_of},"
        f" {pluralize(ahead.points, 'point')} ahead of {table.names[ahead.runner_up]} ({shares})."
    )


def format_node_headline(decision: Decision, table: NodeTable, slot: int) -> str:
    """Return one sentence about how one node fared in a decision: rejected, ranked or not evaluated, and why."""
    node, feasible = table.names[slot], decision.nodes_feasible
    unseen = explain_not_evaluated(decision, slot)
    if decision.evaluation[slot] == Evaluation.UNRECORDED:
        return f"{node}: {unseen}."
    if unseen:
        return f"{node} was not evaluated: {unseen}."
    against = list_rejections(decision, slot)
    if against:
        which, ran = " and ".join(plugin for plugin, _ in against), len(list_verdicts(decision, slot))
        return f"{node} does not fit: rejected by {which}, {len(against)} of {pluralize(ran, 'filter')}."
    if slot == decision.chosen:
        return format_headline(decision, table)
    if not decision.rank[slot]:
        return f"{node} passed every filter that ran; the attempt ended before it was ranked."
    place = f"{node} fits, and ranks {decision.rank[slot]} of {feasible}"
    best = rank_slots(decision)[0]
    if not len(decision.totals):
        return f"{place}."
    points = decision.totals[best] - decision.totals[slot]
    if points:
        shares = format_shares(compare_scores(decision, slot, best))
        return f"{place}, {pluralize(points, 'point')} behind {table.names[best]} ({shares})."
    chosen = best if decision.chosen is None else decision.chosen
    if count_tied(decision):
        return f"{place} with the best total: {table.names[chosen]} was drawn among {count_tied(decision)} equals."
    if not decision.rank[chosen] or decision.totals[chosen] == decision.totals[slot]:
        return f"{place} with the best total."
    ahead = pluralize(decision.totals[slot] - decision.totals[chosen], "point")
    shares = format_shares(compare_scores(decision, slot, chosen))
    return f"{place}, {ahead} ahead of {table.names[chosen]}, which was chosen ({shares})."


def format_summary(decision: Decision, table: NodeTable) -> str:
    """Return the FailedScheduling message if the pod was rejected, otherwise the sentence of `format_headline`."""
    return decision.message or format_headline(decision, table)


def _disagreement(decision: Decision, cause: Cause, table: NodeTable) -> str:
    """Return the sentence for an outcome of another scheduler that the observer's evaluation does not explain."""
    scheduler, order, slot = decision.scheduler.profile, rank_slots(decision), decision.chosen
    if slot is not None:
        theirs = f"On {table.names[slot]}, by {scheduler}."
    else:
        theirs = f"By {scheduler}: {decision.message.rstrip('.')}."
    if not order:
        ours = "The evaluation finds no node that fits"
    elif slot is None:
        ours = f"The evaluation finds {pluralize(len(order), 'feasible node')}, {table.names[order[0]]} the best"
    elif not decision.rank[slot]:
        which = ", ".join(plugin for plugin, _ in list_rejections(decision, slot)) or "it was not evaluated"
        ours = f"The evaluation finds that it does not fit there ({which})"
    elif decision.rank[slot] == 1:
        ours = "The evaluation prefers it too"
    else:
        points = pluralize(decision.totals[order[0]] - decision.totals[slot], "point")
        lead_of = format_shares(compare_scores(decision, order[0], slot))
        ours = f"The evaluation puts {table.names[order[0]]} {points} ahead ({lead_of})"
    return f"{theirs} {ours}: {CAUSES[cause]}."


def _unscored(decision: Decision, node: str) -> str:
    """Return the sentence for a placement that was read from a log and has no scores."""
    feasible, looked = decision.nodes_feasible, decision.nodes_evaluated
    if "snapshot.feasible" in decision.unknown:
        return f"On {node}: how many nodes fitted, and their scores, are not in the log."
    if decision.path is DecisionPath.ONLY_FEASIBLE:
        return f"On {node}: the only node of {looked} that fits; scoring was not needed."
    if decision.path is DecisionPath.UNKNOWN:
        return f"On {node}: the only node evaluated, and it fits; the log does not say why no other was."
    return f"On {node}: one of {feasible} feasible nodes out of {looked} evaluated; no scores in the log."


def _unplaced(decision: Decision, table: NodeTable) -> str:
    if decision.path is DecisionPath.ERROR:
        return f"The attempt ended in an error: {decision.message}"
    if not decision.nodes_total:
        return "No node fits: the cluster has no nodes, so add one or see why none has joined."
    if decision.pre_filters:
        v = decision.pre_filters[-1]
        why = ", ".join(
            reasons.format_reason(reason, find_wording_version(decision.scheduler.rules))
            for reason in v.verdict.reasons
        )
        return f"No node fits: {v.plugin} rejected the pod before any node was evaluated: {why}."
    counts = count_rejected_by_filter(decision)
    if decision.key.source is Source.LOGGED:
        known, total = sum(counts.values()), decision.nodes_total
        return f"No node fits. The log names the rejecting filter for {known} of {total} nodes."
    if not counts:
        if decision.restricted_by:
            plugins = ", ".join(decision.restricted_by)
            only = ", ".join(decision.restricted_to)
            where = only and f"{only}, which {'are' if ',' in only else 'is'} not in the cluster"
            return f"No node fits: {plugins} restricts the pod to {where or 'nodes that are not in the cluster'}."
        return f"No node fits: none of {decision.nodes_total} nodes was evaluated."
    return format_rejections(decision, table)
