"""The policy file of the descheduler: `DeschedulerPolicy` of descheduler/v1alpha2.

    parse_policy(document) -> Policy

Owns: the fields, their defaults and validation. Does not own: what plugins do with their arguments.

Source: sigs.k8s.io/descheduler v0.36.0, pkg/api/v1alpha2, pkg/descheduler/policyconfig.go and the types.go, defaults.go
and validation.go of each plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from herodotus_record.typed_decoding import convert
from scheduler.engine.objects.selectors import InvalidSelectorError, parse_label_selector, validate_selector
from scheduler.engine.objects.times import parse_seconds
from scheduler.engine.objects.types import Int32, LabelSelector
from scheduler.engine.whatif.pods import PriorityClass

Json = dict[str, Any]

VERSION: Final = "v0.36.0"  # of the descheduler whose rules are followed
API_VERSION: Final = "descheduler/v1alpha2"
DEFAULT_EVICTOR: Final = "DefaultEvictor"
SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
DESCHEDULE, BALANCE = "deschedule", "balance"
HARD, SOFT = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
ONLY_THRESHOLDING: Final = "OnlyThresholdingResources"
# Plugins of the descheduler that look at statuses of containers, which the engine does not keep.
_NOT_EVALUATED: Final = ("PodLifeTime", "RemoveFailedPods", "RemovePodsHavingTooManyRestarts")
_DEFAULT_PROTECTIONS: Final = ("PodsWithLocalStorage", "SystemCriticalPods", "FailedBarePods", "DaemonSetPods")
WITHOUT_BUDGET: Final = "PodsWithoutPDB"  # a protection
# It starts no informer of budgets, so that its lister returns none. In a dry run the sandbox starts one.
_NO_BUDGETS: Final = (
    f"the descheduler {VERSION} reads no PodDisruptionBudget except with --dry-run, so that the protection"
    f" {WITHOUT_BUDGET} (ignorePodsWithoutPDB) protects every pod"
)
_EXTRA_PROTECTIONS: Final = ("PodsWithPVC", WITHOUT_BUDGET, "PodsWithResourceClaims")
_POLICY_FIELDS: Final = frozenset(
    {
        *("apiVersion", "kind", "profiles", "nodeSelector", "maxNoOfPodsToEvictPerNode", "maxNoOfPodsToEvictTotal"),
        *("maxNoOfPodsToEvictPerNamespace", "evictionFailureEventNotification", "metricsCollector"),
        *("metricsProviders", "gracePeriodSeconds"),
    }
)
_PROFILE_FIELDS: Final = frozenset({"name", "pluginConfig", "plugins"})
_EXTENSION_POINTS: Final = frozenset({"presort", "sort", "deschedule", "balance", "filter", "preevictionfilter"})


class DeschedulePolicyError(ValueError):
    """A policy that the descheduler refuses. The message names the profile and plugin."""


class _Struct(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    pass


class _Args(_Struct, forbid_unknown_fields=True, frozen=True):
    """Base class of arguments: the descheduler refuses fields that it does not know."""

    api_version: str = ""
    kind: str = ""


class NamespaceFilter(_Struct, forbid_unknown_fields=True, frozen=True):
    """The namespaces to which a plugin is limited, or which it leaves out."""

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def contain(self, namespace: str) -> bool:
        """Return whether the plugin looks at pods of the namespace."""
        return (not self.include or namespace in self.include) and namespace not in self.exclude


class PriorityThreshold(_Struct, forbid_unknown_fields=True, frozen=True):
    """A priority, or the name of a PriorityClass: pods of that priority or more are not evicted."""

    value: Int32 | None = None
    name: str = ""


class _StorageClassName(_Struct, forbid_unknown_fields=True, frozen=True):
    name: str


class _ProtectedClaims(_Struct, forbid_unknown_fields=True, frozen=True):
    protected_storage_classes: Sequence[_StorageClassName] = ()


class _ProtectionConfig(_Struct, forbid_unknown_fields=True, frozen=True):
    pods_with_claims: _ProtectedClaims = msgspec.field(name="PodsWithPVC", default=_ProtectedClaims())


class PodProtections(_Struct, forbid_unknown_fields=True, frozen=True):
    """The protections that are added to the default ones, or taken from them."""

    extra_enabled: Sequence[str] = ()
    default_disabled: Sequence[str] = ()
    config: _ProtectionConfig = _ProtectionConfig()


class DefaultEvictorArgs(_Args, frozen=True):
    """The arguments of the plugin DefaultEvictor."""

    node_selector: str = ""
    label_selector: LabelSelector | None = None
    namespace_label_selector: LabelSelector | None = None
    priority_threshold: PriorityThreshold = PriorityThreshold()
    node_fit: bool = False
    min_replicas: int = 0
    min_pod_age: str = ""
    no_eviction_policy: str = ""
    pod_protections: PodProtections = PodProtections()
    evict_local_storage_pods: bool = False
    evict_daemon_set_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    ignore_pods_without_pdb: bool = msgspec.field(name="ignorePodsWithoutPDB", default=False)
    evict_failed_bare_pods: bool = False

    def list_protections(self) -> frozenset[str]:
        """Return the names of the protections that apply."""
        chosen = self.pod_protections
        if chosen.extra_enabled or chosen.default_disabled:
            return frozenset(_DEFAULT_PROTECTIONS) - {*chosen.default_disabled} | {*chosen.extra_enabled}
        legacy = {
            "PodsWithLocalStorage": not self.evict_local_storage_pods,
            "DaemonSetPods": not self.evict_daemon_set_pods,
            "SystemCriticalPods": not self.evict_system_critical_pods,
            "FailedBarePods": not self.evict_failed_bare_pods,
            "PodsWithPVC": self.ignore_pvc_pods,
            WITHOUT_BUDGET: self.ignore_pods_without_pdb,
        }
        return frozenset(name for name, is_protected in legacy.items() if is_protected)


class _EvictionLimits(_Struct, forbid_unknown_fields=True, frozen=True):
    node: int | None = None


class LowNodeUtilizationArgs(_Args, frozen=True):
    """The arguments of the plugin LowNodeUtilization."""

    thresholds: Mapping[str, float] = {}
    target_thresholds: Mapping[str, float] = {}
    use_deviation_thresholds: bool = False
    number_of_nodes: int = 0
    metrics_utilization: Json | None = None
    evictable_namespaces: NamespaceFilter = NamespaceFilter()
    eviction_limits: _EvictionLimits = _EvictionLimits()


class HighNodeUtilizationArgs(_Args, frozen=True):
    """The arguments of the plugin HighNodeUtilization."""

    thresholds: Mapping[str, float] = {}
    number_of_nodes: int = 0
    eviction_modes: Sequence[str] = ()
    evictable_namespaces: NamespaceFilter = NamespaceFilter()


class RemoveDuplicatesArgs(_Args, frozen=True):
    """The arguments of the plugin RemoveDuplicates."""

    namespaces: NamespaceFilter = NamespaceFilter()
    exclude_owner_kinds: Sequence[str] = ()


class TopologySpreadArgs(_Args, frozen=True):
    """The arguments of the plugin RemovePodsViolatingTopologySpreadConstraint."""

    namespaces: NamespaceFilter = NamespaceFilter()
    label_selector: LabelSelector | None = None
    constraints: Sequence[str] = ()
    topology_balance_node_fit: bool = True


class NodeTaintsArgs(_Args, frozen=True):
    """The arguments of the plugin RemovePodsViolatingNodeTaints."""

    namespaces: NamespaceFilter = NamespaceFilter()
    label_selector: LabelSelector | None = None
    include_prefer_no_schedule: bool = False
    excluded_taints: Sequence[str] = ()
    included_taints: Sequence[str] | None = None


class AffinityViolationArgs(_Args, frozen=True):
    """The arguments of the plugin RemovePodsViolatingNodeAffinity."""

    namespaces: NamespaceFilter = NamespaceFilter()
    label_selector: LabelSelector | None = None
    node_affinity_type: Sequence[str] = ()


class InterPodAntiAffinityArgs(_Args, frozen=True):
    """The arguments of the plugin RemovePodsViolatingInterPodAntiAffinity."""

    namespaces: NamespaceFilter = NamespaceFilter()
    label_selector: LabelSelector | None = None


PluginArgs = (
    LowNodeUtilizationArgs
    | HighNodeUtilizationArgs
    | RemoveDuplicatesArgs
    | TopologySpreadArgs
    | NodeTaintsArgs
    | AffinityViolationArgs
    | InterPodAntiAffinityArgs
)
# The arguments of each plugin that is evaluated, and its extension point.
PLUGINS: Final[Mapping[str, tuple[type[PluginArgs], str]]] = {
    "LowNodeUtilization": (LowNodeUtilizationArgs, BALANCE),
    "HighNodeUtilization": (HighNodeUtilizationArgs, BALANCE),
    "RemoveDuplicates": (RemoveDuplicatesArgs, BALANCE),
    "RemovePodsViolatingTopologySpreadConstraint": (TopologySpreadArgs, BALANCE),
    "RemovePodsViolatingNodeTaints": (NodeTaintsArgs, DESCHEDULE),
    "RemovePodsViolatingNodeAffinity": (AffinityViolationArgs, DESCHEDULE),
    "RemovePodsViolatingInterPodAntiAffinity": (InterPodAntiAffinityArgs, DESCHEDULE),
}


class _PluginConfig(_Struct, frozen=True):
    name: str
    args: Json = {}


class _PluginSet(_Struct, frozen=True):
    enabled: Sequence[str] = ()
    disabled: Sequence[str] = ()


class _Plugins(_Struct, frozen=True):
    deschedule: _PluginSet = _PluginSet()
    balance: _PluginSet = _PluginSet()
    filter: _PluginSet = _PluginSet()
    preevictionfilter: _PluginSet = _PluginSet()


class _Profile(_Struct, frozen=True):
    name: str = ""
    plugin_config: Sequence[_PluginConfig] = ()
    plugins: _Plugins = _Plugins()


class _Policy(_Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    profiles: Sequence[_Profile] = ()
    node_selector: str = ""
    max_no_of_pods_to_evict_per_node: int | None = None
    max_no_of_pods_to_evict_per_namespace: int | None = None
    max_no_of_pods_to_evict_total: int | None = None


@dataclass(frozen=True)
class DeschedulerProfile:
    """A profile: its DefaultEvictor, and its plugins in order; the arguments of a plugin are None if it is left out."""

    name: str
    evictor: DefaultEvictorArgs
    deschedule: tuple[tuple[str, PluginArgs | None], ...]
    balance: tuple[tuple[str, PluginArgs | None], ...]


@dataclass(frozen=True)
class Policy:
    """A valid policy. `notes` say which of its parts are not evaluated."""

    profiles: tuple[DeschedulerProfile, ...]
    node_selector: LabelSelector
    per_node: int | None
    per_namespace: int | None
    total: int | None
    notes: list[str] = field(default_factory=list)


def parse_policy(document: Json) -> Policy:
    """Return the policy in a document. Raises DeschedulePolicyError if the descheduler refuses it."""
    cleaned = _drop_nulls(document)
    parsed: _Policy = _convert(cleaned, _Policy, "policy")
    if (parsed.api_version, parsed.kind) != (API_VERSION, "DeschedulerPolicy"):
        given = f"{parsed.api_version or 'no apiVersion'} {parsed.kind or 'without kind'}"
        raise DeschedulePolicyError(f"policy: expected {API_VERSION} DeschedulerPolicy, got {given}")
    notes = [f"the descheduler {VERSION} ignores the unknown field {name}" for name in _list_unknown_fields(cleaned)]
    return Policy(
        tuple(_parse_profile(profile, notes) for profile in parsed.profiles),
        _parse_selector(parsed.node_selector, "nodeSelector"),
        parsed.max_no_of_pods_to_evict_per_node,
        parsed.max_no_of_pods_to_evict_per_namespace,
        parsed.max_no_of_pods_to_evict_total,
        notes,
    )


def find_priority_threshold(args: DefaultEvictorArgs, classes: Mapping[str, PriorityClass] | None) -> int:
    """Return the priority from which on pods are not evicted.

    Raises DeschedulePolicyError if its PriorityClass does not exist, or if it is larger than that of system-critical
    pods.
    """
    threshold = args.priority_threshold
    if threshold.value is None and not threshold.name:
        return SYSTEM_CRITICAL_PRIORITY
    value = threshold.value
    if value is None:
        found = (classes or {}).get(threshold.name)
        if found is None:
            raise DeschedulePolicyError(
                f'priorityThreshold: priorityclasses.scheduling.k8s.io "{threshold.name}" not found'
            )
        value = found.value
    if value > SYSTEM_CRITICAL_PRIORITY:
        raise DeschedulePolicyError(
            f"priorityThreshold: priority threshold can't be greater than {SYSTEM_CRITICAL_PRIORITY}"
        )
    return value


def _parse_profile(profile: _Profile, notes: list[str]) -> DeschedulerProfile:
    path = f"profile {profile.name}"
    configs: dict[str, _PluginConfig] = {}
    for config in profile.plugin_config:
        configs.setdefault(config.name, config)  # the descheduler takes the first
    default = configs.get(DEFAULT_EVICTOR)
    evictor: DefaultEvictorArgs = _convert(
        default.args if default else {}, DefaultEvictorArgs, f"{path}: {DEFAULT_EVICTOR}"
    )
    _check_evictor(evictor, f"{path}: {DEFAULT_EVICTOR}")
    if WITHOUT_BUDGET in evictor.list_protections():
        notes.append(f"{path}: {_NO_BUDGETS}")
    plugins = profile.plugins
    for point in (plugins.filter, plugins.preevictionfilter):
        notes += [
            f"{path}: the filter plugin {name} is not evaluated" for name in point.enabled if name != DEFAULT_EVICTOR
        ]
    return DeschedulerProfile(
        profile.name,
        evictor,
        _parse_plugins(plugins.deschedule.enabled, DESCHEDULE, configs, path, notes),
        _parse_plugins(plugins.balance.enabled, BALANCE, configs, path, notes),
    )


def _parse_plugins(
    enabled: Sequence[str], point: str, configs: Mapping[str, _PluginConfig], path: str, notes: list[str]
) -> tuple[tuple[str, PluginArgs | None], ...]:
    plugins: list[tuple[str, PluginArgs | None]] = []
    for name in enabled:
        if name in PLUGINS and PLUGINS[name][1] != point:
            raise DeschedulePolicyError(f"{path}: {name} is a {PLUGINS[name][1]} plugin, and enabled for {point}")
        if name not in configs:
            raise DeschedulePolicyError(f"{path}: unable to find {name} plugin config: add it to pluginConfig")
        args = _parse_args(name, configs[name], path, notes)
        if args is None and name in PLUGINS:
            notes.append(f"{path}: {name} is not evaluated, because metricsUtilization reads metrics of actual use")
        elif args is None:
            own = (
                "is not evaluated"
                if name in _NOT_EVALUATED
                else f"is no plugin of the descheduler {VERSION}: not evaluated"
            )
            notes.append(f"{path}: {name} {own}")
        plugins.append((name, args))
    return tuple(plugins)


def _parse_args(name: str, config: _PluginConfig, path: str, notes: list[str]) -> PluginArgs | None:
    """Return a plugin's arguments, or None if it is not evaluated."""
    if name not in PLUGINS:
        return None
    path = f"{path}: {name}"
    args: PluginArgs = _convert(config.args, PLUGINS[name][0], path)
    match args:
        case LowNodeUtilizationArgs():
            _check_thresholds(args.thresholds, f"{path}: thresholds")
            _check_thresholds(args.target_thresholds, f"{path}: targetThresholds")
            _check_targets(args, path)
            _check_excluded_only(args.evictable_namespaces, path)
            if args.metrics_utilization is not None:
                return None
        case HighNodeUtilizationArgs():
            _check_excluded_only(args.evictable_namespaces, path)
            _check_thresholds(args.thresholds, f"{path}: thresholds")
            _check_values(args.eviction_modes, (ONLY_THRESHOLDING,), f"{path}: evictionModes")
        case RemoveDuplicatesArgs():
            _check_namespaces(args.namespaces, path)
        case TopologySpreadArgs():
            _check_scope(args.namespaces, args.label_selector, path)
            _check_values(args.constraints, ("DoNotSchedule", "ScheduleAnyway"), f"{path}: constraints")
        case NodeTaintsArgs():
            _check_scope(args.namespaces, args.label_selector, path)
            if args.excluded_taints and args.included_taints:
                raise DeschedulePolicyError(f"{path}: either includedTaints or excludedTaints can be set, but not both")
        case AffinityViolationArgs():
            _check_scope(args.namespaces, args.label_selector, path)
            if not args.node_affinity_type:
                raise DeschedulePolicyError(f"{path}: nodeAffinityType needs to be set")
            notes += [
                f"{path}: the descheduler {VERSION} ignores the unknown nodeAffinityType {each}"
                for each in args.node_affinity_type
                if each not in (HARD, SOFT)
            ]
        case InterPodAntiAffinityArgs():
            _check_scope(args.namespaces, args.label_selector, path)
    return args


