"""Builders for nodes and pods in a simulated cluster, and a fake Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import httpx

from herodotus_kube.credentials import find_credentials
from herodotus_kube.http import ApiServer
from herodotus_sim import SimulatedCluster
from scheduler.prometheus import Prometheus

Json = dict[str, Any]


def node(name: str, address: str = "", **allocatable: str) -> Json:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110", **allocatable}
    addresses = [{"type": "InternalIP", "address": address}] if address else []
    status = {"allocatable": amounts, "addresses": addresses}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, node_name: str = "", phase: str = "", labels: dict[str, str] | None = None, **spec: Any) -> Json:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    made: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
        "spec": {"containers": [container], **({"nodeName": node_name} if node_name else {}), **spec},
    }
    return made | ({"status": {"phase": phase}} if phase else {})


@contextmanager
def simulated(*objects: Json) -> Iterator[tuple[SimulatedCluster, ApiServer]]:
    with SimulatedCluster(objects=list(objects)) as sim, closing(ApiServer(find_credentials(master=sim.url))) as kube:
        yield sim, kube


def node_annotations(sim: SimulatedCluster, name: str) -> dict[str, str]:
    """Return a node's annotations without the times of measurement."""
    found = sim.get("nodes", "", name)["metadata"].get("annotations") or {}
    return {key: value for key, value in found.items() if not key.endswith("measured-at")}


def prometheus(answer: Callable[[httpx.Request], httpx.Response]) -> Prometheus:
    return Prometheus("http://prometheus.test:9090", transport=httpx.MockTransport(answer))


def matrix(series: dict[str, list[float]]) -> httpx.Response:
    """Return the response to a range query: the values of each instance, one per second."""
    result = [
        {"metric": {"instance": name}, "values": [[1000 + i, str(v)] for i, v in enumerate(values)]}
        for name, values in series.items()
    ]
    return httpx.Response(200, json={"status": "success", "data": {"resultType": "matrix", "result": result}})


def vector(series: dict[str, float]) -> httpx.Response:
    result = [{"metric": {"instance": name}, "value": [1000, str(v)]} for name, v in series.items()]
    return httpx.Response(200, json={"status": "success", "data": {"resultType": "vector", "result": result}})
