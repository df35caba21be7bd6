"""The rules of v1.37 that no feature gate switches, beside those of v1.36, in whole decisions."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.offline.evaluate import evaluate
from scheduler.offline.evaluate.engine import EvaluatedPod

Json = dict[str, Any]
MIB = 1 << 20


def decide(version: str, pod: Json, *objects: Json) -> EvaluatedPod:
    """Decide a pod by the rules of a version."""
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config["kubernetesVersion"] = version
    return evaluate({"id": "case", "config": config, "pod": pod, "objects": list(objects)})


def node(name: str, *images: Json) -> Json:
    allocatable = {"cpu": "1", "memory": "1Gi", "pods": "10"}
    status = {"allocatable": allocatable, "images": list(images)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, priority: int = 0, **spec: Any) -> Json:
    container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    spec = {"containers": [container], "priority": priority, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("version", "suffix"),
    [
        ("v1.36", ""),
        ("v1.37", " preemption: found a potential placement for pod on node n, preempting 1 victims"),
    ],
)
def test_the_message_names_the_node_that_preemption_found(version: str, suffix: str) -> None:
    evaluated = decide(version, pod("urgent", 10), node("n"), pod("running", nodeName="n"))
    assert evaluated.outcome()["preemption"]["nominatedNode"] == "n"
    assert evaluated.result.message == f"0/1 nodes are available: 1 Insufficient cpu.{suffix}"


@pytest.mark.parametrize(("version", "fits"), [("v1.36", False), ("v1.37", True)])
def test_a_pod_in_resize_takes_the_largest_of_its_sums(version: str, fits: bool) -> None:
    amounts = {"grows": ("100m", "400m"), "shrinks": ("400m", "100m")}  # 500 m before and after, 800 m of the largest
    running = pod("running", nodeName="n")
    running["spec"]["containers"] = [
        {"name": name, "resources": {"requests": {"cpu": desired}}} for name, (_, desired) in amounts.items()
    ]
    running["status"] = {
        "containerStatuses": [
            {"name": name, "resources": {"requests": {"cpu": actual}}} for name, (actual, _) in amounts.items()
        ]
    }
    incoming = pod("p")
    incoming["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500m"
    assert (decide(version, incoming, node("n"), running).outcome()["feasible"] == ["n"]) is fits


@pytest.mark.parametrize(("version", "score"), [("v1.35", 48), ("v1.36", 100), ("v1.37", 49)])
def test_an_image_volume_raises_the_size_from_which_the_score_is_full(version: str, score: int) -> None:
    held = {"names": ["data:1"], "sizeBytes": 1000 * MIB}
    main = {"names": ["main:latest"], "sizeBytes": 500 * MIB}
    images = [main] if version == "v1.35" else [held]
    incoming = pod("p", volumes=[{"name": "v", "image": {"reference": "data:1"}}])
    outcome = decide(version, incoming, node("a", *images), node("b", *images)).outcome()
    assert outcome["scores"]["ImageLocality"]["raw"]["a"] == score