def _check_evictor(args: DefaultEvictorArgs, path: str) -> None:
    if args.priority_threshold.value is not None and args.priority_threshold.name:
        raise DeschedulePolicyError(f"{path}: only one of priorityThreshold fields can be set")
    _check_values(
        [args.no_eviction_policy] * bool(args.no_eviction_policy),
        ("Preferred", "Mandatory"),
        f"{path}: noEvictionPolicy",
    )
    chosen = args.pod_protections
    if chosen.extra_enabled or chosen.default_disabled:
        deprecated = (args.evict_local_storage_pods, args.evict_daemon_set_pods, args.evict_system_critical_pods)
        if any((*deprecated, args.ignore_pvc_pods, args.ignore_pods_without_pdb, args.evict_failed_bare_pods)):
            raise DeschedulePolicyError(f"{path}: cannot use deprecated fields alongside podProtections")
        _check_values(chosen.extra_enabled, _EXTRA_PROTECTIONS, f"{path}: podProtections.extraEnabled")
        _check_values(chosen.default_disabled, _DEFAULT_PROTECTIONS, f"{path}: podProtections.defaultDisabled")
        for values in (chosen.extra_enabled, chosen.default_disabled):
            if len({*values}) < len(values):
                raise DeschedulePolicyError(f"{path}: podProtections contains duplicate entries")
    for name, selector in (
        ("labelSelector", args.label_selector),
        ("namespaceLabelSelector", args.namespace_label_selector),
    ):
        _check_selector(selector, f"{path}: {name}")
    _parse_selector(args.node_selector, f"{path}: nodeSelector")
    if args.min_pod_age:
        try:
            parse_seconds(args.min_pod_age)
        except ValueError as e:
            raise DeschedulePolicyError(f"{path}: minPodAge: {e}") from e


