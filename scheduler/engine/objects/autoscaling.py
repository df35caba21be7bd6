"""Objects of cluster-autoscaler, Cluster API and Karpenter, and DaemonSets, as questions about node groups read them.

Contains the structs and the table of these kinds. No scheduling decision depends on them: they are read when a question
about node groups comes, and not watched. Of a ConfigMap only the status of cluster-autoscaler is decoded.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec

from scheduler.engine.objects.types import (
    Amounts,
    Condition,
    Int32,
    Labels,
    Metadata,
    Object,
    PodSpec,
    Requirement,
    Struct,
    Taint,
)

NODE_POOL_LABEL: Final = "karpenter.sh/nodepool"
STATUS_CONFIG_MAP: Final = "cluster-autoscaler-status"
STATUS_NAMESPACE: Final = "kube-system"

# Annotations of nodes that only questions about node groups read.
SCALE_DOWN_DISABLED: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
OWNER_KIND: Final = "cluster.x-k8s.io/owner-kind"
OWNER_NAME: Final = "cluster.x-k8s.io/owner-name"
OWNER_NAMESPACE: Final = "cluster.x-k8s.io/cluster-namespace"
NODE_ANNOTATIONS: Final = frozenset({SCALE_DOWN_DISABLED, DO_NOT_DISRUPT, OWNER_KIND, OWNER_NAME, OWNER_NAMESPACE})

_CAPACITY: Final = "capacity.cluster-autoscaler.kubernetes.io/"


class ReportedCondition(Condition, frozen=True):
    """A condition of an autoscaler's object, with the time since when it has its status."""

    last_transition_time: str = ""


# --- DaemonSets ---------------------------------------------------------------------------------------------------


class TemplateMetadata(Struct, frozen=True):
    """The metadata of a template from which a controller creates objects."""

    labels: Labels | None = None


class DaemonPodTemplate(Struct, frozen=True):
    """The spec.template of a DaemonSet."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: PodSpec = PodSpec()


class DaemonSetSpec(Struct, frozen=True):
    """The spec of a DaemonSet."""

    template: DaemonPodTemplate = DaemonPodTemplate()


class DaemonSet(Object, frozen=True):
    """A DaemonSet of apps/v1."""

    spec: DaemonSetSpec = DaemonSetSpec()


# --- Cluster API --------------------------------------------------------------------------------------------------


class MachineAnnotations(Struct, frozen=True):
    """The annotations of a MachineDeployment or MachineSet that cluster-autoscaler reads."""

    min_size: str | None = msgspec.field(
        name="cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size", default=None
    )
    max_size: str | None = msgspec.field(
        name="cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size", default=None
    )
    cpu: str | None = msgspec.field(name=f"{_CAPACITY}cpu", default=None)
    memory: str | None = msgspec.field(name=f"{_CAPACITY}memory", default=None)
    ephemeral_disk: str | None = msgspec.field(name=f"{_CAPACITY}ephemeral-disk", default=None)
    gpu_count: str | None = msgspec.field(name=f"{_CAPACITY}gpu-count", default=None)
    gpu_type: str | None = msgspec.field(name=f"{_CAPACITY}gpu-type", default=None)
    max_pods: str | None = msgspec.field(name=f"{_CAPACITY}maxPods", default=None)
    labels: str | None = msgspec.field(name=f"{_CAPACITY}labels", default=None)
    taints: str | None = msgspec.field(name=f"{_CAPACITY}taints", default=None)
    csi_driver: str | None = msgspec.field(name=f"{_CAPACITY}csi-driver", default=None)


class MachineMetadata(Metadata, frozen=True):
    """The ObjectMeta of a MachineDeployment or MachineSet."""

    annotations: MachineAnnotations | None = None


class MachineSpec(Struct, frozen=True):
    """The spec.template.spec of a MachineDeployment or MachineSet."""

    failure_domain: str | None = None
    taints: list[Taint] | None = None


class MachineTemplate(Struct, frozen=True):
    """The spec.template of a MachineDeployment or MachineSet."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: MachineSpec = MachineSpec()


class MachineGroupSpec(Struct, frozen=True):
    """The spec of a MachineDeployment or MachineSet."""

    replicas: Int32 | None = None
    template: MachineTemplate = MachineTemplate()


