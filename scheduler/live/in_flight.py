"""Pods in their binding cycle, and the messages about them that other threads put into the scheduling loop's inbox.

Owns: these values. Does not own: what follows from them (`binding_cycle`, `preemption`).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import NamedTuple

from herodotus_record.model import Decision, PluginVerdict
from scheduler.backend.queue import QueuedPod
from scheduler.engine.columns import Snapshot
from scheduler.engine.cycle import CycleResult
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Pending
from scheduler.engine.objects.pod import PodInfo


class BindOrCancel:
    """Decides whether a pod's binding begins or is cancelled, whichever comes first. Thread-safe.

    Source: pkg/scheduler/framework/runtime/pods_in_prebind_map.go v1.36.
    """

    def __init__(self) -> None:
        self.cancelled: str | None = None  # why the binding was cancelled
        self._passed = False
        self._lock = threading.Lock()

    def cancel(self, message: str) -> bool:
        """Cancel the binding unless it has begun, and return whether it is cancelled. `message` says why."""
        with self._lock:
            if not self._passed:
                self.cancelled = self.cancelled or message
            return not self._passed

    def begin_binding(self) -> bool:
        """Mark the binding as begun unless it was cancelled, and return whether it may begin."""
        with self._lock:
            self._passed = self.cancelled is None
            return self._passed


class Attempt(NamedTuple):
    """A finished scheduling cycle and what it was given. `started_us` is in microseconds since 1970."""

    queued: QueuedPod
    snapshot: Snapshot
    seed: int
    started_us: int
    result: CycleResult


@dataclass(eq=False)
class InFlightBinding:
    """A pod that is assumed on a node, with everything that its binding cycle needs.

    `evaluated` and `feasible` are the numbers of nodes that its scheduling cycle evaluated and found feasible. Only the
    loop's thread changes the last three fields: whether a PreBind plugin has work to do (or the failure of one that
    cannot tell), since when the pod waits or waited on Permit (monotonic seconds), and whether the pod was deleted
    before its binding ended.
    """

    queued: QueuedPod
    pod: PodInfo
    node: str
    framework: Framework
    state: CycleState
    decision: Decision
    evaluated: int
    feasible: int
    bind_or_cancel: BindOrCancel = field(default_factory=BindOrCancel)
    pre_binds: bool | PluginVerdict = False
    waiting_since: float | None = None
    deleted: bool = False


@dataclass(frozen=True)
class PermitResult:
    """The end of a pod's wait on Permit.

    `refusal` is None if every plugin allowed the pod, else the rejecting verdict.
    """

    uid: str
    refusal: PluginVerdict | None


@dataclass(frozen=True)
class PendingPreBind:
    """A pod for which a PreBind plugin waits. `done` is the number of PreBind plugins that have run, this one included.

    `began` is when PreBind began and `since` when the wait began, in monotonic seconds.
    """

    uid: str
    plugin: str
    pending: Pending
    done: int
    began: float
    since: float


@dataclass(frozen=True)
class BindingResult:
    """The end of the binding of the pod with the UID `uid`.

    `failure` is None if the pod is bound, else the message of the pod's event.
    """

    uid: str
    failure: str | None


@dataclass(frozen=True)
class EvictionsFinished:
    """The end of a preemption by the pod or pod group with the UID `uid`. `failed` says that an eviction failed.

    After a failure the last victim is not evicted. `pod_uids` are the pods that wait for the preemption.
    """

    uid: str
    failed: bool
    pod_uids: tuple[str, ...]
