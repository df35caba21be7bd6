"""The pods of a review: names, what admission adds, what is ignored."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_record import notes
from herodotus_record.templates import parse_pod_template
from scheduler.engine.manifests.cluster import ManifestError
from scheduler.engine.objects.types import Metadata
from scheduler.engine.whatif.pods import Pods, PriorityClass, build_pods

CONTAINER = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}
CLASSES = {
    "high": PriorityClass(metadata=Metadata(name="high"), value=1000, preemption_policy="Never"),
    "usual": PriorityClass(metadata=Metadata(name="usual"), value=7, global_default=True),
    "other": PriorityClass(metadata=Metadata(name="other"), value=9, global_default=True),
}


def pod(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "web", "labels": {"app": "web"}, "uid": "u1", "ownerReferences": [{"kind": "Job", "name": "j"}]}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [CONTAINER], **spec}, "status": {"phase": "x"}}


def made(manifest: dict[str, Any], replicas: int = 1, classes: Any = CLASSES, scheduler: str = "") -> Pods:
    return build_pods(parse_pod_template(manifest), "shop", scheduler, replicas, classes)


def test_a_pod_is_as_the_api_server_would_store_it() -> None:
    (one,) = made(pod()).pods
    assert (one.full_name, one.uid, one.priority) == ("shop/web", "u1", 7)
    assert (one.pod.spec.scheduler_name, one.requests["cpu"]) == ("default-scheduler", 2000)
    assert one.pod.status.phase == ""
    assert b'"name":"web"' in one.pod.manifest, "extenders are sent it whole"


def test_of_several_the_first_may_exist_and_the_others_do_not() -> None:
    asked = made(pod(), 3)
    assert [(p.name, p.uid) for p in asked.pods] == [("web", "u1"), ("web-1", "shop/web-1"), ("web-2", "shop/web-2")]
    assert asked.named


def test_a_workload_s_pods_are_its_own() -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}
    manifest = {"kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {"template": template}}
    asked = made(manifest, 2, scheduler="ours")
    assert [p.name for p in asked.pods] == ["db-0", "db-1"]
    owners = [o for p in asked.pods for o in p.pod.metadata.owner_references or ()]
    assert [(o.api_version, o.kind, o.name, o.controller) for o in owners] == [
        ("apps/v1", "StatefulSet", "db", True)
    ] * 2
    assert (asked.named, asked.pods[0].pod.spec.scheduler_name) == (False, "ours")


@pytest.mark.parametrize(
    ("spec", "priority", "policy"),
    [
        ({"priorityClassName": "high"}, 1000, "Never"),
        ({"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"}, 1000, "PreemptLowerPriority"),
        ({"priorityClassName": "high", "priority": 5}, 1000, "Never"),
        ({}, 7, None),
    ],
)
def test_the_priority_is_the_class_s(spec: dict[str, Any], priority: int, policy: str | None) -> None:
    (one,) = made(pod(**spec)).pods
    assert (one.priority, one.pod.spec.preemption_policy) == (priority, policy)


def test_a_class_that_is_not_there_is_refused_as_admission_does() -> None:
    with pytest.raises(ManifestError, match="no PriorityClass with name low was found"):
        made(pod(priorityClassName="low"))


def test_without_classes_the_number_counts_and_a_name_alone_is_marked() -> None:
    assert made(pod(priorityClassName="high", priority=5), classes=None).pods[0].priority == 5
    asked = made(pod(priorityClassName="high"), classes=None)
    assert notes.format_notes(asked.notes) == [
        "priority class high does not exist here: the pod's priority counts as 0",
    ]


def test_where_a_pod_is_and_what_holds_it_back_are_left_out() -> None:
    asked = made(pod(nodeName="n", schedulingGates=[{"name": "g"}]))
    assert (asked.pods[0].pod.spec.node_name, asked.pods[0].pod.spec.scheduling_gates) == ("", None)
    assert notes.format_notes(asked.notes) == [
        "spec.nodeName is ignored",
        "spec.schedulingGates is ignored",
    ]


@pytest.mark.parametrize("container", [{"resources": {"requests": {"cpu": "many"}}}, {"ports": 3}])
def test_a_field_that_is_wrong_is_named(container: dict[str, Any]) -> None:
    with pytest.raises(ManifestError, match=r"^the pod.*: spec\.containers"):
        made(pod(containers=[{"name": "c"} | container]))
