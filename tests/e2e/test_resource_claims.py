"""Resource claims in a whole system: devices are allocated, written, and free again when their pod is gone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import control_plane
from tests.e2e.cluster import Cluster, Herodotus, node, pod
from tests.processes import Process, eventually

Json = dict[str, Any]

API = "/apis/resource.k8s.io/v1"
DRIVER = "gpu.example.com"
CLASS = "e2e-gpu"
RESOURCE = "example.com/gpu"


@pytest.fixture(autouse=True)
def devices(cluster: Cluster) -> Iterator[None]:
    """Create a class whose devices also serve an extended resource; remove the slices and claims of the test."""
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    spec = {"selectors": selectors, "extendedResourceName": RESOURCE}
    cluster.create(f"{API}/deviceclasses", {"kind": "DeviceClass", "metadata": {"name": CLASS}, "spec": spec})
    yield
    cluster.delete(f"{API}/deviceclasses/{CLASS}")
    for each in cluster.items(f"{API}/resourceclaims"):
        path = f"{API}/namespaces/{each['metadata']['namespace']}/resourceclaims/{each['metadata']['name']}"
        cluster.patch(f"{path}/status", {"status": {"reservedFor": None, "allocation": None}})
        cluster.patch(path, {"metadata": {"finalizers": None}})
        cluster.delete(path)
    for each in cluster.items(f"{API}/resourceslices"):
        cluster.delete(f"{API}/resourceslices/{each['metadata']['name']}")


def publish(cluster: Cluster, node_name: str, *models: str) -> None:
    """Publish a device of each model on a node."""
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{i}", "attributes": {"model": {"string": m}}} for i, m in enumerate(models)]
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node_name, "devices": devices}
    metadata = {"name": f"e2e-{node_name}"}
    cluster.create(f"{API}/resourceslices", {"kind": "ResourceSlice", "metadata": metadata, "spec": spec})


def claim(name: str, count: int = 1, model: str = "") -> Json:
    expression = f'device.attributes["{DRIVER}"].model == "{model}"'
    selectors = [{"cel": {"expression": expression}}] if model else []
    exactly = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": count, "selectors": selectors}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def claiming(name: str, *claims: str) -> Json:
    return pod(name, resourceClaims=[{"name": each, "resourceClaimName": each} for each in claims])


def allocated(found: Json) -> list[tuple[str, str]]:
    """Return (pool, device) of each allocated device of a claim."""
    allocation = found.get("status", {}).get("allocation") or {}
    return [(r["pool"], r["device"]) for r in allocation.get("devices", {}).get("results", ())]


def test_a_pod_gets_the_devices_of_its_claim_and_the_next_one_waits_until_they_are_free(
    cluster: Cluster, namespace: str, herodotus: Herodotus
) -> None:
    pods, claims = f"/api/v1/namespaces/{namespace}/pods", f"{API}/namespaces/{namespace}/resourceclaims"
    for name in ("a", "b"):
        herodotus.add_nodes(node(name))
    publish(cluster, "a", "A100")
    publish(cluster, "b", "T4", "H100", "H100")
    for name in ("first", "second"):
        cluster.create(claims, claim(name, 2, "H100"))

    created = cluster.create(pods, claiming("first", "first"))
    eventually(lambda: "first" in cluster.bound(namespace), "the first pod to be bound")
    found = cluster.get(f"{claims}/first")
    assert cluster.bound(namespace)["first"]["spec"]["nodeName"] == "b"
    assert allocated(found) == [("b", "gpu-1"), ("b", "gpu-2")]
    assert found["status"]["reservedFor"] == [{"resource": "pods", "name": "first", "uid": created["metadata"]["uid"]}]
    assert found["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    terms = found["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    assert terms == [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]

    cluster.create(pods, claiming("second", "second"))
    condition = eventually(lambda: cluster.condition(namespace, "second") or None, "the second pod to be rejected")
    assert condition["message"].startswith("0/2 nodes are available: 2 cannot allocate all claims.")

    cluster.delete(f"{pods}/first")  # and what kube-controller-manager does then
    cluster.patch(f"{claims}/first/status", {"status": {"reservedFor": None, "allocation": None}})
    eventually(lambda: "second" in cluster.bound(namespace), "the second pod to be bound")
    assert allocated(cluster.get(f"{claims}/second")) == [("b", "gpu-1"), ("b", "gpu-2")]


def test_two_pods_share_one_claim_and_run_where_its_device_is(
    cluster: Cluster, namespace: str, herodotus: Herodotus
) -> None:
    pods, claims = f"/api/v1/namespaces/{namespace}/pods", f"{API}/namespaces/{namespace}/resourceclaims"
    for name in ("a", "b"):
        herodotus.add_nodes(node(name))
        publish(cluster, name, "A100")
    cluster.create(claims, claim("shared"))
    for name in ("one", "two"):
        cluster.create(pods, claiming(name, "shared"))
    bound = eventually(lambda: b if len(b := cluster.bound(namespace)) == 2 else None, "both pods to be bound")
    assert len({each["spec"]["nodeName"] for each in bound.values()}) == 1
    found = cluster.get(f"{claims}/shared")
    assert len(allocated(found)) == 1
    assert {each["name"] for each in found["status"]["reservedFor"]} == {"one", "two"}


def test_no_device_is_allocated_twice_when_many_pods_arrive_at_once(
    cluster: Cluster, namespace: str, herodotus: Herodotus
) -> None:
    pods, claims = f"/api/v1/namespaces/{namespace}/pods", f"{API}/namespaces/{namespace}/resourceclaims"
    for name in ("a", "b", "c"):
        herodotus.add_nodes(node(name, cpu="64"))
        publish(cluster, name, *["A100"] * 4)
    names = [f"pod-{i:02}" for i in range(16)]
    cluster.create_all(claims, [claim(name) for name in names])
    cluster.create_all(pods, [claiming(name, name) for name in names])
    eventually(lambda: len(cluster.bound(namespace)) == 12, "a pod for every device")
    taken = [device for each in cluster.items(claims) for device in allocated(each)]
    assert len(taken) == len(set(taken)) == 12
    waiting = set(names) - set(cluster.bound(namespace))
    for name in waiting:
        eventually(partial(cluster.condition, namespace, name), f"{name} to be rejected")
        assert not allocated(cluster.get(f"{claims}/{name}"))


def test_a_device_class_serves_an_extended_resource(cluster: Cluster, namespace: str, herodotus: Herodotus) -> None:
    pods, claims = f"/api/v1/namespaces/{namespace}/pods", f"{API}/namespaces/{namespace}/resourceclaims"
    herodotus.add_nodes(node("a"))
    publish(cluster, "a", "A100", "A100")
    wanted = pod("extended")
    wanted["spec"]["containers"][0]["resources"] = {"requests": {RESOURCE: "2"}, "limits": {RESOURCE: "2"}}
    created = cluster.create(pods, wanted)
    eventually(lambda: "extended" in cluster.bound(namespace), "the pod to be bound")
    (made,) = cluster.items(claims)
    assert allocated(made) == [("a", "gpu-0"), ("a", "gpu-1")]
    assert made["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert made["metadata"]["ownerReferences"][0]["uid"] == created["metadata"]["uid"]
    assert cluster.get(f"{pods}/extended")["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": made["metadata"]["name"],
        "requestMappings": [
            {"containerName": "main", "resourceName": RESOURCE, "requestName": "container-0-request-0"}
        ],
    }


@pytest.fixture
def claim_controller(cluster: Cluster, tmp_path: Path) -> Iterator[None]:
    """Run kube-controller-manager's controllers of claims, or skip the test."""
    binaries = control_plane.assets() if cluster.kind == "real" else None
    program = binaries / "kube-controller-manager" if binaries is not None else None
    if program is None or not program.exists():
        pytest.skip("needs kube-controller-manager")
    process = Process(
        "kube-controller-manager",
        [
            str(program),
            f"--kubeconfig={cluster.kubeconfig}",
            "--controllers=resourceclaim-controller,garbage-collector-controller",
            "--leader-elect=false",
            "--secure-port=0",
        ],
        tmp_path / "controller-manager.log",
    )
    yield
    process.stop()


