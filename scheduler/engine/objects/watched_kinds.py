"""The table of kinds that the scheduler watches besides nodes and pods, for plugins to look up.

A new kind is a struct in `scheduler.engine.objects`, which has the kind's name, and a line here; RBAC and docs follow
the table.
"""

from __future__ import annotations

from typing import NamedTuple

from scheduler.engine.objects.pod_groups import PodGroup
from scheduler.engine.objects.resource_api import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from scheduler.engine.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.engine.objects.types import Namespace, Object
from scheduler.engine.objects.workloads import (
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)


class WatchedKind(NamedTuple):
    """A kind that the scheduler watches: the API path of its collection and the struct that its objects decode to."""

    path: str
    decode_as: type[Object]

    @property
    def name(self) -> str:
        """The last part of the collection's path, such as `namespaces`, for logs."""
        return self.path.rpartition("/")[2]


KINDS: tuple[WatchedKind, ...] = (
    WatchedKind("/api/v1/namespaces", Namespace),
    WatchedKind("/api/v1/services", Service),
    WatchedKind("/api/v1/replicationcontrollers", ReplicationController),
    WatchedKind("/apis/apps/v1/replicasets", ReplicaSet),
    WatchedKind("/apis/apps/v1/statefulsets", StatefulSet),
    WatchedKind("/apis/policy/v1/poddisruptionbudgets", PodDisruptionBudget),
    WatchedKind("/api/v1/persistentvolumes", PersistentVolume),
    WatchedKind("/api/v1/persistentvolumeclaims", PersistentVolumeClaim),
    WatchedKind("/apis/storage.k8s.io/v1/storageclasses", StorageClass),
    WatchedKind("/apis/storage.k8s.io/v1/csinodes", CSINode),
    WatchedKind("/apis/storage.k8s.io/v1/csidrivers", CSIDriver),
    WatchedKind("/apis/storage.k8s.io/v1/csistoragecapacities", CSIStorageCapacity),
    WatchedKind("/apis/storage.k8s.io/v1/volumeattachments", VolumeAttachment),
    WatchedKind("/apis/resource.k8s.io/v1/resourceclaims", ResourceClaim),
    WatchedKind("/apis/resource.k8s.io/v1/resourceclaimtemplates", ResourceClaimTemplate),  # for pods of what-ifs
    WatchedKind("/apis/resource.k8s.io/v1/deviceclasses", DeviceClass),
    WatchedKind("/apis/resource.k8s.io/v1/resourceslices", ResourceSlice),
)

# Watched where the gate GenericWorkload is on.
POD_GROUPS = WatchedKind("/apis/scheduling.k8s.io/v1alpha2/podgroups", PodGroup)
# Watched where the gate DRADeviceTaintRules is on. API servers serve this version since v1.37.
DEVICE_TAINT_RULES = WatchedKind("/apis/resource.k8s.io/v1/devicetaintrules", DeviceTaintRule)
ALL_KINDS = (*KINDS, POD_GROUPS, DEVICE_TAINT_RULES)
