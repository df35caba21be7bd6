"""Builds records: a Decision from the data of an attempt, and node rows from the columns. Pure.

Invariant: the record is equal with and without a cache.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_record.codec import DERIVED, END_OF_TIME_S, MAX_DIGITS, SMALL_COLUMN, column_from_list, column_from_numpy
from herodotus_record.codec.deltas import MAX_BASES, TemplateKeys
from herodotus_record.lru import Lru
from herodotus_record.model import (
    AttemptKey,
    Column,
    Decision,
    DecisionPath,
    FilterColumn,
    InputColumn,
    Inputs,
    NodeRows,
    Owner,
    PodGroupCycle,
    Reason,
    Reconstruction,
    RecordedPod,
    RequeueEvent,
    Retry,
    SchedulerInfo,
    ScoreColumn,
    Suggestion,
    Times,
    empty_column,
)
from herodotus_record.version import __version__
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult
from scheduler.engine.formulas import inputs
from scheduler.engine.framework.interface import Scores
from scheduler.engine.framework.trace import FilterRun, InputRun, ScoreRun
from scheduler.engine.objects import pod as objects
from scheduler.engine.objects.times import parse_microseconds
from scheduler.engine.records.omitted_labels import NOTHING_OMITTED, OmittedLabels
from scheduler.engine.records.record_cache import CachedRecordColumn, EvaluationParts, RecordPartCache
from scheduler.engine.rules import DEFAULT_RULES, Rules

MOST: Final = 2.0**62  # larger numbers are not recorded: their columns hold 64 bits
_NOTHING: Final = array("B")


class AttemptData(NamedTuple):
    """The data of one attempt from which its record is built.

    `unknown`, the fields that are not known, and `reconstruction` are set only for another scheduler's attempt.
    """

    pod: objects.PodInfo
    number: int
    profile: str
    snapshot: Snapshot
    result: CycleResult
    times: Times
    seed: int
    notes: tuple[Reason, ...] = ()
    requeued_by: RequeueEvent | None = None
    retry: Retry | None = None
    unknown: tuple[str, ...] = ()
    reconstruction: Reconstruction | None = None
    suggestions: tuple[Suggestion, ...] = ()
    group_cycle: PodGroupCycle | None = None


class Origin(NamedTuple):
    """What the records of one process state about their origin, and which labels they leave out.

    `cluster` is the cluster's id, "" if the objects come from files. `identity` is the identity of the scheduler, and
    `rules` are those by which the process decides.
    """

    cluster: str
    identity: str
    omitted: OmittedLabels = NOTHING_OMITTED
    rules: Rules = DEFAULT_RULES


def describe_scheduler(profile: str, identity: str, rules: Rules) -> SchedulerInfo:
    """Return the description of the scheduler for a record: its profile, its process, and the rules of the decision."""
    return SchedulerInfo(profile, identity, __version__, str(rules), rules.source)


class RecordIdentity(NamedTuple):
    """What identifies a record: its ID, the attempt's key, its number in the incarnation, and the scheduler."""

    id: str
    key: AttemptKey
    sequence: int
    scheduler: SchedulerInfo


class RecordCache:
    """The parts of the last record of one group of decisions, reused in the next record if unchanged."""

    def __init__(self) -> None:
        self._evaluated: EvaluationParts | None = None
        self._columns: defaultdict[Hashable, CachedRecordColumn] = defaultdict(CachedRecordColumn)
        self._filters: RecordPartCache[FilterRun, FilterColumn] = RecordPartCache(self._filter)
        self._scores: RecordPartCache[ScoreRun, ScoreColumn] = RecordPartCache(self._score)

    def evaluated(self, evaluation: NDArray[np.uint8]) -> EvaluationParts:
        """Return the parts of the record that depend only on which nodes were evaluated.

        Equal arrays give the same object.
        """
        evaluated = self._evaluated
        if evaluated is None or (evaluation is not evaluated.array and not np.array_equal(evaluation, evaluated.array)):
            evaluated = self._evaluated = EvaluationParts(evaluation)
            self._filters = RecordPartCache(self._filter)  # their columns depend on it
        return evaluated

    def filters(self, runs: Sequence[FilterRun]) -> tuple[FilterColumn, ...]:
        """Return the record's filter columns. The entries of nodes that were not evaluated are 0."""
        return self._filters.update(runs)

    def scores(self, runs: Sequence[ScoreRun]) -> tuple[ScoreColumn, ...]:
        """Return the record's score columns.

        Normalized scores that equal the raw scores are replaced by the marker DERIVED.
        """
        return self._scores.update(runs)

    def totals(self, totals: Scores | None) -> Column:
        """Return the record's column of total scores, which is empty if no node was scored."""
        return _NOTHING if totals is None else self._columns["totals"].update(totals)

    def _filter(self, position: int, run: FilterRun) -> FilterColumn:
        ids, evaluated = run.verdicts.ids, self._evaluated
        ids_of_evaluated = None if ids is None or evaluated is None else ids * evaluated.mask
        if ids_of_evaluated is None or not ids_of_evaluated.any():
            return _passed(run.plugin, run.skipped)  # most filters pass every node, and those share one object
        return FilterColumn(
            run.plugin, run.skipped, run.verdicts.table, self._columns["filter", position].update(ids_of_evaluated)
        )

    def _score(self, position: int, run: ScoreRun) -> ScoreColumn:
        raw, normalized = run.raw, run.normalized
        if raw is None or normalized is None:
            return _skipped(run.plugin, run.weight)
        as_raw = normalized is raw or np.array_equal(normalized, raw)
        return ScoreColumn(
            run.plugin,
            run.weight,
            False,
            self._columns["raw", position].update(raw),
            DERIVED if as_raw else self._columns["normalized", position].update(normalized),
        )


