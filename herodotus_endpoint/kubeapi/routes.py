"""Routes for kubectl: get, list, watch and tables of decisions and node histories; discovery and OpenAPI.

Owns: these routes and their parameters. Does not own: representations, objects, watches (the modules of these names).

Invariant: a list is a page of at most MAX_PAGE items, newest first, with a cursor to the next page.
"""

from __future__ import annotations

import re
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
from flask import Blueprint, Response, request

from herodotus_endpoint import parameters
from herodotus_endpoint.api import documents, explanations, node_history
from herodotus_endpoint.api.masked_reader import MaskedReader
from herodotus_endpoint.api.resources import GROUP, PREFIX
from herodotus_endpoint.api.selectors import parse_field_selector, parse_label_selector
from herodotus_endpoint.errors import StatusError, json_response
from herodotus_endpoint.kubeapi import discovery, objects, representations, watches
from herodotus_endpoint.metrics import EndpointMetrics
from herodotus_endpoint.reader_limits import reader_name
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store.listing import AnyCondition, ColumnCondition
from herodotus_endpoint.store.rollups import bucket_of
from herodotus_record.model import API_VERSION
from herodotus_serving.wsgi import CANCELLED

DEFAULT_PAGE: Final = 100
MAX_PAGE: Final = 500  # items of 1 to 2 kB: an answer of a megabyte; as kubectl asks for
MAX_CURSOR: Final = 512  # a node's name of 253 characters in base64
GET: Final = ("resourceVersion", "includeObject", "pretty")  # what clients add to any get; versions are not kept
LIST: Final = ("limit", "continue", "labelSelector", "fieldSelector", "resourceVersionMatch", *GET)
WATCH: Final = ("watch", "timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents")

Json = dict[str, Any]
View = Callable[..., Response]


def blueprint(reader: MaskedReader, settings: ServiceSettings, metrics: EndpointMetrics) -> Blueprint:
    """Return the Flask blueprint of get, list and watch of decisions, and list of node histories."""
    routes = Blueprint("objects", __name__, url_prefix=PREFIX)
    places = watches.WatchLimiter(settings.max_watches, settings.max_watches_per_user, metrics)
    views = ObjectViews(reader, settings, places)
    for rule, view in (
        ("/decisions", views.decisions),
        ("/namespaces/<namespace>/decisions", views.decisions),
        ("/namespaces/<namespace>/decisions/<name>", views.decision),
        ("/nodehistories", views.node_histories),
    ):
        routes.add_url_rule(rule, view.__name__, view, methods=["GET"], provide_automatic_options=False)
    return routes


