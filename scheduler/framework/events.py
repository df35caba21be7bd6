"""What happens in a cluster that may make a pod schedulable: the vocabulary in which plugins say what wakes their pods.

An `Event` is what happened to one object: a resource and an action. A plugin asks about a resource and a set of
actions (`ClusterEventWithHint`), and for each may look at the object before and after. Pods on nodes and pods that wait
are told apart here; plugins ask about `Resource.POD` and mean both.

Source: k8s.io/kube-scheduler/framework types.go, pkg/scheduler/framework/events.go v1.36.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import Any

from scheduler.objects.pod import PodInfo


class Resource(Enum):
    """What an event is about. Values are kube-scheduler's names."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"  # on a node; or nominated for one, when that ends
    UNSCHEDULABLE_POD = "UnschedulablePod"  # waiting; not in declarations
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    ANY = "*"

    def covers(self, other: Resource) -> bool:
        """Whether a declaration about this resource means that one too."""
        either = (Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD)
        return self in (other, Resource.ANY) or (self is Resource.POD and other in either)


class Action(Flag):
    """What happened. `UPDATE` is an update that is none of its parts; whoever asks about it asks about them too."""

    ADD = auto()
    DELETE = auto()
    UPDATE_NODE_ALLOCATABLE = auto()
    UPDATE_NODE_LABEL = auto()
    UPDATE_NODE_TAINT = auto()  # or uncordoned
    UPDATE_NODE_ANNOTATION = auto()  # of those that some plugin reads
    UPDATE_NODE_DECLARED_FEATURE = auto()
    UPDATE_POD_LABEL = auto()
    UPDATE_POD_SCALE_DOWN = auto()  # it requests less than before
    UPDATE_POD_TOLERATION = auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = auto()
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
    )
    ALL = ADD | DELETE | UPDATE

    @property
    def label(self) -> str:
        """kube-scheduler's spelling: `UpdateNodeTaint`."""
        return "".join(word.capitalize() for word in (self.name or "").split("_"))


