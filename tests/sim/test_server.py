"""The wire: keep-alive, limits, and a prompt end."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable

import pytest

from herodotus_sim import SimulatedCluster
from herodotus_sim.cluster import check_loopback
from herodotus_sim.options import MAX_BODY_BYTES
from tests.processes import eventually
from tests.sim.client import PODS, SimClient, a_pod


def exchange(api: SimClient, sent: bytes) -> bytes:
    host, port = api.address.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        client.sendall(sent)
        received = b""
        while piece := client.recv(65536):
            received += piece
        return received


def test_one_connection_serves_many_requests(api: SimClient) -> None:
    connection = http.client.HTTPConnection(api.address, timeout=60)
    for _ in range(3):
        connection.request("GET", "/livez")
        assert connection.getresponse().read() == b"ok"
    used = connection.sock
    connection.request("GET", "/readyz")
    assert (connection.getresponse().read(), connection.sock) == (b"ok", used)
    connection.close()


@pytest.mark.parametrize(
    ("sent", "line"),
    [
        pytest.param(b"GET /livez HTTP/1.0\r\n\r\n", b"HTTP/1.1 200 OK", id="HTTP/1.0"),
        pytest.param(b"GET http://x/livez HTTP/1.0\r\n\r\n", b"HTTP/1.1 200 OK", id="absolute form"),
        pytest.param(b"HEAD /livez HTTP/1.1\r\nConnection: close\r\n\r\n", b"HTTP/1.1 200 OK", id="HEAD"),
        pytest.param(b"nonsense\r\n\r\n", b"HTTP/1.1 400 Bad Request", id="no request"),
        pytest.param(b"GET /livez SPDY/3\r\n\r\n", b"HTTP/1.1 400 Bad Request", id="another protocol"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"HTTP/1.1 400 Bad Request", id="no length"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"".join(b"h%d: x\r\n" % i for i in range(101))
                     + b"\r\n", b"HTTP/1.1 431 Request Header Fields Too Large", id="too many headers"),
        pytest.param(b"GET /" + b"a" * 70_000, b"HTTP/1.1 414 Request-URI Too Long", id="too long a line"),
    ],
)  # fmt: skip
def test_request_heads_are_parsed_or_rejected(api: SimClient, sent: bytes, line: bytes) -> None:
    assert exchange(api, sent).split(b"\r\n")[0] == line


def test_a_chunked_body_is_read(api: SimClient) -> None:
    body = json.dumps(a_pod("web")).encode()
    head = f"POST {PODS} HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
    chunks = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (10, body[:10], len(body) - 10, body[10:])
    assert exchange(api, head + chunks).startswith(b"HTTP/1.1 201 Created")


def test_a_body_above_the_limit_is_rejected(api: SimClient) -> None:
    status, _, body = api.raw("POST", PODS, b"x" * (MAX_BODY_BYTES + 1))
    assert (status, json.loads(body)["reason"]) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    ("body", "type_", "code"),
    [
        pytest.param(b"{", "application/json", 400, id="broken JSON"),
        pytest.param(b"[]", "application/json", 400, id="no object"),
        pytest.param(b'{"metadata": {"name": "x"}, "n": NaN}', "application/json", 400, id="NaN"),
        pytest.param(b'{"kind": "Node", "apiVersion": "v1"}', "application/json", 400, id="another kind"),
        pytest.param(b"x", "text/plain", 415, id="no media type"),
        pytest.param(b"k8s\x00\xff", "application/vnd.kubernetes.protobuf", 415, id="broken protobuf"),
    ],
)
def test_unreadable_bodies_are_rejected(api: SimClient, body: bytes, type_: str, code: int) -> None:
    status, _, answer = api.raw("POST", PODS, body, Content_Type=type_)
    assert (status, json.loads(answer)["kind"]) == (code, "Status")


def test_invalid_unicode_does_not_break_lists(api: SimClient) -> None:
    api.raw("POST", PODS, json.dumps(a_pod("web", labels={"a": "\ud800"})).encode(), Content_Type="application/json")
    assert api("GET", PODS)[1]["items"][0]["metadata"]["labels"] == {"a": "?"}


def test_each_request_waits_for_the_latency(serve: Callable[..., SimClient]) -> None:
    api = serve(latency_s=0.2)
    began = time.monotonic()
    api("GET", PODS)
    assert time.monotonic() - began >= 0.2


def test_it_stops_promptly_with_open_watches_and_idle_connections(serve: Callable[..., SimClient]) -> None:
    api = serve()
    streams = [api.watch(f"{PODS}?watch=true") for _ in range(5)]
    idle = socket.create_connection(("127.0.0.1", int(api.address.split(":")[1])))
    api("GET", PODS)
    began = time.monotonic()
    api.sim.stop()
    assert time.monotonic() - began < 30  # a watch lasts half an hour
    assert idle.recv(1) == b""
    idle.close()
    assert len(streams) == 5


def test_a_watch_ends_when_its_client_disconnects(serve: Callable[..., SimClient]) -> None:
    api = serve()
    api.watch(f"{PODS}?watch=true").close()
    eventually(lambda: "sim-connection" not in {t.name for t in threading.enumerate()}, "its thread to end")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.com", ""])
def test_it_listens_on_loopback_only(host: str) -> None:
    with pytest.raises(ValueError, match="is not a loopback address"):
        SimulatedCluster(host=host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.53", "::1", "localhost"])
def test_all_loopback_addresses_are_accepted(host: str) -> None:
    check_loopback(host)
