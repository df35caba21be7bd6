"""The figures of one run of a simulation. docs/offline.md defines them for readers.

Owns: the figures and how they are measured. Does not own: the run (`simulation`), their output (`comparison`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.engine.columns import NodeColumns
from scheduler.engine.objects.csi_migration import ZONE
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.requests import PODS
from scheduler.offline.simulate.moments import Moment, Requests, list_demands, measure_moment
from scheduler.offline.simulate.prices import Prices
from scheduler.offline.traces.document import Event, PodArrived

MOMENTS: Final = 20
_ALWAYS: Final = ("cpu", "memory")
_HOUR_S: Final = 3600


class ResourceShare(msgspec.Struct, frozen=True, rename="camel"):
    """A resource of all nodes: the requested share of the allocatable amount, 0 to 1, over time and at its peak.

    `largest_free` is the mean over time of the largest free amount on one node, as a share of the largest allocatable
    amount of a node: what a pod may ask for at most. `fragmentation` is the mean over moments of the share of the free
    amount that a random pod of the trace cannot use, 0 to 1.
    """

    mean: float
    peak: float
    largest_free: float
    fragmentation: float


class SimulationFigures(msgspec.Struct, frozen=True, rename="camel"):
    """The figures of one run. Means are over the time from the first to the last arrival; times are in seconds.

    `never_placed` counts pods that arrived and got no node until the end of the run. `nodes_in_use` counts nodes with a
    pod. `waited_p50_s` and `waited_p99_s` are of the pods that got a node. `cost` is of all nodes and `cost_in_use` of
    nodes with a pod, in the currency of the prices, from the first to the last arrival; None without prices.
    `removable_nodes` and `skew` (by node label) are means over `moments`.
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
    cost: float | None
    cost_in_use: float | None
    removable_nodes: float
    skew: dict[str, float]
    resources: dict[str, ResourceShare]
    moments: tuple[Moment, ...]


class _Amounts:
    """The integrals over time, and the peaks, of one resource."""

    def __init__(self) -> None:
        self.share_s = self.peak = self.free_s = 0.0


class RunMetrics:
    """Measures one run. Implements `SimulationWatcher`.

    `last_arrival_s` ends the time over which means are taken, so that the end of the last pods does not count.
    `demands` are requests with their shares of all pods, for the fragmentation; `domains` are node labels.
    """

    def __init__(
        self,
        resources: Sequence[str],
        last_arrival_s: float,
        demands: Sequence[tuple[Requests, float]] = (),
        prices: Prices | None = None,
        domains: Sequence[str] = (ZONE,),
    ) -> None:
        self._resources = [*resources]
        self._last_s = last_arrival_s
        self._demands, self._domains = demands, domains
        self._moments: list[Moment] = []
        self._prices = prices
        self._prices_at: tuple[int, int] | None = None  # membership and slots for which the prices of nodes were read
        self._price_of = np.zeros(0)  # by slot
        self._cost = self._cost_in_use = 0.0
        self._first_s: float | None = None
        self._since_s = 0.0
        self._measured_s = 0.0
        self._amounts = {name: _Amounts() for name in resources}
        self._in_use_s, self._most_in_use, self._most_waiting = 0.0, 0, 0
        self._arrived_s: dict[str, float] = {}
        self._waited_s: list[float] = []
        self._count: Counter[str] = Counter()
        self.node_of: dict[str, str] = {}  # by namespace/name: the last node
        self.placed_s: dict[str, float] = {}  # by namespace/name: when it got that node

    @classmethod
    def from_events(
        cls, events: Iterable[Event], prices: Prices | None = None, domains: Sequence[str] = (ZONE,)
    ) -> RunMetrics:
        """Return metrics for a run of these events, of which at least one is the arrival of a pod."""
        arrivals = [event for event in events if isinstance(event, PodArrived)]
        pods = [PodInfo(event.pod) for event in arrivals]
        resources = list_resources({name for pod in pods for name in pod.requests})
        return cls(resources, max(event.at_s for event in arrivals), list_demands(pods), prices, domains)

    def advance(self, now_s: float, nodes: NodeColumns, waiting: int) -> None:
        """Add the state that held until `now_s` to the means and peaks."""
        self._most_waiting = max(self._most_waiting, waiting)
        began, self._since_s = self._since_s, now_s
        if self._first_s is None:
            return
        lasted_s = max(0.0, min(now_s, self._last_s) - began)
        self._measured_s += lasted_s
        live = nodes.live
        has_pods = live & (nodes.requested(PODS) > 0)
        in_use = int(np.count_nonzero(has_pods))
        self._measure_moments(now_s, nodes, waiting)
        self._add_cost(lasted_s / _HOUR_S, nodes, has_pods)
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

    def _measure_moments(self, now_s: float, nodes: NodeColumns, waiting: int) -> None:
        """Measure the moments until `now_s` that are due. They are spread evenly from the first to the last arrival."""
        first_s = self._first_s or 0.0
        while len(self._moments) < MOMENTS:
            at_s = first_s + (len(self._moments) + 0.5) * (self._last_s - first_s) / MOMENTS
            if at_s >= now_s:
                return
            self._moments.append(measure_moment(at_s, nodes, waiting, self._resources, self._demands, self._domains))

    def _add_cost(self, hours: float, nodes: NodeColumns, has_pods: NDArray[np.bool_]) -> None:
        if self._prices is None:
            return
        if self._prices_at != (nodes.membership, nodes.slots):
            self._prices_at = (nodes.membership, nodes.slots)
            self._price_of = np.array([0.0 if node is None else self._prices.find(node) for node in nodes.nodes])
        self._cost += hours * float(self._price_of.sum())
        self._cost_in_use += hours * float(self._price_of[has_pods].sum())

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
            self.node_of[pod.full_name], self.placed_s[pod.full_name] = node, now_s

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
            cost=None if self._prices is None else self._cost,
            cost_in_use=None if self._prices is None else self._cost_in_use,
            removable_nodes=_mean([each.removable_nodes for each in self._moments]),
            skew={
                label: _mean([each.skew[label] for each in self._moments if label in each.skew])
                for label in self._domains
                if any(label in each.skew for each in self._moments)
            },
            resources={
                name: ResourceShare(
                    each.share_s / measured_s,
                    each.peak,
                    each.free_s / measured_s,
                    _mean([moment.fragmentation[name] for moment in self._moments]),
                )
                for name, each in self._amounts.items()
            },
            moments=tuple(self._moments),
        )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def list_resources(requested: set[str]) -> list[str]:
    """Return the resources whose shares are measured: cpu, memory, and the others that pods request, by name."""
    return [*_ALWAYS, *sorted(requested - {*_ALWAYS, PODS})]
