"""The figures of one run of a simulation. docs/offline.md defines them for readers.

Owns: the figures and how they are measured. Does not own: the run (`simulation`), their output (`commands.simulate`).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec
import numpy as np

from scheduler.engine.columns import NodeColumns
from scheduler.engine.objects.pod import PodInfo

_ALWAYS: Final = ("cpu", "memory")


class ResourceShare(msgspec.Struct, frozen=True, rename="camel"):
    """A resource of all nodes: the requested share of the allocatable amount, 0 to 1, over time and at its peak.

    `largest_free` is the mean over time of the largest free amount on one node, as a share of the largest allocatable
    amount of a node: what a pod may ask for at most.
    """

    mean: float
    peak: float
    largest_free: float


class SimulationFigures(msgspec.Struct, frozen=True, rename="camel"):
    """The figures of one run. Means are over the time from the first to the last arrival; times are in seconds.

    `never_placed` counts pods that arrived and got no node until the end of the run. `nodes_in_use` counts nodes with a
    pod. `waited_p50_s` and `waited_p99_s` are of the pods that got a node.
    """

    arrived: int
    placed: int
    never_placed: int
    attempts: int
    preempted: int
    waited_p50_s: float
    waited_p99_s: float
    most_waiting: int
    nodes_in_use: float
    most_nodes_in_use: int
    resources: dict[str, ResourceShare]


class _Amounts:
    """The integrals over time, and the peaks, of one resource."""

    def __init__(self) -> None:
        self.share_s = self.peak = self.free_s = 0.0


class RunMetrics:
    """Measures one run. Implements `SimulationWatcher`.

    `last_arrival_s` ends the time over which means are taken, so that the end of the last pods does not count.
    """

    def __init__(self, resources: list[str], last_arrival_s: float) -> None:
        self._resources = resources
        self._last_s = last_arrival_s
        self._first_s: float | None = None
        self._since_s = 0.0
        self._measured_s = 0.0
        self._amounts = {name: _Amounts() for name in resources}
        self._in_use_s, self._most_in_use, self._most_waiting = 0.0, 0, 0
        self._arrived_s: dict[str, float] = {}
        self._waited_s: list[float] = []
        self._count: Counter[str] = Counter()
        self.node_of: dict[str, str] = {}  # by namespace/name: the last node

    def advance(self, now_s: float, nodes: NodeColumns, waiting: int) -> None:
        """Add the state that held until `now_s` to the means and peaks."""
        self._most_waiting = max(self._most_waiting, waiting)
        began, self._since_s = self._since_s, now_s
        if self._first_s is None:
            return
        lasted_s = max(0.0, min(now_s, self._last_s) - began)
        self._measured_s += lasted_s
        live = nodes.live
        in_use = int(np.count_nonzero(nodes.requested("pods")[live]))
        self._in_use_s += in_use * lasted_s
        self._most_in_use = max(self._most_in_use, in_use)
        for name, amounts in self._amounts.items():
            allocatable, requested = nodes.allocatable(name)[live], nodes.requested(name)[live]
            total, largest = int(allocatable.sum()), int(allocatable.max(initial=0))
            share = int(requested.sum()) / total if total else 0.0
            amounts.peak = max(amounts.peak, share)
            amounts.share_s += share * lasted_s
            free = int((allocatable - requested).max(initial=0))
            amounts.free_s += free / largest * lasted_s if largest else 0.0

    def arrived(self, now_s: float, pod: PodInfo) -> None:
        """Count a pod that arrives."""
        self._first_s = now_s if self._first_s is None else self._first_s
        self._count["arrived"] += 1
        self._arrived_s[pod.uid] = now_s

    def decided(self, now_s: float, pod: PodInfo, node: str) -> None:
        """Count an attempt, and the time that a placed pod waited."""
        self._count["attempts"] += 1
        if node:
            self._count["placed"] += 1
            self._waited_s.append(now_s - self._arrived_s.pop(pod.uid))
            self.node_of[pod.full_name] = node

    def preempted(self, now_s: float, victim: PodInfo) -> None:
        """Count a victim of preemption."""
        self._count["preempted"] += 1

    def figures(self) -> SimulationFigures:
        """Return the figures of the run, which has ended."""
        measured_s = self._measured_s or 1.0
        waited = np.array(self._waited_s or [0.0])
        return SimulationFigures(
            arrived=self._count["arrived"],
            placed=self._count["placed"],
            never_placed=len(self._arrived_s),
            attempts=self._count["attempts"],
            preempted=self._count["preempted"],
            waited_p50_s=float(np.percentile(waited, 50)),
            waited_p99_s=float(np.percentile(waited, 99)),
            most_waiting=self._most_waiting,
            nodes_in_use=self._in_use_s / measured_s,
            most_nodes_in_use=self._most_in_use,
            resources={
                name: ResourceShare(each.share_s / measured_s, each.peak, each.free_s / measured_s)
                for name, each in self._amounts.items()
            },
        )


def list_resources(requested: set[str]) -> list[str]:
    """Return the resources whose shares are measured: cpu, memory, and the others that pods request, by name."""
    return [*_ALWAYS, *sorted(requested - {*_ALWAYS, "pods"})]
