"""The plugins that each beta version of KubeSchedulerConfiguration enables by default, and those removed since.

Each version is described as of the last release that served it: v1beta1 in v1.22, v1beta2 in v1.27, v1beta3 in v1.28.
Source: pkg/scheduler/apis/config/VERSION (default_plugins.go, defaults.go) and validation of those releases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

GROUP: Final = "kubescheduler.config.k8s.io"

# The limits of single in-tree drivers. NodeVolumeLimits counts their volumes since these are migrated to CSI, so the
# tables below leave them out.
IN_TREE_LIMITS: Final = ("EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits")

# v1beta1's scorers, and the strategy of NodeResourcesFit that each became.
SCORERS: Final = {
    "NodeResourcesLeastAllocated": "LeastAllocated",
    "NodeResourcesMostAllocated": "MostAllocated",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
}

# Its score came from an annotation of nodes that Kubernetes no longer has.
PREFER_AVOID_PODS: Final = "NodePreferAvoidPods"

# Plugins without a replacement, and upstream's advice.
UNREPLACED_PLUGINS: Final = {
    "NodeLabel": "use NodeAffinity's addedAffinity instead",
    "ServiceAffinity": "use InterPodAffinity instead",
    "SelectorSpread": "PodTopologySpread spreads by services and controllers without configuration",
}

REMOVED_IN_V1BETA2: Final = (*SCORERS, PREFER_AVOID_PODS, "NodeLabel", "ServiceAffinity")

# Points added to plugins since v1beta2, each with the point that it serves: (added, served, plugins).
ADDED_POINTS: Final = (
    ("preEnqueue", "postFilter", ("DefaultPreemption",)),
    ("preFilter", "filter", ("NodeVolumeLimits", "VolumeZone")),
    ("preScore", "score", ("NodeResourcesFit", "NodeResourcesBalancedAllocation")),
)

Weighted = tuple[tuple[str, int], ...]  # plugins and their weights; 0 if unspecified


@dataclass(frozen=True)
class LegacyVersion:
    """A beta version of KubeSchedulerConfiguration: its default plugins, and the fields that v1 added or removed.

    `defaults` maps an extension point, or only `multiPoint`, to the plugins that are enabled there with their weights.
    """

    name: str
    removed_in: str  # the first release of kube-scheduler that refuses it
    defaults: Mapping[str, Weighted]
    replaces_in_place: bool  # whether enabling a default plugin keeps its position
    later_fields: tuple[str, ...] = ()  # fields that v1 added, by path; `profiles.` means each profile
    dropped_fields: tuple[str, ...] = field(default=())  # fields that v1 removed


def _plugins(*names: str, weight: int = 0) -> Weighted:
    return tuple((name, weight) for name in names)


_FILTERS: Final = _plugins(
    *("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"),
    *("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity"),
)

# v1beta1 and v1beta2 differ by their scorers only. SchedulingGates came to v1beta2 with v1.27; v1beta1 gets it too,
# since the API server refuses to bind a pod that has gates.
_AT_POINTS: Final[Mapping[str, Weighted]] = {
    "preEnqueue": _plugins("SchedulingGates"),
    "queueSort": _plugins("PrioritySort"),
    "preFilter": _plugins(
        *("NodeResourcesFit", "NodePorts", "VolumeRestrictions", "PodTopologySpread", "InterPodAffinity"),
        *("VolumeBinding", "NodeAffinity"),
    ),
    "filter": _FILTERS,
    "postFilter": _plugins("DefaultPreemption"),
    "preScore": _plugins("InterPodAffinity", "PodTopologySpread", "TaintToleration", "NodeAffinity"),
    "reserve": _plugins("VolumeBinding"),
    "preBind": _plugins("VolumeBinding"),
    "bind": _plugins("DefaultBinder"),
}

_SCORES: Final = ("NodeResourcesBalancedAllocation", "ImageLocality", "InterPodAffinity")
_ADDRESSES: Final = ("healthzBindAddress", "metricsBindAddress")

V1BETA1: Final = LegacyVersion(
    name="v1beta1",
    removed_in="v1.23",
    defaults={
        **_AT_POINTS,
        "score": (
            *_plugins(*_SCORES, "NodeResourcesLeastAllocated", "NodeAffinity", weight=1),
            (PREFER_AVOID_PODS, 10000),
            ("PodTopologySpread", 2),
            ("TaintToleration", 1),
        ),
    },
    replaces_in_place=False,
    later_fields=(
        "delayCacheUntilActive",
        "profiles.percentageOfNodesToScore",
        "profiles.plugins.multiPoint",
        "profiles.plugins.preEnqueue",
    ),
    dropped_fields=_ADDRESSES,
)

V1BETA2: Final = LegacyVersion(
    name="v1beta2",
    removed_in="v1.28",
    defaults={
        **_AT_POINTS,
        "score": (
            *_plugins(*_SCORES, "NodeResourcesFit", "NodeAffinity", weight=1),
            ("PodTopologySpread", 2),
            ("TaintToleration", 1),
        ),
    },
    replaces_in_place=True,
    later_fields=("delayCacheUntilActive", "profiles.percentageOfNodesToScore", "profiles.plugins.multiPoint"),
    dropped_fields=_ADDRESSES,
)

V1BETA3: Final = LegacyVersion(
    name="v1beta3",
    removed_in="v1.29",
    defaults={
        "multiPoint": (
            *_plugins("PrioritySort", "NodeUnschedulable", "NodeName"),
            ("TaintToleration", 3),
            ("NodeAffinity", 2),
            ("NodePorts", 0),
            ("NodeResourcesFit", 1),
            *_plugins("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"),
            ("PodTopologySpread", 2),
            ("InterPodAffinity", 2),
            ("DefaultPreemption", 0),
            ("NodeResourcesBalancedAllocation", 1),
            ("ImageLocality", 1),
            *_plugins("DefaultBinder", "SchedulingGates"),
        )
    },
    replaces_in_place=True,
    later_fields=("delayCacheUntilActive", "profiles.percentageOfNodesToScore"),
)

LEGACY: Final[Mapping[str, LegacyVersion]] = {f"{GROUP}/{each.name}": each for each in (V1BETA1, V1BETA2, V1BETA3)}
