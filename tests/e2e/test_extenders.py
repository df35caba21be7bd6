"""A whole system with an extender that filters, scores and binds, and the record of its verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster, Herodotus, node, pod
from tests.processes import eventually
from tests.scheduler.extenders.stub import Request, Stub, send, stub

Json = dict[str, Any]


@pytest.fixture
def extender(cluster: Cluster) -> Iterator[Stub]:
    """Run an extender that rejects n0, prefers n2 and binds pods itself."""

    def narrow(handler: BaseHTTPRequestHandler, request: Request) -> None:
        items = [item for item in request.json["Nodes"]["items"] if item["metadata"]["name"] != "n0"]
        send(handler, json.dumps({"Nodes": {"items": items}, "FailedNodes": {"n0": "in maintenance"}}).encode())

    def bind(handler: BaseHTTPRequestHandler, request: Request) -> None:
        args = request.json
        metadata = {"name": args["PodName"], "namespace": args["PodNamespace"], "uid": args["PodUID"]}
        target = {"apiVersion": "v1", "kind": "Node", "name": args["Node"]}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        path = f"/api/v1/namespaces/{args['PodNamespace']}/pods/{args['PodName']}/binding"
        cluster.create(path, binding)
        send(handler, b'{"Error":""}')

    with stub() as running:
        running.reply("filter", narrow)
        running.answer("prioritize", [{"Host": "n2", "Score": 10}])
        running.reply("bind", bind)
        yield running


@pytest.fixture
def herodotus(cluster: Cluster, extender: Stub, tmp_path: Path) -> Iterator[Herodotus]:
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "bindVerb": "bind", "weight": 3}
    running = Herodotus(cluster, tmp_path, extenders=[{"urlPrefix": extender.url, **verbs}])
    yield running
    running.stop()


def request_about(extender: Stub, verb: str, name: str) -> Json:
    """Return the request that an extender got for a pod."""
    for request in extender.requests:
        if request.path.endswith(f"/{verb}") and request.json["Pod"]["metadata"]["name"] == name:
            return dict(request.json)
    raise AssertionError(f"no {verb} request for {name}")


def test_an_extender_filters_scores_and_binds(
    cluster: Cluster, namespace: str, extender: Stub, herodotus: Herodotus
) -> None:
    herodotus.add_nodes(*(node(f"n{i}") for i in range(4)))
    cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod("p"))
    eventually(lambda: "p" in cluster.bound(namespace), "the pod to be bound")
    assert cluster.bound(namespace)["p"]["spec"]["nodeName"] == "n2"
    assert [r.json["PodName"] for r in extender.requests if r.path.endswith("/bind")] == ["p"]

    eventually(lambda: herodotus.decisions(namespace) or None, "the decision")
    answer = herodotus.explanation(namespace, "p", all="true")
    (narrowed,) = (row for row in answer["perNode"] if row["node"] == "n0")
    assert [(r["plugin"], [d["text"] for d in r["reasons"]]) for r in narrowed["rejectedBy"]] == [
        (extender.url, ["in maintenance"])
    ]
    best = answer["ranking"][0]
    assert (best["node"], best["scores"][extender.url]) == ("n2", {"raw": 10, "normalized": 100, "weighted": 300})


def test_an_extender_gets_complete_and_current_objects(
    cluster: Cluster, namespace: str, extender: Stub, herodotus: Herodotus
) -> None:
    """This includes fields that scheduling never reads, such as an image pull policy or a node's heartbeat."""
    herodotus.add_nodes(node("n1"), node("n2"))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    cluster.create(pods, pod("first"))
    eventually(lambda: "first" in cluster.bound(namespace), "the first pod to be bound")
    before = cluster.get("/api/v1/nodes/n1")
    heartbeat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-03-01T12:00:00Z"}
    cluster.patch("/api/v1/nodes/n1/status", {"status": {"conditions": [heartbeat]}})
    eventually(
        lambda: cluster.get("/api/v1/nodes/n1")["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"],
        "the node to change",
    )
    names = (f"later-{n}" for n in count())

    def sent_with_the_change() -> str | None:
        """Create a pod; return its name if the extender got the changed node, whose watch may lag behind."""
        name = next(names)
        cluster.create(pods, pod(name, cpu="1m"))
        eventually(lambda: name in cluster.bound(namespace), f"{name} to be bound")
        (n1,) = (n for n in request_about(extender, "filter", name)["Nodes"]["items"] if n["metadata"]["name"] == "n1")
        return name if n1["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"] else None

    later = eventually(sent_with_the_change, "the extender to be sent the node as it is now")
    sent = request_about(extender, "filter", later)
    assert list(sent) == ["Pod", "Nodes", "NodeNames"]
    assert sent["Pod"]["spec"] == {
        key: value for key, value in cluster.get(f"{pods}/{later}")["spec"].items() if key != "nodeName"
    }
    assert "kind" not in sent["Pod"]
    assert "managedFields" not in sent["Pod"]["metadata"]
    (n1,) = (item for item in sent["Nodes"]["items"] if item["metadata"]["name"] == "n1")
    now = cluster.get("/api/v1/nodes/n1")
    assert n1 == {key: value for key, value in now.items() if key not in ("kind", "apiVersion")}


def test_a_failing_extender_keeps_the_pod_pending_and_is_recorded(
    cluster: Cluster, namespace: str, extender: Stub, herodotus: Herodotus
) -> None:
    extender.answer("filter", {}, status=500)
    herodotus.add_nodes(node("n1"))
    cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod("p"))
    condition = eventually(lambda: cluster.condition(namespace, "p") or None, "the condition")
    message = f"failed filter with extender at URL {extender.url}/filter, code 500"
    assert (condition["reason"], condition["message"]) == ("SchedulerError", message)
    eventually(lambda: herodotus.decisions(namespace) or None, "the decision")
    assert f"extender {extender.url} failed to filter: {message}" in herodotus.explanation(namespace, "p")["notes"]

    del extender.replies["filter"]
    extender.answer("filter", {"Nodes": {"items": [{"metadata": {"name": "n1"}}]}})
    eventually(lambda: "p" in cluster.bound(namespace), "the pod to be bound once the extender is back")
