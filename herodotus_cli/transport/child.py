"""A child process by `subprocess`: one that is written to, and any where there is no `posix_spawnp`.

Owns: that. Does not own: processes that are only read (`spawned`), whose methods these have too.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence


class Child:
    """A process that may be given something to read. OSError where it cannot be started."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], *, alone: bool, sent: bytes | None = None):
        """`alone`: it may read what we may read. `sent`: what it reads instead."""
        stdin = subprocess.PIPE if sent is not None else None if alone else subprocess.DEVNULL
        self._sent = sent
        self._process = subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ
        )

    def output(self, timeout_s: float) -> tuple[int, bytes, bytes]:
        """How it ended and what it wrote, to standard output and error. `timeout_s` 0: for ever; else TimeoutError."""
        try:
            out, err = self._process.communicate(self._sent, timeout=timeout_s or None)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        return self._process.returncode, out, err

    def end(self) -> None:
        """Kills it. Its output is not read to the end: a child of kubectl may hold it open."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream:
                stream.close()
        self._process.wait()