def test_claims_of_a_template_are_created_allocated_and_deleted_with_their_pods(
    cluster: Cluster, namespace: str, claim_controller: None, herodotus: Herodotus
) -> None:
    pods, claims = f"/api/v1/namespaces/{namespace}/pods", f"{API}/namespaces/{namespace}/resourceclaims"
    herodotus.add_nodes(node("a"))
    publish(cluster, "a", "A100", "A100")
    template = {"kind": "ResourceClaimTemplate", "metadata": {"name": "gpu"}, "spec": {"spec": claim("x")["spec"]}}
    cluster.create(f"{API}/namespaces/{namespace}/resourceclaimtemplates", template)
    names = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    for name in ("one", "two", "three"):
        cluster.create(pods, pod(name, resourceClaims=names))
    eventually(lambda: len(cluster.bound(namespace)) == 2, "two pods to be bound")
    taken = [device for each in cluster.items(claims) for device in allocated(each)]
    assert sorted(taken) == [("a", "gpu-0"), ("a", "gpu-1")]

    cluster.delete(f"{pods}/{next(iter(cluster.bound(namespace)))}")
    eventually(lambda: len(cluster.bound(namespace)) == 2, "the third pod to get the free device", 40.0)
    taken = [device for each in cluster.items(claims) for device in allocated(each)]
    assert len(taken) == len(set(taken))
