"""Suggestions for pods that were changed at admission: no template is changed in vain."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from herodotus_answers.live.cluster_objects import ClusterObjects
from herodotus_answers.live.pods.template_overrides import correct_suggestions
from herodotus_answers.pod_templates import build_template_command

Json = dict[str, Any]
CPU = "spec.template.spec.containers[name=main].resources.requests[cpu]"
SELECTOR = "spec.template.spec.nodeSelector[disk]"
VPA = {"vpaUpdates": "Pod resources updated by web-vpa: container 0: cpu request"}
LIMIT_RANGER = {"kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu, memory request for container main"}


def spec(cpu: str = "", selector: Json | None = None) -> Json:
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    return {"containers": [{"name": "main", "resources": resources}], "nodeSelector": selector or {}}


def correct(
    field: str,
    has: Json,
    template: Json,
    annotations: Json | None = None,
    *,
    kind: str = "ReplicaSet",
    labels: Json | None = None,
    status: Json | None = None,
    autoscaler: Json | None = None,
) -> Json:
    """Return the corrected suggestion that changes a field of a pod's template."""
    owner = {"kind": kind, "name": "web", "controller": True}
    meta: Json = {"name": "web-1", "namespace": "shop", "ownerReferences": [owner], "annotations": annotations or {}}
    meta["labels"] = labels or {}
    maker = {"metadata": {"name": "web"}, "spec": {"template": {"spec": template}}, "status": status}
    ranges = {"items": [{"metadata": {"name": "small"}, "spec": {"limits": [_default_cpu()]}}]}

    def fetch(path: str) -> tuple[int, Json]:
        if "verticalpodautoscalers" in path:
            return (200, autoscaler) if autoscaler else (403, {})
        return 200, ranges if "limitranges" in path else maker

    change = {
        "field": field,
        "to": "2",
        "also": [],
        "text": "change it",
        "command": "kubectl patch",
        "deletes": [],
        "rollsOut": [],
    }
    answer = {"suggestions": [change | {"rights": []}]}
    corrected: Json = correct_suggestions(answer, {"metadata": meta, "spec": has}, ClusterObjects(fetch))
    suggestion: Json = corrected["suggestions"][0]
    return suggestion


def _default_cpu() -> Json:
    return {"type": "Container", "defaultRequest": {"cpu": "6"}}


def test_request_raised_by_a_vertical_autoscaler_is_not_changed_in_the_template() -> None:
    suggestion = correct(CPU, spec("12"), spec("500m"), VPA)
    assert suggestion["command"] is None
    assert "VerticalPodAutoscaler web-vpa set 12 cpu" in suggestion["text"]
    assert "requests 500m cpu" in suggestion["text"]


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ([], [{"containerName": "main", "maxAllowed": {"cpu": "2"}}]),
        (
            [{"containerName": "*", "mode": "Auto", "minAllowed": {"cpu": "1"}}],
            [
                {"containerName": "*", "mode": "Auto", "minAllowed": {"cpu": "1"}},
                {"containerName": "main", "mode": "Auto", "minAllowed": {"cpu": "1"}, "maxAllowed": {"cpu": "2"}},
            ],
        ),
        (
            [{"containerName": "main", "maxAllowed": {"cpu": "16", "memory": "4Gi"}}, {"containerName": "log"}],
            [{"containerName": "log"}, {"containerName": "main", "maxAllowed": {"cpu": "2", "memory": "4Gi"}}],
        ),
        ([{"containerName": "main", "minAllowed": {"cpu": "3"}}], None),
    ],
)
def test_request_set_by_a_vertical_autoscaler_is_capped_in_its_policy(
    policies: list[Json], expected: list[Json] | None
) -> None:
    autoscaler = {"metadata": {"name": "web-vpa"}, "spec": {"resourcePolicy": {"containerPolicies": policies}}}
    suggestion = correct(CPU, spec("12"), spec("500m"), VPA, autoscaler=autoscaler)
    if expected is None:
        assert suggestion["command"] is None
        return
    words = shlex.split(suggestion["command"])
    assert words[:6] == ["kubectl", "-n", "shop", "patch", "verticalpodautoscaler", "web-vpa"]
    assert json.loads(words[8]) == {"spec": {"resourcePolicy": {"containerPolicies": expected}}}
    assert words[9:] == ["&&", "kubectl", "-n", "shop", "delete", "pod", "web-1"]
    assert suggestion["deletes"] == ["Pod/web-1"]
    assert [right["verb"] for right in suggestion["rights"]] == ["patch", "delete"]


def test_default_request_names_its_limit_range_and_keeps_the_command() -> None:
    suggestion = correct(CPU, spec("6"), spec(), LIMIT_RANGER)
    assert "LimitRange small set 6 cpu" in suggestion["text"]
    assert suggestion["command"] == "kubectl patch"


@pytest.mark.parametrize(("field", "has"), [(CPU, spec("6")), (SELECTOR, spec(selector={"disk": "ssd"}))])
def test_value_without_known_origin_was_set_by_a_webhook_or_the_like(field: str, has: Json) -> None:
    suggestion = correct(field, has, spec())
    assert suggestion["command"] is None
    assert "such as a webhook" in suggestion["text"]


@pytest.mark.parametrize(("has", "template"), [("2", "2000m"), ("500m", "0.5")])
def test_equal_amounts_in_other_words_leave_the_suggestion(has: str, template: str) -> None:
    assert correct(CPU, spec(has), spec(template), VPA)["text"] == "change it"


def test_annotation_about_another_container_or_resource_is_not_evidence() -> None:
    other = {"kubernetes.io/limit-ranger": "LimitRanger plugin set: memory request for container main"}
    assert "LimitRange" not in correct(CPU, spec("6"), spec(), other)["text"]


