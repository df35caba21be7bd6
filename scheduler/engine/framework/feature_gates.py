"""The feature gates of kube-scheduler: the declaration of each that touches scheduling, and the values of a process.

    --feature-gates, featureGates  ->  parse_feature_gates  ->  FeatureGates.from_settings  ->  Profile, plugins, queue

Owns: names, defaults, stages, dependencies, and which values this scheduler supports. Does not own: what a gate
switches, which the plugins and the stages of an attempt decide by `FeatureGates.enabled`.

Source: pkg/features/kube_features.go and component-base/featuregate v1.36. `docs/parity.md` has a table of this
declaration.

Invariant: a value that this scheduler does not support is refused by the name of its gate, never ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final

COMPONENT: Final = "kube"  # the component of kube-scheduler's gates, which may prefix them in --feature-gates
ALL_ALPHA, ALL_BETA = "AllAlpha", "AllBeta"
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")  # what Go's strconv.ParseBool accepts
_FALSE: Final = ("0", "f", "F", "FALSE", "false", "False")


class FeatureGateError(ValueError):
    """An invalid or unsupported setting of feature gates. The message is kube-scheduler's where it refuses it too."""


class Stage(Enum):
    """The maturity of a feature in v1.36."""

    ALPHA = "alpha"
    BETA = "beta"
    GA = "GA"


class Support(Enum):
    """Which values of a gate this scheduler supports."""

    BOTH = "both values"
    NO_EFFECT = "both values, without effect"  # no decision depends on the gate in this process
    DEFAULT = "its default only"  # the other value is refused


@dataclass(frozen=True)
class FeatureGate:
    """One feature gate of v1.36. `effect` says what it switches, and `needs` names gates that must be on with it.

    kube-scheduler refuses another value than the default of a gate that is `locked`.
    """

    name: str
    default: bool
    stage: Stage
    support: Support
    effect: str
    needs: tuple[str, ...] = ()
    locked: bool = False


# The gates that code asks for.
ASYNC_PREEMPTION: Final = "SchedulerAsyncPreemption"
POP_FROM_BACKOFF: Final = "SchedulerPopFromBackoffQ"
NOMINATION_FOR_EXPECTATION: Final = "NominatedNodeNameForExpectation"
BATCHING: Final = "OpportunisticBatching"
DECLARED_FEATURES: Final = "NodeDeclaredFeatures"
COMPARISON_OPERATORS: Final = "TaintTolerationComparisonOperators"
MATCH_LABEL_KEYS: Final = "MatchLabelKeysInPodTopologySpread"
PRIORITIZED_LIST: Final = "DRAPrioritizedList"
EXTENDED_RESOURCE: Final = "DRAExtendedResource"
CONSUMABLE_CAPACITY: Final = "DRAConsumableCapacity"
PARTITIONABLE_DEVICES: Final = "DRAPartitionableDevices"
DEVICE_TAINTS: Final = "DRADeviceTaints"
CLAIM_DEVICE_STATUS: Final = "DRAResourceClaimDeviceStatus"
BINDING_CONDITIONS: Final = "DRADeviceBindingConditions"
FILTER_TIMEOUT: Final = "DRASchedulerFilterTimeout"
GROUP_CLAIMS: Final = "DRAWorkloadResourceClaims"
GENERIC_WORKLOAD: Final = "GenericWorkload"
GANG_SCHEDULING: Final = "GangScheduling"
TOPOLOGY_AWARE: Final = "TopologyAwareWorkloadScheduling"
WORKLOAD_PREEMPTION: Final = "WorkloadAwarePreemption"

_DRA: Final = "DynamicResourceAllocation"

