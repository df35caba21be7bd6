"""Both clients ask a real decisions service in process, and judge what servers answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import pytest

import herodotus_client
from herodotus_client import AsyncClient, Client, Question, ServiceError
from tests.answer_schemas import validate
from tests.builders import bound
from tests.endpoint.service import Service, a_service, rows
from tests.support.client_records import NOWHERE, POINTS, TABLE, decided

QUESTIONS: dict[str, Question[Any]] = {
    "PodExplanation": herodotus_client.explain_pod("shop", "web-1", node="worker-2"),
    "PodHistory": herodotus_client.list_pod_attempts("shop", "web-1"),
    "Decision": herodotus_client.read_decision("shop", "web-1", attempt=1),
    "DecisionList": herodotus_client.list_decisions("shop", fields="spec.pod=web-1", limit=5),
    "PendingPods": herodotus_client.list_pending_pods(),
    "PodComparison": herodotus_client.compare_pods("shop", "web-1", "web-2"),
    "NodeComparison": herodotus_client.compare_nodes("shop", "web-1", "worker-1", "worker-2"),
    "NodeHistory": herodotus_client.explain_node("worker-2", since_s=7200),
    "Balance": herodotus_client.balance(since_s=7200, weights={"NodeResourcesFit": 3}),
    "Agreements": herodotus_client.agreements(),
    "Preemptions": herodotus_client.list_preemptions("shop"),
}


@pytest.fixture
def transport(tmp_path: Any) -> Iterator[httpx.WSGITransport]:
    service: Service = a_service(tmp_path)
    placed, waits = decided("web-1", 1, points=POINTS), decided("web-2", 3, rejected=NOWHERE)
    service.stored(rows(TABLE), placed, bound(placed, TABLE, sequence=2), waits)
    yield httpx.WSGITransport(service.client.application)
    service.store.close()


class InThread(httpx.AsyncBaseTransport):
    """An asynchronous transport that answers by an ordinary one."""

    def __init__(self, transport: httpx.BaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        response = await anyio.to_thread.run_sync(self._transport.handle_request, request)
        return httpx.Response(response.status_code, headers=response.headers, content=response.read())


@pytest.mark.parametrize("kind", QUESTIONS)
def test_both_clients_get_the_document_of_the_service(transport: httpx.WSGITransport, kind: str) -> None:
    async def ask() -> Any:
        async with AsyncClient("http://service.test", transport=InThread(transport)) as client:
            return await client.ask(QUESTIONS[kind])

    with Client("http://service.test", transport=transport) as client:
        answer = client.ask(QUESTIONS[kind])
    assert answer["kind"] == kind
    validate(answer)
    assert anyio.run(ask).keys() == answer.keys()


def test_a_refusal_has_the_words_of_the_status(transport: httpx.WSGITransport) -> None:
    with (
        Client("http://service.test", transport=transport) as client,
        pytest.raises(ServiceError, match=r'NotFound: .*"shop/gone"|NotFound: ') as caught,
    ):
        client.ask(herodotus_client.explain_pod("shop", "gone"))
    assert (caught.value.code, caught.value.reason) == (404, "NotFound")


def answering(response: httpx.Response) -> Client:
    """Return a client of a server that answers every request with the response."""
    return Client("http://service.test", transport=httpx.MockTransport(lambda _request: response))


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(502, text="<html>Bad Gateway</html>"),
        httpx.Response(200, text="[]"),
        httpx.Response(302, headers={"Location": "http://elsewhere.test/"}),
    ],
)
def test_what_is_no_document_is_an_error(response: httpx.Response) -> None:
    with (
        answering(response) as client,
        pytest.raises(ServiceError, match=r"UnknownResponse: (answered|redirects to) "),
    ):
        client.ask(herodotus_client.list_pending_pods())


def test_a_token_and_a_path_before_the_api_are_sent() -> None:
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(201, json={"kind": "PlacementReview"})

    url = "http://127.0.0.1:8001/api/v1/namespaces/herodotus/services/https:herodotus-endpoint:8000/proxy/"
    with Client(url, token="secret", transport=httpx.MockTransport(handle)) as client:
        client.ask(herodotus_client.review_placement("shop", {"replicas": 2}))
    (request,) = seen
    assert request.headers["Authorization"] == "Bearer secret"
    assert str(request.url) == f"{url}apis/herodotus.dev/v1alpha1/namespaces/shop/placementreviews"
    assert json.loads(request.content)["spec"] == {"replicas": 2}


def watched(*events: dict[str, Any]) -> httpx.MockTransport:
    """Return a server whose list of decisions has version 7, and whose watch from there has the events."""

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.params.get("watch") != "true":
            return httpx.Response(200, json={"kind": "DecisionList", "metadata": {"resourceVersion": "7"}, "items": []})
        assert request.url.params["resourceVersion"] == "7"
        return httpx.Response(200, text="".join(f"{json.dumps(event)}\n" for event in events))

    return httpx.MockTransport(handle)


BOOKMARK = {"type": "BOOKMARK", "object": {"kind": "Decision", "metadata": {"resourceVersion": "9"}}}
ADDED = {"type": "ADDED", "object": {"kind": "Decision", "metadata": {"name": "d1"}}}
EXPIRED = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


def test_a_watch_yields_decisions_and_no_bookmarks() -> None:
    with Client("http://service.test", transport=watched(BOOKMARK, ADDED, BOOKMARK)) as client:
        assert list(client.watch("shop")) == [ADDED["object"]]


def test_an_error_in_a_watch_is_raised() -> None:
    with Client("http://service.test", transport=watched(ADDED, EXPIRED)) as client:
        decisions = client.watch()
        assert next(decisions) == ADDED["object"]
        with pytest.raises(ServiceError, match="Expired: too old"):
            next(decisions)


def test_an_asynchronous_watch_yields_the_same() -> None:
    async def watch() -> list[Any]:
        async with AsyncClient("http://service.test", transport=watched(BOOKMARK, ADDED)) as client:
            return [decision async for decision in client.watch(labels="app=web")]

    assert anyio.run(watch) == [ADDED["object"]]
