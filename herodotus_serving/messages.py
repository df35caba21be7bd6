"""An HTTP request, a response and the service that answers, as values.

A leaf of the package: `connection` makes requests and writes responses, `wsgi` and `scheduler.serving` answer them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from herodotus_serving.pools import WorkerPool

RETRY_AFTER_S: Final = 1  # a full pool or budget empties within milliseconds

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class RequestHead:
    """Request line and headers, before the body has arrived. `target`: path and query as sent."""

    method: str
    target: str
    headers: Headers
    version: str = "1.1"

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        """What follows the question mark; empty if nothing does."""
        return self.target.partition("?")[2]

    def header(self, name: str) -> str:
        """Return the first header of that name (lower case), or an empty string."""
        return next((value for key, value in self.headers if key.lower() == name), "")


@dataclass(frozen=True)
class Request:
    """A complete request and its connection.

    `certificate` and `subject`: the client certificate that TLS verified, as DER and as `getpeercert()` decodes it;
    empty without one. `ended` is set when the client disconnects or the server stops: long waits watch it.
    """

    head: RequestHead
    body: bytes
    peer: tuple[str, int]
    local: tuple[str, int]
    tls: bool = False
    certificate: bytes = b""
    subject: dict[str, object] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Response:
    """A status, headers and a body. `stream` takes the place of `body` where the length is not known in advance."""

    status: int
    headers: Headers
    body: bytes = b""
    stream: Iterator[bytes] | None = None


@dataclass(frozen=True)
class Route:
    """Where a request runs: the pool, and how many bytes its body may have."""

    pool: WorkerPool
    max_body: int


@dataclass(frozen=True)
class Service:
    """What answers the requests of a listener.

    `route` and `refuse` run on the event loop and must not block. `handle` runs in a thread of the route's pool.
    `refuse` builds the response to a request that the server does not pass on.
    """

    route: Callable[[RequestHead], Route]
    handle: Callable[[Request], Response]
    refuse: Callable[[int, str], Response]


def retry(response: Response) -> Response:
    """Return the response with a Retry-After header."""
    return Response(response.status, [*response.headers, ("Retry-After", str(RETRY_AFTER_S))], response.body)
