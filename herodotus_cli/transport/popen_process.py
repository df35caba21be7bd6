"""A child process run by `subprocess`: for commands with input, and for systems without `posix_spawnp`.

Owns: that process. Does not own: processes started with `posix_spawnp` (`spawned_process`). Both have the same methods.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence


class PopenProcess:
    """A child process run by `subprocess`, which can get input. The constructor raises OSError if it cannot start."""

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], *, inherits_stdin: bool, stdin: bytes | None = None
    ):
        """Start the command. Its standard input is `stdin`, or the parent's with `inherits_stdin`, or else empty."""
        pipe = subprocess.PIPE if stdin is not None else None if inherits_stdin else subprocess.DEVNULL
        self._stdin = stdin
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ
        )

    def communicate(self, timeout_s: float) -> tuple[int, bytes, bytes]:
        """Wait for the process and return exit code, stdout and stderr.

        Raises TimeoutError after `timeout_s` seconds; 0 means no limit.
        """
        try:
            out, err = self._process.communicate(self._stdin, timeout=timeout_s or None)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        return self._process.returncode, out, err

    def kill(self) -> None:
        """Kill the process. Its output is not read to the end, because a child of kubectl may hold it open."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream:
                stream.close()
        self._process.wait()
