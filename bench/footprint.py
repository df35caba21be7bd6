"""Memory of nodes and bound pods in the cache, and the time and memory of many pods in the queue.

Objects are decoded from JSON one by one, as from an API server. All pods of the queue are popped, rejected by
NodeResourcesFit, and woken by one event. Times are processor time of the thread.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from bench.algorithm import calibration_ms
from bench.processes import resident_mib
from bench.workloads import BY_NAME, Size
from herodotus_record.typed_decoding import json_decoder
from scheduler.backend.cache import Cache
from scheduler.backend.queue import SchedulingQueue
from scheduler.commands.process import freeze_heap
from scheduler.config import Configuration, build_profile
from scheduler.engine.framework.events import ClusterEvent
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node, Pod
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.evaluate import NoCluster

WORKLOAD: Final = BY_NAME["SchedulingBasic"]
SCHEDULER: Final = "bench"  # of the pods in `workloads`
REJECTED_BY: Final = frozenset({"NodeResourcesFit"})
BACKOFF_OVER_S: Final = 1000.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m bench footprint`."""
    for option, default in (("nodes", 5000), ("bound", 50_000), ("pending", 100_000)):
        parser.add_argument(f"--{option}", type=int, default=default, help="default %(default)s")


def run(arguments: argparse.Namespace) -> int:
    """Print memory for each object, and the processor time of each step with all pending pods."""
    print(f"calibration {calibration_ms():.1f} ms")
    kb, steps_s = measure(arguments.nodes, arguments.bound, arguments.pending)
    print(f"{'NODE KB':>10}{'BOUND POD KB':>14}{'PENDING POD KB':>16}")
    print(f"{kb[0]:>10.1f}{kb[1]:>14.1f}{kb[2]:>16.1f}")
    print(f"{'STEP':24}{'SECONDS':>10}{'US A POD':>10}")
    for step, seconds in steps_s.items():
        print(f"{step:24}{seconds:>10.2f}{seconds / arguments.pending * 1e6:>10.1f}")
    return 0


def measure(nodes: int, bound: int, pending: int) -> tuple[list[float], dict[str, float]]:
    """Fill a cache and a queue with these numbers of objects, and take every pending pod through the queue twice.

    Return the memory in kB of a node, a bound and a pending pod, and the processor seconds of each step by name.
    """
    pods, size = json_decoder(Pod), Size(nodes, bound, pending)
    framework = Framework(build_profile(Configuration(), 0, IN_TREE, NoCluster()), time.monotonic)
    queue = SchedulingQueue.for_profiles({SCHEDULER: framework})
    freeze_heap()
    cache, resident = Cache(), [_resident_bytes()]
    decoder = json_decoder(Node)
    for manifest in WORKLOAD.nodes(size):
        node = decoder.decode(msgspec.json.encode(manifest))
        cache.set_node(node)
    resident.append(_resident_bytes())
    for pod in WORKLOAD.pods_before(size):
        info = PodInfo(pods.decode(msgspec.json.encode(pod)))
        cache.assume(info, info.pod.spec.node_name)
    framework.prepare(cache.columns)
    resident.append(_resident_bytes())
    waiting = [PodInfo(pods.decode(msgspec.json.encode(pod))) for pod in WORKLOAD.pods(size)]
    steps = {"add": _timed(lambda: _add_all(queue, waiting))}
    resident.append(_resident_bytes())
    steps["pop and reject"] = _timed(lambda: _pop_all(queue, 0.0))
    event, woken_s = ClusterEvent.NODE_ADD, BACKOFF_OVER_S
    steps["one event for all"] = _timed(lambda: queue.move_all_to_active_or_backoff_queue(event, woken_s, None, node))
    steps["pop and reject again"] = _timed(lambda: _pop_all(queue, woken_s))
    by_kind = zip(resident, resident[1:], (nodes, bound, pending), strict=False)
    return [(after - before) / 1000 / max(count, 1) for before, after, count in by_kind], steps


def _add_all(queue: SchedulingQueue, pods: Iterable[PodInfo]) -> None:
    for pod in pods:
        queue.add(pod, 0.0, 0)


def _pop_all(queue: SchedulingQueue, now: float) -> None:
    """Pop every pod that is ready, and return it to the queue as rejected. Raises RuntimeError if a pod was missing."""
    popped = []
    while (queued := queue.pop(now)) is not None:
        popped.append(queued)
    if len(queue):
        raise RuntimeError(f"{len(queue)} pods are not ready: {queue.lengths()}")
    for queued in popped:
        queue.add_unschedulable_if_not_present(queued, REJECTED_BY, now)
        queue.done(queued.uid)


def _timed(work: Callable[[], object]) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


def _resident_bytes() -> float:
    return resident_mib([os.getpid()]) * 2**20
