"""Background processes that outlive the program that starts them.

Owns: pid files, logs, starting, waiting until ready, ending. Does not own: what runs.

Invariant: only a process that this directory's demo started is ever signalled: its command line names the directory.
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

READY_S: Final = 60.0  # imports from a cold disk; the scheduler waits for a killed one's Lease on top of that
GRACE_S: Final = 15.0  # the scheduler drains its spool for 5 s, the service ends requests within 10
TAIL_LINES: Final = 15
_POLL_S: Final = 0.05
_CLEARED: Final = ("HERODOTUS_", "KUBERNETES_SERVICE_")  # settings of somebody else's service or cluster


class DemoError(Exception):
    """The demo cannot go on: one line, and what to read."""


class Process:
    """One named process of the demo."""

    def __init__(self, state: Path, name: str) -> None:
        """`state`: the demo's directory. It must stand in the command's arguments."""
        self.name = name
        self.log = state / "log" / f"{name}.log"
        self._state = state
        self._pid_file = state / "run" / f"{name}.pid"

    @property
    def pid(self) -> int | None:
        """Of the running process; None where there is none."""
        try:
            pid = int(self._pid_file.read_text())
        except (OSError, ValueError):
            return None
        return pid if str(self._state) in _command_line(pid) else None

    def start(self, command: Sequence[str], ready: str) -> str:
        """Start, and wait for a line that `ready` matches; its first group. DemoError when it ends before."""
        for directory in (self.log.parent, self._pid_file.parent):
            directory.mkdir(parents=True, exist_ok=True)
        begin = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self._state,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is not for it
            )
        self._pid_file.write_text(f"{process.pid}\n")
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            match = re.search(ready, self._said_since(begin))
            if match:
                return match[1]
            if process.poll() is not None:
                raise DemoError(f"the {self.name} ended with exit code {process.returncode}\n{self.tail()}")
            time.sleep(_POLL_S)
        raise DemoError(f"the {self.name} was not ready within {READY_S:g} s\n{self.tail()}")

    def stop(self) -> None:
        """End it in good order, or, when that takes too long, at once."""
        self._signal(signal.SIGTERM)
        if not self._gone_within(GRACE_S):
            self.kill()
        self._pid_file.unlink(missing_ok=True)

    def kill(self) -> bool:
        """SIGKILL; whether there was anything to kill."""
        ran = self._signal(signal.SIGKILL)
        if not self._gone_within(GRACE_S):
            raise DemoError(f"the {self.name} (process {self.pid}) does not end")
        return ran

    def tail(self) -> str:
        """The log's last lines, with the log's name."""
        lines = self._said_since(0).splitlines()[-TAIL_LINES:]
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

    def _gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.pid is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _said_since(self, begin: int) -> str:
        try:
            with self.log.open("rb") as log:
                log.seek(begin)
                return log.read().decode("utf-8", "replace")
        except OSError:
            return ""


def _command_line(pid: int) -> str:
    """Empty where the process is gone, or only waits for its parent to notice its end."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        if Path("/proc/self/cmdline").exists():
            return ""
    shown = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout


def _environment() -> dict[str, str]:
    """Ours, without settings that would lead elsewhere, and without a proxy in front of this machine."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_CLEARED)}
    local = ",".join(filter(None, (os.environ.get("NO_PROXY") or os.environ.get("no_proxy"), "127.0.0.1")))
    return {**kept, "NO_PROXY": local, "no_proxy": local}
