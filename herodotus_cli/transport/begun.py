"""kubectl processes: begun when they are needed, or before it is certain that they are.

Owns: starting and ending them. Does not own: their command lines, what they print (`kubectl`).

Invariant: a process is taken for exactly the command line that it was begun with; what nobody takes is killed.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

Process = subprocess.Popen[bytes]
# Go collects garbage while kubectl builds up its commands, and finds none: a seventh of its time.
_LAZY: Final = {"GOGC": "400"}


class Begun:
    """Processes that were begun ahead, until they are taken."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, ...], Process] = {}

    def begin(self, command: Sequence[str], *, alone: bool = True) -> None:
        """Starts a command ahead. One that cannot be started fails when it is taken."""
        with suppress(OSError):
            self._waiting[tuple(command)] = _start(command, alone)

    def take(self, command: Sequence[str], *, alone: bool = True) -> Process:
        """The process of a command: the one that was begun ahead, or a new one. OSError where it cannot be started.

        `alone`: it may read what we may read; a credential plugin may ask something. Of two processes only one may.
        """
        return self._waiting.pop(tuple(command), None) or _start(command, alone)

    def close(self) -> None:
        """Ends what nobody has taken."""
        for process in self._waiting.values():
            end(process)
        self._waiting.clear()


def end(process: Process) -> None:
    """Kills a process. Its output is not read to the end: a child of kubectl may hold it open."""
    process.kill()
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
    process.wait()


def _start(command: Sequence[str], alone: bool) -> Process:
    stdin = None if alone else subprocess.DEVNULL
    environ = _LAZY | os.environ
    return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ)
