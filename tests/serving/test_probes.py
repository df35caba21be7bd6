"""Probes are answered by a thread of their own, whatever other clients and threads do."""

from __future__ import annotations

import http.client
import itertools
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from herodotus_serving import probes
from herodotus_serving.probes import FRESH_S, MAX_HEAD_BYTES, OK, ProbeAnswer, ProbeServer
from herodotus_serving.sockets import Address, listen
from tests.processes import eventually

Start = Callable[..., ProbeServer]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as closing:

        def make(**answers: Callable[[], ProbeAnswer]) -> ProbeServer:
            paths = {f"/{name}": answer for name, answer in answers.items()} or {"/livez": lambda: OK}
            server = ProbeServer([listen(Address("127.0.0.1", 0))], paths)
            closing.callback(server.close)
            server.start()
            return server

        yield make


def connect(server: ProbeServer) -> socket.socket:
    (address,) = server.addresses
    return socket.create_connection((address.host, address.port), timeout=30)


def probe(server: ProbeServer, path: str = "/livez", method: str = "GET") -> tuple[int, str]:
    """Return status and body of the response to one request, as a kubelet sends it."""
    (address,) = server.addresses
    connection = http.client.HTTPConnection(address.host, address.port, timeout=30)
    connection.request(method, path, headers={"Connection": "close", "User-Agent": "kube-probe/1.36"})
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    assert response.getheader("Connection") == "close"
    return response.status, body


def exchange(server: ProbeServer, *pieces: bytes) -> bytes:
    """Send pieces one after the other; return what the server sends until it closes the connection."""
    with connect(server) as connection:
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(0.05)
        found = b""
        with suppress(ConnectionError):
            while piece := connection.recv(4096):
                found += piece
        return found


def test_a_path_has_the_status_and_the_text_of_its_check(start: Start) -> None:
    server = start(livez=lambda: OK, readyz=lambda: ProbeAnswer(503, "[-]database failed: reason withheld\n"))
    assert probe(server) == (200, "ok")
    assert probe(server, method="HEAD") == (200, "")
    assert probe(server, "/readyz") == (503, "[-]database failed: reason withheld\n")


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/metrics", "GET", 404), ("/livez?verbose", "GET", 404), ("/livez", "POST", 405), ("/liv%65z", "GET", 404)],
)
def test_nothing_else_is_served(start: Start, path: str, method: str, status: int) -> None:
    assert probe(start(), path, method)[0] == status


@pytest.mark.parametrize(
    "sent", [b"GET /livez\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"G" * MAX_HEAD_BYTES, b"GET / HTTP/2\r\n\r\n"]
)
def test_what_is_no_request_is_answered_400_and_closed(start: Start, sent: bytes) -> None:
    assert exchange(start(), sent).startswith(b"HTTP/1.1 400 ")


def test_a_request_may_arrive_in_pieces(start: Start) -> None:
    assert exchange(start(), b"GET /li", b"vez HTTP/1.1\r\nHost: x\r", b"\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_a_check_with_a_fault_is_500_and_the_other_paths_remain(start: Start) -> None:
    def fail() -> ProbeAnswer:
        raise ValueError("a secret")

    server = start(livez=lambda: OK, readyz=fail)
    assert probe(server, "/readyz") == (500, "internal server error\n")
    assert probe(server) == (200, "ok")


def test_an_answer_is_given_again_for_a_moment_and_then_anew(start: Start) -> None:
    numbers = itertools.count(1)
    server = start(livez=lambda: ProbeAnswer(200, str(next(numbers))))
    answers = [probe(server)[1] for _ in range(20)]
    assert len(set(answers)) < len(answers)
    time.sleep(FRESH_S)
    assert int(probe(server)[1]) > int(answers[-1])


def test_a_silent_connection_is_closed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "REQUEST_S", 0.2)
    with connect(start()) as silent:
        assert silent.recv(100) == b""


def test_the_end_closes_all_connections(start: Start) -> None:
    server = start()
    with connect(server) as silent:
        time.sleep(0.1)
        server.close()
        assert silent.recv(100) == b""
        with pytest.raises(ConnectionError):
            connect(server)


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Two threads that never leave the interpreter by themselves."""
    ended = threading.Event()

    def spin() -> None:
        while not ended.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=spin) for _ in range(2)]
    for thread in threads:
        thread.start()
    yield
    ended.set()
    for thread in threads:
        thread.join()


def reconnect_until(ended: threading.Event, server: ProbeServer) -> None:
    """Connect and reset the connection, again and again."""
    while not ended.is_set():
        with suppress(OSError), connect(server) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ended.wait(0.01)


@pytest.mark.usefixtures("busy_threads")
def test_strangers_of_the_kubelet_s_address_and_busy_threads_do_not_delay_a_probe(start: Start) -> None:
    """600 silent connections, more than the server keeps, while eight clients connect again and again."""
    server, ended = start(), threading.Event()
    strangers = [threading.Thread(target=reconnect_until, args=(ended, server)) for _ in range(8)]
    durations_s = []
    with ExitStack() as silent:
        for _ in range(600):
            silent.enter_context(connect(server))
        for stranger in strangers:
            stranger.start()
        for _ in range(60):
            began = time.monotonic()
            assert probe(server) == (200, "ok")
            durations_s.append(time.monotonic() - began)
        ended.set()
        for stranger in strangers:
            stranger.join()
    assert max(durations_s) < 1.0


def test_the_interpreter_s_switch_interval_is_restored(start: Start) -> None:
    ordinary = sys.getswitchinterval()
    assert probe(start()) == (200, "ok")
    eventually(lambda: sys.getswitchinterval() == ordinary, "the interval to be restored")
