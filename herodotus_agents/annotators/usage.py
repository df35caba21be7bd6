"""The annotator `usage`: mean, deviation and forecast of each node's free cpu and memory, from node exporters.

A round makes two range queries for any number of nodes. A node's series is found by its InternalIP and the exporter's
port.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from herodotus_agents.annotators.allocation import ON_NODES, PODS
from herodotus_agents.annotators.controller import Values
from herodotus_agents.objects import NodeView, read_allocatable
from herodotus_kube.http import ApiServer
from scheduler.engine.formulas import forecast
from scheduler.engine.formulas.measurements import DEVIATION_FREE, FORECAST_FREE, MEAN_FREE
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Pod
from scheduler.prometheus import Prometheus

_log: Final = logging.getLogger(__name__)

# Samples per window. More do not change the statistics, and 5,000 nodes have 5,000 such series.
POINTS: Final = 300
NOT_KNOWN: Final = "N/A"
# A rate needs two samples in its window: Prometheus scrapes once a minute unless it is configured otherwise.
RATE_S: Final = 300

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MetricWindow:
    """A range query for the free amount of one resource: the PromQL expression and the window's length in seconds."""

    resource: str
    query: str
    length_s: float


@dataclass(frozen=True)
class UsageAnnotator:
    """Annotates nodes with the mean, deviation and forecast of their free cpu and memory.

    With `use_requests`, the free amount is at least what no pod on the node requests. `rate_s` is the window in seconds
    of the PromQL rate of idle cpu.
    """

    prometheus: Prometheus
    exporter_port: int = 9100
    use_forecast: bool = False
    use_requests: bool = False
    memory_window_s: float = 86_400.0
    cpu_window_s: float = 300.0
    rate_s: int = RATE_S
    group: str = "usage"
    clock: Callable[[], float] = field(default=time.time)

    def measure(self, nodes: Sequence[NodeView], kube: ApiServer) -> Values:
        """Return, by node name, six annotations for each node that Prometheus has a series for: three per resource.

        If only one resource has a series, the annotations of the other are None, which removes their outdated values.
        """
        floors = _unrequested_amounts(nodes, kube) if self.use_requests else {}
        values: dict[str, dict[str, str | None]] = {}
        measured_resources: set[tuple[str, str]] = set()
        for window in self._windows():
            series = self._series(window)
            for node in nodes:
                samples = series.get(f"{node.address}:{self.exporter_port}")
                if samples is None or not len(samples):
                    _log.warning(
                        "node=%s: no %s series of %s", node.name, window.resource, node.address or "no address"
                    )
                    continue
                measured_resources.add((node.name, window.resource))
                samples = np.maximum(samples, floors.get((node.name, window.resource), 0.0))
                values.setdefault(node.name, {}).update(self._statistics(window.resource, samples))
        for name, node_values in values.items():
            node_values |= {
                key: None for r in ("cpu", "memory") if (name, r) not in measured_resources for key in _annotations(r)
            }
        return values

    def _windows(self) -> Sequence[MetricWindow]:
        idle = f'sum by (instance) (rate(node_cpu_seconds_total{{mode="idle"}}[{self.rate_s}s])) * 1000'
        return (
            MetricWindow("cpu", idle, self.cpu_window_s),
            MetricWindow("memory", "node_memory_MemAvailable_bytes", self.memory_window_s),
        )

    def _series(self, window: MetricWindow) -> Mapping[str, Floats]:
        """Query Prometheus and return the finite samples of the window by instance (ADDRESS:PORT), oldest first."""
        now = self.clock()
        step_s = max(window.length_s / POINTS, 1.0)
        all_series = self.prometheus.query_range(window.query, now - window.length_s, now, step_s)
        return {series.labels.get("instance", ""): series.values[np.isfinite(series.values)] for series in all_series}

    def _statistics(self, resource: str, samples: Floats) -> dict[str, str | None]:
        deviation = samples.std(ddof=1) if len(samples) > 1 else 0.0
        expected = forecast.next_value(samples) if self.use_forecast else None
        return {
            MEAN_FREE[resource]: f"{samples.mean():.0f}",
            DEVIATION_FREE[resource]: f"{deviation:.0f}",
            FORECAST_FREE[resource][0]: NOT_KNOWN if expected is None else f"{expected:.0f}",
        }


def _annotations(resource: str) -> tuple[str, str, str]:
    """Return the keys of a resource's annotations: mean, deviation and forecast of the free amount."""
    return MEAN_FREE[resource], DEVIATION_FREE[resource], FORECAST_FREE[resource][0]


def _unrequested_amounts(nodes: Sequence[NodeView], kube: ApiServer) -> dict[tuple[str, str], float]:
    """Return the allocatable amount that no pod on the node requests, by (node name, resource)."""
    left = {
        (node.name, resource): float(amount)
        for resource in ("cpu", "memory")
        for node, amount in zip(nodes, read_allocatable(nodes, resource), strict=True)
    }
    for pod in map(PodInfo, kube.list_objects(PODS, Pod, ON_NODES)):
        for resource in ("cpu", "memory"):
            if (pod.pod.spec.node_name, resource) in left:
                left[pod.pod.spec.node_name, resource] -= pod.requests.get(resource, 0)
    return left
