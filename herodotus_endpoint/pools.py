"""The worker pools of the decisions service, and which pool runs which request.

Owns: the size of each pool and the maximum body of each kind of request. Does not own: routes (`app`), threads
(`herodotus_serving.pools`).

Invariant: slow and idle clients occupy no thread. Ingest, queries, watches, reviews, polls and probes have separate
pools, so that none of them delays another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from herodotus_endpoint import errors
from herodotus_endpoint.access.fair_ingest_queue import MAX_WAITING
from herodotus_endpoint.api import cluster_reviews, ingest, review_queue, reviews
from herodotus_endpoint.metrics import EndpointMetrics
from herodotus_endpoint.settings import MAX_POLLS, ServiceSettings
from herodotus_serving import wsgi
from herodotus_serving.messages import HttpService, PoolAssignment, RequestHead, Response
from herodotus_serving.pools import WorkerPool

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

SENDER_PREFIX: Final = "/ingest/"  # paths that schedulers request
PROBE_PATHS: Final = ("/livez", "/readyz")
SENDER_THREADS: Final = 8  # for senders' other requests, which are short, while MAX_WAITING batches wait
QUEUED_BATCHES: Final = 32  # senders' requests that wait while all these threads are in use
QUEUED_QUERIES: Final = 64
REFUSAL_THREADS: Final = 2  # for watches beyond --max-watches, whose refusal names the user
MAX_IGNORED_BODY: Final = 4 << 10  # of requests that are answered without reading the body


class Pools:
    """The worker pools of one process, and the functions that choose the pool for a request."""

    def __init__(self, settings: ServiceSettings, threads: int, metrics: EndpointMetrics) -> None:
        watches = settings.max_watches + REFUSAL_THREADS
        ingests = settings.max_concurrent_ingests + MAX_WAITING + SENDER_THREADS
        self.probes = WorkerPool("probes", 1, 256, per_address=16)  # each takes a millisecond and waits for nothing
        self.queries = WorkerPool("queries", threads, QUEUED_QUERIES, per_address=(threads + QUEUED_QUERIES) // 2)
        self.ingest = WorkerPool("ingest", ingests, QUEUED_BATCHES, metrics.refused.labels("busy").inc)
        self.watches = WorkerPool("watches", watches, QUEUED_QUERIES)
        self.reviews = WorkerPool("reviews", settings.max_reviews, 0)
        self.polls = WorkerPool("polls", MAX_POLLS, 0)

    def route_probe(self, _head: RequestHead) -> PoolAssignment:
        """Return the worker pool and body limit for a request that arrived at a listener for probes."""
        return PoolAssignment(self.probes, MAX_IGNORED_BODY)

    def route_query(self, head: RequestHead) -> PoolAssignment:
        """Return the worker pool and body limit for a request that arrived at a listener for queries only."""
        if head.path in PROBE_PATHS:
            return self.route_probe(head)
        if head.method == "POST" and head.path.endswith(reviews.PATH_SUFFIX):
            return PoolAssignment(self.reviews, reviews.MAX_BODY_BYTES)
        if head.method == "POST" and head.path.endswith(cluster_reviews.PATH):
            return PoolAssignment(self.reviews, cluster_reviews.MAX_BODY_BYTES)
        if head.method == "GET" and head.path.endswith("/decisions") and "watch=" in head.query:
            return PoolAssignment(self.watches, MAX_IGNORED_BODY)
        return PoolAssignment(self.queries, MAX_IGNORED_BODY)

    def route_ingest(self, head: RequestHead) -> PoolAssignment:
        """Return the worker pool and body limit for a request that arrived at a listener for ingest and queries."""
        if head.method == "GET" and head.path.startswith(review_queue.PATH):
            return PoolAssignment(self.polls, MAX_IGNORED_BODY)
        if head.path.startswith(SENDER_PREFIX):
            return PoolAssignment(self.ingest, max(ingest.MAX_BODY_BYTES, review_queue.MAX_ANSWER_BYTES))
        return self.route_query(head)


def build_service(application: WSGIApplication, route: Callable[[RequestHead], PoolAssignment]) -> HttpService:
    """Return an HTTP service that runs each request of a WSGI application in the pool that `route` returns."""
    return HttpService(route, wsgi.create_handler(application), refuse)


def refuse(status: int, message: str) -> Response:
    """Return a response with a Kubernetes Status to a request that is refused before the application sees it."""
    return Response(
        status,
        [("Content-Type", "application/json"), ("Cache-Control", "no-store")],
        errors.status_body(status, message),
    )


def refuse_ingest(application: WSGIApplication) -> WSGIApplication:
    """Wrap an application for listeners that serve queries only: it answers 403 to requests of schedulers."""

    def answer(environ: dict[str, Any], start_response: Any) -> Any:
        if not str(environ.get("PATH_INFO")).startswith(SENDER_PREFIX):
            return application(environ, start_response)
        refused = refuse(403, "ingest is not served on this listener (--ingest-bind)")
        start_response("403 Forbidden", [*refused.headers, ("Content-Length", str(len(refused.body)))])
        return [refused.body]

    return answer


def restrict_to_probes(application: WSGIApplication) -> WSGIApplication:
    """Wrap an application so that it serves only PROBE_PATHS and answers 404 to every other path."""

    def answer(environ: dict[str, Any], start_response: Any) -> Any:
        if environ.get("PATH_INFO") in PROBE_PATHS and environ.get("REQUEST_METHOD") in ("GET", "HEAD"):
            return application(environ, start_response)
        start_response("404 Not Found", [("Content-Type", "text/plain"), ("Content-Length", "0")])
        return []

    return answer
