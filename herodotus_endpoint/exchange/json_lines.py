"""JSON lines: one document of kind Decision per line, with everything needed to store it again.

Owns: writing and reading lines. Does not own: files and progress (`command`), storage (`store`).

A line holds the whole record as `document` writes it, for people and programs, and under `import` the decision's frames
in base64. Only the frames are imported. They begin with the changes of the scheduler's node table since the line
`rowsAfter`, or with the whole table if that is null: a table of 5,000 nodes in each line would be most of the file. A
summary includes the few rows that it stores itself.

Invariant: a line is stored whole or refused. Lines imported in order give the node table that each decision saw; a line
whose `rowsAfter` is not before it is refused.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_endpoint.api.record_limits import check_frame
from herodotus_endpoint.store.export import ExportedDecision
from herodotus_endpoint.store.summaries import DecisionRecord, join_frames, record_from_frames
from herodotus_record import codec
from herodotus_record.codec import CodecError
from herodotus_record.document import build_decision_document
from herodotus_record.model import API_VERSION, Decision, Frame, NodeRows, NodeTable, Outcome

MAX_LINE_BYTES: Final = 256 << 20  # a decision on 15,000 nodes is 11 MB as a document, its frame and rows 5 MB

Ints = NDArray[Any]


class LineError(ValueError):
    """A line that cannot be imported; the message says why."""


@dataclass
class _WrittenRows:
    """The node table of one incarnation as written so far."""

    line: str  # the decision in whose line rows stood last
    generation: int
    since: Ints  # by slot: which row was written; -1: none


class LineWriter:
    """Writes the lines of one export in order. It keeps 40 kB per incarnation of 5,000 nodes."""

    def __init__(self) -> None:
        self._told: dict[str, _WrittenRows] = {}

    def line(self, found: ExportedDecision) -> bytes:
        """Return the line of a decision, with its newline."""
        d, table = found.whole.decision, found.whole.table
        rows_after, rows = (None, []) if d.summary else self._rows(d, table)
        document = build_decision_document(d, found.whole.outcomes, table)
        document["import"] = {"rowsAfter": rows_after, "frames": [*map(codec.encode, rows), *found.frames]}
        return _encoder.encode(document) + b"\n"

    def _rows(self, d: Decision, table: NodeTable) -> tuple[str | None, list[NodeRows]]:
        """Return the rows that changed since the last line of the incarnation, and that line's decision ID."""
        told = self._told.setdefault(d.key.incarnation, _WrittenRows("", -1, np.zeros(0, np.int64)))
        since = np.array(table.since, np.int64)
        slots = max(len(since), len(told.since))
        since, before = (np.pad(s, (0, slots - len(s)), constant_values=-1) for s in (since, told.since))
        changed = np.flatnonzero((since != before) & (since >= 0)).tolist()
        rows_after, base = told.line or None, told.generation
        if told.line and told.generation == d.generation and not changed:
            return rows_after, []
        told.since, told.generation, told.line = np.where(since >= 0, since, before), d.generation, d.id
        return rows_after, _frames(d, table, changed, base)


def _frames(d: Decision, table: NodeTable, slots: Sequence[int], base: int) -> list[NodeRows]:
    """Return the rows of these slots, one frame for each distinct list of resources."""
    amounts = {slot: (table.allocatable[slot], table.requested[slot]) for slot in slots}
    alike: dict[tuple[str, ...], list[int]] = {(): []} if not slots else {}
    for slot, (allocatable, _) in amounts.items():
        alike.setdefault(tuple(sorted(allocatable)), []).append(slot)
    return [
        NodeRows(
            cluster=d.key.cluster,
            incarnation=d.key.incarnation,
            base=base,
            generation=d.generation,
            resources=resources,
            slot=array("q", held),
            since=array("q", (table.since[slot] for slot in held)),
            name=tuple(table.names[slot] for slot in held),
            uid=tuple(table.uids[slot] for slot in held),
            allocatable=tuple(array("q", (amounts[slot][0][r] for slot in held)) for r in resources),
            requested=tuple(array("q", (amounts[slot][1][r] for slot in held)) for r in resources),
        )
        for resources, held in alike.items()
    ]


