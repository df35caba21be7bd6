"""TaintToleration: keeps pods off nodes whose taints they do not tolerate, and prefers nodes with fewer soft ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.columns import NodeColumns
from scheduler.formulas.allocation import default_normalize
from scheduler.framework.events import Action, ClusterEventWithHint, Resource
from scheduler.framework.interface import Mask, Scores
from scheduler.framework.plugin import BasePlugin, Follows
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import Verdicts, unresolvable
from scheduler.objects.pod import PodInfo
from scheduler.objects.taints import HARD_EFFECTS, tolerated
from scheduler.objects.types import Node, Taint

SOFT_EFFECT = "PreferNoSchedule"


class TaintToleration(BasePlugin):
    """Both answers are asked once of each distinct list of taints."""

    name = "TaintToleration"
    follows = Follows.NODE
    idle_at = frozenset({"preScore"})

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        """A node whose taints the pod tolerates now and did not before, or this pod's own toleration."""
        yield ClusterEventWithHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, _after_node)
        yield ClusterEventWithHint(Resource.POD, Action.UPDATE_POD_TOLERATION, _after_toleration)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """The reason names the first taint that is not tolerated, and for our screens the others."""

        def verdict(number: int) -> Verdict:
            return _rejection(_untolerated(nodes.taints.values[number], pod))

        return Verdicts.each(nodes.taints.ids(nodes.slots), len(nodes.taints.values), verdict)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """How many PreferNoSchedule taints the pod does not tolerate."""
        soft = [t for t in pod.pod.spec.tolerations or () if t.effect in ("", SOFT_EFFECT)]
        counts = [
            sum(t.effect == SOFT_EFFECT and not tolerated(t, soft) for t in taints) for taints in nodes.taints.values
        ]
        return np.array(counts, np.int64).take(nodes.taints.ids(nodes.slots))

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """None is best."""
        return default_normalize(raw, feasible, reverse=True)


def _rejection(taints: Iterator[Taint]) -> Verdict:
    first = next(taints, None)
    if first is None:
        return SUCCESS
    params = {"key": first.key, "value": first.value, "effect": first.effect}
    others = ", ".join(f"{t.key}={t.value}:{t.effect}" if t.value else f"{t.key}:{t.effect}" for t in taints)
    return unresolvable(Reason("untolerated-taint", params | ({"others": others} if others else {})))


def _after_node(pod: PodInfo, old: Node | None, new: Node) -> bool:
    was_closed = old is None or not _open(old, pod)
    return was_closed and _open(new, pod)


def _open(node: Node, pod: PodInfo) -> bool:
    return next(_untolerated(node.spec.taints or (), pod), None) is None


def _after_toleration(pod: PodInfo, old: PodInfo, new: PodInfo) -> bool:
    return new.uid == pod.uid


def _untolerated(taints: Iterable[Taint], pod: PodInfo) -> Iterator[Taint]:
    tolerations = pod.pod.spec.tolerations or ()
    return (t for t in taints if t.effect in HARD_EFFECTS and not tolerated(t, tolerations))
