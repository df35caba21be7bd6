"""Congestion: prefers nodes that the annotation `congestion-factor` calls little congested.

Known to Herodotus alone. Source: IBM's kube-safe-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from herodotus_record.model import Verdict
from scheduler.columns import NodeColumns
from scheduler.formulas import congestion, measurements
from scheduler.formulas.inputs import Inputs, Number
from scheduler.framework.interface import Mask, Scores
from scheduler.framework.plugin import Args, BasePlugin, Handle
from scheduler.framework.state import CycleState
from scheduler.objects.pod import PodInfo
from scheduler.objects.problems import Problem, invalid
from scheduler.plugins.measured import Floats, Measured, Reading

SCALE = 10  # points go to 10, as extenders give them; scores to 100


class CongestionArgs(Args, frozen=True):
    """`factor_max`: the factor at which a node gets no points. Older factors are ignored."""

    factor_max: int = 100
    max_age_seconds: float = measurements.DEFAULT_LIMIT_S

    def problems(self) -> Iterator[Problem]:
        """Ranges."""
        if self.factor_max <= 0:
            yield invalid("factorMax", self.factor_max, "must be positive")
        if self.max_age_seconds <= 0:
            yield invalid("maxAgeSeconds", self.max_age_seconds, "must be positive")


@dataclass(frozen=True)
class _Factors:
    """What Score saw; NaN where a node has no factor."""

    reading: Reading
    factors: Floats


class Congestion(BasePlugin):
    """A node that nobody calls congested is not."""

    name = "Congestion"
    args_type = CongestionArgs
    annotations = frozenset({measurements.CONGESTION, measurements.MEASURED["congestion"]})

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._measured = Measured("congestion", args.max_age_seconds)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        """Notes what is too old."""
        return self._measured.note(nodes, feasible)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """0 to 10. What is no whole number is no factor."""
        reading = self._measured.read(nodes)
        given = reading.of(measurements.CONGESTION)
        factors = np.where(given == np.floor(given), given, np.nan)
        state.write(_Factors(reading, factors))
        return congestion.points(np.nan_to_num(factors), self.args.factor_max)

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterable[Inputs]:
        """The factors."""
        seen = state.read(_Factors)
        return (seen.reading.inputs((measurements.CONGESTION,), Number("factor", seen.factors, digits=0)),)

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """Ten times the points."""
        return raw * SCALE
