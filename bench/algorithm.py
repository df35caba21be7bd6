"""The algorithm alone: no API server; a cycle, its record in the spool, and the pod assumed.

Every node is filtered and scored. Each workload runs with recording on and off in turn, several times, so that the
ratio is of one run and one machine; the best round of each is reported, and how many cycles fit into a calibration
kernel that runs between the rounds. A cycle that would preempt counts as it is: nobody is evicted, so that each asks
which victims there are. What goes on beside the measured pods (`Churn`) is left out.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from bench.workloads import Size, Workload
from herodotus_record.model import Times
from scheduler.cache import Cache
from scheduler.config import Configuration, build_profile
from scheduler.cycle import schedule
from scheduler.evaluate import NoCluster
from scheduler.evaluate.cluster import Manifest, load
from scheduler.framework.runtime import Framework
from scheduler.objects.cluster import ClusterObjects
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Node, Pod
from scheduler.plugins import IN_TREE
from scheduler.process import freeze
from scheduler.recorder.build import Attempt
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.spool import Spool


@dataclass(frozen=True)
class Result:
    """One workload: cycles a second, recorded and not, the 99th percentile of a cycle, and what is recorded.

    `per_kernel`: recorded cycles in the time of the kernel, as `cycles_per_kernel`.
    """

    workload: str
    nodes: int
    cycles_per_s: float
    unrecorded_per_s: float
    per_kernel: float
    cycle_p99_ms: float
    bytes_per_decision: float


def run(workload: Workload, size: Size, rounds: int) -> Result:
    """Measure one workload."""
    on: list[float] = []
    off: list[float] = []
    latencies: list[float] = []
    sizes: list[float] = []
    kernel, processor = _small_kernel_s(), list[float]()
    there = _There.of(workload, size)
    for _ in range(rounds):
        for recording, rates in ((True, on), (False, off)):
            done = _round_of(there, recording=recording)
            rates.append(size.pods / sum(done.wall_s))
            if recording:
                latencies += done.wall_s
                processor += done.processor_s
                sizes.append(done.spooled_bytes / size.pods)
        kernel += _small_kernel_s()
    return Result(
        workload.name,
        size.nodes,
        max(on),
        max(off),
        _in(kernel, processor),
        float(np.percentile(latencies, 99)) * 1000,
        statistics.median(sizes),
    )


def calibration_ms() -> float:
    """A fixed piece of numpy work: what makes figures of two machines comparable."""
    return statistics.median(_kernel_s()) * 1000


def cycles_per_kernel(workload: Workload, size: Size, rounds: int) -> float:
    """How many cycles, recording included, fit into one run of a kernel of a cycle's kind.

    In time of this thread's processor, of lower quartiles, taken in turn: what else a busy machine does hardly counts.
    """
    kernel, cycles = _small_kernel_s(), []
    there = _There.of(workload, size)
    for _ in range(rounds):
        cycles += _round_of(there, recording=True).processor_s
        kernel += _small_kernel_s()
    return _in(kernel, cycles)


def _in(kernel: list[float], cycles: list[float]) -> float:
    return float(np.percentile(kernel, 25) / np.percentile(cycles, 25))


def _kernel_s() -> list[float]:
    a = np.arange(1_000_000, dtype=np.int64)
    times = []
    for _ in range(7):
        start = time.perf_counter()
        np.sort(a[::-1]).sum()
        times.append(time.perf_counter() - start)
    return times


def _small_kernel_s() -> list[float]:
    """Python calls on small arrays, as a cycle is made of: what it loses on a busy machine, a cycle loses too."""
    a, names = np.arange(5_000, dtype=np.int64), [f"node-{i}" for i in range(100)]
    times = []
    for _ in range(7):
        start = time.thread_time()
        for i in range(200):
            found = np.where(a > i, a, 0)
            found[found.argmax()] = len(dict.fromkeys(names, i))
        times.append(time.thread_time() - start)
    return times


@dataclass(frozen=True)
class _There:
    """What is there when a round begins, decoded."""

    name: str
    nodes: list[Node]
    before: list[PodInfo]
    waiting: list[PodInfo]
    others: ClusterObjects

    @classmethod
    def of(cls, workload: Workload, size: Size) -> _There:
        """Of a workload."""
        before = [PodInfo(msgspec.convert(pod, Pod)) for pod in workload.pods_before(size)]
        return cls(
            workload.name,
            [msgspec.convert(node, Node) for node in workload.nodes(size)],
            [pod for pod in before if pod.pod.spec.node_name],
            [PodInfo(msgspec.convert(pod, Pod)) for pod in workload.pods(size)],
            load([Manifest("bench", content) for _, content in workload.others(size)]).objects,
        )

    def begin(self) -> tuple[Cache, Framework]:
        """A cache that has seen all that, and a framework that has seen nothing."""
        framework = Framework(build_profile(Configuration(), 0, IN_TREE, NoCluster(self.others)), time.monotonic)
        cache = Cache()
        for node in self.nodes:
            cache.set_node(node)
        for pod in self.before:
            cache.assume(pod, pod.pod.spec.node_name)
        framework.prepare(cache.columns)
        return cache, framework


@dataclass(frozen=True)
class _Round:
    """Seconds of each pod, by the clock on the wall and of this thread's processor; bytes of the spool."""

    wall_s: list[float]
    processor_s: list[float]
    spooled_bytes: int


def _round_of(there: _There, *, recording: bool) -> _Round:
    """Schedule every pod."""
    cache, framework = there.begin()
    waiting = [PodInfo(pod.pod) for pod in there.waiting]  # nothing is known of them yet
    wall_s, processor_s = [], []
    with _frozen(), tempfile.TemporaryDirectory() as directory:
        recorder = Recorder(lambda incarnation: Spool(Path(directory), incarnation), "bench", "bench", "0")
        for i, info in enumerate(waiting):
            start, processor = time.perf_counter(), time.thread_time()
            snapshot = cache.snapshot()
            result = schedule(framework, info, snapshot, seed=i)
            if recording:
                times = Times(0, 0, 0, dict(result.trace.phases_s), {})
                recorder.decision(Attempt(info, 1, "bench", snapshot, result, times, i))
            if result.chosen is not None:
                cache.assume(info, cache.columns.names[result.chosen])
            elif not result.trace.post_filters:
                raise RuntimeError(f"{there.name}: pod {i} fits nowhere: {result.message}")
            processor_s.append(time.thread_time() - processor)
            wall_s.append(time.perf_counter() - start)
        recorder.close()
        spooled = sum(f.stat().st_size for f in Path(directory).glob("*/*.seg"))
    return _Round(wall_s, processor_s, spooled)


@contextmanager
def _frozen() -> Iterator[None]:
    """What is there is no garbage, as after a scheduler's start."""
    freeze()
    try:
        yield
    finally:
        gc.unfreeze()
