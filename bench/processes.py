"""Processes under measurement: figures from /proc and /metrics, a decisions service, and how SIGTERM ends a benchmark.

Owns: reading figures, and starting the service. Does not own: when (the benchmarks).
"""

from __future__ import annotations

import math
import os
import re
import signal
import ssl
import struct
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Final, Self

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from herodotus_record import codec
from tests.processes import Process, python

API: Final = "/apis/herodotus.dev/v1alpha1"
INGEST: Final = "/ingest/v1/frames"
INGEST_HEADERS: Final = {"Content-Type": codec.CONTENT_TYPE, "Content-Encoding": "zstd"}
ATTEMPTS: Final = "scheduler_scheduling_attempt_duration_seconds"
SLI: Final = "scheduler_pod_scheduling_sli_duration_seconds"
EXIT_CODE: Final = 128 + signal.SIGTERM  # the exit code that a shell reports for SIGTERM
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def exit_on_sigterm() -> None:
    """Raise SystemExit on SIGTERM from now on, so that `finally` blocks stop the processes that a benchmark started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_CODE))


def cpu_s(pids: Iterable[int]) -> float:
    """Return user and system time of the processes with their threads, without their children."""
    return sum(_ticks(pid) for pid in pids) / _TICKS


def peak_mib(pids: Iterable[int]) -> float:
    """Return the sum of the processes' peak resident memory."""
    return sum(_read_kib(f"/proc/{pid}/status", "VmHWM") for pid in pids) / 1024


def resident_mib(pids: Iterable[int]) -> float:
    """Return the sum of the processes' present resident memory, 0 for one that has ended."""
    return sum(_read_kib(f"/proc/{pid}/status", "VmRSS") for pid in pids) / 1024


def proportional_mib(pids: Iterable[int]) -> float:
    """Return the sum of the processes' memory in MiB in which pages that they share count once, as for a container."""
    return sum(_read_kib(f"/proc/{pid}/smaps_rollup", "Pss") for pid in pids) / 1024


def children(pid: int) -> list[int]:
    """Return the ids of the child processes of all threads of a process; [] if it has ended."""
    ids: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            ids += map(int, (task / "children").read_text().split())
    return ids


def reset_peak(pids: Iterable[int]) -> None:
    """Let the processes' peak resident memory begin at the present one."""
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5")


class PeakMemory:
    """A context manager that samples memory in a thread; `mib` is the largest sample."""

    def __init__(self, read_mib: Callable[[], float], every_s: float = 0.05) -> None:
        self.mib = 0.0
        self._read_mib, self._every_s, self._stop = read_mib, every_s, threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(self._every_s):
            self.mib = max(self.mib, self._read_mib())


class DecisionsService:
    """A process `python -m herodotus_endpoint` on loopback, with ports from the system."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = python("herodotus_endpoint", "--bind", "127.0.0.1:0", *options)
        environment = {"PYTHONUNBUFFERED": "1", "HERODOTUS_DATABASE_URL": ""}
        self.process = Process("service", command, folder / "service.log", environment)
        try:
            self.port = self.find_port()
        except BaseException:
            self.process.stop()
            raise
        self.url = f"http://127.0.0.1:{self.port}"

    def find_port(self, use: str = "") -> int:
        """Return the port that its log names for a use (queries, ingest, probes), or the first one."""
        suffix = rf" \({use}\)" if use else ""
        return int(self.process.wait_for(rf"listening on https?://127\.0\.0\.1:(\d+){suffix}")[1])

    def pids(self) -> list[int]:
        """Return the ids of the arbiter and its workers."""
        return [self.process.pid, *children(self.process.pid)]

    def cpu_s(self) -> float:
        """Return the CPU time since the start."""
        return cpu_s(self.pids())

    def resident_mib(self) -> float:
        """Return the current memory of all its processes."""
        return resident_mib(self.pids())

    def stop(self) -> None:
        """Stop the service, which checkpoints the write-ahead log."""
        self.process.stop()

    def measure_answers(
        self, paths: Iterable[str], accept: str = "application/json"
    ) -> Iterator[tuple[float, int, bytes]]:
        """Yield the response time in milliseconds, the status and the body of each request, one after the other.

        A request that ends with 503, because it exceeds the service's time limit, is repeated up to nine times: what it
        has read stays in memory.
        """
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        for path in paths:
            began = time.perf_counter()
            for _ in range(10):
                connection.request("GET", API + path, headers={"Accept": accept})
                response = connection.getresponse()
                body = response.read()
                if response.status != 503:
                    break
            yield (time.perf_counter() - began) * 1000, response.status, body
        connection.close()


def connect(port: int, *, tls: bool, timeout_s: float = 60.0) -> HTTPConnection:
    """Return a connection to a port of loopback that the first request opens; every certificate is accepted."""
    if not tls:
        return HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    return HTTPSConnection("127.0.0.1", port, timeout=timeout_s, context=ssl._create_unverified_context())


def format_quantiles(times_ms: list[float], digits: int = 1) -> str:
    """Return three cells of a table: median, 99th percentile and maximum."""
    p50, p99 = np.percentile(times_ms, [50, 99])
    return "".join(f"{ms:>8.{digits}f}" for ms in (p50, p99, max(times_ms)))


def replace_in_frame(frame: bytes, parts: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return an encoded frame with parts replaced by others of the same length, and with its new checksum."""
    payload = frame[codec.HEADER_BYTES :]
    for old, new in parts:
        payload = payload.replace(old, new)
    return frame[: codec.HEADER_BYTES - 4] + struct.pack("<I", zlib.crc32(payload)) + payload


def histogram_buckets(exposition: str, name: str, **labels: str) -> dict[float, float]:
    """Return a histogram of seconds, summed over its series with these labels: count by upper bound."""
    buckets: dict[float, float] = {}
    for family in text_string_to_metric_families(exposition):
        if family.name == name:
            for sample in family.samples:
                if sample.name.endswith("_bucket") and labels.items() <= sample.labels.items():
                    bound = float(sample.labels["le"])
                    buckets[bound] = buckets.get(bound, 0.0) + sample.value
    return buckets


def attempt_buckets(exposition: str) -> dict[float, float]:
    """Return the histogram of the durations in seconds of attempts that ended in a binding: count by upper bound."""
    return histogram_buckets(exposition, ATTEMPTS, result="scheduled")


def counter(exposition: str, name: str) -> float:
    """Return the sum of a counter's series, 0 if there is none."""
    families = text_string_to_metric_families(exposition)
    return sum(sample.value for family in families for sample in family.samples if sample.name == name)


def quantile(buckets: Mapping[float, float], q: float) -> float:
    """Return a quantile like Prometheus' histogram_quantile: linear in a bucket, at most the last finite bound."""
    bounds = sorted(buckets)
    if not bounds or buckets[bounds[-1]] == 0:
        return math.nan
    rank, below, lower = q * buckets[bounds[-1]], 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= rank:
            if math.isinf(bound):
                return lower
            return lower + (bound - lower) * (rank - below) / (buckets[bound] - below)
        below, lower = buckets[bound], bound
    return lower


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _read_kib(file: str, field: str) -> int:
    """Return a field of a file in /proc, 0 if the process has ended."""
    with suppress(OSError):
        match = re.search(rf"^{field}:\s+(\d+) kB", Path(file).read_text(), re.MULTILINE)
        return int(match[1]) if match else 0
    return 0
