"""Reward: prefers nodes on which pods of this type did well, as the monitor has learnt and written there.

Known to Herodotus alone. Source: IBM's kubeRL.
"""

from __future__ import annotations

import numpy as np

from scheduler.columns import NodeColumns
from scheduler.formulas import measurements, reward
from scheduler.framework.interface import Mask, Scores
from scheduler.framework.plugin import BasePlugin
from scheduler.framework.state import CycleState
from scheduler.objects.pod import PodInfo

SCALE = 10  # points go to 10, as extenders give them; scores to 100


class Reward(BasePlugin):
    """A node of which nothing bad is known has the full reward."""

    name = "Reward"
    annotations = frozenset({measurements.REWARDS})

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """0 to 10, by the type of the pod. Each distinct annotation is read once."""
        kind = measurements.rewards_key(pod.labels, pod.name)
        column = nodes.annotation(measurements.REWARDS)
        learnt = np.array([reward.of(published, kind) for published in column.values])
        return reward.points(learnt).take(column.ids(nodes.slots))

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """Ten times the points."""
        return raw * SCALE
