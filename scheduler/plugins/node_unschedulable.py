"""NodeUnschedulable: no new pods on cordoned nodes, but for pods that tolerate it."""

from __future__ import annotations

from collections.abc import Iterable

from herodotus_record.model import Reason
from scheduler.columns import NodeColumns
from scheduler.framework.events import Action, ClusterEventWithHint, Resource
from scheduler.framework.plugin import BasePlugin, Follows
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import PASS, Verdicts, unresolvable
from scheduler.objects.pod import PodInfo
from scheduler.objects.taints import UNSCHEDULABLE, tolerated
from scheduler.objects.types import Node

CORDONED = unresolvable(Reason("unschedulable"))


class NodeUnschedulable(BasePlugin):
    """Rejects nodes with spec.unschedulable."""

    name = "NodeUnschedulable"
    follows = Follows.NODE

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        """A node that takes pods now, or this pod's toleration of those that do not."""
        yield ClusterEventWithHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, _after_node)
        yield ClusterEventWithHint(Resource.POD, Action.UPDATE_POD_TOLERATION, _after_toleration)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Asked of the synthetic taint that cordoning stands for."""
        if tolerated(UNSCHEDULABLE, pod.pod.spec.tolerations or ()):
            return PASS
        return Verdicts.reject(nodes.unschedulable, CORDONED)


def _after_node(pod: PodInfo, old: Node | None, new: Node) -> bool:
    return not new.spec.unschedulable and (old is None or old.spec.unschedulable)


def _after_toleration(pod: PodInfo, old: PodInfo, new: PodInfo) -> bool:
    return new.uid == pod.uid and tolerated(UNSCHEDULABLE, new.pod.spec.tolerations or ())