def _check_thresholds(thresholds: Mapping[str, float], path: str) -> None:
    if not thresholds:
        raise DeschedulePolicyError(f"{path}: no resource threshold is configured")
    for name, percent in thresholds.items():
        if not 0 <= percent <= 100:
            raise DeschedulePolicyError(f"{path}: {name} threshold not in [0, 100] range")


def _check_targets(args: LowNodeUtilizationArgs, path: str) -> None:
    if args.thresholds.keys() != args.target_thresholds.keys():
        raise DeschedulePolicyError(f"{path}: thresholds and targetThresholds configured different resources")
    for name, low in args.thresholds.items():
        if low > args.target_thresholds[name] and not args.use_deviation_thresholds:
            raise DeschedulePolicyError(f"{path}: thresholds' {name} percentage is greater than targetThresholds'")


def _check_scope(namespaces: NamespaceFilter, selector: LabelSelector | None, path: str) -> None:
    _check_namespaces(namespaces, path)
    _check_selector(selector, f"{path}: labelSelector")


def _check_namespaces(namespaces: NamespaceFilter, path: str) -> None:
    if namespaces.include and namespaces.exclude:
        raise DeschedulePolicyError(f"{path}: only one of Include/Exclude namespaces can be set")


def _check_excluded_only(namespaces: NamespaceFilter, path: str) -> None:
    if namespaces.include:
        raise DeschedulePolicyError(f"{path}: only Exclude namespaces can be set, inclusion is not supported")