@dataclass(frozen=True)
class ImportLine:
    """A decision to store: its frames and their bytes in order."""

    number: int
    frames: list[tuple[Frame | DecisionRecord, bytes]]

    @property
    def size(self) -> int:
        """The size of the frames in bytes."""
        return sum(len(raw) for _, raw in self.frames)


class LineReader:
    """Reads the lines of one file in order."""

    def __init__(self) -> None:
        self._rows_in: dict[str, str] = {}  # by incarnation: the decision in whose line rows stood last

    def lines(self, file: BinaryIO) -> Iterator[ImportLine]:
        """Yield every line. Raises LineError with the number of a line that cannot be imported."""
        number = 0
        while raw := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            try:
                yield ImportLine(number, self._decoded(raw))
            except (CodecError, LineError, msgspec.MsgspecError, UnicodeDecodeError) as e:
                raise LineError(f"line {number}: {e}") from e

    def _decoded(self, raw: bytes) -> list[tuple[Frame | DecisionRecord, bytes]]:
        if len(raw) > MAX_LINE_BYTES:
            raise LineError(f"longer than {MAX_LINE_BYTES} bytes")
        document = _decoder.decode(raw)
        if (document.api_version, document.kind) != (API_VERSION, "Decision"):
            of = f"{document.api_version} {document.kind}"
            raise LineError(f"a document of {of!r}, expected '{API_VERSION} Decision'")
        if document.content is None:
            raise LineError("there is nothing to import: it was not written by `export`")
        raws = document.content.frames
        frames = [check_frame(codec.decode(raw)) for raw in raws]
        at, d = next(((i, frame) for i, frame in enumerate(frames) if isinstance(frame, Decision)), (0, None))
        if d is None:
            raise LineError("frames without a decision")
        rows, later = (frames[1:2], frames[2:]) if d.summary and at == 0 else (frames[:at], frames[at + 1 :])
        if not _are_rows(d, rows) or not _are_outcomes(d, later):
            raise LineError("frames are not those of one decision: its node rows, itself, its outcomes")
        if d.summary:
            summary = record_from_frames(raws)
            if len(summary.table.names) != d.slots:
                raise LineError(f"a summary of {d.slots} nodes with a table of {len(summary.table.names)}")
            return [(summary, join_frames(raws))]
        self._follow(d, document.content.rows_after, bool(rows))
        return list(zip(frames, raws, strict=True))

    def _follow(self, d: Decision, rows_after: str | None, more: bool) -> None:
        incarnation = d.key.incarnation
        if rows_after is not None and self._rows_in.get(incarnation) != rows_after:
            raise LineError(f"its node table goes on from decision {rows_after}, whose line is not before it")
        if rows_after is None and not more:
            raise LineError("its node table is not there")
        if more:
            self._rows_in[incarnation] = d.id


def _are_rows(d: Decision, frames: Sequence[Frame]) -> bool:
    return all(isinstance(f, NodeRows) and f.incarnation == d.key.incarnation for f in frames)


def _are_outcomes(d: Decision, frames: Sequence[Frame]) -> bool:
    of = (d.key.incarnation, d.sequence)
    return all(isinstance(f, Outcome) and (f.incarnation, f.decision_sequence) == of for f in frames)


class _Content(msgspec.Struct, rename="camel"):
    """The part of a line that is imported."""

    rows_after: str | None
    frames: list[bytes]  # base64 in JSON


class _Document(msgspec.Struct, rename={"api_version": "apiVersion", "content": "import"}):
    """The fields of a line that are read; others are ignored."""

    api_version: str
    kind: str
    content: _Content | None = None


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(_Document)
