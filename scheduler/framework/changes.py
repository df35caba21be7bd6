"""What a change of a node or pod may mean to waiting pods: one event for each aspect that scheduling reads.

Source: pkg/scheduler/framework/events.go v1.36 (PodSchedulingPropertiesChange, NodeSchedulingPropertiesChange). Of a
node's annotations those count that some plugin reads; its conditions, and claims generated for a pod, are not read and
make no events.
"""

from __future__ import annotations

from scheduler.framework.events import Action, Event, Resource
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Node

_OF_PODS = {(event.resource, event.action): event for event in Event}


def node_events(old: Node | None, new: Node) -> list[Event]:
    """`old`: None of a node that is new."""
    if old is None:
        return [Event.NODE_ADD]
    events = []
    if old.status.allocatable != new.status.allocatable:
        events.append(Event.NODE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        events.append(Event.NODE_LABEL)
    if old.spec.taints != new.spec.taints or (old.spec.unschedulable and not new.spec.unschedulable):
        events.append(Event.NODE_TAINT)
    if old.metadata.annotations != new.metadata.annotations:
        events.append(Event.NODE_ANNOTATION)
    if old.status.declared_features != new.status.declared_features:
        events.append(Event.NODE_FEATURE)
    return events


def pod_events(old: PodInfo | None, new: PodInfo) -> list[Event]:
    """Of a pod on a node, or of one that waits. `old`: None where it was not there before.

    A change that is none of the known ones is a plain update; no change at all is nothing.
    """
    resource = Resource.ASSIGNED_POD if new.pod.spec.node_name else Resource.UNSCHEDULABLE_POD
    if old is None:
        return [_OF_PODS[resource, Action.ADD]]
    if old.pod == new.pod:
        return []
    actions = [action for action, changed in _POD_CHANGES if changed(old, new)] or [Action.UPDATE]
    return [_OF_PODS[resource, action] for action in actions]


def placed(pod: PodInfo) -> bool:
    """Whether the pod takes up room: it is on a node, or nominated for one."""
    return bool(pod.pod.spec.node_name or pod.pod.status.nominated_node_name)


def _asks_for_less(old: PodInfo, new: PodInfo) -> bool:
    return any(resource not in new.requests or new.requests[resource] < was for resource, was in old.requests.items())


def _ungated(old: PodInfo, new: PodInfo) -> bool:
    return bool(old.pod.spec.scheduling_gates) and not new.pod.spec.scheduling_gates


_POD_CHANGES = (
    (Action.UPDATE_POD_LABEL, lambda old, new: old.labels != new.labels),
    (Action.UPDATE_POD_SCALE_DOWN, _asks_for_less),
    (Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, _ungated),
    # tolerations can only be added
    (
        Action.UPDATE_POD_TOLERATION,
        lambda old, new: len(old.pod.spec.tolerations or ()) != len(new.pod.spec.tolerations or ()),
    ),
)
