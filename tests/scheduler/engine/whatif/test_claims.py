"""What-ifs for pods with resource claims: devices are taken, freed and taken again as in a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.cluster_questions import (
    AddNodes,
    CapacityQuestion,
    Change,
    ClusterQuestion,
    ConsolidationQuestion,
    Create,
    Drain,
    RemoveNodes,
    Scale,
)
from herodotus_answers.cluster_review import ClusterReviewStatus
from scheduler.engine.objects.resource_api import ResourceClaim
from scheduler.engine.progress import ignore_progress
from scheduler.engine.whatif.changes import answer_review
from scheduler.engine.whatif.simulation import WhatIfState
from tests.scheduler.engine.dra.builders import API, DRIVER, Json, claim, device, device_class, exactly, slice_on
from tests.scheduler.engine.whatif.clusters import a_node, a_pod, a_state, review

TEMPLATED = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
TEMPLATE = {
    "apiVersion": API,
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpu", "namespace": "shop"},
    "spec": {"spec": {"devices": {"requests": [exactly("r")]}}},
}
CLASS = device_class("gpu", f'device.driver == "{DRIVER}"', extendedResourceName="example.com/gpu")
FINALIZER = "resource.kubernetes.io/delete-protection"


def gpus(node: str, count: int) -> Json:
    return slice_on(node, *(device(f"gpu-{i}") for i in range(count)))


def a_generated_claim(pod: str, node: str, gpu: str) -> Json:
    """Return the claim that was made from the template for a pod, allocated on a node."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": f"uid-{pod}", "controller": True}
    results = [{"request": "r", "driver": DRIVER, "pool": node, "device": gpu}]
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"}],
    }
    made = claim(f"{pod}-gpu", exactly("r"), status=status, ownerReferences=[owner], finalizers=[FINALIZER])
    made["metadata"]["namespace"] = "shop"
    return made


def a_claiming_pod(name: str, node: str = "", **more: Any) -> Json:
    found = a_pod(name, node, resourceClaims=TEMPLATED, **more)
    found["status"] = {
        **found["status"],
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}],
    }
    return found


def web(replicas: int, **spec: Any) -> Json:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "web"}], "resourceClaims": TEMPLATED, **spec},
    }
    metadata = {"name": "web", "namespace": "shop"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": replicas, "template": template},
    }


def taken(state: WhatIfState) -> list[tuple[str, str]]:
    """Return (pool, device) of every allocated device."""
    allocations = [c.status.allocation for c in state.objects.all(ResourceClaim)]
    return sorted((r.pool, r.device) for a in allocations if a is not None for r in a.devices.results or ())


def places(found: ClusterReviewStatus) -> dict[str, str]:
    return {each["name"]: each["node"] for each in found["placements"]}


@pytest.fixture
def cluster() -> list[Json]:
    """Return two nodes with two devices each; a pod uses one of a."""
    running = [a_claiming_pod("web-1", "a"), a_generated_claim("web-1", "a", "gpu-0")]
    return [CLASS, TEMPLATE, *(o for name in "ab" for o in (a_node(name), gpus(name, 2))), *running]


def test_pods_of_a_template_get_devices_until_none_is_left(cluster: list[Json]) -> None:
    state = a_state(cluster)
    found = review((), [Create(object=web(4))], state)
    assert sorted(filter(None, places(found).values())) == ["a", "b", "b"]
    (waiting,) = [each for each in found["placements"] if not each["node"]]
    assert waiting["reason"].startswith("0/2 nodes are available: 2 cannot allocate all claims.")
    assert taken(state) == [("a", "gpu-0"), ("a", "gpu-1"), ("b", "gpu-0"), ("b", "gpu-1")]


def test_a_drained_pod_gets_a_device_elsewhere_and_frees_its_own(cluster: list[Json]) -> None:
    state = a_state(cluster)
    found = review((), [Drain(nodes=["a"])], state)
    assert places(found) == {"web-1": "b"}
    assert taken(state) == [("b", "gpu-0")]


