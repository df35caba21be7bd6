"""Reads the lines of a file or of standard input, until the end or while the file grows.

Invariant: holds one line of at most LINE_BYTES; the rest of a longer line is skipped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import BinaryIO, Final

LINE_BYTES: Final = 1 << 20  # a fit error on 5,000 nodes with a reason each is 500 kB
POLL_S: Final = 0.5


def lines_of(file: BinaryIO) -> Iterator[str]:
    """Yield the lines of a file or of standard input until it ends."""
    long = False
    while line := file.readline(LINE_BYTES):
        if not long:
            yield _text(line)
        long = not line.endswith(b"\n")


def followed(path: Path, sleep: Callable[[float], object] = time.sleep) -> Generator[str | None, None, None]:
    """Yield the lines of a growing file, and None whenever there is no new line, until `sleep` returns a true value.

    Reading continues at the start of the new file after a rotation, and of the same file if it was truncated. Raise
    OSError if the file does not exist at first.
    """
    file, part = path.open("rb"), b""
    try:
        while True:
            line = file.readline(LINE_BYTES)
            if line.endswith(b"\n") or len(part) >= LINE_BYTES:
                if len(part) < LINE_BYTES:
                    yield _text(part + line)
                part = b"" if line.endswith(b"\n") else part
                if line:
                    continue
            part = (part + line)[:LINE_BYTES]
            if line:
                continue
            yield None
            if sleep(POLL_S):
                return
            if _replaced(path, file):
                file.close()
                file, part = path.open("rb"), b""
    finally:
        file.close()


def _replaced(path: Path, file: BinaryIO) -> bool:
    """Return whether reading must start again: the open file was read to its end and replaced, or it was truncated."""
    try:
        now = path.stat()
    except OSError:
        return False  # between two files: the next look finds the new one
    held = os.fstat(file.fileno())
    if (now.st_ino, now.st_dev) != (held.st_ino, held.st_dev):
        return file.tell() >= held.st_size
    return now.st_size < file.tell()


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")
