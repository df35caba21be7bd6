"""The API objects with the fields that scheduling reads; msgspec skips the others while it decodes.

Lists and maps may be null in JSON, since Go writes nil slices so. They are None here: read them with `or ()`. With
`gc=False` bulk lists decode three times faster; the structs never form reference cycles.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Amounts = dict[str, str | Int64 | float]  # resource name -> quantity as written
MANY_AMOUNTS = 64  # more than a container of an ordinary pod names
Labels = dict[str, str]


class Struct(msgspec.Struct, rename="camel", gc=False, frozen=True, kw_only=True):
    """Base class of API structs: camelCase in JSON, immutable, not tracked by the garbage collector."""


class OwnerReference(Struct, frozen=True):
    """An element of metadata.ownerReferences."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class Metadata(Struct, frozen=True):
    """The ObjectMeta of an object, with the fields that scheduling reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: Labels | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[OwnerReference] | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that makes the object and its successors, or None; a mirror pod's refers to the Node."""
        return next((owner for owner in self.owner_references or () if owner.controller), None)


class Requirement(Struct, frozen=True):
    """A label or node selector requirement: `key operator values`."""

    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(Struct, frozen=True):
    """A metav1.LabelSelector: all of `match_labels` and all of `match_expressions` must hold."""

    match_labels: Labels | None = None
    match_expressions: list[Requirement] | None = None


class NodeSelectorTerm(Struct, frozen=True):
    """A node selector term: all of its requirements must hold. A term without requirements matches nothing."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(Struct, frozen=True):
    """A list of node selector terms of which at least one must match."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredSchedulingTerm(Struct, frozen=True):
    """A preferred node affinity term: a node selector term with a weight."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True):
    """The node affinity in spec.affinity.nodeAffinity or NodeAffinityArgs.addedAffinity."""

    required: NodeSelector | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: list[PreferredSchedulingTerm] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class PodAffinityTerm(Struct, frozen=True):
    """A selection of pods that a pod must or should share a topology domain with, or avoid."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None


class WeightedPodAffinityTerm(Struct, frozen=True):
    """A preferred pod affinity term: a pod affinity term with a weight."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct, frozen=True):
    """The terms of spec.affinity.podAffinity or spec.affinity.podAntiAffinity."""

    required: list[PodAffinityTerm] | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[WeightedPodAffinityTerm] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(Struct, frozen=True):
    """The spec.affinity of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Struct, frozen=True):
    """An element of spec.tolerations."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class Taint(Struct, frozen=True):
    """An element of a node's spec.taints."""

    key: str = ""
    value: str = ""
    effect: str = ""


class ContainerPort(Struct, frozen=True):
    """An element of a container's ports."""

    container_port: Int32 = 0
    host_port: Int32 = 0
    protocol: str = ""
    host_ip: str = msgspec.field(name="hostIP", default="")


class ResourceRequirements(Struct, frozen=True):
    """Requests and limits of a container or, at pod level, of the pod."""

    requests: Amounts | None = None
    limits: Amounts | None = None

    def __post_init__(self) -> None:
        """Replace equal strings in `requests` and `limits` by one object if there are many limits, to save memory.

        For 20,000 amounts of each, memory falls to a third.
        """
        if self.limits and len(self.limits) > MANY_AMOUNTS:
            shared: dict[str, str] = {}

            def share(text: Any) -> Any:
                return shared.setdefault(text, text) if isinstance(text, str) else text

            for field in ("requests", "limits"):
                if amounts := getattr(self, field):
                    shared_amounts = {share(name): share(amount) for name, amount in amounts.items()}
                    msgspec.structs.force_setattr(self, field, shared_amounts)


class RestartRule(Struct, frozen=True):
    """An element of a container's restartPolicyRules."""

    action: str = ""


class Container(Struct, frozen=True):
    """An element of spec.containers or spec.initContainers."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str = ""
    restart_policy_rules: list[RestartRule] | None = None


class TopologySpreadConstraint(Struct, frozen=True):
    """An element of spec.topologySpreadConstraints."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class ClaimVolume(Struct, frozen=True):
    """A volume that refers to a persistent volume claim."""

    claim_name: str = ""


class GcePersistentDisk(Struct, frozen=True):
    """A GCE disk, inline in a pod or in a persistent volume."""

    pd_name: str = ""
    read_only: bool = False


