"""NodeDeclaredFeatures: keeps a pod that needs a kubelet feature off nodes that do not declare it in their status.

Source: pkg/scheduler/framework/plugins/nodedeclaredfeatures and k8s.io/component-helpers/nodedeclaredfeatures v1.36.
The other features known there (resizing in place, websockets) matter when a running pod changes, not for scheduling.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.events import ActionType, ClusterEventWithHint, EventResource
from scheduler.engine.framework.plugin import BasePlugin, DependsOn, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import SKIPPED, PreFilterResult, Verdicts, unresolvable
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node, PodSpec
from scheduler.engine.rules.feature_gates import DECLARED_FEATURES

RESTART_ALL = "RestartAllContainersOnContainerExits"
USER_NAMESPACE_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"


@dataclass(frozen=True)
class _Needed:
    """The state that PreFilter writes: the names of the features that the pod requires."""

    features: frozenset[str]


class NodeDeclaredFeatures(BasePlugin):
    """A filter that rejects nodes whose kubelet does not declare the features that the pod requires.

    It evaluates each distinct set of declared features once.
    """

    name = "NodeDeclaredFeatures"
    reads = frozenset({PluginInput.NODE})
    fails_without: ClassVar = {
        "filter": ("preFilter", 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found')
    }
    depends_on = DependsOn.NODE

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        actions = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
        yield ClusterEventWithHint(EventResource.NODE, actions, _is_schedulable_after_node_change)
        yield ClusterEventWithHint(EventResource.POD, ActionType.UPDATE, _is_schedulable_after_pod_update)

    def depends_only_on_spec(self, pod: PodInfo) -> bool:
        return True

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Skip the filter if the pod requires no kubelet feature, as most pods, or if the plugin's gate is off."""
        features = find_required_features(pod.pod.spec)
        if not features or not self.rules.enabled(DECLARED_FEATURES):
            return SKIPPED
        state.write(_Needed(features))
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Reject nodes that do not declare a feature that the pod requires; the reason names the missing features."""
        features = state.read(_Needed).features

        def verdict(number: int) -> Verdict:
            missing = features - nodes.declared_features.values[number]
            return unresolvable(Reason("features", {"features": ", ".join(sorted(missing))})) if missing else SUCCESS

        return Verdicts.from_ids(nodes.declared_features.ids(nodes.slots), len(nodes.declared_features.values), verdict)


def find_required_features(spec: PodSpec) -> frozenset[str]:
    """Return the names of the kubelet features that a pod requires of its node."""
    features = set()
    containers = [*(spec.containers or ()), *(spec.init_containers or ())]
    if any(rule.action == "RestartAllContainers" for c in containers for rule in c.restart_policy_rules or ()):
        features.add(RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        features.add(USER_NAMESPACE_ON_HOST_NETWORK)
    return frozenset(features)


def _is_schedulable_after_node_change(pod: PodInfo, old: Node | None, new: Node) -> bool:
    return old is None or old.status.declared_features != new.status.declared_features


def _is_schedulable_after_pod_update(pod: PodInfo, old: PodInfo, new: PodInfo) -> bool:
    return new.uid == pod.uid and find_required_features(old.pod.spec) != find_required_features(new.pod.spec)
