"""The HTTP connections to one extender; failures become ExtenderErrors with the messages of Go's net/http.

Owns: TLS, the timeout of a whole exchange, the size limit of an answer, the wording of failures. Does not own: messages
(`wire`), their meaning (`client`). This is the only module here that imports httpx.

Source: pkg/scheduler/extender.go v1.36 makeTransport and send; operators search for the messages of Go's net/http.
Upstream does not limit an answer; here it may be twice the request plus `SPARE_BYTES`.
"""

from __future__ import annotations

import base64
import re
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone
from contextlib import contextmanager
from functools import cache
from tempfile import NamedTemporaryFile
from typing import Final, NamedTuple

import httpx

from scheduler.config.extenders import ExtenderConfig, TlsConfig
from scheduler.engine.framework.extender import ExtenderError
from scheduler.engine.objects.times import parse_seconds

DEFAULT_TIMEOUT_S: Final = 5.0  # kube-scheduler's
SPARE_BYTES: Final = 16 << 20  # an answer is part of the request and messages: 1 kB for each of 15,000 nodes
CONCURRENT: Final = 32  # exchanges: more than bindings run at once by default

_LATE: Final = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
_LATE_BODY: Final = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
_NO_PROXY: Final = ("all://localhost", "all://127.0.0.1", "all://[::1]")  # as Go


class ExtenderTlsError(ValueError):
    """An extender's `tlsConfig` is contradictory, or its certificates cannot be loaded."""


def redact_password(url: str) -> str:
    """Return the URL with its password replaced by `***`, as Go prints it."""
    return re.sub(r"^(\w+://[^/@:]*):[^/@]*@", r"\1:***@", url)


class ExtenderResponse(NamedTuple):
    """The body of an extender's HTTP response, and its media type without parameters."""

    content: bytes
    media_type: str


