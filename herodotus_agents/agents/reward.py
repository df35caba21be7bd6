"""The agent `reward` (kubeRL): prefers nodes on which pods of the same type succeeded, as the monitor learned."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from herodotus_agents.agent import Agent, AgentFactory, ExplainedResult, NoSettings, Points
from herodotus_agents.measured import read_measurement_times
from herodotus_agents.objects import NodeView, PodView
from scheduler.engine.formulas import measurements, reward
from scheduler.engine.formulas.inputs import NodeInputColumn

_log: Final = logging.getLogger(__name__)


def _make(settings: NoSettings, clock: Callable[[], float]) -> Agent:
    def priority(pod: PodView, nodes: Sequence[NodeView]) -> ExplainedResult[Points]:
        """Return 0 to 10 points per node: 10 if pods of this type always did well there, fewer after bad outcomes.

        The points are ten times the reward in the node's annotation, rounded down; 0 if the annotation is invalid.
        """
        pod_type = measurements.rewards_key(pod.labels, pod.metadata.name)
        rewards = np.array(
            [reward.parse_reward(node.annotations.get(measurements.REWARDS), pod_type) for node in nodes], np.float64
        )
        points: list[int] = reward.points(rewards).tolist()
        _log.info("==> RLPriority pod=%s type=%s nodes=%d", pod.name, pod_type, len(nodes))
        if _log.isEnabledFor(logging.DEBUG):
            for node, learned, score in zip(nodes, rewards, points, strict=True):
                _log.debug("pod=%s node=%s reward=%.6f points=%d", pod.name, node.name, learned, score)
        inputs = read_measurement_times("rewards", nodes, clock(), float("inf")).inputs(
            (measurements.REWARDS,), NodeInputColumn("reward", rewards, digits=6)
        )
        return ExplainedResult(points, (replace(inputs, source=f"{inputs.source}, pod type {pod_type}"),))

    return Agent(priorities={"rl-priority": priority})


FACTORY: Final = AgentFactory(NoSettings, _make)
