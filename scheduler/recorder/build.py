"""Pure: from what is said of an attempt to the Decision, from the columns to node rows.

Owns: what a record says, and which parts it shares with the one before of its template (`Herd`). Does not own: numbers
and order of records (`recorder`).

Invariant: with a herd or without one, the record is equal.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_record.codec import END_OF_TIME_S, FEW, FOLLOWS, MAX_DIGITS, column, column_of
from herodotus_record.codec.deltas import template
from herodotus_record.model import (
    Column,
    Decision,
    FilterColumn,
    Inputs,
    Key,
    NodeRows,
    Number,
    Owner,
    PodInfo,
    Reconstruction,
    Retry,
    SchedulerInfo,
    ScoreColumn,
    Times,
    WokenBy,
    empty_column,
)
from scheduler.columns import NodeColumns, Snapshot
from scheduler.cycle import CycleResult
from scheduler.formulas import inputs
from scheduler.framework.interface import Scores
from scheduler.framework.trace import FilterRun, InputRun, ScoreRun
from scheduler.objects import pod as objects
from scheduler.objects.types import Volume
from scheduler.recorder.herds import Evaluated, Narrowed, Recent, Series
from scheduler.recorder.omitted import NOTHING_OMITTED, OmittedLabels

MOST: Final = 2.0**62  # beyond, a number is not recorded: its columns hold 64 bits
_NOTHING: Final = array("B")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Attempt(NamedTuple):
    """What is recorded of an attempt to schedule a pod, as it is said by whoever made it.

    `unknown`, `reconstruction`: of another scheduler's attempt; our own have none.
    """

    pod: objects.PodInfo
    number: int
    profile: str
    snapshot: Snapshot
    result: CycleResult
    times: Times
    seed: int
    marks: tuple[str, ...] = ()
    woken_by: WokenBy | None = None
    retry: Retry | None = None
    unknown: tuple[str, ...] = ()
    reconstruction: Reconstruction | None = None


class Herd:
    """What the last record of a template was made of, and what was made of it."""

    def __init__(self) -> None:
        self._evaluated: Evaluated | None = None
        self._columns: defaultdict[Hashable, Narrowed] = defaultdict(Narrowed)
        self._filters: Series[FilterRun, FilterColumn] = Series(self._filter)
        self._scores: Series[ScoreRun, ScoreColumn] = Series(self._score)

    def evaluated(self, evaluation: NDArray[np.uint8]) -> Evaluated:
        """The same object for equal arrays."""
        known = self._evaluated
        if known is None or (evaluation is not known.array and not np.array_equal(evaluation, known.array)):
            known = self._evaluated = Evaluated(evaluation)
            self._filters = Series(self._filter)  # their columns follow from it
        return known

    def filters(self, runs: Sequence[FilterRun]) -> tuple[FilterColumn, ...]:
        """Of nodes that were not evaluated filters say nothing."""
        return self._filters.of(runs)

    def scores(self, runs: Sequence[ScoreRun]) -> tuple[ScoreColumn, ...]:
        """Points that are the raw ones FOLLOW."""
        return self._scores.of(runs)

    def totals(self, totals: Scores | None) -> Column:
        """Empty where nothing was scored."""
        return _NOTHING if totals is None else self._columns["totals"].of(totals)

    def _filter(self, position: int, run: FilterRun) -> FilterColumn:
        ids, evaluated = run.verdicts.ids, self._evaluated
        said = None if ids is None or evaluated is None else np.where(evaluated.mask, ids, 0)
        if said is None or not said.any():
            return _passed(run.plugin, run.skipped)  # as most, and all those share one object
        return FilterColumn(run.plugin, run.skipped, run.verdicts.table, self._columns["filter", position].of(said))

    def _score(self, position: int, run: ScoreRun) -> ScoreColumn:
        raw, normalized = run.raw, run.normalized
        if raw is None or normalized is None:
            return _skipped(run.plugin, run.weight)
        as_raw = normalized is raw or np.array_equal(normalized, raw)
        return ScoreColumn(
            run.plugin,
            run.weight,
            False,
            self._columns["raw", position].of(raw),
            FOLLOWS if as_raw else self._columns["normalized", position].of(normalized),
        )


def decision(
    attempt: Attempt,
    *,
    id: str,
    key: Key,
    sequence: int,
    scheduler: SchedulerInfo,
    marks: tuple[str, ...] = (),
    herds: Recent[Herd] | None = None,
    omitted: OmittedLabels = NOTHING_OMITTED,
) -> Decision:
    """The record of one attempt, whose rank and points FOLLOW where they do (`codec.complete`).

    `marks`: what is to be said beside the attempt's own. `herds`: of earlier records.
    """
    pod, result, trace = pod_info(attempt.pod, omitted), attempt.result, attempt.result.trace
    herd = Herd() if herds is None else herds.of(template(pod, scheduler.profile, result.path))
    evaluated = herd.evaluated(trace.evaluation)
    return Decision(
        id=id,
        key=key,
        sequence=sequence,
        scheduler=scheduler,
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
        narrowed_by=trace.narrowed_by,
        evaluation=evaluated.column,
        filters=herd.filters(trace.filters),
        scores=() if trace.totals is None else herd.scores(trace.scores),
        totals=herd.totals(trace.totals),
        rank=FOLLOWS,
        seed=attempt.seed,
        post_filters=tuple(trace.post_filters),
        message=result.message,
        preemption=trace.preemption,
        marks=(*marks, *attempt.marks, *omitted.marks(attempt.pod.labels), *trace.marks),
        woken_by=attempt.woken_by,
        retry=attempt.retry,
        unknown=attempt.unknown,
        reconstruction=attempt.reconstruction,
        inputs=tuple([_inputs(run) for run in trace.inputs]),
    )


def node_rows(columns: NodeColumns, slots: Sequence[int], cluster: str, incarnation: str, base: int) -> NodeRows:
    """The rows of these slots as of now. A slot whose node is gone, or not there yet, is free."""
    made = column_of if len(slots) > FEW else _of_few
    live = [columns.nodes[slot] is not None for slot in slots]
    since, allocatable, requested = columns.amounts(slots)
    known = [
        (resource, made(a), made(q))
        for resource, a, q in zip(columns.resources, allocatable, requested, strict=True)
        if any(a) or any(q)
    ]
    return NodeRows(
        cluster=cluster,
        incarnation=incarnation,
        base=base,
        generation=columns.generation,
        resources=tuple(r for r, _, _ in known),
        slot=made(list(slots)),
        since=made(since),
        name=tuple([columns.names[slot] if here else "" for slot, here in zip(slots, live, strict=True)]),
        uid=tuple([columns.uids[slot] if here else "" for slot, here in zip(slots, live, strict=True)]),
        allocatable=tuple([a for _, a, _ in known]),
        requested=tuple([q for _, _, q in known]),
    )


def _of_few(values: list[int]) -> Column:
    """To find the narrowest type of a few entries costs more than the bytes that it saves."""
    return array("q", values)


def pod_info(pod: objects.PodInfo, omitted: OmittedLabels = NOTHING_OMITTED) -> PodInfo:
    """What a record keeps of a pod: nothing that scheduling does not read, and no label that is to be left out."""
    labels = omitted.kept(pod.labels)
    controller = next((o for o in pod.pod.metadata.owner_references or () if o.controller), None)
    return PodInfo(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        labels=labels,
        owner=Owner(controller.kind, controller.name) if controller else None,
        priority=pod.priority,
        requests=dict(pod.requests),
        digest=_digest(_Read(pod, labels)),
        nominated_node=pod.pod.status.nominated_node_name,
    )


class _Read:
    """What a digest is of, told apart by what it follows from."""

    __slots__ = ("follows", "labels", "namespace", "spec", "volumes")

    def __init__(self, pod: objects.PodInfo, labels: Mapping[str, str]) -> None:
        self.namespace, self.labels, self.spec = pod.namespace, sorted(labels.items()), pod.pod.spec
        volumes = self.spec.volumes  # the token volume of each pod is named anew
        self.volumes = [v for v in volumes if v != Volume(name=v.name)] if volumes else volumes
        told = msgspec.msgpack.encode(self.volumes) if self.volumes else b""
        self.follows = (pod.namespace, *self.labels, pod.spec_digest, told)

    def __hash__(self) -> int:
        return hash(self.follows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Read) and self.follows == other.follows


@lru_cache(maxsize=256)  # templates
def _digest(read: _Read) -> str:
    """Of what scheduling reads: the same for all pods of a template."""
    spec = read.spec if read.volumes is read.spec.volumes else msgspec.structs.replace(read.spec, volumes=read.volumes)
    said = (read.namespace, read.labels, spec)
    return hashlib.blake2b(msgspec.msgpack.encode(said), digest_size=12).hexdigest()


def microseconds(rfc3339: str | None) -> int:
    """An API timestamp as microseconds since the epoch; 0 where there is none."""
    if not rfc3339:
        return 0
    at = datetime.fromisoformat(rfc3339.replace("Z", "+00:00"))
    return (at - _EPOCH) // timedelta(microseconds=1)


@lru_cache(maxsize=256)  # plugins and extenders
def _passed(plugin: str, skipped: bool) -> FilterColumn:
    return FilterColumn(plugin, skipped)


@lru_cache(maxsize=256)
def _skipped(plugin: str, weight: int) -> ScoreColumn:
    return ScoreColumn(plugin, weight, skipped=True)


def _inputs(run: InputRun) -> Inputs:
    told = run.inputs
    return Inputs(
        plugin=run.plugin,
        source=told.source,
        numbers=tuple(_number(number) for number in told.numbers),
        measured=_measured(told.measured_s),
        stale=_where(told.stale),
    )


def _number(told: inputs.Number) -> Number:
    """In whole numbers of the last digit; what does not fit into 62 bits is not known."""
    digits = min(max(told.digits, 0), MAX_DIGITS)
    scaled = np.asarray(told.values, np.float64) * 10**digits
    known = np.abs(scaled) < MOST  # not NaN
    whole = np.rint(np.where(known, scaled, 0)).astype(np.int64)
    return Number(told.name, told.unit, digits, column(whole), _where(~known))


def _measured(moments_s: NDArray[np.float64] | None) -> Column:
    """One entry where all are alike. What is no moment is not said."""
    if moments_s is None:
        return empty_column()
    known = (moments_s >= 0) & (moments_s < END_OF_TIME_S)  # not NaN
    whole = np.where(known, moments_s, 0).astype(np.int64)
    alike = len(whole) and (whole == whole[0]).all()
    return column(whole[:1] if alike else whole) if whole.any() else empty_column()


def _where(mask: NDArray[np.bool_] | None) -> Column:
    return empty_column() if mask is None or not mask.any() else column(mask)
