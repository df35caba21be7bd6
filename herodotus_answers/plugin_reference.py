"""What each scheduler plugin checks or scores, which fields it reads, and how a pod that it rejects can be helped.

Owns: one declaration per plugin, with the reasons that it returns. Does not own: the sentences of reasons (`reasons`),
what a decision says about one pod (`explain`, `node_results`).

Invariant: every reason code of the catalogue except `text`, which every plugin may return, belongs to one plugin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypedDict

from herodotus_answers.declare import Document, Page
from herodotus_record import reasons
from herodotus_record.model import API_VERSION

_DOCS: Final = "https://kubernetes.io/docs"
_SCHEDULING: Final = f"{_DOCS}/concepts/scheduling-eviction"
_ASSIGN: Final = f"{_SCHEDULING}/assign-pod-node"
_CONFIG: Final = f"{_DOCS}/reference/scheduling/config/#scheduling-plugins"


@dataclass(frozen=True)
class PluginReference:
    """What an operator needs to know of a plugin.

    `fields` are those of the pod and of other objects that it reads, `suggestions` the changes that make a rejected pod
    fit, and `codes` the codes of its reasons.
    """

    plugin: str
    checks: str
    fields: tuple[str, ...]
    documentation: str
    suggestions: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()


class PluginReason(TypedDict):
    """A reason that a plugin returns."""

    code: Annotated[str, "Stable code of the reason."]
    message: Annotated[str, "kube-scheduler's sentence."]


class PluginExplanation(Document):
    """A plugin: what it checks, and how a pod that it rejects can be helped."""

    kind: Literal["PluginExplanation"]
    checks: Annotated[str, "What the plugin checks or scores."]
    fields: Annotated[list[str], "Fields that it reads."]
    reasons: Annotated[list[PluginReason], "Reasons that it returns."]
    possibleChanges: Annotated[list[str], "Changes that help a rejected pod."]
    documentation: Annotated[str, "URL of the Kubernetes documentation."]


class PluginExplanationList(Page):
    """The reference of all plugins."""

    kind: Literal["PluginExplanationList"]
    items: Annotated[list[PluginExplanation], "All plugins, by name."]


PLUGINS: Final = (
    PluginReference(
        "NodeUnschedulable",
        "Rejects cordoned nodes, unless the pod tolerates the taint node.kubernetes.io/unschedulable.",
        ("node: spec.unschedulable", "pod: spec.tolerations"),
        f"{_DOCS}/concepts/architecture/nodes/#manual-node-administration",
        ("kubectl uncordon NODE, once its maintenance has ended",),
        ("unschedulable",),
    ),
    PluginReference(
        "NodeName",
        "Rejects every node but the one that the pod names.",
        ("pod: spec.nodeName", "node: metadata.name"),
        f"{_ASSIGN}/#nodename",
        ("leave out spec.nodeName, or name a node that exists",),
        ("node-name",),
    ),
    PluginReference(
        "TaintToleration",
        "Rejects nodes with a NoSchedule or NoExecute taint that the pod does not tolerate. Scores nodes higher that"
        " have fewer PreferNoSchedule taints without a toleration.",
        ("node: spec.taints", "pod: spec.tolerations"),
        f"{_SCHEDULING}/taint-and-toleration/",
        (
            "add a toleration of the taint to the pod, if it may run on such nodes",
            "kubectl taint nodes NODE KEY-, if the taint is not needed",
        ),
        ("untolerated-taint",),
    ),
    PluginReference(
        "NodeAffinity",
        "Rejects nodes that do not match the pod's nodeSelector and required node affinity. Scores nodes by the"
        " preferred node affinity.",
        (
            "pod: spec.nodeSelector",
            "pod: spec.affinity.nodeAffinity",
            "node: metadata.labels",
            "configuration: NodeAffinityArgs.addedAffinity",
        ),
        f"{_ASSIGN}/#affinity-and-anti-affinity",
        (
            "change nodeSelector or the required terms in the pod's template to labels that nodes have",
            "kubectl label node NODE KEY=VALUE, if the node has what the label promises",
        ),
        ("node-affinity", "enforced-node-affinity", "affinity-conflict"),
    ),
    PluginReference(
        "NodePorts",
        "Rejects nodes on which another pod uses a host port that the pod requests.",
        ("pod: spec.containers[*].ports[*].hostPort, hostIP and protocol",),
        f"{_DOCS}/reference/kubernetes-api/workload-resources/pod-v1/#ports",
        (
            "use a Service in place of hostPort",
            "request another port, or run at most as many replicas as there are nodes",
        ),
        ("ports",),
    ),
    PluginReference(
        "NodeResourcesFit",
        "Rejects nodes that have less free cpu, memory, ephemeral storage, pods or extended resources than the pod"
        " requests. Free is what is allocatable minus the requests of the node's pods; use does not count. Scores nodes"
        " by what is free, by default higher the more is free.",
        (
            "pod: spec.containers[*].resources.requests, initContainers, overhead",
            "node: status.allocatable",
            "configuration: NodeResourcesFitArgs.scoringStrategy",
        ),
        f"{_DOCS}/concepts/configuration/manage-resources-containers/",
        (
            "lower the requests in the pod's template",
            "free the amount on a node: scale down, move or delete pods that hold it",
            "add a node of sufficient size",
        ),
        ("insufficient", "too-many-pods"),
    ),
    PluginReference(
        "PodTopologySpread",
        "Rejects nodes on which the pod would make the number of matching pods per topology domain differ by more than"
        " maxSkew. Scores nodes by constraints with ScheduleAnyway.",
        ("pod: spec.topologySpreadConstraints", "node: metadata.labels", "pods: metadata.labels"),
        f"{_SCHEDULING}/topology-spread-constraints/",
        (
            "raise maxSkew, or set whenUnsatisfiable to ScheduleAnyway",
            "make room in the domain with the fewest matching pods",
            "label the node with the topology key",
        ),
        ("spread", "spread-label"),
    ),
    PluginReference(
        "InterPodAffinity",
        "Rejects nodes whose topology domain lacks a pod that the pod's affinity requires, has a pod that its"
        " anti-affinity excludes, or has a pod whose own anti-affinity excludes it. Scores nodes by preferred terms.",
        (
            "pod: spec.affinity.podAffinity and podAntiAffinity",
            "pods: metadata.labels and their anti-affinity",
            "node: metadata.labels",
        ),
        f"{_ASSIGN}/#inter-pod-affinity-and-anti-affinity",
        (
            "run fewer replicas than there are domains, or use preferred terms",
            "check that the pods required by the affinity exist and have a node",
        ),
        ("pod-affinity", "pod-anti-affinity", "existing-anti-affinity"),
    ),
    PluginReference(
        "VolumeRestrictions",
        "Rejects nodes on which another pod uses the same disk, and pods whose ReadWriteOncePod claim is in use.",
        ("pod: spec.volumes", "claim: spec.accessModes"),
        f"{_DOCS}/concepts/storage/persistent-volumes/#access-modes",
        ("delete the pod that uses the claim, or use another access mode",),
        ("disk-conflict", "claim-in-use"),
    ),
    PluginReference(
        "NodeVolumeLimits",
        "Rejects nodes to which no further volume of the CSI driver can be attached, and since v1.37 nodes without the"
        " driver if the CSIDriver asks for it.",
        (
            "pod: spec.volumes",
            "CSINode: spec.drivers[*].allocatable",
            "CSIDriver: spec.preventPodSchedulingIfMissing",
            "VolumeAttachments",
        ),
        f"{_DOCS}/concepts/storage/storage-limits/",
        ("move pods with volumes of that driver to other nodes, or add a node",),
        ("volume-limit", "csi-driver-missing", "claim-lookup"),
    ),
    PluginReference(
        "VolumeBinding",
        "Rejects nodes that the pod's bound volumes cannot reach, and nodes for which no volume can be found or"
        " provisioned for its unbound claims.",
        (
            "pod: spec.volumes",
            "claim: spec.volumeName, storageClassName",
            "volume: spec.nodeAffinity",
            "StorageClass: volumeBindingMode, allowedTopologies",
            "CSIStorageCapacity",
        ),
        f"{_DOCS}/concepts/storage/storage-classes/#volume-binding-mode",
        (
            "kubectl describe pvc CLAIM shows why the claim is not bound",
            "make room on a node that the volume can reach",
            "create the missing claim, volume or StorageClass",
        ),
        (
            "volume-affinity",
            "no-volume",
            "no-space",
            "claim-volume-missing",
            "claims-unbound",
            "claim-not-found",
            "claim-not-made",
            "claim-lost",
            "claim-deleted",
            "claim-not-owned",
            "class-not-found",
        ),
    ),
    PluginReference(
        "VolumeZone",
        "Rejects nodes in another zone or region than the pod's bound volumes.",
        ("volume: metadata.labels topology.kubernetes.io/zone and region", "node: metadata.labels"),
        f"{_DOCS}/setup/best-practices/multiple-zones/#storage-access-for-zones",
        (
            "make room on a node in the volume's zone",
            "use a StorageClass with volumeBindingMode WaitForFirstConsumer for new claims",
        ),
        (
            "volume-zone",
            "claim-unnamed",
            "claim-without-class",
            "claim-without-volume",
            "class-without-mode",
            "volume-not-found",
        ),
    ),
    PluginReference(
        "NodeDeclaredFeatures",
        "Rejects nodes that do not declare a feature which the pod needs.",
        ("node: status.declaredFeatures", "pod: spec"),
        f"{_SCHEDULING}/node-declared-features/",
        ("upgrade the node's kubelet, or leave out the field that needs the feature",),
        ("features",),
    ),
    PluginReference(
        "DynamicResources",
        "Rejects nodes on which the pod's resource claims cannot be allocated.",
        ("pod: spec.resourceClaims", "ResourceClaim", "ResourceSlice", "DeviceClass"),
        f"{_SCHEDULING}/dynamic-resource-allocation/",
        ("kubectl describe resourceclaim CLAIM shows what it requests and which pods use it",),
        (
            "cannot-allocate",
            "invalid-pools",
            "device-claim-elsewhere",
            "device-claim-not-found",
            "device-claim-deleted",
            "device-claim-in-flight",
            "device-claim-not-made",
            "device-claim-unsupported",
            "device-claim-not-owned",
            "device-claim-not-owned-by-group",
            "group-claim-unreserved",
            "device-class-not-found",
            "prioritized-list-disabled",
            "request-unknown",
            "extended-claim-left",
            "extended-resource-missing",
            "device-claim-deallocated",
            "extended-claim-deleted",
            "still-unschedulable",
            "no-claims",
        ),
    ),
    PluginReference(
        "GangScheduling",
        "Keeps a pod of a PodGroup from being tried until `minCount` pods of the group exist, and places that many of"
        " them or none. Only with the feature gates GenericWorkload and GangScheduling.",
        ("pod: spec.schedulingGroup", "PodGroup: spec.schedulingPolicy"),
        f"{_SCHEDULING}/gang-scheduling/",
        (
            "create the PodGroup that the pod names",
            "create the missing pods of the group, or lower its minCount",
            "make room for minCount pods at once: one of them that fits nowhere keeps the others waiting",
        ),
        (
            "gang-no-group",
            "gang-too-few",
            "gang-waiting",
            "group-unschedulable",
            "group-preempting",
            "group-error",
            "permit-waits",
            "not-built",
        ),
    ),
    PluginReference(
        "TopologyPlacementGenerator",
        "Tries a pod group in each domain of its topology constraint: all its pods on nodes with one value of a label."
        " Only with the feature gate TopologyAwareWorkloadScheduling.",
        ("PodGroup: spec.schedulingConstraints", "node: labels"),
        f"{_SCHEDULING}/topology-aware-workload-scheduling/",
        (
            "label nodes with the key of the constraint",
            "make room for minCount pods in one domain, or use a label with larger domains",
        ),
        ("no-placements", "group-placements"),
    ),
    PluginReference(
        "PodGroupPodsCount",
        "Prefers the placement in which the most pods of a group are on nodes. Only with the feature gate"
        " TopologyAwareWorkloadScheduling.",
        ("PodGroup: its pods on nodes",),
        f"{_SCHEDULING}/topology-aware-workload-scheduling/",
        (),
        (),
    ),
    PluginReference(
        "SchedulingGates",
        "Keeps a pod from being tried while it has scheduling gates.",
        ("pod: spec.schedulingGates",),
        f"{_SCHEDULING}/pod-scheduling-readiness/",
        ("the controller that set a gate removes it; look at that controller",),
        ("gated",),
    ),
    PluginReference(
        "DefaultPreemption",
        "Looks for pods of lower priority whose eviction makes the pod fit, once all filters rejected every node.",
        ("pod: spec.priority, preemptionPolicy", "PodDisruptionBudget"),
        f"{_SCHEDULING}/pod-priority-preemption/",
        ("give the pod a PriorityClass above that of the pods which may be evicted for it",),
        (
            "state-not-found",
            "no-victims",
            "preemption-unhelpful",
            "preemption",
            "preemption-terminating",
            "preemption-found",
            "preemption-no-candidate",
            "preemption-never",
            "preempting",
            "preempting-group",
            "preemption-no-group",
            "preemption-placement",
            "preemption-by-group",
            "group-preemption-topology",
            "group-preemption-off",
            "group-no-victims",
            "preemption-off",
        ),
    ),
    PluginReference(
        "PreFilter",
        "Restricts the nodes to evaluate, or rejects the pod, before any filter runs. A plugin such as NodeAffinity may"
        " name the only nodes that it accepts.",
        ("those of the named plugin",),
        f"{_SCHEDULING}/scheduling-framework/",
        ("see the named plugin: kubectl herodotus explain PLUGIN", "add nodes, where the cluster has none"),
        ("narrowed", "narrowed-empty", "narrowed-disjoint", "no-nodes"),
    ),
    PluginReference(
        "NodeResourcesBalancedAllocation",
        "Scores nodes higher whose cpu and memory would be used to a similar degree.",
        ("pod: spec.containers[*].resources.requests", "node: status.allocatable"),
        _CONFIG,
    ),
    PluginReference(
        "ImageLocality",
        "Scores nodes higher that have the pod's images already, the larger the images the more.",
        ("pod: spec.containers[*].image", "node: status.images"),
        _CONFIG,
    ),
)


def find_plugins(words: str) -> list[PluginReference]:
    """Return the plugins that `words` name: a plugin's name, a reason's code, or a sentence of kube-scheduler.

    Names and codes are compared without regard to case. The list is empty if nothing matches.
    """
    wanted = words.strip().lower()
    named = [plugin for plugin in PLUGINS if plugin.plugin.lower() == wanted]
    if named:
        return named
    code = reasons.parse_reason(words.strip()).code
    return [plugin for plugin in PLUGINS if wanted in plugin.codes or (code != "text" and code in plugin.codes)]


def build_plugin_explanation(plugin: PluginReference) -> PluginExplanation:
    """Return the JSON document of kind PluginExplanation."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PluginExplanation",
        "metadata": {"name": plugin.plugin},
        "checks": plugin.checks,
        "fields": list(plugin.fields),
        "reasons": [{"code": code, "message": reasons.CATALOGUE[code]} for code in plugin.codes],
        "possibleChanges": list(plugin.suggestions),
        "documentation": plugin.documentation,
    }


def build_plugin_list() -> PluginExplanationList:
    """Return the JSON document of kind PluginExplanationList: all plugins."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PluginExplanationList",
        "metadata": {},
        "items": [build_plugin_explanation(plugin) for plugin in PLUGINS],
    }
