"""A client that speaks plain HTTP to a simulated cluster, as a stranger's would, and the objects it sends."""

import http.client
import json
from dataclasses import dataclass, field
from typing import Any

from herodotus_sim import SimulatedCluster

Object = dict[str, Any]


@dataclass
class SimClient:
    """Whole requests over a fresh connection each, as a stranger's client would send them."""

    sim: SimulatedCluster
    streams: list["Stream"] = field(default_factory=list)

    @property
    def address(self) -> str:
        return self.sim.url.removeprefix("http://")

    def raw(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            response = connection.getresponse()
            return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
        finally:
            connection.close()

    def __call__(self, method: str, path: str, body: Any = None, type_: str = "application/json") -> tuple[int, Any]:
        encoded = None if body is None else json.dumps(body).encode()
        status, _, answer = self.raw(method, path, encoded, Content_Type=type_)
        return status, json.loads(answer) if answer else None

    def watch(self, path: str) -> "Stream":
        stream = Stream(self.address, path)
        self.streams.append(stream)
        return stream


class Stream:
    """A watch, read event by event."""

    def __init__(self, address: str, path: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=60)
        self._connection.request("GET", path)
        self._response = self._connection.getresponse()
        self.status = self._response.status

    def next(self) -> tuple[str, Object]:
        event = json.loads(self._response.readline())
        return event["type"], event["object"]

    def read_events(self, count: int) -> list[tuple[str, str]]:
        """Type and name of the next events."""
        events = [self.next() for _ in range(count)]
        return [(type_, obj["metadata"].get("name", "")) for type_, obj in events]

    def read_remaining(self) -> list[Object]:
        """Everything until the server ends the stream."""
        return [json.loads(line) for line in self._response.read().splitlines()]

    def close(self) -> None:
        self._response.close()
        self._connection.close()


PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def a_pod(name: str, **spec: Any) -> Object:
    meta: Object = {"name": name}
    if "labels" in spec:
        meta["labels"] = spec.pop("labels")
    spec.setdefault("containers", [{"name": "main", "image": "registry.example/app:1"}])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def a_node(name: str, **status: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def names(answer: Object) -> list[str]:
    return [item["metadata"]["name"] for item in answer["items"]]


def select_keys(obj: Any, wanted: Any) -> Any:
    """Of `obj` only what `wanted` has too, so that whole values can be compared without uids and times."""
    if isinstance(obj, dict) and isinstance(wanted, dict):
        return {key: select_keys(obj[key], value) for key, value in wanted.items() if key in obj}
    return obj
