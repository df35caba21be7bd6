"""The adapter between the HTTP server and WSGI applications.

Owns: the WSGI environ of a request, and collecting the response. Does not own: connections, routes.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from herodotus_serving.messages import STATUSES_WITHOUT_BODY, Headers, Request, Response

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

# Keys of the environ in addition to those of WSGI.
CERTIFICATE: Final = "herodotus.client_certificate"  # DER, verified by TLS; absent without one
HEADERS: Final = "herodotus.headers"  # as sent: WSGI joins repeated headers with commas, and a value may contain one
CLIENT_LEFT: Final = "herodotus.client_left"  # threading.Event: the client disconnected
CANCELLED: Final = "herodotus.cancelled"  # threading.Event: the client disconnected, or the server stops
POOL: Final = "herodotus.pool"  # the name of the worker pool
_UNPREFIXED: Final = {"CONTENT-TYPE": "CONTENT_TYPE", "CONTENT-LENGTH": "CONTENT_LENGTH"}


def create_handler(application: WSGIApplication) -> Callable[[Request], Response]:
    """Return a function that answers a request by calling a WSGI application.

    Responses without a Content-Length are streamed.
    """

    def handle(request: Request) -> Response:
        started: list[tuple[str, Headers]] = []

        def start_response(
            status: str, headers: list[tuple[str, str]], _error: Any = None
        ) -> Callable[[bytes], object]:
            started[:] = [(status, headers)]
            return _refuse_write

        result = application(build_environ(request), start_response)
        parts = iter(result)
        first = next(parts, b"")  # an application may start its response as late as here
        status, headers = int(started[0][0].split(" ", 1)[0]), started[0][1]
        if _is_stream(request, status, headers):
            return Response(status, headers, stream=_Stream(first, parts, result))
        try:
            return Response(status, headers, b"".join((first, *parts)))
        finally:
            _close(result)

    return handle


def build_environ(request: Request) -> dict[str, Any]:
    """Return the WSGI environ of an HTTP request."""
    head = request.head
    environ: dict[str, Any] = {
        "REQUEST_METHOD": head.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(_path(head.path)).decode("latin-1"),
        "RAW_URI": head.target,
        "REQUEST_URI": head.target,
        "QUERY_STRING": head.query,
        "SERVER_PROTOCOL": f"HTTP/{head.version}",
        "SERVER_NAME": request.local[0],
        "SERVER_PORT": str(request.local[1]),
        "REMOTE_ADDR": request.peer[0],
        "REMOTE_PORT": str(request.peer[1]),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "https" if request.tls else "http",
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        HEADERS: head.headers,
        CLIENT_LEFT: request.client_left,
        CANCELLED: request.cancelled,
        POOL: request.pool,
    }
    if request.certificate:
        environ[CERTIFICATE] = request.certificate
    for name, value in head.headers:
        if "_" in name:  # the name with a hyphen has the same key
            continue
        upper = name.upper()
        key = _UNPREFIXED.get(upper) or f"HTTP_{upper.replace('-', '_')}"
        environ[key] = f"{environ[key]},{value}" if key in environ else value
    return environ


def _path(path: str) -> str:
    """Return the path in a request target, which may be an absolute URL; "/" if the URL has none."""
    if not path.startswith(("http://", "https://")):
        return path
    return "/" + path.split("/", 3)[3] if path.count("/") > 2 else "/"


def _is_stream(request: Request, status: int, headers: Headers) -> bool:
    if request.head.method == "HEAD" or status in STATUSES_WITHOUT_BODY:
        return False
    return not any(name.lower() == "content-length" for name, _ in headers)


def _refuse_write(_data: bytes) -> object:
    raise NotImplementedError("WSGI's write() is not supported")


def _close(result: Iterable[bytes]) -> None:
    close = getattr(result, "close", None)
    if close is not None:
        close()


class _Stream(Iterator[bytes]):
    """An iterator over the parts of a streamed WSGI response; `close` closes the application's iterable."""

    def __init__(self, first: bytes, parts: Iterator[bytes], result: Iterable[bytes]) -> None:
        self._first, self._parts, self._result = [first], parts, result

    def __next__(self) -> bytes:
        return self._first.pop() if self._first else next(self._parts)

    def close(self) -> None:
        _close(self._result)
