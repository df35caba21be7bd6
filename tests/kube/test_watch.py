"""List and watch: everything once, then every change, through whatever happens to the connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from herodotus_kube import watch
from herodotus_kube.api_conventions import PAGE
from herodotus_kube.watch import ListResult, ListWatch, Reflector, WatchEvent
from scheduler.engine.objects.types import Pod
from tests.kube.servers import Json, Pieces, api_of, line, status


def pod(name: str, version: int) -> Json:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def page(names: str, version: int, more: str = "") -> httpx.Response:
    metadata: Json = {"resourceVersion": str(version)} | ({"continue": more} if more else {})
    return httpx.Response(200, json={"metadata": metadata, "items": [pod(n, 1) for n in names]})


class WatchServer:
    """Answers lists and watches in the order given; then holds a last watch open until the test ends."""

    def __init__(self) -> None:
        self.lists: list[httpx.Response | Exception] = []
        self.watches: list[list[bytes | Exception] | httpx.Response | Exception] = []
        self.requests: list[tuple[str, str]] = []  # ("list", continue token or limit) and ("watch", version)
        self.params: list[dict[str, str]] = []
        self.done = threading.Event()  # nothing is left to answer
        self.end = threading.Event()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        params = dict(request.url.params)
        self.params.append(params)
        if "watch" not in params:
            self.requests.append(("list", params.get("continue", params["limit"])))
            answer: Any = self.lists.pop(0) if self.lists else status(500, message="no more lists")
        else:
            self.requests.append(("watch", params["resourceVersion"]))
            answer = self.watches.pop(0) if self.watches else Pieces(self._held())
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, httpx.Response):
            return answer
        return httpx.Response(200, stream=Pieces(answer) if isinstance(answer, list) else answer)

    def _held(self) -> Iterator[bytes]:
        self.done.set()
        self.end.wait(60)
        yield b"\n"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchServer]:
    monkeypatch.setattr(watch, "BACKOFF_S", (0.001, 0.002))
    monkeypatch.setattr(watch, "ABSENT_S", 0.001)
    made = WatchServer()
    yield made
    made.end.set()


def seen(server: WatchServer, params: dict[str, str] | None = None, *, optional: bool = False) -> list[tuple[str, ...]]:
    """Return what reaches the sink until the server has no more responses."""
    messages: list[tuple[str, ...]] = []

    def sink(message: ListResult[Any] | WatchEvent[Any]) -> None:
        if isinstance(message, ListResult):
            messages.append(("absent" if message.absent else "listed", *(o.metadata.name for o in message.objects)))
        else:
            messages.append((message.type, message.object.metadata.name, message.object.metadata.resource_version))

    reflector = Reflector(api_of(server), ListWatch("/api/v1/pods", "pods", Pod, params or {}, optional), sink)
    reflector.start()
    assert server.done.wait(60)
    reflector.stop()
    server.end.set()
    reflector._thread.join(60)
    assert not reflector._thread.is_alive()
    return messages


def test_a_list_in_pages_then_a_watch_from_its_version(server: WatchServer) -> None:
    server.lists = [page("ab", 5, more="next"), page("c", 6)]
    server.watches = [[line("ADDED", pod("d", 7)), line("MODIFIED", pod("a", 8)), line("DELETED", pod("b", 9))]]
    assert seen(server, {"fieldSelector": "x!=y"}) == [
        *(("listed", "a", "b", "c"), ("ADDED", "d", "7"), ("MODIFIED", "a", "8"), ("DELETED", "b", "9")),
    ]
    assert server.requests == [("list", str(PAGE)), ("list", "next"), ("watch", "6"), ("watch", "9")]
    assert all(p["fieldSelector"] == "x!=y" for p in server.params)
    assert server.params[2]["allowWatchBookmarks"] == "true"
    assert 300 <= int(server.params[2]["timeoutSeconds"]) <= 600


def test_empty_list_is_reported(server: WatchServer) -> None:
    server.lists = [httpx.Response(200, json={"metadata": {"resourceVersion": "1"}, "items": None})]
    assert seen(server) == [("listed",)]


def test_pieces_of_any_size(server: WatchServer) -> None:
    whole = line("ADDED", pod("a", 7)) + line("ADDED", pod("b", 8)) + b"\n" + line("ADDED", pod("c", 9))
    server.lists = [page("", 6)]
    server.watches = [[bytes([byte]) for byte in whole], [whole]]
    assert seen(server) == [("listed",), *(("ADDED", n, v) for n, v in [("a", "7"), ("b", "8"), ("c", "9")] * 2)]


def test_a_bookmark_moves_the_version_on(server: WatchServer) -> None:
    server.lists = [page("a", 5)]
    server.watches = [[line("BOOKMARK", {"metadata": {"resourceVersion": "77"}})]]
    assert seen(server) == [("listed", "a")]
    assert server.requests[-1] == ("watch", "77")


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param([line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})], id="as an event"),
        pytest.param(status(410, "Gone", "too old resource version"), id="as the answer"),
    ],
)
def test_too_old_lists_again(server: WatchServer, gone: Any) -> None:
    server.lists = [page("a", 5), page("b", 90)]
    server.watches = [gone]
    assert seen(server) == [("listed", "a"), ("listed", "b")]
    assert server.requests == [("list", str(PAGE)), ("watch", "5"), ("list", str(PAGE)), ("watch", "90")]


def test_pages_that_expired_begin_again(server: WatchServer) -> None:
    server.lists = [page("a", 5, more="next"), status(410, "Expired"), page("ab", 6)]
    assert seen(server) == [("listed", "a", "b")]
    assert server.requests == [("list", str(PAGE)), ("list", "next"), ("list", str(PAGE)), ("watch", "6")]


def test_a_reset_in_the_middle_of_a_line_resumes_behind_the_last_whole_one(server: WatchServer) -> None:
    second = line("ADDED", pod("b", 8))
    server.lists = [page("", 6)]
    server.watches = [
        [line("ADDED", pod("a", 7)) + second[:20], httpx.ReadError("connection reset")],
        [second],
    ]
    assert seen(server) == [("listed",), ("ADDED", "a", "7"), ("ADDED", "b", "8")]
    assert [a for a in server.requests if a[0] == "watch"] == [("watch", "6"), ("watch", "7"), ("watch", "8")]


def test_unreachable_server_is_retried_until_it_answers(server: WatchServer) -> None:
    server.lists = [httpx.ConnectError("refused"), status(503), page("a", 5)]
    server.watches = [httpx.ConnectError("refused"), status(500), [line("ADDED", pod("b", 6))]]
    assert seen(server) == [("listed", "a"), ("ADDED", "b", "6")]
    assert [a for a in server.requests if a[0] == "watch"] == [*[("watch", "5")] * 3, ("watch", "6")]


def test_an_error_event_ends_the_watch_where_it_was(server: WatchServer) -> None:
    server.lists = [page("a", 5)]
    server.watches = [[line("ADDED", pod("b", 6)), line("ERROR", {"code": 500, "message": "etcd"})]]
    assert seen(server) == [("listed", "a"), ("ADDED", "b", "6")]
    assert server.requests[-1] == ("watch", "6")


@pytest.mark.parametrize("garbage", [b"no json\n", b'{"type": "ADDED", "object": {"metadata": 3}}\n', b"[]\n"])
def test_undecodable_event_lists_again(server: WatchServer, garbage: bytes) -> None:
    server.lists = [page("a", 5), page("b", 6)]
    server.watches = [[garbage]]
    assert seen(server) == [("listed", "a"), ("listed", "b")]


def test_closing_the_connection_ends_the_watch_without_an_error(server: WatchServer) -> None:
    server.lists = [page("a", 5)]
    api = api_of(server)
    reflector = Reflector(api, ListWatch("/api/v1/pods", "pods", Pod), lambda message: None)
    reflector.start()
    assert server.done.wait(60)
    reflector.stop()
    api.close()
    server.end.set()
    reflector._thread.join(60)
    assert not reflector._thread.is_alive()


def test_absent_kind_is_reported_once(server: WatchServer) -> None:
    server.lists = [status(404), status(404), status(404), page("a", 5)]
    assert seen(server, optional=True) == [("absent",), ("listed", "a")]


def test_required_kind_is_listed_until_it_exists(server: WatchServer) -> None:
    server.lists = [status(404), page("a", 5)]
    assert seen(server) == [("listed", "a")]


def test_listed_kind_does_not_become_absent(server: WatchServer) -> None:
    server.lists = [page("a", 5), status(404), page("ab", 6)]
    server.watches = [[line("ERROR", {"code": 410})]]
    assert seen(server, optional=True) == [("listed", "a"), ("listed", "a", "b")]


class TestPauses:
    """Between two requests lies a pause that grows, with jitter, until something comes."""

    @pytest.fixture
    def pauses(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """Return the pauses that the reflector makes, without waiting."""
        pauses_s: list[float] = []
        monkeypatch.setattr(watch, "BACKOFF_S", (0.2, 30.0))

        def wait(stop: threading.Event, pause_s: float) -> bool:
            if not stop.is_set():
                pauses_s.append(pause_s)
            return stop.is_set()

        monkeypatch.setattr(watch, "wait", wait)
        return pauses_s

    @staticmethod
    def doubled(pauses: list[float]) -> bool:
        """Each between one and two times its step: 0.2, 0.4, 0.8, ... 30."""
        steps = [min(0.2 * 2**i, 30.0) for i in range(len(pauses))]
        return all(step <= pause <= 2 * step for step, pause in zip(steps, pauses, strict=True))

    def test_watch_that_ends_at_once_is_repeated_after_a_pause(self, server: WatchServer, pauses: list[float]) -> None:
        server.lists = [page("a", 5)]
        server.watches = [[] for _ in range(10)]
        seen(server)
        assert len(pauses) == 10
        assert self.doubled(pauses)

    @pytest.mark.parametrize(
        "failure",
        [httpx.ConnectError("refused"), status(500), status(403), [line("ERROR", {"code": 500})], [b"garbage\n"]],
        ids=repr,
    )
    def test_failures_of_every_kind_back_off(self, server: WatchServer, pauses: list[float], failure: Any) -> None:
        server.lists = [page("a", 5) for _ in range(9)]
        server.watches = [failure for _ in range(8)]
        seen(server)
        assert len(pauses) == 8
        assert self.doubled(pauses)

    def test_being_too_old_again_and_again_backs_off(self, server: WatchServer, pauses: list[float]) -> None:
        server.lists = [page("a", v) for v in range(6)]
        server.watches = [status(410) for _ in range(5)]
        seen(server)
        assert len(pauses) == 5
        assert self.doubled(pauses)

    def test_an_event_resets_the_backoff(self, server: WatchServer, pauses: list[float]) -> None:
        server.lists = [page("a", 5)]
        server.watches = [[], [], [], [line("ADDED", pod("b", 6))], []]
        seen(server)
        assert self.doubled(pauses[:3])
        assert self.doubled(pauses[3:])

    def test_the_time_that_the_server_names_is_waited(self, server: WatchServer, pauses: list[float]) -> None:
        server.lists = [page("a", 5)]
        server.watches = [status(429, **{"Retry-After": "7"}), status(503, **{"Retry-After": "1"})]
        seen(server)
        assert pauses[0] == 7.0
        assert pauses[1] >= 1.0

    def test_a_watch_that_lasted_is_resumed_at_once(
        self, server: WatchServer, pauses: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(watch, "SHORT_S", 0.0)
        server.lists = [page("a", 5)]
        server.watches = [[] for _ in range(5)]
        seen(server)
        assert pauses == []
