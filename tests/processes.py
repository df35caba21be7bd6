"""Real processes for tests: they listen on loopback, their output is kept, and they always end."""

from __future__ import annotations

import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[1]
PATIENCE_S = 60.0  # for what takes a second: a slow or busy machine is no failure

T = TypeVar("T")


class Process:
    """A child process in its own session, with its output in a file."""

    def __init__(
        self, name: str, command: list[str], log: Path, env: dict[str, str] | None = None, cwd: Path = ROOT
    ) -> None:
        """Start the command; `python -m` finds modules in `cwd`."""
        self.name = name
        self.log = log
        self._out = log.open("ab")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, pattern: str, timeout_s: float = PATIENCE_S) -> re.Match[str]:
        """Wait for `pattern` in the output and return its first match."""

        def found() -> re.Match[str] | None:
            match = re.search(pattern, self.output())
            if match is None and not self.running:
                raise AssertionError(f"{self.name} ended with {self._process.returncode}:\n{self.output()[-2000:]}")
            return match

        return eventually(found, f"{self.name} to say {pattern!r}", timeout_s)

    def kill(self) -> None:
        """Send SIGKILL to this process alone."""
        self._process.kill()
        self._process.wait()
        self._out.close()

    def kill_all(self) -> None:
        """Send SIGKILL to the process and its children; none of them runs afterwards."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._out.close()
        eventually(lambda: not in_session(self._process.pid), f"everything that {self.name} has started to end")

    def stop(self, timeout_s: float = PATIENCE_S) -> int:
        """Send SIGTERM and return the exit code; send SIGKILL to the whole session if it does not end."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            raise AssertionError(f"{self.name} did not end:\n{self.output()[-2000:]}") from None
        finally:
            self._out.close()


def python(*arguments: str) -> list[str]:
    """Return the command that runs a module of the project."""
    return [sys.executable, "-m", *arguments]


def in_session(leader: int) -> list[int]:
    """Return the ids of the running processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # it has just ended
            continue
        if int(session) == leader and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


def run_on_terminal(command: Sequence[str], environment: Mapping[str, str] | None = None) -> bytes:
    """Return what a program writes to a terminal. Raises CalledProcessError if it fails."""
    ours, theirs = pty.openpty()
    written = b""
    with subprocess.Popen(command, env=environment, stdout=theirs) as process, suppress(OSError):  # it closes its side
        os.close(theirs)
        while chunk := os.read(ours, 1 << 16):
            written += chunk
    os.close(ours)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, written)
    return written


def free_port() -> int:
    """Return a free port, for programs that cannot report the port that they got.

    A connection over it has just ended, so the system gives it to no other program for a minute. A server that binds it
    with SO_REUSEADDR, as servers do, still gets it.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            server.accept()[0].close()  # the first to close keeps the port
            client.recv(1)
        return int(server.getsockname()[1])


def eventually(check: Callable[[], T | None], what: str, timeout_s: float = PATIENCE_S, every_s: float = 0.05) -> T:
    """Call `check` until its result is neither None nor False and return it; raise AssertionError after the timeout."""
    deadline = time.monotonic() + timeout_s
    while True:
        result = check()
        if result is not None and result is not False:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what}")
        time.sleep(every_s)
