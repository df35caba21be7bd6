"""The answer documents `NodeComparison` (two nodes for one pod) and `PodComparison` (two pods, often siblings).

Owns: the documents' shapes and their sentences. Does not own: what is said of one node (`answers`, `one_node`), what is
different between two decisions (`changes`). Pure.

Invariant: both sides are told in the order in which they were asked for; differences run from the earlier decision to
the later one.
"""

from __future__ import annotations

from collections.abc import Sequence

from herodotus_record.answers import node_answer
from herodotus_record.changes import Json, Recorded, changes
from herodotus_record.explain import lead, ranking, signed, state, weighted
from herodotus_record.headlines import headline, headline_of_node
from herodotus_record.model import API_VERSION, Decision, Evaluation
from herodotus_record.one_node import count, detail, evaluated, rejections, verdicts, why_not_evaluated
from herodotus_record.pruned import NOT_KEPT, kept, slot_of
from herodotus_record.units import quantities, timestamp

TELLING = 3  # of each pod's best nodes, those that are shown for both


def node_comparison(of: Recorded, nodes: Sequence[str]) -> Json:
    """Two nodes for one pod: kind NodeComparison.

    KeyError with the name of a node that was not in the cluster; PrunedError where that is not kept.
    """
    d, table = of.decision, of.table
    a, b = slots = [slot_of(d, table, node) for node in nodes]
    sides = [dict(verdicts(d, slot)) for slot in slots]
    scored = [s.plugin for s in d.scores if not s.skipped and len(s.normalized)] if d.rank[a] and d.rank[b] else []
    points = [weighted(d, slot) for slot in slots]
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeComparison",
        "metadata": {"namespace": d.pod.namespace, "name": d.pod.name, "uid": d.pod.uid},
        "attempt": _attempt(d),
        "headline": _headline_of_nodes(of, a, b),
        "nodes": [node_answer(d, table, slot) for slot in slots],
        "filters": [
            {"plugin": f.plugin, "verdicts": [_word(f.plugin, side, f.skipped) for side in sides]} for f in d.filters
        ],
        "scores": [
            {
                "plugin": plugin,
                "weight": next(s.weight for s in d.scores if s.plugin == plugin),
                "points": [side[plugin] for side in points],
                "difference": points[0][plugin] - points[1][plugin],
            }
            for plugin in scored
        ],
        "totals": [d.totals[slot] for slot in slots] if scored else None,
    }


def pod_comparison(pods: Sequence[Recorded]) -> Json:
    """Two pods, each as of its attempt: kind PodComparison."""
    earlier, later = sorted(pods, key=lambda p: p.decision.times.started_us)
    first, second = pods
    return {
        "apiVersion": API_VERSION,
        "kind": "PodComparison",
        "metadata": {"namespace": first.decision.pod.namespace, "name": first.decision.pod.name},
        "headline": _headline_of_pods(earlier, later),
        "sameQuestion": first.decision.pod.digest == second.decision.pod.digest != "",
        "secondsApart": (later.decision.times.started_us - earlier.decision.times.started_us) / 1e6,
        "pods": [_pod(pod) for pod in pods],
        "differences": {
            "from": earlier.decision.pod.name,
            "to": later.decision.pod.name,
            "changes": changes(earlier, later),
        },
        "nodes": [{"node": node, "pods": [_standing(pod, node) for pod in pods]} for node in _telling(pods)],
    }


def _headline_of_nodes(of: Recorded, a: int, b: int) -> str:
    d, names = of.decision, of.table.names
    if not (d.rank[a] and d.rank[b] and len(d.totals)):
        return " ".join(dict.fromkeys(headline_of_node(d, of.table, slot) for slot in (a, b)))
    best, other = sorted((a, b), key=lambda slot: (d.rank[slot], slot != d.chosen))
    points = d.totals[best] - d.totals[other]
    if not points:
        drawn = f"; {names[best]} was drawn" if best == d.chosen else ""
        return f"{names[best]} and {names[other]} are equal: rank {d.rank[best]}, {d.totals[best]} points{drawn}."
    return (
        f"{names[best]} (rank {d.rank[best]}) is {count(points, 'point')} ahead of {names[other]}"
        f" (rank {d.rank[other]}): {signed(lead(d, best, other))}."
    )


