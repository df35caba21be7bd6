"""Every patch type, on plain values and over HTTP."""

from typing import Any

import pytest

from herodotus_sim.errors import StatusError
from herodotus_sim.patches import json_patch, merge_patch, strategic_merge
from tests.sim.client import PODS, SimClient, a_node, a_pod, select_keys

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        pytest.param([{"op": "add", "path": "/b", "value": 2}], {"a": [1, 2], "b": 2}, id="add"),
        pytest.param([{"op": "add", "path": "/a/1", "value": 9}], {"a": [1, 9, 2]}, id="add at an index"),
        pytest.param([{"op": "add", "path": "/a/-", "value": 9}], {"a": [1, 2, 9]}, id="append"),
        pytest.param([{"op": "remove", "path": "/a/0"}], {"a": [2]}, id="remove"),
        pytest.param([{"op": "replace", "path": "/a/1", "value": 9}], {"a": [1, 9]}, id="replace"),
        pytest.param([{"op": "move", "from": "/a", "path": "/x~1y"}], {"x/y": [1, 2]}, id="move, escaped slash"),
        pytest.param(
            [{"op": "copy", "from": "/a/0", "path": "/b~0"}], {"a": [1, 2], "b~": 1}, id="copy, escaped tilde"
        ),
        pytest.param([{"op": "test", "path": "/a/0", "value": 1}], {"a": [1, 2]}, id="test"),
    ],
)
def test_json_patch(operations: list[Any], expected: Any) -> None:
    target = {"a": [1, 2]}
    assert json_patch(target, operations) == expected
    assert target == {"a": [1, 2]}


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "test", "path": "/a/0", "value": 2}, id="a failed test"),
        pytest.param({"op": "remove", "path": "/none"}, id="remove what is not there"),
        pytest.param({"op": "replace", "path": "/none", "value": 1}, id="replace what is not there"),
        pytest.param({"op": "add", "path": "/a/7", "value": 1}, id="an index too far"),
        pytest.param({"op": "add", "path": "/a/-1", "value": 1}, id="a negative index"),
        pytest.param({"op": "add", "path": "a", "value": 1}, id="no pointer"),
        pytest.param({"op": "boil", "path": "/a"}, id="no operation"),
        pytest.param("add", id="no object"),
    ],
)
def test_an_inapplicable_json_patch_is_unprocessable(operation: Any) -> None:
    with pytest.raises(StatusError) as refused:
        json_patch({"a": [1, 2]}, [operation])
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param({"a": {"b": None}}, {"a": {}, "l": [1]}, id="null removes"),
        pytest.param({"a": {"c": 1}}, {"a": {"b": 1, "c": 1}, "l": [1]}, id="objects merge"),
        pytest.param({"l": [2]}, {"a": {"b": 1}, "l": [2]}, id="lists are replaced"),
        pytest.param({"n": {"x": None, "y": 1}}, {"a": {"b": 1}, "l": [1], "n": {"y": 1}}, id="no null in new objects"),
    ],
)
def test_merge_patch(patch: Any, expected: Any) -> None:
    assert merge_patch({"a": {"b": 1}, "l": [1]}, patch) == expected


CONDITIONS = [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "False"}]


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        pytest.param(
            {"conditions": CONDITIONS},
            {"conditions": [{"type": "PodScheduled", "status": "True"}], "$setElementOrder/conditions": [
                {"type": "PodScheduled"}]},
            {"conditions": [CONDITIONS[0], {"type": "PodScheduled", "status": "True"}]},
            id="conditions by type",
        ),
        pytest.param(
            {"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}]},
            {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}, {"name": "b"}]},
            {"containers": [
                {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
                {"name": "b"}]},
            id="containers and env by name",
        ),
        pytest.param(
            {"containers": [{"name": "a"}, {"name": "b"}]},
            {"containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": [{"name": "b"}]},
            id="delete an item",
        ),
        pytest.param(
            {"containers": [{"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 81}]}]},
            {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "http"}]}]},
            {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81}]}]},
            id="container ports by containerPort",
        ),
        pytest.param(
            {"spec": {"ports": [{"port": 80}]}}, {"spec": {"ports": [{"port": 80, "name": "http"}, {"port": 81}]}},
            {"spec": {"ports": [{"port": 80, "name": "http"}, {"port": 81}]}},
            id="service ports by port",
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}], "taints": [{"key": "a"}]},
            {"tolerations": [{"key": "b"}], "taints": None}, {"tolerations": [{"key": "b"}]},
            id="tolerations and taints are atomic",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]},
            {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
            id="retain keys",
        ),
        pytest.param(
            {"finalizers": ["a", "b"]}, {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["b", "c"]},
            id="finalizers are a set",
        ),
        pytest.param(
            {"ownerReferences": [{"uid": "1", "name": "x"}]}, {"ownerReferences": [{"uid": "1", "$patch": "delete"}]},
            {"ownerReferences": []},
            id="owners by uid",
        ),
        pytest.param(
            {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]},
            {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]},
            {"containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}]},
            id="order",
        ),
        pytest.param(
            {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}},
            {"strategy": {"$patch": "replace", "type": "Recreate"}}, {"strategy": {"type": "Recreate"}},
            id="replace an object",
        ),
        pytest.param({"a": {"b": 1}, "c": 1}, {"a": {"$patch": "delete"}}, {"c": 1}, id="delete an object"),
    ],
)  # fmt: skip
def test_strategic_merge(target: Any, patch: Any, expected: Any) -> None:
    assert strategic_merge(target, patch) == expected


