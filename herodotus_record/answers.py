"""The answer document `PodExplanation`: what happened to a pod, as small JSON.

Owns: the document's shape and what a default answer leaves out. Does not own: the questions (`explain`), HTTP, layout.

Invariant: what is left out is counted (`...Omitted`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from herodotus_record import gone_by, reasons
from herodotus_record.document import blank, reconstruction, retry, woken_by
from herodotus_record.explain import (
    Json,
    evaluations,
    margin,
    next_steps,
    ranking,
    rejection_groups,
    state,
    tied,
    verdict_counts,
)
from herodotus_record.headlines import headline, headline_of_node, summary
from herodotus_record.model import (
    API_VERSION,
    NOT_RUN,
    Candidate,
    Code,
    Decision,
    Evaluation,
    NodeTable,
    Outcome,
    PluginVerdict,
)
from herodotus_record.one_node import detail, verdicts, what_would_change
from herodotus_record.pruned import kept, pruned, slot_of
from herodotus_record.units import natural_key, quantities, timestamp

RANKED = 10  # rows of a ranking in a default answer: a screen's worth; the rest is counted
NAMED = 8  # nodes named for one reason in a default answer
_SHARED = {  # fields of the whole record that the answer has elsewhere
    "times.podCreatedAt": "attempt.podCreatedAt",
    "times.queuedAt": "attempt.queuedAt",
    "times.phaseSeconds": "attempt.phaseSeconds",
    "times.queueSeconds": "attempt.queueSeconds",
    "scheduler.profile": "attempt.profile",
    "scheduler.identity": "attempt.scheduler",
    "scheduler.version": "attempt.version",
    "snapshot.nodes": "nodes.total",
    "snapshot.evaluated": "nodes.evaluated",
    "snapshot.feasible": "nodes.feasible",
}
PER_NODE = 20  # up to this many nodes, a default answer lists every node on its own


def pod_explanation(
    decision: Decision, outcomes: Sequence[Outcome], table: NodeTable, *, every_node: bool = False, node: str = ""
) -> Json:
    """The answer to "what happened to this pod": kind PodExplanation.

    `every_node`: nothing is left out, each node on its own. `node`: only that node in `perNode`; KeyError when it was
    not in the cluster at that generation, PrunedError when that is not kept.
    """
    order = ranking(decision)
    shown = _by_name_among_equals(decision, table, order, len(order) if every_node else RANKED)
    told = _told(decision, table, node) if every_node or node or decision.nodes_total <= PER_NODE else None
    answer: Json = {
        "apiVersion": API_VERSION,
        "kind": "PodExplanation",
        "metadata": {"namespace": decision.pod.namespace, "name": decision.pod.name, "uid": decision.pod.uid},
        "pod": _pod(decision),
        "attempt": _attempt(decision),
        "outcome": _outcome(decision, outcomes, table),
        "headline": headline(decision, table),
        "summary": summary(decision, table),
        "message": decision.message,
        "nodes": {
            "total": decision.nodes_total,
            "evaluated": decision.nodes_evaluated,
            "feasible": decision.nodes_feasible,
            "notEvaluated": _not_evaluated(decision),
        },
        "tie": _tie(decision, table),
        "margin": _margin(decision, table),
        "preFilters": [_plugin_verdict(v) for v in decision.pre_filters],
        "narrowedBy": list(decision.narrowed_by),
        "filters": _filters(decision),
        "scorePlugins": [{"plugin": s.plugin, "weight": s.weight, "skipped": s.skipped} for s in decision.scores],
        "inputs": gone_by.sources(decision),
        "ranking": [_ranked(decision, table, slot) for slot in shown],
        "rankingOmitted": len(order) - len(shown) + (decision.nodes_feasible - len(order) if decision.summary else 0),
        "rejections": rejection_groups(decision, table, named=None if every_node else NAMED),
        "preemption": _preemption(decision),
        "postFilters": [_plugin_verdict(v) for v in decision.post_filters],
        "nextSteps": next_steps(decision, table),
        "marks": [*decision.marks, *filter(None, [kept(decision)])],
        "pruned": pruned(decision),
        "reconstruction": reconstruction(decision),
    }
    if told is not None:
        answer["perNode"] = [node_answer(decision, table, slot) for slot in told]
    blank(answer, [_SHARED.get(path, path) for path in decision.unknown if path in _SHARED or path.startswith("pod.")])
    return answer


def _by_name_among_equals(decision: Decision, table: NodeTable, order: Sequence[int], most: int) -> list[int]:
    """The first `most` of a ranking, those of one rank by name behind the chosen one."""
    rank, chosen = decision.rank, decision.chosen
    if most < len(order):
        order = order[: bisect_right(order, rank[order[most - 1]], key=rank.__getitem__)]
    return sorted(order, key=lambda s: (rank[s], s != chosen, natural_key(table.names[s])))[:most]


def _told(decision: Decision, table: NodeTable, node: str) -> list[int]:
    """The slots told one by one: the one of `node`, or all by name. Errors as of `pruned.slot_of`."""
    if node:
        return [slot_of(decision, table, node)]
    present = [slot for slot, e in enumerate(decision.evaluation) if e != Evaluation.ABSENT]
    return sorted(present, key=lambda slot: natural_key(table.names[slot]))


def _pod(decision: Decision) -> Json:
    pod = decision.pod
    return {
        "owner": f"{pod.owner.kind}/{pod.owner.name}" if pod.owner else None,
        "labels": dict(pod.labels),
        "priority": pod.priority,
        "requests": quantities(dict(pod.requests)),
        "nominatedNode": pod.nominated_node or None,
    }


def _attempt(decision: Decision) -> Json:
    key, times = decision.key, decision.times
    return {
        "number": key.attempt,
        "id": decision.id,
        "sequence": decision.sequence,
        "cluster": key.cluster,
        "source": key.source.value,
        "incarnation": key.incarnation,
        "profile": decision.scheduler.profile,
        "scheduler": decision.scheduler.identity,
        "version": decision.scheduler.version,
        "generation": decision.generation,
        "podCreatedAt": timestamp(times.created_us),
        "queuedAt": timestamp(times.queued_us),
        "startedAt": timestamp(times.started_us),
        "phaseSeconds": dict(times.phases_s),
        "queueSeconds": dict(times.queues_s),
        "wokenBy": woken_by(decision),
        "retry": retry(decision),
    }


def _outcome(decision: Decision, outcomes: Sequence[Outcome], table: NodeTable) -> Json:
    return {
        "state": state(decision, outcomes),
        "path": decision.path.value,
        "node": None if decision.chosen is None else table.names[decision.chosen],
        "final": decision.final or any(o.final for o in outcomes),
        "phases": [
            {
                "phase": o.phase,
                "status": o.status.label,
                "message": o.message,
                "at": timestamp(o.at_us),
                "durationSeconds": o.duration_s,
            }
            for o in outcomes
        ],
    }


def _not_evaluated(decision: Decision) -> Json:
    """Nodes that no filter looked at, counted by why. Of those that are not recorded it is not known."""
    told = (Evaluation.EVALUATED.label, Evaluation.ABSENT.label, Evaluation.UNRECORDED.label)
    return {label: nodes for label, nodes in evaluations(decision).items() if label not in told}


def _preemption(decision: Decision) -> Json | None:
    found = decision.preemption
    if found is None:
        return None

    def nearest(c: Candidate) -> tuple[bool, bool, object]:
        return c.node != found.nominated, bool(c.refused_by), natural_key(c.node)

    return {
        "nominatedNode": found.nominated or None,
        "evicted": found.evicted,
        "candidates": [_candidate(c) for c in sorted(found.candidates, key=nearest)[:NAMED]],
        "candidatesOmitted": max(0, len(found.candidates) - NAMED),
    }


def _candidate(c: Candidate) -> Json:
    return {
        "node": c.node,
        "victims": list(c.victims),
        "pdbViolations": c.pdb_violations,
        "refusedBy": c.refused_by or None,
    }


def _tie(decision: Decision, table: NodeTable) -> Json | None:
    if not decision.ties:
        return None
    seed = None if "seed" in decision.unknown else decision.seed
    names = sorted((table.names[s] for s in decision.ties), key=natural_key)
    return {"nodes": names, "nodesOmitted": tied(decision) - len(names), "seed": seed}


def _margin(decision: Decision, table: NodeTable) -> Json | None:
    ahead = margin(decision)
    if ahead is None:
        return None
    return {"points": ahead.points, "runnerUp": table.names[ahead.runner_up], "shares": dict(ahead.shares)}


def _filters(decision: Decision) -> list[Json]:
    rows = []
    evaluated = evaluations(decision).get(Evaluation.EVALUATED.label, 0)
    for f, counts in zip(decision.filters, verdict_counts(decision), strict=True):
        rejected = sum(n for n, v in zip(counts, f.verdicts, strict=True) if v.against)
        not_run = sum(n for n, v in zip(counts, f.verdicts, strict=True) if v == NOT_RUN)
        ran = 0 if f.skipped else evaluated - not_run
        rows.append({"plugin": f.plugin, "skipped": f.skipped, "passed": ran - rejected, "rejected": rejected})
    return rows


def _ranked(decision: Decision, table: NodeTable, slot: int) -> Json:
    row: Json = {
        "rank": decision.rank[slot],
        "node": table.names[slot],
        "chosen": slot == decision.chosen,
        "total": decision.totals[slot] if len(decision.totals) else None,
    }
    row["scores"] = {
        s.plugin: {
            "raw": s.raw[slot] if len(s.raw) else None,
            "normalized": s.normalized[slot],
            "weighted": s.normalized[slot] * s.weight,
        }
        for s in decision.scores
        if not s.skipped and len(s.normalized)
    }
    return row | gone_by.of_node(decision, slot)


def node_answer(decision: Decision, table: NodeTable, slot: int) -> Json:
    """Everything about one node: each filter's verdict, its rank, its scores, what would have to change.

    `eviction`: what preemption would evict there; None where it would not help or was not looked for.
    """
    said = verdicts(decision, slot)
    name = table.names[slot]
    candidates = decision.preemption.candidates if decision.preemption else ()
    unranked = {"node": name, "chosen": False} | gone_by.of_node(decision, slot)
    answer = _ranked(decision, table, slot) if decision.rank[slot] else unranked
    answer |= {
        "headline": headline_of_node(decision, table, slot),
        "evaluation": Evaluation(decision.evaluation[slot]).label,
        "feasible": bool(decision.rank[slot]),
        "passed": [plugin for plugin, verdict in said if verdict.code is Code.SUCCESS],
        "skipped": [f.plugin for f in decision.filters if f.skipped],
        "rejectedBy": [
            {
                "plugin": plugin,
                "code": verdict.code.label,
                "reasons": [detail(decision, table, slot, reason) for reason in verdict.reasons],
            }
            for plugin, verdict in said
            if verdict.code is not Code.SUCCESS
        ],
        "toMakeItFeasible": what_would_change(decision, table, slot),
        "eviction": next((_candidate(c) for c in candidates if c.node == name), None),
    }
    return answer


def _plugin_verdict(v: PluginVerdict) -> Json:
    return {
        "plugin": v.plugin,
        "code": v.verdict.code.label,
        "reasons": [reasons.sentence(reason) for reason in v.verdict.reasons],
    }
