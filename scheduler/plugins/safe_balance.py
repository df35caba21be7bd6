"""SafeBalance: prefers nodes whose load with the pod is low and steady.

Known to Herodotus alone. By the statistics of free cpu and memory that `annotate usage` writes on nodes. A node without
statistics gets no points. Source: IBM's kube-safe-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.columns import NodeColumns
from scheduler.formulas import risk
from scheduler.formulas.inputs import Inputs
from scheduler.framework.interface import Mask, Scores
from scheduler.framework.state import CycleState
from scheduler.objects.pod import PodInfo
from scheduler.plugins.node_load import Load, LoadArgs, LoadPlugin, least


class SafeBalanceArgs(LoadArgs, frozen=True):
    """What both have."""


@dataclass(frozen=True)
class _Loads:
    """What Score saw."""

    by_resource: tuple[Load, ...]


class SafeBalance(LoadPlugin):
    """Mean of the used share and root of its deviation."""

    name = "SafeBalance"
    args_type = SafeBalanceArgs

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """The worse of both resources, 0 to 10."""
        loads = tuple(self.loads(pod, nodes))
        state.write(_Loads(loads))
        return least(loads, (risk.balance_points(load.mean, load.deviation) for load in loads))

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterator[Inputs]:
        """Used share and deviation of each resource."""
        yield from (load.inputs() for load in state.read(_Loads).by_resource)
