"""Volumes, claims, classes and CSI drivers, field by field as scheduling reads them, and how a pod names its claims.

Annotations are not kept: `Annotations` lists the few that scheduling reads, and decoding drops the others.
"""

from __future__ import annotations

import msgspec

from scheduler.objects.types import (
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
STORAGE = "storage"  # the one resource of claims and volumes
NO_PROVISIONER = "kubernetes.io/no-provisioner"  # a class of volumes that somebody makes by hand


class Annotations(Struct, frozen=True):
    """metadata.annotations of these kinds, as far as scheduling reads them."""

    storage_class: str | None = msgspec.field(name="volume.beta.kubernetes.io/storage-class", default=None)
    bind_completed: str | None = msgspec.field(name="pv.kubernetes.io/bind-completed", default=None)
    selected_node: str | None = msgspec.field(name="volume.kubernetes.io/selected-node", default=None)
    migrated_plugins: str | None = msgspec.field(name="storage.alpha.kubernetes.io/migrated-plugins", default=None)


class StorageMetadata(Metadata, frozen=True):
    """ObjectMeta with those annotations."""

    annotations: Annotations | None = None


class _Annotated(Object, frozen=True):
    metadata: StorageMetadata = StorageMetadata()

    @property
    def annotations(self) -> Annotations:
        """Empty where there are none."""
        return self.metadata.annotations or _NO_ANNOTATIONS


_NO_ANNOTATIONS = Annotations()


class ClaimReference(Struct, frozen=True):
    """The claim that a volume is bound, or meant, to."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(Struct, frozen=True):
    """From where a volume can be reached."""

    required: NodeSelector | None = None


class CsiSource(Struct, frozen=True):
    """spec.csi."""

    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(InTreeSource, frozen=True):
    """persistentVolume.spec."""

    capacity: Amounts | None = None
    access_modes: list[str] | None = None
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None


class Phase(Struct, frozen=True):
    """The status of a volume or claim."""

    phase: str = ""


class PersistentVolume(_Annotated, frozen=True):
    """v1.PersistentVolume."""

    spec: VolumeSpec = VolumeSpec()
    status: Phase = Phase()

    @property
    def storage_class(self) -> str:
        """Its class, "" for none; the beta annotation wins."""
        given = self.annotations.storage_class
        return self.spec.storage_class_name if given is None else given


class ClaimResources(Struct, frozen=True):
    """What a claim requests."""

    requests: Amounts | None = None


class ClaimSpec(Struct, frozen=True):
    """persistentVolumeClaim.spec."""

    access_modes: list[str] | None = None
    selector: LabelSelector | None = None
    resources: ClaimResources = ClaimResources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaim(_Annotated, frozen=True):
    """v1.PersistentVolumeClaim."""

    spec: ClaimSpec = ClaimSpec()
    status: Phase = Phase()

    @property
    def full_name(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def storage_class(self) -> str:
        """Its class, "" for none; the beta annotation wins."""
        given = self.annotations.storage_class
        return (self.spec.storage_class_name or "") if given is None else given

    @property
    def fully_bound(self) -> bool:
        """Bound to a volume, and the controller is done with it."""
        return bool(self.spec.volume_name) and self.annotations.bind_completed is not None


class TopologyRequirement(Struct, frozen=True):
    """allowedTopologies[].matchLabelExpressions[]: the label has one of the values."""

    key: str = ""
    values: list[str] | None = None


class TopologyTerm(Struct, frozen=True):
    """allowedTopologies[]: all of its requirements; one without any matches nothing."""

    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(Object, frozen=True):
    """storage.k8s.io/v1 StorageClass."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class DriverAllocatable(Struct, frozen=True):
    """What a driver can attach to a node."""

    count: Int32 | None = None


class NodeDriver(Struct, frozen=True):
    """csiNode.spec.drivers[]."""

    name: str = ""
    allocatable: DriverAllocatable | None = None


class CSINodeSpec(Struct, frozen=True):
    """csiNode.spec."""

    drivers: list[NodeDriver] | None = None


class CSINode(_Annotated, frozen=True):
    """storage.k8s.io/v1 CSINode: named as its node."""

    spec: CSINodeSpec = CSINodeSpec()

    @property
    def limits(self) -> dict[str, int]:
        """How many volumes each driver can attach; drivers without a limit are absent."""
        drivers = self.spec.drivers or ()
        return {d.name: d.allocatable.count for d in drivers if d.allocatable and d.allocatable.count is not None}

    @property
    def migrated(self) -> tuple[str, ...]:
        """The in-tree volume plugins that CSI drivers have taken over on this node."""
        return tuple((self.annotations.migrated_plugins or "").split(","))


class CSIDriverSpec(Struct, frozen=True):
    """csiDriver.spec."""

    storage_capacity: bool | None = None


class CSIDriver(Object, frozen=True):
    """storage.k8s.io/v1 CSIDriver."""

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Object, frozen=True):
    """storage.k8s.io/v1 CSIStorageCapacity: what a class has left for the nodes that a selector names."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None


class AttachmentSource(Struct, frozen=True):
    """volumeAttachment.spec.source."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct, frozen=True):
    """volumeAttachment.spec."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Object, frozen=True):
    """storage.k8s.io/v1 VolumeAttachment."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """The claim behind a volume of the pod; None where there is none. An ephemeral volume's is named after both."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else None


def made_for(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether the pod is the claim's controller, as that of an ephemeral volume's claim must be."""
    owners = claim.metadata.owner_references or ()
    controller = next((owner for owner in owners if owner.controller), None)
    return controller is not None and controller.uid == pod.metadata.uid
