"""Clients of the decisions service, one for ordinary and one for asynchronous code.

Owns: requests. Does not own: the questions (`questions`), reading responses and their errors (`responses`).

Invariant: a client follows no redirect, and sends its token only to its own base URL.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import httpx

from herodotus_client import api_paths
from herodotus_client.questions import Question, list_decisions
from herodotus_client.responses import UnknownResponseError, parse_response, read_status

if TYPE_CHECKING:
    from herodotus_answers.decision import DecisionDocument, DecisionList

Answer = TypeVar("Answer")
Json = dict[str, Any]
DEFAULT_TIMEOUT_S: Final = 30.0
# The service sends a bookmark every 30 s: a watch without a byte for three of them is a dead connection.
_MAX_SILENCE_S: Final = 90.0
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class Client:
    """A client that asks the decisions service. Use it in `with`, or call `close`.

    `url` is the service's own, that of `kubectl proxy` followed by the path of the Service, or that of an API server
    where the service is registered as an APIService. `token` is a bearer token. `verify` is False, or a TLS context
    with the certificate authority of the server. `transport` replaces the network, for tests.

    `cluster` of a method is the ID or name of the cluster that the answer is about, one of those of `list_clusters`; by
    default the service's own.

    Methods raise ServiceError for a refusal, and exceptions of httpx where the service cannot be reached in time.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        verify: Any = True,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = httpx.Client(**_settings(url, token, verify, timeout_s), transport=transport)

    def ask(self, question: Question[Answer], *, cluster: str = "") -> Answer:
        """Return the answer to a question."""
        return cast(Answer, self.request(*_build(question, cluster)))

    def request(self, path: str, document: Mapping[str, Any] | None = None) -> Json:
        """Return the document at a path. With `document`, post it to the path and return the response."""
        return _read(self._http.request("POST" if document else "GET", path, json=document))

    def watch(
        self, namespace: str = "", *, labels: str = "", fields: str = "", cluster: str = ""
    ) -> Iterator[DecisionDocument]:
        """Yield each new or changed decision from now on, until the service ends the watch.

        An empty namespace means all namespaces; `labels` and `fields` are selectors.
        """
        newest = self.ask(list_decisions(namespace, limit=1), cluster=cluster)
        for event in self.stream(_watch_path(newest, namespace, labels, fields, cluster)):
            yield from _read_event(event)

    def stream(self, path: str) -> Generator[Json, None, None]:
        """Request a watch and yield its documents, one per line of the response.

        Raises httpx.ReadTimeout if the connection is silent for longer than the time between bookmarks.
        """
        with self._http.stream("GET", path, timeout=_watch_timeout(self._http)) as response:
            if not response.is_success:
                response.read()
                _read(response)
            for line in filter(None, response.iter_lines()):
                yield parse_response(line.encode())

    def close(self) -> None:
        """Close the connections to the service."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class AsyncClient:
    """A client like `Client` for asynchronous code. Use it in `async with`, or await `close`."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        verify: Any = True,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(**_settings(url, token, verify, timeout_s), transport=transport)

    async def ask(self, question: Question[Answer], *, cluster: str = "") -> Answer:
        """Return the answer to a question."""
        path, document = _build(question, cluster)
        return cast(Answer, _read(await self._http.request("POST" if document else "GET", path, json=document)))

    async def watch(
        self, namespace: str = "", *, labels: str = "", fields: str = "", cluster: str = ""
    ) -> AsyncIterator[DecisionDocument]:
        """Yield each new or changed decision from now on, as `Client.watch` does."""
        newest = await self.ask(list_decisions(namespace, limit=1), cluster=cluster)
        path = _watch_path(newest, namespace, labels, fields, cluster)
        async with self._http.stream("GET", path, timeout=_watch_timeout(self._http)) as response:
            if not response.is_success:
                await response.aread()
                _read(response)
            async for line in response.aiter_lines():
                for decision in _read_event(parse_response(line.encode())) if line else ():
                    yield decision

    async def close(self) -> None:
        """Close the connections to the service."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()


def _settings(url: str, token: str, verify: Any, timeout_s: float | None) -> dict[str, Any]:
    address = urlsplit(url)
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    return {
        "base_url": url.rstrip("/"),
        "headers": headers,
        "verify": verify if address.scheme == "https" else False,  # loading certificates takes 30 ms
        "timeout": timeout_s,
        "trust_env": address.hostname not in _LOOPBACK,  # proxies in the environment are for hosts elsewhere
        "follow_redirects": False,
    }


def _build(question: Question[Any], cluster: str) -> tuple[str, Json | None]:
    """Return the path of a question about a cluster, and the document to post to it or None."""
    if question.document is None:
        return api_paths.select_cluster(question.path, cluster), None
    return question.path, api_paths.select_cluster_of_review(question.document, cluster)


def _read(response: httpx.Response) -> Json:
    """Return the document of a response.

    Raises ServiceError for a Status, and UnknownResponseError for any other response, such as a redirect.
    """
    if response.is_redirect:
        to = response.headers.get("location", "elsewhere")
        raise UnknownResponseError(response.status_code, f"redirects to {to}", b"")
    code = response.status_code
    return parse_response(response.content, code, httpx.codes.get_reason_phrase(code))


def _watch_path(newest: DecisionList, namespace: str, labels: str, fields: str, cluster: str) -> str:
    """Return the path of a watch of a cluster's decisions that starts after the list `newest`."""
    selector = api_paths.DecisionSelector(fields, labels)
    path = api_paths.decisions_watch(namespace, newest["metadata"]["resourceVersion"], selector=selector)
    return api_paths.select_cluster(path, cluster)


def _watch_timeout(http: httpx.Client | httpx.AsyncClient) -> httpx.Timeout:
    return httpx.Timeout(**http.timeout.as_dict() | {"read": _MAX_SILENCE_S})


def _read_event(event: Json) -> Iterator[DecisionDocument]:
    """Yield the decision of an event of a watch, or nothing for a bookmark. Raises ServiceError for an error event."""
    content = event["object"]
    if event["type"] == "ERROR":
        raise read_status(content, 500)
    if event["type"] != "BOOKMARK":
        yield content