@pytest.mark.parametrize(
    ("type_", "patch"),
    [
        pytest.param(JSON_PATCH, [{"op": "add", "path": "/metadata/labels/a", "value": "b"}], id="json"),
        pytest.param(MERGE_PATCH, {"metadata": {"labels": {"a": "b"}}}, id="merge"),
        pytest.param(STRATEGIC_PATCH, {"metadata": {"labels": {"a": "b"}}}, id="strategic"),
        pytest.param(APPLY_PATCH, {"metadata": {"labels": {"a": "b"}}}, id="apply"),
    ],
)
def test_every_patch_type_works_over_http(api: SimClient, type_: str, patch: Any) -> None:
    api("POST", PODS, a_pod("web", labels={"x": "y"}))
    status, patched = api("PATCH", f"{PODS}/web?fieldManager=test", patch, type_)
    assert (status, patched["metadata"]["labels"]) == (200, {"x": "y", "a": "b"})
    assert api("GET", f"{PODS}/web") == (200, patched)


def test_the_patch_a_scheduler_sends_for_a_pod_without_a_node(api: SimClient) -> None:
    _, pod = api("POST", PODS, a_pod("web"))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/0 nodes"}
    patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [condition]}}
    _, first = api("PATCH", f"{PODS}/web/status", patch, STRATEGIC_PATCH)
    patch["status"]["nominatedNodeName"] = "n1"
    _, second = api("PATCH", f"{PODS}/web/status", patch, STRATEGIC_PATCH)
    assert [first["status"], second["status"], second["spec"]] == [
        {"phase": "Pending", "conditions": [condition]},
        {"phase": "Pending", "conditions": [condition], "nominatedNodeName": "n1"},
        pod["spec"],
    ]


@pytest.mark.parametrize(
    ("type_", "patch", "code", "reason"),
    [
        pytest.param("application/json", {}, 415, "UnsupportedMediaType", id="no patch type"),
        pytest.param(MERGE_PATCH, {"metadata": {"resourceVersion": "1"}}, 409, "Conflict", id="stale version"),
        pytest.param(MERGE_PATCH, {"metadata": {"uid": "another"}}, 409, "Conflict", id="another uid"),
        pytest.param(MERGE_PATCH, [], 400, "BadRequest", id="no object"),
        pytest.param(JSON_PATCH, {}, 400, "BadRequest", id="no list"),
        pytest.param(JSON_PATCH, [{"op": "remove", "path": "/metadata"}], 422, "Invalid", id="nothing left"),
        pytest.param(APPLY_PATCH, {"metadata": {}}, 422, "Invalid", id="apply without a manager"),
        pytest.param(STRATEGIC_PATCH, {"spec": {"containers": [{"image": "x"}]}}, 400, "BadRequest", id="no merge key"),
    ],
)
def test_invalid_patches_are_rejected(api: SimClient, type_: str, patch: Any, code: int, reason: str) -> None:
    api("POST", PODS, a_pod("web"))
    status, answer = api("PATCH", f"{PODS}/web", patch, type_)
    assert (status, answer["kind"], answer["reason"]) == (code, "Status", reason)


def test_apply_creates_the_object_and_records_its_manager(api: SimClient) -> None:
    status, node = api("PATCH", "/api/v1/nodes/n1?fieldManager=me", a_node("n1"), APPLY_PATCH)
    wanted = {"manager": "me", "operation": "Apply", "apiVersion": "v1"}
    assert (status, [select_keys(entry, wanted) for entry in node["metadata"]["managedFields"]]) == (201, [wanted])
    status, again = api("PATCH", "/api/v1/nodes/n1?fieldManager=me", a_node("n1"), APPLY_PATCH)
    assert (status, again) == (200, node)
