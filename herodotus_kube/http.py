"""Requests to the API server, with bodies and responses in JSON, and errors as `ApiError`.

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
from typing import Final, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
import msgspec

from herodotus_kube.api_conventions import ApiError as ApiError
from herodotus_kube.api_conventions import Json as Json
from herodotus_kube.api_conventions import read_pages
from herodotus_kube.connection_pool import ConnectionPool, NotSentError
from herodotus_kube.credentials import Credentials
from herodotus_kube.responses import ApiResponse
from herodotus_record.typed_decoding import json_decoder

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
TIMEOUT_S: Final = 10.0  # of a request and its repetitions; a binding must not land under a later leader
CONNECT_TIMEOUT_S: Final = 5.0
NOT_SENT: Final = "NotSent"  # an ApiError's reason: nothing can have come of the request
NO_ANSWER: Final = "NoAnswer"  # an ApiError's reason: the request may have been carried out, or still be
HEADER_TTL_S: Final = 1.0  # how long headers are used again: asking for a token takes as long as a request's own head
RETRYABLE_CODES: Final = (429, 503)  # with Retry-After: nothing was done; client-go repeats every method too

T = TypeVar("T")
Done = Callable[[ApiError | None], None]


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
        user_agent: str = "herodotus-scheduler",
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Prepare connections to the server of the credentials, at most `connections` at a time.

        `transport` replaces the network in tests. `observer` is called for every request. `timeout_s` limits the time
        of a request together with its retries.
        """
        self.url = credentials.url
        self._observer: RequestObserver = observer or _NoObserver()
        self._closed = threading.Event()
        self._headers = credentials.headers
        self._user_agent = user_agent
        self._timeout_s = timeout_s
        self._header_lines = "", 0.0  # and until when they are good
        parts = urlsplit(credentials.url)
        self._host, self._prefix = parts.netloc.rpartition("@")[2], parts.path.rstrip("/")
        self._client = httpx.Client(
            base_url=credentials.url,
            verify=credentials.tls or not credentials.url.startswith("http://"),
            timeout=_build_timeout(timeout_s),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            headers={"User-Agent": user_agent, "Accept": "application/json"},
            transport=transport,
        )
        direct = transport is None and not _uses_proxy(credentials.url)
        self._pool = ConnectionPool(credentials.url, credentials.tls) if direct else None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="aside")  # starts no thread before it is needed

    def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """Send a GET and return the response body. Raise ApiError if the request fails."""
        return self._send(ApiRequest("GET", path, params=params))

    def get_object(self, path: str) -> Json:
        """Return the object at a path. Raise ApiError if the request fails or the response is not a JSON object."""
        return _parse_object(f"GET {path}", self.get(path))

    def list_objects(self, path: str, decode_as: type[T], params: Mapping[str, str] | None = None) -> Iterator[T]:
        """Yield every object of the collection at a path, decoded to `decode_as`. `params` are query parameters.

        Raise ApiError if a request fails, msgspec.MsgspecError if an object is invalid.
        """
        decoder = json_decoder(decode_as)
        for page in read_pages(lambda page_params: self.get(path, page_params), params or {}):
            yield from map(decoder.decode, page.items or ())

    def review(self, group: str, kind: str, spec: Json) -> Json:
        """Create a review, such as TokenReview of authentication.k8s.io, and return its status.

        Raise ApiError if the request fails or the response is not such a review.
        """
        path, body = f"/apis/{group}/v1/{kind.lower()}s", {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
        status = _parse_object(f"POST {path}", self.post(path, body)).get("status")
        if not isinstance(status, dict):
            raise ApiError(0, NO_ANSWER, f"not a {kind}", request=f"POST {path}")
        return status

    def post(self, path: str, body: Json, timeout_s: float = TIMEOUT_S) -> bytes:
        """Create an object and return the response body. Raise ApiError if the request fails.

        A `timeout_s` that is shorter than the default is also sent to the server, which then abandons the request in
        time.
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

        Another thread calls `done`, which must not block, with None for success or an ApiError. The server receives the
        timeout too, and abandons the request after it. A response of 429 or 503 is not retried. `precondition` is
        evaluated just before the request is sent; if it returns False, the request ends with an ApiError whose reason
        is NotSent.
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
                "GET",
                path,
                params=dict(params),
                headers=self._headers(),
                timeout=_build_timeout(TIMEOUT_S, read_timeout_s),
            ) as response:
                answered = True
                self._observer.count("GET", response.status_code)
                if response.status_code >= 400:
                    response.read()
                    raise _parse_error(f"GET {path}", response)
                yield response.iter_raw()
        except httpx.HTTPError as e:
            if not answered:
                self._observer.count("GET", 0)
            raise _no_answer(f"GET {path}", e) from e

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
        """Return the bytes of an HTTP/1.1 request, head and JSON body.

        The only query parameter is the request's timeout.
        """
        content = msgspec.json.encode(request.body)
        target = f"{self._prefix}{request.path}?timeout={request.timeout_s:g}s"
        header_lines = self._get_header_lines()
        head = (
            f"{request.method} {target} HTTP/1.1\r\nHost: {self._host}\r\nUser-Agent: {self._user_agent}\r\n"
            f"Accept: application/json\r\nContent-Type: {request.content_type}\r\n"
            f"Content-Length: {len(content)}\r\n{header_lines}\r\n"
        )
        return head.encode("latin-1") + content

    def _get_header_lines(self) -> str:
        """Return the authentication headers as lines of an HTTP request, cached for a second.

        A token that is being renewed stays valid for minutes.
        """
        (lines, expires_s), now = self._header_lines, time.monotonic()
        if now >= expires_s:
            lines = "".join(f"{name}: {value}\r\n" for name, value in self._headers().items())
            self._header_lines = lines, now + HEADER_TTL_S
        return lines

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
        """Send a request, retry it while the server asks for that (Retry-After), and return the response body.

        Raise ApiError if the request fails or the timeout leaves no time for the retry.
        """
        headers = self._headers()
        content = None
        if request.body is not None:
            content = json.dumps(request.body, separators=(",", ":")).encode()
            headers["Content-Type"] = request.content_type
        is_shorter = request.timeout_s < self._timeout_s
        timeout = _split_timeout(request.timeout_s) if is_shorter else _build_timeout(self._timeout_s)
        deadline = time.monotonic() + min(request.timeout_s, self._timeout_s)
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
                raise _no_answer(f"{request.method} {request.path}", e) from e
            self._observer.count(request.method, response.status_code)
            if response.status_code < 400:
                return response.content
            error = _parse_error(f"{request.method} {request.path}", response)
            if error.code not in RETRYABLE_CODES or not error.retry_after_s:
                raise error
            if time.monotonic() + error.retry_after_s > deadline or self._closed.wait(error.retry_after_s):
                raise error


def micro_time() -> str:
    """Return the present UTC time as text in the API's MicroTime format, with six digits of microseconds."""
    return datetime.fromtimestamp(time.time(), timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _split_timeout(timeout_s: float) -> httpx.Timeout:
    """Return timeouts of connecting, writing, reading and waiting for a connection that add up to `timeout_s`."""
    return httpx.Timeout(read=timeout_s * 0.6, connect=timeout_s * 0.2, write=timeout_s * 0.1, pool=timeout_s * 0.1)


def _build_timeout(timeout_s: float, read_timeout_s: float | None = None) -> httpx.Timeout:
    connect_s = min(CONNECT_TIMEOUT_S, timeout_s)
    return httpx.Timeout(timeout_s, connect=connect_s, read=timeout_s if read_timeout_s is None else read_timeout_s)


def _parse_object(request: str, body: bytes) -> Json:
    try:
        document = json.loads(body)
    except ValueError as e:
        raise _no_answer(request, e) from e
    if not isinstance(document, dict):
        raise ApiError(0, NO_ANSWER, "not a JSON object", request=request)
    return document


def _no_answer(request: str, error: Exception) -> ApiError:
    return ApiError(0, NO_ANSWER, str(error) or type(error).__name__, request=request)


def _closed_error() -> ApiError:
    return ApiError(0, NO_ANSWER, "the connection is closed")


def _uses_proxy(url: str) -> bool:
    """Return whether environment variables such as HTTPS_PROXY direct requests to this server through a proxy."""
    parts = urlsplit(url)
    proxies = getproxies()
    return ("all" in proxies or parts.scheme in proxies) and not proxy_bypass(parts.hostname or "")


def _to_api_error(answer: ApiResponse | OSError) -> ApiError | None:
    if isinstance(answer, NotSentError):
        return ApiError(0, NOT_SENT, str(answer))
    if isinstance(answer, OSError):
        return ApiError(0, NO_ANSWER, str(answer) or type(answer).__name__)
    if answer.status < 400:
        return None
    return _build_error(answer.status, answer.reason, answer.body, answer.headers.get("retry-after", ""))


def _parse_error(request: str, response: httpx.Response) -> ApiError:
    after = response.headers.get("Retry-After", "")
    return _build_error(response.status_code, response.reason_phrase, response.content, after, request)


def _build_error(code: int, phrase: str, body: bytes, retry_after: str, request: str = "") -> ApiError:
    try:
        status = json.loads(body)
        message, reason = status.get("message", ""), status.get("reason", "")
    except (ValueError, AttributeError):
        message, reason = body.decode(errors="replace")[:200], ""
    after_s = float(retry_after) if retry_after.isdigit() else None
    return ApiError(code, reason, message or f"{code} {phrase}", after_s, request)
