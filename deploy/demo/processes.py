"""Background processes that outlive the program that starts them.

Owns: pid files, logs, starting, waiting until ready, stopping. Does not own: which programs run.

Invariant: it signals only processes that this directory's demo started, whose command lines contain the directory.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

READY_S: Final = 60.0  # covers imports from a cold disk and the Lease of a killed scheduler
GRACE_S: Final = 15.0  # The scheduler drains its spool for 5 s, the service finishes requests within 10 s.
TAIL_LINES: Final = 15
_POLL_S: Final = 0.05
_CLEARED: Final = ("HERODOTUS_", "KUBERNETES_SERVICE_")  # settings of another service or cluster


class DemoError(Exception):
    """The demo cannot continue; the message has one line and the end of a log."""


class Process:
    """One named process of the demo."""

    def __init__(self, state: Path, name: str) -> None:
        """Prepare the process `name` without starting it. `state` is the demo's directory.

        The command line must contain `state`: it distinguishes the process from a later one with the same process ID.
        """
        self.name = name
        self.log = state / "log" / f"{name}.log"
        self._state = state
        self._offset = 0  # of the log, where the running process began to write
        self._child: subprocess.Popen[bytes] | None = None
        self._pid_file = state / "run" / f"{name}.pid"

    @property
    def pid(self) -> int | None:
        """The id of the running process, or None."""
        try:
            pid = int(self._pid_file.read_text())
        except (OSError, ValueError):
            return None
        return pid if str(self._state) in _command_line(pid) else None

    def launch(self, command: Sequence[str]) -> None:
        """Start the process without waiting for it."""
        for directory in (self.log.parent, self._pid_file.parent):
            directory.mkdir(parents=True, exist_ok=True)
        self._offset = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                command,
                cwd=self._state,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal must not stop it.
            )
        self._pid_file.write_text(f"{self._child.pid}\n")

    def wait_until_ready(self, ready: str) -> str:
        """Wait for a log line that `ready` matches, and return its first group.

        Raises DemoError if the process exits or is not ready in time.
        """
        assert self._child is not None
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            match = re.search(ready, self._read_log(self._offset))
            if match:
                return match[1]
            if self._child.poll() is not None:
                raise DemoError(f"the {self.name} ended with exit code {self._child.returncode}\n{self.tail()}")
            time.sleep(_POLL_S)
        raise DemoError(f"the {self.name} was not ready within {READY_S:g} s\n{self.tail()}")

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if the process does not exit within GRACE_S.

        Raises DemoError if it does not end then either.
        """
        self._signal(signal.SIGTERM)
        if not self._exits_within(GRACE_S):
            self.kill()
        self._pid_file.unlink(missing_ok=True)

    def kill(self) -> bool:
        """Send SIGKILL; return whether the process was running. Raises DemoError if it does not end."""
        was_running = self._signal(signal.SIGKILL)
        if not self._exits_within(GRACE_S):
            raise DemoError(f"the {self.name} (process {self.pid}) does not end")
        return was_running

    def tail(self) -> str:
        """Return the last TAIL_LINES lines of the log, below a line with the log's path."""
        lines = self._read_log(0).splitlines()[-TAIL_LINES:]
        return "\n".join([f"the end of {self.log}:", *(f"  {line}" for line in lines)])

    def _signal(self, number: int) -> bool:
        pid = self.pid
        if pid is None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def _exits_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.pid is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _read_log(self, offset: int) -> str:
        try:
            with self.log.open("rb") as log:
                log.seek(offset)
                return log.read().decode("utf-8", "replace")
        except OSError:
            return ""


def _command_line(pid: int) -> str:
    """Return the process' command line, "" if it has exited or is a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        if Path("/proc/self/cmdline").exists():
            return ""
    ps = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return ps.stdout


def _environment() -> dict[str, str]:
    """Return the environment without settings of other clusters, and without a proxy for this machine."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(_CLEARED)}
    no_proxy = ",".join(filter(None, (os.environ.get("NO_PROXY") or os.environ.get("no_proxy"), "127.0.0.1")))
    return {**inherited, "NO_PROXY": no_proxy, "no_proxy": no_proxy}