class RecordCaches:
    """A record cache for each of the groups of decisions, formed by `TemplateKeys`, that were recorded last."""

    def __init__(self) -> None:
        self._templates = TemplateKeys()
        self._caches: Lru[Hashable, RecordCache] = Lru(MAX_BASES)

    def get(self, pod: objects.PodInfo, recorded: RecordedPod, profile: str, path: DecisionPath) -> RecordCache:
        """Return the cache for the record of one decision, and count the decision for its template.

        A pod with `is_large` gets a new cache that is not stored.
        """
        if pod.is_large:
            return RecordCache()
        return self._caches.get_or_create(self._templates.find_group(recorded, profile, path), RecordCache)


def decision(
    attempt: AttemptData,
    identity: RecordIdentity,
    *,
    notes: tuple[Reason, ...] = (),
    caches: RecordCaches | None = None,
    omitted: OmittedLabels = NOTHING_OMITTED,
) -> Decision:
    """Return the record of one attempt; columns that `codec.fill_derived` can compute are the marker DERIVED.

    `notes` are notes for the record in addition to the attempt's own. `caches` holds the parts of earlier records.
    `omitted` names the labels that the record omits.
    """
    pod, result, trace = pod_info(attempt.pod, omitted), attempt.result, attempt.result.trace
    parts = RecordCache() if caches is None else caches.get(attempt.pod, pod, identity.scheduler.profile, result.path)
    evaluated = parts.evaluated(trace.evaluation)
    return Decision(
        id=identity.id,
        key=identity.key,
        sequence=identity.sequence,
        scheduler=identity.scheduler,
        pod=pod,
        times=attempt.times,
        generation=attempt.snapshot.generation,
        slots=trace.slots,
        nodes_total=evaluated.nodes,
        nodes_evaluated=evaluated.count,
        nodes_feasible=evaluated.feasible(trace.codes),
        path=result.path,
        chosen=result.chosen,
        pre_filters=tuple(trace.pre_filters),
        restricted_by=trace.restricted_by,
        evaluation=evaluated.column,
        filters=parts.filters(trace.filters),
        scores=() if trace.totals is None else parts.scores(trace.scores),
        totals=parts.totals(trace.totals),
        rank=DERIVED,
        seed=attempt.seed,
        post_filters=tuple(trace.post_filters),
        message=result.message,
        preemption=trace.preemption,
        notes=(*notes, *attempt.notes, *omitted.notes(attempt.pod.labels), *trace.notes),
        requeued_by=attempt.requeued_by,
        retry=attempt.retry,
        unknown=attempt.unknown,
        reconstruction=attempt.reconstruction,
        inputs=tuple([_inputs(run) for run in trace.inputs]),
        suggestions=attempt.suggestions,
        devices=() if result.chosen is None else trace.list_devices(attempt.snapshot.columns.names[result.chosen]),
        group_cycle=attempt.group_cycle,
        restricted_to=trace.restricted_to if result.chosen is None else (),
        score_reasons=trace.score_reasons,
    )


def build_evaluation_times(pod: objects.PodInfo, result: CycleResult, now_us: int) -> Times:
    """Return the times of an attempt that was evaluated at `now_us` without waiting in a queue."""
    created_us = parse_microseconds(pod.pod.metadata.creation_timestamp)
    return Times(created_us, now_us, now_us, phases_s=dict(result.trace.phases_s))


