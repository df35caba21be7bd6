"""Cycle rates of the algorithm alone: a cycle, its record in the spool, and the assumed pod with its claims.

Every node is filtered and scored. Each workload alternates between recording on and off for several rounds, so that
both figures of the ratio come from the same run and machine. The best round of each is reported, with the number of
cycles per run of a calibration kernel between the rounds. A cycle that would preempt computes victims but evicts none.
The `Churn` of a workload is left out.
"""

from __future__ import annotations

import argparse
import gc
import resource
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from bench import workloads
from bench.workloads import Size, Workload
from herodotus_record.model import Times
from herodotus_record.typed_decoding import json_decoder
from scheduler.backend.cache import Cache
from scheduler.commands.process import freeze_heap
from scheduler.config import Configuration, build_profile
from scheduler.engine.cycle import schedule
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.manifests.cluster import SourceManifest, load_cluster
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node, Pod
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.records.build import AttemptData, Origin
from scheduler.engine.whatif.claims import SimulatedClaims
from scheduler.offline.evaluate import NoCluster
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.spool import Spool


@dataclass(frozen=True)
class AlgorithmResult:
    """The result of one workload.

    Cycles per second with and without recording, the 99th percentile of a cycle, and the record's size. `per_kernel`:
    recorded cycles in the time of the kernel, as `cycles_per_kernel`. `bound` counts the pods on nodes at the start.
    `peak_mib` is the most memory that this process has taken so far, with every earlier workload of the run.
    """

    workload: str
    nodes: int
    bound: int
    cycles_per_s: float
    unrecorded_per_s: float
    per_kernel: float
    cycle_p99_ms: float
    bytes_per_decision: float
    peak_mib: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m bench algorithm`."""
    workloads.add_arguments(parser)
    parser.add_argument("--filling", type=int, default=0, help="more bound pods on each node; they request nothing")


def run(arguments: argparse.Namespace) -> int:
    """Measure each selected workload, print a row for it, and return the exit code 0."""
    print(f"calibration {calibration_ms():.1f} ms; every node filtered and scored")
    print(
        f"{'WORKLOAD':54}{'NODES':>6}{'BOUND':>8}{'CYCLES/S':>10}{'UNRECORDED':>12}{'IN KERNEL':>11}{'P99 MS':>9}"
        f"{'BYTES':>8}{'PEAK MIB':>10}"
    )
    for workload, size in workloads.select(arguments):
        r = measure(workload.with_filling(arguments.filling), size, arguments.rounds)
        print(
            f"{r.workload:54}{r.nodes:>6}{r.bound:>8}{r.cycles_per_s:>10.0f}{r.unrecorded_per_s:>12.0f}"
            f"{r.per_kernel:>11.1f}{r.cycle_p99_ms:>9.2f}{r.bytes_per_decision:>8.0f}{r.peak_mib:>10.0f}",
            flush=True,
        )
    return 0


def measure(workload: Workload, size: Size, rounds: int) -> AlgorithmResult:
    """Measure one workload and return its result."""
    on: list[float] = []
    off: list[float] = []
    latencies: list[float] = []
    sizes: list[float] = []
    kernel, processor = small_kernel_s(), list[float]()
    initial = _InitialState.from_workload(workload, size)
    for _ in range(rounds):
        for recording, rates in ((True, on), (False, off)):
            wall_s, processor_s, spooled_bytes = _run_round(initial, recording=recording)
            rates.append(size.pods / sum(wall_s))
            if recording:
                latencies += wall_s
                processor += processor_s
                sizes.append(spooled_bytes / size.pods)
        kernel += small_kernel_s()
    return AlgorithmResult(
        workload.name,
        size.nodes,
        len(initial.before),
        max(on),
        max(off),
        _in(kernel, processor),
        float(np.percentile(latencies, 99)) * 1000,
        statistics.median(sizes),
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def calibration_ms() -> float:
    """Return the median time in milliseconds of a fixed numpy computation.

    Figures of two machines can be compared after dividing them by this time.
    """
    return statistics.median(_kernel_s()) * 1000


def small_kernel_s() -> list[float]:
    """Return the processor times in seconds of a fixed computation on small arrays, measured seven times.

    Load slows it down like a scheduling cycle, which consists of such calls.
    """
    a, names = np.arange(5_000, dtype=np.int64), [f"node-{i}" for i in range(100)]
    times = []
    for _ in range(7):
        start = time.thread_time()
        for i in range(200):
            larger = np.where(a > i, a, 0)
            larger[larger.argmax()] = len(dict.fromkeys(names, i))
        times.append(time.thread_time() - start)
    return times


def cycles_per_kernel(workload: Workload, size: Size, rounds: int) -> float:
    """Return how many scheduling cycles with recording take as long as one run of the computation in `small_kernel_s`.

    Lower quartiles of this thread's processor time are compared. Both are measured alternately, so that other load
    hardly counts.
    """
    kernel, cycles = small_kernel_s(), []
    initial = _InitialState.from_workload(workload, size)
    for _ in range(rounds):
        cycles += _run_round(initial, recording=True)[1]
        kernel += small_kernel_s()
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


@dataclass(frozen=True)
class _InitialState:
    """The objects that exist when a round starts, decoded."""

    name: str
    nodes: list[Node]
    before: list[PodInfo]
    waiting: list[PodInfo]
    others: ClusterObjects

    @classmethod
    def from_workload(cls, workload: Workload, size: Size) -> _InitialState:
        """Return the objects of a workload."""
        nodes, pods = json_decoder(Node), json_decoder(Pod)  # as from an API server: nothing is shared
        before = (pods.decode(msgspec.json.encode(pod)) for pod in workload.pods_before(size))
        return cls(
            workload.name,
            [nodes.decode(msgspec.json.encode(node)) for node in workload.nodes(size)],
            [PodInfo(pod) for pod in before if pod.spec.node_name],
            [PodInfo(pods.decode(msgspec.json.encode(pod))) for pod in workload.pods(size)],
            load_cluster([SourceManifest("bench", content) for _, content in workload.others(size)]).objects,
        )

    def create_cache_and_framework(self) -> tuple[Cache, Framework]:
        """Return a cache with these objects, and a framework that has cached no results yet."""
        framework = Framework(build_profile(Configuration(), 0, IN_TREE, NoCluster(self.others)), time.monotonic)
        cache = Cache()
        for node in self.nodes:
            cache.set_node(node)
        for pod in self.before:
            cache.assume(pod, pod.pod.spec.node_name)
        framework.prepare(cache.columns)
        return cache, framework


def _run_round(initial: _InitialState, *, recording: bool) -> tuple[list[float], list[float], int]:
    """Schedule every pod once; with `recording`, also write the decisions to a temporary spool.

    Return lists with the wall time and the processor time of each pod in seconds, and the size of the spool in bytes.
    Raises RuntimeError if a pod fits nowhere.
    """
    cache, framework = initial.create_cache_and_framework()
    waiting = [PodInfo(pod.pod) for pod in initial.waiting]  # new objects, without cached results of earlier rounds
    wall_s, processor_s, claims = [], [], SimulatedClaims(initial.others)
    freeze_heap()  # as a scheduler does after its start
    with tempfile.TemporaryDirectory() as directory:
        recorder = Recorder(lambda incarnation: Spool(Path(directory), incarnation), Origin("bench", "bench"), "0")
        for i, info in enumerate(waiting):
            start, processor = time.perf_counter(), time.thread_time()
            snapshot = cache.snapshot()
            result = schedule(framework, info, snapshot, seed=i)
            if recording:
                times = Times(0, 0, 0, dict(result.trace.phases_s), {})
                recorder.record_decision(AttemptData(info, 1, "bench", snapshot, result, times, i))
            if result.chosen is not None:
                cache.assume(info, cache.columns.names[result.chosen])
                claims.allocate(info, cache.columns.names[result.chosen], result.state)
            elif not result.trace.post_filters:
                raise RuntimeError(f"{initial.name}: pod {i} fits nowhere: {result.message}")
            processor_s.append(time.thread_time() - processor)
            wall_s.append(time.perf_counter() - start)
        recorder.close()
        claims.undo(0)
        spooled = sum(f.stat().st_size for f in Path(directory).glob("*/*.seg"))
    gc.unfreeze()
    return wall_s, processor_s, spooled
