"""Builders of records for tests: `a_decision()` is a placed pod on a small cluster; each argument changes one thing."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from herodotus_record import reasons
from herodotus_record.model import (
    SUCCESS,
    AttemptKey,
    Code,
    Decision,
    DecisionPath,
    Evaluation,
    FilterColumn,
    NodeTable,
    Outcome,
    Owner,
    PluginVerdict,
    Reason,
    RecordedPod,
    SchedulerInfo,
    ScoreColumn,
    Source,
    Times,
    Verdict,
)

CLUSTER = "00000000-0000-4000-8000-00000000c1c1"
INCARNATION = "00000000-0000-4000-8000-0000000000aa"
FILTERS = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit")
SCORES = {"TaintToleration": 3, "NodeResourcesFit": 1, "ImageLocality": 1}
MONDAY_US = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z

INSUFFICIENT_CPU = Verdict(Code.UNSCHEDULABLE, (Reason("insufficient", {"resource": "cpu"}),))
CORDONED = Verdict(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (Reason("unschedulable"),))
TAINTED = Verdict(
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    (Reason("untolerated-taint", {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}),),
)


def a_table(
    nodes: Sequence[str], cpu: int = 8000, used: Mapping[str, int] | None = None, generation: int = 7
) -> NodeTable:
    """Return a node table: each node has `cpu` milli with `used[name]` requested, 32Gi of memory and 110 pods."""
    used = used or {}
    return NodeTable(
        generation=generation,
        names=list(nodes),
        uids=[f"uid-{n}" if n else "" for n in nodes],
        since=[0] * len(nodes),
        allocatable=[{"cpu": cpu, "memory": 32 << 30, "pods": 110} if n else {} for n in nodes],
        requested=[{"cpu": used.get(n, 0), "memory": 0, "pods": 3} if n else {} for n in nodes],
    )


def a_decision(
    *,
    pod: str = "checkout-7d9f-x2k",
    namespace: str = "shop",
    uid: str = "",
    nodes: Sequence[str] = ("worker-1", "worker-2", "worker-3"),
    rejected: Mapping[str, Mapping[str, Verdict]] | None = None,
    points: Mapping[str, Mapping[str, int]] | None = None,
    attempt: int = 1,
    sequence: int = 1,
    incarnation: str = INCARNATION,
    cluster: str = CLUSTER,
    started_us: int = MONDAY_US,
    generation: int = 7,
    requests: Mapping[str, int] | None = None,
    owner: Owner | None = None,
    labels: Mapping[str, str] | None = None,
    profile: str = "herodotus-scheduler",
    pre_filters: tuple[PluginVerdict, ...] = (),
    notes: tuple[str, ...] = (),
) -> Decision:
    """Return a decision over `nodes`; "" is a free slot.

    `rejected`: node -> filter -> verdict. `points`: node -> score plugin -> normalized score, 0 by default. The first
    node with the best total is chosen; with one feasible node nothing is scored.
    """
    rejected, points = rejected or {}, points or {}
    live = [slot for slot, n in enumerate(nodes) if n]
    feasible = [] if pre_filters else [slot for slot in live if not rejected.get(nodes[slot])]
    totals = {s: sum(points.get(nodes[s], {}).get(p, 0) * w for p, w in SCORES.items()) for s in feasible}
    scored = len(feasible) > 1
    rank = [0] * len(nodes)
    for slot in feasible:
        rank[slot] = 1 + sum(t > totals[slot] for t in totals.values())
    histogram = [(reasons.format_reason(r), 1) for slot in live for r in _first(rejected.get(nodes[slot], {}))]
    path = (DecisionPath.SCORED if scored else DecisionPath.ONLY_FEASIBLE) if feasible else DecisionPath.NONE
    return Decision(
        id=f"01900000-0000-7000-8000-{sequence:012x}",
        key=AttemptKey(cluster, Source.SCHEDULER, incarnation, uid or f"uid-{namespace}-{pod}", attempt),
        sequence=sequence,
        scheduler=SchedulerInfo(profile, "herodotus-0", "0.1.0"),
        pod=RecordedPod(
            namespace,
            pod,
            uid or f"uid-{namespace}-{pod}",
            {"app": "checkout"} if labels is None else labels,
            owner,
            0,
            requests or {"cpu": 500},
            "d1",
        ),
        times=Times(started_us - 2_000_000, started_us - 1_000_000, started_us, {"Filter": 0.001}, {"active": 0.5}),
        generation=generation,
        slots=len(nodes),
        nodes_total=len(live),
        nodes_evaluated=0 if pre_filters else len(live),
        nodes_feasible=len(feasible),
        path=path,
        chosen=max(feasible, key=lambda s: (totals[s], -s)) if feasible else None,
        pre_filters=pre_filters,
        restricted_by=(),
        evaluation=array("B", [_evaluation(n, bool(pre_filters)) for n in nodes]),
        filters=() if pre_filters else tuple(_filter(f, nodes, rejected) for f in FILTERS),
        scores=tuple(_score(p, w, nodes, feasible, points) for p, w in SCORES.items()) if scored else (),
        totals=array("q", [totals.get(s, 0) for s in range(len(nodes))]) if scored else array("B"),
        rank=array("H", rank),
        seed=1234,
        post_filters=(),
        message="" if feasible else reasons.format_fit_error(len(live), histogram),
        text_notes=notes,
    )


def bound(decision: Decision, table: NodeTable, *, sequence: int = 0, status: Code = Code.SUCCESS) -> Outcome:
    """Return the last outcome of a placed decision: bound, or failed with `status`."""
    assert decision.chosen is not None
    return Outcome(
        incarnation=decision.key.incarnation,
        sequence=sequence or decision.sequence + 1,
        decision_id=decision.id,
        decision_sequence=decision.sequence,
        phase="Bind",
        status=status,
        node=table.names[decision.chosen],
        message="" if status is Code.SUCCESS else "the API server said no",
        at_us=decision.times.started_us + 20_000,
        duration_s=0.004,
        final=True,
    )


def _first(verdicts: Mapping[str, Verdict]) -> tuple[Reason, ...]:
    return next((verdicts[f].reasons for f in FILTERS if f in verdicts), ())


def _evaluation(name: str, pre_filtered: bool) -> Evaluation:
    if not name:
        return Evaluation.ABSENT
    return Evaluation.NOT_REACHED if pre_filtered else Evaluation.EVALUATED


def _filter(plugin: str, nodes: Sequence[str], rejected: Mapping[str, Mapping[str, Verdict]]) -> FilterColumn:
    said = [rejected.get(n, {}).get(plugin, SUCCESS) for n in nodes]
    table = [SUCCESS]
    for verdict in said:
        if verdict not in table:
            table.append(verdict)
    ids = array("B", [table.index(v) for v in said]) if len(table) > 1 else array("B")
    return FilterColumn(plugin, False, tuple(table), ids)


def _score(
    plugin: str, weight: int, nodes: Sequence[str], feasible: Sequence[int], points: Mapping[str, Mapping[str, int]]
) -> ScoreColumn:
    normalized = array("b", [points.get(n, {}).get(plugin, 0) if s in feasible else 0 for s, n in enumerate(nodes)])
    return ScoreColumn(plugin, weight, False, normalized, normalized)
