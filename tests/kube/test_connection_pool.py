"""Requests that nobody waits for, on loopback connections: each ends once, whatever the server does."""

from __future__ import annotations

import json
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from herodotus_kube import connection_pool
from herodotus_kube.credentials import Credentials
from herodotus_kube.http import ApiError, ApiRequest, ApiServer
from tests.kube.servers import OK, ScriptedServer
from tests.processes import eventually


@pytest.fixture
def serving() -> Iterator[Callable[[Callable[[bytes], bytes | None]], tuple[ScriptedServer, ApiServer]]]:
    opened: list[Any] = []

    def start(answer: Callable[[bytes], bytes | None]) -> tuple[ScriptedServer, ApiServer]:
        server = ScriptedServer(answer)
        api = ApiServer(Credentials(f"{server.url}/cluster", None, lambda: {"Authorization": "Bearer t"}))
        opened.extend([api, server])
        return server, api

    yield start
    for each in opened:
        each.close()


Results = queue.SimpleQueue[ApiError | None]


def held_until(event: threading.Event) -> Callable[[bytes], None]:
    def answer(_: bytes) -> None:
        event.wait(10)

    return answer


def send(api: ApiServer, number: int, results: Results, timeout_s: float = 10.0) -> None:
    api.send(ApiRequest("POST", f"/p/{number}", {"number": number}, timeout_s=timeout_s), results.put)


def test_the_bytes_of_a_request(serving: Any) -> None:
    server, api = serving(lambda _: OK)
    results: Results = queue.SimpleQueue()
    api.send(ApiRequest("PATCH", "/p", {"a": "é"}, "application/merge-patch+json", timeout_s=1.5), results.put)
    assert results.get(timeout=5) is None
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.decode().split("\r\n") == [
        "PATCH /cluster/p?timeout=1.5s HTTP/1.1",
        f"Host: {server.url.removeprefix('http://')}",
        "User-Agent: herodotus-scheduler",
        "Accept: application/json",
        "Content-Type: application/merge-patch+json",
        "Content-Length: 10",
        "Authorization: Bearer t",
    ]
    assert json.loads(body) == {"a": "é"}


def test_connections_are_kept_and_never_too_many(serving: Any) -> None:
    server, api = serving(lambda _: OK)
    results: Results = queue.SimpleQueue()
    for number in range(500):
        send(api, number, results)
    assert [results.get(timeout=5) for _ in range(500)] == [None] * 500
    assert len({json.loads(r.partition(b"\r\n\r\n")[2])["number"] for r in server.requests}) == 500
    assert len(server.connections) <= connection_pool.MAX_CONNECTIONS


def test_a_large_request_leaves_in_pieces(serving: Any) -> None:
    server, api = serving(lambda _: OK)
    results: Results = queue.SimpleQueue()
    api.send(ApiRequest("PATCH", "/p", {"m": "x" * (4 << 20)}), results.put)
    assert results.get(timeout=20) is None
    assert len(server.requests[0]) > 4 << 20


def test_an_error_has_the_server_s_message(serving: Any) -> None:
    body = json.dumps({"message": "no such pod", "reason": "NotFound"}).encode()
    _, api = serving(
        lambda _: b"HTTP/1.1 404 Not Found\r\nRetry-After: 3\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    results: Results = queue.SimpleQueue()
    send(api, 0, results)
    error = results.get(timeout=5)
    assert error is not None
    assert (error.code, error.reason, str(error), error.retry_after_s) == (404, "NotFound", "no such pod", 3.0)


def test_a_connection_that_ends_without_an_answer_fails_its_request_alone_and_it_is_not_sent_again(
    serving: Any,
) -> None:
    server, api = serving(lambda request: None if b"/p/1?" in request else OK)
    results: Results = queue.SimpleQueue()
    codes = []
    for number in range(3):
        send(api, number, results)
        error = results.get(timeout=5)
        codes.append(None if error is None else error.code)
    assert codes == [None, 0, None]
    assert len(server.requests) == 3


def test_idle_connection_that_was_closed_is_reopened(serving: Any) -> None:
    server, api = serving(lambda _: OK)
    results: Results = queue.SimpleQueue()
    send(api, 0, results)
    assert results.get(timeout=5) is None
    server.connections[0].shutdown(socket.SHUT_RDWR)
    eventually(lambda: not api._pool._all, "the end to be seen")
    send(api, 1, results)
    assert results.get(timeout=5) is None


def test_without_an_answer_a_request_ends_with_its_time_out(serving: Any) -> None:
    silent = threading.Event()
    _, api = serving(held_until(silent))
    results: Results = queue.SimpleQueue()
    began = time.monotonic()
    for number in range(connection_pool.MAX_CONNECTIONS):
        send(api, number, results, timeout_s=0.5)
    errors = [results.get(timeout=5) for _ in range(connection_pool.MAX_CONNECTIONS)]
    assert {(e.code, e.reason, str(e)) for e in errors if e is not None} == {(0, "NoAnswer", "timed out")}
    assert time.monotonic() - began < 4
    silent.set()


def test_request_that_was_not_sent_is_marked(serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sent it need not ask what became of it. The time-out begins when a request leaves."""
    monkeypatch.setattr(connection_pool, "MAX_CONNECTIONS", 1)
    monkeypatch.setattr(connection_pool, "QUEUE_TIMEOUT_S", 0.3)
    silent = threading.Event()
    server, api = serving(held_until(silent))
    results: Results = queue.SimpleQueue()
    send(api, 0, results)
    eventually(lambda: len(server.requests) == 1, "the request to be read")
    send(api, 1, results)
    late = results.get(timeout=5)
    monkeypatch.setattr(connection_pool, "QUEUE_TIMEOUT_S", 60.0)
    api.send(ApiRequest("POST", "/p/2", {}), results.put, precondition=lambda: False)
    silent.set()
    results.get(timeout=5)
    refused = results.get(timeout=5)
    assert [(e.reason, str(e)) for e in (late, refused) if e is not None] == [
        ("NotSent", "no connection was free in time"),
        ("NotSent", "it may not be sent any more"),
    ]
    assert len(server.requests) == 1


def test_refused_connection_fails_every_request() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    api = ApiServer(Credentials(url, None, dict))
    results: Results = queue.SimpleQueue()
    for number in range(10):
        send(api, number, results)
    errors = [results.get(timeout=5) for _ in range(10)]
    assert {str(e) for e in errors} == {"[Errno 111] Connection refused"}
    api.close()


def test_closing_fails_running_and_later_requests(serving: Any) -> None:
    silent = threading.Event()
    server, api = serving(held_until(silent))
    results: Results = queue.SimpleQueue()
    send(api, 0, results)
    eventually(lambda: len(server.requests) == 1, "the request to be read")
    api.close()
    send(api, 1, results)
    assert [str(results.get(timeout=5)) for _ in range(2)] == ["the connection is closed"] * 2
    silent.set()


def test_garbage_after_a_response_fails_the_next_request(serving: Any) -> None:
    _, api = serving(lambda _: OK)
    results: Results = queue.SimpleQueue()

    def fails(_: ApiError | None) -> None:
        raise RuntimeError("on purpose")

    api.send(ApiRequest("POST", "/p", {}), fails)
    send(api, 1, results)
    assert results.get(timeout=5) is None


def test_a_configured_proxy_is_used_through_the_http_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    through = ApiServer(Credentials("http://api.example:1", None, dict))
    assert through._pool is None
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    direct = ApiServer(Credentials("http://127.0.0.1:1", None, dict))
    assert isinstance(direct._pool, connection_pool.ConnectionPool)
    for api in (through, direct):
        api.close()
