"""Converts an attempt found in a log to a Decision and an Outcome. Pure functions.

Invariant: nothing is inferred. A field that the log does not fill is in `unknown`, or a note names what is missing; the
counts of nodes are then the least that the log proves. Scores before weighting are derived by dividing by the weight:
kube-scheduler logs normalized score times weight.
"""

from __future__ import annotations

import hashlib
import uuid
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from herodotus_record.codec import column_from_numpy
from herodotus_record.model import (
    NOT_RUN,
    SUCCESS,
    AttemptKey,
    Candidate,
    Code,
    Column,
    Decision,
    DecisionPath,
    Evaluation,
    FilterColumn,
    Outcome,
    Preemption,
    Reason,
    RecordedPod,
    SchedulerInfo,
    ScoreColumn,
    Source,
    Times,
    empty_column,
)
from herodotus_record.notes import LOG_ALONE, LOG_FILTERS, LOG_NUMBER, LOG_PREEMPTION, LOG_SCORES, LOG_WEIGHTS
from scheduler.offline.read_log.attempts import LoggedAttempt, LoggedWeights
from scheduler.offline.read_log.nodes import LogNodeTable

UNKNOWN_PROFILE: Final = "unknown"  # a record's profile has a name; `scheduler.profile` is then in `unknown`
_FILTERS: Final = ("TaintToleration", "PodTopologySpread")  # those whose lines name nodes, in evaluation order

# What no line of a log says.
_NEVER: Final = (
    "key.podUID",
    "scheduler.identity",
    "pod.uid",
    "pod.labels",
    "pod.owner",
    "pod.priority",
    "pod.requests",
    "pod.digest",
    "pod.nominatedNode",
    "times.podCreatedAt",
    "times.queuedAt",
    "times.phaseSeconds",
    "times.queueSeconds",
    "snapshot.generation",
    "requeuedBy",
    "retry",
    "preFilters",
    "restrictedBy",
    "postFilters",
    "seed",
    "scores.raw",
)


@dataclass(frozen=True)
class LogSource:
    """The log that records come from: its cluster, incarnation and version of kube-scheduler.

    `notes` are notes about the log as a whole, which each of its records repeats.
    """

    cluster: str
    incarnation: str
    version: str
    notes: tuple[Reason, ...] = ()


def _describe_scheduler(profile: str, version: str) -> SchedulerInfo:
    """Return the SchedulerInfo of records from the log.

    `version` is that of the logged kube-scheduler, "" if unknown.
    """
    return SchedulerInfo(profile, "", version, version, "log" if version else "")


def build_decision(attempt: LoggedAttempt, nodes: LogNodeTable, weights: LoggedWeights, source: LogSource) -> Decision:
    """Return the decision record of a completed attempt in a log."""
    scored, unsure = _scored(attempt)
    placed = bool(attempt.node)
    rank = _ranks(attempt, scored)
    named = set(attempt.rejected) | set(rank)
    # Sorted, so that slots do not depend on the order of lines.
    slot_by_name = {name: nodes.slot(name) for name in sorted(named)}
    slots = len(nodes.names)
    evaluation = np.array([Evaluation.UNRECORDED if name else Evaluation.ABSENT for name in nodes.names], np.uint8)
    evaluation[list(slot_by_name.values())] = Evaluation.EVALUATED
    scores, unweighed = _scores(attempt, weights, slot_by_name, slots) if scored else ((), ())
    unknown, counts = _counts(attempt, len(named), len(rank))
    namespace, _, name = attempt.pod.partition("/")
    hidden = int((evaluation == Evaluation.UNRECORDED).sum())
    return Decision(
        id=_id(attempt.first_us, source.incarnation, attempt.sequence),
        key=AttemptKey(source.cluster, Source.LOGGED, source.incarnation, attempt.pod, attempt.number),
        sequence=attempt.sequence,
        scheduler=_describe_scheduler(attempt.profile or UNKNOWN_PROFILE, source.version),
        pod=RecordedPod(namespace, name, attempt.pod, {}, None, 0, {}, ""),
        times=Times(0, 0, attempt.first_us),
        generation=nodes.generation,
        slots=slots,
        nodes_total=counts[0],
        nodes_evaluated=counts[1],
        nodes_feasible=counts[2],
        path=_path(attempt, scored),
        chosen=slot_by_name[attempt.node] if placed else None,
        pre_filters=(),
        restricted_by=(),
        evaluation=column_from_numpy(evaluation),
        filters=_filters(attempt, slot_by_name, slots),
        scores=scores,
        totals=_by_slot(attempt.totals, slot_by_name, slots) if scored else empty_column(),
        rank=_by_slot(rank, slot_by_name, slots),
        seed=0,
        post_filters=(),
        message="" if placed else attempt.message,
        preemption=_preemption(attempt),
        notes=(
            *source.notes,
            Reason(LOG_ALONE),
            *((Reason(LOG_FILTERS, {"count": str(hidden)}),) if hidden else ()),
            *(() if attempt.started else (Reason("log-no-start"),)),
            Reason(LOG_NUMBER),
            *(
                (Reason("log-batched", {"node": attempt.hint}),)
                if attempt.hint and attempt.hint == attempt.node
                else ()
            ),
            *unsure,
            *((Reason(LOG_WEIGHTS, {"plugins": ", ".join(unweighed)}),) if unweighed else ()),
            *_preemption_marks(attempt),
        ),
        unknown=(
            *_NEVER,
            *unknown,
            *(() if attempt.profile else ("scheduler.profile",)),
            *(() if source.version else ("scheduler.version", "scheduler.rules", "scheduler.rulesSource")),
            *(() if source.cluster else ("key.cluster",)),
        ),
    )


