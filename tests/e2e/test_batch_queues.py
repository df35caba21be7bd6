"""Pods that wait for Kueue or Volcano, on a real API server with CRDs written by hand and without their controllers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.service import Ran, command
from tests.e2e import control_plane
from tests.e2e.cluster import Cluster
from tests.e2e.real_cluster import run_api_server
from tests.processes import eventually

Json = dict[str, Any]
NAMESPACE = "queues"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KUEUE, VOLCANO = "/apis/kueue.x-k8s.io/v1beta1", "/apis/scheduling.volcano.sh/v1beta1"
LACKS = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more needed"


def definition(group: str, kind: str, plural: str, *, namespaced: bool) -> Json:
    """Return a CRD that keeps every field. Without a status subresource, an object is created with its status."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [{"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


DEFINITIONS = [
    definition("kueue.x-k8s.io", "Workload", "workloads", namespaced=True),
    definition("kueue.x-k8s.io", "LocalQueue", "localqueues", namespaced=True),
    definition("kueue.x-k8s.io", "ClusterQueue", "clusterqueues", namespaced=False),
    definition("scheduling.volcano.sh", "PodGroup", "podgroups", namespaced=True),
    definition("scheduling.volcano.sh", "Queue", "queues", namespaced=False),
]


def a_pod(name: str, **more: Any) -> Json:
    spec = {"containers": [{"name": "c", "image": "x"}], **more.pop("spec", {})}
    return {"metadata": {"name": name, **more}, "spec": spec}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    binaries = control_plane.assets()
    if binaries is None:
        pytest.skip("NOT TESTED ON A REAL API SERVER: no etcd and kube-apiserver")
    directory = tmp_path_factory.mktemp("queues")
    with run_api_server(binaries, directory) as cluster:
        cluster.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        allocatable = {"cpu": "4", "pods": "9"}
        cluster.create("/api/v1/nodes", {"metadata": {"name": "n0"}, "status": {"allocatable": allocatable}})
        gated = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        cluster.create(pods, a_pod("held", spec=gated))
        cluster.create(pods, a_pod("member", annotations={"scheduling.k8s.io/group-name": "train"}))
        yield cluster


def ask(real: Cluster, pod: str, *more: str, width: int = 0) -> Ran:
    """Return what the plugin says about a pod in local mode."""
    of_cluster = ("--kubeconfig", str(real.kubeconfig))
    ran = command("pod", pod, "-n", NAMESPACE, "--local", *of_cluster, *more, environ=os.environ, width=width)
    assert ran.code == 0, ran
    return ran


def explain(real: Cluster, pod: str) -> Json:
    document: Json = json.loads(ask(real, pod, "-o", "json").out)
    return document


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_a_queue_that_is_not_served_is_named_in_one_line_and_one_that_is_is_explained(
    real: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = explain(real, "held")
    assert before["live"]["queue"]["notes"] == ["Kueue's API (kueue.x-k8s.io) is not served or may not be read"]
    for each in DEFINITIONS:
        real.create(CRDS, each)
    uid = real.get(f"/api/v1/namespaces/{NAMESPACE}/pods/held")["metadata"]["uid"]
    waiting = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": LACKS}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "held", "uid": uid}
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "10"}]}
    usage = [{"name": "default", "resources": [{"name": "cpu", "total": "9"}]}]
    unschedulable = {"type": "Unschedulable", "status": "True", "message": "1/4 tasks in gang unschedulable"}
    for path, kind, name, content in (
        (f"{KUEUE}/clusterqueues", "ClusterQueue", "all", {
            "spec": {"resourceGroups": [{"flavors": [flavor]}]}, "status": {"flavorsUsage": usage}}),
        (f"{KUEUE}/namespaces/{NAMESPACE}/localqueues", "LocalQueue", "team", {"spec": {"clusterQueue": "all"}}),
        (f"{KUEUE}/namespaces/{NAMESPACE}/workloads", "Workload", "pod-held", {
            "spec": {"queueName": "team"}, "status": {"conditions": [waiting]}}),
        (f"{VOLCANO}/queues", "Queue", "batch", {"spec": {"capability": {"cpu": "8"}}, "status": {"pending": 1}}),
        (f"{VOLCANO}/namespaces/{NAMESPACE}/podgroups", "PodGroup", "train", {
            "spec": {"queue": "batch", "minMember": 4},
            "status": {"phase": "Pending", "conditions": [unschedulable]}}),
    ):  # fmt: skip
        metadata = {"name": name} | ({"ownerReferences": [owner]} if kind == "Workload" else {})
        version = "/".join(path.split("/")[2:4])
        eventually(lambda at=path: real.status(at) == 200, f"{kind} to be served", 30)  # type: ignore[misc]
        real.create(path, {"apiVersion": version, "kind": kind, "metadata": metadata, **content})
    kueue = explain(real, "held")["live"]["queue"]
    assert (kueue["object"], kueue["state"], kueue["message"]) == ("Workload/pod-held", "waiting for quota", LACKS)
    assert (kueue["localQueue"], kueue["queue"], kueue["position"], kueue["waiting"]) == ("team", "all", 1, 1)
    assert kueue["quota"] == [{"flavor": "default", "resource": "cpu", "used": "9", "limit": "10"}]
    monkeypatch.setattr("herodotus_cli.transport.api_server_queries._TIMEOUT_S", 30.0)  # a loaded machine is no failure
    screen = ask(real, "member", width=100).out
    assert "Volcano PodGroup/train: Pending, needs 4 pods" in screen
    assert unschedulable["message"] in screen
