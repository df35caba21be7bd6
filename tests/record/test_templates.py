"""Which objects describe pods, how many, and with which template."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_record.templates import PodTemplate, PodTemplateError, is_pod_or_workload, parse_pod_template

SPEC = {"schedulerName": "ours", "containers": [{"name": "c"}]}
LABELS = {"labels": {"app": "web"}}
TEMPLATE = {"metadata": LABELS, "spec": SPEC}
NAME = {"name": "web", "namespace": "shop"}


def workload(kind: str, version: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": NAME, "spec": {"template": TEMPLATE, **spec}}


JOB = workload("Job", "batch/v1", parallelism=4)


@pytest.mark.parametrize(
    ("manifest", "replicas"),
    [
        (workload("Deployment", "apps/v1", replicas=3), 3),
        (workload("Deployment", "apps/v1"), 1),
        (workload("StatefulSet", "apps/v1", replicas=2), 2),
        (workload("ReplicaSet", "apps/v1", replicas=0), 0),
        (workload("ReplicationController", "v1", replicas=5), 5),
        (JOB, 4),
        ({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": NAME, "spec": {"jobTemplate": JOB}}, 4),
    ],
    ids=lambda v: v["kind"] if isinstance(v, dict) else "",
)
def test_a_workload_creates_pods_of_its_template(manifest: dict[str, Any], replicas: int) -> None:
    assert is_pod_or_workload(manifest)
    found = parse_pod_template(manifest)
    assert found == PodTemplate(manifest["kind"], "web", "shop", {"metadata": LABELS, "spec": SPEC}, replicas)
    assert found.scheduler == "ours"


def test_a_pod_is_its_own_template() -> None:
    metadata = {"generateName": "web-", "labels": {"a": "b"}}
    found = parse_pod_template({"kind": "Pod", "metadata": metadata, "spec": {}})
    assert found == PodTemplate("Pod", "web", "", {"metadata": metadata, "spec": {}}, 1)
    assert found.scheduler == ""


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        ([], "expected an object"),
        ({}, "kind: expected Pod, Deployment, ReplicaSet"),
        ({"kind": "Service"}, "found Service"),
        ({"kind": "DaemonSet"}, "a DaemonSet has a pod for each node, which its controller pins there"),
        (workload("Deployment", "extensions/v1beta1"), "apiVersion: extensions/v1beta1 has no Deployment"),
        (workload("Deployment", "apps/v1", replicas="3"), "spec.replicas: expected a number of pods"),
        (workload("Deployment", "apps/v1", replicas=-1), "spec.replicas: expected a number of pods"),
        (workload("Job", "batch/v1", parallelism=True), "spec.parallelism: expected a number of pods"),
        (workload("Deployment", "apps/v1", template=None), "spec.template: required"),
        (workload("Deployment", "apps/v1", template={"spec": []}), "spec.template.spec: expected an object"),
        ({"kind": "Pod", "metadata": {"name": "p"}}, "spec: required"),
        ({"kind": "Pod", "metadata": {}, "spec": {}}, "metadata.name: required"),
        ({"kind": "CronJob", "metadata": NAME, "spec": {}}, "spec.jobTemplate: required"),
    ],
)
def test_an_object_without_pods_is_refused(manifest: object, says: str) -> None:
    with pytest.raises(PodTemplateError) as refused:
        parse_pod_template(manifest)
    assert says in str(refused.value)
