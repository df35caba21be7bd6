"""A child process started with system calls only.

Importing `subprocess` takes 9 ms, a quarter of kubectl's time for an answer; kubectl would start that much later.

Owns: starting, reading the output, killing. Does not own: processes with input, or systems without `posix_spawnp`
(`popen_process`).

Invariant: every started process is waited for, by `communicate` or `kill`, and its pipes are closed with it.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

IS_SUPPORTED = hasattr(os, "posix_spawnp")
# Python ignores SIGPIPE and children inherit that; kubectl must not. Importing `signal` takes 2 ms.
_SIGPIPE = 13
_CHUNK = 65_536  # bytes


class SpawnedProcess:
    """A child process started with `posix_spawnp`. The constructor raises OSError if it cannot start."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], *, inherits_stdin: bool) -> None:
        """Start the command. With `inherits_stdin` it reads the parent's standard input, otherwise an empty one."""
        (self._out, out), (self._err, err) = os.pipe(), os.pipe()
        self._pipes = [self._out, self._err]
        nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        written = ((os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2))
        actions = written if inherits_stdin else (nothing, *written)
        self.ended = True
        try:
            self._pid = os.posix_spawnp(command[0], list(command), environ, file_actions=actions, setsigdef=[_SIGPIPE])
            self.ended = False
        finally:
            os.close(out)
            os.close(err)
            if self.ended:
                self.kill()

    def communicate(self, timeout_s: float) -> tuple[int, bytes, bytes]:
        """Wait for the process and return exit code, stdout and stderr.

        Raises TimeoutError after `timeout_s` seconds; 0 means no limit.
        """
        import select  # here, because the process is running by now

        poll, last = select.poll(), time.monotonic() + timeout_s
        found: dict[int, list[bytes]] = {self._out: [], self._err: []}
        for pipe in found:
            poll.register(pipe, select.POLLIN)
        left = len(found)
        while left:
            ready = poll.poll(max(0.0, last - time.monotonic()) * 1000 if timeout_s else None)
            if not ready:
                raise TimeoutError
            for pipe, _ in ready:
                chunk = os.read(pipe, _CHUNK)
                found[pipe].append(chunk)
                if not chunk:
                    poll.unregister(pipe)
                    left -= 1
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self.ended = True
        return code, b"".join(found[self._out]), b"".join(found[self._err])

    def kill(self) -> None:
        """Kill the process. Its output is not read to the end, because a child of kubectl may hold it open."""
        if not self.ended:
            os.kill(self._pid, 9)
            os.waitpid(self._pid, 0)
            self.ended = True
        while self._pipes:
            os.close(self._pipes.pop())
