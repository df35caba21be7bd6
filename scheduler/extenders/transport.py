"""One extender's connections: POST a body to a verb, get the answer's body, or an ExtenderError in Go's words.

Owns: TLS, the time-out of a whole exchange, the limit of an answer, the words of failures. Does not own: what is said
(`wire`), what it means (`client`). The only importer of httpx here.

Source: pkg/scheduler/extender.go v1.36 makeTransport and send; the words are those of Go's net/http, by which operators
search. Upstream limits no answer; ours may be twice the request and `SPARE_BYTES`.
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

from scheduler.config.extenders import Extender, TlsConfig
from scheduler.framework.extender import ExtenderError
from scheduler.objects.durations import seconds

DEFAULT_TIMEOUT_S: Final = 5.0  # kube-scheduler's
SPARE_BYTES: Final = 16 << 20  # an answer is part of the request and messages: 1 kB for each of 15,000 nodes
CONCURRENT: Final = 32  # exchanges: more than bindings run at once by default

_LATE: Final = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
_LATE_BODY: Final = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
_NO_PROXY: Final = ("all://localhost", "all://127.0.0.1", "all://[::1]")  # as Go


class TlsError(ValueError):
    """The extender's tlsConfig cannot be used."""


def without_password(url: str) -> str:
    """The URL as records, logs and messages may show it, as Go shows it."""
    return re.sub(r"^(\w+://[^/@:]*):[^/@]*@", r"\1:***@", url)


class Body(NamedTuple):
    """An answer, and which media type it says that it is."""

    content: bytes
    media_type: str


class Transport:
    """Connections to one extender. Thread-safe."""

    def __init__(self, config: Extender, *, spare_bytes: int = SPARE_BYTES) -> None:
        """TlsError where a certificate or key cannot be loaded."""
        timeout_s = seconds(config.http_timeout)
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
        # the library's time-outs hold for single reads; who waits for a thread can hold one for the whole exchange
        self._threads = ThreadPoolExecutor(CONCURRENT, thread_name_prefix="extender")

    def post(self, verb: str, body: bytes, accept: str = "*/*") -> Body:
        """The answer. ExtenderError for anything but 200, or when the time is over. `accept`: media types."""
        url = f"{self._url}/{verb}"
        shown = without_password(url)
        deadline = time.monotonic() + self._timeout_s
        exchange = self._threads.submit(self._exchange, verb, url, shown, body, accept, deadline)
        try:
            return exchange.result(self._timeout_s)
        except NotDone:
            exchange.cancel()
            raise ExtenderError(f'Post "{shown}": {_LATE}') from None

    def close(self) -> None:
        """Close every connection; exchanges under way fail."""
        self._client.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _exchange(self, verb: str, url: str, shown: str, body: bytes, accept: str, deadline: float) -> Body:
        limit = 2 * len(body) + self._spare_bytes
        headers = {"Content-Type": "application/json", "Accept": accept}
        with (
            _worded(shown),
            self._client.stream("POST", url, content=body, headers=headers, extensions=self._extensions) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise ExtenderError(f"failed {verb} with extender at URL {shown}, code {response.status_code}")
            answer = bytearray()
            for piece in _pieces(response):
                answer += piece
                if len(answer) > limit:
                    raise ExtenderError(f"answer of extender at URL {shown} is over the limit of {limit} bytes")
                if time.monotonic() > deadline:
                    raise ExtenderError(_LATE_BODY)
            return Body(bytes(answer), response.headers.get("Content-Type", "").partition(";")[0].strip())


def _pieces(response: httpx.Response) -> Iterator[bytes]:
    try:
        yield from response.iter_bytes()
    except httpx.TimeoutException as e:
        raise ExtenderError(_LATE_BODY) from e
    except httpx.RemoteProtocolError as e:
        raise ExtenderError("unexpected EOF") from e


@contextmanager
def _worded(url: str) -> Iterator[None]:
    """httpx's failures in the words of Go's net/http."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL) as e:
        raise ExtenderError(f'Post "{url}": {_words(e, url)}') from e
    except RuntimeError as e:  # the client was closed meanwhile
        raise ExtenderError(f'Post "{url}": {e}') from e


def _words(e: Exception, url: str) -> str:
    if isinstance(e, httpx.TimeoutException):
        return _LATE
    cause = _root(e)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"tls: {cause.reason or cause}"
    where = httpx.URL(url)
    if isinstance(cause, socket.gaierror):
        return f"dial tcp: lookup {where.host}: {cause.strerror}"
    if isinstance(e, httpx.ConnectError) and isinstance(cause, OSError) and cause.strerror:
        port = where.port or (443 if where.scheme == "https" else 80)
        return f"dial tcp {where.host}:{port}: connect: {cause.strerror.lower()}"
    if isinstance(e, httpx.RemoteProtocolError):
        return "EOF"
    return str(e) or type(e).__name__


def _root(e: BaseException) -> BaseException:
    """What the library wrapped."""
    while (inner := e.__cause__ or e.__context__) is not None:
        e = inner
    return e


def _tls(config: Extender) -> ssl.SSLContext:
    """How to trust the extender. `enableHTTPS` without a CA trusts anyone, as upstream."""
    if config.tls_config is None and not config.enable_https:
        return _system_roots()
    tls = config.tls_config or TlsConfig()
    has_ca = bool(tls.ca_file or tls.ca_data)
    if tls.insecure and has_ca:
        raise TlsError("specifying a root certificates file with the insecure flag is not allowed")
    try:
        context = ssl.create_default_context(
            cafile=None if tls.ca_data else tls.ca_file or None,
            cadata=base64.b64decode(tls.ca_data, validate=True).decode() if tls.ca_data else None,
        )
        if tls.cert_file or tls.cert_data:
            with _as_file(tls.cert_file, tls.cert_data) as cert, _as_file(tls.key_file, tls.key_data) as key:
                context.load_cert_chain(cert, key or None)
    except (OSError, ValueError) as e:  # ssl.SSLError is an OSError; ValueError: not base64, not text
        raise TlsError(f"unable to load certificates: {e}") from e
    if tls.insecure or (config.enable_https and not has_ca):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@cache
def _system_roots() -> ssl.SSLContext:
    return ssl.create_default_context()


@contextmanager
def _as_file(path: str, data: str) -> Iterator[str]:
    """A certificate or key as a file, which is all that ssl reads; data win over a path, as upstream."""
    if not data:
        yield path
        return
    with NamedTemporaryFile() as file:  # readable by us alone
        file.write(base64.b64decode(data, validate=True))
        file.flush()
        yield file.name
