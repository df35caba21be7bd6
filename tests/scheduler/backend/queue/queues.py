"""A queue whose plugins are two sentences long, and short ways to use it."""

from __future__ import annotations

from collections.abc import Iterable

from herodotus_record.model import PluginVerdict
from scheduler.backend.queue import BackoffLimits, QueuedPod, SchedulingQueue
from scheduler.engine.framework.events import (
    ActionType,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
    always_queue,
)
from scheduler.engine.framework.queueing_hints import QueueingHints
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins.priority_sort import PrioritySort
from scheduler.engine.plugins.scheduling_gates import SchedulingGates
from scheduler.engine.rules import DEFAULT_RULES, Rules
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import PROFILE, PodBuilder

SORT, GATES = PrioritySort(None, NoCluster()), SchedulingGates(None, NoCluster())
FIT, TAINTS = frozenset({"Fit"}), frozenset({"Taints"})
NONE: frozenset[str] = frozenset()


class Asks:
    """A plugin that declares this much."""

    def __init__(self, name: str, *declared: ClusterEventWithHint) -> None:
        self.name = name
        self._declared = declared

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        return self._declared


def on(resource: EventResource, action: ActionType, hint: QueueingHint = always_queue) -> ClusterEventWithHint:
    return ClusterEventWithHint(resource, action, hint)


FIT_ASKS = Asks(
    "Fit",
    on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT),
    on(EventResource.POD, ActionType.DELETE),
)
TAINTS_ASKS = Asks("Taints", on(EventResource.NODE, ActionType.UPDATE_NODE_LABEL))


def gate(pod: PodInfo) -> PluginVerdict | None:
    verdict = GATES.pre_enqueue(pod)
    return PluginVerdict(GATES.name, verdict) if verdict.code else None


def a_queue(
    *plugins: Asks,
    initial_backoff_s: float = 1.0,
    max_backoff_s: float = 10.0,
    rules: Rules = DEFAULT_RULES,
) -> SchedulingQueue:
    """Fit wakes on nodes and on pods that go, Taints on labels, and whatever `plugins` add."""
    hints = QueueingHints([GATES, FIT_ASKS, TAINTS_ASKS, *plugins])
    return SchedulingQueue(
        SORT.sort_key, gate, {PROFILE: hints}, BackoffLimits(initial_backoff_s, max_backoff_s), rules
    )


def add(queue: SchedulingQueue, *pods: PodBuilder, now: float = 0.0) -> None:
    for pod in pods:
        queue.add(pod.info(), now, 0)


def popped(queue: SchedulingQueue, now: float = 0.0) -> QueuedPod:
    queued = queue.pop(now)
    assert queued is not None
    return queued


def names(queue: SchedulingQueue, now: float) -> list[str]:
    """Everything that can be had now, in order."""
    found = []
    while (queued := queue.pop(now)) is not None:
        found.append(queued.pod.name)
    return found


def rejected(queue: SchedulingQueue, pod: PodBuilder, rejectors: frozenset[str] = FIT, now: float = 0.0) -> QueuedPod:
    """Add a pod, pop it and return it to the queue as rejected."""
    add(queue, pod, now=now)
    queued = popped(queue, now)
    queue.add_unschedulable_if_not_present(queued, rejectors, now)
    return queued
