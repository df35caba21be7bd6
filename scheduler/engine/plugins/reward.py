"""Reward: prefers nodes on which pods of this type did well, as the monitor has learned and written there.

Known to Herodotus alone. Source: IBM's kubeRL.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from scheduler.engine.columns import NodeColumns
from scheduler.engine.formulas import measurements, reward
from scheduler.engine.formulas.inputs import NodeInputColumn, NodeInputs
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.plugin import BasePlugin, Handle
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins.node_measurements import Floats, MeasurementReader

SCALE = 10  # points go to 10, as extenders give them; scores to 100


class Reward(BasePlugin):
    """A node of which nothing bad is known has the full reward."""

    name = "Reward"
    annotations = frozenset({measurements.REWARDS, measurements.MEASURED["rewards"]})

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._reader = MeasurementReader("rewards", float("inf"))

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """0 to 10, by the type of the pod."""
        return reward.points(_parse_rewards(measurements.rewards_key(pod.labels, pod.name), nodes))

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterable[NodeInputs]:
        """The rewards; they are as old as the outcome that changed them last."""
        kind, key = measurements.rewards_key(pod.labels, pod.name), measurements.REWARDS
        inputs = self._reader.read(nodes).inputs(
            (key,), NodeInputColumn("reward", _parse_rewards(kind, nodes), digits=6)
        )
        return (replace(inputs, source=f"{inputs.source}, pod type {kind}"),)

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """Ten times the points."""
        return raw * SCALE


def _parse_rewards(kind: str, nodes: NodeColumns) -> Floats:
    """The rewards of a pod type. Each distinct annotation is read once."""
    column = nodes.annotation(measurements.REWARDS)
    rewards = np.array([reward.parse_reward(published, kind) for published in column.values])
    return rewards.take(column.ids(nodes.slots))
