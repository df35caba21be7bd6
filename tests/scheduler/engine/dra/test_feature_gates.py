"""Each feature gate of devices, switched off: what no longer fits, with kube-scheduler's words, and what now does."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.config.document import ConfigError
from scheduler.config.load import parse_config
from scheduler.offline.evaluate import evaluate
from scheduler.offline.evaluate.engine import EvaluatedPod
from tests.scheduler.engine.dra.builders import Json, claim, device, device_class, exactly, node, pod, slice_on

CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
TAINTED = device("a", taints=[{"key": "broken", "effect": "NoSchedule"}])
SHARED = device("a", allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi"}})
BINDS = device("a", bindingConditions=["ready"], bindingFailureConditions=["failed"])
PARTITION = device("a", consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": "30Gi"}}}])
COUNTERS: Json = {
    **slice_on("n", sharedCounters=[{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]),
    "metadata": {"name": "n-counters"},
}
TWO_SLICES = {"pool": {"name": "n", "generation": 1, "resourceSliceCount": 2}}
COUNTERS["spec"] |= TWO_SLICES
LIST = {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "gpu", "count": 1}]}
NO_DEVICES = "0/1 nodes are available: 1 cannot allocate all claims."
UNSTABLE = {"DRAConsumableCapacity": False}
STABLE = {"DRAConsumableCapacity": False, "DRADeviceBindingConditions": False}
EMPTY = "empty constraint (unsupported constraint type?)"


def decide(gates: dict[str, bool], *objects: Json, incoming: Json | None = None) -> EvaluatedPod:
    everything = [node("n"), device_class(), *objects]
    config = {**CONFIG, "featureGates": gates}
    return evaluate({"id": "case", "config": config, "pod": incoming or pod("c"), "objects": everything})


def chosen(evaluated: EvaluatedPod) -> bool:
    return evaluated.result.chosen is not None


@pytest.mark.parametrize(
    ("gate", "request_", "slices", "message"),
    [
        pytest.param(
            "DRAPrioritizedList",
            LIST,
            [slice_on("n", device("a"))],
            "0/1 nodes are available: resource claim default/c, request r: has subrequests, but the DRAPrioritizedList"
            " feature is disabled.",
            id="prioritized-list",
        ),
        pytest.param(
            "DRAConsumableCapacity",
            exactly("r", capacity={"requests": {"memory": "1Gi"}}),
            [slice_on("n", SHARED)],
            'running "DynamicResources" filter plugin: claim default/c, request r: has capacity requests, but the'
            " DRAConsumableCapacity feature is disabled",
            id="consumable-capacity",
        ),
        pytest.param(
            "DRAPartitionableDevices",
            exactly("r"),
            [slice_on("n", PARTITION, **TWO_SLICES), COUNTERS],
            NO_DEVICES,
            id="partitions",
        ),
        pytest.param(
            "DRAPartitionableDevices",
            exactly("r"),
            [slice_on("n", device("a", nodeName="n"), nodeName=None, perDeviceNodeSelection=True)],
            NO_DEVICES,
            id="devices-for-several-nodes",
        ),
        pytest.param(
            "DRADeviceBindingConditions", exactly("r"), [slice_on("n", BINDS)], NO_DEVICES, id="binding-conditions"
        ),
    ],
)
def test_without_the_gate_the_claim_is_not_allocated(
    gate: str, request_: Json, slices: list[Json], message: str
) -> None:
    assert chosen(decide({}, claim("c", request_), *slices))
    without = decide({gate: False}, claim("c", request_), *slices)
    assert not chosen(without)
    assert without.result.message.startswith(message)


def test_without_device_taints_a_tainted_device_is_allocated() -> None:
    objects = claim("c", exactly("r")), slice_on("n", TAINTED)
    assert not chosen(decide({}, *objects))
    assert chosen(decide({"DRADeviceTaints": False}, *objects))


def test_without_consumable_capacity_a_shared_device_is_allocated_once() -> None:
    share = {"request": "r", "driver": "gpu.example.com", "pool": "n", "device": "a", "shareID": "s"}
    status = {"allocation": {"devices": {"results": [{**share, "consumedCapacity": {"memory": "1Gi"}}]}}}
    small = device("a", allowMultipleAllocations=True, capacity=_with_default("1Gi"))
    objects = claim("c", exactly("r")), claim("d", exactly("r"), status=status), slice_on("n", small)
    assert chosen(decide({}, *objects))
    assert not chosen(decide(UNSTABLE, *objects))
    assert not chosen(decide(STABLE, *objects))


def _with_default(amount: str) -> Json:
    return {"memory": {"value": "40Gi", "requestPolicy": {"default": amount, "validValues": [amount]}}}


def test_the_stable_allocator_ignores_capacity_requests_and_knows_no_distinct_attributes() -> None:
    capacity = exactly("r", capacity={"requests": {"memory": "80Gi"}})
    assert not chosen(decide({}, claim("c", capacity), slice_on("n", SHARED)))
    assert chosen(decide(STABLE, claim("c", capacity), slice_on("n", SHARED)))
    distinct = claim("c", exactly("r"), constraints=[{"distinctAttribute": "gpu.example.com/model"}])
    device_ = device("a", attributes={"gpu.example.com/model": {"string": "x"}})
    assert chosen(decide(UNSTABLE, distinct, slice_on("n", device_)))
    refused = decide(STABLE, distinct, slice_on("n", device_))
    assert refused.result.message.endswith(f"claim default/c, constraint #0: {EMPTY}")


def test_without_extended_resources_a_device_class_backs_none() -> None:
    requests = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    incoming = pod(containers=[{"name": "main", "image": "busybox", "resources": requests}])
    objects = device_class("backing", extendedResourceName="example.com/gpu"), slice_on("n", device("a"))
    assert chosen(decide({}, *objects, incoming=incoming))
    without = decide({"DRAExtendedResource": False}, *objects, incoming=incoming)
    assert without.result.message.startswith("0/1 nodes are available: 1 Insufficient example.com/gpu.")


def test_a_rejection_names_the_gate_that_is_off() -> None:
    evaluated = decide({"DRADeviceBindingConditions": False}, claim("c", exactly("r")), slice_on("n", BINDS))
    outcome: dict[str, Any] = evaluated.outcome()
    assert outcome["filters"]["n"]["DynamicResources"]["code"] == "UnschedulableAndUnresolvable"
    run = next(run for run in evaluated.result.trace.filters if run.plugin == "DynamicResources")
    (reason,) = run.verdicts.verdict_at(0).reasons
    assert reason.params["stoppers"] == "has binding conditions, whose feature gate is off: a"


@pytest.mark.parametrize(
    ("gate", "argument", "detail"),
    [
        ("DRASchedulerFilterTimeout", "filterTimeout", "DRASchedulingFilterTimeout feature gate is disabled"),
        (
            "DRADeviceBindingConditions",
            "bindingTimeout",
            "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled",
        ),
    ],
)
def test_an_argument_of_a_disabled_feature_is_refused(gate: str, argument: str, detail: str) -> None:
    def text(gates: str) -> str:
        return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
featureGates: {{{gates}}}
profiles: [{{pluginConfig: [{{name: DynamicResources, args: {{{argument}: 30s}}}}]}}]
"""

    parse_config(text(""))
    with pytest.raises(ConfigError) as raised:
        parse_config(text(f"{gate}: false"))
    assert str(raised.value).endswith(f"profiles[0].pluginConfig[0].args.{argument}: Forbidden: {detail}")
