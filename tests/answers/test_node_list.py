"""The list of nodes: what each has, what its pods request, and what keeps pods away."""

from __future__ import annotations

from typing import Any

from herodotus_answers.node_list import build_node_list

NODE: dict[str, Any] = {
    "metadata": {"name": "n2", "labels": {"topology.kubernetes.io/zone": "a"}},
    "spec": {
        "unschedulable": True,
        "taints": [
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
            {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
        ],
    },
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "x.test/gpu": "2", "y.test/none": "0"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


def pod(name: str, cpu: str, **status: str) -> dict[str, Any]:
    container = {"resources": {"requests": {"cpu": cpu, "x.test/gpu": "1"}}}
    return {"metadata": {"name": name}, "spec": {"nodeName": "n2", "containers": [container]}, "status": status}


def test_sums_the_requests_of_pods_that_have_not_ended() -> None:
    (node,) = build_node_list([NODE], [pod("a", "500m"), pod("b", "1"), pod("c", "2", phase="Succeeded")])["items"]
    assert (node["ready"], node["cordoned"], node["taints"], node["zone"]) == (
        True,
        True,
        ["dedicated=gpu:NoSchedule"],
        "a",
    )
    assert (node["pods"], node["maxPods"], node["share"]) == (2, 110, 1.0)
    assert {a["resource"]: a["text"] for a in node["amounts"]} == {
        "cpu": "1500m of 4",
        "memory": "0 of 8Gi",
        "x.test/gpu": "2 of 2",
    }


def test_faults_that_agents_report_are_listed() -> None:
    conditions = [
        {"type": "Ready", "status": "True"},
        {"type": "MemoryPressure", "status": "True"},  # gives a taint
        {"type": "ReadonlyFilesystem", "status": "True", "message": "Remounting filesystem read-only."},
        {"type": "KernelDeadlock", "status": "False"},
        {"type": "StorageReady", "status": "False", "reason": "IODelays"},
        {"type": "NetworkingReady", "status": "True"},
    ]
    (node,) = build_node_list([NODE | {"status": {"conditions": conditions}}], None)["items"]
    assert node["faults"] == ["ReadonlyFilesystem (Remounting filesystem read-only)", "StorageReady=False (IODelays)"]


def test_requests_are_unknown_without_pods() -> None:
    (node,) = build_node_list([NODE], None)["items"]
    assert (node["pods"], "share" in node, node["amounts"][0]["text"]) == (None, False, "4")


def test_orders_names_by_their_numbers() -> None:
    nodes = [NODE | {"metadata": {"name": name}} for name in ("n10", "n2")]
    assert [node["metadata"]["name"] for node in build_node_list(nodes, ())["items"]] == ["n2", "n10"]
