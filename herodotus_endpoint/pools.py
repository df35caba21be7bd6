"""The worker pools of the decisions service, and which of them a request runs in.

Owns: the size of each pool, the greatest body of each kind of request. Does not own: routes (`app`), threads
(`herodotus_serving.pools`).

Invariant: slow and silent clients take no thread. Ingest, queries, watches, reviews and probes have pools of their own,
so that none of them delays another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from herodotus_endpoint import errors
from herodotus_endpoint.api import ingest, review_queue, reviews
from herodotus_endpoint.metrics import EndpointMetrics
from herodotus_endpoint.settings import MAX_POLLS, ServiceSettings
from herodotus_serving import wsgi
from herodotus_serving.messages import RequestHead, Response, Route, Service
from herodotus_serving.pools import WorkerPool

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

SENDERS: Final = "/ingest/"  # what schedulers ask for and send
PROBES: Final = ("/livez", "/readyz")
WAITING_BATCHES: Final = 4  # in memory for a thread; beyond, a shipper sends its batch again after a second
WAITING_QUERIES: Final = 64
REFUSING_THREADS: Final = 2  # answer watches beyond --max-watches, whose refusal names the user
_SMALL: Final = 4 << 10  # the body of a request that has no use for one


class Pools:
    """The worker pools of one process."""

    def __init__(self, settings: ServiceSettings, threads: int, metrics: EndpointMetrics) -> None:
        watches = settings.max_watches + REFUSING_THREADS
        ingests = settings.max_concurrent_ingests
        self.probes = WorkerPool("probes", 1, 256, per_address=16)  # each takes a millisecond and waits for nothing
        self.queries = WorkerPool("queries", threads, WAITING_QUERIES, per_address=(threads + WAITING_QUERIES) // 2)
        self.ingest = WorkerPool("ingest", ingests, WAITING_BATCHES, metrics.refused.labels("busy").inc)
        self.watches = WorkerPool("watches", watches, WAITING_QUERIES)
        self.reviews = WorkerPool("reviews", settings.max_reviews, 0)
        self.polls = WorkerPool("polls", MAX_POLLS, 0)

    def of_probes(self, _head: RequestHead) -> Route:
        """Return the route of a request to a listener of probes."""
        return Route(self.probes, _SMALL)

    def of_queries(self, head: RequestHead) -> Route:
        """Return the route of a request to a listener of queries alone."""
        if head.path in PROBES:
            return self.of_probes(head)
        if head.method == "POST" and head.path.endswith(reviews.PATH_SUFFIX):
            return Route(self.reviews, reviews.MAX_BODY_BYTES)
        if head.method == "GET" and head.path.endswith("/decisions") and "watch=" in head.query:
            return Route(self.watches, _SMALL)
        return Route(self.queries, _SMALL)

    def of_ingest(self, head: RequestHead) -> Route:
        """Return the route of a request to a listener of ingest."""
        if head.method == "GET" and head.path.startswith(review_queue.PATH):
            return Route(self.polls, _SMALL)
        if head.path.startswith(SENDERS):
            return Route(self.ingest, max(ingest.MAX_BODY_BYTES, review_queue.MAX_ANSWER_BYTES))
        return self.of_queries(head)


def service(application: WSGIApplication, route: Callable[[RequestHead], Route]) -> Service:
    """Return the application as a service of the server."""
    return Service(route, wsgi.handler(application, lambda request: route(request.head).pool.name), refuse)


def refuse(status: int, message: str) -> Response:
    """Return the Status object of a request that does not reach the application."""
    return Response(
        status,
        [("Content-Type", "application/json"), ("Cache-Control", "no-store")],
        errors.status_body(status, message),
    )


def only_probes(application: WSGIApplication) -> WSGIApplication:
    """Return the application for PROBES alone."""

    def answer(environ: dict[str, Any], start_response: Any) -> Any:
        if environ.get("PATH_INFO") in PROBES and environ.get("REQUEST_METHOD") in ("GET", "HEAD"):
            return application(environ, start_response)
        start_response("404 Not Found", [("Content-Type", "text/plain"), ("Content-Length", "0")])
        return []

    return answer