FEATURE_GATES: Final = (
    # the queue and the cycle
    FeatureGate(ASYNC_PREEMPTION, True, Stage.BETA, Support.BOTH, "victims are deleted while other pods are scheduled"),
    FeatureGate(
        POP_FROM_BACKOFF, True, Stage.BETA, Support.BOTH, "a pod leaves backoff early if the active queue is empty"
    ),
    FeatureGate(
        "SchedulerAsyncAPICalls",
        False,
        Stage.BETA,
        Support.NO_EFFECT,
        "requests do not block the scheduling loop, which here they never do",
    ),
    FeatureGate(
        NOMINATION_FOR_EXPECTATION,
        True,
        Stage.BETA,
        Support.BOTH,
        "`status.nominatedNodeName` is set before PreBind and while a pod waits on Permit",
    ),
    FeatureGate(
        BATCHING,
        True,
        Stage.BETA,
        Support.NO_EFFECT,
        "equal pods share one ranking of nodes: never here; off, the observer does not expect it either",
    ),
    FeatureGate(
        "SchedulerQueueingHints",
        True,
        Stage.GA,
        Support.DEFAULT,
        "plugins decide which events retry a pod",
        locked=True,
    ),
    FeatureGate(
        "PodSchedulingReadiness", True, Stage.GA, Support.DEFAULT, "pods with scheduling gates wait", locked=True
    ),
    FeatureGate(
        "ClearingNominatedNodeNameAfterBinding",
        True,
        Stage.BETA,
        Support.NO_EFFECT,
        "the API server clears `status.nominatedNodeName` with the binding",
    ),
    FeatureGate(
        "CoordinatedLeaderElection", False, Stage.BETA, Support.DEFAULT, "the leader is chosen among LeaseCandidates"
    ),
    # nodes
    FeatureGate(
        DECLARED_FEATURES,
        True,
        Stage.BETA,
        Support.BOTH,
        "the plugin NodeDeclaredFeatures, and the events of declared features",
    ),
    FeatureGate(
        "ExtendWebSocketsToKubelet",
        True,
        Stage.BETA,
        Support.NO_EFFECT,
        "a declared feature of kubelets",
        (DECLARED_FEATURES,),
    ),
    FeatureGate(
        "RestartAllContainersOnContainerExits",
        True,
        Stage.BETA,
        Support.NO_EFFECT,
        "the API server accepts the action RestartAllContainers",
        (DECLARED_FEATURES,),
    ),
    FeatureGate(
        "UserNamespacesHostNetworkSupport",
        False,
        Stage.ALPHA,
        Support.NO_EFFECT,
        "the API server accepts `hostUsers: false` with `hostNetwork`",
        (DECLARED_FEATURES,),
    ),
    FeatureGate(COMPARISON_OPERATORS, False, Stage.ALPHA, Support.BOTH, "tolerations with the operators `Lt` and `Gt`"),
    # resources of pods
    FeatureGate(
        "PodLevelResources", True, Stage.BETA, Support.DEFAULT, "`spec.resources` replaces the sum over the containers"
    ),
    FeatureGate(
        "InPlacePodVerticalScaling",
        True,
        Stage.GA,
        Support.DEFAULT,
        "a resize in progress counts with its largest amounts",
        locked=True,
    ),
    FeatureGate(
        "InPlacePodLevelResourcesVerticalScaling",
        True,
        Stage.BETA,
        Support.NO_EFFECT,
        "the API server serves the pod's `status.resources`, which then counts during a resize",
        ("InPlacePodVerticalScaling", "PodLevelResources", DECLARED_FEATURES),
    ),
    FeatureGate(
        "InPlacePodVerticalScalingInitContainers",
        True,
        Stage.BETA,
        Support.NO_EFFECT,
        "the API server accepts a resize of init containers",
        ("InPlacePodVerticalScaling", DECLARED_FEATURES),
    ),
    FeatureGate(
        "SidecarContainers",
        True,
        Stage.GA,
        Support.DEFAULT,
        "restartable init containers count as running",
        locked=True,
    ),
    # topology
    FeatureGate(MATCH_LABEL_KEYS, True, Stage.BETA, Support.BOTH, "`matchLabelKeys` of spread constraints"),
    FeatureGate(
        "MatchLabelKeysInPodTopologySpreadSelectorMerge",
        True,
        Stage.BETA,
        Support.NO_EFFECT,
        "the API server merges `matchLabelKeys` into the selector",
        (MATCH_LABEL_KEYS,),
    ),
    FeatureGate(
        "MatchLabelKeysInPodAffinity",
        True,
        Stage.GA,
        Support.DEFAULT,
        "the API server merges `matchLabelKeys` of pod affinity",
        locked=True,
    ),
    FeatureGate(
        "NodeInclusionPolicyInPodTopologySpread",
        True,
        Stage.GA,
        Support.DEFAULT,
        "node affinity and taint policies of spread constraints",
        locked=True,
    ),
    # volumes
    FeatureGate(
        "StorageCapacityScoring", False, Stage.ALPHA, Support.DEFAULT, "VolumeBinding scores by the capacity of storage"
    ),
    FeatureGate(
        "VolumeLimitScaling", False, Stage.ALPHA, Support.DEFAULT, "a node without the volume's CSI driver is rejected"
    ),
    FeatureGate(
        "MutableCSINodeAllocatableCount",
        True,
        Stage.GA,
        Support.DEFAULT,
        "a node's volume limits may change",
        locked=True,
    ),
    FeatureGate(
        "VolumeAttributesClass",
        True,
        Stage.GA,
        Support.DEFAULT,
        "a claim matches volumes of its attributes class",
        locked=True,
    ),
    # devices
    FeatureGate(_DRA, True, Stage.GA, Support.DEFAULT, "the plugin DynamicResources", locked=True),
    FeatureGate("DRAAdminAccess", True, Stage.GA, Support.DEFAULT, "requests with `adminAccess`", (_DRA,), locked=True),
    FeatureGate(PRIORITIZED_LIST, True, Stage.GA, Support.BOTH, "requests with `firstAvailable`", (_DRA,)),
    FeatureGate(EXTENDED_RESOURCE, True, Stage.BETA, Support.BOTH, "extended resources of a DeviceClass", (_DRA,)),
    FeatureGate(CONSUMABLE_CAPACITY, True, Stage.BETA, Support.BOTH, "devices that several claims share", (_DRA,)),
    FeatureGate(PARTITIONABLE_DEVICES, True, Stage.BETA, Support.BOTH, "devices that consume shared counters", (_DRA,)),
    FeatureGate(DEVICE_TAINTS, True, Stage.BETA, Support.BOTH, "taints of devices", (_DRA,)),
    FeatureGate("DRADeviceTaintRules", False, Stage.BETA, Support.DEFAULT, "DeviceTaintRule objects", (DEVICE_TAINTS,)),
    FeatureGate(
        CLAIM_DEVICE_STATUS, True, Stage.BETA, Support.BOTH, "the status of allocated devices, for binding conditions"
    ),
    FeatureGate(
        BINDING_CONDITIONS,
        True,
        Stage.BETA,
        Support.BOTH,
        "PreBind waits for binding conditions of devices",
        (_DRA, CLAIM_DEVICE_STATUS),
    ),
    FeatureGate(
        "DRAResourceClaimGranularStatusAuthorization",
        True,
        Stage.BETA,
        Support.NO_EFFECT,
        "the API server authorizes writes to parts of a claim's status",
        (_DRA, CLAIM_DEVICE_STATUS),
    ),
    FeatureGate(FILTER_TIMEOUT, True, Stage.BETA, Support.BOTH, "a limit for the search on one node", (_DRA,)),
    FeatureGate(
        "DRAListTypeAttributes", False, Stage.ALPHA, Support.DEFAULT, "attributes of devices that are lists", (_DRA,)
    ),
    FeatureGate(
        "DRANodeAllocatableResources",
        False,
        Stage.ALPHA,
        Support.DEFAULT,
        "devices that count as cpu or memory of a node",
        (_DRA,),
    ),
    FeatureGate(
        GROUP_CLAIMS,
        False,
        Stage.ALPHA,
        Support.BOTH,
        "claims that the pods of a group share",
        (_DRA, GENERIC_WORKLOAD),
    ),
    # pod groups
    FeatureGate(
        GENERIC_WORKLOAD, False, Stage.ALPHA, Support.BOTH, "PodGroup objects and the scheduling cycle of a group"
    ),
    FeatureGate(
        GANG_SCHEDULING,
        False,
        Stage.ALPHA,
        Support.BOTH,
        "the plugin GangScheduling: at least `minCount` pods of a group or none",
        (GENERIC_WORKLOAD,),
    ),
    FeatureGate(
        TOPOLOGY_AWARE,
        False,
        Stage.ALPHA,
        Support.BOTH,
        "the topology constraint of a group: its pods are placed in one domain",
        (GENERIC_WORKLOAD,),
    ),
    FeatureGate(
        WORKLOAD_PREEMPTION,
        False,
        Stage.ALPHA,
        Support.BOTH,
        "victims are chosen for a group as a whole, and groups are evicted as a whole",
        (GANG_SCHEDULING,),
    ),
    FeatureGate(
        "WorkloadWithJob",
        False,
        Stage.ALPHA,
        Support.NO_EFFECT,
        "the Job controller creates Workload and PodGroup objects",
        (GENERIC_WORKLOAD,),
    ),
)
_BY_NAME: Final = {gate.name: gate for gate in FEATURE_GATES}


