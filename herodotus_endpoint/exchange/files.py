"""Files that are there whole, or not at all, and for their owner alone: names and labels of a cluster are in them.

Owns: names, modes, renaming. Does not own: what is in a file.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


class FileRefusedError(Exception):
    """A file cannot be read or written as it is asked for. The message says why."""


@contextmanager
def written(to: Path | None) -> Iterator[BinaryIO]:
    """A new file, 0600, that has its name when it is whole; None: standard output."""
    if to is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with _unnamed(to) as unnamed, created(unnamed) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def created(path: Path) -> BinaryIO:
    """A new file, 0600."""
    return open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")


@contextmanager
def directory(to: Path) -> Iterator[Path]:
    """A new directory, 0700, that has its name when all is in it."""
    with _unnamed(to) as unnamed:
        unnamed.mkdir(mode=0o700)
        yield unnamed


@contextmanager
def read(file: Path) -> Iterator[BinaryIO]:
    """A file, or standard input (`-`)."""
    try:
        with sys.stdin.buffer if str(file) == "-" else file.open("rb") as opened:
            yield opened
    except OSError as e:
        raise FileRefusedError(f"cannot read {file}: {e.strerror or e}") from e


@contextmanager
def _unnamed(to: Path) -> Iterator[Path]:
    """A name beside the right one, for as long as it is written; what is left of an earlier attempt goes."""
    unnamed = to.with_name(f"{to.name}.part")
    if to.exists():
        raise FileRefusedError(f"cannot write {to}: it is there already")
    try:
        _remove(unnamed)
        yield unnamed
        unnamed.rename(to)
    except OSError as e:
        raise FileRefusedError(f"cannot write {to}: {e.strerror or e}") from e
    finally:
        _remove(unnamed)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
