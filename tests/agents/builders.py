"""Builders for extender requests, and a test client of the service with selected agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from herodotus_agents.app import create_app
from herodotus_agents.nodes import NodeCache
from herodotus_agents.registry import load_agents

Json = dict[str, Any]

NOW_S = 1_772_366_400.0  # 2026-03-01T12:00:00Z
JUST_NOW = "2026-03-01T11:59:30+00:00"
LONG_AGO = "2026-03-01T11:00:00+00:00"


def a_node(name: str, annotations: Mapping[str, str] | None = None, **allocatable: str) -> Json:
    """Return a node with 4 cpu, 4Gi of memory and 110 pods unless `allocatable` overrides them."""
    amounts = {"cpu": "4", "memory": "4Gi", "pods": "110", **allocatable}
    return {"metadata": {"name": name, "annotations": dict(annotations or {})}, "status": {"allocatable": amounts}}


def a_pod(cpu: str = "500m", memory: str = "200Mi", labels: Mapping[str, str] | None = None, **spec: Any) -> Json:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    metadata = {"name": "p", "namespace": "shop", "uid": "uid-p", "labels": dict(labels or {})}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def extender_args(pod: Json, nodes: Sequence[Json]) -> Json:
    """Return an ExtenderArgs document with whole nodes, with the keys as kube-scheduler writes them."""
    return {"Pod": pod, "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None}


def service(
    *names: str,
    environment: Mapping[str, str] | None = None,
    sections: Mapping[str, Json] | None = None,
    known: NodeCache | None = None,
) -> FlaskClient:
    """Return a test client of the service with these agents."""
    loaded = load_agents(names, sections or {}, environment or {})
    assert not loaded.failed
    return create_app(loaded, known).test_client()


def json_of(response: TestResponse) -> Any:
    """Return the JSON document of a response, which must have one."""
    assert response.json is not None, response.text
    return response.json


def points(client: FlaskClient, verb: str, pod: Json, nodes: Sequence[Json]) -> dict[str, int]:
    response = client.post(f"/scheduler/priorities/{verb}", json=extender_args(pod, nodes))
    assert response.status_code == 200, response.text
    return {entry["Host"]: entry["Score"] for entry in json_of(response)}


def feasible_nodes(
    client: FlaskClient, verb: str, pod: Json, nodes: Sequence[Json]
) -> tuple[list[str], dict[str, str]]:
    """Return the names of the nodes that pass, and the reason for each failed node."""
    response = client.post(f"/scheduler/predicates/{verb}", json=extender_args(pod, nodes))
    assert response.status_code == 200, response.text
    answer = json_of(response)
    assert answer["Error"] == ""
    return [item["metadata"]["name"] for item in answer["Nodes"]["items"]], answer["FailedNodes"]