def build_outcome(attempt: LoggedAttempt, of: Decision) -> Outcome | None:
    """Return the outcome of the attempt's binding, or None if no node was chosen.

    `of` is the attempt's decision. The duration is 0 if only the end of the binding was logged.
    """
    if not attempt.node or attempt.ended_us is None:
        return None
    took_us = attempt.ended_us - attempt.binding_us if attempt.binding_us is not None else 0
    code = Code.SUCCESS if attempt.bound else Code.ERROR if attempt.error else Code.UNSCHEDULABLE
    return Outcome(
        incarnation=of.key.incarnation,
        sequence=of.sequence + 1,
        decision_id=of.id,
        decision_sequence=of.sequence,
        phase="Bind",
        status=code,
        node=attempt.node,
        message=attempt.message,
        at_us=attempt.ended_us,
        duration_s=max(0, took_us) / 1e6,
        final=True,
    )


def _scored(attempt: LoggedAttempt) -> tuple[bool, tuple[Reason, ...]]:
    """Return whether the log has the total and all scores of every feasible node, and the note to record.

    The note is () if the scores are complete, or if none is expected because no or only one node was feasible.
    """
    n = len(attempt.totals)
    if not n:
        several = attempt.node and (attempt.feasible or 0) != 1
        return False, (Reason(LOG_SCORES),) if several else ()
    whole = attempt.feasible in (None, n) and (not attempt.node or attempt.node in attempt.totals)
    whole = whole and all(points.keys() == attempt.totals.keys() for points in _points(attempt).values())
    if whole and not attempt.extended:
        whole = all(
            sum(points[node] for points in attempt.scores.values()) == total for node, total in attempt.totals.items()
        )
    return whole, () if whole else (Reason("log-scores-partial"),)


def _points(attempt: LoggedAttempt) -> Mapping[str, Mapping[str, int]]:
    return {**attempt.scores, **attempt.extended}


def _ranks(attempt: LoggedAttempt, scored: bool) -> dict[str, int]:
    """Return the rank of each feasible node by name, with equal ranks for equal totals.

    If the totals are incomplete (`scored` is False), return only the chosen node, with rank 1, or {} if there is none.
    """
    if not scored:
        return {attempt.node: 1} if attempt.node else {}
    totals = sorted(attempt.totals.values(), reverse=True)
    first = {total: place for place, total in reversed(list(enumerate(totals, 1)))}
    return {node: first[total] for node, total in attempt.totals.items()}


def _path(attempt: LoggedAttempt, scored: bool) -> DecisionPath:
    if not attempt.node:
        return DecisionPath.ERROR if attempt.error else DecisionPath.NONE
    if scored or (attempt.feasible or 0) > 1:
        return DecisionPath.SCORED
    # one node fits: the only one of several, or the first that was looked at (nominated or hinted)
    several = attempt.feasible == 1 and (attempt.evaluated or 0) > 1
    return DecisionPath.ONLY_FEASIBLE if several else DecisionPath.UNKNOWN


