"""Converts the old Policy JSON (`policy.cfg`, `kind: Policy`) to a KubeSchedulerConfiguration of version v1.

Owns: the current name of each old name. Does not own: what the result means (the scheduler that reads it).

Source of the names: pkg/scheduler/framework/plugins/legacy_registry.go of Kubernetes v1.22, the last version with
policies. A name without a successor is left out with a note; an unknown name is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import msgspec

from herodotus_record.typed_decoding import decode_json

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"

PREDICATES: Final[dict[str, tuple[str, ...]]] = {
    "GeneralPredicates": ("NodeName", "NodePorts", "NodeAffinity", "NodeResourcesFit"),
    "PodFitsHostPorts": ("NodePorts",),
    "PodFitsPorts": ("NodePorts",),
    "PodFitsResources": ("NodeResourcesFit",),
    "HostName": ("NodeName",),
    "MatchNodeSelector": ("NodeAffinity",),
    "NoDiskConflict": ("VolumeRestrictions",),
    "NoVolumeZoneConflict": ("VolumeZone",),
    "MaxEBSVolumeCount": ("NodeVolumeLimits",),
    "MaxGCEPDVolumeCount": ("NodeVolumeLimits",),
    "MaxAzureDiskVolumeCount": ("NodeVolumeLimits",),
    "MaxCinderVolumeCount": ("NodeVolumeLimits",),
    "MaxCSIVolumeCountPred": ("NodeVolumeLimits",),
    "CheckVolumeBinding": ("VolumeBinding",),
    "PodToleratesNodeTaints": ("TaintToleration",),
    "CheckNodeUnschedulable": ("NodeUnschedulable",),
    "MatchInterPodAffinity": ("InterPodAffinity",),
    "EvenPodsSpread": ("PodTopologySpread",),
}
ALWAYS: Final = ("NodeUnschedulable", "TaintToleration")  # predicates that applied whatever the policy listed
PRIORITIES: Final[dict[str, str]] = {
    "LeastRequestedPriority": "NodeResourcesFit",
    "MostRequestedPriority": "NodeResourcesFit",
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    "InterPodAffinityPriority": "InterPodAffinity",
    "NodeAffinityPriority": "NodeAffinity",
    "TaintTolerationPriority": "TaintToleration",
    "ImageLocalityPriority": "ImageLocality",
    "EvenPodsSpreadPriority": "PodTopologySpread",
    "SelectorSpreadPriority": "PodTopologySpread",
    "ServiceSpreadingPriority": "PodTopologySpread",
}
WITHOUT_SUCCESSOR: Final = {
    "EqualPriority": "it gave every node the same",
    "NodePreferAvoidPodsPriority": "the annotation that it read is no more",
}


class PolicyError(Exception):
    """A file is not a valid Policy; the message names the place and the reason."""


class _Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base class of the parts of a Policy; unknown keys are errors."""


class _Named(_Struct, frozen=True):
    name: str
    weight: int = 0
    argument: dict[str, Any] | None = None


class _Extender(_Struct, frozen=True):
    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    enable_https: bool = False  # `enableHttps`, as policies spelt it
    tls_config: dict[str, Any] | None = None
    http_timeout: int = 0  # nanoseconds
    node_cache_capable: bool = False
    managed_resources: list[dict[str, Any]] | None = None
    ignorable: bool = False


class _Policy(_Struct, frozen=True):
    kind: str = ""
    api_version: str = ""
    predicates: list[_Named] | None = None
    priorities: list[_Named] | None = None
    extenders: list[_Extender] | None = None
    hard_pod_affinity_symmetric_weight: int | None = None
    always_check_all_predicates: bool = False


