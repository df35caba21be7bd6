"""The version whose rules apply, from what a cluster says about its scheduler."""

from typing import Any

import pytest

from herodotus_record.kubernetes_version import KubernetesVersion
from scheduler.config.cluster_version import CANDIDATES, LEASE, PODS, VERSION, FoundVersion, VersionSource, find_version

Json = dict[str, Any]
V34 = KubernetesVersion(34, 2)
SERVER = {VERSION: {"gitVersion": "v1.35.1"}}


def pod(image: str, *command: str, name: str = "kube-scheduler", node: str = "", status: str = "") -> Json:
    """Return a pod of kube-scheduler."""
    return {
        "spec": {"nodeName": node, "containers": [{"name": name, "image": image, "command": list(command)}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": name, "image": status}]},
    }


def find(documents: Json) -> FoundVersion:
    """Return the version in these documents of an API server, which refuses all others."""
    return find_version((SERVER | documents).get)


@pytest.mark.parametrize(
    "image",
    [
        "registry.k8s.io/kube-scheduler:v1.34.2",
        "registry.k8s.io/kube-scheduler:v1.34.2@sha256:0123",
        "mirror.example:5000/kube-scheduler:v1.34.2",
        "docker.io/rancher/hardened-kubernetes:v1.34.2-rke2r1-build20251112",
        "mirror.example/kube-scheduler:1.34.2_vendor.1",
    ],
)
def test_the_tag_of_the_image_states_the_version(image: str) -> None:
    assert find({PODS: {"items": [pod(image)]}}) == FoundVersion(V34, VersionSource.SCHEDULER_IMAGE)


def test_the_status_states_the_version_of_an_image_with_a_digest_alone() -> None:
    named = pod("mirror.example/kube-scheduler@sha256:0123", status="registry.k8s.io/kube-scheduler:v1.34.2")
    assert find({PODS: {"items": [named]}}).version == V34


def test_the_container_of_kube_scheduler_counts_and_not_a_sidecar() -> None:
    with_proxy = pod("registry.k8s.io/kube-scheduler:v1.34.2")
    with_proxy["spec"]["containers"].insert(0, {"name": "proxy", "image": "proxy:v1.31.0"})
    assert find({PODS: {"items": [with_proxy]}}).version == V34


@pytest.mark.parametrize(
    ("flags", "emulated"),
    [
        (("--emulated-version=1.33",), 33),
        (("--emulated-version=kube=1.33",), 33),
        (("--emulated-version", "v1.33"), 33),
        (("--emulated-version=other=1.31,kube=1.33",), 33),
        (("--emulated-version=other=1.31",), None),
        (("--emulated-version=1.34",), None),
    ],
)
def test_the_command_line_states_the_emulated_version(flags: tuple[str, ...], emulated: int | None) -> None:
    found = find({PODS: {"items": [pod("kube-scheduler:v1.34.2", *flags)]}})
    assert (found.version, found.emulated and found.emulated.minor) == (V34, emulated)


def test_of_several_schedulers_that_which_leads_counts() -> None:
    pods = [pod("kube-scheduler:v1.35.1", node="a"), pod("kube-scheduler:v1.34.2", node="b")]
    documents = {PODS: {"items": pods}, LEASE: {"spec": {"holderIdentity": "b_0123"}}}
    assert find(documents).version == V34


def test_of_several_lease_candidates_the_oldest_counts() -> None:
    specs = [
        {"leaseName": "kube-controller-manager", "binaryVersion": "1.31.0"},
        {"leaseName": "kube-scheduler", "binaryVersion": "1.35.1", "emulationVersion": "1.35.0"},
        {"leaseName": "kube-scheduler", "binaryVersion": "1.34.2", "emulationVersion": "1.34.0"},
    ]
    found = find({CANDIDATES[0]: {"items": [{"spec": spec} for spec in specs]}})
    assert found == FoundVersion(V34, VersionSource.LEASE_CANDIDATE)


@pytest.mark.parametrize("documents", [{}, {PODS: {"items": []}}, {PODS: {"items": [pod("kube-scheduler:latest")]}}])
def test_without_a_scheduler_that_states_it_the_api_servers_version_counts(documents: Json) -> None:
    assert find(documents) == FoundVersion(KubernetesVersion(35, 1), VersionSource.API_SERVER)


@pytest.mark.parametrize(("text", "applied"), [("v1.29.4", "v1.31.0"), ("v1.38.0-alpha.2", "v1.37.1")])
def test_a_version_without_rules_gets_the_nearest_and_the_answer_says_so(text: str, applied: str) -> None:
    found = find({VERSION: {"gitVersion": text}})
    assert str(found.version) == applied
    assert found.stated == text.partition("-")[0]
    assert found.stated in found.note()


def test_the_default_applies_where_nothing_states_a_version() -> None:
    assert find_version(lambda _: None).source is VersionSource.DEFAULT


def test_the_version_asked_for_replaces_the_clusters() -> None:
    assert find_version(SERVER.get, V34) == FoundVersion(V34, VersionSource.FLAG)


def test_an_absent_pod_during_an_upgrade_is_no_change() -> None:
    before = FoundVersion(V34, VersionSource.SCHEDULER_IMAGE)
    assert not before.is_replaced_by(find({}))
    assert before.is_replaced_by(FoundVersion(KubernetesVersion(35, 1), VersionSource.SCHEDULER_IMAGE))
    assert find({}).is_replaced_by(before)
