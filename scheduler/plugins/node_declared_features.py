"""NodeDeclaredFeatures: a pod that needs a feature of the kubelet goes where status.declaredFeatures has it.

Source: pkg/scheduler/framework/plugins/nodedeclaredfeatures and k8s.io/component-helpers/nodedeclaredfeatures v1.36.
The other features known there (resizing in place, websockets) matter when a running pod changes, not for scheduling.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.columns import NodeColumns
from scheduler.framework.events import Action, ClusterEventWithHint, Resource
from scheduler.framework.plugin import BasePlugin, Follows
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import SKIPPED, PreFilterResult, Verdicts, unresolvable
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Node, PodSpec

RESTART_ALL = "RestartAllContainersOnContainerExits"
USER_NAMESPACE_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"


@dataclass(frozen=True)
class _Needed:
    """PreFilter's note."""

    features: frozenset[str]


class NodeDeclaredFeatures(BasePlugin):
    """Asked once of each distinct set of declared features."""

    name = "NodeDeclaredFeatures"
    follows = Follows.NODE

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        """A node's features, or what this pod needs of them."""
        actions = Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE
        yield ClusterEventWithHint(Resource.NODE, actions, _after_node)
        yield ClusterEventWithHint(Resource.POD, Action.UPDATE, _after_update)

    def settled_by_spec(self, pod: PodInfo) -> bool:
        """What a pod needs of its node stands there."""
        return True

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Few pods need any."""
        features = needed(pod.pod.spec)
        if not features:
            return SKIPPED
        state.write(_Needed(features))
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """The reason names what is missing."""
        features = state.read(_Needed).features

        def verdict(number: int) -> Verdict:
            missing = features - nodes.declared_features.values[number]
            return unresolvable(Reason("features", {"features": ", ".join(sorted(missing))})) if missing else SUCCESS

        return Verdicts.each(nodes.declared_features.ids(nodes.slots), len(nodes.declared_features.values), verdict)


def needed(spec: PodSpec) -> frozenset[str]:
    """The features that a pod cannot run without."""
    found = set()
    containers = [*(spec.containers or ()), *(spec.init_containers or ())]
    if any(rule.action == "RestartAllContainers" for c in containers for rule in c.restart_policy_rules or ()):
        found.add(RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        found.add(USER_NAMESPACE_ON_HOST_NETWORK)
    return frozenset(found)


def _after_node(pod: PodInfo, old: Node | None, new: Node) -> bool:
    return old is None or old.status.declared_features != new.status.declared_features


def _after_update(pod: PodInfo, old: PodInfo, new: PodInfo) -> bool:
    return new.uid == pod.uid and needed(old.pod.spec) != needed(new.pod.spec)
