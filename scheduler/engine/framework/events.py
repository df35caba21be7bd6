"""Cluster events that may make a pod schedulable, and how plugins register for them.

A `ClusterEvent` is a resource and an action. A plugin registers for a resource and a set of actions
(`ClusterEventWithHint`), with a queueing hint that may examine the object before and after. Events distinguish assigned
from unscheduled pods; a plugin that registers for `EventResource.POD` gets both.

Source: k8s.io/kube-scheduler/framework types.go, pkg/scheduler/framework/events.go v1.36.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import Any

from scheduler.engine.objects.pod import PodInfo


class EventResource(Enum):
    """The kind of object that an event is about, by kube-scheduler's name."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"  # on a node, or losing its nomination for one
    UNSCHEDULABLE_POD = "UnschedulablePod"  # in the scheduling queue; plugins cannot register for it
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    ANY = "*"

    def covers(self, other: EventResource) -> bool:
        """Return whether a plugin that registers for this resource gets the events of the resource `other`."""
        either = (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD)
        return self in (other, EventResource.ANY) or (self is EventResource.POD and other in either)


class ActionType(Flag):
    """The kinds of change of an object, such as ADD or UPDATE_NODE_TAINT, as combinable flags.

    An event has the action `UPDATE` if none of the specific updates fits. A plugin that registers for `UPDATE` gets all
    updates.
    """

    ADD = auto()
    DELETE = auto()
    UPDATE_NODE_ALLOCATABLE = auto()
    UPDATE_NODE_LABEL = auto()
    UPDATE_NODE_TAINT = auto()  # or uncordoned
    UPDATE_NODE_ANNOTATION = auto()  # of a key that a plugin reads
    UPDATE_NODE_DECLARED_FEATURE = auto()
    UPDATE_POD_LABEL = auto()
    UPDATE_POD_SCALE_DOWN = auto()  # a request became smaller
    UPDATE_POD_TOLERATION = auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = auto()
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = auto()  # a claim was created for a template that the pod names
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
    )
    ALL = ADD | DELETE | UPDATE

    @property
    def label(self) -> str:
        """The action in kube-scheduler's spelling, such as `UpdateNodeTaint`."""
        return "".join(word.capitalize() for word in (self.name or "").split("_"))


