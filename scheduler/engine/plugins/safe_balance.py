"""SafeBalance: prefers nodes whose load with the pod is low and steady.

Only Herodotus has this plugin. It uses the statistics of free cpu and memory that `annotate usage` writes on nodes. A
node without statistics gets no points. Source: IBM's kube-safe-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scheduler.engine.columns import NodeColumns
from scheduler.engine.formulas import risk
from scheduler.engine.formulas.inputs import NodeInputs
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins.node_load import LoadArgs, LoadPlugin, NodeLoad


class SafeBalanceArgs(LoadArgs, frozen=True):
    """Arguments of SafeBalance: the weight of the forecast, and the maximum age of statistics."""


@dataclass(frozen=True)
class NodeLoads:
    """The state that Score writes: the load of all nodes in each resource."""

    by_resource: tuple[NodeLoad, ...]


class SafeBalance(LoadPlugin):
    """A score plugin that prefers nodes with a low and steady load.

    It combines the mean of the used share with the square root of its deviation.
    """

    name = "SafeBalance"
    args_type = SafeBalanceArgs

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return, for each node slot, the lower of the points (0 to 10) for cpu and for memory."""
        loads = tuple(self.compute_loads(state, pod, nodes))
        state.write(NodeLoads(loads))
        points = [risk.balance_points(load.mean, load.deviation) for load in loads]
        return risk.least_known(points, [~np.isnan(load.mean) for load in loads])

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterator[NodeInputs]:
        """Report each node's used share of each resource and its deviation, for the record."""
        yield from (load.inputs() for load in state.read(NodeLoads).by_resource)
