"""NodePorts: a host port is given out once a node."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.columns import NodeColumns
from scheduler.framework.changes import placed
from scheduler.framework.events import Action, ClusterEventWithHint, Resource
from scheduler.framework.plugin import BasePlugin
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import SKIPPED, PreFilterResult, Verdicts, unschedulable
from scheduler.objects.pod import PodInfo


class NodePorts(BasePlugin):
    """Rejects nodes where a host port of the pod is taken."""

    name = "NodePorts"

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        """A pod that had one of the ports is gone, or there is a new node."""
        yield ClusterEventWithHint(Resource.POD, Action.DELETE, _after_delete)
        yield ClusterEventWithHint(Resource.NODE, Action.ADD)

    def settled_by_spec(self, pod: PodInfo) -> bool:
        """Ports stand there."""
        return True

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Most pods want none."""
        return PreFilterResult() if pod.host_ports else SKIPPED

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """The reason names the ports that are taken on that node."""
        taken: dict[int, list[str]] = {}
        for wanted in pod.host_ports:
            for slot in nodes.ports_taken(wanted):
                taken.setdefault(slot, []).append(str(wanted))
        table: list[Verdict] = [SUCCESS]
        ids = np.zeros(nodes.slots, np.uint16)
        numbers: dict[str, int] = {}
        for slot, ports in taken.items():
            text = ", ".join(dict.fromkeys(ports))
            if text not in numbers:
                numbers[text] = len(table)
                table.append(unschedulable(Reason("ports", {"ports": text})))
            ids[slot] = numbers[text]
        return Verdicts(tuple(table), ids) if taken else Verdicts()


def _after_delete(pod: PodInfo, old: PodInfo, new: None) -> bool:
    return placed(old) and any(wanted.conflicts(free) for wanted in pod.host_ports for free in old.host_ports)
