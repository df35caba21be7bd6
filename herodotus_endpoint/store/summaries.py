"""What is left of a decision when its full record is pruned, and its form at rest.

Owns: which nodes are kept, the counts over all of them, the bytes of a summary. Does not own: when decisions are
summarised (`retention`), how bytes share a key frame (`chains`), what is read from a summary (`herodotus_record`).

Kept are the chosen node and its runners-up; where none was chosen the nodes that are nearest to holding the pod. A
summary holds its own node table, of those nodes alone, and its outcomes: it needs no row of any other table.

Invariant: a summary is a decision like any other, over the nodes that are kept; its counts are those of the full
record. A summary of a summary is that summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_record import codec
from herodotus_record.codec import CodecError, as_numpy
from herodotus_record.explain import select_nearest_rejected
from herodotus_record.model import (
    Column,
    Decision,
    Evaluation,
    FilterColumn,
    FirstRejection,
    Frame,
    NodeRows,
    NodeTable,
    Outcome,
    ScoreColumn,
    Summary,
)

RUNNERS_UP: Final = 5  # a screen has ten nodes; the next five tell who came close, and by what
NEAREST_REJECTED: Final = 5  # nodes that were turned away: one for each of the filters that turned most away
MAGIC: Final = b"HS\x01"  # a summary at rest, version 1

Ints = NDArray[Any]


@dataclass(frozen=True)
class DecisionRecord:
    """A decision with what belongs to it, whole or summarised: what is shown, exported and summarised."""

    decision: Decision
    outcomes: tuple[Outcome, ...]
    table: NodeTable


def summarise_record(of: DecisionRecord, now_us: int) -> DecisionRecord:
    """What is kept of a decision from now on."""
    d = of.decision
    if d.summary:
        return of
    kept = _kept(of)
    at = {slot: place for place, slot in enumerate(kept)}
    decision = replace(
        d,
        slots=len(kept),
        chosen=None if d.chosen is None else at[d.chosen],
        evaluation=_only(d.evaluation, kept),
        rank=_only(d.rank, kept),
        totals=_only(d.totals, kept),
        filters=tuple(_filter(f, kept) for f in d.filters),
        scores=tuple(_score(s, kept) for s in d.scores),
        summary=_counts(d, now_us),
    )
    t = of.table
    table = NodeTable(
        generation=t.generation,
        names=[t.names[slot] for slot in kept],
        uids=[t.uids[slot] for slot in kept],
        since=[t.since[slot] for slot in kept],
        allocatable=[t.allocatable[slot] for slot in kept],
        requested=[t.requested[slot] for slot in kept],
    )
    return DecisionRecord(decision, of.outcomes, table)


def encode_summary(of: DecisionRecord) -> bytes:
    """A summary as plain bytes, which `chains` compresses."""
    d = of.decision
    parts: list[Frame] = [d, of.table.rows(d.key.cluster, d.key.incarnation), *of.outcomes]
    return join_frames([codec.encode(frame) for frame in parts])


def join_frames(frames: Sequence[bytes]) -> bytes:
    """The plain bytes of a summary that is made of these frames."""
    return MAGIC + _encoder.encode(frames)


def decode_summary(content: bytes) -> DecisionRecord:
    """The summary in plain bytes. CodecError when they are none."""
    return record_from_frames(split_frames(content))


def split_frames(content: bytes) -> list[bytes]:
    """What a summary in plain bytes is made of: the frames of its decision, of its node table, of its outcomes."""
    try:
        return _decoder.decode(content[len(MAGIC) :])
    except msgspec.MsgspecError as e:
        raise CodecError(f"a summary: {e}") from e


def record_from_frames(frames: Sequence[bytes]) -> DecisionRecord:
    """The summary that is made of these frames. CodecError when it is none."""
    match [codec.decode(frame) for frame in frames]:
        case [Decision() as decision, NodeRows() as rows, *others]:
            table = NodeTable()
            table.apply(rows)
            return DecisionRecord(decision, tuple(o for o in others if isinstance(o, Outcome)), table)
    raise CodecError("a summary without its decision or its node table")


def _kept(of: DecisionRecord) -> list[int]:
    """The slots that are kept, in their order."""
    d = of.decision
    rank = as_numpy(d.rank).astype(np.int64)
    feasible = np.flatnonzero(rank)
    best = feasible[np.argsort(rank[feasible], kind="stable")[: RUNNERS_UP + 1]].tolist()
    others = select_nearest_rejected(d, of.table, NEAREST_REJECTED) if d.chosen is None else [d.chosen]
    return sorted({*best, *others})


def _counts(d: Decision, now_us: int) -> Summary:
    evaluation = as_numpy(d.evaluation)
    looked = evaluation == Evaluation.EVALUATED
    labels = {Evaluation(int(value)).label: int((evaluation == value).sum()) for value in np.unique(evaluation)}
    labels.pop(Evaluation.ABSENT.label, None)
    columns = [_ids(f, len(looked)) for f in d.filters]
    verdicts = tuple(
        tuple(np.bincount(ids[looked], minlength=len(f.verdicts)).tolist())
        for f, ids in zip(d.filters, columns, strict=True)
    )
    tied = int((as_numpy(d.rank) == 1).sum())
    return Summary(now_us, labels, verdicts, _first_rejections(d, looked, columns), tied if tied > 1 else 0)


def _first_rejections(d: Decision, looked: NDArray[np.bool_], columns: Sequence[Ints]) -> tuple[FirstRejection, ...]:
    """As `explain.counted_rejections`, over whole columns."""
    against = [np.array([v.rejects_node for v in f.verdicts])[ids] for f, ids in zip(d.filters, columns, strict=True)]
    left = looked.copy()
    found = []
    for position, (ids, rejects) in enumerate(zip(columns, against, strict=True)):
        first = left & rejects
        left &= ~rejects
        for number in np.unique(ids[first]).tolist():
            nodes = first & (ids == number)
            later = zip(d.filters[position + 1 :], against[position + 1 :], strict=True)
            also = {f.plugin: int((nodes & rejected).sum()) for f, rejected in later}
            counted = {plugin: n for plugin, n in also.items() if n}
            found.append(FirstRejection(position, int(number), int(nodes.sum()), counted))
    return tuple(found)


def _ids(f: FilterColumn, slots: int) -> Ints:
    return as_numpy(f.ids) if len(f.ids) else np.zeros(slots, np.uint8)


def _filter(f: FilterColumn, kept: Sequence[int]) -> FilterColumn:
    return replace(f, ids=_only(f.ids, kept))


def _score(s: ScoreColumn, kept: Sequence[int]) -> ScoreColumn:
    return replace(s, raw=_only(s.raw, kept), normalized=_only(s.normalized, kept))


def _only(column: Column, kept: Sequence[int]) -> Column:
    return codec.column_from_numpy(as_numpy(column)[kept]) if len(column) else column


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[bytes])
