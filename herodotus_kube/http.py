"""Requests to the API server: JSON in, bytes out, errors as `ApiError`.

Owns: the HTTP client, timeouts, decoding errors, and retries after Retry-After. Does not own: any other retry, since
only the caller knows what may be repeated; the connections of `ApiServer.send` (`connection_pool`).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
import msgspec

from herodotus_kube.connection_pool import ConnectionPool, NotSentError
from herodotus_kube.credentials import Credentials
from herodotus_kube.responses import ApiResponse

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
TIMEOUT_S: Final = 10.0  # of a request and its repetitions; a binding must not land under a later leader
CONNECT_TIMEOUT_S: Final = 5.0
NOT_SENT: Final = "NotSent"  # an ApiError's reason: nothing can have come of the request
HEADER_TTL_S: Final = 1.0  # how long headers are used again: asking for a token takes as long as a request's own head
USER_AGENT: Final = "herodotus-scheduler"
RETRYABLE_CODES: Final = (
    429,
    503,
)  # with Retry-After: nothing was done, whatever the method; client-go repeats them too

Json = dict[str, Any]
Done = Callable[["ApiError | None"], None]


class ApiError(Exception):
    """The API server refused a request or did not respond. `code` is the HTTP status, or 0 if there was no response."""

    def __init__(self, code: int, reason: str, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after_s = retry_after_s


class ApiRequest(NamedTuple):
    """A request to the API server. `timeout_s` covers its repetitions too."""

    method: str
    path: str
    body: Json | None = None
    content_type: str = "application/json"
    params: Mapping[str, str] | None = None
    timeout_s: float = TIMEOUT_S


class RequestObserver(Protocol):
    """Counts requests and their durations, from any thread, as `request_metrics.RequestMetrics` does."""

    def count(self, method: str, code: int) -> None:
        """Count one response with this status code. `code` is 0 if there was no response."""

    def observe_duration(self, method: str, duration_s: float) -> None:
        """Observe the duration of one request, from the call until the response was read."""


class _NoObserver:
    """An observer that counts nothing, for programs without metrics."""

    def count(self, method: str, code: int) -> None:
        pass

    def observe_duration(self, method: str, duration_s: float) -> None:
        pass


class ApiServer:
    """A client of one API server with a pool of connections. Thread-safe."""

    def __init__(
        self,
        credentials: Credentials,
        connections: int = 64,
        transport: httpx.BaseTransport | None = None,
        observer: RequestObserver | None = None,
    ) -> None:
        """Prepare connections to the server of the credentials, at most `connections` at a time.

        `transport` replaces the network in tests. `observer` is called for every request.
        """
        self.url = credentials.url
        self._observer: RequestObserver = observer or _NoObserver()
        self._closed = threading.Event()
        self._headers = credentials.headers
        self._header_lines = "", 0.0  # and until when they are good
        parts = urlsplit(credentials.url)
        self._host, self._prefix = parts.netloc.rpartition("@")[2], parts.path.rstrip("/")
        self._client = httpx.Client(
            base_url=credentials.url,
            verify=credentials.tls if credentials.tls is not None else True,
            timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            headers={"User-Agent": USER_AGENT, "Accept": "application/json"},
            transport=transport,
        )
        direct = transport is None and not _uses_proxy(credentials.url)
        self._pool = ConnectionPool(credentials.url, credentials.tls) if direct else None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="aside")  # starts no thread before it is needed

    def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """Send a GET and return the response body. Raise ApiError if the request fails."""
        return self._send(ApiRequest("GET", path, params=params))

    def post(self, path: str, body: Json, timeout_s: float = TIMEOUT_S) -> bytes:
        """Create an object and return the response body. Raise ApiError if the request fails.

        The server also receives a timeout that is shorter than the default.
        """
        params = {"timeout": f"{timeout_s:g}s"} if timeout_s < TIMEOUT_S else None
        return self._send(ApiRequest("POST", path, body, params=params, timeout_s=timeout_s))

    def put(self, path: str, body: Json) -> bytes:
        """Replace an object and return the response body. Raise ApiError if the request fails."""
        return self._send(ApiRequest("PUT", path, body))

    def patch(self, path: str, body: Json, kind: str = STRATEGIC_PATCH) -> bytes:
        """Patch an object and return the response body. `kind` is the media type of the patch.

        Raise ApiError if the request fails.
        """
        return self._send(ApiRequest("PATCH", path, body, kind))

    def delete(self, path: str, body: Json) -> bytes:
        """Delete an object and return the response body. `body` holds the DeleteOptions.

        Raise ApiError if the request fails.
        """
        return self._send(ApiRequest("DELETE", path, body))

    def send(self, request: ApiRequest, done: Done, precondition: Callable[[], bool] = lambda: True) -> None:
        """Send a request without waiting for the response.

        Another thread calls `done`, which must not block, with None for success or an ApiError. The server also gives
        the request up after its timeout. A response of 429 or 503 is not retried. `precondition` is evaluated just
        before the request is sent; if it returns False, the request ends with the reason NotSent.
        """
        start_s = time.monotonic()
        if self._pool is None:
            try:
                self._executor.submit(self._send_aside, request, done, precondition)
            except RuntimeError:
                done(_closed_error())
            return

        def on_answer(answer: ApiResponse | OSError) -> None:
            self._observer.count(request.method, 0 if isinstance(answer, OSError) else answer.status)
            self._observer.observe_duration(request.method, time.monotonic() - start_s)
            done(_to_api_error(answer))

        self._pool.send(self._encode_request(request), request.timeout_s, on_answer, precondition)

    @contextmanager
    def stream(self, path: str, params: Mapping[str, str], read_timeout_s: float) -> Iterator[Iterator[bytes]]:
        """Context manager that opens a GET and yields its body piece by piece as it arrives, for a watch.

        Raise ApiError if the request fails or no byte arrives for `read_timeout_s` seconds.
        """
        self._check_open()
        answered = False
        try:
            with self._client.stream(
                "GET", path, params=dict(params), headers=self._headers(), timeout=_build_stream_timeout(read_timeout_s)
            ) as response:
                answered = True
                self._observer.count("GET", response.status_code)
                if response.status_code >= 400:
                    response.read()
                    raise _parse_error(response)
                yield response.iter_raw()
        except httpx.HTTPError as e:
            if not answered:
                self._observer.count("GET", 0)
            raise ApiError(0, "NoAnswer", _error_text(e)) from e

    def close(self) -> None:
        """Close every connection. Requests in flight and later requests fail."""
        self._closed.set()
        self._client.close()
        self._executor.shutdown(wait=False, cancel_futures=True)
        if self._pool is not None:
            self._pool.close()

    def _check_open(self) -> None:
        """Raise ApiError after `close`, for threads that still use this client."""
        if self._client.is_closed:
            raise _closed_error()

    def _encode_request(self, request: ApiRequest) -> bytes:
        """Return the bytes of an HTTP/1.1 request, head and JSON body, with its timeout as the only parameter."""
        content = msgspec.json.encode(request.body)
        target = f"{self._prefix}{request.path}?timeout={request.timeout_s:g}s"
        given = self._get_header_lines()
        head = (
            f"{request.method} {target} HTTP/1.1\r\nHost: {self._host}\r\nUser-Agent: {USER_AGENT}\r\n"
            f"Accept: application/json\r\nContent-Type: {request.content_type}\r\n"
            f"Content-Length: {len(content)}\r\n{given}\r\n"
        )
        return head.encode("latin-1") + content

    def _get_header_lines(self) -> str:
        """Return the authentication headers as lines of an HTTP request, cached for a second.

        A token that is being renewed stays valid for minutes.
        """
        known, now = self._header_lines, time.monotonic()
        if now >= known[1]:
            lines = "".join(f"{name}: {value}\r\n" for name, value in self._headers().items())
            known = self._header_lines = lines, now + HEADER_TTL_S
        return known[0]

    def _send_aside(self, request: ApiRequest, done: Done, precondition: Callable[[], bool]) -> None:
        if not precondition():
            done(ApiError(0, NOT_SENT, "it may not be sent any more"))
            return
        try:
            self._send(request._replace(params={"timeout": f"{request.timeout_s:g}s"}))
        except ApiError as e:
            done(e)
        else:
            done(None)

    def _send(self, request: ApiRequest) -> bytes:
        self._check_open()
        start_s = time.monotonic()
        try:
            return self._send_until_answered(request)
        finally:
            self._observer.observe_duration(request.method, time.monotonic() - start_s)

    def _send_until_answered(self, request: ApiRequest) -> bytes:
        """Send a request, and again after Retry-After, and return the response body. Raise ApiError if it fails."""
        headers = self._headers()
        content = None
        if request.body is not None:
            content = json.dumps(request.body, separators=(",", ":")).encode()
            headers["Content-Type"] = request.content_type
        deadline, timeout = time.monotonic() + request.timeout_s, _split_timeout(request.timeout_s)
        while True:
            try:
                response = self._client.request(
                    request.method,
                    request.path,
                    content=content,
                    params=request.params,
                    headers=headers,
                    timeout=timeout,
                )
            except httpx.HTTPError as e:
                self._observer.count(request.method, 0)
                raise ApiError(0, "NoAnswer", _error_text(e)) from e
            self._observer.count(request.method, response.status_code)
            if response.status_code < 400:
                return response.content
            error = _parse_error(response)
            if error.code not in RETRYABLE_CODES or not error.retry_after_s:
                raise error
            if time.monotonic() + error.retry_after_s > deadline or self._closed.wait(error.retry_after_s):
                raise error


def micro_time() -> str:
    """Return the present UTC time as text in the API's MicroTime format, with six digits of microseconds."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _split_timeout(timeout_s: float) -> httpx.Timeout:
    """Return the timeouts of connecting, writing, reading and waiting for a connection, for a request of `timeout_s`.

    If `timeout_s` is shorter than the default, they add up to it.
    """
    if timeout_s >= TIMEOUT_S:
        return httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    return httpx.Timeout(read=timeout_s * 0.6, connect=timeout_s * 0.2, write=timeout_s * 0.1, pool=timeout_s * 0.1)


