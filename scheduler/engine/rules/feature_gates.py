"""The feature gates of kube-scheduler: the declaration of each that touches scheduling, with its history.

    --feature-gates, featureGates  ->  parse_feature_gates  ->  Rules.from_settings  ->  Profile, plugins, queue

Owns: names, the default and the stage in each version, dependencies, and which values this scheduler supports. Does not
own: what a gate switches, which the plugins and the stages of an attempt decide by `Rules.enabled`.

Source: pkg/features/kube_features.go v1.36, pkg/scheduler/features v1.37, and the defaults that the programs of v1.31
to v1.36 report. `docs/parity.md` has a table of this declaration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from herodotus_record.kubernetes_version import NEWEST_MINOR, OLDEST_MINOR

COMPONENT: Final = "kube"  # the component of kube-scheduler's gates, which may prefix them in --feature-gates
ALL_ALPHA, ALL_BETA = "AllAlpha", "AllBeta"
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")  # what Go's strconv.ParseBool accepts
_FALSE: Final = ("0", "f", "F", "FALSE", "false", "False")


class FeatureGateError(ValueError):
    """An invalid or unsupported setting of feature gates. The message is kube-scheduler's where it refuses it too."""


class Stage(Enum):
    """The maturity of a feature in one version."""

    ALPHA = "alpha"
    BETA = "beta"
    GA = "GA"
    REMOVED = "removed"


class Support(Enum):
    """Which values of a gate this scheduler supports.

    An older version in which a gate is off by default needs no support for that: its API server drops the fields that
    the gate adds.
    """

    BOTH = "both values"
    NO_EFFECT = "both values, without effect"  # no decision depends on the gate in this process
    ON = "on"
    OFF = "off"


@dataclass(frozen=True)
class GateState:
    """A gate from the minor version `minor` on: its stage and default, and whether its default is locked."""

    minor: int
    stage: Stage
    default: bool
    locked: bool = False


def alpha(minor: int) -> GateState:
    """Return the state of a gate that is alpha, and off by default, since v1.`minor`."""
    return GateState(minor, Stage.ALPHA, False)


def beta(minor: int) -> GateState:
    """Return the state of a gate that is beta, and on by default, since v1.`minor`."""
    return GateState(minor, Stage.BETA, True)


def beta_off(minor: int) -> GateState:
    """Return the state of a gate that is beta, and off by default, since v1.`minor`."""
    return GateState(minor, Stage.BETA, False)


def ga(minor: int) -> GateState:
    """Return the state of a gate that is GA, and can still be switched off, since v1.`minor`."""
    return GateState(minor, Stage.GA, True)


def locked(minor: int) -> GateState:
    """Return the state of a gate that is GA and locked to on since v1.`minor`."""
    return GateState(minor, Stage.GA, True, locked=True)


def removed(minor: int) -> GateState:
    """Return the state of a gate that kube-scheduler does not know any more from v1.`minor` on."""
    return GateState(minor, Stage.REMOVED, False)


@dataclass(frozen=True)
class FeatureGate:
    """One feature gate, with its states from the oldest to the newest.

    `effect` says what it switches, and `needs` names gates that must be on with it. kube-scheduler refuses another
    value than the default of a gate that is locked. This scheduler supports the value "on" only from v1.`on_since` to
    v1.`on_until`.
    """

    name: str
    history: tuple[GateState, ...]
    support: Support
    effect: str
    needs: tuple[str, ...] = ()
    on_since: int = OLDEST_MINOR
    on_until: int = NEWEST_MINOR

    def is_built_for_some(self, value: bool) -> bool:
        """Return whether this scheduler supports this value of the gate for at least one version's rules."""
        return self.support is not (Support.OFF if value else Support.ON)

    def format_support(self) -> str:
        """Return as text which values of the gate this scheduler supports, and for which versions."""
        since = f" since v1.{self.on_since}" if self.on_since > OLDEST_MINOR else ""
        until = f" up to v1.{self.on_until}" if self.on_until < NEWEST_MINOR else ""
        return f"{self.support.value}, on only{since}{until}" if since or until else self.support.value

    def supports(self, value: bool, minor: int) -> bool:
        """Return whether this scheduler supports this value of the gate with the rules of v1.`minor`."""
        return self.is_built_for_some(value) and (not value or self.on_since <= minor <= self.on_until)

    def state_in(self, minor: int) -> GateState | None:
        """Return the state of the gate in v1.`minor`, or None if kube-scheduler does not know it there."""
        state = next((state for state in reversed(self.history) if state.minor <= minor), None)
        return None if state is None or state.stage is Stage.REMOVED else state


