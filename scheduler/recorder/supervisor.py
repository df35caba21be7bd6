"""The shipper's process as the scheduler sees it: running and restarting it, and its progress.

The shipper reports its progress in one small file of the spool directory. Does not own: delivery (`shipper`), metrics
and health checks made from the progress.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from herodotus_record import klog
from scheduler.recorder.endpoint import ServiceEndpoint
from scheduler.recorder.spool_reader import list_incarnations

RESTART_S: Final = (0.5, 30.0)  # first and longest pause before a shipper that ended is started again
STOP_S: Final = 8.0  # longer than it drains


class Supervisor:
    """Runs the shipper as a child process and restarts it, after a pause, whenever it ends."""

    def __init__(self, spool: Path, endpoint: ServiceEndpoint, *logging: str) -> None:
        """Start the shipper for the spool directory. `logging` holds the log options for its command line."""
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
        """Whether the shipper's process is running."""
        process = self._process
        return process is not None and process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process ID of the shipper, or None if it was not started yet."""
        return self._process.pid if self._process is not None else None

    def close(self) -> None:
        """Stop the shipper, after it has had a few seconds to deliver the remaining records."""
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
        """Start the shipper's process and return it. Return None without starting it after `close`."""
        with self._lock:
            if self._stop.is_set():
                return None
            # its standard input is a pipe that we hold: it ends when we do, however we end
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE)
            return self._process


PROGRESS_FILE: Final = "shipper.json"


@dataclass(frozen=True)
class Progress:
    """The shipper's counters since its process began, and its present error.

    They are not synced to disk, because a crash makes them worthless.
    """

    delivered: int = 0  # frames that the service acknowledged
    refused: int = 0  # frames that it refuses for good
    lost: int = 0  # records that were damaged or deleted in the spool
    caught_up_s: float = 0.0  # Unix time when nothing was left to deliver; 0: never yet
    error: str = ""  # what keeps it from delivering now

    def write(self, directory: Path) -> None:
        """Replace the progress file in the spool directory. Raise OSError if it cannot be written."""
        new = directory / f"{PROGRESS_FILE}.new"
        new.write_text(json.dumps(asdict(self)))
        new.replace(directory / PROGRESS_FILE)

    @classmethod
    def read(cls, directory: Path) -> Progress:
        """Return the progress that was last written to the spool directory, or zeros if the file cannot be read."""
        try:
            return cls(**json.loads((directory / PROGRESS_FILE).read_text()))
        except (OSError, ValueError, TypeError):
            return cls()


def count_waiting_bytes(directory: Path) -> int:
    """Return the number of bytes in the spool directory that the decisions service has not acknowledged."""
    return sum(spool.count_waiting_bytes() for spool in list_incarnations(directory))
