"""The service proxy: what reaches the service, and what comes back."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from herodotus_sim import proxy
from herodotus_sim.errors import StatusError
from herodotus_sim.proxy import split_name
from tests.processes import eventually
from tests.sim.client import SimClient, Stream

PROXY = "/api/v1/namespaces/default/services"


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was asked, in chunks."""

    protocol_version = "HTTP/1.1"

    def _respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        said = json.dumps({"method": self.command, "path": self.path, "body": body, "headers": headers}).encode()
        self.send_response(201 if self.command == "POST" else 200)
        self.send_header("Content-Type", "application/x-echo")
        self.send_header("X-Seen", "yes")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in (said[:10], said[10:]):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = _respond  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def a_service(api: SimClient, port: int, by: str = "Endpoints", port_name: str = "") -> None:
    named = {"name": port_name} if port_name else {}
    meta: dict[str, Any] = {"name": "herodotus"}
    ports = [{**named, "port": port}]
    api.sim.create(
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": [{**named, "port": 80}]}}
    )
    if by == "Endpoints":
        subsets = [{"addresses": [{"ip": "127.0.0.1"}], "ports": ports}]
        api.sim.create({"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": subsets})
    else:
        meta = {"name": "herodotus-x", "labels": {"kubernetes.io/service-name": "herodotus"}}
        endpoints = [
            {"addresses": ["127.0.0.2"], "conditions": {"ready": False}},
            {"addresses": ["127.0.0.1"], "conditions": {"ready": True}},
        ]
        api.sim.create({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": meta,
            "endpoints": endpoints, "ports": ports, "addressType": "IPv4",
        })  # fmt: skip


@pytest.mark.parametrize("by", ["Endpoints", "EndpointSlice"])
@pytest.mark.parametrize(
    ("name", "port_name"),
    [
        pytest.param("herodotus", "", id="name"),
        pytest.param("herodotus:80", "web", id="port number"),
        pytest.param("herodotus:web", "web", id="port name"),
        pytest.param("http:herodotus:", "", id="scheme"),
    ],
)
def test_a_request_reaches_the_service(api: SimClient, port: int, by: str, name: str, port_name: str) -> None:
    a_service(api, port, by, port_name)
    status, headers, body = api.raw("GET", f"{PROXY}/{name}/proxy/a%20b/c?x=1&y=%2F", Accept="text/plain")
    said = json.loads(body)
    assert (status, headers["content-type"], headers["x-seen"]) == (200, "application/x-echo", "yes")
    assert (said["method"], said["path"], said["headers"]["accept"]) == ("GET", "/a%20b/c?x=1&y=%2F", "text/plain")


def test_credentials_are_removed_and_the_body_is_forwarded(api: SimClient, port: int) -> None:
    a_service(api, port)
    sent = {"Authorization": "Bearer secret", "X_Remote_User": "root", "X_Other": "kept", "Content_Type": "a/b"}
    status, _, body = api.raw("POST", f"{PROXY}/herodotus/proxy/", b"hello", **sent)
    said = json.loads(body)
    assert (status, said["body"], said["headers"]["content-type"], said["headers"]["x-other"]) == (
        201, "hello", "a/b", "kept"
    )  # fmt: skip
    assert not {"authorization", "x-remote-user"} & set(said["headers"])


def test_missing_services_endpoints_and_ports_are_errors(api: SimClient) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = free.getsockname()[1]
    missing = api("GET", f"{PROXY}/herodotus/proxy/")
    api.sim.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "empty"}, "spec": {}})
    empty = api("GET", f"{PROXY}/empty/proxy/")
    a_service(api, dead)
    port = api("GET", f"{PROXY}/herodotus:81/proxy/")
    silent = api("GET", f"{PROXY}/herodotus/proxy/")
    assert [
        (status, answer["reason"], answer["message"][:49]) for status, answer in (missing, empty, port, silent)
    ] == [
        (404, "NotFound", 'services "herodotus" not found'),
        (503, "ServiceUnavailable", 'no endpoints available for service "empty"'),
        (503, "ServiceUnavailable", 'no service port 81 found for service "herodotus"'),
        (503, "ServiceUnavailable", "error trying to reach service: [Errno 111] Connec"),
    ]


def test_a_proxy_path_ends_with_a_slash(api: SimClient, port: int) -> None:
    a_service(api, port)
    status, headers, _ = api.raw("GET", f"{PROXY}/herodotus/proxy?x=1")
    assert (status, headers["location"]) == (301, f"{PROXY}/herodotus/proxy/?x=1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("web", ("", "web", "")),
        ("web:80", ("", "web", "80")),
        ("https:web:443", ("https", "web", "443")),
        ("https:web:", ("https", "web", "")),
    ],
)
def test_names_with_scheme_and_port(text: str, expected: tuple[str, str, str]) -> None:
    assert split_name(text) == expected


def test_an_unknown_scheme_is_rejected() -> None:
    with pytest.raises(StatusError, match='invalid service request "ftp:web:21"'):
        split_name("ftp:web:21")


class Quiet(Echo):
    """Streams an event, nothing for longer than the test's limits, then another one; notes clients that leave."""

    pause_s = 1.0
    left = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for name in "ab":
                event = json.dumps({"type": "ADDED", "object": {"metadata": {"name": name}}}).encode() + b"\n"
                self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
                deadline = time.monotonic() + self.pause_s
                while time.monotonic() < deadline:
                    self.connection.settimeout(0.05)
                    try:
                        if not self.connection.recv(1, socket.MSG_PEEK):
                            self.left.set()
                            return
                    except TimeoutError:
                        continue
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.left.set()


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], int]]:
    """Start a service that is silent for a time between two events; the proxy's limits are much shorter."""
    for limit in ("_TIMEOUT_S", "_CONNECT_TIMEOUT_S", "_LOOK_INTERVAL_S"):
        monkeypatch.setattr(proxy, limit, 0.1, raising=False)
    monkeypatch.setattr(Quiet, "left", threading.Event())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()

    def start(pause_s: float) -> int:
        monkeypatch.setattr(Quiet, "pause_s", pause_s)
        return server.server_port

    yield start
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_idle_watch_is_not_closed(api: SimClient, quiet: Callable[[float], int]) -> None:
    a_service(api, quiet(0.6))
    stream = api.watch(f"{PROXY}/herodotus/proxy/watch")
    assert stream.read_events(2) == [("ADDED", "a"), ("ADDED", "b")]
    assert stream.read_remaining() == []


def test_a_proxied_watch_ends_when_its_client_disconnects(api: SimClient, quiet: Callable[[float], int]) -> None:
    a_service(api, quiet(60))
    stream = Stream(api.address, f"{PROXY}/herodotus/proxy/watch")
    assert stream.read_events(1) == [("ADDED", "a")]
    stream.close()
    eventually(Quiet.left.is_set, "the proxy to hang up on the service")


def test_a_cluster_that_stops_ends_a_proxied_watch(api: SimClient, quiet: Callable[[float], int]) -> None:
    a_service(api, quiet(60))
    assert api.watch(f"{PROXY}/herodotus/proxy/watch").read_events(1) == [("ADDED", "a")]
    begin = time.monotonic()
    api.sim.stop()
    assert time.monotonic() - begin < 4  # `close` waits 5 s for a thread that does not end
