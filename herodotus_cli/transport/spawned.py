"""A child process, started with nothing but the operating system's calls.

`subprocess` takes 9 ms to import, a quarter of what kubectl needs for an answer: it would be started so much later.

Owns: starting, reading what is written, ending. Does not own: writing to a process, or systems without `posix_spawnp`
(`child`).

Invariant: what was started is waited for, by `output` or `end`; both ends of its pipes are closed with it.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

POSSIBLE = hasattr(os, "posix_spawnp")
_SIGPIPE = 13  # Python ignores it, and what kubectl starts is to know it; the module that names it takes 2 ms
_PIECE = 65_536  # bytes


class Spawned:
    """A process whose output is to be read. OSError where it cannot be started."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], *, alone: bool) -> None:
        """`alone`: it may read what we may read; otherwise it reads nothing."""
        (self._out, out), (self._err, err) = os.pipe(), os.pipe()
        self._pipes = [self._out, self._err]
        nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        written = ((os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2))
        actions = written if alone else (nothing, *written)
        self.ended = True
        try:
            self._pid = os.posix_spawnp(command[0], list(command), environ, file_actions=actions, setsigdef=[_SIGPIPE])
            self.ended = False
        finally:
            os.close(out)
            os.close(err)
            if self.ended:
                self.end()

    def output(self, timeout_s: float) -> tuple[int, bytes, bytes]:
        """How it ended and what it wrote, to standard output and error. `timeout_s` 0: for ever; else TimeoutError."""
        import select  # here, because the process is at work by now

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
                piece = os.read(pipe, _PIECE)
                found[pipe].append(piece)
                if not piece:
                    poll.unregister(pipe)
                    left -= 1
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self.ended = True
        return code, b"".join(found[self._out]), b"".join(found[self._err])

    def end(self) -> None:
        """Kills it. Its output is not read to the end: a child of kubectl may hold it open."""
        if not self.ended:
            os.kill(self._pid, 9)
            os.waitpid(self._pid, 0)
            self.ended = True
        while self._pipes:
            os.close(self._pipes.pop())