class ObjectViews:
    """Flask views of decisions and node histories as Kubernetes objects, lists, tables and watches."""

    def __init__(self, reader: MaskedReader, settings: ServiceSettings, places: watches.WatchLimiter) -> None:
        self._reader = reader
        self._clock = settings.clock
        self._places = places

    def decision(self, namespace: str, name: str) -> Response:
        """Return the decision with the ID `name`, or else the latest decision of the pod called `name`.

        The query parameters `attempt` and `uid` select another attempt of the pod.
        """
        parameters.reject_unknown("attempt", "uid", "cluster", *GET)
        form = representations.negotiate(representations.TABLE, representations.METADATA)
        stored = explanations.find_decision(self._reader, namespace, name, "decisions")
        (row,) = self._reader.listing().decisions([ColumnCondition("decision_id", (stored.decision.id,))], None, 1)
        if form == representations.TABLE:
            return json_response(self._table(objects.DECISION_COLUMNS, [objects.build_decision(row)], {}))
        document = documents.build_record(stored) | {"metadata": objects.build_decision_metadata(row)}
        return json_response(representations.build_metadata_only(document) if form else document)

    def decisions(self, namespace: str = "") -> Response:
        """Return a page of decisions; with the query parameter `watch`, stream new and changed decisions instead.

        If `namespace` is "", all namespaces count.
        """
        parameters.reject_unknown("pod", "cluster", *LIST, *WATCH)
        form = representations.negotiate(representations.TABLE, representations.METADATA, representations.METADATA_LIST)
        conditions = self._conditions(parameters.check_name(namespace, "the namespace"))
        if parameters.parse_boolean("watch") and request.method == "GET":
            return self._watch(conditions, form)
        limit = parameters.parse_limit(DEFAULT_PAGE, MAX_PAGE)
        listing = self._reader.listing()
        _, highest = listing.id_range()  # before the page: what comes in between is watched, not missed
        rows = listing.decisions(conditions, _parse_cursor(request.args.get("continue", "")), limit + 1)
        metadata = {"resourceVersion": str(highest)} | (
            _format_continue(str(rows[limit - 1].id)) if len(rows) > limit else {}
        )
        items = [objects.build_decision(row) for row in rows[:limit]]
        return json_response(self._list("DecisionList", objects.DECISION_COLUMNS, items, metadata, form))

    def node_histories(self) -> Response:
        """Return a page of the nodes that have a history, sorted by name, with their counts.

        The counts begin at the time in the query parameter `since`, by default a day ago.
        """
        parameters.reject_unknown("since", "cluster", *LIST, *WATCH)
        if parameters.parse_boolean("watch"):
            raise StatusError(405, "nodehistories cannot be watched")
        form = representations.negotiate(representations.TABLE, representations.METADATA_LIST)
        if request.args.get("labelSelector") or request.args.get("fieldSelector"):
            raise StatusError(400, "nodehistories cannot be selected by labels or fields")
        over = node_history.parse_window(self._clock)
        limit = parameters.parse_limit(DEFAULT_PAGE, MAX_PAGE)
        after = _parse_continue(request.args.get("continue", ""), r"v1n:([^\0]{1,253})")
        found = self._reader.listing().nodes(after, limit + 1, bucket_of(over.from_us))
        more = _format_continue(found[limit - 1].name, "v1n") if len(found) > limit else {}
        items = [objects.build_node_history_item(node, over) for node in found[:limit]]
        return json_response(self._list("NodeHistoryList", objects.HISTORY_COLUMNS, items, more, form))

    def _conditions(self, namespace: str) -> list[AnyCondition]:
        named = {"namespace": namespace, "pod": parameters.parse_name("pod")}
        conditions: list[AnyCondition] = [ColumnCondition(column, (value,)) for column, value in named.items() if value]
        conditions += parse_label_selector(request.args.get("labelSelector", ""))
        return conditions + parse_field_selector(request.args.get("fieldSelector", ""))

    def _list(
        self, kind: str, columns: Sequence[representations.TableColumn], items: list[Json], metadata: Json, form: str
    ) -> Json:
        if form == representations.TABLE:
            return self._table(columns, items, metadata)
        if form:
            return representations.build_metadata_list(items, metadata)
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "items": items}

    def _table(self, columns: Sequence[representations.TableColumn], items: list[Json], metadata: Json) -> Json:
        return representations.build_table(
            columns, items, metadata, self._clock(), representations.parse_include_object()
        )

    def _watch(self, conditions: Sequence[AnyCondition], form: str) -> Response:
        if "sendInitialEvents" in request.args:
            raise StatusError(422, "sendInitialEvents is not served: list, then watch", reason="Invalid")
        most = watches.MAX_TIMEOUT_S
        timeout_s = parameters.parse_integer("timeoutSeconds", maximum=2**31)
        timeout_s = min(watches.DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s or most, most)
        include = representations.parse_include_object()
        bookmarks = parameters.parse_boolean("allowWatchBookmarks")
        version = parameters.parse_name("resourceVersion")
        listing = self._reader.listing()
        conditions = [*listing.within, *conditions]
        before: Iterator[watches.Event] = iter(())
        give_back = self._places.take(reader_name())
        try:
            if version in ("", "0"):  # what there is first, as far as a page goes
                newest = listing.decisions([], None, MAX_PAGE)
                start = min((row.id for row in newest), default=1) - 1
                watch = watches.Watch(listing, conditions, start)
            else:
                watch = watches.Watch(listing, conditions, watches.parse_start_version(listing, version))
                before = watch.begin()
        except BaseException:
            give_back()
            raise
        cancelled = request.environ.get(CANCELLED) or threading.Event()

        def lines() -> Iterator[bytes]:
            yield b""  # the headers go now: the client waits for them, whenever the first event comes
            for kind, row in before:
                yield self._event(kind, row, watch.version, form, include)
            for kind, row in watches.iterate_events(watch, timeout_s, bookmarks, time.monotonic, cancelled.wait):
                yield self._event(kind, row, watch.version, form, include)

        response = Response(lines(), content_type="application/json")
        response.call_on_close(give_back)
        return response

    def _event(self, kind: str, row: Any, version: int, form: str, include: str) -> bytes:
        metadata = {"resourceVersion": str(version)}
        if row is None:
            obj: Json = {"apiVersion": API_VERSION, "kind": "Decision", "metadata": metadata}
            rows = []
        else:
            obj = objects.build_decision(row)
            obj["metadata"] |= metadata
            rows = [obj]
        if form == representations.TABLE:
            obj = representations.build_table(objects.DECISION_COLUMNS, rows, metadata, self._clock(), include)
        elif form:
            obj = representations.build_metadata_only(obj)
        return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def discovery_blueprint(openapi: Callable[[], Json]) -> Blueprint:
    """Return the Flask blueprint of the discovery routes and of the API group's OpenAPI document.

    `openapi` builds that document.
    """
    routes = Blueprint("discovery", __name__)

    def groups() -> Response:
        if representations.negotiate(representations.DISCOVERY):
            kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            return json_response(discovery.build_aggregated_discovery(), headers={"Vary": "Accept"}, content_type=kind)
        return json_response(discovery.build_group_list(), headers={"Vary": "Accept"})

    def group() -> Response:
        return json_response(discovery.build_group())

    def resources() -> Response:
        return json_response(discovery.build_resource_list())

    def openapi_index() -> Response:
        path = PREFIX.lstrip("/")
        return json_response({"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"}}})

    def openapi_group() -> Response:
        return json_response(openapi())

    for rule, view in (
        ("/apis", groups),
        (f"/apis/{GROUP}", group),
        (PREFIX, resources),
        ("/openapi/v3", openapi_index),
        (f"/openapi/v3{PREFIX}", openapi_group),
    ):
        routes.add_url_rule(rule, view.__name__, view, methods=["GET"], provide_automatic_options=False)
    return routes


def _format_continue(place: str, kind: str = "v1") -> Json:
    return {"continue": urlsafe_b64encode(f"{kind}:{place}".encode()).decode().rstrip("=")}


def _parse_cursor(token: str) -> int | None:
    place = _parse_continue(token, r"v1:([0-9]{1,18})")
    return int(place) if place else None


def _parse_continue(token: str, form: str) -> str:
    """Return the position in a list that a `continue` token contains, or "" if the token is "".

    `form` is the regular expression of a decoded token; its group is the position. Raises StatusError 400 if the token
    does not match.
    """
    if not token:
        return ""
    try:
        if len(token) > MAX_CURSOR:
            raise ValueError("too long")
        match = re.fullmatch(form, urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    except (Base64Error, ValueError):
        match = None
    if match is None:
        raise StatusError(400, f"continue is not a cursor of this list: {token[:64]!r}")
    return match[1]
