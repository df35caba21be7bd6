"""reward (kubeRL): prefers nodes on which pods of this type did well, as the monitor has learnt."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from herodotus_agents.agent import Agent, Kind, NoSettings
from herodotus_agents.objects import Node, Pod
from scheduler.formulas import measurements, reward

_log: Final = logging.getLogger(__name__)


def priority(pod: Pod, nodes: Sequence[Node]) -> Sequence[int]:
    """Ten points where nothing bad is known."""
    kind = measurements.rewards_key(pod.labels, pod.metadata.name)
    rewards = [reward.of(node.annotations.get(measurements.REWARDS), kind) for node in nodes]
    points: list[int] = reward.points(np.array(rewards, np.float64)).tolist()
    _log.info("==> RLPriority pod=%s type=%s nodes=%d", pod.name, kind, len(nodes))
    for node, learnt, given in zip(nodes, rewards, points, strict=True):
        _log.debug("pod=%s node=%s reward=%.6f points=%d", pod.name, node.name, learnt, given)
    return points


def _make(settings: NoSettings, clock: Callable[[], float]) -> Agent:
    return Agent(priorities={"rl-priority": priority})


KIND: Final = Kind(NoSettings, _make)
