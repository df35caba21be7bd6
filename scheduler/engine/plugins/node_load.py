"""The load of nodes as SafeOverload and SafeBalance see it: used shares with the pod, and the risk of overload.

Source of the model: IBM's kube-safe-scheduler, agent `safe`; the arithmetic is `formulas.risk`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from herodotus_record.model import Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.formulas import measurements, risk
from scheduler.engine.formulas.inputs import NodeInputs, build_load_columns
from scheduler.engine.formulas.measurements import DEVIATION_FREE, FORECAST_FREE, MEAN_FREE
from scheduler.engine.framework.interface import Mask
from scheduler.engine.framework.plugin import Args, Handle, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.problems import Problem, invalid
from scheduler.engine.objects.requests import CPU, MEMORY
from scheduler.engine.plugins.node_measurements import Floats, MeasurementReader, NodeMeasurements, TenPointPlugin

RESOURCES: Final = (CPU, MEMORY)


class LoadArgs(Args, frozen=True):
    """Arguments: `forecast_weight` is the weight of the forecast, in percent, against the measured mean.

    Statistics that are older than `max_age_seconds` are ignored.
    """

    forecast_weight: int = 20
    max_age_seconds: float = measurements.DEFAULT_LIMIT_S

    def problems(self) -> Iterator[Problem]:
        yield from validate_percentage("forecastWeight", self.forecast_weight)
        if self.max_age_seconds <= 0:
            yield invalid("maxAgeSeconds", self.max_age_seconds, "must be positive")


def validate_percentage(path: str, value: int) -> Iterator[Problem]:
    """Yield a problem if the value is not from 0 to 100."""
    if not 0 <= value <= 100:
        yield invalid(path, value, "must be from 0 to 100")


@dataclass(frozen=True)
class NodeLoad:
    """The load of every node in one resource: mean and deviation of the used share by node slot.

    The mean is NaN if the node has no statistics. `reading` holds the statistics from which the load was computed.
    """

    resource: str
    mean: Floats
    deviation: Floats
    reading: NodeMeasurements

    def inputs(self, risky: Floats | None = None) -> NodeInputs:
        """Return the load as inputs for the record; `risky` adds each node's risk of overload, if it is not None."""
        keys = (MEAN_FREE[self.resource], DEVIATION_FREE[self.resource], *FORECAST_FREE[self.resource])
        return self.reading.inputs(keys, *build_load_columns(self.resource, self.mean, self.deviation, risky))


class LoadPlugin(TenPointPlugin):
    """Base class of SafeOverload and SafeBalance, which computes the loads of nodes."""

    args_type: ClassVar[type[Args]] = LoadArgs
    reads = frozenset({PluginInput.NODE})
    annotations = frozenset(
        {
            measurements.MEASURED["usage"],
            *MEAN_FREE.values(),
            *DEVIATION_FREE.values(),
            *(key for keys in FORECAST_FREE.values() for key in keys),
        }
    )

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._reader = MeasurementReader("usage", args.max_age_seconds)

    def compute_loads(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterator[NodeLoad]:
        """Yield the load of all nodes in cpu and in memory, as it would be with the pod on each of them."""
        reading = self._reader.read(state, nodes)
        for resource in RESOURCES:
            mean = reading.get(MEAN_FREE[resource])
            forecast = reading.get(*FORECAST_FREE[resource])
            deviation = np.nan_to_num(reading.get(DEVIATION_FREE[resource]))
            free = risk.expected_free(mean, forecast, self.args.forecast_weight / 100)
            demand = pod.requests.get(resource, 0)
            shares = risk.utilization(nodes.allocatable(resource), free, deviation, demand)
            yield NodeLoad(resource, *shares, reading)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        return self._reader.report_stale(state, nodes, feasible)
