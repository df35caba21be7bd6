"""A decisions service as deployed, which receives batches over HTTP from one sender, as from a shipper.

Owns: the process, the sender, the figures. Does not own: the batches (`decisions`).
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

from herodotus_record import codec
from tests.processes import Process, python

PATH: Final = "/ingest/v1/frames"
HEADERS: Final = {"Content-Type": codec.CONTENT_TYPE, "Content-Encoding": "zstd"}
SAMPLE_S: Final = 0.2
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class ReplayFigures:
    """The figures of one replay. CPU and memory are those of the service, without a database server."""

    decisions: int
    seconds: float
    cpu_s: float
    peak_bytes: int

    @property
    def per_s(self) -> float:
        """Return the acknowledged decisions per second."""
        return self.decisions / self.seconds

    @property
    def cpu_ms(self) -> float:
        """Return the milliseconds of CPU time per decision."""
        return self.cpu_s / self.decisions * 1000


@dataclass
class ServiceProcess:
    """A process `python -m herodotus_endpoint` on its own port."""

    folder: Path
    options: Sequence[str] = ()
    process: Process = field(init=False)
    port: int = field(init=False)

    def __post_init__(self) -> None:
        command = python("herodotus_endpoint", "--bind", "127.0.0.1:0", *self.options)
        self.process = Process("endpoint", command, self.folder / "endpoint.log", {"PYTHONUNBUFFERED": "1"})
        self.port = int(self.process.wait_for(r"listening on http://127\.0\.0\.1:(\d+)")[1])

    def pids(self) -> list[int]:
        """Return the ids of the arbiter and its workers."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *map(int, children)]

    def cpu_s(self) -> float:
        """Return the CPU time since the start."""
        fields = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.pids())
        return sum((int(f[11]) + int(f[12])) * _TICK_S for f in fields)

    def resident_bytes(self) -> int:
        """Return the current memory of all its processes."""
        return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids()) * _PAGE_BYTES

    def replay(self, files: Sequence[Path]) -> ReplayFigures:
        """Send every batch in order and return the figures."""
        peak, ended = [0], threading.Event()

        def watch() -> None:
            while not ended.wait(SAMPLE_S):
                peak[0] = max(peak[0], self.resident_bytes())

        watcher = threading.Thread(target=watch)
        watcher.start()
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        began, used, decisions = time.perf_counter(), self.cpu_s(), 0
        try:
            for file in files:
                decisions += _send(connection, file.read_bytes())
        finally:
            ended.set()
            watcher.join()
            connection.close()
        return ReplayFigures(decisions, time.perf_counter() - began, self.cpu_s() - used, peak[0])

    def stop(self) -> None:
        """Stop the service, which checkpoints the write-ahead log."""
        self.process.stop()


def _send(connection: HTTPConnection, body: bytes) -> int:
    connection.request("POST", PATH, body, HEADERS)
    answer = connection.getresponse()
    text = answer.read().decode()
    found = re.search(r'"decisions": ?(\d+)', text)
    if answer.status != 200 or not found:
        raise RuntimeError(f"{answer.status}: {text[:500]}")
    return int(found[1])
