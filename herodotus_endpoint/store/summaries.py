"""Summaries: what retention keeps of a record, and their stored form.

Owns: which nodes a summary keeps, the counts over all nodes, the bytes of a summary. Does not own: when records are
summarised (`retention`), compression (`delta_chains`), answers from a summary (`herodotus_record`).

A summary keeps the chosen node and the next best nodes, or, if no node was chosen, the nodes that were closest to
fitting. It contains its node table, reduced to these nodes, and its outcomes. It needs no row of another table.

Invariant: a summary is a regular decision over the kept nodes, with the counts of the full record. Summarising a
summary returns it unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_answers.explain import select_nearest_rejected
from herodotus_record import codec
from herodotus_record.codec import CodecError, as_numpy
from herodotus_record.model import (
    Column,
    Decision,
    Evaluation,
    FilterColumn,
    FirstRejection,
    Frame,
    Inputs,
    NodeRows,
    NodeTable,
    Outcome,
    ScoreColumn,
    Summary,
)
from herodotus_record.typed_decoding import msgpack_decoder

RUNNERS_UP: Final = 5  # screens show ten nodes; the next five show which nodes were close, and why
NEAREST_REJECTED: Final = 5  # rejected nodes: one for each of the filters that rejected most nodes
MAGIC: Final = b"HS\x01"  # a stored summary, version 1

Ints = NDArray[Any]


@dataclass(frozen=True)
class DecisionRecord:
    """A decision with its outcomes and its node table; it is a full record or a summary."""

    decision: Decision
    outcomes: tuple[Outcome, ...]
    table: NodeTable


def summarise_record(record: DecisionRecord, now_us: int) -> DecisionRecord:
    """Return the summary of a record: the columns of the nodes that `_select_slots` chooses, and counts over all nodes.

    A record that is a summary is returned unchanged. `now_us` is recorded as the time of summarising.
    """
    d = record.decision
    if d.summary:
        return record
    slots = _select_slots(record)
    places = {slot: place for place, slot in enumerate(slots)}
    decision = replace(
        d,
        slots=len(slots),
        chosen=None if d.chosen is None else places[d.chosen],
        evaluation=_select(d.evaluation, slots),
        rank=_select(d.rank, slots),
        totals=_select(d.totals, slots),
        filters=tuple(_filter(f, slots) for f in d.filters),
        scores=tuple(_score(s, slots) for s in d.scores),
        inputs=tuple(_inputs(i, slots) for i in d.inputs),
        summary=_build_summary(d, now_us),
    )
    t = record.table
    table = NodeTable(
        generation=t.generation,
        names=[t.names[slot] for slot in slots],
        uids=[t.uids[slot] for slot in slots],
        since=[t.since[slot] for slot in slots],
        allocatable=[t.allocatable[slot] for slot in slots],
        requested=[t.requested[slot] for slot in slots],
    )
    return DecisionRecord(decision, record.outcomes, table)


def encode_summary(record: DecisionRecord) -> bytes:
    """Encode a summary (decision, node table, outcomes) as bytes, without compression."""
    d = record.decision
    parts: list[Frame] = [d, record.table.rows(d.key.cluster, d.key.incarnation), *record.outcomes]
    return join_frames([codec.encode(frame) for frame in parts])


def join_frames(frames: Sequence[bytes]) -> bytes:
    """Return the bytes of a summary, without compression, from its encoded frames."""
    return MAGIC + _encoder.encode(frames)


def decode_summary(content: bytes) -> DecisionRecord:
    """Decode a summary from the bytes that `encode_summary` made. Raises CodecError if they are not a summary."""
    return record_from_frames(split_frames(content))


def split_frames(content: bytes) -> list[bytes]:
    """Return the encoded frames of a summary from its bytes: decision, node rows, outcomes.

    Raises CodecError if the bytes are damaged.
    """
    try:
        return _decoder.decode(content[len(MAGIC) :])
    except msgspec.MsgspecError as e:
        raise CodecError(f"a summary: {e}") from e


def record_from_frames(frames: Sequence[bytes]) -> DecisionRecord:
    """Decode a summary from its encoded frames. Raises CodecError if the decision or the node rows are missing."""
    match [codec.decode(frame) for frame in frames]:
        case [Decision() as decision, NodeRows() as rows, *others]:
            table = NodeTable()
            table.apply(rows)
            return DecisionRecord(decision, tuple(o for o in others if isinstance(o, Outcome)), table)
    raise CodecError("a summary without its decision or its node table")


def _select_slots(record: DecisionRecord) -> list[int]:
    """Return the slots of the nodes that the summary of a record keeps, in ascending order.

    These are the RUNNERS_UP + 1 best nodes and the chosen node, or if none was chosen the rejected nodes that
    `select_nearest_rejected` returns.
    """
    d = record.decision
    rank = as_numpy(d.rank).astype(np.int64)
    feasible = np.flatnonzero(rank)
    best = feasible[np.argsort(rank[feasible], kind="stable")[: RUNNERS_UP + 1]].tolist()
    others = select_nearest_rejected(d, record.table, NEAREST_REJECTED) if d.chosen is None else [d.chosen]
    return sorted({*best, *others})


def _build_summary(d: Decision, now_us: int) -> Summary:
    evaluation = as_numpy(d.evaluation)
    evaluated = evaluation == Evaluation.EVALUATED
    labels = {Evaluation(int(value)).label: int((evaluation == value).sum()) for value in np.unique(evaluation)}
    labels.pop(Evaluation.ABSENT.label, None)
    columns = [_ids(f, len(evaluated)) for f in d.filters]
    verdicts = tuple(
        tuple(np.bincount(ids[evaluated], minlength=len(f.verdicts)).tolist())
        for f, ids in zip(d.filters, columns, strict=True)
    )
    tied = int((as_numpy(d.rank) == 1).sum())
    return Summary(now_us, labels, verdicts, _first_rejections(d, evaluated, columns), tied if tied > 1 else 0)


def _first_rejections(d: Decision, evaluated: NDArray[np.bool_], columns: Sequence[Ints]) -> tuple[FirstRejection, ...]:
    """Return, for each filter and verdict, how many nodes it was the first to reject.

    Each entry also says how many of these nodes later filters reject. `evaluated` has an entry per node slot. `columns`
    has an array per filter, with each slot's index into its verdicts.
    """
    rejections = [
        np.array([v.rejects_node for v in f.verdicts])[ids] for f, ids in zip(d.filters, columns, strict=True)
    ]
    left = evaluated.copy()
    first_rejections = []
    for position, (ids, rejects) in enumerate(zip(columns, rejections, strict=True)):
        first = left & rejects
        left &= ~rejects
        for number in np.unique(ids[first]).tolist():
            nodes = first & (ids == number)
            later = zip(d.filters[position + 1 :], rejections[position + 1 :], strict=True)
            also = {f.plugin: int((nodes & rejected).sum()) for f, rejected in later}
            later_counts = {plugin: n for plugin, n in also.items() if n}
            first_rejections.append(FirstRejection(position, int(number), int(nodes.sum()), later_counts))
    return tuple(first_rejections)


def _ids(f: FilterColumn, slots: int) -> Ints:
    return as_numpy(f.ids) if len(f.ids) else np.zeros(slots, np.uint8)


def _filter(f: FilterColumn, slots: Sequence[int]) -> FilterColumn:
    return replace(f, ids=_select(f.ids, slots))


def _score(s: ScoreColumn, slots: Sequence[int]) -> ScoreColumn:
    return replace(s, raw=_select(s.raw, slots), normalized=_select(s.normalized, slots))


def _inputs(i: Inputs, slots: Sequence[int]) -> Inputs:
    numbers = [replace(n, values=_select(n.values, slots), lacking=_select(n.lacking, slots)) for n in i.numbers]
    measured = _select(i.measured, slots) if len(i.measured) > 1 else i.measured  # one entry applies to all nodes
    return replace(i, numbers=tuple(numbers), measured=measured, stale=_select(i.stale, slots))


def _select(column: Column, slots: Sequence[int]) -> Column:
    return codec.column_from_numpy(as_numpy(column)[slots]) if len(column) else column


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgpack_decoder(list[bytes])
