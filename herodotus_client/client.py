"""Clients of the decisions service, one for ordinary and one for asynchronous code.

Owns: requests and their failures. Does not own: the questions (`questions`).

Invariant: a client follows no redirect, and sends its token only to its own base URL.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, TypeVar, cast

import httpx

from herodotus_cli.transport import api_paths
from herodotus_client.answers import Decision, DecisionList
from herodotus_client.questions import Question, list_decisions

Answer = TypeVar("Answer")
DEFAULT_TIMEOUT_S: Final = 30.0
_MAX_SILENCE_S: Final = 90.0  # of a watch; the service sends a bookmark every 30 s


class ServiceError(Exception):
    """A refusal of the decisions service or the API server, from its Kubernetes Status.

    `reason` is a word such as NotFound or Forbidden, `code` the HTTP status.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.code, self.reason, self.message = code, reason, message


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
        return cast(Answer, _read(self._http.send(_build(self._http, question, cluster))))

    def watch(
        self, namespace: str = "", *, labels: str = "", fields: str = "", cluster: str = ""
    ) -> Iterator[Decision]:
        """Yield each new or changed decision from now on, until the service ends the watch.

        An empty namespace means all namespaces; `labels` and `fields` are selectors.
        """
        newest = self.ask(list_decisions(namespace, limit=1), cluster=cluster)
        path = api_paths.select_cluster(_watch_path(newest, namespace, labels, fields), cluster)
        with self._http.stream("GET", path, timeout=_MAX_SILENCE_S) as response:
            if response.is_error:
                response.read()
                _read(response)
            for line in response.iter_lines():
                yield from _read_event(line)

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
        return cast(Answer, _read(await self._http.send(_build(self._http, question, cluster))))

    async def watch(
        self, namespace: str = "", *, labels: str = "", fields: str = "", cluster: str = ""
    ) -> AsyncIterator[Decision]:
        """Yield each new or changed decision from now on, as `Client.watch` does."""
        newest = await self.ask(list_decisions(namespace, limit=1), cluster=cluster)
        path = api_paths.select_cluster(_watch_path(newest, namespace, labels, fields), cluster)
        async with self._http.stream("GET", path, timeout=_MAX_SILENCE_S) as response:
            if response.is_error:
                await response.aread()
                _read(response)
            async for line in response.aiter_lines():
                for decision in _read_event(line):
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
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    return {
        "base_url": url.rstrip("/"),
        "headers": headers,
        "verify": verify,
        "timeout": timeout_s,
        "follow_redirects": False,
    }


def _build(http: httpx.Client | httpx.AsyncClient, question: Question[Any], cluster: str) -> httpx.Request:
    if question.document is None:
        return http.build_request("GET", api_paths.select_cluster(question.path, cluster))
    document = api_paths.select_cluster_of_review(question.document, cluster)
    return http.build_request("POST", question.path, json=document)


def _read(response: httpx.Response) -> Mapping[str, Any]:
    """Return the document of a response. Raises ServiceError for a Status, or if it has none."""
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ServiceError(response.status_code, "UnknownResponse", f"HTTP {response.status_code} without a document")
    if response.is_error or document.get("kind") == "Status":
        raise ServiceError(
            response.status_code, str(document.get("reason") or "Unknown"), str(document.get("message") or "no message")
        )
    return document


def _watch_path(newest: DecisionList, namespace: str, labels: str, fields: str) -> str:
    """Return the path of a watch that starts after the list `newest`."""
    selector = api_paths.DecisionSelector(fields, labels)
    return api_paths.decisions_watch(namespace, newest["metadata"]["resourceVersion"], selector=selector)


def _read_event(line: str) -> Iterator[Decision]:
    """Yield the decision of a line of a watch, or nothing for a bookmark. Raises ServiceError for an error event."""
    if not line:
        return
    event = json.loads(line)
    content = event["object"]
    if event["type"] == "ERROR":
        raise ServiceError(content.get("code", 500), str(content.get("reason")), str(content.get("message")))
    if event["type"] != "BOOKMARK":
        yield content
