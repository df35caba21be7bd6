"""The rules of kube-scheduler that differ between versions and that no feature gate switches.

Owns: the declaration of each rule: its plugin, the versions in which it holds, its source and its effect. Does not own:
what a rule does, which the plugin that asks for it decides, and feature gates (`feature_gates`).

`docs/parity.md` has a table of this declaration. A rule is named after what newer versions do. Each claim was found in
a comparison of upstream's sources, and those marked "recorded" also in recorded decisions of kube-schedulers.

Invariant: names are unique among rules and feature gates, so that code asks for both in one way (`Rules.enabled`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from herodotus_record.kubernetes_version import KubernetesVersion


@dataclass(frozen=True)
class VersionRule:
    """One rule that not every version of kube-scheduler has.

    `since` has the first version with the rule, and further first versions where a patch release of an older minor
    version got the rule too. `until` is the first version without it, or None. `source` names pull requests of
    kubernetes/kubernetes.
    """

    name: str
    plugin: str
    since: tuple[KubernetesVersion, ...]
    effect: str
    source: str
    until: KubernetesVersion | None = None

    def holds_in(self, version: KubernetesVersion) -> bool:
        """Return whether kube-scheduler of this version has the rule."""
        if self.until is not None and version >= self.until:
            return False
        return version >= max(self.since) or any(
            version.minor == first.minor and version >= first for first in self.since
        )


def _since(*versions: str) -> tuple[KubernetesVersion, ...]:
    return tuple(KubernetesVersion.parse(version) for version in versions)


# The rules that code asks for.
BALANCE_GAIN: Final = "BalanceGain"
SKIP_BALANCE_OF_BEST_EFFORT: Final = "SkipBalanceOfBestEffort"
SIDECARS_SCORED: Final = "SidecarsScored"
UNRESOLVABLE_REQUESTS: Final = "UnresolvableRequests"
SIDECAR_PORTS: Final = "SidecarPorts"
RESIZE_AS_WHOLE: Final = "ResizeOfWholePod"
NAMESPACE_SELECTOR_KEPT: Final = "NamespaceSelectorKept"
IMAGE_VOLUMES_SCORED: Final = "ImageVolumesScored"
IMAGE_VOLUMES_BOUNDED: Final = "ImageVolumesBounded"
PREEMPTION_NODE_NAMED: Final = "PreemptionNodeNamed"
CSI_LIMITS_FROM_CSINODE: Final = "CSILimitsFromCSINodeOnly"
PORTWORX_ALWAYS_MIGRATED: Final = "PortworxAlwaysMigrated"
STRICT_FIT_ARGS: Final = "StrictFitArgs"
DEVICE_SCORES: Final = "DeviceScores"
POOLS_OF_SEVERAL_NODES: Final = "PoolsOfSeveralNodes"
ALL_IN_SUBREQUEST: Final = "AllDevicesOfSubrequest"
DEVICE_NODE_ERRORS: Final = "InvalidPoolRejectsNode"
SELECTOR_ERRORS_EXPLAINED: Final = "SelectorErrorsExplained"
TAINT_RULES_SELECT: Final = "DeviceTaintRulesNeedSelector"
NARROWED_NODES_COUNTED: Final = "NarrowedNodesCounted"

VERSION_RULES: Final = (
    VersionRule(
        BALANCE_GAIN,
        "NodeResourcesBalancedAllocation",
        _since("1.36.0"),
        "scores by how much the pod improves the balance of a node; before, by the balance with the pod (recorded)",
        "#135573",
    ),
    VersionRule(
        SKIP_BALANCE_OF_BEST_EFFORT,
        "NodeResourcesBalancedAllocation",
        _since("1.33.0"),
        "is skipped for a pod that requests none of its resources; before, such a pod was scored too (recorded)",
        "#130260",
    ),
    VersionRule(
        SIDECARS_SCORED,
        "NodeResourcesFit",
        _since("1.32.0"),
        "scores count restartable init containers of the pods on a node as running; before, only the largest of all"
        " init containers (recorded)",
        "#127878",
    ),
    VersionRule(
        UNRESOLVABLE_REQUESTS,
        "NodeResourcesFit",
        _since("1.34.0"),
        "a request above the node's allocatable is UnschedulableAndUnresolvable, so preemption leaves the node out;"
        " before, Unschedulable (recorded)",
        "#131345",
    ),
    VersionRule(
        RESIZE_AS_WHOLE,
        "NodeResourcesFit",
        _since("1.37.0"),
        "while a pod on a node is resized, the largest of what its containers desire, have and are allocated together"
        " counts; before, the largest of each container",
        "#140047, #140646",
    ),
    VersionRule(
        SIDECAR_PORTS,
        "NodePorts",
        _since("1.34.0", "1.33.6"),
        "host ports of restartable init containers count; before, those of containers only (recorded)",
        "#132040, #133390",
    ),
    VersionRule(
        NAMESPACE_SELECTOR_KEPT,
        "InterPodAffinity",
        _since("1.34.0"),
        "a namespaceSelector of the pod's terms is also matched with no labels, so one that accepts these (NotIn,"
        " DoesNotExist) selects every namespace; before, only the namespaces that it selects (recorded)",
        "#132457; issue #141526",
    ),
    VersionRule(
        IMAGE_VOLUMES_SCORED,
        "ImageLocality",
        _since("1.36.0"),
        "images of volumes count; before, those of containers only (recorded)",
        "#130231",
    ),
    VersionRule(
        IMAGE_VOLUMES_BOUNDED,
        "ImageLocality",
        _since("1.37.0"),
        "each image volume raises the size from which the score is 100, as a container does; before, only containers",
        "#138951",
    ),
    VersionRule(
        PREEMPTION_NODE_NAMED,
        "DefaultPreemption",
        _since("1.37.0"),
        "the message names the node that preemption found, and the number of victims; before, it did not mention them",
        "#140180",
    ),
    VersionRule(
        CSI_LIMITS_FROM_CSINODE,
        "NodeVolumeLimits",
        _since("1.32.0"),
        "limits of CSI drivers come from the CSINode; before, also from allocatable `attachable-volumes-csi-*`",
        "#124003, #126924",
    ),
    VersionRule(
        PORTWORX_ALWAYS_MIGRATED,
        "NodeVolumeLimits",
        _since("1.36.0"),
        "in-tree Portworx volumes count for its CSI driver; before, only where the CSINode says that they are migrated",
        "#135322",
    ),
    VersionRule(
        STRICT_FIT_ARGS,
        "NodeResourcesFit",
        _since("1.36.0"),
        "requestedToCapacityRatio is refused beside another type of strategy; before, it was ignored there",
        "pkg/scheduler/apis/config/validation",
    ),
    VersionRule(
        NARROWED_NODES_COUNTED,
        "the framework",
        _since("1.32.0"),
        "the message counts the nodes that PreFilter leaves out; before, it did not mention them (recorded)",
        "pkg/scheduler/framework/types.go",
    ),
    VersionRule(
        DEVICE_SCORES,
        "DynamicResources",
        _since("1.35.0"),
        "scores the alternatives of prioritized lists; before, it scored nothing (recorded)",
        "#134711",
    ),
    VersionRule(
        DEVICE_NODE_ERRORS,
        "DynamicResources",
        _since("1.35.0"),
        "an invalid pool of devices rejects the node; before, it ended the attempt with an error (recorded)",
        "pkg/scheduler/framework/plugins/dynamicresources",
    ),
    VersionRule(
        SELECTOR_ERRORS_EXPLAINED,
        "DynamicResources",
        _since("1.37.0"),
        "the error of a CEL selector names the device, with a hint if an attribute is absent; before, it did not",
        "#136709",
    ),
    VersionRule(
        TAINT_RULES_SELECT,
        "DynamicResources",
        _since("1.37.1"),
        "a DeviceTaintRule without a selector taints no device; before, it tainted every device",
        "#141648, #141998",
    ),
    VersionRule(
        POOLS_OF_SEVERAL_NODES,
        "DynamicResources",
        _since("1.35.0"),
        "slices for other nodes complete a pool of devices; before, a node whose slices were not the whole pool could"
        " not use it (recorded)",
        "staging/src/k8s.io/dynamic-resource-allocation/structured",
    ),
    VersionRule(
        ALL_IN_SUBREQUEST,
        "DynamicResources",
        _since("1.36.0"),
        "an alternative may ask for all devices; before, the allocator went on with the first alternative after each"
        " device, selected for the second one what the first one selects, and mostly rejected the node (recorded)",
        "#137347",
    ),
)
