"""The example of an operator writes the reason into the status of a custom resource on a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e import control_plane
from tests.e2e.real_cluster import run_api_server
from tests.processes import eventually
from tests.support.example_operator import HEADLINE, WAITS, a_recorded_service, report_pods

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OBJECTS = "/apis/example.com/v1/namespaces/shop/trainings"
_TEXT = {"type": "string"}
# The condition of metav1, with its pattern of a reason.
CONDITION = {
    "type": "object",
    "required": ["type", "status", "lastTransitionTime", "reason", "message"],
    "properties": {
        "type": _TEXT,
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "reason": {"type": "string", "minLength": 1, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
        "message": {"type": "string", "maxLength": 32768},
    },
}
STATUS = {"type": "object", "properties": {"conditions": {"type": "array", "items": CONDITION}}}
DEFINITION = {
    "metadata": {"name": "trainings.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Training", "plural": "trainings", "singular": "training", "listKind": "TrainingList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"status": STATUS}}},
            }
        ],
    },
}


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_reason_is_a_valid_condition_of_a_custom_resource(tmp_path: Path) -> None:
    binaries = control_plane.assets()
    if binaries is None:
        pytest.skip("NOT TESTED ON A REAL API SERVER: no etcd and kube-apiserver")
    service = a_recorded_service(tmp_path)
    with run_api_server(binaries, tmp_path) as cluster:
        cluster.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        cluster.create(CRDS, DEFINITION)
        owner = {"apiVersion": "example.com/v1", "kind": "Training", "metadata": {"name": "bert"}}
        eventually(lambda: cluster.status(OBJECTS) == 200, "the resource to be served")
        uid = cluster.create(OBJECTS, owner)["metadata"]["uid"]
        reference = {"apiVersion": "example.com/v1", "kind": "Training", "name": "bert", "uid": uid, "controller": True}
        pod = {"name": WAITS, "ownerReferences": [reference]}
        spec = {"containers": [{"name": "main", "image": "registry.example/app:1"}]}
        cluster.create("/api/v1/namespaces/shop/pods", {"metadata": pod, "spec": spec})
        report_pods(cluster.kubeconfig, service, "trainings.v1.example.com", [("ADDED", WAITS)])
        (condition,) = cluster.get(f"{OBJECTS}/bert")["status"]["conditions"]
    service.store.close()
    assert condition["lastTransitionTime"]
    assert condition | {"lastTransitionTime": ""} == {
        "type": "Scheduled",
        "status": "False",
        "reason": "Insufficient",
        "message": HEADLINE,
        "lastTransitionTime": "",
    }
