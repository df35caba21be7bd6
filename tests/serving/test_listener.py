"""The shared server: deadlines, bounds and streams, with limits of fractions of a second."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest

from herodotus_serving.limits import Limits
from herodotus_serving.listener import Listener, Server, ServerThread
from herodotus_serving.messages import Request, Response, Route, Service
from herodotus_serving.pools import WorkerPool
from herodotus_serving.sockets import Address, listen
from tests.processes import eventually

BIG = b"x" * (4 << 20)
ASK = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"


class Running:
    """A server on loopback whose paths are /small, /big, /wait (until `go_on`) and /stream."""

    def __init__(self, pool: WorkerPool, max_body: int, limits: Limits) -> None:
        self.go_on, self.ended = threading.Event(), threading.Event()
        listening = listen(Address("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        service = Service(
            lambda _: Route(pool, max_body), self._handle, lambda code, why: Response(code, [], why.encode())
        )
        self.listener = Listener(listening, service, limits)
        self.thread = ServerThread(Server([self.listener]))
        self.thread.start()

    def _handle(self, request: Request) -> Response:
        if request.head.path == "/wait":
            self.go_on.wait(30)
        if request.head.path == "/stream":
            return Response(200, [], stream=self._parts(request))
        return Response(200, [], BIG if request.head.path == "/big" else request.body or b"ok")

    def _parts(self, request: Request) -> Iterator[bytes]:
        yield b"first"
        request.ended.wait(30)
        self.ended.set()

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30, source_address=(source, 0))

    def ask(self, sent: bytes) -> bytes:
        """Return everything that comes back until the server closes the connection, or half a second passes."""
        with self.connect() as connection:
            connection.sendall(sent)
            connection.settimeout(0.5)
            found = b""
            try:
                while piece := connection.recv(1 << 20):
                    found += piece
            except TimeoutError:
                pass
            return found


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def make(threads: int = 4, queue: int = 4, max_body: int = 1 << 20, **limits: float) -> Running:
        started.append(Running(WorkerPool("test", threads, queue), max_body, Limits(**limits)))  # type: ignore[arg-type]
        return started[-1]

    yield make
    for each in started:
        each.go_on.set()
        each.thread.close()


def closed_after(connection: socket.socket) -> float:
    """Return how long the server kept a connection on which nothing more is sent."""
    began = time.monotonic()
    try:
        while connection.recv(1 << 16):
            continue
    except ConnectionError:
        pass
    return time.monotonic() - began


@pytest.mark.parametrize("sent", [b"", b"GET", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123"])
def test_an_incomplete_request_ends_at_its_deadline(start: Callable[..., Running], sent: bytes) -> None:
    with start(request_s=0.3).connect() as connection:
        connection.sendall(sent)
        assert closed_after(connection) < 5.0


def test_a_trickle_does_not_extend_the_deadline(start: Callable[..., Running]) -> None:
    with start(request_s=0.5).connect() as connection:
        began = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - began < 10.0:
                connection.sendall(b"G")
                time.sleep(0.05)
        assert time.monotonic() - began < 5.0


def test_a_client_that_does_not_read_is_aborted(start: Callable[..., Running]) -> None:
    running = start(response_s=0.3)
    with running.connect() as connection:
        connection.sendall(ASK % b"/big")
        eventually(lambda: running.listener.connections == 0, "the abort", 10.0)


def test_requests_whose_responses_nobody_reads_are_not_worked_on(start: Callable[..., Running]) -> None:
    """Of a thousand requests sent at once only those run whose responses the client's kernel takes."""
    running = start(response_s=30.0)
    asked: list[int] = []
    handle = running._handle
    object.__setattr__(running.listener.service, "handle", lambda request: (asked.append(1), handle(request))[1])
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", running.port))
        connection.sendall(ASK % b"/big" * 1000)
        time.sleep(1.0)
        assert len(asked) <= 2


def test_an_idle_connection_is_closed(start: Callable[..., Running]) -> None:
    with start(idle_s=0.3).connect() as connection:
        connection.sendall(ASK % b"/small")
        assert b"200 OK" in connection.recv(1000)
        assert closed_after(connection) < 5.0


def test_requests_on_one_connection_are_answered_in_order(start: Callable[..., Running]) -> None:
    found = start().ask(ASK % b"/big" + ASK % b"/small" + ASK % b"/small")
    assert (found.count(b"200 OK"), found.endswith(b"ok"), len(found) > len(BIG)) == (3, True, True)


def test_a_full_pool_refuses_at_once(start: Callable[..., Running]) -> None:
    running = start(threads=1, queue=0)
    with running.connect() as waiting:
        waiting.sendall(ASK % b"/wait")
        eventually(lambda: b" 429 " in running.ask(ASK % b"/small"), "a refusal", 10.0)
        assert b"Retry-After: 1\r\n" in running.ask(ASK % b"/small")
        running.go_on.set()
        assert b"200 OK" in waiting.recv(1000)


@pytest.mark.parametrize("framing", [b"Content-Length: 2000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n7d0\r\n"])
def test_a_body_beyond_its_maximum_is_413(start: Callable[..., Running], framing: bytes) -> None:
    found = start(max_body=1000).ask(b"POST / HTTP/1.1\r\nHost: x\r\n" + framing + b"x" * 2000)
    assert found.startswith(b"HTTP/1.1 413 ")


def test_the_oldest_incomplete_body_makes_room(start: Callable[..., Running]) -> None:
    """A sender that stops in the middle gets 503; the next one has its place."""
    running = start(bytes_in_flight=100_000)
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 80000\r\n\r\n"
    with running.connect() as slow:
        slow.sendall(head + b"x" * 79_000)
        time.sleep(0.2)
        assert running.ask(head + b"x" * 80_000).startswith(b"HTTP/1.1 200 ")
        assert b" 503 " in slow.recv(1000)


def test_an_address_with_few_connections_finds_a_place(start: Callable[..., Running]) -> None:
    running = start(connections=10, per_address=9)
    silent = [running.connect("127.0.0.2") for _ in range(9)]
    silent += [running.connect("127.0.0.3") for _ in range(9)]
    try:
        for _ in range(5):
            assert b"200 OK" in running.ask(ASK % b"/small")
        assert running.listener.connections <= 10
    finally:
        for connection in silent:
            connection.close()


def test_a_stream_learns_that_its_client_is_gone(start: Callable[..., Running]) -> None:
    running = start()
    with closing(running.connect()) as connection:
        connection.sendall(ASK % b"/stream")
        assert b"first" in connection.recv(1000) + connection.recv(1000)
    assert running.ended.wait(10)
