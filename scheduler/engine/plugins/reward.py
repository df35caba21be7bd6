"""Reward: prefers nodes on which pods of the same type succeeded, as the monitor has learned.

Only Herodotus has this plugin. Source: IBM's kubeRL.
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
from scheduler.engine.framework.plugin import Handle, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins.node_measurements import Floats, MeasurementReader, TenPointPlugin


class Reward(TenPointPlugin):
    """A score plugin that prefers nodes on which pods of the same type succeeded, by rewards in an annotation.

    A node without failures of the pod type has the full reward.
    """

    name = "Reward"
    reads = frozenset({PluginInput.NODE})
    annotations = frozenset({measurements.REWARDS, measurements.MEASURED["rewards"]})

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._reader = MeasurementReader("rewards", float("inf"))

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return 0 to 10 points for each node slot, by the node's reward for the type of the pod."""
        return reward.points(_parse_rewards(measurements.rewards_key(pod.labels, pod.name), nodes))

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterable[NodeInputs]:
        """Report each node's reward for the type of the pod, for the record."""
        kind, key = measurements.rewards_key(pod.labels, pod.name), measurements.REWARDS
        inputs = self._reader.read(state, nodes).inputs(
            (key,), NodeInputColumn("reward", _parse_rewards(kind, nodes), digits=6)
        )
        return (replace(inputs, source=f"{inputs.source}, pod type {kind}"),)


def _parse_rewards(kind: str, nodes: NodeColumns) -> Floats:
    """Return, for each node slot, the node's reward for a pod type, NaN if its annotation is invalid.

    Each distinct annotation is parsed once.
    """
    column = nodes.annotation(measurements.REWARDS)
    rewards = np.array([reward.parse_reward(published, kind) for published in column.values])
    return rewards.take(column.ids(nodes.slots))
