"""The algorithm alone: no API server; a cycle, its record in the spool, and the pod assumed.

Every node is filtered and scored. Each workload runs with recording on and off in turn, several times, so that the
ratio is of one run and one machine; the medians are reported, and a fixed calibration kernel beside them.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from bench.workloads import Workload, node, pod
from herodotus_record.model import Times
from scheduler.cache import Cache
from scheduler.config import Configuration, build_profile
from scheduler.cycle import schedule
from scheduler.evaluate import NoCluster
from scheduler.framework.runtime import Framework
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Node, Pod
from scheduler.plugins import IN_TREE
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.spool import Spool


@dataclass(frozen=True)
class Result:
    """One workload: cycles a second, the 99th percentile of one, and what recording costs."""

    workload: str
    nodes: int
    cycles_per_s: float
    cycle_p99_ms: float
    recording_ratio: float  # throughput with recording over throughput without
    bytes_per_decision: float


def run(workload: Workload, nodes: int, pods: int, rounds: int) -> Result:
    """Measure one workload."""
    on: list[float] = []
    off: list[float] = []
    latencies: list[float] = []
    sizes: list[float] = []
    for _ in range(rounds):
        for recording, rates in ((True, on), (False, off)):
            seconds, each, size = _round(workload, nodes, pods, recording=recording)
            rates.append(pods / seconds)
            if recording:
                latencies += each
                sizes.append(size / pods)
    return Result(
        workload.name,
        nodes,
        statistics.median(on),
        float(np.percentile(latencies, 99)) * 1000,
        statistics.median(on) / statistics.median(off),
        statistics.median(sizes),
    )


def calibration_ms() -> float:
    """A fixed piece of numpy work: what makes figures of two machines comparable."""
    a = np.arange(1_000_000, dtype=np.int64)
    times = []
    for _ in range(7):
        start = time.perf_counter()
        np.sort(a[::-1]).sum()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def _round(workload: Workload, nodes: int, pods: int, *, recording: bool) -> tuple[float, list[float], int]:
    """Seconds in all, seconds of each pod, bytes of the spool."""
    cache, framework = _cluster(workload, nodes), _framework()
    waiting = [_pod(f"pod-{i}", workload, i) for i in range(pods)]
    each = []
    with tempfile.TemporaryDirectory() as directory:
        recorder = Recorder(lambda incarnation: Spool(Path(directory), incarnation), "bench", "bench", "0")
        for i, info in enumerate(waiting):
            start = time.perf_counter()
            snapshot = cache.snapshot()
            result = schedule(framework, info, snapshot, seed=i)
            if recording:
                times = Times(0, 0, 0, dict(result.trace.phases_s), {})
                recorder.decision(info, 1, "bench", snapshot, result, times, i, ())
            if result.chosen is None:
                raise RuntimeError(f"{workload.name}: pod {i} fits nowhere: {result.message}")
            cache.assume(info, cache.columns.names[result.chosen])
            each.append(time.perf_counter() - start)
        recorder.close()
        size = sum(f.stat().st_size for f in Path(directory).glob("*/*.seg"))
    return sum(each), each, size


def _framework() -> Framework:
    return Framework(build_profile(Configuration(), 0, IN_TREE, NoCluster()), time.monotonic)


def _cluster(workload: Workload, nodes: int) -> Cache:
    cache = Cache()
    for i in range(nodes):
        cache.set_node(msgspec.convert(node(i), Node))
    for i in range(nodes * workload.before_per_node):
        cache.assume(_pod(f"before-{i}", workload, i), f"node-{i % nodes:05}")
    return cache


def _pod(name: str, workload: Workload, i: int) -> PodInfo:
    return PodInfo(msgspec.convert(pod(name, workload.pod(i)), Pod))