class ExtenderTransport:
    """A pool of HTTP connections to one extender. Thread-safe."""

    def __init__(self, config: ExtenderConfig, *, spare_bytes: int = SPARE_BYTES) -> None:
        """Create the pool without connecting. Raise ExtenderTlsError if a certificate or key cannot be loaded.

        A response may be twice as large as its request plus `spare_bytes`.
        """
        timeout_s = parse_seconds(config.http_timeout)
        self._timeout_s = timeout_s if timeout_s > 0 else DEFAULT_TIMEOUT_S
        self._url = config.url_prefix.rstrip("/")
        self._spare_bytes = spare_bytes
        self._extensions = {"sni_hostname": name} if (name := (config.tls_config or TlsConfig()).server_name) else {}
        self._client = httpx.Client(
            verify=_tls(config),
            timeout=self._timeout_s,
            limits=httpx.Limits(max_connections=CONCURRENT, max_keepalive_connections=CONCURRENT),
            headers={"User-Agent": "herodotus-scheduler", "Accept-Encoding": "gzip"},
            follow_redirects=True,
            mounts=dict.fromkeys(_NO_PROXY),
        )
        # httpx's timeouts apply to single reads; waiting for a thread limits the whole exchange
        self._threads = ThreadPoolExecutor(CONCURRENT, thread_name_prefix="extender")

    def post(self, verb: str, body: bytes, accept: str = "*/*") -> ExtenderResponse:
        """Post a JSON body to the extender's URL for `verb` and return the response.

        `accept` is the Accept header. Raise ExtenderError if the status is not 200, the response is too large or the
        timeout expires.
        """
        exchange = self._threads.submit(self._exchange, verb, body, accept, time.monotonic() + self._timeout_s)
        try:
            return exchange.result(self._timeout_s)
        except NotDone:
            exchange.cancel()
            raise ExtenderError(f'Post "{redact_password(f"{self._url}/{verb}")}": {_LATE}') from None

    def close(self) -> None:
        """Close every connection. Requests in progress fail."""
        self._client.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _exchange(self, verb: str, body: bytes, accept: str, deadline: float) -> ExtenderResponse:
        url = f"{self._url}/{verb}"
        shown = redact_password(url)
        limit = 2 * len(body) + self._spare_bytes
        headers = {"Content-Type": "application/json", "Accept": accept}
        with (
            _translate_errors(shown),
            self._client.stream("POST", url, content=body, headers=headers, extensions=self._extensions) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise ExtenderError(f"failed {verb} with extender at URL {shown}, code {response.status_code}")
            answer = bytearray()
            for piece in _read_chunks(response):
                answer += piece
                if len(answer) > limit:
                    raise ExtenderError(f"answer of extender at URL {shown} is over the limit of {limit} bytes")
                if time.monotonic() > deadline:
                    raise ExtenderError(_LATE_BODY)
            return ExtenderResponse(bytes(answer), response.headers.get("Content-Type", "").partition(";")[0].strip())


def _read_chunks(response: httpx.Response) -> Iterator[bytes]:
    try:
        yield from response.iter_bytes()
    except httpx.TimeoutException as e:
        raise ExtenderError(_LATE_BODY) from e
    except httpx.RemoteProtocolError as e:
        raise ExtenderError("unexpected EOF") from e


@contextmanager
def _translate_errors(url: str) -> Iterator[None]:
    """Context manager that turns httpx's errors into ExtenderErrors with the messages of Go's net/http."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL) as e:
        raise ExtenderError(f'Post "{url}": {_format_like_go(e, url)}') from e
    except RuntimeError as e:  # the client was closed meanwhile
        raise ExtenderError(f'Post "{url}": {e}') from e


def _format_like_go(e: Exception, url: str) -> str:
    if isinstance(e, httpx.TimeoutException):
        return _LATE
    cause = _find_root_cause(e)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"tls: {cause.reason or cause}"
    parsed_url = httpx.URL(url)
    if isinstance(cause, socket.gaierror):
        return f"dial tcp: lookup {parsed_url.host}: {cause.strerror}"
    if isinstance(e, httpx.ConnectError) and isinstance(cause, OSError) and cause.strerror:
        port = parsed_url.port or (443 if parsed_url.scheme == "https" else 80)
        return f"dial tcp {parsed_url.host}:{port}: connect: {cause.strerror.lower()}"
    if isinstance(e, httpx.RemoteProtocolError):
        return "EOF"
    return str(e) or type(e).__name__


def _find_root_cause(e: BaseException) -> BaseException:
    """Return the innermost exception in the chain of causes and contexts of `e`."""
    while (inner := e.__cause__ or e.__context__) is not None:
        e = inner
    return e


def _tls(config: ExtenderConfig) -> ssl.SSLContext:
    """Return the TLS context for an extender.

    With `enableHTTPS` and no CA it accepts any certificate, as in kube-scheduler. Raise ExtenderTlsError if the
    settings contradict each other or a certificate cannot be loaded.
    """
    if config.tls_config is None and not config.enable_https:
        return _system_roots()
    tls = config.tls_config or TlsConfig()
    has_ca = bool(tls.ca_file or tls.ca_data)
    if tls.insecure and has_ca:
        raise ExtenderTlsError("specifying a root certificates file with the insecure flag is not allowed")
    try:
        context = ssl.create_default_context(
            cafile=None if tls.ca_data else tls.ca_file or None,
            cadata=base64.b64decode(tls.ca_data, validate=True).decode() if tls.ca_data else None,
        )
        if tls.cert_file or tls.cert_data:
            with _as_file(tls.cert_file, tls.cert_data) as cert, _as_file(tls.key_file, tls.key_data) as key:
                context.load_cert_chain(cert, key or None)
    except (OSError, ValueError) as e:  # ssl.SSLError is an OSError; ValueError: not base64, not text
        raise ExtenderTlsError(f"unable to load certificates: {e}") from e
    if tls.insecure or (config.enable_https and not has_ca):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@cache
def _system_roots() -> ssl.SSLContext:
    return ssl.create_default_context()


@contextmanager
def _as_file(path: str, data: str) -> Iterator[str]:
    """Context manager that yields the path of a file with a certificate or key, because `ssl` reads only files.

    If `data` (base64) is given, it is written to a temporary file and takes precedence over `path`, as in
    kube-scheduler.
    """
    if not data:
        yield path
        return
    with NamedTemporaryFile() as file:  # readable by us alone
        file.write(base64.b64decode(data, validate=True))
        file.flush()
        yield file.name
