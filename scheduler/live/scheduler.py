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
from herodotus_record import klog
from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.queue import QueuedPod, SchedulingQueue
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult
from scheduler.engine.framework.nominated import CLEARED, Nomination
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import PodGroup
from scheduler.engine.objects.preemptor import Preemptor
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


class PodGroupCondition(NamedTuple):
    """The condition PodGroupScheduled of a PodGroup: `status` is True or False."""

    status: str
    reason: str
    message: str


class Writes:
    """The loop's writes to the API server. This class writes nothing, for `--dry-run-binding`; `ApiWrites` writes.

    `evict` and `nominate` wait for responses and run in background threads; the others do not wait.
    """

    def scheduled(self, pod: PodInfo, node: str) -> None:
        """Report that the pod is bound to the node, by an event."""

    def not_scheduled(
        self, pod: PodInfo, reason: str, message: str, nomination: Nomination | None, explanation: str = ""
    ) -> None:
        """Report a failed attempt by the pod's event, condition and nominated node.

        `reason` is Unschedulable or SchedulerError. `explanation` follows the message in the event only.
        """
        klog.info(2, "Dry run: no event, no condition", pod=pod.full_name, reason=reason, note=message)

    def skipped(self, pod: PodInfo, note: str) -> None:
        """Report, by an event only, that the scheduler does not try the pod. `note` is the event's text."""

    def preempted(self, victim: PodInfo, preemptor: Preemptor, node: str, *, in_memory: bool) -> None:
        """Send the Preempted event of a victim.

        `in_memory` says that it was not bound and only its binding was cancelled.
        """

    def evict(self, victim: PodInfo, preemptor: Preemptor, node: str) -> None:
        """Set the victim's condition DisruptionTarget, delete the pod and wait for the responses.

        Raise an exception on failure. A victim that does not exist any more is a success.
        """
        raise RuntimeError("a dry run evicts nothing")

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Write the pod's status.nominatedNodeName, where "" clears it, and wait. Failures are only logged."""

    def set_pod_group_condition(self, group: PodGroup, condition: PodGroupCondition, *, changes_status: bool) -> None:
        """Write the condition PodGroupScheduled of a PodGroup.

        `changes_status` says that its status is new, and not only reason or message.
        """

    def finish_bindings(self) -> None:
        """Wait, for a limited time, until the result of every binding is known."""


@dataclass(frozen=True)
class AttemptFailure:
    """Why an attempt did not bind its pod.

    `rejectors` are the plugins that rejected the pod, and `pending` those of them whose status code was Pending.
    `is_error` says that the attempt ended with an error and not by a rejection. `explanation` follows the message in
    the event (`--explain-events`).
    """

    message: str
    rejectors: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    nomination: Nomination | None = CLEARED
    is_error: bool = False
    explanation: str = ""


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
    writes: Writes = field(default_factory=Writes)
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
    """Return quantiles over the nodes of requested divided by allocatable cpu and memory; {} without nodes."""
    found = {}
    for resource in (CPU, MEMORY):
        allocatable = nodes.allocatable(resource)
        chosen = nodes.live & (allocatable > 0)
        if chosen.any():
            shares = nodes.requested(resource)[chosen] / allocatable[chosen]
            found[resource] = np.quantile(shares, BALANCE_QUANTILES).tolist()
    return found