def _build_stream_timeout(read_timeout_s: float) -> httpx.Timeout:
    return httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S, read=read_timeout_s)


def _error_text(e: httpx.HTTPError) -> str:
    return str(e) or type(e).__name__


def _closed_error() -> ApiError:
    return ApiError(0, "NoAnswer", "the connection is closed")


def _uses_proxy(url: str) -> bool:
    """Return whether environment variables such as HTTPS_PROXY direct requests to this server through a proxy."""
    parts = urlsplit(url)
    proxies = getproxies()
    return ("all" in proxies or parts.scheme in proxies) and not proxy_bypass(parts.hostname or "")


def _to_api_error(answer: ApiResponse | OSError) -> ApiError | None:
    if isinstance(answer, NotSentError):
        return ApiError(0, NOT_SENT, str(answer))
    if isinstance(answer, OSError):
        return ApiError(0, "NoAnswer", str(answer) or type(answer).__name__)
    if answer.status < 400:
        return None
    return _build_error(answer.status, answer.reason, answer.body, answer.headers.get("retry-after", ""))


def _parse_error(response: httpx.Response) -> ApiError:
    after = response.headers.get("Retry-After", "")
    return _build_error(response.status_code, response.reason_phrase, response.content, after)


def _build_error(code: int, phrase: str, body: bytes, retry_after: str) -> ApiError:
    try:
        status = json.loads(body)
        message, reason = status.get("message", ""), status.get("reason", "")
    except (ValueError, AttributeError):
        message, reason = body.decode(errors="replace")[:200], ""
    after_s = float(retry_after) if retry_after.isdigit() else None
    return ApiError(code, reason, message or f"{code} {phrase}", after_s)
