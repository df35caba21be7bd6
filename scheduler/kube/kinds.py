"""What is watched besides nodes and pods, for plugins to look up: one table.

Adding a kind is a struct in `scheduler.objects` (named as the kind is) and a line here; RBAC and docs follow the table.
"""

from __future__ import annotations

from typing import NamedTuple

from scheduler.objects.policy import PodDisruptionBudget
from scheduler.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.objects.types import Namespace, Object
from scheduler.objects.workloads import ReplicaSet, ReplicationController, Service, StatefulSet


class Kind(NamedTuple):
    """A watched kind: its collection's path, and what its objects decode to."""

    path: str
    decode_as: type[Object]

    @property
    def name(self) -> str:
        """The collection, for logs: `namespaces`."""
        return self.path.rpartition("/")[2]


KINDS: tuple[Kind, ...] = (
    Kind("/api/v1/namespaces", Namespace),
    Kind("/api/v1/services", Service),
    Kind("/api/v1/replicationcontrollers", ReplicationController),
    Kind("/apis/apps/v1/replicasets", ReplicaSet),
    Kind("/apis/apps/v1/statefulsets", StatefulSet),
    Kind("/apis/policy/v1/poddisruptionbudgets", PodDisruptionBudget),
    Kind("/api/v1/persistentvolumes", PersistentVolume),
    Kind("/api/v1/persistentvolumeclaims", PersistentVolumeClaim),
    Kind("/apis/storage.k8s.io/v1/storageclasses", StorageClass),
    Kind("/apis/storage.k8s.io/v1/csinodes", CSINode),
    Kind("/apis/storage.k8s.io/v1/csidrivers", CSIDriver),
    Kind("/apis/storage.k8s.io/v1/csistoragecapacities", CSIStorageCapacity),
    Kind("/apis/storage.k8s.io/v1/volumeattachments", VolumeAttachment),
)
