"""reward (kubeRL): prefers nodes on which pods of this type did well, as the monitor has learnt."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from herodotus_agents.agent import Agent, Explained, Kind, NoSettings, Points
from herodotus_agents.measured import dated
from herodotus_agents.objects import Node, Pod
from scheduler.formulas import measurements, reward
from scheduler.formulas.inputs import Number

_log: Final = logging.getLogger(__name__)


def _make(settings: NoSettings, clock: Callable[[], float]) -> Agent:
    def priority(pod: Pod, nodes: Sequence[Node]) -> Explained[Points]:
        """Ten points where nothing bad is known."""
        kind = measurements.rewards_key(pod.labels, pod.metadata.name)
        rewards = np.array([reward.of(node.annotations.get(measurements.REWARDS), kind) for node in nodes], np.float64)
        points: list[int] = reward.points(rewards).tolist()
        _log.info("==> RLPriority pod=%s type=%s nodes=%d", pod.name, kind, len(nodes))
        if _log.isEnabledFor(logging.DEBUG):
            for node, learnt, given in zip(nodes, rewards, points, strict=True):
                _log.debug("pod=%s node=%s reward=%.6f points=%d", pod.name, node.name, learnt, given)
        told = dated("rewards", nodes, clock(), float("inf")).inputs(
            (measurements.REWARDS,), Number("reward", rewards, digits=6)
        )
        return Explained(points, (replace(told, source=f"{told.source}, pod type {kind}"),))

    return Agent(priorities={"rl-priority": priority})


KIND: Final = Kind(NoSettings, _make)
