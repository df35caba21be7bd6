"""A JSON client of the API server: get, list, watch, write, and reviews.

Owns: connections, paging, resuming a watch, waiting on Retry-After, and one exception type. Does not own: credentials
(`credentials`), the content of requests. Lists and watches return raw JSON and the caller decodes it, because decoding
to the kubernetes package's models takes a millisecond per object.

Invariant: a response of an unexpected kind counts as no response.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

import httpx
import msgspec

from herodotus_kube.credentials import Credentials
from herodotus_kube.errors import KubeError as KubeError

PAGE: Final = 500
TIMEOUT_S: Final = 5.0  # a review takes milliseconds; this bounds how long a reader waits
WATCH_S: Final = 300
RETRY_S: Final = 5.0  # wait after a failed watch
CONNECTIONS: Final = 16
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
_log: Final = logging.getLogger(__name__)

Json = dict[str, Any]


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _Metadata
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class KubeClient:
    """A client for one API server. Thread-safe.

    As a context manager it closes its connections at the end. Every request raises KubeError if it fails.
    """

    def __init__(
        self, credentials: Credentials, user_agent: str = "herodotus", transport: httpx.BaseTransport | None = None
    ) -> None:
        """Create a client that is not connected yet; `transport` replaces the network in tests."""
        self._headers = credentials.headers
        self._http = httpx.Client(
            base_url=credentials.url,
            verify=credentials.tls if credentials.tls is not None else False,
            timeout=TIMEOUT_S,
            limits=httpx.Limits(max_connections=CONNECTIONS),
            headers={"User-Agent": user_agent, "Accept": JSON},
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, path: str) -> Json:
        """Return the object at a path of the API server, decoded from JSON."""
        return self._send_object("GET", path)

    def put(self, path: str, document: Json) -> Json:
        """Replace the object at a path and return the stored object."""
        return self._send_object("PUT", path, document)

    def review(self, group: str, kind: str, spec: Json) -> Json:
        """Create a review, such as TokenReview of authentication.k8s.io, and return its status."""
        path, body = f"/apis/{group}/v1/{kind.lower()}s", {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
        status = self._send_object("POST", path, body).get("status")
        if not isinstance(status, dict):
            raise KubeError(f"POST {path}: the API server answered with something that is no {kind}")
        return status

    def annotate_node(self, node: str, values: Mapping[str, str | None]) -> None:
        """Set annotations of a node from a mapping of keys to values; a value of None removes the annotation."""
        self._send("PATCH", f"/api/v1/nodes/{node}", body={"metadata": {"annotations": dict(values)}})

    def list_objects(self, path: str, params: Mapping[str, str] | None = None) -> tuple[list[msgspec.Raw], str]:
        """Return every object of a collection as raw JSON, and the resource version to watch from.

        `params` are query parameters, such as a field selector.
        """
        found: list[msgspec.Raw] = []
        more = ""
        while True:
            query = {**(params or {}), "limit": str(PAGE)} | ({"continue": more} if more else {})
            page = msgspec.json.decode(self._send("GET", path, query), type=_Page)
            found += page.items or ()
            more = page.metadata.continue_
            if not more:
                return found, page.metadata.resource_version

    def list_and_watch(
        self,
        path: str,
        on_list: Callable[[Sequence[msgspec.Raw]], None],
        on_event: Callable[[str, msgspec.Raw], None],
        stop: threading.Event,
        params: Mapping[str, str] | None = None,
    ) -> None:
        """List a collection and watch it until `stop` is set; list again whenever the watch cannot be resumed.

        `on_list` is called with all objects after each list, `on_event` with the type and the object of each event.
        Failures are logged and retried.
        """
        while not stop.is_set():
            try:
                found, version = self.list_objects(path, params)
                on_list(found)
                while not stop.is_set():
                    version = self._watch(path, version, on_event, stop, params or {})
            except (KubeError, msgspec.MsgspecError) as e:
                if not isinstance(e, KubeError) or e.code != 410:
                    _log.warning("watching %s: %s", path, e)
                    stop.wait(RETRY_S)

    def close(self) -> None:
        """Close the connections to the API server."""
        self._http.close()

    def _watch(
        self,
        path: str,
        version: str,
        on_event: Callable[[str, msgspec.Raw], None],
        stop: threading.Event,
        params: Mapping[str, str],
    ) -> str:
        """Run one watch request until the server ends it, and return the resource version to resume from."""
        query = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        query |= {"timeoutSeconds": str(WATCH_S), **params}
        timeout = httpx.Timeout(TIMEOUT_S, read=WATCH_S + TIMEOUT_S)
        partial_line = b""
        try:
            with self._http.stream("GET", path, params=query, headers=self._headers(), timeout=timeout) as response:
                if response.is_error:
                    raise _error_from("GET", path, response.status_code, response.read())
                for chunk in response.iter_bytes():
                    *lines, partial_line = (partial_line + chunk).split(b"\n")
                    for line in filter(None, lines):
                        event = msgspec.json.decode(line, type=_Event)
                        if event.type == "ERROR":
                            raise KubeError(bytes(event.object).decode(errors="replace")[:200], 410)
                        version = msgspec.json.decode(event.object, type=_Object).metadata.resource_version or version
                        if event.type != "BOOKMARK":
                            on_event(event.type, event.object)
                    if stop.is_set():
                        break
        except httpx.HTTPError as e:
            raise _no_answer("GET", path, e) from e
        return version

    def _send_object(self, method: str, path: str, body: Json | None = None) -> Json:
        data = self._send(method, path, body=body)
        try:
            answer = json.loads(data)
        except ValueError as e:
            raise _no_answer(method, path, e) from e
        if not isinstance(answer, dict):
            raise KubeError(f"{method} {path}: the API server did not answer with an object")
        return answer

    def _send(self, method: str, path: str, query: Mapping[str, str] | None = None, body: Json | None = None) -> bytes:
        """Send one request and return the body; repeat it once if the server answers with Retry-After."""
        headers = self._headers()  # a token is read again when it expires
        if body is not None:
            headers["Content-Type"] = MERGE_PATCH if method == "PATCH" else JSON
        content = None if body is None else json.dumps(body).encode()
        for attempt in (1, 2):
            try:
                response = self._http.request(method, path, params=query, content=content, headers=headers)
            except httpx.HTTPError as e:
                raise _no_answer(method, path, e) from e
            if not response.is_error:
                return response.content
            wait = response.headers.get("Retry-After", "")
            if attempt == 1 and response.status_code in (429, 503) and wait.isdigit():
                time.sleep(min(float(wait), TIMEOUT_S))
                continue
            break
        raise _error_from(method, path, response.status_code, response.content)


def _no_answer(method: str, path: str, error: Exception) -> KubeError:
    return KubeError(f"{method} {path}: the API server did not answer: {str(error) or type(error).__name__}")


def _error_from(method: str, path: str, status: int, data: bytes) -> KubeError:
    try:
        message = str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        message = data[:200].decode(errors="replace")
    return KubeError(f"{method} {path}: the API server answered {status}: {message}", status)
