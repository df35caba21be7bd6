"""The cluster events of a changed node or pod: one for each changed property that scheduling reads.

Source: pkg/scheduler/framework/events.go v1.36 (PodSchedulingPropertiesChange, NodeSchedulingPropertiesChange). Only
annotations that a plugin reads count. Conditions of nodes are not read and cause no events.
"""

from __future__ import annotations

from scheduler.engine.framework.events import ActionType, ClusterEvent, EventResource
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node

_POD_EVENTS = {(event.resource, event.action): event for event in ClusterEvent}


def list_node_events(old: Node | None, new: Node) -> list[ClusterEvent]:
    """Return the cluster events of a node that was added (`old` is None) or updated."""
    if old is None:
        return [ClusterEvent.NODE_ADD]
    events = []
    if old.status.allocatable != new.status.allocatable:
        events.append(ClusterEvent.NODE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        events.append(ClusterEvent.NODE_LABEL)
    if old.spec.taints != new.spec.taints or (old.spec.unschedulable and not new.spec.unschedulable):
        events.append(ClusterEvent.NODE_TAINT)
    if old.metadata.annotations != new.metadata.annotations:
        events.append(ClusterEvent.NODE_ANNOTATION)
    if old.status.declared_features != new.status.declared_features:
        events.append(ClusterEvent.NODE_FEATURE)
    return events


def list_pod_events(old: PodInfo | None, new: PodInfo) -> list[ClusterEvent]:
    """Return the cluster events of a pod that was added (`old` is None) or updated, whether it is on a node or waits.

    A change without a specific event is a plain update event. An update that changes nothing causes no event.
    """
    resource = EventResource.ASSIGNED_POD if new.pod.spec.node_name else EventResource.UNSCHEDULABLE_POD
    if old is None:
        return [_POD_EVENTS[resource, ActionType.ADD]]
    if old.pod == new.pod:
        return []
    actions = [action for action, changed in _POD_CHANGES if changed(old, new)] or [ActionType.UPDATE]
    return [_POD_EVENTS[resource, action] for action in actions]


def occupies_node(pod: PodInfo) -> bool:
    """Return whether the pod takes up resources: it is on a node, or nominated for one."""
    return bool(pod.pod.spec.node_name or pod.pod.status.nominated_node_name)


def _is_scaled_down(old: PodInfo, new: PodInfo) -> bool:
    return any(
        resource not in new.requests or new.requests[resource] < amount for resource, amount in old.requests.items()
    )


def _is_ungated(old: PodInfo, new: PodInfo) -> bool:
    return bool(old.pod.spec.scheduling_gates) and not new.pod.spec.scheduling_gates


_POD_CHANGES = (
    (ActionType.UPDATE_POD_LABEL, lambda old, new: old.labels != new.labels),
    (ActionType.UPDATE_POD_SCALE_DOWN, _is_scaled_down),
    (ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, _is_ungated),
    # The API server only allows adding tolerations.
    (
        ActionType.UPDATE_POD_TOLERATION,
        lambda old, new: len(old.pod.spec.tolerations or ()) != len(new.pod.spec.tolerations or ()),
    ),
    (
        ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
        lambda old, new: (
            (old.pod.status.resource_claim_statuses or ()) != (new.pod.status.resource_claim_statuses or ())
        ),
    ),
)
