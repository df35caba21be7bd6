"""The agent `congestion`: prefers nodes whose network is little used, according to an annotation."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, ClassVar, Final

import msgspec
import numpy as np

from herodotus_agents.agent import Agent, AgentFactory, AgentSettings, ExplainedResult, Points
from herodotus_agents.measured import read_measurement_times
from herodotus_agents.objects import NodeView, PodView
from scheduler.engine.formulas import congestion, measurements
from scheduler.engine.formulas.inputs import NodeInputColumn

_log: Final = logging.getLogger(__name__)


class CongestionSettings(AgentSettings, frozen=True):
    """Settings of the congestion agent.

    `factor_max` is the congestion factor, in per cent of the network capacity in use, at which a node scores 0. Factors
    older than `max_age_s` seconds are ignored.
    """

    variables: ClassVar[Mapping[str, str]] = {"CONGESTION_FACTOR_MAX": "factor_max"}

    factor_max: Annotated[int, msgspec.Meta(ge=1)] = 100
    max_age_s: Annotated[float, msgspec.Meta(gt=0)] = measurements.DEFAULT_LIMIT_S


def _make(settings: CongestionSettings, clock: Callable[[], float]) -> Agent:
    def priority(pod: PodView, nodes: Sequence[NodeView]) -> ExplainedResult[Points]:
        measured = read_measurement_times("congestion", nodes, clock(), settings.max_age_s)
        factors = np.array([_factor(node) for node in nodes], np.float64)
        factors[measured.stale] = np.nan
        points: list[int] = congestion.points(np.nan_to_num(factors), settings.factor_max).tolist()
        _log.info("==> CongestionPriority pod=%s nodes=%d stale=%d", pod.name, len(nodes), measured.stale.sum())
        if _log.isEnabledFor(logging.DEBUG):
            for node, factor, score in zip(nodes, factors, points, strict=True):
                _log.debug("pod=%s node=%s factor=%g points=%d", pod.name, node.name, factor, score)
        return ExplainedResult(
            points, (measured.inputs((measurements.CONGESTION,), NodeInputColumn("factor", factors, digits=0)),)
        )

    return Agent(priorities={"congestion": priority})


def _factor(node: NodeView) -> float:
    """Return the congestion factor in the node's annotation, or NaN if the annotation is missing or not an integer."""
    try:
        return float(max(int(node.annotations[measurements.CONGESTION]), 0))
    except (KeyError, ValueError, OverflowError):
        return np.nan


FACTORY: Final = AgentFactory(CongestionSettings, _make)