def node_rows(columns: NodeColumns, slots: Sequence[int], cluster: str, incarnation: str, base: int) -> NodeRows:
    """Return the rows of the recorded node table for the nodes in these slots, as the columns are now.

    A slot without a node has an empty name. `base` is the columns' generation at the preceding rows, to which these are
    a change; -1 means that these rows are the complete table.
    """
    made = column_from_list if len(slots) > SMALL_COLUMN else _to_int64_column
    live = [columns.nodes[slot] is not None for slot in slots]
    since, allocatable, requested = columns.amounts(slots)
    rows = [
        (resource, made(a), made(q))
        for resource, a, q in zip(columns.resources, allocatable, requested, strict=True)
        if any(a) or any(q)
    ]
    return NodeRows(
        cluster=cluster,
        incarnation=incarnation,
        base=base,
        generation=columns.generation,
        resources=tuple(r for r, _, _ in rows),
        slot=made(list(slots)),
        since=made(since),
        name=tuple([columns.names[slot] if here else "" for slot, here in zip(slots, live, strict=True)]),
        uid=tuple([columns.uids[slot] if here else "" for slot, here in zip(slots, live, strict=True)]),
        allocatable=tuple([a for _, a, _ in rows]),
        requested=tuple([q for _, _, q in rows]),
    )


def _to_int64_column(values: list[int]) -> Column:
    """Return values as a column of 64-bit integers, for short lists.

    Finding the narrowest type for them would cost more than it saves.
    """
    return array("q", values)


def pod_info(pod: objects.PodInfo, omitted: OmittedLabels = NOTHING_OMITTED) -> RecordedPod:
    """Return the recorded part of a pod: fields that scheduling reads, without the labels in `omitted`."""
    labels = omitted.kept(pod.labels)
    controller = pod.pod.metadata.controller
    return RecordedPod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        labels=labels,
        owner=Owner(controller.kind, controller.name) if controller else None,
        priority=pod.priority,
        requests=dict(pod.requests),
        digest=(_digest.__wrapped__ if pod.is_large else _digest)(_Read(pod, labels)),
        nominated_node=pod.pod.status.nominated_node_name,
        pod_group=pod.pod_group.name if pod.pod_group else "",
    )


class _Read:
    """The part of a pod that its digest covers, which equals another by a key that is cheap to hash."""

    __slots__ = ("key", "labels", "namespace", "spec", "volumes")

    def __init__(self, pod: objects.PodInfo, labels: Mapping[str, str]) -> None:
        self.namespace, self.labels, self.spec = pod.namespace, sorted(labels.items()), pod.pod.spec
        volumes = self.spec.volumes  # each pod's token volume has a random name
        self.volumes = [v for v in volumes if v.image or v.is_storage] if volumes else volumes
        encoded = msgspec.msgpack.encode(self.volumes) if self.volumes else b""
        self.key = (pod.namespace, *self.labels, pod.spec_digest, encoded)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Read) and self.key == other.key


@lru_cache(maxsize=256)  # templates
def _digest(read: _Read) -> str:
    """Return the digest of the pod fields that scheduling reads, which is the same for all pods of a template."""
    spec = read.spec if read.volumes is read.spec.volumes else msgspec.structs.replace(read.spec, volumes=read.volumes)
    content = (read.namespace, read.labels, spec)
    return hashlib.blake2b(msgspec.msgpack.encode(content), digest_size=12).hexdigest()


@lru_cache(maxsize=256)  # plugins and extenders
def _passed(plugin: str, skipped: bool) -> FilterColumn:
    return FilterColumn(plugin, skipped)


@lru_cache(maxsize=256)
def _skipped(plugin: str, weight: int) -> ScoreColumn:
    return ScoreColumn(plugin, weight, skipped=True)


def _inputs(run: InputRun) -> Inputs:
    inputs = run.inputs
    return Inputs(
        plugin=run.plugin,
        source=inputs.source,
        numbers=tuple(_number(number) for number in inputs.numbers),
        measured=_measured(inputs.measured_s),
        stale=_where(inputs.stale),
    )


def _number(number: inputs.NodeInputColumn) -> InputColumn:
    """Return a measurement of nodes as a record column of integers, in units of its last decimal.

    Values beyond 62 bits count as unknown.
    """
    digits = min(max(number.digits, 0), MAX_DIGITS)
    scaled = np.asarray(number.values, np.float64) * 10**digits
    in_range = np.abs(scaled) < MOST  # not NaN
    whole = np.rint(np.where(in_range, scaled, 0)).astype(np.int64)
    return InputColumn(number.name, number.unit, digits, column_from_numpy(whole), _where(~in_range))


def _measured(moments_s: NDArray[np.float64] | None) -> Column:
    """Return times of measurement as whole Unix seconds, as one entry if all are equal. An invalid time is 0.

    The column is empty if no time is known.
    """
    if moments_s is None:
        return empty_column()
    in_range = (moments_s >= 0) & (moments_s < END_OF_TIME_S)  # not NaN
    whole = np.where(in_range, moments_s, 0).astype(np.int64)
    alike = len(whole) and (whole == whole[0]).all()
    return column_from_numpy(whole[:1] if alike else whole) if whole.any() else empty_column()


def _where(mask: NDArray[np.bool_] | None) -> Column:
    return empty_column() if mask is None or not mask.any() else column_from_numpy(mask)
