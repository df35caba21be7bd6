"""Volumes, claims, storage classes and CSI drivers with the fields that scheduling reads, and a pod's claim names.

Only the annotations that `Annotations` lists are decoded.
"""

from __future__ import annotations

import msgspec

from scheduler.engine.objects import quantity
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import (
    Amounts,
    Int32,
    InTreeSource,
    LabelSelector,
    Metadata,
    NodeSelector,
    Object,
    Pod,
    Struct,
    Volume,
)

READ_WRITE_ONCE_POD = "ReadWriteOncePod"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
STORAGE = "storage"  # the only resource of claims and volumes
NO_PROVISIONER = "kubernetes.io/no-provisioner"  # the class's volumes are created by hand


class Annotations(Struct, frozen=True):
    """The metadata.annotations of storage objects that scheduling reads."""

    storage_class: str | None = msgspec.field(name="volume.beta.kubernetes.io/storage-class", default=None)
    bind_completed: str | None = msgspec.field(name="pv.kubernetes.io/bind-completed", default=None)
    selected_node: str | None = msgspec.field(name="volume.kubernetes.io/selected-node", default=None)
    migrated_plugins: str | None = msgspec.field(name="storage.alpha.kubernetes.io/migrated-plugins", default=None)


class StorageMetadata(Metadata, frozen=True):
    """The ObjectMeta of a storage object, with its annotations."""

    annotations: Annotations | None = None


class _Annotated(Object, frozen=True):
    metadata: StorageMetadata = StorageMetadata()

    @property
    def annotations(self) -> Annotations:
        """The annotations that scheduling reads; every field is None if the object has no annotations."""
        return self.metadata.annotations or _NO_ANNOTATIONS


_NO_ANNOTATIONS = Annotations()


class ClaimReference(Struct, frozen=True):
    """A reference to the claim that a volume is bound to or reserved for."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(Struct, frozen=True):
    """The spec.nodeAffinity of a persistent volume: the nodes that can access it."""

    required: NodeSelector | None = None


class CsiSource(Struct, frozen=True):
    """The spec.csi of a persistent volume."""

    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(InTreeSource, frozen=True):
    """The spec of a persistent volume."""

    capacity: Amounts | None = None
    access_modes: list[str] | None = None
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None


class StoragePhase(Struct, frozen=True):
    """The status of a persistent volume or claim."""

    phase: str = ""


class PersistentVolume(_Annotated, frozen=True):
    """A PersistentVolume of v1."""

    spec: VolumeSpec = VolumeSpec()
    status: StoragePhase = StoragePhase()

    @property
    def storage_class(self) -> str:
        """The name of the storage class, "" for none; the beta annotation takes precedence."""
        annotated = self.annotations.storage_class
        return self.spec.storage_class_name if annotated is None else annotated


class ClaimResources(Struct, frozen=True):
    """The resources that a claim requests."""

    requests: Amounts | None = None


class ClaimSpec(Struct, frozen=True):
    """The spec of a persistent volume claim."""

    access_modes: list[str] | None = None
    selector: LabelSelector | None = None
    resources: ClaimResources = ClaimResources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaim(_Annotated, frozen=True):
    """A PersistentVolumeClaim of v1."""

    spec: ClaimSpec = ClaimSpec()
    status: StoragePhase = StoragePhase()

    @property
    def full_name(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def storage_class(self) -> str:
        """The name of the storage class, "" for none; the beta annotation takes precedence."""
        annotated = self.annotations.storage_class
        return (self.spec.storage_class_name or "") if annotated is None else annotated

    @property
    def fully_bound(self) -> bool:
        """Whether the claim is bound and the volume controller has completed the binding."""
        return bool(self.spec.volume_name) and self.annotations.bind_completed is not None


class TopologyRequirement(Struct, frozen=True):
    """An element of allowedTopologies[].matchLabelExpressions: the label has one of the values."""

    key: str = ""
    values: list[str] | None = None


class TopologyTerm(Struct, frozen=True):
    """An element of allowedTopologies: all of its requirements must hold; a term without any matches nothing."""

    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(Object, frozen=True):
    """A StorageClass of storage.k8s.io/v1."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class DriverAllocatable(Struct, frozen=True):
    """The number of volumes that a CSI driver can attach to a node."""

    count: Int32 | None = None


class NodeDriver(Struct, frozen=True):
    """An element of a CSINode's spec.drivers."""

    name: str = ""
    allocatable: DriverAllocatable | None = None


class CSINodeSpec(Struct, frozen=True):
    """The spec of a CSINode."""

    drivers: list[NodeDriver] | None = None


class CSINode(_Annotated, frozen=True):
    """A CSINode of storage.k8s.io/v1, which has the name of its node."""

    spec: CSINodeSpec = CSINodeSpec()

    @property
    def driver_names(self) -> list[str]:
        """The names of the CSI drivers that are installed on the node."""
        return [driver.name for driver in self.spec.drivers or ()]

    @property
    def limits(self) -> dict[str, int]:
        """The number of volumes that each CSI driver can attach; drivers without a limit are absent."""
        drivers = self.spec.drivers or ()
        return {d.name: d.allocatable.count for d in drivers if d.allocatable and d.allocatable.count is not None}

    @property
    def migrated(self) -> tuple[str, ...]:
        """The names of the in-tree volume plugins that CSI drivers replace on this node."""
        return tuple((self.annotations.migrated_plugins or "").split(","))


class CSIDriverSpec(Struct, frozen=True):
    """The spec of a CSIDriver."""

    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Object, frozen=True):
    """A CSIDriver of storage.k8s.io/v1."""

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Object, frozen=True):
    """A CSIStorageCapacity of storage.k8s.io/v1: the free capacity of a storage class on the selected nodes."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None

    @property
    def total(self) -> int:
        """The free capacity in bytes, 0 if it is unknown."""
        return 0 if self.capacity is None else quantity.scaled_value(self.capacity, quantity.WHOLE)

    @property
    def largest_volume(self) -> int | None:
        """The size in bytes of the largest volume that can be provisioned, or None if it is unknown."""
        room = self.capacity if self.maximum_volume_size is None else self.maximum_volume_size
        return None if room is None else quantity.scaled_value(room, quantity.WHOLE)


class AttachmentSource(Struct, frozen=True):
    """The spec.source of a VolumeAttachment."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct, frozen=True):
    """The spec of a VolumeAttachment."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Object, frozen=True):
    """A VolumeAttachment of storage.k8s.io/v1."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


def find_claim_name(pod: Pod, volume: Volume) -> str | None:
    """Return the name of the claim that a pod's volume uses, or None if the volume uses no claim.

    The claim of a generic ephemeral volume is named POD-VOLUME.
    """
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else None


def is_named_claim(pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> bool:
    """Queueing hint: return whether a volume of the pod refers to the claim `new` by name.

    Claims of generic ephemeral volumes do not count.
    """
    return new.full_name in pod.claims


def is_claim_of_pod(pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> bool:
    """Queueing hint: return whether the pod uses the claim `new`, by name or as a generic ephemeral volume."""
    if new.metadata.namespace != pod.namespace:
        return False
    return any(find_claim_name(pod.pod, volume) == new.metadata.name for volume in pod.pod.spec.volumes or ())


def is_owned_by_pod(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Return whether the pod is the claim's controlling owner, as it is for the claim of an ephemeral volume."""
    controller = claim.metadata.controller
    return controller is not None and controller.uid == pod.metadata.uid