class AwsElasticBlockStore(Struct, frozen=True):
    """An EBS volume, inline in a pod or in a persistent volume."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class AzureDisk(Struct, frozen=True):
    """An Azure disk, inline in a pod or in a persistent volume."""

    disk_uri: str = msgspec.field(name="diskURI", default="")
    kind: str | None = None


class AzureFile(Struct, frozen=True):
    """An Azure file share; scheduling reads none of its fields."""


class Cinder(Struct, frozen=True):
    """A Cinder volume, inline in a pod or in a persistent volume."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class PortworxVolume(Struct, frozen=True):
    """A Portworx volume, inline in a pod or in a persistent volume."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class VsphereVolume(Struct, frozen=True):
    """A vSphere volume; scheduling reads none of its fields."""


class InTreeSource(Struct, frozen=True):
    """The source of a volume, of the in-tree kinds that CSI drivers replace. At most one field is set."""

    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: Cinder | None = None
    portworx_volume: PortworxVolume | None = None
    vsphere_volume: VsphereVolume | None = None


class Rbd(Struct, frozen=True):
    """An inline Ceph RBD image."""

    monitors: list[str] | None = None
    image: str = ""
    pool: str = ""
    read_only: bool = False


class Iscsi(Struct, frozen=True):
    """An inline iSCSI target."""

    iqn: str = ""
    read_only: bool = False


class EphemeralVolume(Struct, frozen=True):
    """A generic ephemeral volume, for which a controller creates a claim."""


class EmptyDir(Struct, frozen=True):
    """An emptyDir volume. Scheduling reads none of its fields; one in memory does not keep a node from scale-down."""

    medium: str = ""


class HostPath(Struct, frozen=True):
    """A hostPath volume; scheduling reads none of its fields."""


class ImageVolume(Struct, frozen=True):
    """A volume with the content of an image."""

    reference: str = ""


class Volume(InTreeSource, frozen=True):
    """An element of spec.volumes, with the sources that scheduling reads, and those that a drain reads."""

    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    rbd: Rbd | None = None
    iscsi: Iscsi | None = None
    image: ImageVolume | None = None
    empty_dir: EmptyDir | None = None
    host_path: HostPath | None = None

    @property
    def is_storage(self) -> bool:
        """Whether the volume has another source than an image, an emptyDir or a hostPath."""
        local = Volume(name=self.name, image=self.image, empty_dir=self.empty_dir, host_path=self.host_path)
        return self != local


class SchedulingGate(Struct, frozen=True):
    """An element of spec.schedulingGates."""

    name: str = ""


class PodResourceClaim(Struct, frozen=True):
    """An element of a pod's spec.resourceClaims: the name of a claim, or of a template from which one is created."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Struct, frozen=True):
    """A pod's spec.schedulingGroup: the PodGroup of the pod's namespace that it belongs to."""

    pod_group_name: str | None = None


class PodSpec(Struct, frozen=True):
    """The spec of a pod."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: Int32 | None = None
    preemption_policy: str | None = None
    node_selector: Labels | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Amounts | None = None
    resources: ResourceRequirements | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    volumes: list[Volume] | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    resource_claims: list[PodResourceClaim] | None = None
    scheduling_group: PodSchedulingGroup | None = None
    workload_ref: dict[str, object] | None = None
    host_network: bool = False
    host_users: bool | None = None


class Condition(Struct, frozen=True):
    """A condition of a pod's or node's status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class ContainerStatus(Struct, frozen=True):
    """An element of status.containerStatuses, read for pods that are resized in place."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Amounts | None = None


class PodResourceClaimStatus(Struct, frozen=True):
    """The claim that was created for a template in spec.resourceClaims; None: no claim is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Struct, frozen=True):
    """The status of a pod."""

    phase: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None  # of the pod as a whole, while it is resized in place
    allocated_resources: Amounts | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None


class Object(Struct, frozen=True):
    """Base class of all API objects with metadata.

    `manifest` is the whole object as JSON, kept only if an HTTP extender receives the object. It is no field of the
    API.
    """

    metadata: Metadata = Metadata()
    manifest: bytes = b""


class PodAnnotations(Struct, frozen=True):
    """The annotations of a pod that autoscalers and the descheduler read. Scheduling reads none."""

    safe_to_evict: str | None = msgspec.field(name="cluster-autoscaler.kubernetes.io/safe-to-evict", default=None)
    safe_to_evict_local_volumes: str | None = msgspec.field(
        name="cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", default=None
    )
    do_not_disrupt: str | None = msgspec.field(name="karpenter.sh/do-not-disrupt", default=None)
    evict: str | None = msgspec.field(name="descheduler.alpha.kubernetes.io/evict", default=None)
    prefer_no_eviction: str | None = msgspec.field(
        name="descheduler.alpha.kubernetes.io/prefer-no-eviction", default=None
    )
    mirror: str | None = msgspec.field(name="kubernetes.io/config.mirror", default=None)
    source: str | None = msgspec.field(name="kubernetes.io/config.source", default=None)


class PodMetadata(Metadata, frozen=True):
    """The ObjectMeta of a pod, with the annotations that `PodAnnotations` lists."""

    annotations: PodAnnotations | None = None


class Pod(Object, frozen=True):
    """A Pod of v1."""

    metadata: PodMetadata = PodMetadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_of_daemon_set(self) -> bool:
        """Whether it belongs to a DaemonSet, whose controller restricts it to one node."""
        owner = self.metadata.controller
        return owner is not None and owner.kind == "DaemonSet"

    @property
    def is_static(self) -> bool:
        """Whether the kubelet of its node made it, so that its controller is the Node."""
        owner = self.metadata.controller
        return owner is not None and owner.kind == "Node"


class NodeMetadata(Metadata, frozen=True):
    """The ObjectMeta of a node. In a live cluster only the annotations that a plugin reads are kept."""

    annotations: Labels | None = None


class NodeSpec(Struct, frozen=True):
    """The spec of a node."""

    unschedulable: bool = False
    taints: list[Taint] | None = None


class ContainerImage(Struct, frozen=True):
    """An element of a node's status.images."""

    names: list[str] | None = None
    size_bytes: Int64 = 0


class NodeStatus(Struct, frozen=True):
    """The status of a node."""

    allocatable: Amounts | None = None
    capacity: Amounts | None = None
    images: list[ContainerImage] | None = None
    declared_features: list[str] | None = None


class Node(Object, frozen=True):
    """A Node of v1."""

    metadata: NodeMetadata = NodeMetadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(Object, frozen=True):
    """A Namespace of v1."""
