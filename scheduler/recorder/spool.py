"""Frames on disk, in order, until the decisions service has them.

Owns: segments, their size, the size limit, writing a damaged or deleted segment again. Does not own: what is in a
frame, delivery (`shipper`).

    DIR/INCARNATION/00000001.seg ...    frames, one after the other; a segment with decisions starts with the node table
    DIR/INCARNATION/00000001.damaged    the shipper found that segment damaged while it was still being written
    DIR/INCARNATION/writer.lock         held (flock) while the incarnation lives
    DIR/INCARNATION/ack                 how far the shipper's deliveries were acknowledged: segment and offset
    DIR/INCARNATION/delivered           the last sequence that was delivered
    DIR/INCARNATION/reserve             disk space for gap records, released when the disk is full
    DIR/shipper.lock                    held by the one shipper of this directory

`append` is one write(2): what it returned from survives the death of the process. It survives power loss only once the
kernel has written it out; a sequence that never arrives is then found missing by the decisions service.

The open segment is also kept in memory (`_content`). When its file is no longer what was written (deleted, truncated,
replaced, or reported damaged by the shipper), the content becomes the next segment and the old file is deleted. So
damage to the open segment loses nothing while the process lives. Damage to earlier segments is the reader's concern
(`spool_reader`).

A segment ends at a size in proportion to its node table and to the space that there is. It also ends when a frame does
not fit, or when the next node table would not: a delivered segment can be deleted only once it has ended.

Invariant: a frame is in the spool whole, or not at all: what a full disk cuts off is removed again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from pathlib import Path
from typing import Final

from herodotus_record import klog

SEGMENT_BYTES: Final = (4 << 20, 16 << 20)  # the bounds of a segment's size; it is held in memory, and lost at most
TABLES_IN_SEGMENT: Final = 24  # a segment is this many times its node table and first decision: they add 4%
SEGMENTS_IN_SPOOL: Final = 8  # in a small spool; the delivered part of the open segment is not free yet
DEFAULT_LIMIT_BYTES: Final = 1 << 30  # 10,000 decisions on 5,000 nodes while the service is away
MIN_LIMIT_BYTES: Final = 64 << 10  # eight segments with the node table of a small cluster and a few decisions
RESERVE_BYTES: Final = 4096  # a block of most filesystems: some twenty gap records
REPAIR_SHOWN_S: Final = 600.0  # how long a health check names a repair
CHECK_EVERY_APPENDS: Final = 64  # appends between looks at the files; what is written in between is in memory too


ACK: Final = "ack"
DELIVERED: Final = "delivered"
DAMAGED: Final = ".damaged"


def encode_position(segment: int, offset: int) -> bytes:
    """Return the content of the file `ack`: the segment number and byte offset up to which frames were acknowledged.

    Its length is constant, so the file can be overwritten in place.
    """
    return f"{segment:020d} {offset:020d}\n".encode()


def encode_delivered(sequence: int) -> bytes:
    """Return the content of the file `delivered`: the last sequence number that was delivered.

    Its length is constant, so the file can be overwritten in place.
    """
    return f"{sequence:020d}\n".encode()


class SpoolFullError(OSError):
    """The spool's size limit is reached, or the disk is full or cannot be written. The frames were not written."""