class MachineGroup(Object, frozen=True):
    """Base class of the kinds of Cluster API that cluster-autoscaler scales."""

    metadata: MachineMetadata = MachineMetadata()
    spec: MachineGroupSpec = MachineGroupSpec()

    @property
    def annotations(self) -> MachineAnnotations:
        """The annotations that cluster-autoscaler reads; every field is None if the object has no annotations."""
        return self.metadata.annotations or MachineAnnotations()


class MachineDeployment(MachineGroup, frozen=True):
    """A MachineDeployment of cluster.x-k8s.io."""


class MachineSet(MachineGroup, frozen=True):
    """A MachineSet of cluster.x-k8s.io."""


class NodeReference(Struct, frozen=True):
    """The status.nodeRef of a Machine."""

    name: str = ""


class MachineStatus(Struct, frozen=True):
    """The status of a Machine: its node once it has joined, its phase, and what failed."""

    phase: str = ""
    node_ref: NodeReference | None = None
    failure_reason: str = ""
    failure_message: str = ""
    conditions: list[ReportedCondition] | None = None


class Machine(Object, frozen=True):
    """A Machine of cluster.x-k8s.io."""

    status: MachineStatus = MachineStatus()


# --- Karpenter ----------------------------------------------------------------------------------------------------


class NodeClaimTemplateSpec(Struct, frozen=True):
    """The spec.template.spec of a NodePool."""

    taints: list[Taint] | None = None
    startup_taints: list[Taint] | None = None
    requirements: list[Requirement] | None = None


class NodeClaimTemplate(Struct, frozen=True):
    """The spec.template of a NodePool."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: NodeClaimTemplateSpec = NodeClaimTemplateSpec()


class DisruptionBudget(Struct, frozen=True):
    """An element of a NodePool's spec.disruption.budgets."""

    nodes: str = "10%"
    reasons: list[str] | None = None
    schedule: str | None = None
    duration: str | None = None


class NodePoolDisruption(Struct, frozen=True):
    """The spec.disruption of a NodePool."""

    consolidate_after: str | None = None
    consolidation_policy: str | None = None
    budgets: list[DisruptionBudget] | None = None


class NodePoolSpec(Struct, frozen=True):
    """The spec of a NodePool."""

    template: NodeClaimTemplate = NodeClaimTemplate()
    limits: Amounts | None = None
    weight: Int32 | None = None
    replicas: int | None = None
    disruption: NodePoolDisruption = NodePoolDisruption()


class NodePoolStatus(Struct, frozen=True):
    """The status of a NodePool: the sum of its nodes' capacities, and its conditions."""

    resources: Amounts | None = None
    conditions: list[ReportedCondition] | None = None


class NodePool(Object, frozen=True):
    """A NodePool of karpenter.sh."""

    spec: NodePoolSpec = NodePoolSpec()
    status: NodePoolStatus = NodePoolStatus()


class NodeClaimSpec(Struct, frozen=True):
    """The spec of a NodeClaim."""

    taints: list[Taint] | None = None
    startup_taints: list[Taint] | None = None


class NodeClaimStatus(Struct, frozen=True):
    """The status of a NodeClaim: its node, "" before it registers, and what the node has or will have."""

    node_name: str = ""
    allocatable: Amounts | None = None
    conditions: list[ReportedCondition] | None = None


class NodeClaim(Object, frozen=True):
    """A NodeClaim of karpenter.sh."""

    spec: NodeClaimSpec = NodeClaimSpec()
    status: NodeClaimStatus = NodeClaimStatus()


# --- reports of autoscalers ---------------------------------------------------------------------------------------


