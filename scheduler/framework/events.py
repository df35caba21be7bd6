"""What happens in a cluster that may make a pod schedulable: the vocabulary in which plugins say what wakes their pods.

Source: k8s.io/kube-scheduler/framework events.go; the actions of it that the plugins built so far ask about.
"""

from __future__ import annotations

from enum import Enum


class Event(str, Enum):
    """Something changed. Values are kube-scheduler's event labels."""

    NODE_ADD = "NodeAdd"
    NODE_DELETE = "NodeDelete"
    NODE_ALLOCATABLE = "NodeUpdateNodeAllocatable"
    NODE_LABEL = "NodeUpdateNodeLabel"
    NODE_TAINT = "NodeUpdateNodeTaint"
    NODE_FEATURE = "NodeUpdateNodeDeclaredFeature"
    POD_DELETE = "AssignedPodDelete"
    POD_ADD = "AssignedPodAdd"
    POD_LABEL = "AssignedPodUpdatePodLabel"
    POD_SCALE_DOWN = "AssignedPodUpdatePodScaleDown"  # it requests less than before
    POD_CHANGED = "UnschedulablePodUpdate"  # the waiting pod itself
    CLAIM_ADD = "PersistentVolumeClaimAdd"
    CLAIM_UPDATE = "PersistentVolumeClaimUpdate"
    VOLUME_ADD = "PersistentVolumeAdd"
    VOLUME_UPDATE = "PersistentVolumeUpdate"
    STORAGE_CLASS_ADD = "StorageClassAdd"
    STORAGE_CLASS_UPDATE = "StorageClassUpdate"
    CSI_NODE_ADD = "CSINodeAdd"
    CSI_NODE_UPDATE = "CSINodeUpdate"
    CSI_DRIVER_UPDATE = "CSIDriverUpdate"
    CAPACITY_ADD = "CSIStorageCapacityAdd"
    CAPACITY_UPDATE = "CSIStorageCapacityUpdate"
    ATTACHMENT_DELETE = "VolumeAttachmentDelete"
    TIMEOUT = "UnschedulableTimeout"  # nothing happened for long: try anyway


EVERY_EVENT = frozenset(Event)


def object_event(kind: str, action: str) -> Event | None:
    """The event of an object other than nodes and pods; None where no plugin asks about it.

    `kind`: as manifests name it. `action`: Add, Update or Delete.
    """
    return _BY_LABEL.get(f"{kind}{action}")


_BY_LABEL = {event.value: event for event in Event}
