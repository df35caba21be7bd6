"""Congestion: prefers nodes that the annotation `congestion-factor` calls little congested.

Known to Herodotus alone. Source: IBM's kube-safe-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from herodotus_record.model import Verdict
from scheduler.columns import NodeColumns
from scheduler.formulas import congestion, measurements
from scheduler.framework.interface import Mask, Scores
from scheduler.framework.plugin import Args, BasePlugin, Handle
from scheduler.framework.state import CycleState
from scheduler.objects.pod import PodInfo
from scheduler.objects.problems import Problem, invalid
from scheduler.plugins.measured import Measured

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
        factors = np.nan_to_num(self._measured.of(nodes, measurements.CONGESTION))
        return congestion.points(np.where(factors == np.floor(factors), factors, 0), self.args.factor_max)

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """Ten times the points."""
        return raw * SCALE
