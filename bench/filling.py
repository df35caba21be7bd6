"""Creates objects in an API server concurrently before a measurement, and the churn during it.

Owns: the requests. Does not own: which objects (`workloads`).
"""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from bench import manifests
from bench.workloads import MEASURED, Churn, Size, Workload
from tests.e2e.control_plane import TOKEN

Json = dict[str, Any]

CLIENTS: Final = 8  # More threads do not help on two cores.
MAX_IDLE_S: Final = 60.0  # the API server closes connections that are idle for 90 s
PODS: Final = "/api/v1/namespaces/{}/pods"
NODES: Final = "/api/v1/nodes"
SERVICES: Final = f"/api/v1/namespaces/{MEASURED}/services"
_HEADERS: Final = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}


class FillClient:
    """A client with administrator rights that fills the API server. Each thread has its own connection."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        self._tls = ssl._create_unverified_context()  # The server has a self-signed certificate.
        self._of_thread = threading.local()
        self._opened: list[http.client.HTTPSConnection] = []

    def create(self, path: str, body: Json) -> None:
        """Send a POST. Raises RuntimeError if it is rejected."""
        status, text = self._request("POST", path, msgspec.json.encode(body))
        if status != 201:
            raise RuntimeError(f"POST {path}: {status} {text[:500]!r}")

    def delete(self, path: str) -> None:
        """Send a DELETE without a grace period; a missing object is not an error."""
        status, text = self._request("DELETE", path, b'{"gracePeriodSeconds":0}')
        if status not in (200, 202, 404):
            raise RuntimeError(f"DELETE {path}: {status} {text[:500]!r}")

    def get(self, path: str) -> Any:
        """Return the decoded JSON of a GET."""
        status, text = self._request("GET", path, None)
        if status != 200:
            raise RuntimeError(f"GET {path}: {status} {text[:500]!r}")
        return msgspec.json.decode(text)

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._opened:
            connection.close()

    def _request(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        connection: http.client.HTTPSConnection | None = getattr(self._of_thread, "connection", None)
        if connection is None:
            connection = self._of_thread.connection = http.client.HTTPSConnection(
                self._host, timeout=60.0, context=self._tls
            )
            self._opened.append(connection)
        elif time.monotonic() - self._of_thread.used > MAX_IDLE_S:
            connection.close()  # the request opens it again
        self._of_thread.used = time.monotonic()
        connection.request(method, path, body, _HEADERS)
        response = connection.getresponse()
        return response.status, response.read()


def fill(client: FillClient, workload: Workload, size: Size, *, backlog: bool = True) -> None:
    """Create every object of a workload: dependencies first, the measured pods last and only with `backlog`."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        for objects in (
            workload.others(size),
            ((NODES, node) for node in workload.nodes(size)),
            _pods(workload.pods_before(size)),
            _pods(workload.pods(size) if backlog else ()),
        ):
            for _ in pool.map(lambda each: client.create(*each), objects):
                pass


@contextmanager
def run_churn(client: FillClient, churn: Churn | None) -> Iterator[None]:
    """Run the workload's churn in a thread while the block runs; raise its error at the end."""
    if churn is None:
        yield
        return
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(_churn, client, churn, stop)
        try:
            yield
        finally:
            stop.set()
        work.result()


def _churn(client: FillClient, churn: Churn, stop: threading.Event) -> None:
    number = 0
    while not stop.wait(churn.every_s):
        made = [(PODS.format("sched-0"), churn.template.pod(number, "sched-0"))]
        if churn.replaced:
            made += [
                (NODES, manifests.node(99_999, zones=())),
                (SERVICES, manifests.service("churn", MEASURED)),
            ]
            for path, body in made if number else ():
                name = body["metadata"]["name"]
                client.delete(f"{path}/{name.replace(f'-{number}', f'-{number - 1}')}")
        for path, body in made:
            client.create(path, body)
        number += 1


def _pods(pods: Iterable[Json]) -> Iterator[tuple[str, Json]]:
    return ((PODS.format(pod["metadata"]["namespace"]), pod) for pod in pods)
