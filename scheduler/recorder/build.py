"""Pure: from the trace of a cycle to the Decision, from the columns to node rows."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_record.codec import END_OF_TIME_S, FOLLOWS, MAX_DIGITS, column, column_of
from herodotus_record.model import (
    Column,
    Decision,
    Evaluation,
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
from scheduler.columns import NodeColumns
from scheduler.cycle import CycleResult
from scheduler.formulas import inputs
from scheduler.framework.trace import FilterRun, InputRun, ScoreRun
from scheduler.objects import pod as objects
from scheduler.objects.types import Volume
from scheduler.recorder.narrowed import Evaluated, Narrowed
from scheduler.recorder.omitted import NOTHING_OMITTED, OmittedLabels

MOST: Final = 2.0**62  # beyond, a number is not recorded: its columns hold 64 bits
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def decision(
    *,
    id: str,
    key: Key,
    sequence: int,
    scheduler: SchedulerInfo,
    pod: objects.PodInfo,
    times: Times,
    generation: int,
    seed: int,
    result: CycleResult,
    marks: tuple[str, ...],
    woken_by: WokenBy | None,
    retry: Retry | None,
    unknown: tuple[str, ...] = (),
    reconstruction: Reconstruction | None = None,
    known: Narrowed | None = None,
    omitted: OmittedLabels = NOTHING_OMITTED,
) -> Decision:
    """The record of one attempt, whose rank and points FOLLOW where they do (`codec.complete`).

    `known`: what was made for earlier ones.
    """
    trace, known = result.trace, Narrowed() if known is None else known
    evaluated = known.evaluated(trace.evaluation)
    return Decision(
        id=id,
        key=key,
        sequence=sequence,
        scheduler=scheduler,
        pod=pod_info(pod, omitted),
        times=times,
        generation=generation,
        slots=trace.slots,
        nodes_total=int(np.count_nonzero(trace.evaluation != Evaluation.ABSENT)),
        nodes_evaluated=int(np.count_nonzero(evaluated.mask)),
        nodes_feasible=int(np.count_nonzero(evaluated.mask & (trace.codes == 0))),
        path=result.path,
        chosen=result.chosen,
        pre_filters=tuple(trace.pre_filters),
        narrowed_by=trace.narrowed_by,
        evaluation=evaluated.column,
        filters=tuple([_filter(run, evaluated, known) for run in trace.filters]),
        scores=tuple([_score(run, known) for run in trace.scores]) if trace.totals is not None else (),
        totals=column(trace.totals) if trace.totals is not None else array("B"),
        rank=FOLLOWS,
        seed=seed,
        post_filters=tuple(trace.post_filters),
        message=result.message,
        preemption=trace.preemption,
        marks=(*marks, *omitted.marks(pod.labels), *trace.marks),
        woken_by=woken_by,
        retry=retry,
        unknown=unknown,
        reconstruction=reconstruction,
        inputs=tuple(_inputs(run) for run in trace.inputs),
    )


def node_rows(columns: NodeColumns, slots: Sequence[int], cluster: str, incarnation: str, base: int) -> NodeRows:
    """The rows of these slots as of now. A slot whose node is gone, or not there yet, is free."""
    here = columns.live[np.asarray(slots, np.intp)].tolist()
    since, allocatable, requested = columns.amounts(slots)
    known = [
        (resource, column_of(a), column_of(q))
        for resource, a, q in zip(columns.resources, allocatable, requested, strict=True)
        if any(a) or any(q)
    ]
    return NodeRows(
        cluster=cluster,
        incarnation=incarnation,
        base=base,
        generation=columns.generation,
        resources=tuple(r for r, _, _ in known),
        slot=column_of(list(slots)),
        since=column_of(since),
        name=tuple([columns.names[slot] if live else "" for slot, live in zip(slots, here, strict=True)]),
        uid=tuple([columns.uids[slot] if live else "" for slot, live in zip(slots, here, strict=True)]),
        allocatable=tuple([a for _, a, _ in known]),
        requested=tuple([q for _, _, q in known]),
    )


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
        digest=_digest(pod, labels),
        nominated_node=pod.pod.status.nominated_node_name,
    )


def _digest(pod: objects.PodInfo, labels: Mapping[str, str]) -> str:
    """Of what scheduling reads: the same for all pods of a template, though the token volume of each is named anew."""
    spec = pod.pod.spec
    if spec.volumes:
        spec = msgspec.structs.replace(spec, volumes=[v for v in spec.volumes if v != Volume(name=v.name)])
    read = (pod.namespace, sorted(labels.items()), spec)
    return hashlib.blake2b(msgspec.msgpack.encode(read), digest_size=12).hexdigest()


def microseconds(rfc3339: str | None) -> int:
    """An API timestamp as microseconds since the epoch; 0 where there is none."""
    if not rfc3339:
        return 0
    at = datetime.fromisoformat(rfc3339.replace("Z", "+00:00"))
    return (at - _EPOCH) // timedelta(microseconds=1)


def _filter(run: FilterRun, evaluated: Evaluated, known: Narrowed) -> FilterColumn:
    if run.verdicts.ids is None:  # as most, and all those share one object
        return _passed(run.plugin, run.skipped)
    return known.of(run.verdicts, lambda: _rejecting(run, evaluated.mask), run.plugin, run.skipped, evaluated)


def _rejecting(run: FilterRun, evaluated: NDArray[np.bool_]) -> FilterColumn:
    ids = run.verdicts.ids
    said = np.zeros(0, np.uint8) if ids is None else np.where(evaluated, ids, 0)
    if not said.any():
        return _passed(run.plugin, run.skipped)
    return FilterColumn(run.plugin, run.skipped, run.verdicts.table, column(said))


@lru_cache(maxsize=256)  # plugins and extenders
def _passed(plugin: str, skipped: bool) -> FilterColumn:
    return FilterColumn(plugin, skipped)


def _score(run: ScoreRun, known: Narrowed) -> ScoreColumn:
    if run.raw is None or run.normalized is None:
        return _skipped(run.plugin, run.weight)
    raw, normalized = run.raw, run.normalized
    return known.of(run, lambda: _points(run, raw, normalized))


@lru_cache(maxsize=256)
def _skipped(plugin: str, weight: int) -> ScoreColumn:
    return ScoreColumn(plugin, weight, skipped=True)


def _points(run: ScoreRun, raw: NDArray[np.int64], normalized: NDArray[np.int64]) -> ScoreColumn:
    as_raw = normalized is raw or np.array_equal(normalized, raw)
    return ScoreColumn(run.plugin, run.weight, False, column(raw), FOLLOWS if as_raw else column(normalized))


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
