"""NodeName: a pod whose spec.nodeName is set may run on that node only."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from herodotus_record.model import Reason
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.events import ActionType, ClusterEventWithHint, EventResource
from scheduler.engine.framework.plugin import BasePlugin, DependsOn, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import PASS, Verdicts, unresolvable
from scheduler.engine.objects.pod import PodInfo

OTHER_NODE = unresolvable(Reason("node-name"))


class NodeName(BasePlugin):
    """A filter that rejects every node but spec.nodeName, if that is set.

    The scheduling queue has no such pods, but the command `evaluate` may get one.
    """

    name = "NodeName"
    reads = frozenset({PluginInput.NODE})
    depends_on = DependsOn.NODE

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        yield ClusterEventWithHint(EventResource.NODE, ActionType.ADD)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Accept only the node in the pod's spec.nodeName, or every node if that is not set."""
        wanted = pod.pod.spec.node_name
        if not wanted:
            return PASS
        others = np.ones(nodes.slots, np.bool_)
        slot = nodes.index.get(wanted)
        if slot is not None:
            others[slot] = False
        return Verdicts.reject(others, OTHER_NODE)
