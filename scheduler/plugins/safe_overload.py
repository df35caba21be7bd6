"""SafeOverload: keeps the risk that a node is overloaded below a limit, and prefers nodes where it is low.

Known to Herodotus alone. By the statistics of free cpu and memory that `annotate usage` writes on nodes. A node without
statistics is accepted, and gets no points. Source: IBM's kube-safe-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.columns import NodeColumns
from scheduler.formulas import risk
from scheduler.framework.events import Action, ClusterEventWithHint, Resource
from scheduler.framework.interface import Mask, Scores
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import PASS, Verdicts, unschedulable
from scheduler.objects.pod import PodInfo
from scheduler.objects.problems import Problem
from scheduler.plugins.node_load import Load, LoadArgs, LoadPlugin, least, percent


class SafeOverloadArgs(LoadArgs, frozen=True):
    """Per cent. `utilization`: used more than this is overload. `percentile`: the risk of it that is accepted."""

    utilization: int = 90
    percentile: int = 30

    def problems(self) -> Iterator[Problem]:
        """Ranges."""
        yield from percent("utilization", self.utilization)
        yield from percent("percentile", self.percentile)
        yield from super().problems()


class SafeOverload(LoadPlugin):
    """Risk is P(used share > utilization), of a beta distribution with the node's mean and deviation."""

    name = "SafeOverload"
    args_type = SafeOverloadArgs

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        """New statistics, a larger node, or a pod that asks for less."""
        nodes = Action.ADD | Action.UPDATE_NODE_ANNOTATION | Action.UPDATE_NODE_ALLOCATABLE
        yield ClusterEventWithHint(Resource.NODE, nodes)
        yield ClusterEventWithHint(Resource.POD, Action.UPDATE_POD_SCALE_DOWN, _own)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """The reason says the risk in per cent, so that many nodes share few reasons."""
        loads = list(self.loads(pod, nodes))
        per_cent = [np.ceil(100 * np.nan_to_num(self._risk(load))).astype(np.int64) for load in loads]
        refused = [~risk.acceptable(self._risk(load), self.args.percentile / 100) for load in loads]
        if not any(column.any() for column in refused):
            return PASS
        # one number a slot: the risks of the refused resources, to the base of 102
        numbers = np.zeros(nodes.slots, np.int64)
        for column, where in zip(per_cent, refused, strict=True):
            numbers = numbers * _BASE + np.where(where, column + 1, 0)
        distinct, ids = np.unique(numbers, return_inverse=True)
        resources = [load.resource for load in loads]
        return Verdicts.each(ids, len(distinct), lambda i: self._verdict(int(distinct[i]), resources))

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """The worse of both resources, 0 to 10."""
        loads = list(self.loads(pod, nodes))
        return least(loads, (risk.overload_points(self._risk(load), self.args.percentile / 100) for load in loads))

    def _risk(self, load: Load) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return risk.risk(load.mean, load.deviation, self.args.utilization / 100)

    def _verdict(self, number: int, resources: list[str]) -> Verdict:
        reasons = []
        for resource in reversed(resources):
            number, said = divmod(number, _BASE)
            if said:
                text = f"node(s) had a risk of {said - 1} % that {resource} is used more than {self.args.utilization} %"
                reasons.append(Reason("text", {"text": text}))
        return unschedulable(*reversed(reasons)) if reasons else SUCCESS


_BASE = 102  # 0: not refused; 1 to 101: refused, with a risk of one per cent less


def _own(pod: PodInfo, old: PodInfo, new: PodInfo) -> bool:
    return new.uid == pod.uid
