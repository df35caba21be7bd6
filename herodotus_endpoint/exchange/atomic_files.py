"""Files and directories that get their names when they are complete.

Owns: names, modes, renaming. Does not own: contents.

Only the owner can read the files, because they hold names and labels of a cluster.

Invariant: a file that was not completed never has the name that the user gave.
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
    """A file that cannot be read or written as the user asks. The message says why."""


@contextmanager
def create_file(to: Path | None, *, may_replace: bool = False) -> Iterator[BinaryIO]:
    """Yield a new file of mode 0600 for writing, and rename it to `to` when the block ends without an exception.

    If `to` is None, yield standard output. Raises FileRefusedError if `to` cannot be written, or if it exists and is
    not to be replaced.
    """
    if to is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with _partial_path(to, may_replace) as partial, open_new_file(partial) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def open_new_file(path: Path) -> BinaryIO:
    """Create a file of mode 0600 and open it for writing. Raises FileExistsError if the path exists."""
    return open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")


@contextmanager
def create_directory(to: Path) -> Iterator[Path]:
    """Yield the path of a new directory of mode 0700, and rename it to `to` when the block ends without an exception.

    Raises FileRefusedError if `to` exists or cannot be written.
    """
    with _partial_path(to) as partial:
        partial.mkdir(mode=0o700)
        yield partial


@contextmanager
def open_input(file: Path) -> Iterator[BinaryIO]:
    """Yield `file` opened for reading, or standard input if `file` is `-`.

    Raises FileRefusedError if it cannot be opened or read.
    """
    try:
        with sys.stdin.buffer if str(file) == "-" else file.open("rb") as opened:
            yield opened
    except OSError as e:
        raise FileRefusedError(f"cannot read {file}: {e.strerror or e}") from e


@contextmanager
def _partial_path(to: Path, may_replace: bool = False) -> Iterator[Path]:
    """Yield the path `TO.part` for a new file or directory, and rename it to `to` when the block ends.

    If the block raises an exception, what it created at `TO.part` is deleted. Raises FileRefusedError if `to` exists
    and is not to be replaced.
    """
    partial = to.with_name(f"{to.name}.part")
    if to.exists() and not may_replace:
        raise FileRefusedError(f"cannot write {to}: it is there already")
    try:
        _remove(partial)
        yield partial
        partial.rename(to)
    except OSError as e:
        raise FileRefusedError(f"cannot write {to}: {e.strerror or e}") from e
    finally:
        _remove(partial)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
