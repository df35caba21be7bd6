"""congestion: prefers nodes that an annotation calls little congested."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, ClassVar, Final

import msgspec
import numpy as np

from herodotus_agents.agent import Agent, Kind, Settings
from herodotus_agents.objects import Node, Pod
from scheduler.formulas import congestion, measurements

_log: Final = logging.getLogger(__name__)


class CongestionSettings(Settings, frozen=True):
    """`factor_max`: the factor at which a node gets no points. `max_age_s`: older factors are ignored."""

    variables: ClassVar[Mapping[str, str]] = {"CONGESTION_FACTOR_MAX": "factor_max"}

    factor_max: Annotated[int, msgspec.Meta(ge=1)] = 100
    max_age_s: Annotated[float, msgspec.Meta(gt=0)] = measurements.DEFAULT_LIMIT_S


def _make(settings: CongestionSettings, clock: Callable[[], float]) -> Agent:
    def priority(pod: Pod, nodes: Sequence[Node]) -> Sequence[int]:
        now = clock()
        factors = [_factor(node, now, settings.max_age_s) for node in nodes]
        points: list[int] = congestion.points(np.array(factors, np.float64), settings.factor_max).tolist()
        _log.info("==> CongestionPriority pod=%s nodes=%d", pod.name, len(nodes))
        for node, factor, given in zip(nodes, factors, points, strict=True):
            _log.debug("pod=%s node=%s factor=%d points=%d", pod.name, node.name, factor, given)
        return points

    return Agent(priorities={"congestion": priority})


def _factor(node: Node, now_s: float, limit_s: float) -> int:
    """0 where it is missing, no whole number, or too old."""
    if measurements.age_s("congestion", node.annotations, now_s) > limit_s:
        _log.warning("node=%s: the congestion factor is too old, ignored", node.name)
        return 0
    try:
        return max(int(node.annotations.get(measurements.CONGESTION, "0")), 0)
    except ValueError:
        return 0


KIND: Final = Kind(CongestionSettings, _make)
