"""Simulations of short traces for tests: their events, and what happened in them."""

from __future__ import annotations

import numpy as np

from scheduler.config import Configuration
from scheduler.config.types import ProfileConfig
from scheduler.engine.columns import NodeColumns
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.simulate.metrics import RunMetrics
from scheduler.offline.simulate.simulation import TraceSimulation
from scheduler.offline.traces.document import Event, NodeAdded, PodArrived
from tests.scheduler.builders import PROFILE, PodBuilder, make_node

CONFIG = Configuration(profiles=(ProfileConfig(scheduler_name=PROFILE),))
Said = tuple[float, str, str]


class Course(RunMetrics):
    """The figures of a run, and what happened: (seconds, pod, what)."""

    def __init__(self) -> None:
        super().__init__(["cpu"], 1000.0)
        self.said: list[Said] = []

    def advance(self, now_s: float, nodes: NodeColumns, waiting: int) -> None:
        super().advance(now_s, nodes, waiting)
        for resource in ("cpu", "pods"):
            assert np.all(nodes.requested(resource)[nodes.live] <= nodes.allocatable(resource)[nodes.live])

    def arrived(self, now_s: float, pod: PodInfo) -> None:
        super().arrived(now_s, pod)
        self.said.append((now_s, pod.name, "arrives"))

    def decided(self, now_s: float, pod: PodInfo, node: str) -> None:
        super().decided(now_s, pod, node)
        self.said.append((now_s, pod.name, node or "waits"))

    def preempted(self, now_s: float, victim: PodInfo) -> None:
        super().preempted(now_s, victim)
        self.said.append((now_s, victim.name, "evicted"))


def simulate(*events: Event, config: Configuration = CONFIG, seed: int = 0) -> Course:
    course = Course()
    TraceSimulation(config, IN_TREE, seed).run(events, course, lambda _: None)
    return course


def joins(name: str, cpu: str = "2", at_s: float = 0.0) -> NodeAdded:
    return NodeAdded(at_s, make_node(name).allocatable(cpu=cpu).obj())


def arrives(at_s: float, pod: PodBuilder, runs_s: float | None = None) -> PodArrived:
    return PodArrived(at_s, pod.obj(), ended_at_s=None if runs_s is None else at_s + runs_s)
