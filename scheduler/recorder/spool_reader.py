"""The reader of the spool: yields the frames that are not delivered yet, in order, for every incarnation.

Owns: the acknowledged position, deleting delivered segments, finding damage and reporting what was lost. Does not own:
HTTP.

The reader verifies every frame's checksum and that sequence numbers are contiguous. Damage in the segment that a
running scheduler still writes is reported to that scheduler (`DAMAGED`), which writes the segment again. In any other
segment the reader skips the damaged bytes up to the next intact frame. It also skips frames that need a damaged one:
deltas of a damaged decision, and decisions that need damaged node rows. In place of missing sequence numbers it inserts
a gap record, which takes the first missing number, so that reading again gives the same record.

Invariant: the position moves forward only after an acknowledgement, and earlier frames are never read again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from herodotus_record import codec, klog
from herodotus_record.codec import deltas
from herodotus_record.model import Gap, NodeRows, NodeTable
from scheduler.recorder.frame_head import FrameHead, read_head
from scheduler.recorder.spool import ACK, DAMAGED, DELIVERED, encode_delivered, encode_position

BATCH_FRAMES: Final = 2000
BATCH_BYTES: Final = 20 << 20  # a whole segment: in a large batch a record costs the service half as much
PARTIAL_WRITE_S: Final = 2.0  # one write(2) may be seen half done; after this long it is damage
MAX_REWRITE_REQUESTS: Final = 3  # without delivering anything in between: what was written again is damaged too
REWRITE_TIMEOUT_S: Final = 10.0  # how long to wait for the writer of a damaged segment to write it again

_NODE_ROWS: Final = 4
_LOST: Final = "lost in the spool: damaged or deleted before it was delivered"


class Position(NamedTuple):
    """A byte offset in a spool segment, and the last sequence number before it, or None if that number is unknown."""

    offset: int
    reached: int | None


@dataclass(frozen=True)
class Batch:
    """Consecutive frames (encoded records) of one spool segment to deliver, with the position after each.

    Gap records that the reader inserts in place of lost frames are among the frames. `lost` is the number of records
    that these gap records report.
    """

    frames: tuple[bytes, ...]
    positions: tuple[Position, ...]
    end: Position  # behind the last frame and what is passed over
    lost: int  # sequences that those gap records name


@dataclass(frozen=True)
class _FullDecision:
    """The byte range of a decision that is not a delta in a spool segment, and the generation of its node table."""

    start: int
    end: int
    generation: int


class IncarnationSpool:
    """Reads the spool directory of one incarnation (run of a scheduler process) in batches.

    Reading starts after the last frame (encoded record) that the decisions service acknowledged.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._segment, self._offset = self._read_position()
        self.reached = self._read_delivered()  # the last sequence that was delivered; None: unknown
        self._rewrite_requests, self._requested_after = 0, self.reached
        self._stopped_at, self._stopped_s = -1, 0.0  # where the frames cannot be read, and since when
        self._requested_s: float | None = None  # when the writer was asked to write that segment again
        self._enter_segment()

    @property
    def name(self) -> str:
        return self.directory.name

    def has_writer(self) -> bool:
        """Return whether the scheduler process that writes to this directory is still running."""
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
    def is_in_last_segment(self) -> bool:
        """Whether the acknowledged position is in the newest segment, which the scheduler may still write."""
        return self._next_segment() is None

    def next_batch(self) -> Batch | None:
        """Return the next batch of frames (encoded records) to deliver, or None if there are none at present.

        Also return None while the scheduler is expected to write a damaged segment again. Segments whose frames were
        all acknowledged are deleted.
        """
        while True:
            following = self._next_segment()  # before reading: what is read then is all of the segment
            batch = self._read(following is not None)
            if batch is not None and batch.frames:
                return batch
            if batch is not None:  # all of it was delivered before, or is lost
                self._advance(self._segment, batch.end)
            elif following is not None:
                delivered_one = self._path(self._segment)
                self._advance(following, Position(0, self.reached))
                self._enter_segment()
                delivered_one.unlink(missing_ok=True)
                delivered_one.with_suffix(DAMAGED).unlink(missing_ok=True)
            else:
                return None

    def acknowledge(self, batch: Batch, frames: int) -> None:
        """Move the acknowledged position past the batch's first `frames` frames, which were delivered or set aside."""
        if frames:
            self._advance(self._segment, batch.end if frames == len(batch.frames) else batch.positions[frames - 1])

    def find_delta_bases(self, frames: Sequence[bytes]) -> list[bytes]:
        """Return the frames of the decisions to which deltas in `frames` refer.

        Decisions that are in `frames` themselves, or that are damaged, are omitted.
        """
        here = {deltas.read_base_name(frame) for frame in frames}
        names = dict.fromkeys(name for frame in frames if (name := deltas.find_base_name(frame)) and name not in here)
        return [base for name in names if (base := self._segment_index.read_decision(name)) is not None]

    def rebuild_node_table(self) -> bytes | None:
        """Return a frame with the rows of all nodes as of the acknowledged position, or None if it cannot be built.

        It is built from the node rows in the current segment.
        """
        table, cluster = NodeTable(), ""
        with self._path(self._segment).open("rb") as f:
            passed = f.read(self._offset)
        try:
            for _, frame in codec.split_frames(passed):
                if frame[codec.KIND_AT] == _NODE_ROWS and isinstance(rows := codec.decode(frame), NodeRows):
                    table.apply(rows)
                    cluster = rows.cluster
        except ValueError as e:  # damaged on disk, or rows that do not follow each other
            klog.error(e, "Cannot rebuild the node table from the spool", incarnation=self.name)
            return None
        return codec.encode(table.rows(cluster, self.name)) if cluster else None

    def count_waiting_bytes(self) -> int:
        """Return the number of bytes in this incarnation's segments after the acknowledged position."""
        total = -self._offset
        for segment in self.directory.glob("*.seg"):
            with contextlib.suppress(FileNotFoundError):  # delivered meanwhile
                total += segment.stat().st_size
        return max(total, 0)

    def delete(self) -> None:
        """Delete the incarnation's directory. Call it after everything was delivered and the scheduler has ended."""
        shutil.rmtree(self.directory, ignore_errors=True)

    # --- reading --------------------------------------------------------------------------------------------------

    def _read(self, ended: bool) -> Batch | None:
        """Return a batch of frames after the acknowledged position, or None if there is none yet.

        `ended` says that the scheduler has begun another segment, so this one is complete. Damaged bytes are skipped
        unless the reader requests that the scheduler write the segment again.
        """
        scan = self._scan(BATCH_BYTES)
        if isinstance(scan.stopped, codec.TruncatedError) and not scan.frames:  # perhaps a frame larger than a batch
            scan = self._scan(BATCH_BYTES + codec.MAX_FRAME_BYTES)
        if scan.stopped is None or scan.frames:
            return scan.batch()
        alive = self.has_writer()
        if alive and not ended and self._request_rewrite(scan.stopped):
            return None
        damage = scan.stopped  # read again: this is all that comes
        scan = self._scan(
            BATCH_BYTES + codec.MAX_FRAME_BYTES,
            salvage=True,
            newest=codec.VERSION if alive else codec.NEWEST_EVER,
        )
        if scan.skipped_bytes:
            segment_name = f"{self.name}/{self._segment:08d}"
            klog.error(
                damage, "Spool segment is damaged, passing over it", segment=segment_name, bytes=scan.skipped_bytes
            )
        return scan.batch()

    def _scan(self, most: int, *, salvage: bool = False, newest: int = codec.VERSION) -> _SegmentScan:
        try:
            with self._path(self._segment).open("rb") as f:
                f.seek(self._offset)
                data = f.read(most)
        except FileNotFoundError:
            data = b""
        scan = _SegmentScan(self.name, self._segment_index, Position(self._offset, self.reached), salvage, newest)
        scan.read(data, BATCH_FRAMES)
        return scan

    def _request_rewrite(self, damage: codec.CodecError) -> bool:
        """Ask the scheduler to write the current segment again, because of damage at the acknowledged position.

        Return whether to wait for that; False after too many requests or after the timeout.
        """
        now = time.monotonic()
        if self._stopped_at != self._offset:
            self._stopped_at, self._stopped_s, self._requested_s = self._offset, now, None
        if isinstance(damage, codec.TruncatedError) and now - self._stopped_s < PARTIAL_WRITE_S:
            return True
        if self._requested_s is None:
            self._rewrite_requests = 1 if self._requested_after != self.reached else self._rewrite_requests + 1
            self._requested_after = self.reached
            if self._rewrite_requests > MAX_REWRITE_REQUESTS:
                return False
            segment_name = f"{self.name}/{self._segment:08d}"
            klog.error(damage, "Spool segment is damaged, the scheduler writes it again", segment=segment_name)
            self._requested_s = now
            self._path(self._segment).with_suffix(DAMAGED).touch()
        return now - self._requested_s < REWRITE_TIMEOUT_S

    def _enter_segment(self) -> None:
        """Reset the index and the record of damage, which are about the previous segment."""
        self._index: _SegmentIndex | None = None
        self._stopped_at, self._stopped_s = -1, 0.0
        self._requested_s = None

    @property
    def _segment_index(self) -> _SegmentIndex:
        """The index of decisions and node rows before the acknowledged position, built when it is first needed."""
        if self._index is None:
            self._index = _SegmentIndex(self._path(self._segment))
            with contextlib.suppress(FileNotFoundError), self._path(self._segment).open("rb") as f:
                passed = f.read(self._offset)
                scan = _SegmentScan("", self._index, Position(0, None), salvage=True, newest=codec.NEWEST_EVER)
                scan.read(passed, len(passed))
                self._index.damaged = False  # the service has what was there
        return self._index

    def _next_segment(self) -> int | None:
        """Return the number of the segment after the current one, or None if the current one is the last."""
        if self._path(self._segment + 1).exists():
            return self._segment + 1
        return min((n for f in self.directory.glob("[0-9]*.seg") if (n := int(f.stem)) > self._segment), default=None)

    def _path(self, segment: int) -> Path:
        return self.directory / f"{segment:08d}.seg"

    def _read_position(self) -> tuple[int, int]:
        try:
            segment, offset = (self.directory / ACK).read_text().split()
            return int(segment), int(offset)
        except (FileNotFoundError, ValueError):
            segments = sorted(self.directory.glob("*.seg"))
            return (int(segments[0].stem) if segments else 1), 0

    def _read_delivered(self) -> int | None:
        try:
            return int((self.directory / DELIVERED).read_text())
        except (FileNotFoundError, ValueError):  # nothing was delivered yet, or the directory was deleted
            return None

    def _advance(self, segment: int, to: Position) -> None:
        """Move the acknowledged position to `to` in `segment`, and write it to the position files.

        The files are overwritten in place, so that delivered segments can be deleted even on a full disk. They are not
        synced: after a power loss frames may be delivered again, which the decisions service recognizes.
        """
        if to.reached is not None and to.reached != self.reached:
            self._overwrite(DELIVERED, encode_delivered(to.reached))
        self._overwrite(ACK, encode_position(segment, to.offset))
        self._segment, self._offset, self.reached = segment, to.offset, to.reached

    def _overwrite(self, name: str, content: bytes) -> None:
        file = os.open(self.directory / name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(file, content, 0)
        finally:
            os.close(file)


@dataclass
class _SegmentIndex:
    """An index of the decisions and node rows in the read part of a spool segment, to which later frames may refer."""

    path: Path
    full_decisions: dict[bytes, _FullDecision] = field(default_factory=dict)  # by what deltas call them
    generation: int = -1  # of the node table that its rows make
    damaged: bool = False

    def read_decision(self, name: bytes) -> bytes | None:
        """Return the frame of the decision that deltas refer to by `name`, or None if it is absent or damaged."""
        location = self.full_decisions.get(name)
        if location is None:
            return None
        try:
            with self.path.open("rb") as f:
                frame = os.pread(f.fileno(), location.end - location.start, location.start)
            codec.verify_payload(memoryview(frame))
        except (OSError, codec.CodecError, struct.error):
            return None
        return frame if deltas.read_base_name(frame) == name else None


class _SegmentScan:
    """One pass over the frames (encoded records) of a spool segment, which verifies and collects them.

    It stops at the first damaged frame, or with `salvage` skips damaged bytes and inserts gap records.
    """

    def __init__(self, name: str, contents: _SegmentIndex, start: Position, salvage: bool, newest: int) -> None:
        """Prepare a pass that begins at `start`; `name` is the incarnation, and `contents` the index to extend.

        Frames of an unknown later version, up to `newest`, are passed on without being decoded.
        """
        self.frames: list[bytes] = []
        self.stopped: codec.CodecError | None = None  # what is wrong with the bytes behind the last frame
        self.skipped_bytes = 0  # bytes
        self._name, self._segment_index, self._salvage, self._newest = name, contents, salvage, newest
        self._start, self._end = start, start
        self._positions: list[Position] = []
        self._lost = 0
        self._intact: set[bytes] = set()  # names of decisions that deltas may differ from

    def read(self, data: bytes, most: int) -> None:
        """Collect at most `most` frames from `data`, the bytes of the segment from the start position on.

        If damage ends the pass, `stopped` holds the error.
        """
        view, offset = memoryview(data), 0
        while offset < len(data) and len(self.frames) < most:
            begin = offset if not self._salvage else codec.find_frame(data, offset)
            try:
                if begin is None:
                    begin = len(data)
                if begin > offset:
                    self._skip(begin - offset)
                    offset = begin
                    continue
                end, frame = next(codec.split_frames(view, offset))
                codec.verify_payload(frame)
                head = read_head(frame, self._newest)
            except codec.CodecError as e:
                if not self._salvage:
                    self.stopped = e
                    return
                self._skip(1)
                offset += 1
                continue
            try:
                self._add_if_new(frame, head, self._start.offset + offset, self._start.offset + end)
            except codec.CodecError as e:
                if not self._salvage:
                    self.stopped = e
                    return
                self._skip(end - offset)
            offset = end

    def batch(self) -> Batch | None:
        """Return the collected frames as a batch, or None if the pass has not moved past the start position."""
        if self._end == self._start:
            return None
        return Batch(tuple(self.frames), tuple(self._positions), self._end, self._lost)

    def _skip(self, size: int) -> None:
        self.skipped_bytes += size
        self._segment_index.damaged = True
        self._end = Position(self._end.offset + size, self._end.reached)

    def _add_if_new(self, frame: memoryview, head: FrameHead | None, begin: int, end: int) -> None:
        """Collect the frame between the offsets `begin` and `end`, unless it was delivered before.

        Insert a gap record before it if sequence numbers are missing. Raise CodecError if it refers to a damaged frame.
        """
        if head is None:
            self._add(bytes(frame), Position(end, None))
            return
        self._check_readable(head)
        self._index_frame(frame, head, begin, end)
        reached = self._end.reached
        if head.sequence and head.incarnation == self._name:
            if reached is not None and head.sequence <= reached:
                self._end = Position(end, reached)
                return
            last = (head.sequence if head.gap is None else min(head.gap[0], head.sequence)) - 1
            if reached is not None and reached < last:
                gap = Gap(self._name, reached + 1, reached + 1, last, _LOST, time.time_ns() // 1000)
                self._add(codec.encode(gap), Position(begin, last))
                self._lost += last - reached
            reached = head.sequence
        self._add(bytes(frame), Position(end, reached))

    def _add(self, frame: bytes, position: Position) -> None:
        self.frames.append(frame)
        self._positions.append(position)
        self._end = position

    def _check_readable(self, head: FrameHead) -> None:
        """Raise CodecError if the frame refers to a decision or node rows that are damaged or missing."""
        index, needs = self._segment_index, head.needs
        if head.base is not None:
            if head.base not in self._intact and index.read_decision(head.base) is None:
                raise codec.CodecError("a delta whose base is damaged")
            self._intact.add(head.base)
            needs = index.full_decisions[head.base].generation if needs is None else needs
        if index.damaged and needs is not None and needs > index.generation:
            raise codec.CodecError(f"a decision on generation {needs} of a damaged node table")
        if index.damaged and head.rows is not None and head.rows[0] > index.generation:
            raise codec.CodecError(f"node rows after generation {head.rows[0]} of a damaged node table")

    def _index_frame(self, frame: memoryview, head: FrameHead, begin: int, end: int) -> None:
        """Add the frame to the segment's index if it is a whole decision or node rows: later frames may need it."""
        if head.rows is not None:
            self._segment_index.generation = max(self._segment_index.generation, head.rows[1])
        elif (name := deltas.read_base_name(frame)) is not None and head.needs is not None:
            self._segment_index.full_decisions[name] = _FullDecision(begin, end, head.needs)
            self._intact.add(name)


def list_incarnations(directory: Path, readers: Mapping[str, IncarnationSpool] = {}) -> Iterator[IncarnationSpool]:
    """Yield a reader for the directory of each incarnation (run of a scheduler process) in the spool, oldest first.

    `readers` are the readers that exist, by name: these are yielded again.
    """
    directories = (
        [d for d in directory.iterdir() if d.is_dir() and not d.name.startswith(".")] if directory.is_dir() else []
    )
    for each in sorted(directories, key=lambda d: (d.stat().st_ctime_ns, d.name)):
        yield readers.get(each.name) or IncarnationSpool(each)
