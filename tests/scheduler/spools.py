"""What is in a spool directory, decoded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from herodotus_record import codec
from herodotus_record.codec import deltas
from herodotus_record.model import Decision, Frame, Gap, NodeRows, NodeTable, Outcome
from scheduler.recorder.spool_reader import list_incarnations

F = TypeVar("F", Decision, Outcome, Gap, NodeRows)


def frames(directory: Path) -> list[Frame]:
    """Every whole frame, by incarnation and segment. A frame that is being written is not whole yet."""
    return [f for segment in sorted(directory.glob("*/*.seg")) for f in _decode_whole(segment.read_bytes())]


def _decode_whole(data: bytes) -> Iterator[Frame]:
    with suppress(codec.TruncatedError):
        yield from deltas.decode_all(data)


def of(kind: type[F], directory: Path) -> list[F]:
    return [f for f in frames(directory) if isinstance(f, kind)]


def sequences(directory: Path) -> list[int]:
    """Return the sequence numbers of the frames, including gaps, ascending."""
    found: list[int] = []
    for f in frames(directory):
        if isinstance(f, Gap):
            found += range(f.first, f.last + 1)
        if not isinstance(f, NodeRows):
            found.append(f.sequence)
    return sorted(found)


def table(directory: Path) -> NodeTable:
    """Return the node table after all frames."""
    made = NodeTable()
    for rows in of(NodeRows, directory):
        if rows.base == -1:
            made = NodeTable()
        made.apply(rows)
    return made


def read_decisions(spool: Path) -> dict[str, Decision]:
    """Return the decisions in a spool directory by the name of the pod."""
    found = {}
    for incarnation in list_incarnations(spool) if spool.exists() else ():
        batch = incarnation.next_batch()
        for frame in batch.frames if batch else ():
            record = codec.decode(frame)
            if isinstance(record, Decision):
                found[record.pod.name] = record
    return found
