"""The reading end of the spool: what was not delivered yet, in order, of every incarnation.

Owns: the position up to which deliveries were acknowledged, deleting what was delivered. Does not own: HTTP.

Invariant: a position only moves forward after an acknowledgement; what it passed is never read again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from herodotus_record import codec
from herodotus_record.codec import deltas
from herodotus_record.model import NodeRows, NodeTable
from scheduler import klog
from scheduler.recorder.spool import ACK, position

BATCH_FRAMES: Final = 2000
BATCH_BYTES: Final = 20 << 20  # a whole segment: in a large batch a record costs the service half as much

_NODE_ROWS: Final = 4


@dataclass(frozen=True)
class Batch:
    """Frames of one segment, and the offset behind each of them."""

    frames: tuple[bytes, ...]
    ends: tuple[int, ...]


class IncarnationSpool:
    """One incarnation's segments, read from the acknowledged position on."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._segment, self._offset = self._position()
        self._bases: dict[bytes, tuple[int, int]] = {}  # name of a frame of this segment -> from, to

    @property
    def name(self) -> str:
        """The incarnation."""
        return self.directory.name

    def alive(self) -> bool:
        """Whether a scheduler still writes here."""
        try:
            lock = os.open(self.directory / "writer.lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    @property
    def at_the_end(self) -> bool:
        """Whether the position is in the segment that is still being written."""
        return not self._path(self._segment + 1).exists()

    def next_batch(self) -> Batch | None:
        """What comes next, at most a batch; None when everything there is was acknowledged.

        CodecError when the segment is damaged here: see `skip_damage`.
        """
        while True:
            batch = self._read()
            if batch is not None:
                return batch
            if not self._path(self._segment + 1).exists():
                return None
            self._move(self._segment + 1, 0)  # the writer has gone on, so this segment is complete
            self._bases.clear()
            self._path(self._segment - 1).unlink(missing_ok=True)

    def acknowledge(self, batch: Batch, frames: int) -> None:
        """The first `frames` frames of the batch were delivered, or set aside."""
        if frames:
            self._move(self._segment, batch.ends[frames - 1])

    def bases(self, frames: Sequence[bytes]) -> list[bytes]:
        """The decisions that deltas among these frames differ from, and that are not among them."""
        here = {deltas.name_of(frame) for frame in frames}
        names = dict.fromkeys(name for frame in frames if (name := deltas.base_of(frame)) and name not in here)
        if not names:
            return []
        with self._path(self._segment).open("rb") as f:
            if not names.keys() <= self._bases.keys():  # we have begun in the middle of the segment
                with contextlib.suppress(codec.CodecError):
                    for end, frame in codec.split(f.read(self._offset)):
                        self._note(frame, end)
            found = [self._bases[name] for name in names if name in self._bases]
            return [os.pread(f.fileno(), end - start, start) for start, end in found]

    def node_table(self) -> bytes | None:
        """The complete node table as of the position, as a frame; None where there is none to be had."""
        table, cluster = NodeTable(), ""
        with self._path(self._segment).open("rb") as f:
            passed = f.read(self._offset)
        try:
            for _, frame in codec.split(passed):
                if frame[codec.KIND_AT] == _NODE_ROWS and isinstance(rows := codec.decode(frame), NodeRows):
                    table.apply(rows)
                    cluster = rows.cluster
        except ValueError as e:  # damaged on disk, or rows that do not follow each other
            klog.error(e, "Cannot rebuild the node table from the spool", incarnation=self.name)
            return None
        return codec.encode(table.rows(cluster, self.name)) if cluster else None

    def skip_damage(self) -> int:
        """Pass over the rest of a damaged segment; how many bytes were given up."""
        size = self._path(self._segment).stat().st_size
        lost = size - self._offset
        self._move(self._segment, size)
        return lost

    def waiting_bytes(self) -> int:
        """What is behind the acknowledged position; sizes as they are this moment."""
        total = -self._offset
        for segment in self.directory.glob("*.seg"):
            with contextlib.suppress(FileNotFoundError):  # delivered meanwhile
                total += segment.stat().st_size
        return max(total, 0)

    def delete(self) -> None:
        """Everything was delivered and nobody writes here any more."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _read(self) -> Batch | None:
        try:
            with self._path(self._segment).open("rb") as f:
                f.seek(self._offset)
                data = f.read(BATCH_BYTES)
                batch = self._split(data)
                if batch is None and len(data) == BATCH_BYTES:  # one frame larger than a batch
                    batch = self._split(data + f.read(codec.MAX_FRAME_BYTES))
        except FileNotFoundError:
            return None
        return batch

    def _split(self, data: bytes) -> Batch | None:
        """The whole frames at the start of `data`; what is cut off at its end is still being written, or comes next."""
        frames: list[bytes] = []
        ends: list[int] = []
        try:
            for end, frame in codec.split(data):
                frames.append(bytes(frame))
                ends.append(self._offset + end)
                self._note(frame, self._offset + end)
                if len(frames) == BATCH_FRAMES:
                    break
        except codec.TruncatedError:
            pass
        except codec.CodecError:
            if not frames:
                raise
        return Batch(tuple(frames), tuple(ends)) if frames else None

    def _note(self, frame: memoryview, end: int) -> None:
        """Deltas may name it."""
        name = deltas.name_of(frame)
        if name is not None:
            self._bases[name] = (end - len(frame), end)

    def _path(self, segment: int) -> Path:
        return self.directory / f"{segment:08d}.seg"

    def _position(self) -> tuple[int, int]:
        try:
            segment, offset = (self.directory / ACK).read_text().split()
            return int(segment), int(offset)
        except (FileNotFoundError, ValueError):
            segments = sorted(self.directory.glob("*.seg"))
            return (int(segments[0].stem) if segments else 1), 0

    def _move(self, segment: int, offset: int) -> None:
        """In place, so that a full disk does not keep what was delivered from being deleted.

        Not synced to disk: after power loss something may be delivered again, which the service recognises.
        """
        file = os.open(self.directory / ACK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(file, position(segment, offset), 0)
        finally:
            os.close(file)
        self._segment, self._offset = segment, offset


def incarnations(directory: Path) -> Iterator[IncarnationSpool]:
    """Every incarnation in the spool, oldest first."""
    found = [d for d in directory.iterdir() if d.is_dir() and not d.name.startswith(".")] if directory.is_dir() else []
    for each in sorted(found, key=lambda d: (d.stat().st_ctime_ns, d.name)):
        yield IncarnationSpool(each)
