"""Congestion: prefers nodes that the annotation `congestion-factor` calls little congested.

Only Herodotus has this plugin. Source: IBM's kube-safe-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from herodotus_record.model import Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.formulas import measurements
from scheduler.engine.formulas.inputs import NodeInputColumn, NodeInputs
from scheduler.engine.formulas.points import congestion_points, parse_congestion
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.plugin import Args, Handle, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.problems import Problem, invalid
from scheduler.engine.plugins.node_measurements import Floats, MeasurementReader, NodeMeasurements, TenPointPlugin


class CongestionArgs(Args, frozen=True):
    """Arguments of Congestion: `factor_max` is the congestion factor from which a node scores 0.

    Factors that are older than `max_age_seconds` are ignored.
    """

    factor_max: int = 100
    max_age_seconds: float = measurements.DEFAULT_LIMIT_S

    def problems(self) -> Iterator[Problem]:
        if self.factor_max <= 0:
            yield invalid("factorMax", self.factor_max, "must be positive")
        if self.max_age_seconds <= 0:
            yield invalid("maxAgeSeconds", self.max_age_seconds, "must be positive")


@dataclass(frozen=True)
class _Factors:
    """The state that Score writes: the congestion factor of each node slot, NaN if the node has none."""

    reading: NodeMeasurements
    factors: Floats


class Congestion(TenPointPlugin):
    """A score plugin that prefers nodes with a low congestion factor.

    A node without a factor counts as not congested.
    """

    name = "Congestion"
    args_type = CongestionArgs
    reads = frozenset({PluginInput.NODE})
    annotations = frozenset({measurements.CONGESTION, measurements.MEASURED["congestion"]})

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._reader = MeasurementReader("congestion", args.max_age_seconds)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        return self._reader.report_stale(state, nodes, feasible)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return 10 points for each node without congestion, down to 0 for a factor of `factorMax` or more.

        A factor that is missing, expired or not an integer counts as no congestion.
        """
        reading = self._reader.read(state, nodes)
        factors = reading.get(measurements.CONGESTION, parse=parse_congestion)
        state.write(_Factors(reading, factors))
        return congestion_points(np.nan_to_num(factors), self.args.factor_max)

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterable[NodeInputs]:
        state_of_score = state.read(_Factors)
        return (
            state_of_score.reading.inputs(
                (measurements.CONGESTION,), NodeInputColumn("factor", state_of_score.factors, digits=0)
            ),
        )
