"""Keeps the shipper's process running, whatever happens to it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

from scheduler import klog
from scheduler.recorder.endpoint import ServiceEndpoint

RESTART_S: Final = (0.5, 30.0)  # first and longest pause before a shipper that ended is started again
STOP_S: Final = 8.0  # longer than it drains


class Supervisor:
    """A child process that is started again when it ends."""

    def __init__(self, spool: Path, endpoint: ServiceEndpoint, *logging: str) -> None:
        """`logging`: the options of the log, as on our own command line."""
        self.restarts = 0
        self._command = [
            *(sys.executable, "-m", "scheduler.commands.ship"),
            *("--spool", str(spool), *endpoint.to_flags()),
            *logging,
        ]
        self._stop = threading.Event()
        self._lock = threading.Lock()  # nothing is started after `close` has looked at what runs
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="shipper", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether a shipper lives this moment."""
        process = self._process
        return process is not None and process.poll() is None

    @property
    def pid(self) -> int | None:
        """The shipper's process, where one runs."""
        return self._process.pid if self._process is not None else None

    def close(self) -> None:
        """Let the shipper deliver what is there, for a few seconds, and end."""
        with self._lock:
            self._stop.set()
            process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._thread.join()

    def _run(self) -> None:
        pause = RESTART_S[0]
        while (process := self._start()) is not None:
            started = time.monotonic()
            code = process.wait()
            if process.stdin is not None:
                process.stdin.close()
            if time.monotonic() - started > RESTART_S[1]:
                pause = RESTART_S[0]
            if self._stop.is_set():
                return
            klog.error(f"exit code {code}", "The shipper ended, starting it again", after_s=pause)
            self._stop.wait(pause)
            self.restarts += 1
            pause = min(pause * 2, RESTART_S[1])

    def _start(self) -> subprocess.Popen[bytes] | None:
        """Another process, unless it is over."""
        with self._lock:
            if self._stop.is_set():
                return None
            # its standard input is a pipe that we hold: it ends when we do, however we end
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE)
            return self._process