class Spool:
    """Writes the encoded records of one scheduler process to segment files.

    Not thread-safe: the recorder serializes calls.
    """

    def __init__(self, directory: Path, incarnation: str, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        """Create the directory of this incarnation (run of a scheduler process). Raise OSError if that is impossible.

        `limit_bytes` limits the size of all incarnations in `directory` together.
        """
        self.directory = directory
        self.limit_bytes = limit_bytes
        self.repairs = 0  # segments that were written again
        self._path_of_incarnation = directory / incarnation
        self._reserve_path = self._path_of_incarnation / "reserve"
        self._fault = ""  # why the open segment cannot be written again
        self._repaired_s = float("-inf")
        self._closed = False
        self._lock = -1
        self._file = -1
        self._path = ""
        self._identity = (0, 0)  # device and inode of the open segment
        self._number = 0
        self._size = 0
        self._content: list[bytes] = []  # of the open segment
        self._start_bytes = 0  # bytes of its node table and first decision
        self._target = 0  # the size at which it ends
        self._has_table = False
        self._total = 0
        self._disk_free = 0  # at the last look
        self._free = 0  # bytes that may still be written
        self._appends = 0
        self._create_directory(first_segment=1, delivered_sequence=encode_delivered(0))
        self._measure_space()

    @property
    def total_bytes(self) -> int:
        """The bytes in the segments of all incarnations when they were last measured, plus those written since then."""
        return self._total

    @property
    def needs_rotation(self) -> bool:
        """Whether the next decision should start a new segment file, which begins with the rows of all nodes."""
        return not self._has_table or self._size >= self._target

    @property
    def fault(self) -> str:
        """A message about a current or recent problem with the spool's files, or "" if there is none."""
        if self._fault:
            return f"the spool cannot be written: {self._fault}"
        ago_s = time.monotonic() - self._repaired_s
        if ago_s >= REPAIR_SHOWN_S:
            return ""
        return f"a segment was deleted or damaged and written again {ago_s:.0f} s ago ({self.repairs} in all)"

    def rotate(self, first: bytes) -> None:
        """Start a new segment file with the frames `first`, which begin with the rows of all nodes.

        Raise SpoolFullError if there is no room; the next decision then has to write these rows again.
        """
        self._prepare(len(first))
        if self._file < 0 or self._size:
            self._begin_segment()
        self._write(first)
        self._has_table, self._start_bytes = True, len(first)
        self._target = self._segment_bytes(len(first))
        if self._free < len(first):
            self._end_full_segment()

    def append(self, frames: bytes, *, urgent: bool = False) -> None:
        """Append frames (encoded records) to the open segment file.

        Raise SpoolFullError, and write nothing, if there is no room. With `urgent`, which is for gap records, the
        frames may use the reserved disk space.
        """
        self._appends += 1
        if self._free < len(frames) + self._start_bytes or self._file < 0 or self._appends % CHECK_EVERY_APPENDS == 0:
            self._append_after_check(frames, urgent=urgent)
        else:
            self._write(frames, urgent=urgent)

    def _append_after_check(self, frames: bytes, *, urgent: bool) -> None:
        """Check the spool's files and the remaining space, then append frames.

        Raise SpoolFullError if there is no room.
        """
        self._prepare(len(frames), urgent=urgent)
        if self._file < 0:
            self._begin_segment()
        self._write(frames, urgent=urgent)
        if self._has_table and self._free < self._start_bytes:  # the next node table must fit beside this segment
            self._end_full_segment()

    def has_room(self, size: int) -> bool:
        """Measure the directory and the disk, and return whether `size` more bytes fit."""
        self._measure_space()
        return self._free >= size

    def check(self) -> None:
        """Write the open segment again if its file was deleted or damaged.

        Restore the reserved disk space if it fits.
        """
        if self._closed:
            return
        with contextlib.suppress(SpoolFullError):  # kept in `_fault`; the next record tries again
            self._repair()
            self._fill_reserve()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called, after which nothing can be written."""
        return self._closed

    def close(self) -> None:
        """Check the files and close them.

        From then on the shipper may delete the directory once everything is delivered.
        """
        self.check()
        self._closed = True
        self._content = []
        for file in (self._file, self._lock):
            if file >= 0:
                os.close(file)
        self._file = self._lock = -1

    # --- the open segment ---------------------------------------------------------------------------------------

    def _prepare(self, more: int, *, urgent: bool = False) -> None:
        """Repair the open segment if its file was damaged, and raise SpoolFullError unless `more` bytes fit."""
        if self._closed:
            raise SpoolFullError(errno.EBADF, "the spool is closed")
        self._repair()
        self._measure_space()
        if (self.limit_bytes - self._total if urgent else self._free) < more:  # whether a gap fits, the disk says
            self._end_full_segment()
            held, most = self._total, self.limit_bytes
            raise SpoolFullError(errno.ENOSPC, f"the spool holds {held} bytes of at most {most}")

    def _begin_segment(self) -> None:
        """Create the next segment file and make it the open one. The previous segment is then complete.

        Only complete segments are deleted once they are delivered.
        """
        path = self._path_of_incarnation / f"{self._number + 1:08d}.seg"
        file = _create(path)
        if self._file >= 0:
            os.close(self._file)
        self._number += 1
        self._open(file, path)
        self._content = []
        self._has_table = False
        self._target = self._segment_bytes(0)

    def _open(self, file: int, path: Path) -> None:
        stat = os.fstat(file)
        self._file, self._path, self._identity = file, str(path), (stat.st_dev, stat.st_ino)
        self._size = 0

    def _end_full_segment(self) -> None:
        """Begin a new segment because there is no room, so that the full one can be deleted as soon as it is delivered.

        A segment without a node table stays open, as otherwise each outcome in a full spool would begin a segment.
        """
        if self._has_table:
            with contextlib.suppress(SpoolFullError):
                self._begin_segment()

    def _write(self, frames: bytes, *, urgent: bool = False) -> None:
        try:
            _write_fully(self._file, frames, self._size)
        except SpoolFullError:
            if not (urgent and self._release_reserve()):
                self._end_full_segment()
                raise
            _write_fully(self._file, frames, self._size)
        self._content.append(frames)
        self._size += len(frames)
        self._total += len(frames)
        self._free -= len(frames)

    # --- repair -------------------------------------------------------------------------------------------------

    def _repair(self) -> None:
        """Write the open segment again if its file was changed from outside. Raise SpoolFullError if that fails."""
        damage = self._find_damage()
        if not damage:
            return
        try:
            self._rewrite_segment()
        except OSError as e:
            self._fault = f"{damage}, and {e.strerror or e}"
            raise SpoolFullError(e.errno, self._fault) from e
        self.repairs += 1
        self._repaired_s = time.monotonic()
        self._fault = ""
        klog.error(
            damage,
            "The spool was damaged from outside, wrote its open segment again",
            directory=str(self._path_of_incarnation),
        )

    def _find_damage(self) -> str:
        """Return a message on how the open segment's file differs from what was written, or "" if no difference shows.

        Only the file's identity, its size and the shipper's report are checked.
        """
        if not self._path:
            return "" if self._path_of_incarnation.exists() else f"{self._path_of_incarnation} was deleted"
        try:
            stat = os.stat(self._path)
        except OSError as e:
            return f"{self._path}: {e.strerror}"
        if (stat.st_dev, stat.st_ino) != self._identity:
            return f"{self._path} was replaced"
        if stat.st_size != self._size:
            return f"{self._path} has {stat.st_size} bytes, {self._size} were written"
        if os.path.exists(f"{self._path[:-4]}{DAMAGED}"):
            return f"{self._path} fails its checksums"
        return ""

    def _rewrite_segment(self) -> None:
        """Write the open segment's content, which is kept in memory, to the next segment file and delete the old file.

        Readers see the new file only when it is complete.
        """
        if not self._path_of_incarnation.exists():
            self._create_directory(first_segment=self._number + 1, delivered_sequence=b"")
        if not self._path:
            return
        old = Path(self._path)
        path = self._path_of_incarnation / f"{self._number + 1:08d}.seg"
        unnamed = path.with_suffix(".new")
        content = b"".join(self._content)
        unnamed.unlink(missing_ok=True)
        file = _create(unnamed)
        try:
            try:
                _write_fully(file, content, 0)
            except SpoolFullError:
                old.unlink(missing_ok=True)  # its blocks are the room
                os.ftruncate(self._file, 0)
                _write_fully(file, content, 0)
            old.unlink(missing_ok=True)
            old.with_suffix(DAMAGED).unlink(missing_ok=True)
            unnamed.rename(path)
        except OSError:
            os.close(file)
            unnamed.unlink(missing_ok=True)
            raise
        os.close(self._file)
        self._number += 1
        self._open(file, path)
        self._size, self._content = len(content), [content]

    def _create_directory(self, first_segment: int, delivered_sequence: bytes) -> None:
        """Create the incarnation's directory under a temporary name, lock it, and then give it its final name.

        `first_segment` and `delivered_sequence` are the initial content of the position files.
        """
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        unnamed = self.directory / f".{self._path_of_incarnation.name}"
        unnamed.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(unnamed / "writer.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(OSError):  # they take their room now; on a full disk the shipper tries again
                (unnamed / ACK).write_bytes(encode_position(first_segment, 0))
                (unnamed / DELIVERED).write_bytes(delivered_sequence)
            unnamed.rename(self._path_of_incarnation)
        except OSError:
            os.close(lock)
            raise
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = lock
        with contextlib.suppress(SpoolFullError):
            self._fill_reserve()

    # --- room ---------------------------------------------------------------------------------------------------

    def _measure_space(self) -> None:
        """Measure the spool's size and the disk's free space, and update the number of writable bytes.

        What a released reserve lacks is kept free for gap records.
        """
        self._total = sum(_get_size(f) for f in self.directory.glob("*/*.seg"))
        reserved = _get_size(self._reserve_path)
        try:
            disk = os.statvfs(self.directory)
            self._disk_free = disk.f_bavail * disk.f_frsize
        except OSError:  # deleted: creating it again tells
            self._disk_free = self.limit_bytes
        least = min(RESERVE_BYTES, self.limit_bytes // 16)
        self._free = min(self.limit_bytes - self._total - least, self._disk_free - (RESERVE_BYTES - reserved))

    def _segment_bytes(self, first: int) -> int:
        """Return the size in bytes at which a segment is to end.

        Its first frames, a node table and a decision, take `first` bytes.
        """
        least, most = SEGMENT_BYTES
        usual = min(max(TABLES_IN_SEGMENT * first, least), most)
        capacity = min(self.limit_bytes, self._total + self._disk_free)
        return min(usual, max(capacity // SEGMENTS_IN_SPOOL, 2 * first))

    def _fill_reserve(self) -> None:
        """Fill the reserve file if it is not full and the disk has room.

        Its disk blocks are kept free for gap records.
        """
        if _get_size(self._reserve_path) == RESERVE_BYTES:
            return
        self._measure_space()
        if self._disk_free < 2 * RESERVE_BYTES:
            return
        file = os.open(self._reserve_path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            _write_fully(file, bytes(RESERVE_BYTES), 0)
        finally:
            os.close(file)

    def _release_reserve(self) -> bool:
        """Truncate the reserve file to free its disk blocks. Return whether it had any."""
        held = _get_size(self._reserve_path) > 0
        with contextlib.suppress(OSError):
            os.truncate(self._reserve_path, 0)
        self._free = 0  # the next record measures: the room belongs to gap records
        return held


def _create(path: Path) -> int:
    """Create a file for appending and return its descriptor. Raise SpoolFullError if it cannot be created."""
    try:
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as e:
        raise SpoolFullError(e.errno, f"cannot create {path.name}: {e.strerror}") from e


def _write_fully(file: int, data: bytes, size: int) -> None:
    """Append `data` to a file of `size` bytes. If it does not fit, restore the file and raise SpoolFullError."""
    try:
        written = os.write(file, data)
    except OSError as e:
        raise SpoolFullError(e.errno, e.strerror) from e
    if written < len(data):
        os.ftruncate(file, size)
        raise SpoolFullError(errno.ENOSPC, "No space left on device")


def _get_size(file: Path) -> int:
    """Return a file's size in bytes, or 0 if the file does not exist."""
    try:
        return file.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0
