"""Real processes for tests: started on loopback, their output kept, always ended."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[1]
PATIENCE_S = 60.0  # for what takes a second: a slow or busy machine is no failure

T = TypeVar("T")


class Process:
    """A child process in a session of its own, with its output in a file."""

    def __init__(
        self, name: str, command: list[str], log: Path, env: dict[str, str] | None = None, cwd: Path = ROOT
    ) -> None:
        """`cwd`: the folder whose modules `python` runs."""
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
        """The first match of `pattern` in the output."""

        def found() -> re.Match[str] | None:
            match = re.search(pattern, self.output())
            if match is None and not self.running:
                raise AssertionError(f"{self.name} ended with {self._process.returncode}:\n{self.output()[-2000:]}")
            return match

        return eventually(found, f"{self.name} to say {pattern!r}", timeout_s)

    def kill(self) -> None:
        """SIGKILL, to this process alone."""
        self._process.kill()
        self._process.wait()
        self._out.close()

    def kill_all(self) -> None:
        """SIGKILL, to it and to what it has started, where it runs; nothing of it runs afterwards."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._out.close()
        eventually(lambda: not in_session(self._process.pid), f"everything that {self.name} has started to end")

    def stop(self, timeout_s: float = PATIENCE_S) -> int:
        """SIGTERM, and the exit code; SIGKILL to the whole session when it does not end."""
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
    """A command that runs a module of the project."""
    return [sys.executable, "-m", *arguments]


def in_session(leader: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # it has just ended
            continue
        if int(session) == leader and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


def free_port() -> int:
    """A port that the system gives; for programs that cannot be asked which one they got.

    A connection over it has just ended, so that the system gives it to nobody else for a minute; a server that asks for
    this very port (with SO_REUSEADDR, as servers do) gets it all the same.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            server.accept()[0].close()  # the first to close keeps the port
            client.recv(1)
        return int(server.getsockname()[1])


def eventually(check: Callable[[], T | None], what: str, timeout_s: float = PATIENCE_S, every_s: float = 0.05) -> T:
    """The first result of `check` that is neither None nor False. AssertionError when none comes in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        result = check()
        if result is not None and result is not False:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what}")
        time.sleep(every_s)