@pytest.mark.parametrize(("revision", "is_evidence"), [("new", True), ("old", False)])
def test_template_that_changed_since_the_pod_was_made_proves_nothing(revision: str, is_evidence: bool) -> None:
    labels, status = {"controller-revision-hash": revision}, {"updateRevision": "new"}
    suggestion = correct(CPU, spec("6"), spec("1"), kind="StatefulSet", labels=labels, status=status)
    assert ("such as a webhook" in suggestion["text"]) is is_evidence


TERM: Json = {"op": "remove", "path": "/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/1"}


@pytest.mark.parametrize(
    ("field", "patch", "operations"),
    [
        (CPU, {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}, []),
        ("spec.template.spec.nodeSelector[disk]", {"nodeSelector": {"disk": "2"}}, []),
        ("spec.template.spec.affinity.podAffinity.required", {}, [TERM]),
        ("spec.template.spec.tolerations", {"priorityClassName": "high"}, [{"op": "add", "path": "/tolerations/-"}]),
    ],
)
def test_command_for_a_job_makes_every_change_in_its_cron_job_too(
    field: str, patch: Json, operations: list[Json]
) -> None:
    template = spec("8", {"disk": "ssd"})
    job = {"metadata": {"name": "sync-1", "ownerReferences": [{"kind": "CronJob", "name": "sync", "controller": True}]}}
    objects = {
        "sync-1": {**job, "spec": {"template": {"spec": template}}},
        "sync": {"metadata": {"name": "sync"}, "spec": {"jobTemplate": {"spec": {"template": {"spec": template}}}}},
    }
    meta = {"name": "p", "namespace": "ops", "ownerReferences": [{"kind": "Job", "name": "sync-1", "controller": True}]}
    of_job = build_template_command("Job", "sync-1", "ops", patch, operations)
    assert of_job is not None
    change = {"field": field, "to": "2", "also": [], "text": "change it", "command": of_job.command, "rights": []}
    found = correct_suggestions(
        {"suggestions": [change]},
        {"metadata": meta, "spec": template},
        ClusterObjects(lambda path: (200, objects[path.rpartition("/")[2]])),
    )["suggestions"][0]
    first, *later = found["command"].split(" && ")
    assert first == of_job.command
    assert "CronJob/sync makes its next Jobs from a template of its own: the last command" in found["text"]
    assert [right["resource"] for right in found["rights"]] == ["cronjobs.batch"]
    patches = [json.loads(each.partition(" -p ")[2].strip("'")) for each in later]
    template_path = "/spec/jobTemplate/spec/template/spec"
    assert patches == [
        *([[{**each, "path": f"{template_path}{each['path']}"} for each in operations]] if operations else []),
        *([{"spec": {"jobTemplate": {"spec": {"template": {"spec": patch}}}}}] if patch else []),
    ]


def test_template_that_a_controller_would_change_back_gets_no_command() -> None:
    owners = [{"kind": "Prometheus", "name": "main", "controller": True}]
    maker: Json = {"metadata": {"name": "web", "ownerReferences": owners}, "spec": {"template": {"spec": spec("2")}}}
    owner = {"kind": "StatefulSet", "name": "web", "controller": True}
    meta = {"name": "web-0", "namespace": "shop", "ownerReferences": [owner]}
    change = {"field": CPU, "to": "1", "also": [], "text": "lower it", "command": "kubectl patch", "rights": []}
    answer = {"suggestions": [change | {"deletes": [], "rollsOut": [], "object": "StatefulSet/web"}]}

    def fetch(path: str) -> tuple[int, Json]:
        return (200, maker) if path.endswith("/statefulsets/web") else (404, {})

    corrected = correct_suggestions(answer, {"metadata": meta, "spec": spec("2")}, ClusterObjects(fetch))
    suggestion = corrected["suggestions"][0]
    assert (suggestion["object"], suggestion["command"]) == ("Prometheus/main", None)
    assert suggestion["text"].endswith("in Prometheus/main, whose controller would undo a change of StatefulSet/web")


def test_runtime_classes_that_select_nodes_are_named() -> None:
    key = "node.kubernetes.io/windows-build"
    node: Json = {"metadata": {"name": "w1", "labels": {key: "10.0.20348"}}}
    classes = [
        {"metadata": {"name": name}, "scheduling": {"nodeSelector": {key: build}}}
        for name, build in (("old", "10.0.17763"), ("new", "10.0.20348"))
    ]

    def fetch(path: str) -> tuple[int, Json]:
        listed = {"nodes": [node], "runtimeclasses": classes}.get(path.partition("?")[0].rpartition("/")[2])
        if listed is not None:
            return 200, {"items": listed}
        if path.endswith("/runtimeclasses/old"):
            return 200, classes[0]
        return (200, {"metadata": {"name": "web"}, "spec": {"template": {}}}) if "replicasets" in path else (404, {})

    owner = {"kind": "ReplicaSet", "name": "web", "controller": True}
    pod: Json = {"metadata": {"name": "p", "namespace": "a", "ownerReferences": [owner]}}
    pod["spec"] = {"runtimeClassName": "old", "nodeSelector": {key: "10.0.17763"}}
    change = {"field": f"spec.template.spec.nodeSelector[{key}]", "also": [], "text": "x", "command": "y"}
    text = correct_suggestions({"suggestions": [change]}, pod, ClusterObjects(fetch))["suggestions"][0]["text"]
    assert "name another RuntimeClass, which nodes have: new (w1: node.kubernetes.io/windows-build=10.0.20348)" in text
