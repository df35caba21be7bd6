"""The parts of one scheduler process that the stages of an attempt share.

Owns: the list of these parts, and how a failed attempt returns to the queue. Does not own: the order of the stages
(`loop`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from herodotus_kube.http import TIMEOUT_S
from herodotus_kube.watch import ListResult, WatchEvent
from scheduler.backend.attempt_failure import AttemptFailure
from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.queue import QueuedPod, SchedulingQueue
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.writes import NoWrites, Writes
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.requests import CPU, MEMORY
from scheduler.live.in_flight import BindingResult, BindRequests, InFlightBinding, PendingPreBind, PermitResult
from scheduler.live.metrics import BALANCE_QUANTILES, ERROR, UNSCHEDULABLE, LoopSizes, SchedulerMetrics
from scheduler.recorder.recorder import Recorder


class Attempt(NamedTuple):
    """A finished scheduling cycle and what it was given. `started_us` is in microseconds since 1970."""

    queued: QueuedPod
    snapshot: Snapshot
    seed: int
    started_us: int
    result: CycleResult


@dataclass(frozen=True)
class EvictionsFinished:
    """The end of a preemption by the pod or pod group with the UID `uid`. `failed` says that an eviction failed.

    After a failure the last victim is not evicted. `pod_uids` are the pods that wait for the preemption.
    """

    uid: str
    failed: bool
    pod_uids: tuple[str, ...]


@dataclass(frozen=True)
class LoopTask:
    """A function that another thread puts into the loop's inbox, to run in the loop's thread between two cycles.

    It must not raise.
    """

    run: Callable[[], None]


Message = (
    ListResult[Any] | WatchEvent[Any] | BindingResult | PendingPreBind | PermitResult | EvictionsFinished | LoopTask
)


class BackgroundThreads:
    """Threads for work that waits for responses, such as PreBind plugins, evictions and patches of a pod's status."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="bind")

    def submit(self, work: Callable[[], object]) -> None:
        """Run `work` in one of the threads. After `close` it is dropped."""
        with contextlib.suppress(RuntimeError):
            self._pool.submit(work)

    def close(self) -> None:
        """Wait for the work in progress; drop what has not begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True)
class WriteFence:
    """What keeps the writes of two leaders apart: none is sent unless `leading` returns True.

    `bind_timeout_s` limits a bind request, so that it is over before another leader can begin.
    """

    leading: Callable[[], bool] = lambda: True
    bind_timeout_s: float = TIMEOUT_S


@dataclass(frozen=True, kw_only=True)
class Scheduler:
    """One scheduler process, as the stages of an attempt see it, like kube-scheduler's struct of that name.

    `frameworks` maps a scheduler name to its framework. Other threads put messages into `inbox`; only the loop's thread
    changes `cluster`, `queue` and `in_flight`, which maps a pod's UID to its binding.
    """

    frameworks: Mapping[str, Framework]
    cluster: ClusterState
    queue: SchedulingQueue
    recorder: Recorder
    metrics: SchedulerMetrics
    requests: BindRequests
    threads: BackgroundThreads
    writes: Writes = field(default_factory=NoWrites)
    fence: WriteFence = field(default_factory=WriteFence)
    inbox: SimpleQueue[Message] = field(default_factory=SimpleQueue)
    in_flight: dict[str, InFlightBinding] = field(default_factory=dict)

    def framework(self, pod: PodInfo) -> Framework:
        """Return the framework of the profile that the pod's schedulerName selects."""
        return self.frameworks[pod.pod.spec.scheduler_name]

    def handle_failure(self, queued: QueuedPod, failure: AttemptFailure) -> None:
        """Return a pod that was not bound to the queue, and report why in its event and condition.

        Source: pkg/scheduler/schedule_one.go v1.36 handleSchedulingFailure.
        """
        pod, error = queued.pod, failure.is_error
        self.metrics.ended(pod.uid, ERROR if error else UNSCHEDULABLE, pod.pod.spec.scheduler_name)
        self.queue.add_unschedulable_if_not_present(
            queued, failure.rejectors, time.monotonic(), error=error, pending=failure.pending
        )
        self.cluster.nominator.set_nomination(queued.pod, failure.nomination)
        reason = "SchedulerError" if error else "Unschedulable"
        self.writes.not_scheduled(queued.pod, reason, failure.message, failure.nomination, failure.explanation)

    def sizes(self) -> LoopSizes:
        """Return the sizes of queue, cache and bindings for the metrics."""
        cache = self.cluster.cache
        return LoopSizes(
            queues=self.queue.lengths(),
            incoming=dict(self.queue.incoming),
            unschedulable=[(q.rejectors, q.pod.pod.spec.scheduler_name) for q in self.queue if q.rejectors],
            nodes=int(cache.columns.live.sum()),
            pods=len(cache.pod_uids()),
            assumed=len(cache.assumed_uids()),
            binding=len(self.in_flight),
            requested_shares=_find_requested_shares(cache.columns),
        )


def _find_requested_shares(nodes: NodeColumns) -> dict[str, list[float]]:
    """Return quantiles over the nodes of their requested share of cpu and memory, by resource.

    A resource that no node has is absent. The quantiles are those of BALANCE_QUANTILES.
    """
    quantiles = {}
    for resource in (CPU, MEMORY):
        allocatable = nodes.allocatable(resource)
        chosen = nodes.live & (allocatable > 0)
        if chosen.any():
            shares = nodes.requested(resource)[chosen] / allocatable[chosen]
            quantiles[resource] = np.quantile(shares, BALANCE_QUANTILES).tolist()
    return quantiles
