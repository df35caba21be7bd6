"""Measures the memory of nodes and bound pods in the cache, and the time and memory of many pods in the queue.

Objects are decoded from JSON one by one, as from an API server. All pods of the queue are popped, rejected by
NodeResourcesFit, and woken by one event. Times are processor time of the thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from resource import getpagesize
from typing import Final

import msgspec

from bench.workloads import BY_NAME, Size
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


@dataclass(frozen=True)
class Footprint:
    """Memory in kB of a node, a bound and a pending pod, and processor seconds of each step with all pending pods."""

    node_kb: float
    bound_kb: float
    pending_kb: float
    steps_s: dict[str, float]


def measure(nodes: int, bound: int, pending: int) -> Footprint:
    """Fill a cache and a queue, take every pod through the queue twice, and return the figures."""
    pods, size = msgspec.json.Decoder(Pod), Size(nodes, bound, pending)
    framework = Framework(build_profile(Configuration(), 0, IN_TREE, NoCluster()), time.monotonic)
    queue = SchedulingQueue.for_profiles({SCHEDULER: framework})
    freeze_heap()
    cache, resident = Cache(), [_resident_bytes()]
    decoder = msgspec.json.Decoder(Node)
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
    node_kb, bound_kb, pending_kb = ((after - before) / 1000 / max(count, 1) for before, after, count in by_kind)
    return Footprint(node_kb, bound_kb, pending_kb, steps)


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


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


def format_lines(found: Footprint, pending: int) -> Iterable[str]:
    """Yield the lines of the figures."""
    yield f"{'NODE KB':>10}{'BOUND POD KB':>14}{'PENDING POD KB':>16}"
    yield f"{found.node_kb:>10.1f}{found.bound_kb:>14.1f}{found.pending_kb:>16.1f}"
    yield f"{'STEP':24}{'SECONDS':>10}{'US A POD':>10}"
    for step, seconds in found.steps_s.items():
        yield f"{step:24}{seconds:>10.2f}{seconds / pending * 1e6:>10.1f}"
