"""Frames on disk, in order, until the decisions service has them.

Owns: segments, their rotation, the size limit. Does not own: what is in a frame, who ships it (`shipper`).

    DIR/INCARNATION/00000001.seg ...    frames, one after the other; a segment with decisions starts with the node table
    DIR/INCARNATION/writer.lock         held (flock) while the incarnation lives
    DIR/INCARNATION/ack                 how far the shipper's deliveries were acknowledged
    DIR/shipper.lock                    held by the one shipper of this directory

`append` is one write(2): what it returned from survives the death of the process. It survives power loss only once the
kernel has written it out; a sequence that never arrives is then found missing by the decisions service.

Invariant: a frame is in the spool whole, or not at all: what a full disk cuts off is removed again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final

SEGMENT_BYTES: Final = 16 << 20  # a shipped segment is deleted whole; this is what lags behind
DEFAULT_LIMIT_BYTES: Final = 1 << 30  # 10,000 decisions on 5,000 nodes while the service is away
_COUNT_EVERY: Final = 64  # appends between looks at what the shipper has deleted


ACK: Final = "ack"


def position(segment: int, offset: int) -> bytes:
    """What is in ACK: always as long, so that it is written over in place."""
    return f"{segment:020d} {offset:020d}\n".encode()


class SpoolFullError(OSError):
    """The limit is reached, or the disk is full. The frame was not written."""


class Spool:
    """The writing end of one incarnation's spool. Not thread-safe: the recorder serialises."""

    def __init__(self, directory: Path, incarnation: str, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        """Create the incarnation's directory. OSError when that cannot be."""
        self.directory = directory
        self.limit_bytes = limit_bytes
        self._own = directory / incarnation
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # locked before it has its name: a shipper deletes what nobody has locked
        unnamed = directory / f".{incarnation}"
        unnamed.mkdir(mode=0o700)
        self._lock = os.open(unnamed / "writer.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(OSError):  # takes its room now; on a full disk the shipper tries again
            (unnamed / ACK).write_bytes(position(1, 0))
        unnamed.rename(self._own)
        self._number = 0
        self._file = -1
        self._size = 0
        self._total = 0
        self._appends = 0

    @property
    def empty(self) -> bool:
        """Whether this incarnation has no segment yet."""
        return self._number == 0

    @property
    def total_bytes(self) -> int:
        """What all incarnations hold, as last counted."""
        return self._total

    @property
    def wants_rotation(self) -> bool:
        """Whether the next frame should start a new segment."""
        return self._file < 0 or self._size >= SEGMENT_BYTES

    def rotate(self, first: bytes) -> None:
        """Start a new segment with these frames. SpoolFullError when there is no room."""
        self._check_room(len(first))
        path = self._own / f"{self._number + 1:08d}.seg"
        try:
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as e:
            raise SpoolFullError(e.errno, f"cannot create {path.name}: {e.strerror}") from e
        old, size = self._file, self._size
        self._file, self._size = file, 0
        try:
            self._write(first)
        except SpoolFullError:  # go on with the old segment: a disk that stays full must not fill up with empty ones
            self._file, self._size = old, size
            os.close(file)
            path.unlink()
            raise
        self._number += 1
        if old >= 0:
            os.close(old)

    def append(self, frames: bytes) -> None:
        """Write frames to the end. SpoolFullError when there is no room; nothing is written then."""
        self._check_room(len(frames))
        self._write(frames)

    def close(self) -> None:
        """Let go of the files; the shipper may delete the directory once everything is delivered."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _write(self, frames: bytes) -> None:
        try:
            written = os.write(self._file, frames)
        except OSError as e:
            raise SpoolFullError(e.errno, e.strerror) from e
        if written < len(frames):
            os.ftruncate(self._file, self._size)
            raise SpoolFullError(28, "No space left on device")
        self._size += written
        self._total += written

    def _check_room(self, more: int) -> None:
        self._appends += 1
        if self._appends % _COUNT_EVERY == 1 or self._total + more > self.limit_bytes:
            self._total = sum(_size(f) for f in self.directory.glob("*/*.seg"))
        if self._total + more > self.limit_bytes:
            raise SpoolFullError(28, f"the spool holds {self._total} bytes of at most {self.limit_bytes}")


def _size(segment: Path) -> int:
    """Its size; 0 where the shipper has just deleted it."""
    try:
        return segment.stat().st_size
    except FileNotFoundError:
        return 0
