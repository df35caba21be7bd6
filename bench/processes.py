"""Reads figures of processes from /proc, and of schedulers from /metrics.

Owns: reading both. Does not own: when (`control_plane`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

ATTEMPTS: Final = "scheduler_scheduling_attempt_duration_seconds"
SLI: Final = "scheduler_pod_scheduling_sli_duration_seconds"
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def cpu_s(pids: Iterable[int]) -> float:
    """Return user and system time of the processes with their threads, without their children."""
    return sum(_ticks(pid) for pid in pids) / _TICKS


def peak_mib(pids: Iterable[int]) -> float:
    """Return the sum of the processes' peak resident memory."""
    return sum(_status_kib(pid, "VmHWM") for pid in pids) / 1024


def resident_mib(pids: Iterable[int]) -> float:
    """Return the sum of the processes' present resident memory."""
    return sum(_status_kib(pid, "VmRSS") for pid in pids) / 1024


def reset_peak(pids: Iterable[int]) -> None:
    """Let the processes' peak resident memory begin at the present one."""
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5")


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
    """Return the histogram of attempts that ended in a binding."""
    return histogram_buckets(exposition, ATTEMPTS, result="scheduled")


def counter(exposition: str, name: str) -> float:
    """Return the sum of a counter's series, 0 if there is none."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
        if sample.name == name
    )


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


def _status_kib(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise ValueError(f"no {field} of process {pid}")
