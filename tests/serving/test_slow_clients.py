"""Slow, silent and never-reading clients on every port do not delay other clients."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge

from herodotus_record import codec
from herodotus_serving.certificates import ServingCertificate, create_self_signed
from scheduler.serving.health import HealthCheck
from scheduler.serving.routes import Content, StatusRoutes
from scheduler.serving.server import StatusServer
from tests.builders import CLUSTER, INCARNATION, a_table
from tests.kube.servers import api_of, status
from tests.processes import Process, python
from tests.slow_clients import FLOODS, KINDS, Target

CLIENTS = 100
RESPONSE_TIMEOUT_S = 20.0  # a response takes milliseconds on an idle machine, and seconds beside other work
BATCH = codec.encode(a_table(["worker-1"]).rows(CLUSTER, INCARNATION))
FRAMES = {"Content-Type": codec.CONTENT_TYPE}
PREFIX = "/apis/herodotus.dev/v1alpha1"
kinds = pytest.mark.parametrize("kind", [*KINDS, *FLOODS])


@contextmanager
def attacked(directory: Path, kind: str, *targets: Target) -> Iterator[None]:
    """Run CLIENTS slow clients of a kind against each target, in child processes, while the block runs."""
    processes = []
    try:
        for i, t in enumerate(targets):
            command = python("tests.slow_clients", *t.arguments(), "--count", str(CLIENTS), "--kind", kind)
            processes.append(Process("clients", command, directory / f"clients-{i}.log"))
        for process in processes:
            process.wait_for("attacking")
        yield
    finally:
        for process in processes:
            process.stop()


def send_request(target: Target, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> int:
    """Return the status of the response on a new connection. Raises TimeoutError if it does not come."""
    if target.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            "127.0.0.1", target.port, timeout=RESPONSE_TIMEOUT_S, context=context
        )
    else:
        connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=RESPONSE_TIMEOUT_S)
    try:
        connection.request("POST" if body else "GET", path, body, headers or {})
        response = connection.getresponse()
        response.read()
    finally:
        connection.close()
    return response.status


@contextmanager
def decisions_service(directory: Path) -> Iterator[tuple[Target, Target, Target]]:
    """Run the decisions service while the block runs; yield its ports for queries, ingest and probes."""
    binds = [word for flag in ("--bind", "--ingest-bind", "--probe-bind") for word in (flag, "127.0.0.1:0")]
    command = python("herodotus_endpoint", "--data", str(directory), *binds)
    process = Process("service", command, directory / "log", {"HERODOTUS_DATABASE_URL": ""})
    try:
        ports = [
            int(process.wait_for(rf"listening on http://127\.0\.0\.1:(\d+) \({name}\)")[1])
            for name in ("queries", "ingest", "probes")
        ]
        path = "/openapi.json"
        queries, ingest, probes = (Target(port, long_path=path, post_path="/ingest/v1/frames") for port in ports)
        yield queries, ingest, probes
    finally:
        process.stop()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, Target, Target]]:
    with decisions_service(tmp_path_factory.mktemp("service")) as targets:
        yield targets


@kinds
def test_the_decisions_service_answers_on_all_ports(
    service: tuple[Target, Target, Target], tmp_path: Path, kind: str
) -> None:
    queries, ingest, probes = service
    with attacked(tmp_path, kind, *service):
        for _ in range(5):
            assert send_request(probes, "/livez") == 200
            assert send_request(probes, "/readyz") == 200
            assert send_request(queries, f"{PREFIX}/decisions") == 200
            assert send_request(ingest, "/ingest/v1/frames", BATCH, FRAMES) == 200


@pytest.mark.parametrize("spelling", ["watch=true", "watch", "watch=1", "%77atch=1", "limit=1&w%61tch"])
def test_watches_of_two_addresses_in_any_spelling_delay_no_query(
    service: tuple[Target, Target, Target], spelling: str
) -> None:
    queries = service[0]
    request = f"GET {PREFIX}/decisions?{spelling} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    with ExitStack() as watches:
        for number in range(200):
            source = (f"127.0.0.{2 + number % 2}", 0)
            watch = socket.create_connection(("127.0.0.1", queries.port), source_address=source)
            watches.enter_context(watch).sendall(request)
        for path in ("/apis", PREFIX, "/version", "/openapi.json", f"{PREFIX}/decisions"):
            assert send_request(queries, path) == 200


@kinds
def test_the_scheduler_answers_on_its_port(tmp_path: Path, kind: str) -> None:
    certificate = ServingCertificate(b"".join(create_self_signed(["127.0.0.1"], timedelta(days=1))), str, print)
    registry = CollectorRegistry()
    Gauge("large", "x" * 100_000, registry=registry)
    content = Content(configuration={}, metrics=registry, livez=(HealthCheck("ping", lambda: None),))
    access = _allow_everything()
    server = StatusServer(("127.0.0.1", 0), certificate.context, StatusRoutes(access, content))
    server.start()
    target = Target(server.port, tls=True, long_path="/livez", post_path="/debug/flags/v")
    try:
        with attacked(tmp_path, kind, target):
            for _ in range(5):
                assert send_request(target, "/livez") == 200
                assert send_request(target, "/metrics") == 200
    finally:
        server.close()


def _allow_everything() -> Any:
    from scheduler.serving.access import RequestAuthorizer

    return RequestAuthorizer(api_of(lambda request: status(500)), ["/*"])


@kinds
def test_the_extender_service_answers(agents: Target, tmp_path: Path, kind: str) -> None:
    body = json.dumps({"Pod": {"metadata": {"name": "p"}}, "Nodes": {"items": [{"metadata": {"name": "n"}}]}}).encode()
    with attacked(tmp_path, kind, agents):
        for _ in range(5):
            assert send_request(agents, "/version") == 200
            assert send_request(agents, agents.post_path, body, {"Content-Type": "application/json"}) == 200


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    command = python("herodotus_agents", "serve", "--address", "127.0.0.1", "--port", "0", "--agents", "foo")
    process = Process("agents", command, tmp_path_factory.mktemp("agents") / "log", {"LOG_LEVEL": "WARNING"})
    try:
        port = int(process.wait_for(r"listening on http://127\.0\.0\.1:(\d+)")[1])
        yield Target(port, post_path="/scheduler/predicates/foo")
    finally:
        process.stop()
