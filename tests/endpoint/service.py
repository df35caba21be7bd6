"""A decisions service in process: a real SQLite file, Flask's test client, a clock that the test moves."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from herodotus_endpoint.access.masking import VisibleNamespaces
from herodotus_endpoint.api.masked_reader import MaskedListing
from herodotus_endpoint.app import create_app
from herodotus_endpoint.metrics import EndpointMetrics
from herodotus_endpoint.routing import Route, list_routes
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import Store, sqlite_url
from herodotus_record import codec
from herodotus_record.model import Decision, Frame, NodeTable
from tests.answer_schemas import ValidatingClient
from tests.builders import CLUSTER, INCARNATION, a_table
from tests.support.clock import Clock

API = "/apis/herodotus.dev/v1alpha1"


@dataclass
class Service:
    store: Store
    client: FlaskClient
    clock: Clock
    metrics: EndpointMetrics = field(default_factory=EndpointMetrics)
    archive: Any = None  # an ArchiveReader, if the service has one

    def send(self, *frames: Frame, **options: Any) -> TestResponse:
        return self.post(b"".join(map(codec.encode, frames)), **options)

    def post(self, body: bytes, *, headers: dict[str, str] | None = None, **options: Any) -> TestResponse:
        sent = {"Content-Type": codec.CONTENT_TYPE} | (headers or {})
        return self.client.post("/ingest/v1/frames", data=body, headers=sent, **options)

    def stored(self, *frames: Frame) -> dict[str, Any]:
        """Send, and expect it to be acknowledged."""
        answer = self.send(*frames)
        assert answer.status_code == 200, answer.text
        return dict(answer.get_json())

    def get(self, path: str, **query: Any) -> Any:
        """The JSON document behind a path."""
        answer = self.client.get(path, query_string=query)
        assert answer.status_code == 200, answer.text
        return answer.get_json()

    def error(self, path: str, **query: Any) -> dict[str, Any]:
        """The envelope behind a path that fails."""
        answer = self.client.get(path, query_string=query)
        assert answer.status_code >= 400
        return envelope(answer)

    def explain(self, pod: str = "checkout-7d9f-x2k", namespace: str = "shop", **query: Any) -> Any:
        return self.get(f"{API}/namespaces/{namespace}/podexplanations/{pod}", **query)

    def history(self, node: str, **query: Any) -> Any:
        return self.get(f"{API}/nodehistories/{node}", **query)

    @property
    def listing(self) -> MaskedListing:
        """The listing of all clusters, for a reader who may see every namespace."""
        return MaskedListing(self.store.listing, VisibleNamespaces(everything=True), "")

    def metric(self, name: str, **labels: str) -> float | None:
        self.client.get("/metrics")
        return self.metrics.registry.get_sample_value(name, labels)


def a_service(folder: Path, *, url: str = "", archive: Any = None, **settings: Any) -> Service:
    """`url`: of another database than a SQLite file in the folder. With `access`, the API server is of CLUSTER."""
    if settings.get("access"):
        settings.setdefault("cluster", CLUSTER)
    clock, metrics = Clock(), EndpointMetrics()
    store = Store(url or an_empty_file(folder / "data" / "herodotus.db"), clock, clock)
    app = create_app(store, ServiceSettings(clock=clock, archive=archive, **settings), metrics)
    app.test_client_class = ValidatingClient
    return Service(store, app.test_client(), clock, metrics, archive)


@cache
def declared_routes() -> list[Route]:
    """The routes of the service, as its views declare them."""
    with tempfile.TemporaryDirectory() as folder:
        service = a_service(Path(folder))
        service.store.close()
        return list_routes(service.client.application)


def an_empty_file(path: Path) -> str:
    """The URL of a SQLite file; a new one is a copy with every migration done, which takes longer than most tests."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_migrated())
    return sqlite_url(path)


@cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "herodotus.db"
        Store(sqlite_url(path), Clock()).close()
        return path.read_bytes()


def envelope(answer: TestResponse) -> dict[str, Any]:
    """The answer's Status, checked for what every Status has."""
    status: dict[str, Any] = answer.get_json()
    assert {k: status[k] for k in ("kind", "apiVersion", "status", "code")} == {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": answer.status_code,
    }
    assert status["message"]
    assert status["reason"]
    assert isinstance(status["details"], dict)
    assert answer.headers["Cache-Control"] == "no-store"
    return status


def rows(table: NodeTable, *, incarnation: str = INCARNATION, cluster: str = CLUSTER) -> Frame:
    """A table as the complete frame that a shipper sends."""
    return table.rows(cluster, incarnation)


def table_of(decision: Decision, *names: str) -> NodeTable:
    return a_table(names or ("worker-1", "worker-2", "worker-3"), generation=decision.generation)