class Event(Enum):
    """Something happened to an object: (resource, action), and a label where that does not name it."""

    NODE_ADD = (Resource.NODE, Action.ADD)
    NODE_DELETE = (Resource.NODE, Action.DELETE)
    NODE_ALLOCATABLE = (Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE)
    NODE_LABEL = (Resource.NODE, Action.UPDATE_NODE_LABEL)
    NODE_TAINT = (Resource.NODE, Action.UPDATE_NODE_TAINT)
    NODE_ANNOTATION = (Resource.NODE, Action.UPDATE_NODE_ANNOTATION)
    NODE_FEATURE = (Resource.NODE, Action.UPDATE_NODE_DECLARED_FEATURE)
    POD_ADD = (Resource.ASSIGNED_POD, Action.ADD)
    POD_DELETE = (Resource.ASSIGNED_POD, Action.DELETE)
    POD_LABEL = (Resource.ASSIGNED_POD, Action.UPDATE_POD_LABEL)
    POD_SCALE_DOWN = (Resource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN)
    POD_TOLERATION = (Resource.ASSIGNED_POD, Action.UPDATE_POD_TOLERATION)
    POD_UPDATE = (Resource.ASSIGNED_POD, Action.UPDATE)
    WAITING_POD_ADD = (Resource.UNSCHEDULABLE_POD, Action.ADD)
    WAITING_POD_LABEL = (Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_LABEL)
    WAITING_POD_SCALE_DOWN = (Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_SCALE_DOWN)
    WAITING_POD_TOLERATION = (Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_TOLERATION)
    POD_UNGATED = (Resource.ASSIGNED_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    WAITING_POD_UNGATED = (Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    WAITING_POD_UPDATE = (Resource.UNSCHEDULABLE_POD, Action.UPDATE)
    CLAIM_ADD = (Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)
    CLAIM_UPDATE = (Resource.PERSISTENT_VOLUME_CLAIM, Action.UPDATE)
    CLAIM_DELETE = (Resource.PERSISTENT_VOLUME_CLAIM, Action.DELETE)
    VOLUME_ADD = (Resource.PERSISTENT_VOLUME, Action.ADD)
    VOLUME_UPDATE = (Resource.PERSISTENT_VOLUME, Action.UPDATE)
    VOLUME_DELETE = (Resource.PERSISTENT_VOLUME, Action.DELETE)
    STORAGE_CLASS_ADD = (Resource.STORAGE_CLASS, Action.ADD)
    STORAGE_CLASS_UPDATE = (Resource.STORAGE_CLASS, Action.UPDATE)
    STORAGE_CLASS_DELETE = (Resource.STORAGE_CLASS, Action.DELETE)
    CSI_NODE_ADD = (Resource.CSI_NODE, Action.ADD)
    CSI_NODE_UPDATE = (Resource.CSI_NODE, Action.UPDATE)
    CSI_NODE_DELETE = (Resource.CSI_NODE, Action.DELETE)
    CSI_DRIVER_ADD = (Resource.CSI_DRIVER, Action.ADD)
    CSI_DRIVER_UPDATE = (Resource.CSI_DRIVER, Action.UPDATE)
    CSI_DRIVER_DELETE = (Resource.CSI_DRIVER, Action.DELETE)
    CAPACITY_ADD = (Resource.CSI_STORAGE_CAPACITY, Action.ADD)
    CAPACITY_UPDATE = (Resource.CSI_STORAGE_CAPACITY, Action.UPDATE)
    CAPACITY_DELETE = (Resource.CSI_STORAGE_CAPACITY, Action.DELETE)
    ATTACHMENT_ADD = (Resource.VOLUME_ATTACHMENT, Action.ADD)
    ATTACHMENT_UPDATE = (Resource.VOLUME_ATTACHMENT, Action.UPDATE)
    ATTACHMENT_DELETE = (Resource.VOLUME_ATTACHMENT, Action.DELETE)
    TIMEOUT = (Resource.ANY, Action.ALL, "UnschedulableTimeout")  # nothing happened for long: try anyway
    FORCE_ACTIVATE = (Resource.ANY, Action.ALL, "ForceActivate")  # somebody asks for this pod to be tried now

    def __init__(self, resource: Resource, action: Action, label: str = "") -> None:
        self.resource = resource
        self.action = action
        self.label = label or f"{resource.value}{action.label}"  # as metrics, logs and records write it

    @property
    def wildcard(self) -> bool:
        """Whether it wakes pods whatever rejected them."""
        return self.resource is Resource.ANY


QUEUE, SKIP = True, False  # what a hint says: the event may help the pod, or it cannot

Hint = Callable[[PodInfo, Any, Any], bool]
"""`(pod, old, new)`: whether what happened may make a pod schedulable that the hint's plugin rejected.

`old` is None of something added, `new` of something deleted. Pods are `PodInfo`, everything else as it is decoded. A
hint may run on one pod for all that wait and differ in nothing but name, UID and times, so it must not look at these;
but for its own update (`old` and `new` with the pod's UID), about which each pod is asked itself.
"""


def always(pod: PodInfo, old: Any, new: Any) -> bool:
    """The hint of whoever does not look closer."""
    return QUEUE


@dataclass(frozen=True)
class ClusterEventWithHint:
    """What a plugin asks about: these actions on that resource, and a hint that looks at the object."""

    resource: Resource
    actions: Action
    hint: Hint = always

    def matches(self, event: Event) -> bool:
        """Whether the event is asked about. A wildcard event is nobody's."""
        return not event.wildcard and self.resource.covers(event.resource) and event.action in self.actions


EVERYTHING = (ClusterEventWithHint(Resource.ANY, Action.ALL),)  # of a plugin that declares nothing


def object_event(kind: str, action: Action) -> Event | None:
    """The event of an object other than nodes and pods; None where its kind is not in the vocabulary.

    `kind`: as manifests name it. `action`: ADD, UPDATE or DELETE.
    """
    return _OF_OBJECTS.get((kind, action))


_OF_OBJECTS = {(event.resource.value.rpartition("/")[2], event.action): event for event in Event}