def parse_feature_gates(text: str) -> dict[str, bool]:
    """Return the gates in a value of `--feature-gates`, such as `A=true,kube:B=false`, with their values.

    Raise FeatureGateError if the text is malformed or names another component. Whether the gates exist is not checked.
    """
    found: dict[str, bool] = {}
    prefixes: set[str] = set()
    for entry in filter(None, text.split(",")):
        component, colon, setting = entry.partition(":")
        prefixes.add(component.strip() if colon else "")
        name, equals, value = (part.strip() for part in (setting if colon else entry).partition("="))
        if colon and component.strip() != COMPONENT:
            raise FeatureGateError(f"component not registered: {component.strip()}")
        if not equals:
            raise FeatureGateError(f"missing bool value for {name}")
        if value not in _TRUE + _FALSE:
            error = f'strconv.ParseBool: parsing "{value}": invalid syntax'
            raise FeatureGateError(f"invalid value of {name}={value}, err: {error}")
        found[name] = value in _TRUE
    if len(prefixes) > 1:
        raise FeatureGateError(
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
        )
    return found


@dataclass(frozen=True)
class FeatureGates:
    """The value of each feature gate in one process."""

    values: Mapping[str, bool] = field(
        default_factory=lambda: MappingProxyType({gate.name: gate.default for gate in FEATURE_GATES})
    )

    @classmethod
    def from_settings(cls, settings: Mapping[str, bool]) -> FeatureGates:
        """Return the gates with these values, and the others with their defaults.

        AllAlpha and AllBeta set the gates of their stage that `settings` does not name. Raise FeatureGateError for
        every setting that kube-scheduler refuses, or that this scheduler does not support.
        """
        _raise_any(_find_refused(settings))
        values = {gate.name: gate.default for gate in FEATURE_GATES}
        for name, stage in ((ALL_ALPHA, Stage.ALPHA), (ALL_BETA, Stage.BETA)):
            if name in settings:
                values |= {gate.name: settings[name] for gate in FEATURE_GATES if gate.stage is stage}
        values |= {name: value for name, value in settings.items() if name in _BY_NAME}
        _raise_any(_find_missing_dependencies(values))
        _raise_any(_find_unsupported(values))
        return cls(MappingProxyType(values))

    def enabled(self, name: str) -> bool:
        """Return whether the gate is on. Raise KeyError for a gate that is not declared."""
        return self.values[name]


