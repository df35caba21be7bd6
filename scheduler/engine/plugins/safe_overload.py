"""SafeOverload: keeps the risk that a node is overloaded below a limit, and prefers nodes where it is low.

Only Herodotus has this plugin. It uses the statistics of free cpu and memory that `annotate usage` writes on nodes. A
node without statistics is accepted, and gets no points. Source: IBM's kube-safe-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.formulas import risk
from scheduler.engine.formulas.inputs import NodeInputs
from scheduler.engine.framework.events import ActionType, ClusterEventWithHint, EventResource, queue_own_update
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import PASS, Verdicts, unschedulable
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.problems import Problem
from scheduler.engine.plugins.node_load import LoadArgs, LoadPlugin, NodeLoad, validate_percentage
from scheduler.engine.plugins.node_measurements import Floats


class SafeOverloadArgs(LoadArgs, frozen=True):
    """Arguments of SafeOverload, in percent.

    A node is overloaded if the used share exceeds `utilization`; `percentile` is the highest accepted risk of overload.
    """

    utilization: int = 90
    percentile: int = 30

    def problems(self) -> Iterator[Problem]:
        yield from validate_percentage("utilization", self.utilization)
        yield from validate_percentage("percentile", self.percentile)
        yield from super().problems()


@dataclass(frozen=True)
class NodeRisks:
    """The risks that Filter and Score use: each node's risk of overload with the pod, by resource.

    They are valid for `nodes` at `revision`. `loads` are the loads from which they were computed.
    """

    nodes: NodeColumns
    revision: int
    by_resource: dict[str, Floats]
    loads: tuple[NodeLoad, ...]


class SafeOverload(LoadPlugin):
    """A plugin that rejects nodes with a high risk of overload and prefers those with a low one.

    The risk is P(used share > utilization) of a beta distribution with the node's mean and deviation.
    """

    name = "SafeOverload"
    args_type = SafeOverloadArgs

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        nodes = ActionType.ADD | ActionType.UPDATE_NODE_ANNOTATION | ActionType.UPDATE_NODE_ALLOCATABLE
        yield ClusterEventWithHint(EventResource.NODE, nodes)
        yield ClusterEventWithHint(EventResource.POD, ActionType.UPDATE_POD_SCALE_DOWN, queue_own_update)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Reject nodes whose risk of overload with the pod exceeds `percentile`.

        The reason has the risk in whole percent, so that there are few distinct reasons.
        """
        risks = self.compute_risks(state, pod, nodes).by_resource
        refused = {resource: ~risk.acceptable(risky, self.args.percentile / 100) for resource, risky in risks.items()}
        if not any(column.any() for column in refused.values()):
            return PASS
        # encode the risks of the rejecting resources as one number per slot, in base 102
        numbers = np.zeros(nodes.slots, np.int64)
        for resource, where in refused.items():
            per_cent = np.ceil(100 * np.nan_to_num(risks[resource])).astype(np.int64)
            numbers = numbers * _BASE + np.where(where, per_cent + 1, 0)
        distinct, ids = np.unique(numbers, return_inverse=True)
        return Verdicts.from_ids(ids, len(distinct), lambda i: self._verdict(int(distinct[i]), list(refused)))

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return, for each node slot, the lower of the points (0 to 10) for cpu and for memory."""
        risks = self.compute_risks(state, pod, nodes).by_resource.values()
        points = [risk.overload_points(risky, self.args.percentile / 100) for risky in risks]
        return risk.least_known(points, [~np.isnan(risky) for risky in risks])

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterator[NodeInputs]:
        """Report each node's used share, deviation and risk of overload by resource, for the record."""
        risks = self.compute_risks(state, pod, nodes)
        yield from (load.inputs(risks.by_resource[load.resource]) for load in risks.loads)

    def compute_risks(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> NodeRisks:
        """Return the risk of overload of all nodes, computed once per cycle for Filter and Score."""
        cached = state.find(NodeRisks)
        if cached is None or cached.nodes is not nodes or cached.revision != nodes.revision:
            threshold = self.args.utilization / 100
            loads = tuple(self.compute_loads(state, pod, nodes))
            risks = {load.resource: risk.risk(load.mean, load.deviation, threshold) for load in loads}
            cached = NodeRisks(nodes, nodes.revision, risks, loads)
            state.write(cached)
        return cached

    def _verdict(self, number: int, resources: list[str]) -> Verdict:
        reasons = []
        for resource in reversed(resources):
            number, risk = divmod(number, _BASE)
            if risk:
                text = f"node(s) had a risk of {risk - 1} % that {resource} is used more than {self.args.utilization} %"
                reasons.append(Reason("text", {"text": text}))
        return unschedulable(*reversed(reasons)) if reasons else SUCCESS


_BASE = 102  # digits: 0 means accepted, 1 to 101 mean rejected with a risk of digit - 1 percent
