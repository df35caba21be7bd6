"""A waiting pod and its history in the queue.

Owns: what is remembered of a pod between its attempts. Does not own: where it goes next (`scheduling_queue`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from herodotus_record.model import PluginVerdict, WokenBy
from scheduler.objects.pod import PodInfo

ACTIVE, BACKOFF, UNSCHEDULABLE, GATED, POPPED = "active", "backoff", "unschedulable", "gated", ""
PLACES = (ACTIVE, BACKOFF, UNSCHEDULABLE, GATED)


@dataclass
class QueuedPod:
    """Times are monotonic seconds unless their name says otherwise."""

    pod: PodInfo
    first_seen_us: int  # wall clock
    attempts: int = 0
    rejections: int = 0  # since the last error
    errors: int = 0  # in a row
    queued_at: float = 0.0  # when it came, or came back: its place among equals, wherever it waits meanwhile
    since: float = 0.0  # when it was put where it is
    where: str = POPPED
    ready_at: float = 0.0  # end of backoff
    gate: PluginVerdict | None = None  # what keeps it out of the active queue
    rejectors: frozenset[str] = frozenset()  # the plugins that turned it away last, or hold it back
    pending: frozenset[str] = frozenset()  # those of them whose yes ends the backoff too (Pending)
    woken_by: WokenBy | None = None  # what ended its wait for an event; None where it did not wait for one
    waited_s: dict[str, float] = field(default_factory=dict)  # in each place, since the last attempt
    uid: str = field(init=False)  # the pod's; kept here because every move asks for it

    def __post_init__(self) -> None:
        self.uid = self.pod.uid
