"""A queued pod and its history in the queue.

Owns: what the queue keeps about a pod between attempts. Does not own: its transitions (`scheduling_queue`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from herodotus_record.model import PluginVerdict, RequeueEvent
from scheduler.engine.objects.pod import PodInfo

ACTIVE, BACKOFF, UNSCHEDULABLE, GATED, POPPED = "active", "backoff", "unschedulable", "gated", ""
PLACES = (ACTIVE, BACKOFF, UNSCHEDULABLE, GATED)


@dataclass
class QueuedPod:
    """A pod in the queue or in flight, with its history. Times are monotonic seconds unless named otherwise."""

    pod: PodInfo
    first_seen_us: int  # wall clock
    attempts: int = 0
    rejections: int = 0  # since the last error
    errors: int = 0  # in a row
    denials: int = 0  # preemptions in a row in which an eviction failed
    queued_at: float = 0.0  # when it was added or returned from an attempt; orders pods of equal priority
    since: float = 0.0  # when it entered its present queue
    where: str = POPPED
    ready_at: float = 0.0  # end of backoff
    first_active: float | None = None  # when it first entered the active queue; orders the pods of a group
    gate: PluginVerdict | None = None  # the PreEnqueue plugin that keeps it out of the active queue
    rejectors: frozenset[str] = frozenset()  # plugins that rejected the last attempt, or gate the pod
    pending: frozenset[str] = frozenset()  # rejectors that returned Pending: their event also ends the backoff
    requeued_by: RequeueEvent | None = None  # the event that requeued it; None if it did not wait for one
    waited_s: dict[str, float] = field(default_factory=dict)  # in each queue, since the last attempt
    uid: str = field(init=False)  # the pod's UID, kept here because every move reads it

    def __post_init__(self) -> None:
        self.uid = self.pod.uid
