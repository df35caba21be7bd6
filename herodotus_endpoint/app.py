"""The Flask application: every route put together over one store.

Owns: which routes there are, what holds for all of them. Does not own: the server (`server`), what a route does.

Invariant: every answer carries `pages.HEADERS`, and every one but a page's files `Cache-Control: no-store`; only GET
and HEAD, and POST on ingest and of reviews.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from flask import Flask, Response, g, request

from herodotus_endpoint import (
    desk,
    errors,
    ingest,
    insights,
    legacy,
    openapi,
    pages,
    queries,
    reviews,
    surveys,
)
from herodotus_endpoint.access import guard
from herodotus_endpoint.errors import json_response
from herodotus_endpoint.kubeapi import routes
from herodotus_endpoint.kubeapi.resources import PREFIX
from herodotus_endpoint.metrics import Metrics
from herodotus_endpoint.questions import Questions
from herodotus_endpoint.settings import Settings
from herodotus_endpoint.store import Store
from herodotus_record import codec
from herodotus_record.model import API_VERSION
from herodotus_record.version import __version__

_log: Final = logging.getLogger(__name__)


def create_app(
    store: Store, settings: Settings, metrics: Metrics | None = None, stopping: threading.Event | None = None
) -> Flask:
    """The WSGI application. `stopping`: what ends its watches."""
    metrics, stopping = metrics or Metrics(), stopping or threading.Event()
    questions = Questions(store, guard.look)
    app = Flask("herodotus_endpoint", static_folder=None)
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.url_map.strict_slashes = True
    errors.install(app)
    _measure(app, metrics)
    app.register_blueprint(ingest.blueprint(store, settings, metrics))
    app.register_blueprint(routes.blueprint(questions, settings, metrics, stopping))
    app.register_blueprint(queries.blueprint(questions, settings))
    app.register_blueprint(insights.blueprint(questions))
    app.register_blueprint(surveys.blueprint(questions, settings))
    app.register_blueprint(reviews.blueprint(store, questions, settings))
    app.register_blueprint(desk.blueprint(store, settings, stopping))
    app.register_blueprint(legacy.blueprint(questions))
    app.register_blueprint(routes.discovery_blueprint(openapi.group))
    app.register_blueprint(pages.blueprint())
    _service_routes(app, store, settings, metrics)
    guard.install(app, settings.access)
    app.wsgi_app = legacy.in_any_case(app.wsgi_app)  # type: ignore[assignment, method-assign]
    return app


def _service_routes(app: Flask, store: Store, settings: Settings, metrics: Metrics) -> None:
    """Probes, metrics, version, index."""

    @app.get("/livez")
    def livez() -> Response:
        return Response("ok", content_type="text/plain; charset=utf-8")

    @app.get("/readyz")
    def readyz() -> Response:
        store.reader.check()
        store.writer.check()
        return Response("ok", content_type="text/plain; charset=utf-8")

    @app.get("/metrics", endpoint="metrics")
    def exposition() -> Response:
        metrics.observe(store.reader.sizes(), store.file_bytes())
        metrics.database_limit.set(settings.limits.max_bytes)
        return Response(metrics.exposition(), content_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/version")
    @app.get(f"{PREFIX}/serviceversions")  # what is not in the group, the API server does not pass on
    def version() -> Response:
        document = {"kind": "ServiceVersion", "apiVersion": API_VERSION, "version": __version__}
        return json_response(document | {"frameVersion": codec.VERSION})

    @app.get("/openapi.json", endpoint="openapi")
    def whole() -> Response:
        return json_response(openapi.document())

    @app.get("/")
    def index() -> Response:
        rules = sorted(rule.rule for rule in app.url_map.iter_rules())
        return json_response({"service": "herodotus", "version": __version__, "paths": rules})


def _measure(app: Flask, metrics: Metrics) -> None:
    """Headers and latency of every answer."""

    @app.before_request
    def begin() -> None:
        g.began = time.perf_counter()

    @app.after_request
    def end(response: Response) -> Response:
        response.headers.setdefault("Cache-Control", "no-store")
        response.headers.update(pages.HEADERS)
        route = request.url_rule.rule if request.url_rule else "(none)"
        metrics.request_seconds.labels(route, str(response.status_code)).observe(time.perf_counter() - g.began)
        return response