def _headline_of_pods(earlier: Recorded, later: Recorded) -> str:
    before, after = _where(earlier), _where(later)
    names = earlier.decision.pod.name, later.decision.pod.name
    if before is None and after is None:
        return f"Neither is placed. {names[0]}: {headline(earlier.decision, earlier.table)}"
    if before == after:
        return f"Both are on {before}. For {names[1]}: {headline(later.decision, later.table)}"
    told = f"{names[0]} {_placed(before)}, {names[1]} {_placed(after)}."
    if before is None:
        return f"{told} {_fate(earlier, str(after))}"
    return f"{told} {_fate(later, before)}"


def _where(of: Recorded) -> str | None:
    return None if of.decision.chosen is None else of.table.names[of.decision.chosen]


def _placed(node: str | None) -> str:
    return "fits nowhere" if node is None else f"is on {node}"


def _fate(of: Recorded, node: str) -> str:
    """What became of the other pod's node when this one was decided."""
    d = of.decision
    slot = of.table.slot_of(node)
    when = f"When {d.pod.name} was decided, {node}"
    if slot is None and d.summary:
        return f"Of {node} nothing is kept for {d.pod.name}: {kept(d)}."
    if slot is None or d.evaluation[slot] == Evaluation.ABSENT:
        return f"{when} was not in the cluster."
    if not evaluated(d, slot):
        return f"{when} was not looked at: {why_not_evaluated(d, slot)}."
    against = rejections(d, slot)
    if against:
        plugin, verdict = against[0]
        why = ", ".join(detail(d, of.table, slot, reason)["text"] for reason in verdict.reasons)
        return f"{when} did not fit: {plugin}{', ' if why else ''}{why}."
    if not d.rank[slot]:
        return f"{when} passed every filter that ran; the attempt ended before it was ranked."
    if not len(d.totals):
        return f"{when} fitted too; nothing was scored."
    best = ranking(d)[0]
    points = d.totals[best] - d.totals[slot]
    if not points:
        return f"{when} had the same total as {of.table.names[best]}, which was drawn."
    behind = f"{count(points, 'point')} behind {of.table.names[best]}"
    return f"{when} ranked {d.rank[slot]}, {behind} ({signed(lead(d, slot, best))})."


def _pod(of: Recorded) -> Json:
    d = of.decision
    return {
        "namespace": d.pod.namespace,
        "name": d.pod.name,
        "uid": d.pod.uid,
        "owner": f"{d.pod.owner.kind}/{d.pod.owner.name}" if d.pod.owner else None,
        "priority": d.pod.priority,
        "requests": quantities(dict(d.pod.requests)),
        "attempt": _attempt(d),
        "state": state(d, of.outcomes),
        "node": _where(of),
        "nodes": {"total": d.nodes_total, "evaluated": d.nodes_evaluated, "feasible": d.nodes_feasible},
        "headline": headline(d, of.table),
    }


def _attempt(d: Decision) -> Json:
    return {"number": d.key.attempt, "id": d.id, "startedAt": timestamp(d.times.started_us)}


def _telling(pods: Sequence[Recorded]) -> list[str]:
    """The nodes that were chosen, then the best of both pods."""
    best = [[p.table.names[slot] for slot in ranking(p.decision)[:TELLING]] for p in pods]
    return list(dict.fromkeys([*(names[0] for names in best if names), *(name for names in best for name in names)]))


def _standing(of: Recorded, node: str) -> Json:
    """How one node stood for a pod; all None where it was not in the cluster."""
    d = of.decision
    slot = of.table.slot_of(node)
    if slot is None and d.summary:
        unknown = Evaluation.UNRECORDED.label
        return {
            "evaluation": unknown,
            "rejectedBy": None,
            "why": NOT_KEPT,
            "rank": None,
            "total": None,
            "chosen": False,
        }
    if slot is None or d.evaluation[slot] == Evaluation.ABSENT:
        return {"evaluation": None, "rejectedBy": None, "why": None, "rank": None, "total": None, "chosen": False}
    against = rejections(d, slot)
    why = [detail(d, of.table, slot, reason)["text"] for _, v in against[:1] for reason in v.reasons]
    return {
        "evaluation": Evaluation(d.evaluation[slot]).label,
        "rejectedBy": against[0][0] if against else None,
        "why": ", ".join(why) or why_not_evaluated(d, slot) or None,
        "rank": d.rank[slot] or None,
        "total": d.totals[slot] if d.rank[slot] and len(d.totals) else None,
        "scores": weighted(d, slot) if d.rank[slot] else {},
        "chosen": slot == d.chosen,
    }


def _word(plugin: str, said: Json, skipped: bool) -> str:
    """A filter's verdict on one node: pass, reject, skipped, or not-run."""
    if skipped:
        return "skipped"
    if plugin not in said:
        return "not-run"
    return "reject" if said[plugin].against else "pass"
