"""NodeUnschedulable: keeps pods off cordoned nodes, except pods that tolerate cordoning."""

from __future__ import annotations

from collections.abc import Iterable

from herodotus_record.model import Reason
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.events import ActionType, ClusterEventWithHint, EventResource
from scheduler.engine.framework.plugin import BasePlugin, DependsOn, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import PASS, Verdicts, unresolvable
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.taints import UNSCHEDULABLE, is_tolerated
from scheduler.engine.objects.types import Node
from scheduler.engine.rules.feature_gates import COMPARISON_OPERATORS

CORDONED = unresolvable(Reason("unschedulable"))


class NodeUnschedulable(BasePlugin):
    """A filter that rejects cordoned nodes (spec.unschedulable), unless the pod tolerates cordoning."""

    name = "NodeUnschedulable"
    reads = frozenset({PluginInput.NODE})
    depends_on = DependsOn.NODE

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        yield ClusterEventWithHint(
            EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT, _is_schedulable_after_node_change
        )
        yield ClusterEventWithHint(
            EventResource.POD, ActionType.UPDATE_POD_TOLERATION, self._is_schedulable_after_toleration_change
        )

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Reject cordoned nodes, unless the pod tolerates the taint node.kubernetes.io/unschedulable."""
        return PASS if self._tolerates_cordoning(pod) else Verdicts.reject(nodes.unschedulable, CORDONED)

    def _is_schedulable_after_toleration_change(self, pod: PodInfo, old: PodInfo, new: PodInfo) -> bool:
        return new.uid == pod.uid and self._tolerates_cordoning(new)

    def _tolerates_cordoning(self, pod: PodInfo) -> bool:
        compares = self.rules.enabled(COMPARISON_OPERATORS)
        return is_tolerated(UNSCHEDULABLE, pod.pod.spec.tolerations or (), comparison_operators=compares)


def _is_schedulable_after_node_change(pod: PodInfo, old: Node | None, new: Node) -> bool:
    return not new.spec.unschedulable and (old is None or old.spec.unschedulable)