def _check_selector(selector: LabelSelector | None, path: str) -> None:
    try:
        validate_selector(selector)
    except InvalidSelectorError as e:
        raise DeschedulePolicyError(f"{path}: {e}") from e


def _check_values(values: Iterable[str], allowed: Sequence[str], path: str) -> None:
    for value in values:
        if value not in allowed:
            raise DeschedulePolicyError(f"{path}: expected {', '.join(allowed)}, got {value!r}")


def _parse_selector(text: str, path: str) -> LabelSelector:
    try:
        return parse_label_selector(text)
    except InvalidSelectorError as e:
        raise DeschedulePolicyError(f"{path}: {e}") from e


def _convert(value: object, type_: Any, path: str) -> Any:
    try:
        return convert(value, type_)
    except msgspec.ValidationError as e:
        raise DeschedulePolicyError(f"{path}: {e}") from e


def _drop_nulls(value: Any) -> Any:
    """Return the value without null fields, which Go decodes as absent ones."""
    if isinstance(value, dict):
        return {key: _drop_nulls(each) for key, each in value.items() if each is not None}
    return [_drop_nulls(each) for each in value] if isinstance(value, list) else value


def _list_unknown_fields(document: Json) -> list[str]:
    """Return the paths of the fields outside of plugins' arguments that the descheduler does not know."""
    unknown = [name for name in document if name not in _POLICY_FIELDS]
    for number, profile in enumerate(document.get("profiles", ())):
        path = f"profiles[{number}]"
        unknown += [f"{path}.{name}" for name in profile if name not in _PROFILE_FIELDS]
        unknown += [f"{path}.plugins.{name}" for name in profile.get("plugins", {}) if name not in _EXTENSION_POINTS]
    return unknown
