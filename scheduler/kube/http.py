"""Requests to the API server: JSON in, bytes out, its errors as `ApiError`.

Owns: the connection pool, time-outs, the error envelope, waiting where the server asks for it (Retry-After). Does not
own: any other retry; each caller knows what may be repeated.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import httpx

from scheduler.kube.credentials import Credentials

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
TIMEOUT_S: Final = 10.0  # of a request and its repetitions; a binding must not land under a later leader
CONNECT_TIMEOUT_S: Final = 5.0
NOT_DONE: Final = (429, 503)  # with Retry-After: nothing was done, whatever the method; client-go repeats them too

Json = dict[str, Any]


class ApiError(Exception):
    """The API server said no, or did not answer. `code` is 0 where there was no answer."""

    def __init__(self, code: int, reason: str, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after_s = retry_after_s


class ApiServer:
    """A pool of connections to one API server. Thread-safe."""

    def __init__(
        self, credentials: Credentials, connections: int = 64, transport: httpx.BaseTransport | None = None
    ) -> None:
        """`transport`: instead of the network."""
        self.url = credentials.url
        self._closed = threading.Event()
        self._headers = credentials.headers
        self._client = httpx.Client(
            base_url=credentials.url,
            verify=credentials.tls if credentials.tls is not None else True,
            timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            headers={"User-Agent": "herodotus-scheduler", "Accept": "application/json"},
            transport=transport,
        )

    def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """The body of a GET."""
        return self._send("GET", path, params=params)

    def post(self, path: str, body: Json, timeout_s: float = TIMEOUT_S) -> bytes:
        """Create. The server, too, is told to end within the time-out."""
        params = {"timeout": f"{timeout_s:g}s"} if timeout_s < TIMEOUT_S else None
        return self._send("POST", path, body, params=params, timeout_s=timeout_s)

    def put(self, path: str, body: Json) -> bytes:
        """Replace."""
        return self._send("PUT", path, body)

    def patch(self, path: str, body: Json, kind: str = STRATEGIC_PATCH) -> bytes:
        """Change."""
        return self._send("PATCH", path, body, content_type=kind)

    def delete(self, path: str, body: Json) -> bytes:
        """Delete. `body`: DeleteOptions."""
        return self._send("DELETE", path, body)

    @contextmanager
    def stream(self, path: str, params: Mapping[str, str], read_timeout_s: float) -> Iterator[Iterator[bytes]]:
        """A GET whose body is read as it comes, in pieces of any size."""
        self._check_open()
        try:
            with self._client.stream(
                "GET", path, params=dict(params), headers=self._headers(), timeout=_streaming(read_timeout_s)
            ) as response:
                if response.status_code >= 400:
                    response.read()
                    raise _error(response)
                yield response.iter_raw()
        except httpx.HTTPError as e:
            raise ApiError(0, "NoAnswer", _said(e)) from e

    def close(self) -> None:
        """Close every connection; requests under way fail, and later ones are not answered."""
        self._closed.set()
        self._client.close()

    def _check_open(self) -> None:
        """Threads that are still about when the process ends get an ApiError as from any dead server."""
        if self._client.is_closed:
            raise ApiError(0, "NoAnswer", "the connection is closed")

    def _send(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout_s: float = TIMEOUT_S,
    ) -> bytes:
        self._check_open()
        headers = self._headers()
        content = None
        if body is not None:
            content = json.dumps(body, separators=(",", ":")).encode()
            headers["Content-Type"] = content_type
        deadline, timeout = time.monotonic() + timeout_s, _within(timeout_s)
        while True:
            try:
                response = self._client.request(
                    method, path, content=content, params=params, headers=headers, timeout=timeout
                )
            except httpx.HTTPError as e:
                raise ApiError(0, "NoAnswer", _said(e)) from e
            if response.status_code < 400:
                return response.content
            error = _error(response)
            if error.code not in NOT_DONE or not error.retry_after_s:
                raise error
            if time.monotonic() + error.retry_after_s > deadline or self._closed.wait(error.retry_after_s):
                raise error


def _within(timeout_s: float) -> httpx.Timeout:
    """The parts of a short time-out add up to it; a request of the usual one may take each part in full."""
    if timeout_s >= TIMEOUT_S:
        return httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    return httpx.Timeout(read=timeout_s * 0.6, connect=timeout_s * 0.2, write=timeout_s * 0.1, pool=timeout_s * 0.1)


def _streaming(read_timeout_s: float) -> httpx.Timeout:
    return httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S, read=read_timeout_s)


def _said(e: httpx.HTTPError) -> str:
    return str(e) or type(e).__name__


def _error(response: httpx.Response) -> ApiError:
    try:
        status = json.loads(response.content)
        message, reason = status.get("message", ""), status.get("reason", "")
    except (ValueError, AttributeError):
        message, reason = response.text[:200], ""
    after = response.headers.get("Retry-After", "")
    return ApiError(
        response.status_code,
        reason,
        message or f"{response.status_code} {response.reason_phrase}",
        float(after) if after.isdigit() else None,
    )
