"""The Flask application with all routes over one store.

Owns: the list of blueprints, the routes of probes, metrics and documents about the service, and the headers and metrics
of every response. Does not own: the server (`server`), other routes.

Invariant: every response has `pages.HEADERS`, and all but those of the web pages' files have `Cache-Control: no-store`.
Routes accept GET and HEAD; ingest and reviews also POST.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from flask import Blueprint, Flask, Response, g, request

from herodotus_answers.service import ServiceVersion
from herodotus_endpoint import errors, openapi, pages, reader_limits
from herodotus_endpoint.access import guard
from herodotus_endpoint.api import (
    aggregates,
    cluster_reviews,
    clusters,
    comparisons,
    explanations,
    ingest,
    legacy,
    open_decisions,
    review_queue,
    reviews,
)
from herodotus_endpoint.api.masked_reader import MaskedReader
from herodotus_endpoint.errors import json_response, retry_later
from herodotus_endpoint.fair_queue import FairQueue
from herodotus_endpoint.kubeapi import routes
from herodotus_endpoint.metrics import EndpointMetrics
from herodotus_endpoint.readiness import Readiness, describe_failed
from herodotus_endpoint.resources import PREFIX, SERVICE_VERSION
from herodotus_endpoint.routing import TEXT, Access, PoolKind, Route, build_blueprint, declare, list_routes
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import Store, StoreUnavailableError, integrity, replicas
from herodotus_record import codec
from herodotus_record.model import API_VERSION
from herodotus_record.version import __version__

STALENESS: Final = "Herodotus-Staleness"  # header: by how many seconds an answer from a replica may be behind
_OPEN: Final = Access.DISCLOSES_NOTHING
_LIVEZ: Final = Route("GET", "/livez", "livez", "Liveness probe.", right=_OPEN, document=TEXT, pool=PoolKind.PROBES)
_READYZ: Final = replace(_LIVEZ, path="/readyz", operation_id="readyz", summary="Readiness probe.", errors=(503, 507))
_OPENAPI: Final = Route("GET", "/openapi.json", "openapi", "This document.", right=_OPEN, pool=PoolKind.DISCOVERY)
_INDEX: Final = replace(_OPENAPI, path="/", operation_id="index", summary="The routes.")
_METRICS: Final = Route(
    "GET", "/metrics", "metrics", "Metrics for Prometheus.", right=Access.URL, document=TEXT, errors=(401, 403, 503)
)
_VERSION: Final = Route(
    "GET",
    "/version",
    "version",
    "The version of the service.",
    right=_OPEN,
    document=SERVICE_VERSION.kind,
    pool=PoolKind.DISCOVERY,
)
# The API server forwards only paths of the API group.
_LISTED_VERSION: Final = replace(
    _VERSION, path=f"{PREFIX}/{SERVICE_VERSION.plural}", operation_id="listServiceVersions"
)
_log: Final = logging.getLogger(__name__)


def create_app(
    store: Store,
    settings: ServiceSettings,
    metrics: EndpointMetrics | None = None,
    readiness: Readiness | None = None,
    queues: Mapping[str, FairQueue] | None = None,
) -> Flask:
    """Return the Flask application that serves all routes over one store.

    `queues` maps the name of a worker pool to the queue in which its requests wait for their reader's turn. Metrics and
    readiness are created if they are None.
    """
    metrics, readiness = metrics or EndpointMetrics(), readiness or Readiness.from_store(store)
    names = settings.senders.names if settings.senders else {}
    known_clusters = guard.KnownClusters(settings.cluster, store.reader.list_cluster_ids, names)
    reader = MaskedReader(store, guard.visible_namespaces, guard.request_cluster, settings.archive)
    app = Flask("herodotus_endpoint", static_folder=None)
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.url_map.strict_slashes = True
    errors.install_error_handlers(app)
    _install_response_hooks(app, metrics)
    app.register_blueprint(ingest.blueprint(store, settings, metrics))
    app.register_blueprint(routes.blueprint(reader, settings, metrics))
    app.register_blueprint(explanations.blueprint(reader, settings))
    app.register_blueprint(comparisons.blueprint(reader))
    app.register_blueprint(aggregates.blueprint(reader, settings))
    app.register_blueprint(reviews.blueprint(store, reader, settings))
    app.register_blueprint(cluster_reviews.blueprint(store, settings))
    app.register_blueprint(review_queue.blueprint(store, settings))
    app.register_blueprint(open_decisions.blueprint(store, settings))
    app.register_blueprint(legacy.blueprint(reader))
    app.register_blueprint(clusters.blueprint(store, known_clusters))
    app.register_blueprint(routes.discovery_blueprint())
    app.register_blueprint(pages.blueprint())
    app.register_blueprint(_service_blueprint(store, settings, metrics, readiness))
    guard.install_guard(app, settings.access, known_clusters)
    reader_limits.install_reader_limits(app, queues or {})
    app.wsgi_app = legacy.ignore_path_case(app.wsgi_app)  # type: ignore[assignment, method-assign]
    return app


def _service_blueprint(
    store: Store, settings: ServiceSettings, metrics: EndpointMetrics, readiness: Readiness
) -> Blueprint:
    """Return the blueprint of the routes for probes, metrics, version, the OpenAPI document and all paths."""

    @declare(_LIVEZ)
    def livez() -> Response:
        return Response("ok", content_type="text/plain; charset=utf-8")

    @declare(_READYZ)
    def readyz() -> Response:
        failed = readiness.failed()
        if failed:
            raise retry_later(503, describe_failed(failed))
        return Response("ok", content_type="text/plain; charset=utf-8")

    @declare(_METRICS)
    def exposition() -> Response:
        try:
            metrics.set_sizes(store.reader.measure_sizes(), store.file_bytes())
            metrics.database_up.set(1)
        except StoreUnavailableError as e:  # the other metrics matter most during an outage
            _log.warning("cannot read the database's metrics: %s", e)
            metrics.database_up.set(0)
        if store.replicas:
            metrics.set_staleness(store.replicas.staleness_s())
        metrics.clock_offset.set(store.clock.offset_s())
        metrics.database_limit.set(settings.limits.max_bytes)
        return Response(metrics.exposition(), content_type="text/plain; version=0.0.4; charset=utf-8")

    @declare(_VERSION, _LISTED_VERSION)
    def version() -> Response:
        document: ServiceVersion = {
            "kind": "ServiceVersion",
            "apiVersion": API_VERSION,
            "version": __version__,
            "frameVersion": codec.VERSION,
        }
        if settings.pages_url:
            document["pages"] = settings.pages_url
        return json_response(document)

    @declare(_OPENAPI)
    def openapi_document() -> Response:
        return json_response(openapi.build_document(list_routes()))

    @declare(_INDEX)
    def index() -> Response:
        paths = sorted(route.path for route in list_routes())
        return json_response({"service": "herodotus", "version": __version__, "paths": paths})

    return build_blueprint("service", (livez, readyz, exposition, version, openapi_document, index))


def _install_response_hooks(app: Flask, metrics: EndpointMetrics) -> None:
    """Make the app add cache, security and damage headers to every response and measure its latency."""

    @app.before_request
    def begin() -> None:
        g.began = time.perf_counter()
        g.damage = integrity.collect_damage()
        g.reads = replicas.track_reads()

    @app.after_request
    def end(response: Response) -> Response:
        response.headers.setdefault("Cache-Control", "no-store")
        response.headers.update(pages.HEADERS)
        if g.get("archived"):
            response.headers["Warning"] = '299 - "from the archive of older decisions"'
        if g.get("damage"):  # kubectl prints this header
            response.headers["Warning"] = f'299 - "{len(g.damage)} stored records are damaged and left out"'
        if "reads" in g and g.reads.staleness_s is not None:
            response.headers[STALENESS] = f"{g.reads.staleness_s:.1f}"
        if "reads" in g:
            metrics.count_reads(g.reads)
        route = request.url_rule.rule if request.url_rule else "(none)"
        metrics.request_seconds.labels(route, str(response.status_code)).observe(time.perf_counter() - g.began)
        return response
