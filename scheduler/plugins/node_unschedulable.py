"""NodeUnschedulable: no new pods on cordoned nodes, but for pods that tolerate it."""

from __future__ import annotations

from herodotus_record.model import Reason
from scheduler.columns import NodeColumns
from scheduler.framework.plugin import InTreePlugin
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import PASS, Verdicts, unresolvable
from scheduler.objects.pod import PodInfo
from scheduler.objects.taints import UNSCHEDULABLE, tolerated

CORDONED = unresolvable(Reason("unschedulable"))


class NodeUnschedulable(InTreePlugin):
    """Rejects nodes with spec.unschedulable."""

    name = "NodeUnschedulable"

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Asked of the synthetic taint that cordoning stands for."""
        if tolerated(UNSCHEDULABLE, pod.pod.spec.tolerations or ()):
            return PASS
        return Verdicts.reject(nodes.unschedulable, CORDONED)