class ClusterEvent(Enum):
    """A kind of cluster event: the kind of object (`resource`), what happened to it (`action`), and a name.

    The name (`label`) is kube-scheduler's. It is composed of resource and action, such as `NodeAdd`, unless a third
    value is given.
    """

    NODE_ADD = (EventResource.NODE, ActionType.ADD)
    NODE_DELETE = (EventResource.NODE, ActionType.DELETE)
    NODE_ALLOCATABLE = (EventResource.NODE, ActionType.UPDATE_NODE_ALLOCATABLE)
    NODE_LABEL = (EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
    NODE_TAINT = (EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
    NODE_ANNOTATION = (EventResource.NODE, ActionType.UPDATE_NODE_ANNOTATION)
    NODE_FEATURE = (EventResource.NODE, ActionType.UPDATE_NODE_DECLARED_FEATURE)
    POD_ADD = (EventResource.ASSIGNED_POD, ActionType.ADD)
    POD_DELETE = (EventResource.ASSIGNED_POD, ActionType.DELETE)
    POD_LABEL = (EventResource.ASSIGNED_POD, ActionType.UPDATE_POD_LABEL)
    POD_SCALE_DOWN = (EventResource.ASSIGNED_POD, ActionType.UPDATE_POD_SCALE_DOWN)
    POD_TOLERATION = (EventResource.ASSIGNED_POD, ActionType.UPDATE_POD_TOLERATION)
    POD_UPDATE = (EventResource.ASSIGNED_POD, ActionType.UPDATE)
    WAITING_POD_ADD = (EventResource.UNSCHEDULABLE_POD, ActionType.ADD)
    WAITING_POD_LABEL = (EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_LABEL)
    WAITING_POD_SCALE_DOWN = (EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_SCALE_DOWN)
    WAITING_POD_TOLERATION = (EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_TOLERATION)
    POD_UNGATED = (EventResource.ASSIGNED_POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    WAITING_POD_UNGATED = (EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    POD_CLAIM_GENERATED = (EventResource.ASSIGNED_POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    WAITING_POD_CLAIM_GENERATED = (EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    WAITING_POD_UPDATE = (EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE)
    CLAIM_ADD = (EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD)
    CLAIM_UPDATE = (EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.UPDATE)
    CLAIM_DELETE = (EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.DELETE)
    VOLUME_ADD = (EventResource.PERSISTENT_VOLUME, ActionType.ADD)
    VOLUME_UPDATE = (EventResource.PERSISTENT_VOLUME, ActionType.UPDATE)
    VOLUME_DELETE = (EventResource.PERSISTENT_VOLUME, ActionType.DELETE)
    STORAGE_CLASS_ADD = (EventResource.STORAGE_CLASS, ActionType.ADD)
    STORAGE_CLASS_UPDATE = (EventResource.STORAGE_CLASS, ActionType.UPDATE)
    STORAGE_CLASS_DELETE = (EventResource.STORAGE_CLASS, ActionType.DELETE)
    CSI_NODE_ADD = (EventResource.CSI_NODE, ActionType.ADD)
    CSI_NODE_UPDATE = (EventResource.CSI_NODE, ActionType.UPDATE)
    CSI_NODE_DELETE = (EventResource.CSI_NODE, ActionType.DELETE)
    CSI_DRIVER_ADD = (EventResource.CSI_DRIVER, ActionType.ADD)
    CSI_DRIVER_UPDATE = (EventResource.CSI_DRIVER, ActionType.UPDATE)
    CSI_DRIVER_DELETE = (EventResource.CSI_DRIVER, ActionType.DELETE)
    CAPACITY_ADD = (EventResource.CSI_STORAGE_CAPACITY, ActionType.ADD)
    CAPACITY_UPDATE = (EventResource.CSI_STORAGE_CAPACITY, ActionType.UPDATE)
    CAPACITY_DELETE = (EventResource.CSI_STORAGE_CAPACITY, ActionType.DELETE)
    ATTACHMENT_ADD = (EventResource.VOLUME_ATTACHMENT, ActionType.ADD)
    ATTACHMENT_UPDATE = (EventResource.VOLUME_ATTACHMENT, ActionType.UPDATE)
    ATTACHMENT_DELETE = (EventResource.VOLUME_ATTACHMENT, ActionType.DELETE)
    RESOURCE_CLAIM_ADD = (EventResource.RESOURCE_CLAIM, ActionType.ADD)
    RESOURCE_CLAIM_UPDATE = (EventResource.RESOURCE_CLAIM, ActionType.UPDATE)
    RESOURCE_CLAIM_DELETE = (EventResource.RESOURCE_CLAIM, ActionType.DELETE)
    RESOURCE_SLICE_ADD = (EventResource.RESOURCE_SLICE, ActionType.ADD)
    RESOURCE_SLICE_UPDATE = (EventResource.RESOURCE_SLICE, ActionType.UPDATE)
    RESOURCE_SLICE_DELETE = (EventResource.RESOURCE_SLICE, ActionType.DELETE)
    DEVICE_CLASS_ADD = (EventResource.DEVICE_CLASS, ActionType.ADD)
    DEVICE_CLASS_UPDATE = (EventResource.DEVICE_CLASS, ActionType.UPDATE)
    DEVICE_CLASS_DELETE = (EventResource.DEVICE_CLASS, ActionType.DELETE)
    POD_GROUP_ADD = (EventResource.POD_GROUP, ActionType.ADD)
    POD_GROUP_UPDATE = (EventResource.POD_GROUP, ActionType.UPDATE)
    POD_GROUP_DELETE = (EventResource.POD_GROUP, ActionType.DELETE)
    TIMEOUT = (EventResource.ANY, ActionType.ALL, "UnschedulableTimeout")  # no event moved the pod for a long time
    FORCE_ACTIVATE = (EventResource.ANY, ActionType.ALL, "ForceActivate")  # a request to try this pod now

    def __init__(self, resource: EventResource, action: ActionType, label: str = "") -> None:
        self.resource = resource
        self.action = action
        self.label = label or f"{resource.value}{action.label}"  # the name in metrics, logs and records

    @property
    def wildcard(self) -> bool:
        """Whether the event requeues rejected pods regardless of which plugin rejected them."""
        return self.resource is EventResource.ANY


QUEUE, QUEUE_SKIP = True, False  # results of a queueing hint: the event may help the pod, or cannot

QueueingHint = Callable[[PodInfo, Any, Any], bool]
"""`(pod, old, new)`: return whether the event may make a pod schedulable that the hint's plugin rejected.

`old` is None for an added object, `new` for a deleted one. Pods are passed as `PodInfo`, other objects as decoded. The
queue runs a hint once for all waiting pods that differ only in name, UID and times, so a hint must not read these. The
exception is an update of the waiting pod itself (`old` and `new` have its UID), for which the hint runs for that pod.
"""


def always_queue(pod: PodInfo, old: Any, new: Any) -> bool:
    """Return QUEUE (True) for every event; this is the queueing hint of a plugin that registers without a hint."""
    return QUEUE


def queue_own_update(pod: PodInfo, old: PodInfo, new: PodInfo) -> bool:
    """Return whether the updated pod (`new`) is the waiting pod `pod`.

    This is the queueing hint of plugins whose verdict depends on the pod's own spec.
    """
    return new.uid == pod.uid


@dataclass(frozen=True)
class ClusterEventWithHint:
    """A plugin's registration for cluster events: a resource, a set of actions, and a queueing hint."""

    resource: EventResource
    actions: ActionType
    hint: QueueingHint = always_queue

    def matches(self, event: ClusterEvent) -> bool:
        """Return whether the plugin registered for this event; never True for a wildcard event."""
        return not event.wildcard and self.resource.covers(event.resource) and event.action in self.actions


ALL_EVENTS = (
    ClusterEventWithHint(EventResource.ANY, ActionType.ALL),
)  # the registration of a plugin that declares none


def find_object_event(kind: str, action: ActionType) -> ClusterEvent | None:
    """Return the cluster event for a change of an object that is no node or pod, or None if its kind causes no events.

    `kind` is the object's kind in manifests; `action` is ADD, UPDATE or DELETE. A DeviceTaintRule changes devices, so
    upstream reports it as an update of their resource slices.
    """
    if kind == "DeviceTaintRule":
        return ClusterEvent.RESOURCE_SLICE_UPDATE
    return _EVENTS_BY_KIND.get((kind, action))


_EVENTS_BY_KIND = {(event.resource.value.rpartition("/")[2], event.action): event for event in ClusterEvent}