# The gates that code asks for.
ASYNC_PREEMPTION: Final = "SchedulerAsyncPreemption"
POP_FROM_BACKOFF: Final = "SchedulerPopFromBackoffQ"
NOMINATION_FOR_EXPECTATION: Final = "NominatedNodeNameForExpectation"
BATCHING: Final = "OpportunisticBatching"
DECLARED_FEATURES: Final = "NodeDeclaredFeatures"
COMPARISON_OPERATORS: Final = "TaintTolerationComparisonOperators"
MATCH_LABEL_KEYS: Final = "MatchLabelKeysInPodTopologySpread"
STORAGE_CAPACITY_SCORING: Final = "StorageCapacityScoring"
VOLUME_LIMIT_SCALING: Final = "VolumeLimitScaling"
PRIORITIZED_LIST: Final = "DRAPrioritizedList"
EXTENDED_RESOURCE: Final = "DRAExtendedResource"
CONSUMABLE_CAPACITY: Final = "DRAConsumableCapacity"
FRACTIONAL_CAPACITY: Final = "DRAFractionalCapacityRange"
PARTITIONABLE_DEVICES: Final = "DRAPartitionableDevices"
DEVICE_TAINTS: Final = "DRADeviceTaints"
DEVICE_TAINT_RULES: Final = "DRADeviceTaintRules"
CLAIM_DEVICE_STATUS: Final = "DRAResourceClaimDeviceStatus"
BINDING_CONDITIONS: Final = "DRADeviceBindingConditions"
FILTER_TIMEOUT: Final = "DRASchedulerFilterTimeout"
GROUP_CLAIMS: Final = "DRAWorkloadResourceClaims"
GENERIC_WORKLOAD: Final = "GenericWorkload"
GANG_SCHEDULING: Final = "GangScheduling"
TOPOLOGY_AWARE: Final = "TopologyAwareWorkloadScheduling"
WORKLOAD_PREEMPTION: Final = "WorkloadAwarePreemption"

DEVICE_ALLOCATION: Final = "DynamicResourceAllocation"