class InvolvedObject(Struct, frozen=True):
    """The object that an event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


_NODE_CLAIM: Final = re.compile(r"\bnodeclaim/([a-z0-9.-]+)")


class EventSource(Struct, frozen=True):
    """The program that created an event, as core/v1 names it."""

    component: str = ""


class EventSeries(Struct, frozen=True):
    """The count and last time of an event that recurs."""

    count: Int32 = 0
    last_observed_time: str | None = None


class Event(Object, frozen=True):
    """An Event of v1."""

    involved_object: InvolvedObject = InvolvedObject()
    reason: str = ""
    message: str = ""
    count: Int32 | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None
    source: EventSource | None = None
    reporting_component: str = ""

    @property
    def last_seen(self) -> str:
        """The time of the last occurrence, or "" if the event has no time."""
        series = self.series.last_observed_time if self.series else None
        return series or self.last_timestamp or self.event_time or self.metadata.creation_timestamp or ""

    @property
    def component(self) -> str:
        """The name of the program that created the event, or "" if the event does not have it."""
        return self.reporting_component or (self.source.component if self.source else "")

    @property
    def node_claim(self) -> str:
        """The name of the NodeClaim for which Karpenter nominated a pod, or "" for any other event."""
        match = _NODE_CLAIM.search(self.message) if self.reason == "Nominated" else None
        return match[1] if match else ""


class StatusData(Struct, frozen=True):
    """The data of the ConfigMap in which cluster-autoscaler reports its status."""

    status: str = ""


class ConfigMap(Object, frozen=True):
    """A ConfigMap of v1, of which only the key `status` is decoded."""

    data: StatusData | None = None


class AutoscalingKind(NamedTuple):
    """A kind that questions about node groups read: the struct, its API paths with the preferred version first.

    `namespaced` is whether its objects have a namespace. `missing` says what the answer lacks if the user may not list
    the objects.
    """

    decode_as: type[Object]
    paths: tuple[str, ...]
    namespaced: bool
    missing: str

    @property
    def plural(self) -> str:
        """The last part of the collection's path, such as `nodepools`."""
        return self.paths[0].rpartition("/")[2]

    @property
    def api_group(self) -> str:
        """The API group of the kind, "" for the core group."""
        parts = self.paths[0].split("/")
        return parts[2] if parts[1] == "apis" else ""

    @property
    def versions(self) -> tuple[str, ...]:
        """The API versions in which the objects may be written, such as `karpenter.sh/v1`."""
        return tuple("/".join(path.split("/")[2:-1]) for path in self.paths)


MACHINE_DEPLOYMENT_LABEL: Final = "cluster.x-k8s.io/deployment-name"
MACHINE_SET_LABEL: Final = "cluster.x-k8s.io/set-name"

_GROUPS: Final = "node groups are known by the labels of their nodes alone"

# What a question about node groups reads besides what scheduling watches. RBAC, snapshots and docs follow the table.
AUTOSCALING_KINDS: Final = (
    AutoscalingKind(
        NodePool, ("/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1beta1/nodepools"), False, _GROUPS
    ),
    AutoscalingKind(
        NodeClaim, ("/apis/karpenter.sh/v1/nodeclaims", "/apis/karpenter.sh/v1beta1/nodeclaims"), False, _GROUPS
    ),
    AutoscalingKind(
        MachineDeployment,
        (
            "/apis/cluster.x-k8s.io/v1beta2/machinedeployments",
            "/apis/cluster.x-k8s.io/v1beta1/machinedeployments",
        ),
        True,
        _GROUPS,
    ),
    AutoscalingKind(
        MachineSet,
        ("/apis/cluster.x-k8s.io/v1beta2/machinesets", "/apis/cluster.x-k8s.io/v1beta1/machinesets"),
        True,
        _GROUPS,
    ),
    AutoscalingKind(
        Machine,
        ("/apis/cluster.x-k8s.io/v1beta2/machines", "/apis/cluster.x-k8s.io/v1beta1/machines"),
        True,
        "machines whose node does not join are not shown",
    ),
    AutoscalingKind(
        DaemonSet,
        ("/apis/apps/v1/daemonsets",),
        True,
        "the overhead of DaemonSets follows from the pods that they have now",
    ),
)
# Read for the pods of a question, for objects of Karpenter and for the status of cluster-autoscaler.
EVENT_KIND: Final = AutoscalingKind(Event, ("/api/v1/events",), True, "the autoscaler's events are not shown")
# Read by its name alone.
STATUS_KIND: Final = AutoscalingKind(
    ConfigMap, ("/api/v1/configmaps",), True, "the status of cluster-autoscaler is not shown"
)