def _counts(attempt: LoggedAttempt, named: int, ranked: int) -> tuple[tuple[str, ...], tuple[int, int, int]]:
    """Return the names of the fields that the log does not fill, and the numbers of all, evaluated and feasible nodes.

    A number that was not logged is the least that the log proves: `named` nodes occur in it, and `ranked` have a rank.
    """
    feasible = max(attempt.feasible if attempt.feasible is not None else 0, ranked)
    evaluated = max(attempt.evaluated if attempt.evaluated is not None else 0, named, feasible)
    total = max(attempt.total if attempt.total is not None else 0, evaluated)
    known_feasible = attempt.feasible is not None or not attempt.node
    counts = (("nodes", attempt.total), ("evaluated", attempt.evaluated))
    unknown = [f"snapshot.{name}" for name, value in counts if value is None]
    return (*unknown, *(() if known_feasible else ("snapshot.feasible",))), (total, evaluated, feasible)


def _filters(attempt: LoggedAttempt, at: Mapping[str, int], slots: int) -> tuple[FilterColumn, ...]:
    """Return a filter column for each filter with a logged rejection.

    A filter without a column has not necessarily accepted the nodes. `at` maps node names to slots (row indices).
    """
    columns = []
    for position, plugin in enumerate(_FILTERS):
        earlier = _FILTERS[:position]
        table, ids = [SUCCESS], array("H", bytes(2 * slots))
        for node, (by, verdict) in sorted(attempt.rejected.items()):
            own = verdict if by == plugin else NOT_RUN if by in earlier else SUCCESS
            if own not in table:
                table.append(own)
            ids[at[node]] = table.index(own)
        if any(by == plugin for by, _ in attempt.rejected.values()):
            columns.append(FilterColumn(plugin, False, tuple(table), ids))
    return tuple(columns)


def _scores(
    attempt: LoggedAttempt, weights: LoggedWeights, at: Mapping[str, int], slots: int
) -> tuple[tuple[ScoreColumn, ...], tuple[str, ...]]:
    """Return the score column of each plugin and extender, and the names of those whose weight is unknown.

    Their scores are kept as logged, with the weight included. `at` maps node names to slots (row indices).
    """
    columns, unweighed = [], []
    for plugin, points in sorted(attempt.scores.items()):
        weight = weights.by_plugin.get(plugin)
        if weight is None or any(score % weight for score in points.values()):
            unweighed.append(plugin)
            weight = 1
        normalized = {node: score // weight for node, score in points.items()}
        columns.append(ScoreColumn(plugin, weight, False, empty_column(), _by_slot(normalized, at, slots)))
    if len(attempt.extended) == 1:  # what the total holds beside the plugins' points is the one extender's
        ((extender, _),) = attempt.extended.items()
        rest = {n: t - sum(score[n] for score in attempt.scores.values()) for n, t in attempt.totals.items()}
        columns.append(ScoreColumn(extender, 1, False, empty_column(), _by_slot(rest, at, slots)))
        unweighed.append(extender)
    elif attempt.extended:  # their shares of it are not in the log
        columns += [ScoreColumn(extender, 1) for extender in sorted(attempt.extended)]
        unweighed += sorted(attempt.extended)
    return tuple(columns), tuple(unweighed)


def _preemption(attempt: LoggedAttempt) -> Preemption | None:
    """Return the preemption with the node and victims that the log names, or None if no node was nominated.

    The log has neither other candidates nor disruption budgets.
    """
    if not attempt.nominated:
        return None
    return Preemption(attempt.nominated, (Candidate(attempt.nominated, tuple(attempt.victims), 0),), evicted=True)


def _preemption_marks(attempt: LoggedAttempt) -> tuple[Reason, ...]:
    if not attempt.nominated:
        return ()
    notes = [Reason(LOG_PREEMPTION)]
    if attempt.victims_announced is None:
        notes.append(Reason("log-victims-unknown"))
    elif attempt.victims_announced > len(attempt.victims):
        named = str(len(attempt.victims))
        notes.append(Reason("log-victims", {"count": str(attempt.victims_announced), "named": named}))
    return tuple(notes)


def _by_slot(values: Mapping[str, int], at: Mapping[str, int], slots: int) -> Column:
    by_slot = np.zeros(slots, np.int64)
    for node, value in values.items():
        by_slot[at[node]] = value
    return column_from_numpy(by_slot)


def _id(at_us: int, incarnation: str, sequence: int) -> str:
    """Return a UUIDv7 for a decision, derived from its inputs, so that reading a log again gives the same ID.

    A digest of incarnation and sequence number takes the place of the random part.
    """
    digest = int.from_bytes(hashlib.sha256(f"{incarnation} {sequence}".encode()).digest()[:10])
    ms = max(0, at_us // 1000) & ((1 << 48) - 1)
    high, low = digest >> 68 & 0xFFF, digest & ((1 << 62) - 1)
    return str(uuid.UUID(int=ms << 80 | 7 << 76 | high << 64 | 2 << 62 | low))
