"""Requests: the error envelope in all its forms, and what an API server is asked at the start."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import httpx
import pytest

from herodotus_kube import discovery
from herodotus_kube.api_conventions import PAGE
from herodotus_kube.credentials import Credentials
from herodotus_kube.http import MERGE_PATCH, ApiError, ApiServer
from herodotus_record import klog
from tests.kube.servers import Script, api_of, status


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (status(404, "NotFound", "no such pod"), (404, "NotFound", "no such pod", None)),
        (status(429, "TooMany", "later", **{"Retry-After": "60"}), (429, "TooMany", "later", 60.0)),
        (httpx.Response(502, text="<html>bad gateway</html>"), (502, "", "<html>bad gateway</html>", None)),
        (httpx.Response(500, content=b""), (500, "", "500 Internal Server Error", None)),
        (httpx.Response(500, json=["x"]), (500, "", '["x"]', None)),
        (httpx.ConnectError("refused"), (0, "NoAnswer", "refused", None)),
        (httpx.ReadTimeout(""), (0, "NoAnswer", "ReadTimeout", None)),
    ],
)
def test_every_failure_is_an_api_error(
    answer: httpx.Response | Exception, expected: tuple[int, str, str, float | None]
) -> None:
    with pytest.raises(ApiError) as raised:
        api_of(Script(answer)).get("/x")
    e = raised.value
    assert (e.code, e.reason, str(e), e.retry_after_s) == expected
    outcome = f"answered {e.code}" if e.code else "did not answer"
    assert e.describe() == f"GET /x: the API server {outcome}: {e}"


@pytest.mark.parametrize("body", [b"[]", b"no JSON"])
def test_a_response_that_is_no_object_is_an_error(body: bytes) -> None:
    with pytest.raises(ApiError, match=r"not a JSON object|line 1") as raised:
        api_of(Script(httpx.Response(200, content=body))).get_object("/a")
    assert raised.value.code == 0
    with pytest.raises(ApiError, match="not a TokenReview"):
        api_of(Script(httpx.Response(201, json={}))).review("authentication.k8s.io", "TokenReview", {})


def test_sends_the_token_of_each_moment() -> None:
    server, tokens = Script(httpx.Response(200)), iter(("Bearer first", "Bearer second"))
    credentials = Credentials("https://api.test", None, lambda: {"Authorization": next(tokens)})
    with closing(ApiServer(credentials, transport=httpx.MockTransport(server))) as api:
        api.get("/a")
        api.get("/a")
    assert [r.headers["Authorization"] for r in server.requests] == ["Bearer first", "Bearer second"]


def test_lists_every_page() -> None:
    first = httpx.Response(200, json={"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [{"n": 1}]})
    server = Script(first, httpx.Response(200, json={"metadata": {"resourceVersion": "7"}, "items": [{"n": 2}]}))
    assert list(api_of(server).list_objects("/pods", dict, {"fieldSelector": "a=b"})) == [{"n": 1}, {"n": 2}]
    assert [dict(r.url.params) for r in server.requests] == [
        {"fieldSelector": "a=b", "limit": str(PAGE)},
        {"fieldSelector": "a=b", "limit": str(PAGE), "continue": "more"},
    ]


def test_no_request_waits_longer_than_the_client_may() -> None:
    server = Script(status(429, **{"Retry-After": "1"}))
    credentials = Credentials("http://api", None, dict)
    api = ApiServer(credentials, transport=httpx.MockTransport(server), timeout_s=0.5)
    with closing(api), pytest.raises(ApiError):
        api.get("/x")
    assert len(server.requests) == 1
    assert server.requests[0].extensions["timeout"] == {"connect": 0.5, "read": 0.5, "write": 0.5, "pool": 0.5}


@pytest.mark.parametrize("code", [429, 503])
def test_deferred_batch_is_sent_again_after_retry_after(code: int) -> None:
    server = Script(status(code, **{"Retry-After": "1"}), httpx.Response(201, content=b"ok"))
    began = time.monotonic()
    assert api_of(server).post("/p", {"a": 1}) == b"ok"
    assert time.monotonic() - began >= 1.0
    assert server.bodies() == [{"a": 1}] * 2


@pytest.mark.parametrize("code", [409, 429, 500, 503, 504])
def test_nothing_else_is_sent_again(code: int) -> None:
    """Without a time, or where the work may have been done, the caller decides."""
    server = Script(status(code, **({"Retry-After": "1"} if code in (500, 504) else {})))
    with pytest.raises(ApiError):
        api_of(server).post("/p", {})
    assert len(server.requests) == 1


def test_waiting_ends_with_the_connection() -> None:
    api = api_of(Script(status(429, **{"Retry-After": "9"})))
    threading.Timer(0.1, api.close).start()
    with pytest.raises(ApiError):
        api.get("/x")


def test_methods_bodies_and_their_types() -> None:
    server = Script(httpx.Response(200, content=b"ok"))
    api = api_of(server)
    assert [
        api.get("/g", {"limit": "1"}),
        api.post("/p", {"a": 1}),
        api.put("/u", {}),
        api.patch("/s", {}),
        api.patch("/m", {}, MERGE_PATCH),
    ] == [b"ok"] * 5
    assert [(r.method, str(r.url), r.headers.get("Content-Type")) for r in server.requests] == [
        ("GET", "http://api/g?limit=1", None),
        ("POST", "http://api/p", "application/json"),
        ("PUT", "http://api/u", "application/json"),
        ("PATCH", "http://api/s", "application/strategic-merge-patch+json"),
        ("PATCH", "http://api/m", "application/merge-patch+json"),
    ]


def test_after_close_there_is_no_answer() -> None:
    api = api_of(Script(httpx.Response(200)))
    api.close()
    with pytest.raises(ApiError, match="the connection is closed"):
        api.get("/x")
    with pytest.raises(ApiError, match="the connection is closed"), api.stream("/x", {}, 1.0):
        pass


@pytest.mark.parametrize(
    ("major", "minor", "warned"),
    [("1", "36", False), ("1", "30+", False), ("1", "29", True), ("1", "99", True), ("", "", True)],
)
def test_a_version_that_was_not_tried_is_warned_of(
    major: str, minor: str, warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(klog, "warning", lambda message, **pairs: warnings.append(message))
    answer = httpx.Response(200, json={"major": major, "minor": minor, "gitVersion": "v1"})
    assert discovery.fetch_server_version(api_of(Script(answer))) == "v1"
    assert warnings == ["API server version is not supported"] * warned


def test_absent_apis_are_reported_and_other_responses_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(klog, "warning", lambda message, **pairs: None)
    ok, absent = httpx.Response(200, json={}), status(404)
    assert discovery.find_absent_groups(api_of(Script(absent, ok))) == {"events.k8s.io/v1": "events about pods"}
    assert discovery.find_absent_groups(api_of(Script(ok))) == {}
    with pytest.raises(ApiError, match="forbidden"):
        discovery.find_absent_groups(api_of(Script(status(403, message="forbidden"))))


def test_the_cluster_is_its_kube_systems_uid() -> None:
    server = Script(httpx.Response(200, json={"metadata": {"uid": "u"}}))
    assert discovery.fetch_cluster_id(api_of(server)) == "u"
    assert server.requests[0].url.path == "/api/v1/namespaces/kube-system"