DEFAULT_GATES: Final = FeatureGates()


def select_declared(settings: Mapping[str, bool]) -> dict[str, bool]:
    """Return the settings of gates that touch scheduling, for a command line of kube-scheduler, which knows others."""
    return {name: value for name, value in settings.items() if name in _BY_NAME or name in (ALL_ALPHA, ALL_BETA)}


def _find_refused(settings: Mapping[str, bool]) -> Iterator[str]:
    for name, value in settings.items():
        gate = _BY_NAME.get(name)
        if gate is None and name not in (ALL_ALPHA, ALL_BETA):
            yield f"unrecognized feature gate: {name}"
        elif gate is not None and gate.locked and value is not gate.default:
            yield f"cannot set feature gate {name} to {_go(value)}, feature is locked to {_go(gate.default)}"


def _find_missing_dependencies(values: Mapping[str, bool]) -> Iterator[str]:
    for gate in FEATURE_GATES:
        off = [name for name in gate.needs if values[gate.name] and not values[name]]
        if off:
            yield f"{gate.name} is enabled, but depends on features that are disabled: [{' '.join(sorted(off))}]"


def _find_unsupported(values: Mapping[str, bool]) -> Iterator[str]:
    for gate in FEATURE_GATES:
        value = values[gate.name]
        if gate.support is Support.DEFAULT and value is not gate.default:
            yield f"cannot set feature gate {gate.name} to {_go(value)}, only {_go(gate.default)} is built here"


def _raise_any(errors: Iterator[str]) -> None:
    found = list(errors)
    if found:
        raise FeatureGateError(found[0] if len(found) == 1 else f"[{', '.join(found)}]")


def _go(value: bool) -> str:
    return "true" if value else "false"
