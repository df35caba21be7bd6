"""DeviceTaintRules: which devices a rule taints, and that devices follow each change of a rule."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.framework.events import ActionType, ClusterEvent, find_object_event
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.resource_api import DeviceTaintRule, ResourceSlice
from scheduler.engine.plugins.dynamic_resources.devices import ClusterDevices
from scheduler.engine.rules import Rules
from scheduler.engine.rules.feature_gates import FeatureGateError
from scheduler.offline.evaluate import evaluate
from scheduler.offline.evaluate.engine import EvaluatedPod
from tests.scheduler.engine.dra.builders import (
    API,
    DRIVER,
    Json,
    claim,
    device,
    device_class,
    exactly,
    node,
    pod,
    slice_on,
    verdict,
)
from tests.scheduler.storage import made

CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
BROKEN = {"key": "broken", "value": "fan", "effect": "NoSchedule"}


def rule(selector: Json | None = None, taint: Json = BROKEN) -> Json:
    spec = {"taint": taint} if selector is None else {"taint": taint, "deviceSelector": selector}
    return {"apiVersion": API, "kind": "DeviceTaintRule", "metadata": {"name": "rule"}, "spec": spec}


def decide(
    *objects: Json, version: str = "v1.37", gates: Json | None = None, request: Json | None = None
) -> EvaluatedPod:
    """Decide a pod that needs one device, by the rules of a version; nodes n1 and n2 have the devices a and b each."""
    config = {**CONFIG, "kubernetesVersion": version, "featureGates": gates or {}}
    slices = [slice_on(name, device("a"), device("b")) for name in ("n1", "n2")]
    everything = [node("n1"), node("n2"), device_class(), *slices, claim("c", request or exactly("r")), *objects]
    return evaluate({"id": "case", "config": config, "pod": pod("c"), "objects": everything})


def feasible(evaluated: EvaluatedPod) -> list[str]:
    return sorted(n for n in ("n1", "n2") if not verdict(evaluated, n).reasons)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, []),
        ({"driver": DRIVER}, []),
        ({"driver": "other"}, ["n1", "n2"]),
        ({"pool": "n1"}, ["n2"]),
        ({"driver": "other", "pool": "n1"}, ["n1", "n2"]),
        ({"pool": "n1", "device": "a"}, ["n1", "n2"]),
        ({"device": "none"}, ["n1", "n2"]),
    ],
    ids=str,
)
def test_a_rule_taints_the_devices_that_its_selector_names(selector: Json | None, expected: list[str]) -> None:
    assert feasible(decide(rule(selector))) == expected


@pytest.mark.parametrize(("version", "expected"), [("v1.37.0", []), ("v1.37.1", ["n1", "n2"]), ("v1.37", ["n1", "n2"])])
def test_a_rule_without_a_selector_taints_no_device_since_the_first_patch(version: str, expected: list[str]) -> None:
    assert feasible(decide(rule(None), version=version)) == expected


def test_a_rule_for_one_device_leaves_the_others() -> None:
    both = exactly("r", 2)
    assert feasible(decide(rule({"pool": "n1", "device": "a"}), request=both)) == ["n2"]


@pytest.mark.parametrize(
    ("effect", "expected"), [("NoSchedule", ["n2"]), ("NoExecute", ["n2"]), ("None", ["n1", "n2"])]
)
def test_only_effects_that_prevent_scheduling_count(effect: str, expected: list[str]) -> None:
    assert feasible(decide(rule({"pool": "n1"}, {**BROKEN, "effect": effect}))) == expected


def test_a_request_can_tolerate_the_taint_of_a_rule() -> None:
    tolerant = exactly("r", tolerations=[{"key": "broken", "operator": "Exists"}])
    assert feasible(decide(rule({"pool": "n1"}), request=tolerant)) == ["n1", "n2"]


def test_the_rejection_names_the_taint() -> None:
    (reason,) = verdict(decide(rule({"pool": "n1"})), "n1").reasons
    assert reason.params["stoppers"] == "taint broken=fan:NoSchedule: a, b"


@pytest.mark.parametrize(
    ("version", "gates", "expected"),
    [
        ("v1.37", {}, ["n2"]),
        ("v1.37", {"DRADeviceTaintRules": False}, ["n1", "n2"]),
        ("v1.37", {"DRADeviceTaintRules": False, "DRADeviceTaints": False}, ["n1", "n2"]),
        ("v1.36", {}, ["n1", "n2"]),
    ],
    ids=["v1.37", "rules-off", "taints-off", "v1.36"],
)
def test_rules_count_where_the_feature_is_on(version: str, gates: Json, expected: list[str]) -> None:
    assert feasible(decide(rule({"pool": "n1"}), version=version, gates=gates)) == expected


def test_the_feature_is_refused_for_versions_with_another_api() -> None:
    detail = "cannot set feature gate DRADeviceTaintRules to true, only false is built here for v1.36"
    with pytest.raises(FeatureGateError, match=detail):
        Rules.from_settings({"DRADeviceTaintRules": True})


@pytest.mark.parametrize("action", [ActionType.ADD, ActionType.UPDATE, ActionType.DELETE])
def test_a_change_of_a_rule_retries_pods_as_a_change_of_slices_does(action: ActionType) -> None:
    assert find_object_event("DeviceTaintRule", action) is ClusterEvent.RESOURCE_SLICE_UPDATE


def test_devices_follow_the_changes_of_rules() -> None:
    def stored(selector: Json) -> DeviceTaintRule:
        return made(DeviceTaintRule, {"name": "rule"}, spec=rule(selector)["spec"])

    def tainted() -> list[str]:
        devices.update()
        return [each.device.name for prepared in devices.slices for each in prepared.devices if each.rule_taints]

    objects = ClusterObjects()
    spec: Any = slice_on("n1", device("a"), device("b"))["spec"]
    objects.set(made(ResourceSlice, {"name": "n1-gpu"}, spec=spec))
    devices = ClusterDevices(objects)
    assert tainted() == []
    seen = devices.revision
    objects.set(stored({"device": "a"}))
    assert tainted() == ["a"]
    assert devices.list_changed_nodes(seen) == ["n1", "n1"], "the slice before, and the slice after"
    objects.set(stored({"device": "b"}))
    assert tainted() == ["b"]
    seen = devices.revision
    objects.set(made(DeviceTaintRule, {"name": "elsewhere"}, spec=rule({"pool": "n2"})["spec"]))
    assert tainted() == ["b"]
    assert devices.revision == seen, "the rule is for another pool"
    objects.remove(stored({"device": "b"}))
    assert tainted() == []