def convert(text: bytes, scheduler_name: str, note: Callable[[str], None]) -> dict[str, Any]:
    """Return the KubeSchedulerConfiguration that is equivalent to a Policy in JSON. Raises PolicyError if invalid.

    `note` is called with one line of text for each priority that is omitted because it has no successor.
    """
    try:
        policy = decode_json(text, _Policy)
    except msgspec.MsgspecError as e:
        raise PolicyError(str(e)) from e
    if policy.kind not in ("", "Policy"):
        raise PolicyError(f"kind: expected Policy, found {policy.kind}")
    profile: dict[str, Any] = {"schedulerName": scheduler_name}
    plugins = {}
    if policy.predicates is not None:
        plugins["filter"] = _only([{"name": name} for name in _filters(policy.predicates)])
    if policy.priorities is not None:
        plugins["score"] = _only(_scores(policy.priorities, note))
    if plugins:
        profile["plugins"] = plugins
    arguments = _arguments(policy)
    if arguments:
        profile["pluginConfig"] = arguments
    result: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
    if policy.extenders:
        result["extenders"] = [_extender(extender) for extender in policy.extenders]
    return result


def _only(enabled: list[dict[str, Any]]) -> dict[str, Any]:
    return {"disabled": [{"name": "*"}], "enabled": enabled}


def _filters(predicates: list[_Named]) -> list[str]:
    filters: list[str] = list(ALWAYS)
    for i, predicate in enumerate(predicates):
        if predicate.argument is not None:
            raise PolicyError(f"predicates[{i}].argument: configured predicates have no successor")
        if predicate.name not in PREDICATES:
            raise PolicyError(f"predicates[{i}].name: {predicate.name} is not known")
        filters += PREDICATES[predicate.name]
    return list(dict.fromkeys(filters))


def _scores(priorities: list[_Named], note: Callable[[str], None]) -> list[dict[str, Any]]:
    weights: dict[str, int] = {}
    for i, priority in enumerate(priorities):
        if priority.name in WITHOUT_SUCCESSOR:
            note(f"priorities[{i}]: {priority.name} left out: {WITHOUT_SUCCESSOR[priority.name]}")
        elif priority.argument is not None:
            raise PolicyError(f"priorities[{i}].argument: configured priorities have no successor")
        elif priority.name not in PRIORITIES:
            raise PolicyError(f"priorities[{i}].name: {priority.name} is not known")
        else:
            plugin = PRIORITIES[priority.name]
            weights[plugin] = weights.get(plugin, 0) + (priority.weight or 1)
    return [{"name": name, "weight": weight} for name, weight in weights.items()]


def _arguments(policy: _Policy) -> list[dict[str, Any]]:
    arguments: list[dict[str, Any]] = []
    named = {priority.name for priority in policy.priorities or ()}
    if {"LeastRequestedPriority", "MostRequestedPriority"} <= named:
        raise PolicyError("priorities: LeastRequestedPriority and MostRequestedPriority together have no successor")
    if "MostRequestedPriority" in named:
        resources = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
        strategy = {"scoringStrategy": {"type": "MostAllocated", "resources": resources}}
        arguments.append({"name": "NodeResourcesFit", "args": strategy})
    if policy.hard_pod_affinity_symmetric_weight is not None:
        weight = {"hardPodAffinityWeight": policy.hard_pod_affinity_symmetric_weight}
        arguments.append({"name": "InterPodAffinity", "args": weight})
    return arguments


def _extender(extender: _Extender) -> dict[str, Any]:
    """Return a Policy's extender as an entry of `extenders` in a KubeSchedulerConfiguration, without empty fields."""
    fields = {
        "urlPrefix": extender.url_prefix,
        "filterVerb": extender.filter_verb,
        "preemptVerb": extender.preempt_verb,
        "prioritizeVerb": extender.prioritize_verb,
        "bindVerb": extender.bind_verb,
        "weight": extender.weight if extender.prioritize_verb else 0,
        "enableHTTPS": extender.enable_https,
        "tlsConfig": extender.tls_config,
        "httpTimeout": f"{Decimal(extender.http_timeout) / 10**9:f}s" if extender.http_timeout else "",
        "nodeCacheCapable": extender.node_cache_capable,
        "managedResources": extender.managed_resources,
        "ignorable": extender.ignorable,
    }
    return {key: value for key, value in fields.items() if value}
