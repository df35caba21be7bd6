"""Feature gates: what kube-scheduler refuses, what is not built, and how gates depend on each other."""

from __future__ import annotations

import pytest

from scheduler.engine.framework.feature_gates import (
    DEFAULT_GATES,
    FEATURE_GATES,
    FeatureGateError,
    FeatureGates,
    Stage,
    Support,
    parse_feature_gates,
)

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
    gates = FeatureGates.from_settings(settings)
    return {name: value for name, value in gates.values.items() if value is not DEFAULT_GATES.enabled(name)}


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
            {"StorageCapacityScoring": True},
            "cannot set feature gate StorageCapacityScoring to true, only false is built here",
        ),
    ],
    ids=["unknown", "locked", "several", "dependency", "default-dependency", "not-built"],
)
def test_gates_are_refused_by_name(settings: dict[str, bool], error: str) -> None:
    with pytest.raises(FeatureGateError) as raised:
        FeatureGates.from_settings(settings)
    assert str(raised.value) == error


def test_all_alpha_enables_no_gate_that_is_not_built() -> None:
    with pytest.raises(FeatureGateError, match="cannot set feature gate StorageCapacityScoring to true"):
        FeatureGates.from_settings({"AllAlpha": True})
    assert changed({"AllAlpha": False}) == {}


def test_a_gate_takes_precedence_over_the_gates_of_its_stage() -> None:
    built = {g.name: g.default for g in FEATURE_GATES if g.stage is Stage.BETA and g.support is Support.DEFAULT}
    flipped = changed({"AllBeta": False, "SchedulerPopFromBackoffQ": True, **built})
    assert flipped["SchedulerAsyncPreemption"] is False
    assert "SchedulerPopFromBackoffQ" not in flipped


def list_needed(gate: object) -> list[str]:
    """Return the gates that a gate needs, and those that these need."""
    direct = [other for other in FEATURE_GATES if other.name in gate.needs]  # type: ignore[attr-defined]
    return [name for other in direct for name in (other.name, *list_needed(other))]


@pytest.mark.parametrize("gate", [g for g in FEATURE_GATES if g.support is not Support.DEFAULT], ids=lambda g: g.name)
def test_every_gate_that_is_built_switches_both_ways(gate: object) -> None:
    name, default = gate.name, gate.default  # type: ignore[attr-defined]
    needed = {other.name: False for other in FEATURE_GATES if default and name in other.needs}
    if not default:
        needed |= dict.fromkeys(list_needed(gate), True)
    assert changed({**needed, name: not default})[name] is not default
    assert name not in changed({name: default})


def test_dependents_go_with_a_gate() -> None:
    assert changed(WITH_DECLARED_FEATURES) == WITH_DECLARED_FEATURES


def test_locked_gates_are_not_built_to_be_switched() -> None:
    assert {g.support for g in FEATURE_GATES if g.locked} == {Support.DEFAULT}
    assert len({g.name for g in FEATURE_GATES}) == len(FEATURE_GATES)