def test_a_removed_node_takes_its_devices_with_it(cluster: list[Json]) -> None:
    found = review(cluster, [RemoveNodes(nodes=["b"]), Scale(workload="ReplicaSet/web", replicas=3, namespace="shop")])
    assert sorted(places(found).values()) == ["", "a"]


def test_a_new_node_has_the_devices_of_the_copied_node(cluster: list[Json]) -> None:
    state = a_state(cluster)
    grown: list[Change] = [AddNodes(like="b", count=2), Scale(workload="ReplicaSet/web", replicas=9, namespace="shop")]
    found = review((), grown, state)
    assert sum(bool(node) for node in places(found).values()) == 7
    assert len(set(taken(state))) == 8


def test_scaling_without_the_template_copies_the_claims_of_a_running_pod(cluster: list[Json]) -> None:
    cluster.remove(TEMPLATE)
    found = review(cluster, [Scale(workload="ReplicaSet/web", replicas=2, namespace="shop")])
    assert list(places(found).values()) in (["a"], ["b"])


def test_capacity_counts_devices(cluster: list[Json]) -> None:
    question = CapacityQuestion(object=web(1), limit=100, namespace="shop")
    found = answer_review(a_state(cluster), ClusterQuestion(capacity=question), ignore_progress, seed=0)
    assert found["capacity"] is not None
    assert {node["node"]: node["fits"] for node in found["capacity"]["nodes"]} == {"a": 1, "b": 2}


def test_a_failed_trial_of_a_consolidation_gives_the_devices_back(cluster: list[Json]) -> None:
    cluster += [a_claiming_pod("web-2", "b"), a_generated_claim("web-2", "b", "gpu-0")]
    cluster += [a_claiming_pod("web-3", "b"), a_generated_claim("web-3", "b", "gpu-1")]
    state = a_state(cluster)
    question = ConsolidationQuestion(force=False, delete_empty_dir_data=False)
    spec = ClusterQuestion(consolidate=question)
    found = answer_review(state, spec, ignore_progress, seed=0)["consolidation"]
    assert found is not None
    assert found["emptied"] == []
    assert taken(state) == [("a", "gpu-0"), ("b", "gpu-0"), ("b", "gpu-1")]


def test_an_extended_resource_takes_devices(cluster: list[Json]) -> None:
    container = {"name": "main", "image": "web", "resources": {"requests": {"example.com/gpu": "2"}}}
    manifest = web(2, containers=[container], resourceClaims=[])
    state = a_state(cluster)
    found = review((), [Create(object=manifest)], state)
    assert sorted(places(found).values()) == ["", "b"]
    assert taken(state) == [("a", "gpu-0"), ("b", "gpu-0"), ("b", "gpu-1")]
    review((), [Drain(nodes=["b"])], state)
    assert taken(state) == [("a", "gpu-0")]


def test_a_claim_that_is_allocated_elsewhere_is_allocated_anew(cluster: list[Json]) -> None:
    """As PostFilter does: no other pod uses the claim."""
    results = [{"request": "r", "driver": DRIVER, "pool": "a", "device": "gpu-1"}]
    field = {"key": "metadata.name", "operator": "In", "values": ["a"]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    status = {"allocation": {"devices": {"results": results}, "nodeSelector": selector}}
    own = claim("own", exactly("r"), status=status, finalizers=[FINALIZER])
    own["metadata"]["namespace"] = "shop"
    pinned = a_pod(
        "p", nodeSelector={"kubernetes.io/hostname": "b"}, resourceClaims=[{"name": "own", "resourceClaimName": "own"}]
    )
    state = a_state([*cluster, own, pinned])
    found = review((), [], state)
    assert not found["pending"]
    found = review((), [Create(object=web(0))], a_state([*cluster, own, pinned]))
    assert {each["name"]: each["node"] for each in found["pending"]} == {"p": "b"}
