"""The worker pools of the decisions service, and the choice of a request's pool by the route's declaration.

Owns: the size of each pool. Does not own: routes and which kind of pool each declares (`routing`), threads
(`herodotus_serving.pools`).

A body is read before its sender is authenticated, because that may need a review by the API server, for which the event
loop cannot wait. Only the paths and methods of routes that declare a body have a limit above MAX_IGNORED_BODY, and the
listener bounds the memory and the work for bodies of all clients together.

Invariant: slow and idle clients occupy no thread. Each kind of pool has its own threads, so that none delays another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from flask import Flask

from herodotus_endpoint import errors
from herodotus_endpoint.access.ingest_limits import MAX_WAITING
from herodotus_endpoint.metrics import EndpointMetrics
from herodotus_endpoint.reader_limits import REVIEWS_PER_READER, create_queue
from herodotus_endpoint.routing import MAX_IGNORED_BODY, Access, PoolKind, find_route
from herodotus_endpoint.settings import MAX_POLLS, ServiceSettings
from herodotus_serving import wsgi
from herodotus_serving.messages import HttpService, PoolAssignment, Request, RequestHead, Response
from herodotus_serving.pools import WorkerPool

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

SENDER_PREFIX: Final = "/ingest/"  # paths that schedulers request
SENDER_THREADS: Final = 8  # for senders' other requests, which are short, while MAX_WAITING batches wait
QUEUED_BATCHES: Final = 32  # senders' requests that wait while all these threads are in use
QUEUED_QUERIES: Final = 64  # wait for their reader's turn, each in a thread of the pool
QUEUED_REVIEWS: Final = 16  # the same
DISCOVERY_THREADS: Final = 2  # each request takes milliseconds of processor time and waits for nothing
QUEUED_PROBES: Final = 256  # each takes a millisecond and waits for nothing
PROBES_PER_ADDRESS: Final = 16
REFUSAL_THREADS: Final = 2  # for watches beyond --max-watches, whose refusal names the user
STARTING_WATCHES: Final = 2  # at the same time: each reads a page, and 32 together delayed a list by a second
_NO_ADDRESS: Final = ("", 0)


class Pools:
    """The worker pools of one process, by the kind that a route declares."""

    def __init__(self, settings: ServiceSettings, threads: int, metrics: EndpointMetrics) -> None:
        ingests = settings.max_concurrent_ingests + MAX_WAITING + SENDER_THREADS
        queries = threads + QUEUED_QUERIES
        share = queries // 2
        watches = settings.max_watches + REFUSAL_THREADS
        pools = [
            WorkerPool(PoolKind.PROBES.value, 1, QUEUED_PROBES, per_address=PROBES_PER_ADDRESS),
            WorkerPool(PoolKind.QUERIES.value, queries, 0, per_address=share),
            WorkerPool(PoolKind.DISCOVERY.value, DISCOVERY_THREADS, QUEUED_QUERIES, per_address=share),
            WorkerPool(PoolKind.INGEST.value, ingests, QUEUED_BATCHES, metrics.refused.labels("busy").inc),
            WorkerPool(PoolKind.WATCHES.value, watches, QUEUED_QUERIES),
            WorkerPool(PoolKind.REVIEWS.value, settings.max_reviews + QUEUED_REVIEWS, 0),
            WorkerPool(PoolKind.POLLS.value, MAX_POLLS, 0),
        ]
        self._by_kind = {PoolKind(pool.name): pool for pool in pools}
        self.queues = {
            PoolKind.QUERIES.value: create_queue(threads),
            PoolKind.REVIEWS.value: create_queue(settings.max_reviews, REVIEWS_PER_READER),
            PoolKind.WATCHES.value: create_queue(STARTING_WATCHES),
        }

    def assign_by_route(self, app: Flask, serves_ingest: bool) -> Callable[[RequestHead], PoolAssignment]:
        """Return a function that returns the worker pool and body limit for a request, as its route declares them.

        The pool of queries runs requests without a route, and those of senders unless `serves_ingest` is true.
        """
        others = PoolAssignment(self._by_kind[PoolKind.QUERIES], MAX_IGNORED_BODY)

        def assign(head: RequestHead) -> PoolAssignment:
            match = find_route(app, wsgi.build_environ(Request(head, b"", _NO_ADDRESS, _NO_ADDRESS)))
            if match is None or (match[0].right is Access.SENDER and not serves_ingest):
                return others
            route, arguments = match
            return PoolAssignment(self._by_kind[route.choose_pool(arguments)], route.max_body)

        return assign


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
