"""NodePorts: rejects nodes on which a host port of the pod is in use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from herodotus_record.model import Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.events import ActionType, ClusterEventWithHint, EventResource
from scheduler.engine.framework.plugin import BasePlugin, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.update_events import occupies_node
from scheduler.engine.framework.verdicts import PASS, SKIPPED, PreFilterResult, Verdicts, unschedulable
from scheduler.engine.objects.pod import HostPort, PodInfo

_MAX_NAMED_NODES: Final = 8  # with more nodes, names of pods would only fill the record


class NodePorts(BasePlugin):
    """A filter that rejects nodes on which a host port that the pod requests is in use."""

    name = "NodePorts"
    reads = frozenset({PluginInput.NODE, PluginInput.PODS})
    fails_without: ClassVar = {"filter": ("preFilter", 'reading "PreFilterNodePorts" from cycleState: not found')}

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        yield ClusterEventWithHint(EventResource.POD, ActionType.DELETE, self._is_schedulable_after_pod_deletion)
        yield ClusterEventWithHint(EventResource.NODE, ActionType.ADD)

    def depends_only_on_spec(self, pod: PodInfo) -> bool:
        return True

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Skip the filter for pods without host ports, which are most pods."""
        return PreFilterResult() if self._host_ports(pod) else SKIPPED

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Reject nodes with a conflicting port; the reason names the ports in use on that node."""
        taken: dict[int, list[str]] = {}
        for wanted in self._host_ports(pod):
            for slot in nodes.slots_with_port(wanted):
                taken.setdefault(slot, []).append(str(wanted))
        ports_at = {slot: ", ".join(dict.fromkeys(ports)) for slot, ports in taken.items()}
        verdicts = {text: unschedulable(Reason("ports", {"ports": text})) for text in set(ports_at.values())}
        return PASS.with_verdicts({slot: verdicts[text] for slot, text in ports_at.items()}, nodes.slots)

    def explain_rejections(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, verdicts: Verdicts) -> Verdicts:
        """Return the verdicts with, in the reason on each node, the name of a pod that uses one of the ports.

        If more than `_MAX_NAMED_NODES` nodes have such pods, returns `verdicts` unchanged.
        """
        wanted = self._host_ports(pod)
        slots = sorted({slot for port in wanted for slot in nodes.slots_with_port(port)})
        if len(slots) > _MAX_NAMED_NODES:
            return verdicts
        explained: dict[int, Verdict] = {}
        for slot in slots:
            verdict = verdicts.verdict_at(slot)
            user = next((other for other in nodes.pods[slot].values() if self._conflicts(wanted, other)), None)
            if user is not None and verdict.reasons:
                (reason,) = verdict.reasons
                explained[slot] = unschedulable(Reason("ports", {**reason.params, "pod": user.full_name}))
        return verdicts.with_verdicts(explained, nodes.slots)

    def _conflicts(self, wanted: Sequence[HostPort], other: PodInfo) -> bool:
        return any(port.conflicts(used) for used in self._host_ports(other) for port in wanted)

    def _is_schedulable_after_pod_deletion(self, pod: PodInfo, old: PodInfo, new: None) -> bool:
        ports, freed = self._host_ports(pod), self._host_ports(old)
        return occupies_node(old) and any(wanted.conflicts(free) for wanted in ports for free in freed)

    def _host_ports(self, pod: PodInfo) -> tuple[HostPort, ...]:
        return self.rules.pod_counting.host_ports(pod)
