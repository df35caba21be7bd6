"""Local mode allocates the devices of resource claims, and says when it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from herodotus_local.cluster_reader import ClusterReader
from herodotus_local.service import LocalService
from scheduler.config import Configuration
from tests.local.api_server import ApiServer, Json, node, pod
from tests.scheduler.engine.dra.builders import DRIVER, claim, device, device_class, exactly, slice_on

API = "/apis/herodotus.dev/v1alpha1"
PATH = f"{API}/namespaces/shop/podexplanations"


def a_claim(name: str, count: int, device_name: str = "", user: str = "") -> Json:
    """Return a claim, which a pod may use."""
    found = claim(name, exactly("r", count), finalizers=["resource.kubernetes.io/delete-protection"])
    found["metadata"]["namespace"] = "shop"
    if user:
        results = [{"request": "r", "driver": DRIVER, "pool": "worker-1", "device": device_name}]
        users = [{"resource": "pods", "name": user, "uid": f"uid-shop-{user}"}]
        found["status"] = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
    return found


def claiming(name: str, **more: Any) -> Json:
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": name}], **more)


CLUSTER = [
    node("worker-1"),
    node("worker-2"),
    device_class("gpu"),
    slice_on("worker-1", device("gpu-0"), device("gpu-1")),
    claiming("trains", on="worker-1"),
    a_claim("trains", 1, "gpu-0", "trains"),
    claiming("waits"),
    a_claim("waits", 2),
]


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as closing:
        yield closing


def explain(stack: ExitStack, api: ApiServer, notes: list[str], name: str, version: str = "") -> Json:
    reader = stack.enter_context(ClusterReader(api.fetch, lambda _plural, _count: None))
    service = stack.enter_context(LocalService(reader, Configuration(kubernetes_version=version), notes.append))
    answer = service.get(f"{PATH}/{name}")
    assert answer.code == 200, answer.document
    return answer.document


def test_a_pod_without_devices_names_what_stops_them(stack: ExitStack, notes: list[str]) -> None:
    found = explain(stack, ApiServer(CLUSTER), notes, "waits")
    assert found["outcome"]["state"] == "Unschedulable"
    assert "0/2 nodes are available: 2 cannot allocate all claims." in str(found)
    assert "in use: gpu-0" in str(found)
    assert "default/" not in str(found)
    assert notes == []


@pytest.mark.parametrize(("version", "told"), [("v1.36", False), ("v1.37", True)])
def test_an_answer_says_that_the_allocation_of_v1_37_is_not_built(
    stack: ExitStack, notes: list[str], version: str, told: bool
) -> None:
    found = explain(stack, ApiServer(CLUSTER), notes, "waits", version)
    expected = ["allocation of devices: decided as in v1.36, because what v1.37 changes is not built"]
    assert [note.partition(" (#")[0] for note in found["notes"] if "not built" in note] == (expected if told else [])


@pytest.mark.parametrize(("version", "told"), [("v1.36", False), ("v1.37", True)])
def test_a_what_if_says_that_the_allocation_of_v1_37_is_not_built(stack: ExitStack, version: str, told: bool) -> None:
    reader = stack.enter_context(ClusterReader(ApiServer(CLUSTER).fetch, lambda _plural, _count: None))
    configuration = Configuration(kubernetes_version=version)
    service = stack.enter_context(LocalService(reader, configuration, lambda _note: None))
    spec = {"changes": [{"kind": "Drain", "nodes": ["worker-1"]}]}
    status = service.post(f"{API}/clusterreviews", {"kind": "ClusterReview", "spec": spec}).document["status"]
    expected = ["allocation of devices: decided as in v1.36, because what v1.37 changes is not built"]
    assert [note.partition(" (#")[0] for note in status["notes"]] == (expected if told else [])


def test_a_running_pod_is_decided_as_if_its_devices_were_free(stack: ExitStack, notes: list[str]) -> None:
    found = explain(stack, ApiServer(CLUSTER), notes, "trains")
    assert (found["outcome"]["state"], found["outcome"]["node"]) == ("Bound", "worker-1")
    assert "disagree" not in str(found).lower()


def test_claims_that_cannot_be_read_are_named(stack: ExitStack, notes: list[str]) -> None:
    found = explain(stack, ApiServer(CLUSTER, forbidden=["resourceclaims"]), notes, "waits")
    assert "whether its devices can be allocated is unknown" in str(found)
    assert notes == [
        "resourceclaims cannot be read: whether devices can be allocated is not evaluated (DynamicResources)"
    ]


def test_a_cluster_whose_pods_have_no_claims_needs_none_of_them(stack: ExitStack, notes: list[str]) -> None:
    explain(stack, ApiServer([node("worker-1"), pod("web")], forbidden=["resourceslices"]), notes, "web")
    assert notes == []
