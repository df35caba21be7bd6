"""JSON lines: each line is a document of kind Decision that can be imported again.

Owns: writing and reading a line. Does not own: files and progress (`command`), storing (`store`).

A line is the complete document of a record, with an additional field `import`: the frames of the record in base64.
Only these frames are imported. They begin with the rows of the node table that changed since the line of decision
`rowsAfter`, or with the complete table if that is null. A table of 5,000 nodes in each line would be most of the file.
A summary contains the few rows that it needs.

Invariant: a line is imported completely or refused. Lines that are imported in order give each decision its node table;
a line whose predecessor `rowsAfter` is missing is refused.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_answers.decision import build_decision_document
from herodotus_endpoint.api.record_limits import check_frame
from herodotus_endpoint.store.export import ExportedDecision
from herodotus_endpoint.store.summaries import DecisionRecord, join_frames, record_from_frames
from herodotus_record import codec
from herodotus_record.codec import CodecError, batches
from herodotus_record.model import API_VERSION, Decision, Frame, NodeRows, NodeTable, Outcome
from herodotus_record.typed_decoding import json_decoder

MAX_LINE_BYTES: Final = 256 << 20  # a decision on 15,000 nodes is 11 MB as a document, its frame and rows 5 MB

MAX_FRAMES: Final = 100_000  # of one decision: itself, its node rows, its outcomes

Ints = NDArray[Any]


class LineError(ValueError):
    """A line of an import file that cannot be imported. The message says why."""


@dataclass
class _WrittenRows:
    """The node-table rows of one scheduler incarnation that an export has written so far."""

    line: str  # id of the last decision whose line has node rows
    generation: int
    since: Ints  # by slot: generation of the row that was written; -1: none


class LineWriter:
    """Encodes decisions as the lines of one export file, in order.

    It remembers which node-table rows it has written, which takes 40 kB for each scheduler incarnation with 5,000
    nodes.
    """

    def __init__(self) -> None:
        self._written: dict[str, _WrittenRows] = {}

    def line(self, exported: ExportedDecision) -> bytes:
        """Return a decision with its outcomes and node table as one line of JSON, with the line end."""
        d, table = exported.record.decision, exported.record.table
        rows_after, rows = (None, []) if d.summary else self._collect_rows(d, table)
        document = build_decision_document(d, exported.record.outcomes, table)
        content = {"rowsAfter": rows_after, "frames": [*map(codec.encode, rows), *exported.frames]}
        return _encoder.encode({**document, "import": content}) + b"\n"

    def _collect_rows(self, d: Decision, table: NodeTable) -> tuple[str | None, list[NodeRows]]:
        """Return the value of `rowsAfter`, and frames with the node-table rows that changed since that decision's line.

        `rowsAfter` is the id of the last decision whose line contains node-table rows of this incarnation, or None if
        there is no such line yet. The frames then contain the complete table.
        """
        written = self._written.setdefault(d.key.incarnation, _WrittenRows("", -1, np.zeros(0, np.int64)))
        since = np.array(table.since, np.int64)
        slots = max(len(since), len(written.since))
        since, before = (np.pad(s, (0, slots - len(s)), constant_values=-1) for s in (since, written.since))
        changed = np.flatnonzero((since != before) & (since >= 0)).tolist()
        rows_after, base = written.line or None, written.generation
        if written.line and written.generation == d.generation and not changed:
            return rows_after, []
        written.since, written.generation, written.line = np.where(since >= 0, since, before), d.generation, d.id
        return rows_after, _build_frames(d, table, changed, base)


def _build_frames(d: Decision, table: NodeTable, slots: Sequence[int], base: int) -> list[NodeRows]:
    """Return frames with the node-table rows of these node slots, one frame for each distinct set of resource names.

    `base` is the generation (version) of the node table that the rows update.
    """
    amounts = {slot: (table.allocatable[slot], table.requested[slot]) for slot in slots}
    by_resources: dict[tuple[str, ...], list[int]] = {(): []} if not slots else {}
    for slot, (allocatable, _) in amounts.items():
        by_resources.setdefault(tuple(sorted(allocatable)), []).append(slot)
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
        for resources, held in by_resources.items()
    ]


@dataclass(frozen=True)
class ImportLine:
    """A line of an import file: its line number, and its frames in order, each decoded and as encoded bytes."""

    number: int
    frames: list[tuple[Frame | DecisionRecord, bytes]]

    @property
    def size(self) -> int:
        """The total size of the encoded frames in bytes."""
        return sum(len(raw) for _, raw in self.frames)


class LineReader:
    """Decodes the lines of one import file in order.

    It refuses a line whose node table continues that of a line which is not before it.
    """

    def __init__(self) -> None:
        self._last_with_rows: dict[str, str] = {}  # by incarnation: id of the last decision whose line has node rows

    def lines(self, file: BinaryIO) -> Iterator[ImportLine]:
        """Decode and yield the lines of a file.

        Raises LineError, which names the line number, at a line that cannot be imported.
        """
        number = 0
        while raw := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            try:
                yield ImportLine(number, self._decode(raw))
            except (CodecError, LineError, msgspec.MsgspecError, UnicodeDecodeError) as e:
                raise LineError(f"line {number}: {e}") from e

    def _decode(self, raw: bytes) -> list[tuple[Frame | DecisionRecord, bytes]]:
        if len(raw) > MAX_LINE_BYTES:
            raise LineError(f"longer than {MAX_LINE_BYTES} bytes")
        document = _decoder.decode(raw)
        if (document.api_version, document.kind) != (API_VERSION, "Decision"):
            kind = f"{document.api_version} {document.kind}"
            raise LineError(f"a document of {kind!r}, expected '{API_VERSION} Decision'")
        if document.content is None:
            raise LineError("there is nothing to import: it was not written by `export`")
        encoded = bytes(document.content.frames)
        if encoded.count(b",") > MAX_FRAMES:
            raise LineError(f"more than {MAX_FRAMES} frames")
        raws = _frames.decode(encoded)
        frames = [check_frame(frame) for frame in batches.decode_together(raws)]
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
        self._check_order(d, document.content.rows_after, bool(rows))
        return list(zip(frames, raws, strict=True))

    def _check_order(self, d: Decision, rows_after: str | None, has_rows: bool) -> None:
        incarnation = d.key.incarnation
        if rows_after is not None and self._last_with_rows.get(incarnation) != rows_after:
            raise LineError(f"its node table continues that of decision {rows_after}, whose line is not before it")
        if rows_after is None and not has_rows:
            raise LineError("its node table is missing")
        if has_rows:
            self._last_with_rows[incarnation] = d.id


def _are_rows(d: Decision, frames: Sequence[Frame]) -> bool:
    return all(isinstance(f, NodeRows) and f.incarnation == d.key.incarnation for f in frames)


def _are_outcomes(d: Decision, frames: Sequence[Frame]) -> bool:
    of = (d.key.incarnation, d.sequence)
    return all(isinstance(f, Outcome) and (f.incarnation, f.decision_sequence) == of for f in frames)


class _Content(msgspec.Struct, rename="camel"):
    """The field `import` of a line: the frames of one record, and the decision whose node-table rows they continue."""

    rows_after: str | None
    frames: msgspec.Raw  # a list of bytes, in base64


class _Document(msgspec.Struct, rename={"api_version": "apiVersion", "content": "import"}):
    """The fields of a JSON line that the import reads; it ignores all other fields."""

    api_version: str
    kind: str
    content: _Content | None = None


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = json_decoder(_Document)
_frames: Final = json_decoder(list[bytes])
