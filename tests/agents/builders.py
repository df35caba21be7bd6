"""Requests as schedulers send them, and the service with chosen agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flask.testing import FlaskClient

from herodotus_agents.app import create_app
from herodotus_agents.nodes import KnownNodes
from herodotus_agents.registry import load

Json = dict[str, Any]

NOW_S = 1_772_366_400.0  # 2026-03-01T12:00:00Z
JUST_NOW = "2026-03-01T11:59:30+00:00"
LONG_AGO = "2026-03-01T11:00:00+00:00"


def a_node(name: str, annotations: Mapping[str, str] | None = None, **allocatable: str) -> Json:
    """4 cpu, 4Gi, 110 pods unless it says otherwise."""
    amounts = {"cpu": "4", "memory": "4Gi", "pods": "110", **allocatable}
    return {"metadata": {"name": name, "annotations": dict(annotations or {})}, "status": {"allocatable": amounts}}


def a_pod(cpu: str = "500m", memory: str = "200Mi", labels: Mapping[str, str] | None = None, **spec: Any) -> Json:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    metadata = {"name": "p", "namespace": "shop", "uid": "uid-p", "labels": dict(labels or {})}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def asked(pod: Json, nodes: Sequence[Json]) -> Json:
    """A request with whole nodes, spelt as kube-scheduler spells it."""
    return {"Pod": pod, "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None}


def service(
    *names: str,
    environment: Mapping[str, str] | None = None,
    sections: Mapping[str, Json] | None = None,
    known: KnownNodes | None = None,
    clock: Callable[[], float] = lambda: NOW_S,
) -> FlaskClient:
    """A client of the service with these agents."""
    loaded = load(names, sections or {}, environment or {}, clock)
    assert not loaded.failed
    return create_app(loaded, known).test_client()


def points(client: FlaskClient, verb: str, pod: Json, nodes: Sequence[Json]) -> dict[str, int]:
    response = client.post(f"/scheduler/priorities/{verb}", json=asked(pod, nodes))
    assert response.status_code == 200, response.text
    return {given["Host"]: given["Score"] for given in response.json}


def left(client: FlaskClient, verb: str, pod: Json, nodes: Sequence[Json]) -> tuple[list[str], dict[str, str]]:
    """The nodes that are left, and why the others are not."""
    response = client.post(f"/scheduler/predicates/{verb}", json=asked(pod, nodes))
    assert response.status_code == 200, response.text
    answer = response.json
    assert answer["Error"] == ""
    return [item["metadata"]["name"] for item in answer["Nodes"]["items"]], answer["FailedNodes"]
