"""Feature gates: their defaults by version, what is refused, what is not built, and how gates depend on each other."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from herodotus_record.kubernetes_version import KubernetesVersion
from scheduler.engine.rules import DEFAULT_RULES, Rules
from scheduler.engine.rules.feature_gates import (
    FEATURE_GATES,
    FeatureGate,
    FeatureGateError,
    GateState,
    Stage,
    Support,
    parse_feature_gates,
)
from scheduler.engine.rules.version_rules import VERSION_RULES

GOLDEN = Path(__file__).parents[3] / "golden"

# Gates whose value "off" needs others to be off, as in kube-scheduler.
WITH_DECLARED_FEATURES = dict.fromkeys(
    (
        "NodeDeclaredFeatures",
        "ExtendWebSocketsToKubelet",
        "RestartAllContainersOnContainerExits",
        "InPlacePodVerticalScalingInitContainers",
        "InPlacePodLevelResourcesVerticalScaling",
    ),
    False,
)


def changed(settings: dict[str, bool]) -> dict[str, bool]:
    """Return the gates whose value differs from the default."""
    gates = Rules.from_settings(settings)
    return {name: value for name, value in gates.values.items() if value is not DEFAULT_RULES.enabled(name)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("A=true", {"A": True}),
        ("A=T, B=0,,kubelet=f", {"A": True, "B": False, "kubelet": False}),
        ("kube:A=1,kube:B=False", {"A": True, "B": False}),
        ("A=true,A=false", {"A": False}),
    ],
)
def test_flag_is_read_as_by_kube_scheduler(text: str, expected: dict[str, bool]) -> None:
    assert parse_feature_gates(text) == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("A", "missing bool value for A"),
        ("A=yes", 'invalid value of A=yes, err: strconv.ParseBool: parsing "yes": invalid syntax'),
        ("etcd:A=true", "component not registered: etcd"),
        (
            "A=true,kube:B=true",
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        ),
    ],
)
def test_malformed_flag_is_refused_with_kube_schedulers_words(text: str, error: str) -> None:
    with pytest.raises(FeatureGateError) as raised:
        parse_feature_gates(text)
    assert str(raised.value) == error


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"Nope": True}, "unrecognized feature gate: Nope"),
        (
            {"DynamicResourceAllocation": False},
            "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true",
        ),
        (
            {"SidecarContainers": False, "Nope": True},
            "[cannot set feature gate SidecarContainers to false, feature is locked to true,"
            " unrecognized feature gate: Nope]",
        ),
        (
            {"DRADeviceTaintRules": True, "DRADeviceTaints": False},
            "DRADeviceTaintRules is enabled, but depends on features that are disabled: [DRADeviceTaints]",
        ),
        (
            {"MatchLabelKeysInPodTopologySpread": False},
            "MatchLabelKeysInPodTopologySpreadSelectorMerge is enabled, but depends on features that are disabled:"
            " [MatchLabelKeysInPodTopologySpread]",
        ),
        (
            {"DRAListTypeAttributes": True},
            "cannot set feature gate DRAListTypeAttributes to true, only false is built here",
        ),
    ],
    ids=["unknown", "locked", "several", "dependency", "default-dependency", "not-built"],
)
def test_gates_are_refused_by_name(settings: dict[str, bool], error: str) -> None:
    with pytest.raises(FeatureGateError) as raised:
        Rules.from_settings(settings)
    assert str(raised.value) == error


def test_all_alpha_enables_no_gate_that_is_not_built() -> None:
    with pytest.raises(FeatureGateError, match="cannot set feature gate DRAListTypeAttributes to true"):
        Rules.from_settings({"AllAlpha": True})
    assert changed({"AllAlpha": False}) == {}


def states(minor: int = 36) -> dict[FeatureGate, GateState]:
    """Return the gates that kube-scheduler v1.`minor` knows, with their states."""
    return {gate: state for gate in FEATURE_GATES if (state := gate.state_in(minor)) is not None}


def test_a_gate_takes_precedence_over_the_gates_of_its_stage() -> None:
    built = {
        gate.name: state.default
        for gate, state in states().items()
        if state.stage is Stage.BETA and gate.support in (Support.ON, Support.OFF)
    }
    flipped = changed({"AllBeta": False, "SchedulerPopFromBackoffQ": True, **built})
    assert flipped["SchedulerAsyncPreemption"] is False
    assert "SchedulerPopFromBackoffQ" not in flipped


def list_needed(gate: FeatureGate) -> list[str]:
    """Return the gates that a gate needs, and those that these need."""
    direct = [other for other in FEATURE_GATES if other.name in gate.needs]
    return [name for other in direct for name in (other.name, *list_needed(other))]


SWITCHABLE = [
    gate
    for gate, state in states().items()
    if gate.supports(True, 36) and gate.supports(False, 36) and not state.locked
]


@pytest.mark.parametrize("gate", SWITCHABLE, ids=lambda gate: gate.name)
def test_every_gate_that_is_built_switches_both_ways(gate: FeatureGate) -> None:
    default = states()[gate].default
    needed = {other.name: False for other in states() if default and gate.name in other.needs}
    if not default:
        needed |= dict.fromkeys(list_needed(gate), True)
    assert changed({**needed, gate.name: not default})[gate.name] is not default
    assert gate.name not in changed({gate.name: default})


def test_dependents_go_with_a_gate() -> None:
    assert changed(WITH_DECLARED_FEATURES) == WITH_DECLARED_FEATURES


def test_names_are_unique_among_gates_and_rules() -> None:
    names = [*(gate.name for gate in FEATURE_GATES), *(rule.name for rule in VERSION_RULES)]
    assert len(set(names)) == len(names)


def read_reported_defaults() -> list[dict[str, str]]:
    """Return the rows of gates.tsv: what the programs of each version report, `-` for a gate that they do not know."""
    with (GOLDEN / "gates.tsv").open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.mark.parametrize("minor", range(31, 37))
def test_defaults_are_those_that_kube_scheduler_reports(minor: int) -> None:
    reported = {row["gate"]: row[f"v1.{minor}"] for row in read_reported_defaults()}
    declared = {gate.name: state.default for gate, state in states(minor).items()}
    differing = {
        name: (reported.get(name), default)
        for name, default in declared.items()
        if reported.get(name, "-") != ("on" if default else "off")
    }
    assert differing == {}
    unknown = {gate.name for gate in FEATURE_GATES} - declared.keys()
    assert {name for name in unknown if reported.get(name, "-") != "-"} == set()


def test_a_gate_of_another_version_is_unrecognized() -> None:
    with pytest.raises(FeatureGateError, match="unrecognized feature gate: NodeDeclaredFeatures"):
        Rules.from_settings({"NodeDeclaredFeatures": True}, KubernetesVersion(34, 0))


# Gates of kube-scheduler that v1.37 adds, removes, locks or switches: the default there, "locked", or "-" for unknown.
# Source: pkg/scheduler/features of v1.37.
CHANGED_IN_V1_37 = {
    "StorageCapacityScoring": "on",
    "VolumeLimitScaling": "on",
    "DRADeviceTaintRules": "on",
    "DRADeviceTaints": "on",
    "DRAExtendedResource": "locked",
    "DRAPrioritizedList": "locked",
    "DRAResourceClaimDeviceStatus": "locked",
    "NodeDeclaredFeatures": "locked",
    "DRAFractionalCapacityRange": "on",
    "GenericWorkload": "off",
    "DRAWorkloadResourceClaims": "off",
    "TopologyAwareWorkloadScheduling": "off",
    "GangScheduling": "-",
    "WorkloadAwarePreemption": "-",
    "CompositePodGroup": "off",
    "PodGroupPreemptionPolicy": "off",
    "InPlacePodVerticalScalingSchedulerPreemption": "off",
    "InterPodAffinityHostnameFastPath": "off",
    "SchedulerPreQueueingHints": "off",
    "DRADerivedAttributes": "off",
    "DRADeviceCompatibilityGroups": "off",
    "DRAOptionalNodeOperations": "off",
    "OpportunisticBatching": "on",
    "SchedulerAsyncAPICalls": "off",
    "PodLevelResources": "on",
    "TaintTolerationComparisonOperators": "off",
    "NominatedNodeNameForExpectation": "on",
    "SchedulerAsyncPreemption": "on",
}


def test_gates_of_v1_37_are_those_of_its_scheduler() -> None:
    declared = {gate.name: state for gate, state in states(37).items()}

    def show(name: str) -> str:
        state = declared.get(name)
        return "-" if state is None else "locked" if state.locked else "on" if state.default else "off"

    assert {name: show(name) for name in CHANGED_IN_V1_37} == CHANGED_IN_V1_37


V1_37 = KubernetesVersion.parse("v1.37")


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (
            {"GenericWorkload": True},
            "cannot set feature gate GenericWorkload to true, only false is built here for v1.37",
        ),
        ({"GangScheduling": True}, "unrecognized feature gate: GangScheduling"),
        ({"WorkloadAwarePreemption": False}, "unrecognized feature gate: WorkloadAwarePreemption"),
        (
            {"DRAExtendedResource": False},
            "cannot set feature gate DRAExtendedResource to false, feature is locked to true",
        ),
        (
            {"InPlacePodVerticalScalingSchedulerPreemption": True},
            "cannot set feature gate InPlacePodVerticalScalingSchedulerPreemption to true, only false is built here",
        ),
        (
            {"DRADerivedAttributes": True},
            "cannot set feature gate DRADerivedAttributes to true, only false is built here",
        ),
        (
            {"DRADeviceCompatibilityGroups": True},
            "cannot set feature gate DRADeviceCompatibilityGroups to true, only false is built here",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_is_not_built_of_v1_37_is_refused(settings: dict[str, bool], error: str) -> None:
    with pytest.raises(FeatureGateError) as raised:
        Rules.from_settings(settings, V1_37)
    assert str(raised.value) == error


@pytest.mark.parametrize(
    ("version", "error"),
    [
        ("v1.31", "cannot set feature gate VolumeCapacityPriority to true, only false is built here"),
        ("v1.32", "cannot set feature gate VolumeCapacityPriority to true, only false is built here"),
        ("v1.33", "unrecognized feature gate: VolumeCapacityPriority"),
        ("v1.37", "unrecognized feature gate: VolumeCapacityPriority"),
    ],
)
def test_the_gate_of_volume_capacity_has_its_name_up_to_v1_32(version: str, error: str) -> None:
    with pytest.raises(FeatureGateError) as raised:
        Rules.from_settings({"VolumeCapacityPriority": True}, KubernetesVersion.parse(version))
    assert str(raised.value) == error


def test_pod_groups_are_built_up_to_v1_36() -> None:
    assert Rules.from_settings({"GenericWorkload": True}).enabled("GenericWorkload")
