"""The JSON client: errors, reviews, Retry-After, paging and watches."""

import threading
import time
from collections.abc import Callable

import httpx
import pytest

from herodotus_kube.client import KubeClient, KubeError
from herodotus_kube.credentials import Credentials

Handler = Callable[[httpx.Request], httpx.Response]


def a_client(handler: Handler) -> KubeClient:
    server = Credentials("https://api.test", None, lambda: {"Authorization": "Bearer t"})
    return KubeClient(server, transport=httpx.MockTransport(handler))


def test_sends_the_token_of_each_moment() -> None:
    tokens = iter(("Bearer first", "Bearer second"))
    seen: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["Authorization"])
        return httpx.Response(200, json={})

    server = Credentials("https://api.test", None, lambda: {"Authorization": next(tokens)})
    kube = KubeClient(server, transport=httpx.MockTransport(handle))
    kube.get("/a")
    kube.get("/a")
    assert seen == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (httpx.Response(403, json={"message": "forbidden"}), 403, "GET /a: the API server answered 403: forbidden"),
        (httpx.Response(502, text="<html>"), 502, "GET /a: the API server answered 502: <html>"),
        (httpx.Response(200, json=[]), 0, "GET /a: the API server did not answer with an object"),
        (httpx.Response(200, text="no JSON"), 0, "GET /a: the API server did not answer: "),
    ],
    ids=["status", "no status", "no object", "no JSON"],
)
def test_unexpected_response_is_an_error(answer: httpx.Response, code: int, message: str) -> None:
    with pytest.raises(KubeError) as raised:
        a_client(lambda _: answer).get("/a")
    assert raised.value.code == code
    assert str(raised.value).startswith(message)


def test_unreachable_server_is_an_error() -> None:
    def fail(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(KubeError, match="did not answer: refused"):
        a_client(fail).get("/a")


def test_review_without_status_is_an_error() -> None:
    with pytest.raises(KubeError, match="no TokenReview"):
        a_client(lambda _: httpx.Response(201, json={})).review("authentication.k8s.io", "TokenReview", {})


def test_repeats_a_request_once_after_retry_after(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    answers = [httpx.Response(429, headers={"Retry-After": "3"}), httpx.Response(200, json={"a": 1})]
    assert a_client(lambda _: answers.pop(0)).get("/a") == {"a": 1}
    assert waits == [3.0]
    busy = httpx.Response(503, headers={"Retry-After": "1"}, json={"message": "busy"})
    with pytest.raises(KubeError, match="503: busy"):
        a_client(lambda _: busy).get("/a")


def test_lists_every_page() -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        second = request.url.params.get("continue") == "more"
        metadata = {"resourceVersion": "7"} if second else {"resourceVersion": "7", "continue": "more"}
        return httpx.Response(200, json={"metadata": metadata, "items": [{"n": 2 if second else 1}]})

    found, version = a_client(handle).list_objects("/pods")
    assert ([bytes(each) for each in found], version) == ([b'{"n":1}', b'{"n":2}'], "7")


def test_lists_again_when_the_watch_has_expired() -> None:
    """A watch that answers 410 inside its stream cannot be resumed."""
    stop, lists, events = threading.Event(), [], []
    watches = iter(
        (
            b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"2"}}}\n'
            b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"3"}}}\n',
            b'{"type":"ERROR","object":{"code":410}}\n',
        )
    )
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        if "watch" not in request.url.params:
            return httpx.Response(200, json={"metadata": {"resourceVersion": "1"}, "items": []})
        asked.append(request.url.params["resourceVersion"])
        return httpx.Response(200, content=next(watches))

    def on_list(objects: object) -> None:
        lists.append(objects)
        if len(lists) == 2:
            stop.set()

    a_client(handle).list_and_watch("/pods", on_list, lambda kind, _: events.append(kind), stop)
    assert (len(lists), events, asked) == (2, ["ADDED"], ["1", "3"])
