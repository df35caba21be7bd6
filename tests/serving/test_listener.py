"""Deadlines, limits and streams of the HTTP server, tested with limits of fractions of a second."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from datetime import timedelta
from queue import SimpleQueue
from typing import Any

import pytest

from herodotus_serving.certificates import ServingCertificate, create_self_signed
from herodotus_serving.connection import LINGER_S, TLS_READ_SIZE, HttpConnection
from herodotus_serving.limits import REFUSAL_INTERVAL_S, REFUSALS_AT_ONCE, ListenerLimits, RefusalPace
from herodotus_serving.listener import MIN_STAY_UNUSED_S, Listener, Server, ServerThread
from herodotus_serving.messages import HttpService, PoolAssignment, Request, Response
from herodotus_serving.pools import WorkerPool
from herodotus_serving.sockets import Address, listen
from tests.processes import eventually

BIG = b"x" * (4 << 20)
GET = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"


class RunningServer:
    """A server on loopback whose paths are /small, /big, /wait (until `go_on`) and /stream."""

    def __init__(self, pool: WorkerPool, max_body: int, limits: ListenerLimits, tls: bool) -> None:
        self.go_on, self.cancelled = threading.Event(), threading.Event()
        self.waiting: SimpleQueue[Request] = SimpleQueue()
        listening = listen(Address("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        service = HttpService(
            lambda _: PoolAssignment(pool, max_body), self._handle, lambda code, why: Response(code, [], why.encode())
        )
        certificate = ServingCertificate(b"".join(create_self_signed(["127.0.0.1"], timedelta(days=1))), str, print)
        self.listener = Listener(listening, service, limits, certificate.context if tls else None)
        self.thread = ServerThread(Server([self.listener]))
        self.thread.start()

    def _handle(self, request: Request) -> Response:
        if request.head.path == "/wait":
            self.waiting.put(request)
            self.go_on.wait(30)
        if request.head.path == "/stream":
            return Response(200, [], stream=self._parts(request))
        return Response(200, [], BIG if request.head.path == "/big" else request.body or b"ok")

    def _parts(self, request: Request) -> Iterator[bytes]:
        yield b"first"
        request.cancelled.wait(30)
        self.cancelled.set()

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30, source_address=(source, 0))

    def exchange(self, sent: bytes) -> bytes:
        """Send bytes; return all that the server sends until it closes the connection or pauses for half a second."""
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
def start() -> Iterator[Callable[..., RunningServer]]:
    started: list[RunningServer] = []

    def make(
        threads: int = 4, queue: int = 4, max_body: int = 1 << 20, tls: bool = False, **limits: Any
    ) -> RunningServer:
        started.append(RunningServer(WorkerPool("test", threads, queue), max_body, ListenerLimits(**limits), tls))
        return started[-1]

    yield make
    for each in started:
        each.go_on.set()
        each.thread.close()


def seconds_until_closed(connection: socket.socket) -> float:
    """Return after how many seconds the server closes a connection on which the client sends nothing more."""
    began = time.monotonic()
    try:
        while connection.recv(1 << 16):
            continue
    except ConnectionError:
        pass
    return time.monotonic() - began


@pytest.mark.parametrize("sent", [b"", b"GET", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123"])
def test_closes_an_incomplete_request_at_its_deadline(start: Callable[..., RunningServer], sent: bytes) -> None:
    with start(request_s=0.3).connect() as connection:
        connection.sendall(sent)
        assert seconds_until_closed(connection) < 5.0


def test_slow_bytes_do_not_extend_the_deadline(start: Callable[..., RunningServer]) -> None:
    with start(request_s=0.5).connect() as connection:
        began = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - began < 10.0:
                connection.sendall(b"G")
                time.sleep(0.05)
        assert time.monotonic() - began < 5.0


def test_aborts_a_client_that_does_not_read(start: Callable[..., RunningServer]) -> None:
    running = start(response_s=0.3)
    with running.connect() as connection:
        connection.sendall(GET % b"/big")
        eventually(lambda: running.listener.connections == 0, "the abort", 10.0)


def test_handles_only_the_first_of_pipelined_requests(start: Callable[..., RunningServer]) -> None:
    running = start(response_s=30.0)
    handled: list[int] = []
    handle = running._handle

    def count_and_handle(request: Request) -> Response:
        handled.append(1)
        return handle(request)

    object.__setattr__(running.listener.service, "handle", count_and_handle)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", running.port))
        connection.sendall(GET % b"/small" * 1000)
        time.sleep(1.0)
        assert len(handled) == 1


def test_closes_an_idle_connection(start: Callable[..., RunningServer]) -> None:
    with start(idle_s=0.3).connect() as connection:
        connection.sendall(GET % b"/small")
        assert b"200 OK" in connection.recv(1000)
        assert seconds_until_closed(connection) < 5.0


def test_answers_the_first_of_pipelined_requests_and_closes(start: Callable[..., RunningServer]) -> None:
    found = start().exchange(GET % b"/big" + GET % b"/small" + GET % b"/small")
    head, _, body = found.partition(b"\r\n\r\n")
    assert (head.count(b"200 OK"), b"Connection: close" in head, len(body)) == (1, True, len(BIG))


def test_full_pool_answers_429(start: Callable[..., RunningServer]) -> None:
    running = start(threads=1, queue=0)
    with running.connect() as waiting:
        waiting.sendall(GET % b"/wait")
        eventually(lambda: b" 429 " in running.exchange(GET % b"/small"), "a refusal", 10.0)
        assert b"Retry-After: 1\r\n" in running.exchange(GET % b"/small")
        running.go_on.set()
        assert b"200 OK" in waiting.recv(1000)


def test_a_client_that_reads_after_sending_gets_its_refusal(start: Callable[..., RunningServer]) -> None:
    """As http.client does: it sends the whole body first, and a reset would take the answer from it."""
    running = start(max_body=32 << 20, bytes_in_flight=1 << 20)
    with running.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 25165824\r\n\r\n" + bytes(2 << 20))
        time.sleep(LINGER_S + 0.5)
        connection.sendall(bytes(22 << 20))
        assert connection.recv(1000).startswith(b"HTTP/1.1 503 ")


def test_no_more_than_a_body_is_discarded_after_a_refusal(start: Callable[..., RunningServer]) -> None:
    running = start(max_body=4 << 20, bytes_in_flight=1 << 20)
    with running.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2097152\r\n\r\n")
        with pytest.raises(ConnectionError):
            connection.sendall(bytes(32 << 20))


@pytest.mark.parametrize("framing", [b"Content-Length: 2000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n7d0\r\n"])
def test_too_large_body_is_answered_413(start: Callable[..., RunningServer], framing: bytes) -> None:
    found = start(max_body=1000).exchange(b"POST / HTTP/1.1\r\nHost: x\r\n" + framing + b"x" * 2000)
    assert found.startswith(b"HTTP/1.1 413 ")


def test_evicts_the_oldest_incomplete_body_when_memory_runs_out(start: Callable[..., RunningServer]) -> None:
    """A client that stops in the middle of its body gets 503, and the next client gets its memory."""
    running = start(bytes_in_flight=100_000)
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 80000\r\n\r\n"
    with running.connect() as slow:
        slow.sendall(head + b"x" * 79_000)
        time.sleep(0.2)
        assert running.exchange(head + b"x" * 80_000).startswith(b"HTTP/1.1 200 ")
        assert b" 503 " in slow.recv(1000)


def test_address_with_few_connections_is_admitted(start: Callable[..., RunningServer]) -> None:
    running = start(connections=10, per_address=9)
    idle = [running.connect("127.0.0.2") for _ in range(9)]
    idle += [running.connect("127.0.0.3") for _ in range(9)]
    try:
        for _ in range(5):
            assert b"200 OK" in running.exchange(GET % b"/small")
        assert running.listener.connections <= 10
    finally:
        for connection in idle:
            connection.close()


def test_silent_clients_of_the_same_address_give_way_to_a_probe(start: Callable[..., RunningServer]) -> None:
    """A kubelet's probes share their address with pods in the host's network."""
    running = start(connections=64, per_address=16)
    with ExitStack() as silent:
        for _ in range(30):
            silent.enter_context(running.connect())
        time.sleep(MIN_STAY_UNUSED_S + 0.3)
        for _ in range(9):
            assert b"200 OK" in running.exchange(GET % b"/small")
        assert running.listener.connections <= 16


def test_content_length_with_transfer_encoding_is_refused(start: Callable[..., RunningServer]) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert start().exchange(head + b"0\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_a_body_of_tiny_chunks_is_refused_with_the_reason(start: Callable[..., RunningServer]) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    refused = start().exchange(head + b"1\r\nx\r\n" * 10_000)
    assert refused.startswith(b"HTTP/1.1 400 ")
    assert b"the first 65 chunks have 1 bytes in the mean" in refused


def test_a_client_that_closes_before_it_is_refused_is_no_fault(
    start: Callable[..., RunningServer], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, arrived, closed = start(), threading.Event(), threading.Event()
    parse_step = HttpConnection.parse_step

    def wait_for_close(connection: HttpConnection, until: float) -> bool:
        arrived.set()
        assert closed.wait(10)
        return parse_step(connection, until)

    monkeypatch.setattr(HttpConnection, "parse_step", wait_for_close)
    client = running.connect()
    client.sendall(b"HEAD / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    assert arrived.wait(10)
    client.close()
    closed.set()
    assert b"200 OK" in running.exchange(GET % b"/small")
    assert not [record for record in caplog.records if record.exc_info]


def test_refusals_of_an_address_are_spread_over_time() -> None:
    pace = RefusalPace()
    assert [pace.delay_s("a", 100.0) for _ in range(REFUSALS_AT_ONCE + 1)] == [0.0] * (REFUSALS_AT_ONCE + 1)
    delays_s = [pace.delay_s("a", 100.0) for _ in range(3)]
    assert delays_s == pytest.approx([REFUSAL_INTERVAL_S * n for n in (1, 2, 3)])
    assert pace.delay_s("b", 100.0) == 0.0
    assert pace.delay_s("a", 110.0) == 0.0


def test_the_pace_of_refusals_forgets_addresses_that_need_not_wait() -> None:
    pace = RefusalPace()
    for number in range(100_000):
        pace.delay_s(str(number), float(number))
    assert len(pace._next_s) < 2000


def test_refusing_one_address_at_a_high_rate_delays_no_other(start: Callable[..., RunningServer]) -> None:
    running, count = start(), 4 * REFUSALS_AT_ONCE
    began = time.monotonic()
    with ExitStack() as strangers:
        refused = [strangers.enter_context(running.connect("127.0.0.2")) for _ in range(count)]
        for connection in refused:
            connection.sendall(b"nonsense\r\n\r\n")
        assert b"400" in running.exchange(b"nonsense\r\n\r\n")[:20]
        assert b"200 OK" in running.exchange(GET % b"/small")
        assert all(connection.recv(12) == b"HTTP/1.1 400" for connection in refused)
    assert time.monotonic() - began > (count - REFUSALS_AT_ONCE - 2) * REFUSAL_INTERVAL_S


@pytest.mark.parametrize(
    ("record", "at_least", "at_most"), [(1, 1, TLS_READ_SIZE), (16_000, 16_000 - TLS_READ_SIZE, 16_000)]
)
def test_a_step_reads_one_long_tls_record_or_a_bounded_number_of_short_ones(
    start: Callable[..., RunningServer], monkeypatch: pytest.MonkeyPatch, record: int, at_least: int, at_most: int
) -> None:
    sizes: list[int] = []
    buffer_updated = HttpConnection.buffer_updated

    def count_and_keep(connection: HttpConnection, size: int) -> None:
        sizes.append(size)
        buffer_updated(connection, size)

    monkeypatch.setattr(HttpConnection, "buffer_updated", count_and_keep)
    running = start(tls=True)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    body = b"x" * 6 * max(record, 1000)
    with client.wrap_socket(running.connect()) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body))
        for at in range(0, len(body), record):
            connection.sendall(body[at : at + record])
        answer = b""
        while not answer.endswith(body):
            answer += connection.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert at_least <= max(sizes) <= at_most


def test_the_end_answers_a_request_in_progress_and_cancels_only_waits(start: Callable[..., RunningServer]) -> None:
    running = start()
    loop = running.thread._loop
    assert loop is not None
    with running.connect() as connection:
        connection.sendall(GET % b"/wait")
        request = running.waiting.get(timeout=10)
        stopped = asyncio.run_coroutine_threadsafe(running.listener.stop(30), loop)
        assert request.cancelled.wait(10)
        assert not request.client_left.is_set()
        running.go_on.set()
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        stopped.result(10)
    with pytest.raises(ConnectionError):
        running.connect()


def test_stream_is_cancelled_when_its_client_disconnects(start: Callable[..., RunningServer]) -> None:
    running = start()
    with closing(running.connect()) as connection:
        connection.sendall(GET % b"/stream")
        assert b"first" in connection.recv(1000) + connection.recv(1000)
    assert running.cancelled.wait(10)