FEATURE_GATES: Final = (
    # the queue and the cycle
    FeatureGate(
        ASYNC_PREEMPTION, (alpha(32), beta(33)), Support.BOTH, "victims are deleted while other pods are scheduled"
    ),
    FeatureGate(
        POP_FROM_BACKOFF,
        (beta(33),),
        Support.BOTH,
        "if the active queue is empty, a pod that an event moved leaves backoff early",
    ),
    FeatureGate(
        "SchedulerAsyncAPICalls",
        (beta_off(34),),
        Support.NO_EFFECT,
        "requests do not block the scheduling loop, which here they never do",
    ),
    FeatureGate(
        NOMINATION_FOR_EXPECTATION,
        (alpha(34), beta(35)),
        Support.BOTH,
        "`status.nominatedNodeName` is set before PreBind and while a pod waits on Permit",
    ),
    FeatureGate(
        BATCHING,
        (beta(35),),
        Support.NO_EFFECT,
        "equal pods share one ranking of nodes: never here; off, the observer does not expect it either",
    ),
    FeatureGate(
        "SchedulerQueueingHints",
        (beta_off(28), beta(32), locked(34)),
        Support.ON,
        "plugins decide which events retry a pod",
    ),
    FeatureGate(
        "PodSchedulingReadiness", (alpha(26), beta(27), locked(30)), Support.ON, "pods with scheduling gates wait"
    ),
    FeatureGate(
        "ClearingNominatedNodeNameAfterBinding",
        (alpha(34), beta(35)),
        Support.NO_EFFECT,
        "the API server clears `status.nominatedNodeName` with the binding",
    ),
    FeatureGate(
        "CoordinatedLeaderElection",
        (alpha(31), beta_off(33)),
        Support.OFF,
        "the leader is chosen among LeaseCandidates",
    ),
    FeatureGate(
        "SchedulerPreQueueingHints",
        (alpha(37),),
        Support.NO_EFFECT,
        "hints that need not look at every waiting pod, which change no decision",
    ),
    # nodes
    FeatureGate(
        DECLARED_FEATURES,
        (alpha(35), beta(36), locked(37)),
        Support.BOTH,
        "the plugin NodeDeclaredFeatures, and the events of declared features",
    ),
    FeatureGate(
        "ExtendWebSocketsToKubelet",
        (beta(36),),
        Support.NO_EFFECT,
        "a declared feature of kubelets",
        (DECLARED_FEATURES,),
    ),
    FeatureGate(
        "RestartAllContainersOnContainerExits",
        (alpha(35), beta(36)),
        Support.NO_EFFECT,
        "the API server accepts the action RestartAllContainers",
        (DECLARED_FEATURES,),
    ),
    FeatureGate(
        "UserNamespacesHostNetworkSupport",
        (alpha(35),),
        Support.NO_EFFECT,
        "the API server accepts `hostUsers: false` with `hostNetwork`",
        (DECLARED_FEATURES,),
    ),
    FeatureGate(COMPARISON_OPERATORS, (alpha(35),), Support.BOTH, "tolerations with the operators `Lt` and `Gt`"),
    # resources of pods
    FeatureGate(
        "PodLevelResources", (alpha(32), beta(34)), Support.ON, "`spec.resources` replaces the sum over the containers"
    ),
    FeatureGate(
        "InPlacePodVerticalScaling",
        (alpha(27), beta(33), locked(35)),
        Support.ON,
        "a resize in progress counts with its largest amounts",
    ),
    FeatureGate(
        "InPlacePodLevelResourcesVerticalScaling",
        (alpha(35), beta(36)),
        Support.NO_EFFECT,
        "the API server serves the pod's `status.resources`, which then counts during a resize",
        ("InPlacePodVerticalScaling", "PodLevelResources", DECLARED_FEATURES),
    ),
    FeatureGate(
        "InPlacePodVerticalScalingInitContainers",
        (beta(36),),
        Support.NO_EFFECT,
        "the API server accepts a resize of init containers",
        ("InPlacePodVerticalScaling", DECLARED_FEATURES),
    ),
    FeatureGate(
        "InPlacePodVerticalScalingSchedulerPreemption",
        (alpha(37),),
        Support.OFF,
        "preemption for a pod on a node whose resize is deferred",
        ("InPlacePodVerticalScaling",),
    ),
    FeatureGate(
        "SidecarContainers",
        (alpha(28), beta(29), locked(33)),
        Support.ON,
        "restartable init containers count as running",
    ),
    # topology
    FeatureGate(MATCH_LABEL_KEYS, (alpha(25), beta(27)), Support.BOTH, "`matchLabelKeys` of spread constraints"),
    FeatureGate(
        "MatchLabelKeysInPodTopologySpreadSelectorMerge",
        (beta(34),),
        Support.NO_EFFECT,
        "the API server merges `matchLabelKeys` into the selector",
        (MATCH_LABEL_KEYS,),
    ),
    FeatureGate(
        "MatchLabelKeysInPodAffinity",
        (alpha(29), beta(31), locked(33)),
        Support.ON,
        "the API server merges `matchLabelKeys` of pod affinity",
    ),
    FeatureGate(
        "InterPodAffinityHostnameFastPath",
        (alpha(37),),
        Support.NO_EFFECT,
        "faster pod affinity by host name, which changes no decision",
    ),
    FeatureGate(
        "NodeInclusionPolicyInPodTopologySpread",
        (alpha(25), beta(26), locked(33)),
        Support.ON,
        "node affinity and taint policies of spread constraints",
    ),
    # volumes
    FeatureGate(
        STORAGE_CAPACITY_SCORING,
        (alpha(33), beta(37)),
        Support.BOTH,
        "VolumeBinding scores by the capacity of storage",
    ),
    FeatureGate(
        "VolumeCapacityPriority",
        (alpha(21), removed(33)),
        Support.OFF,
        "VolumeBinding scores by the capacity of volumes",
    ),
    FeatureGate(
        VOLUME_LIMIT_SCALING,
        (alpha(35), beta(37)),
        Support.BOTH,
        "a node without the volume's CSI driver is rejected if the CSIDriver has `preventPodSchedulingIfMissing`",
    ),
    FeatureGate(
        "MutableCSINodeAllocatableCount",
        (alpha(33), beta_off(34), beta(35), locked(36)),
        Support.ON,
        "a node's volume limits may change",
    ),
    FeatureGate(
        "VolumeAttributesClass",
        (alpha(29), beta_off(31), ga(34), locked(36)),
        Support.ON,
        "a claim matches volumes of its attributes class",
    ),
    # devices
    FeatureGate(
        DEVICE_ALLOCATION, (alpha(26), beta_off(32), ga(34), locked(35)), Support.BOTH, "the plugin DynamicResources"
    ),
    FeatureGate(
        "DRAAdminAccess",
        (alpha(32), beta(34), locked(36)),
        Support.ON,
        "requests with `adminAccess`",
        (DEVICE_ALLOCATION,),
    ),
    FeatureGate(
        PRIORITIZED_LIST,
        (alpha(33), beta(34), ga(36), locked(37)),
        Support.BOTH,
        "requests with `firstAvailable`",
        (DEVICE_ALLOCATION,),
    ),
    FeatureGate(
        EXTENDED_RESOURCE,
        (alpha(34), beta(36), locked(37)),
        Support.BOTH,
        "extended resources of a DeviceClass",
        (DEVICE_ALLOCATION,),
    ),
    FeatureGate(
        CONSUMABLE_CAPACITY,
        (alpha(34), beta(36)),
        Support.BOTH,
        "devices that several claims share",
        (DEVICE_ALLOCATION,),
    ),
    FeatureGate(
        PARTITIONABLE_DEVICES,
        (alpha(33), beta(36)),
        Support.BOTH,
        "devices that consume shared counters",
        (DEVICE_ALLOCATION,),
    ),
    FeatureGate(DEVICE_TAINTS, (alpha(33), beta(36), ga(37)), Support.BOTH, "taints of devices", (DEVICE_ALLOCATION,)),
    FeatureGate(
        DEVICE_TAINT_RULES,
        (alpha(35), beta_off(36), ga(37)),
        Support.BOTH,
        "DeviceTaintRule objects add taints to devices",
        (DEVICE_TAINTS,),
        on_since=37,  # before, the objects are in other versions of the API
    ),
    FeatureGate(
        CLAIM_DEVICE_STATUS,
        (alpha(32), beta(33), locked(37)),
        Support.BOTH,
        "the status of allocated devices, for binding conditions",
    ),
    FeatureGate(
        BINDING_CONDITIONS,
        (alpha(34), beta(36)),
        Support.BOTH,
        "PreBind waits for binding conditions of devices",
        (DEVICE_ALLOCATION, CLAIM_DEVICE_STATUS),
    ),
    FeatureGate(
        "DRAResourceClaimGranularStatusAuthorization",
        (beta(36),),
        Support.NO_EFFECT,
        "the API server authorizes writes to parts of a claim's status",
        (DEVICE_ALLOCATION, CLAIM_DEVICE_STATUS),
    ),
    FeatureGate(FILTER_TIMEOUT, (beta(34),), Support.BOTH, "a limit for the search on one node", (DEVICE_ALLOCATION,)),
    FeatureGate(
        FRACTIONAL_CAPACITY,
        (beta(37),),
        Support.BOTH,
        "fractions in ranges of requests for shared capacity",
        (DEVICE_ALLOCATION, CONSUMABLE_CAPACITY),
    ),
    FeatureGate(
        "DRADerivedAttributes",
        (alpha(37),),
        Support.OFF,
        "attributes that a claim computes from others",
        (DEVICE_ALLOCATION,),
    ),
    FeatureGate(
        "DRADeviceCompatibilityGroups",
        (alpha(37),),
        Support.OFF,
        "devices of one counter set that may not be allocated together",
        (DEVICE_ALLOCATION, PARTITIONABLE_DEVICES),
    ),
    FeatureGate(
        "DRAOptionalNodeOperations",
        (alpha(37),),
        Support.NO_EFFECT,
        "kubelets may skip the preparation of devices",
        (DEVICE_ALLOCATION,),
    ),
    FeatureGate(
        "DRAListTypeAttributes", (alpha(36),), Support.OFF, "attributes of devices that are lists", (DEVICE_ALLOCATION,)
    ),
    FeatureGate(
        "DRANodeAllocatableResources",
        (alpha(36),),
        Support.OFF,
        "devices that count as cpu or memory of a node",
        (DEVICE_ALLOCATION,),
    ),
    FeatureGate(
        GROUP_CLAIMS,
        (alpha(36), beta_off(37)),
        Support.BOTH,
        "claims that the pods of a group share",
        (DEVICE_ALLOCATION, GENERIC_WORKLOAD),
    ),
    # pod groups
    FeatureGate(
        GENERIC_WORKLOAD,
        (alpha(35), beta_off(37)),
        Support.BOTH,
        "PodGroup objects and the scheduling cycle of a group",
        on_until=36,  # v1.37 has another API, scheduling.k8s.io/v1beta1, and other rules for groups
    ),
    FeatureGate(
        GANG_SCHEDULING,
        (alpha(35), removed(37)),
        Support.BOTH,
        "the plugin GangScheduling: at least `minCount` pods of a group or none",
        (GENERIC_WORKLOAD,),
    ),
    FeatureGate(
        TOPOLOGY_AWARE,
        (alpha(36),),
        Support.BOTH,
        "the topology constraint of a group: its pods are placed in one domain",
        (GENERIC_WORKLOAD,),
    ),
    FeatureGate(
        WORKLOAD_PREEMPTION,
        (alpha(36), removed(37)),
        Support.BOTH,
        "victims are chosen for a group as a whole, and groups are evicted as a whole",
        (GANG_SCHEDULING,),
    ),
    FeatureGate(
        "CompositePodGroup",
        (alpha(37),),
        Support.OFF,
        "groups of pod groups",
        (GENERIC_WORKLOAD, TOPOLOGY_AWARE),
    ),
    FeatureGate(
        "PodGroupPreemptionPolicy",
        (alpha(37),),
        Support.OFF,
        "the preemption policy of a group",
        (GENERIC_WORKLOAD,),
    ),
    FeatureGate(
        "WorkloadWithJob",
        (alpha(36),),
        Support.NO_EFFECT,
        "the Job controller creates Workload and PodGroup objects",
        (GENERIC_WORKLOAD,),
    ),
)
GATES_BY_NAME: Final = {gate.name: gate for gate in FEATURE_GATES}


def parse_feature_gates(text: str) -> dict[str, bool]:
    """Return the gates in a value of `--feature-gates`, such as `A=true,kube:B=false`, with their values.

    Raise FeatureGateError if the text is malformed or names another component. Whether the gates exist is not checked.
    """
    gates: dict[str, bool] = {}
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
        gates[name] = value in _TRUE
    if len(prefixes) > 1:
        raise FeatureGateError(
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
        )
    return gates


def select_declared(settings: Mapping[str, bool]) -> dict[str, bool]:
    """Return the settings of gates that are declared here, and of AllAlpha and AllBeta, without all other gates.

    A command line of kube-scheduler may set gates that do not concern scheduling.
    """
    return {name: value for name, value in settings.items() if name in GATES_BY_NAME or name in (ALL_ALPHA, ALL_BETA)}
