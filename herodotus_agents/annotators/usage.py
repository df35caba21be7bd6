"""usage: mean, deviation and forecast of what each node has free of cpu and memory, from Prometheus' node exporter.

Two range queries a round, whatever the number of nodes. A node is found by its InternalIP and the exporter's port.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_agents.annotators.allocation import ON_NODES, PODS
from herodotus_agents.annotators.controller import Values
from herodotus_agents.kube import Kube
from herodotus_agents.objects import Node, Pod
from herodotus_agents.prometheus import Prometheus
from scheduler.formulas import forecast
from scheduler.formulas.measurements import DEVIATION_FREE, FORECAST_FREE, MEAN_FREE

_log: Final = logging.getLogger(__name__)

POINTS: Final = 300  # of a window: more say nothing new, and 5,000 nodes have as many series
NOT_KNOWN: Final = "N/A"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Window:
    """What is measured of a resource: the query, over how long."""

    resource: str
    query: str
    length_s: float


@dataclass(frozen=True)
class Usage:
    """`use_requests`: a node is taken to have free at least what nobody requests. `rate_s`: of the idle cpu's rate."""

    prometheus: Prometheus
    exporter_port: int = 9100
    use_forecast: bool = False
    use_requests: bool = False
    memory_window_s: float = 86_400.0
    cpu_window_s: float = 300.0
    rate_s: int = 60
    group: str = "usage"
    clock: Callable[[], float] = field(default=time.time)

    def round(self, nodes: Sequence[Node], kube: Kube) -> Values:
        """Six annotations a node, of those that Prometheus knows."""
        floors = _unrequested(nodes, kube) if self.use_requests else {}
        values: dict[str, dict[str, str | None]] = {}
        for window in self._windows():
            series = self._series(window)
            for node in nodes:
                samples = series.get(f"{node.address}:{self.exporter_port}")
                if samples is None or not len(samples):
                    _log.warning(
                        "node=%s: no %s series of %s", node.name, window.resource, node.address or "no address"
                    )
                    continue
                samples = np.maximum(samples, floors.get((node.name, window.resource), 0.0))
                values.setdefault(node.name, {}).update(self._statistics(window.resource, samples))
        return values

    def _windows(self) -> Sequence[Window]:
        idle = f'sum by (instance) (rate(node_cpu_seconds_total{{mode="idle"}}[{self.rate_s}s])) * 1000'
        return (
            Window("cpu", idle, self.cpu_window_s),
            Window("memory", "node_memory_MemAvailable_bytes", self.memory_window_s),
        )

    def _series(self, window: Window) -> Mapping[str, Floats]:
        """Samples by instance."""
        now = self.clock()
        step_s = max(window.length_s / POINTS, 1.0)
        found = self.prometheus.range(window.query, now - window.length_s, now, step_s)
        return {series.labels.get("instance", ""): series.values[np.isfinite(series.values)] for series in found}

    def _statistics(self, resource: str, samples: Floats) -> dict[str, str | None]:
        deviation = samples.std(ddof=1) if len(samples) > 1 else 0.0
        expected = forecast.next_value(samples) if self.use_forecast else None
        return {
            MEAN_FREE[resource]: f"{samples.mean():.0f}",
            DEVIATION_FREE[resource]: f"{deviation:.0f}",
            FORECAST_FREE[resource][0]: NOT_KNOWN if expected is None else f"{expected:.0f}",
        }


def _unrequested(nodes: Sequence[Node], kube: Kube) -> dict[tuple[str, str], float]:
    """What no pod requests, by node and resource."""
    left = {(node.name, r): float(node.allocatable(r)) for node in nodes for r in ("cpu", "memory")}
    for raw in kube.objects(PODS, ON_NODES)[0]:
        pod = msgspec.json.decode(raw, type=Pod)
        for resource in ("cpu", "memory"):
            if (pod.spec.node_name, resource) in left:
                left[pod.spec.node_name, resource] -= pod.demand(resource)
    return left
