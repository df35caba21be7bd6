"""NodeUnschedulable: no new pods on cordoned nodes, but for pods that tolerate it."""

from __future__ import annotations

from herodotus_record.model import Reason
from scheduler.columns import NodeColumns
from scheduler.framework.events import Event
from scheduler.framework.plugin import InTreePlugin
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import PASS, Verdicts, unresolvable
from scheduler.objects.pod import PodInfo
from scheduler.objects.taints import UNSCHEDULABLE, tolerated

CORDONED = unresolvable(Reason("unschedulable"))


class NodeUnschedulable(InTreePlugin):
    """Rejects nodes with spec.unschedulable."""

    name = "NodeUnschedulable"
    wakes_on = frozenset({Event.NODE_ADD, Event.NODE_TAINT, Event.POD_CHANGED})

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Asked of the synthetic taint that cordoning stands for."""
        if tolerated(UNSCHEDULABLE, pod.pod.spec.tolerations or ()):
            return PASS
        return Verdicts.reject(nodes.unschedulable, CORDONED)
