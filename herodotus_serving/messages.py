"""HTTP requests, responses and routes as values, and the interface of a service that answers requests.

`connection` builds requests and writes responses; `wsgi` and `scheduler.serving` answer them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from herodotus_serving.pools import WorkerPool

RETRY_AFTER_S: Final = 1  # a full pool or budget empties within milliseconds
STATUSES_WITHOUT_BODY: Final = (204, 304)  # HTTP allows neither a body nor a Content-Length

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class RequestHead:
    """The request line and headers of an HTTP request. `target` is the path and query as sent."""

    method: str
    target: str
    headers: Headers
    version: str = "1.1"

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    def header(self, name: str) -> str:
        """Return the value of the first header called `name` (in lower case), or "" if there is none."""
        return next((value for key, value in self.headers if key.lower() == name), "")


@dataclass(frozen=True)
class Request:
    """A complete HTTP request with properties of its connection.

    `certificate` and `subject` are the client certificate that TLS verified, as DER and as `getpeercert()` decodes it.
    Both are empty if the client presented none. `client_left` is set when the client disconnects. `cancelled` is set
    then and when the server stops, so that long waits end. `pool` is the name of the worker pool that runs the request.
    """

    head: RequestHead
    body: bytes
    peer: tuple[str, int]
    local: tuple[str, int]
    tls: bool = False
    certificate: bytes = b""
    subject: dict[str, object] = field(default_factory=dict)
    cancelled: threading.Event = field(default_factory=threading.Event)
    client_left: threading.Event = field(default_factory=threading.Event)
    pool: str = ""


@dataclass(frozen=True)
class Response:
    """An HTTP response: status code, headers and body.

    If `stream` is not None, its parts are sent instead of `body`, because the length is not known in advance.
    """

    status: int
    headers: Headers
    body: bytes = b""
    stream: Iterator[bytes] | None = None


@dataclass(frozen=True)
class PoolAssignment:
    """The worker pool in which a request runs, and the maximum size of the request's body in bytes."""

    pool: WorkerPool
    max_body: int


@dataclass(frozen=True)
class HttpService:
    """The three functions with which an application answers the requests of a listener.

    `route` chooses the worker pool and `refuse` builds an error response from a status and a message; both run on the
    event loop and must not block. `handle` answers a complete request in a thread of the route's pool.
    """

    route: Callable[[RequestHead], PoolAssignment]
    handle: Callable[[Request], Response]
    refuse: Callable[[int, str], Response]


def with_retry_after(response: Response) -> Response:
    """Return a copy of a response with a Retry-After header of RETRY_AFTER_S seconds."""
    return Response(response.status, [*response.headers, ("Retry-After", str(RETRY_AFTER_S))], response.body)
