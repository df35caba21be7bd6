"""Build the answer document `PodExplanation`: what happened to a pod, as small JSON.

Owns: the document's shape, and what a default answer omits. Does not own: how questions are answered (`explain`), HTTP,
layout.

Invariant: everything that a default answer omits is counted (`...Omitted`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from herodotus_answers import suggestions
from herodotus_answers.decision import (
    build_group_cycle,
    build_reconstruction,
    build_repeats,
    build_requeue_event,
    build_retry,
    read_node_groups,
    set_unknown_to_null,
)
from herodotus_answers.devices import build_device_shortage, build_devices
from herodotus_answers.explain import (
    Json,
    compute_margin,
    count_evaluations,
    count_tied,
    count_verdicts,
    derive_state,
    group_rejections,
    list_possible_changes,
    rank_slots,
)
from herodotus_answers.headlines import format_headline, format_node_headline, format_summary
from herodotus_answers.node_results import (
    build_reason_detail,
    is_evaluated,
    list_possible_node_changes,
    list_verdicts,
)
from herodotus_answers.pruned import build_pruned, describe_kept, find_slot
from herodotus_record import notes, reasons
from herodotus_record.kubernetes_version import find_wording_version
from herodotus_record.model import (
    ADDITIONS,
    API_VERSION,
    NODE_GROUPS_PHASE,
    NOT_RUN,
    Candidate,
    Code,
    Decision,
    Evaluation,
    Inputs,
    NodeTable,
    Outcome,
    PluginVerdict,
    SchedulerInfo,
)
from herodotus_record.units import format_quantities, format_timestamp, natural_sort_key

MAX_RANKED = 10  # rows of the ranking in a default answer, enough to fill a screen
MAX_NAMED = 8  # nodes listed for one reason in a default answer
_SHARED = {  # fields of the whole record that have another path in the answer
    "times.podCreatedAt": "attempt.podCreatedAt",
    "times.queuedAt": "attempt.queuedAt",
    "times.phaseSeconds": "attempt.phaseSeconds",
    "times.queueSeconds": "attempt.queueSeconds",
    "scheduler.profile": "attempt.profile",
    "scheduler.identity": "attempt.scheduler",
    "scheduler.version": "attempt.version",
    "scheduler.rules": "attempt.rules",
    "scheduler.rulesSource": "attempt.rulesSource",
    "snapshot.nodes": "nodes.total",
    "snapshot.evaluated": "nodes.evaluated",
    "snapshot.feasible": "nodes.feasible",
}
MAX_PER_NODE = 20  # up to this many nodes, a default answer lists every node separately


def build_pod_explanation(
    decision: Decision, outcomes: Sequence[Outcome], table: NodeTable, *, every_node: bool = False, node: str = ""
) -> Json:
    """Return the JSON document of kind PodExplanation, which answers "what happened to this pod".

    With `every_node` nothing is omitted and each node is listed separately. With `node`, `perNode` holds only that
    node. Raises KeyError if the node was not in the cluster at that generation, PrunedError if its entries are no
    longer kept.
    """
    order = rank_slots(decision)
    shown = _by_name_among_equals(decision, table, order, len(order) if every_node else MAX_RANKED)
    listed = (
        _slots_to_list(decision, table, node) if every_node or node or decision.nodes_total <= MAX_PER_NODE else None
    )
    answer: Json = {
        "apiVersion": API_VERSION,
        "kind": "PodExplanation",
        "metadata": {"namespace": decision.pod.namespace, "name": decision.pod.name, "uid": decision.pod.uid},
        "pod": _pod(decision),
        "attempt": _attempt(decision, outcomes),
        "outcome": _outcome(decision, outcomes, table),
        "headline": format_headline(decision, table),
        "summary": format_summary(decision, table),
        "message": decision.message,
        "nodes": {
            "total": decision.nodes_total,
            "evaluated": decision.nodes_evaluated,
            "feasible": decision.nodes_feasible,
            "notEvaluated": _not_evaluated(decision),
        },
        "tie": _tie(decision, table),
        "margin": _margin(decision, table),
        "preFilters": [_plugin_verdict(v, decision.scheduler) for v in decision.pre_filters],
        "restrictedBy": list(decision.restricted_by),
        "filters": _filters(decision),
        "scorePlugins": [{"plugin": s.plugin, "weight": s.weight, "skipped": s.skipped} for s in decision.scores],
        "inputs": list_sources(decision),
        "ranking": [_ranked(decision, table, slot) for slot in shown],
        "rankingOmitted": len(order) - len(shown) + (decision.nodes_feasible - len(order) if decision.summary else 0),
        "rejections": group_rejections(decision, table, named=None if every_node else MAX_NAMED),
        "preemption": _preemption(decision),
        "postFilters": [_plugin_verdict(v, decision.scheduler) for v in decision.post_filters],
        "possibleChanges": list_possible_changes(decision, table),
        "suggestions": suggestions.build_suggestions(decision),
        "devices": build_devices(decision),
        "deviceShortage": build_device_shortage(decision, table),
        "notes": [*notes.format_decision_notes(decision), *filter(None, [describe_kept(decision)])],
        "pruned": build_pruned(decision),
        "reconstruction": build_reconstruction(decision),
    }
    recorded = find_node_groups(outcomes)
    if recorded is not None:
        answer["nodeGroups"] = recorded
    if listed is not None:
        answer["perNode"] = [explain_node(decision, table, slot) for slot in listed]
    set_unknown_to_null(
        answer, [_SHARED.get(path, path) for path in decision.unknown if path in _SHARED or path.startswith("pod.")]
    )
    return answer


def _by_name_among_equals(decision: Decision, table: NodeTable, order: Sequence[int], most: int) -> list[int]:
    """Return the first `most` slots of the ranking `order`, with nodes of equal rank sorted by name.

    The chosen node stays before the others of its rank.
    """
    rank, chosen = decision.rank, decision.chosen
    if most < len(order):
        order = order[: bisect_right(order, rank[order[most - 1]], key=rank.__getitem__)]
    return sorted(order, key=lambda s: (rank[s], s != chosen, natural_sort_key(table.names[s])))[:most]


def _slots_to_list(decision: Decision, table: NodeTable, node: str) -> list[int]:
    """Return the slots of the nodes to explain separately: that of `node`, or all in the order of node names.

    A slot is a node's index in the node table. Raises KeyError if `node` is not in it.
    """
    if node:
        return [find_slot(decision, table, node)]
    present = [slot for slot, e in enumerate(decision.evaluation) if e != Evaluation.ABSENT]
    return sorted(present, key=lambda slot: natural_sort_key(table.names[slot]))


def _pod(decision: Decision) -> Json:
    pod = decision.pod
    return {
        "owner": f"{pod.owner.kind}/{pod.owner.name}" if pod.owner else None,
        "labels": dict(pod.labels),
        "priority": pod.priority,
        "requests": format_quantities(dict(pod.requests)),
        "nominatedNode": pod.nominated_node or None,
        "podGroup": pod.pod_group or None,
    }


def _attempt(decision: Decision, outcomes: Sequence[Outcome]) -> Json:
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
        "rules": decision.scheduler.rules,
        "rulesSource": decision.scheduler.rules_source,
        "generation": decision.generation,
        "podCreatedAt": format_timestamp(times.created_us),
        "queuedAt": format_timestamp(times.queued_us),
        "startedAt": format_timestamp(times.started_us),
        "phaseSeconds": dict(times.phases_s),
        "queueSeconds": dict(times.queues_s),
        "requeuedBy": build_requeue_event(decision),
        "retry": build_retry(decision),
        "podGroupCycle": build_group_cycle(decision),
        "repeats": build_repeats(outcomes),
    }


def _outcome(decision: Decision, outcomes: Sequence[Outcome], table: NodeTable) -> Json:
    return {
        "state": derive_state(decision, outcomes),
        "path": decision.path.value,
        "node": None if decision.chosen is None else table.names[decision.chosen],
        "final": decision.final or any(o.final for o in outcomes),
        "phases": [
            {
                "phase": o.phase,
                "status": o.status.label,
                "message": notes.format_outcome_message(o),
                "at": format_timestamp(o.at_us),
                "durationSeconds": o.duration_s,
            }
            for o in outcomes
            if o.phase not in ADDITIONS
        ],
    }


def find_node_groups(outcomes: Sequence[Outcome]) -> Json | None:
    """Return the newest verdicts of node groups among the outcomes, or None if none can be read.

    The document has the form of an answer about node groups, with `recordedAt` and the number of `omittedGroups`.
    """
    recorded = [o for o in outcomes if o.phase == NODE_GROUPS_PHASE and o.node_groups]
    if not recorded:
        return None
    newest = max(recorded, key=lambda o: o.at_us)
    groups = read_node_groups(newest) or {}
    try:
        more = {"notes": groups["notes"], "omittedGroups": groups["omitted"]}
        return {**groups["review"], **more, "recordedAt": format_timestamp(newest.at_us)}
    except (KeyError, TypeError):
        return None


def _not_evaluated(decision: Decision) -> Json:
    """Return how many nodes were not evaluated, by the label of the reason.

    Nodes whose evaluation the record does not hold are not counted.
    """
    excluded = (Evaluation.EVALUATED.label, Evaluation.ABSENT.label, Evaluation.UNRECORDED.label)
    return {label: nodes for label, nodes in count_evaluations(decision).items() if label not in excluded}


def _preemption(decision: Decision) -> Json | None:
    preemption = decision.preemption
    if preemption is None:
        return None

    def nearest(c: Candidate) -> tuple[bool, bool, object]:
        return c.node != preemption.nominated_node, bool(c.rejected_by), natural_sort_key(c.node)

    return {
        "nominatedNode": preemption.nominated_node or None,
        "evicted": preemption.evicted,
        "candidates": [_candidate(c) for c in sorted(preemption.candidates, key=nearest)[:MAX_NAMED]],
        "candidatesOmitted": max(0, len(preemption.candidates) - MAX_NAMED),
    }


def _candidate(c: Candidate) -> Json:
    return {
        "node": c.node,
        "victims": list(c.victims),
        "pdbViolations": c.pdb_violations,
        "rejectedBy": c.rejected_by or None,
    }


def _tie(decision: Decision, table: NodeTable) -> Json | None:
    if not decision.ties:
        return None
    seed = None if "seed" in decision.unknown else decision.seed
    names = sorted((table.names[s] for s in decision.ties), key=natural_sort_key)
    return {"nodes": names, "nodesOmitted": count_tied(decision) - len(names), "seed": seed}


def _margin(decision: Decision, table: NodeTable) -> Json | None:
    margin = compute_margin(decision)
    if margin is None:
        return None
    return {"points": margin.points, "runnerUp": table.names[margin.runner_up], "shares": dict(margin.shares)}


def _filters(decision: Decision) -> list[Json]:
    rows = []
    evaluated = count_evaluations(decision).get(Evaluation.EVALUATED.label, 0)
    for f, counts in zip(decision.filters, count_verdicts(decision), strict=True):
        rejected = sum(n for n, v in zip(counts, f.verdicts, strict=True) if v.rejects_node)
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
    return row | build_node_inputs(decision, slot)


def explain_node(decision: Decision, table: NodeTable, slot: int) -> Json:
    """Return, as JSON, how one node fared: each filter's verdict, its rank and scores, and what would make it feasible.

    `eviction` is what preemption would evict there, or None if that would not help or preemption did not run.
    """
    verdicts = list_verdicts(decision, slot)
    name = table.names[slot]
    candidates = decision.preemption.candidates if decision.preemption else ()
    unranked = {"node": name, "chosen": False} | build_node_inputs(decision, slot)
    answer = _ranked(decision, table, slot) if decision.rank[slot] else unranked
    answer |= {
        "headline": format_node_headline(decision, table, slot),
        "evaluation": Evaluation(decision.evaluation[slot]).label,
        "feasible": bool(decision.rank[slot]),
        "passed": [plugin for plugin, verdict in verdicts if verdict.code is Code.SUCCESS],
        "skipped": [f.plugin for f in decision.filters if f.skipped],
        "rejectedBy": [
            {
                "plugin": plugin,
                "code": verdict.code.label,
                "reasons": [build_reason_detail(decision, table, slot, reason) for reason in verdict.reasons],
            }
            for plugin, verdict in verdicts
            if verdict.code is not Code.SUCCESS
        ],
        "possibleChanges": list_possible_node_changes(decision, table, slot),
        "eviction": next((_candidate(c) for c in candidates if c.node == name), None),
    }
    return answer


def _plugin_verdict(v: PluginVerdict, scheduler: SchedulerInfo) -> Json:
    version = find_wording_version(scheduler.rules)
    return {
        "plugin": v.plugin,
        "code": v.verdict.code.label,
        "reasons": [reasons.format_reason(reason, version) for reason in v.verdict.reasons],
    }


def list_sources(decision: Decision) -> list[Json]:
    """Return the sources of each plugin's measurements, with the names and units of what was measured, as JSON."""
    return [
        {
            "plugin": inputs.plugin,
            "source": inputs.source,
            "numbers": [{"name": n.name, "unit": n.unit, "digits": n.digits} for n in inputs.numbers],
        }
        for inputs in decision.inputs
    ]


def build_node_inputs(decision: Decision, slot: int) -> Json:
    """Return a node's measurements as the JSON field `inputs`: one entry for each source, ordered as `list_sources`.

    Returns an empty dict if the decision has no measurements or the node was not evaluated.
    """
    if not decision.inputs or not is_evaluated(decision, slot):
        return {}
    return {"inputs": [_node_entry(inputs, slot) for inputs in decision.inputs]}


def _node_entry(inputs: Inputs, slot: int) -> Json:
    measured_s = inputs.measured_s(slot)
    return {
        "plugin": inputs.plugin,
        "values": {number.name: number.value_at(slot) for number in inputs.numbers},
        "measuredAt": format_timestamp(measured_s * 1_000_000) if measured_s else None,
        "stale": bool(len(inputs.stale) and inputs.stale[slot]),
    }
