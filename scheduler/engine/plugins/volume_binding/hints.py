"""Queueing hints of VolumeBinding for events of storage classes, CSINodes, CSIDrivers and CSIStorageCapacities.

Source: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go v1.36 (isSchedulableAfter…). For a CSIDriver,
upstream considers only inline volumes of the driver. Claims may profit too, so every driver that stops tracking
capacity counts here.
"""

from __future__ import annotations

from scheduler.engine.objects import quantity
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass


def is_schedulable_after_class_change(pod: PodInfo, old: StorageClass | None, new: StorageClass) -> bool:
    """Return whether the storage class is new or its allowed topologies changed."""
    return old is None or old.allowed_topologies != new.allowed_topologies


def is_schedulable_after_csi_node_change(pod: PodInfo, old: CSINode | None, new: CSINode) -> bool:
    """Return whether the CSINode is new or its migrated in-tree plugins changed."""
    return old is None or old.migrated != new.migrated


def is_schedulable_after_driver_change(pod: PodInfo, old: CSIDriver, new: CSIDriver) -> bool:
    """Return whether the CSI driver stopped tracking storage capacity."""
    return bool(old.spec.storage_capacity) and not new.spec.storage_capacity


def is_schedulable_after_capacity_change(pod: PodInfo, old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> bool:
    """Return whether the CSIStorageCapacity is new or allows larger volumes than before."""
    before, after = None if old is None else _largest(old), _largest(new)
    return old is None or (after is not None and (before is None or after > before))


def _largest(capacity: CSIStorageCapacity) -> int | None:
    room = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return None if room is None else quantity.scaled_value(room, quantity.WHOLE)
