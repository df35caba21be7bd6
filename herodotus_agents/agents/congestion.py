"""congestion: prefers nodes that an annotation calls little congested."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, ClassVar, Final

import msgspec
import numpy as np

from herodotus_agents.agent import Agent, Explained, Kind, Points, Settings
from herodotus_agents.measured import dated
from herodotus_agents.objects import Node, Pod
from scheduler.formulas import congestion, measurements
from scheduler.formulas.inputs import Number

_log: Final = logging.getLogger(__name__)


class CongestionSettings(Settings, frozen=True):
    """`factor_max`: the factor at which a node gets no points. `max_age_s`: older factors are ignored."""

    variables: ClassVar[Mapping[str, str]] = {"CONGESTION_FACTOR_MAX": "factor_max"}

    factor_max: Annotated[int, msgspec.Meta(ge=1)] = 100
    max_age_s: Annotated[float, msgspec.Meta(gt=0)] = measurements.DEFAULT_LIMIT_S


def _make(settings: CongestionSettings, clock: Callable[[], float]) -> Agent:
    def priority(pod: Pod, nodes: Sequence[Node]) -> Explained[Points]:
        when = dated("congestion", nodes, clock(), settings.max_age_s)
        factors = np.array([_factor(node) for node in nodes], np.float64)
        factors[when.stale] = np.nan
        points: list[int] = congestion.points(np.nan_to_num(factors), settings.factor_max).tolist()
        _log.info("==> CongestionPriority pod=%s nodes=%d stale=%d", pod.name, len(nodes), when.stale.sum())
        if _log.isEnabledFor(logging.DEBUG):
            for node, factor, given in zip(nodes, factors, points, strict=True):
                _log.debug("pod=%s node=%s factor=%g points=%d", pod.name, node.name, factor, given)
        return Explained(points, (when.inputs((measurements.CONGESTION,), Number("factor", factors, digits=0)),))

    return Agent(priorities={"congestion": priority})


def _factor(node: Node) -> float:
    """NaN where it is missing or no whole number."""
    try:
        return max(int(node.annotations[measurements.CONGESTION]), 0)
    except (KeyError, ValueError):
        return np.nan


KIND: Final = Kind(CongestionSettings, _make)
