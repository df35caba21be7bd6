"""A program in a pseudo terminal: what it prints, keys, and the state in which it leaves the terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

ALTERNATE_SCREEN, MAIN_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b[=>]")


class PseudoTerminal:
    """A program whose controlling terminal has a size. `text` is what it has printed, `started` when it started."""

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        columns: int = 80,
        lines: int = 24,
        cwd: Path | None = None,
    ) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.text = ""
        self._seen = 0  # characters of it without escape sequences, up to the last match of wait_for
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            cwd=cwd,
            env={"TERM": "xterm-256color", **environ},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def read(self, timeout_s: float) -> bool:
        """Read what there is, waiting for it for a while. Return whether there was something."""
        if not select.select([self.master], [], [], timeout_s)[0]:
            return False
        with suppress(OSError):  # the program has ended
            self.text += os.read(self.master, 65_536).decode("utf-8", "replace")
        return True

    def wait_until(self, is_done: Callable[[], bool], timeout_s: float = 60) -> None:
        """Read until a condition holds. Raises AssertionError with the last output after a timeout."""
        until = time.monotonic() + timeout_s
        while not is_done():
            assert time.monotonic() < until, self.text[-3000:]
            self.read(0.05)

    def wait_for(self, pattern: str, timeout_s: float = 60) -> str:
        """Read until a pattern matches the output, without escape sequences, and return the match.

        Output up to the match of an earlier call does not count.
        """
        matches: list[re.Match[str] | None] = [None]

        def is_printed() -> bool:
            matches[0] = re.compile(pattern).search(_ESCAPES.sub("", self.text), self._seen)
            return matches[0] is not None

        self.wait_until(is_printed, timeout_s)
        assert matches[0] is not None
        self._seen = matches[0].end()
        return matches[0][0]

    def count_bytes(self) -> int:
        """Return how many bytes the program has printed."""
        return len(self.text.encode())

    def press(self, keys: str) -> None:
        """Type keys."""
        os.write(self.master, keys.encode())

    def wait_for_end(self) -> int:
        """Read until the program has ended, and return its exit code."""
        self.wait_until(lambda: self.process.poll() is not None)
        while self.read(0.05):
            pass
        return self.process.wait()

    def check_restored(self) -> None:
        """Check that the program has left the terminal as it was: modes, main screen, cursor."""
        assert termios.tcgetattr(self.slave) == self.before
        assert self.text.rindex(MAIN_SCREEN) > self.text.rfind(ALTERNATE_SCREEN)
        assert self.text.rindex(SHOW_CURSOR) > self.text.rfind(HIDE_CURSOR)

    def close(self) -> None:
        """End the program, and close the terminal."""
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)
