"""Routes for kubectl: get, list, watch and tables of decisions and node histories; discovery and OpenAPI.

Owns: these routes and their parameters. Does not own: representations, objects, watches (the modules of these names).

Invariant: a list is a page of at most MAX_PAGE items, newest first, with a cursor to the next page.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from flask import Blueprint, Response, g, request

from herodotus_answers.node import NodeResources, build_listed_node_history, list_node_resources
from herodotus_endpoint import openapi
from herodotus_endpoint.api import documents, explanations
from herodotus_endpoint.api.masked_reader import MaskedReader
from herodotus_endpoint.api.selectors import FIELD_SELECTOR, LABEL_SELECTOR, parse_field_selector, parse_label_selector
from herodotus_endpoint.errors import StatusError, json_response, retry_later
from herodotus_endpoint.kubeapi import discovery, objects, representations, watches
from herodotus_endpoint.metrics import EndpointMetrics
from herodotus_endpoint.parameters import (
    ATTEMPT,
    CLUSTER,
    GET_PARAMETERS,
    INCLUDE_OBJECT,
    RESOURCE_VERSION,
    SINCE,
    UID,
    UNTIL,
    FlagParameter,
    IntegerParameter,
    NameParameter,
    PageSizeParameter,
    TextParameter,
    check_name,
)
from herodotus_endpoint.resources import DECISION, GROUP, HISTORY, PREFIX
from herodotus_endpoint.routing import (
    READ_ERRORS,
    Access,
    PoolKind,
    RequiredRight,
    Route,
    build_blueprint,
    declare,
    list_routes,
    list_views,
)
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store.listing import AnyCondition, ColumnCondition, StartCondition
from herodotus_endpoint.store.read_budget import UNLIMITED, ReadBudget, set_budget
from herodotus_endpoint.store.rollups import bucket_of
from herodotus_record.model import API_VERSION
from herodotus_serving.wsgi import CANCELLED, CLIENT_LEFT, POOL

DEFAULT_PAGE: Final = 100
MAX_PAGE: Final = 500  # items of 1 to 2 kB: an answer of a megabyte; as kubectl asks for
ENCODED_AT_ONCE: Final = 100  # events of a watch, 100 to 200 kB; each takes 0.1 ms
MAX_CURSOR: Final = 512  # a node's name of 253 characters in base64

_POD: Final = NameParameter("pod", "Only this pod's decisions.")
_LIMIT: Final = PageSizeParameter("limit", "Maximum number of items.", default=DEFAULT_PAGE, largest=MAX_PAGE)
_CONTINUE: Final = TextParameter("continue", "Cursor from the previous page.", max_length=MAX_CURSOR)
_VERSION_MATCH: Final = TextParameter("resourceVersionMatch", "Accepted without effect.")
_WATCH: Final = FlagParameter(
    "watch", "Stream new and changed decisions until the client disconnects or the timeout passes."
)
_TIMEOUT_SECONDS: Final = IntegerParameter(
    "timeoutSeconds", "Duration of a watch.", default=watches.DEFAULT_TIMEOUT_S, maximum=2**31
)
_BOOKMARKS: Final = FlagParameter("allowWatchBookmarks", "Whether a watch sends bookmarks.")
_INITIAL_EVENTS: Final = FlagParameter("sendInitialEvents", "Not supported: list, then watch.")
_ARCHIVE: Final = FlagParameter(
    "archive", "Only decisions of the archive, if the service has one: of days that are over, newest first."
)
_RESOURCES: Final = FlagParameter("resources", "Add what pods request on each node, as the newest decision saw it.")
_LIST_PARAMETERS: Final = (_LIMIT, _CONTINUE, LABEL_SELECTOR, FIELD_SELECTOR, _VERSION_MATCH, *GET_PARAMETERS)
_WATCH_PARAMETERS: Final = (_WATCH, _TIMEOUT_SECONDS, _BOOKMARKS, _INITIAL_EVENTS)
_DECISIONS: Final = Route(
    "GET",
    f"{PREFIX}/namespaces/<namespace>/decisions",
    "listDecisions",
    "Decisions of a namespace.",
    right=RequiredRight("list", DECISION, instead=(_WATCH, RequiredRight("watch", DECISION))),
    document="DecisionList",
    parameters=(_POD, SINCE, UNTIL, CLUSTER, _ARCHIVE, *_LIST_PARAMETERS, *_WATCH_PARAMETERS),
    errors=(*READ_ERRORS, 410, 422, 429),
)

Json = dict[str, Any]


def blueprint(reader: MaskedReader, settings: ServiceSettings, metrics: EndpointMetrics) -> Blueprint:
    """Return the Flask blueprint of get, list and watch of decisions, and list of node histories."""
    places = watches.WatchLimiter(settings.max_watches, settings.max_watches_per_user, metrics)
    return build_blueprint("objects", list_views(ObjectViews(reader, settings, places)))


class ObjectViews:
    """Flask views of decisions and node histories as Kubernetes objects, lists, tables and watches."""

    def __init__(self, reader: MaskedReader, settings: ServiceSettings, places: watches.WatchLimiter) -> None:
        self._reader = reader
        self._clock = settings.clock
        self._places = places
        self._encoding = threading.Lock()

    @declare(
        Route(
            "GET",
            f"{PREFIX}/namespaces/<namespace>/decisions/<name>",
            "getDecision",
            "A decision by its id, or a pod's latest.",
            right=RequiredRight("get", DECISION, "name"),
            parameters=(ATTEMPT, UID, CLUSTER, *GET_PARAMETERS),
            errors=(*READ_ERRORS, 404),
        )
    )
    def decision(self, namespace: str, name: str) -> Response:
        """Return the decision with the ID `name`, or else the latest decision of the pod called `name`.

        The query parameters `attempt` and `uid` select another attempt of the pod.
        """
        form = representations.negotiate(representations.TABLE, representations.METADATA)
        stored = explanations.find_decision(self._reader, namespace, name, "decisions")
        row = self._reader.find_row(stored)
        if form == representations.TABLE:
            return json_response(self._table(objects.DECISION_COLUMNS, [objects.build_decision(row)], {}))
        document = documents.build_record(stored) | {"metadata": objects.build_decision_metadata(row)}
        return json_response(representations.build_metadata_only(document) if form else document)

    @declare(_DECISIONS, _DECISIONS.for_all_namespaces("listAllDecisions", "Decisions of all namespaces."))
    def decisions(self, namespace: str = "") -> Response:
        """Return a page of decisions; with the query parameter `watch`, stream new and changed decisions instead.

        If `namespace` is "", all namespaces count.
        """
        form = representations.negotiate(representations.TABLE, representations.METADATA, representations.METADATA_LIST)
        conditions = self._conditions(check_name(namespace, "the namespace"))
        if _WATCH.parse() and request.method == "GET":
            return self._watch(conditions, form)
        limit = _LIMIT.parse()
        if _ARCHIVE.parse():
            return self._list_archived(conditions, limit, form)
        listing = self._reader.listing()
        _, highest = listing.id_range()  # before the page: what comes in between is watched, not missed
        rows = listing.decisions(conditions, _parse_cursor(_CONTINUE.raw()), limit + 1)
        metadata = {"resourceVersion": str(highest)} | (
            _format_continue(str(rows[limit - 1].id)) if len(rows) > limit else {}
        )
        items = [objects.build_decision(row) for row in rows[:limit]]
        return json_response(self._list("DecisionList", objects.DECISION_COLUMNS, items, metadata, form))

    @declare(
        Route(
            "GET",
            f"{PREFIX}/nodehistories",
            "listNodeHistories",
            "Nodes and their counts.",
            right=RequiredRight("list", HISTORY),
            document="NodeHistoryList",
            parameters=(SINCE, UNTIL, CLUSTER, _RESOURCES, *_LIST_PARAMETERS, *_WATCH_PARAMETERS),
            errors=(*READ_ERRORS, 405),
        )
    )
    def node_histories(self) -> Response:
        """Return a page of the nodes that have a history, sorted by name, with their counts.

        The counts begin with the hour of the query parameter `since`, by default a day ago, and end with that of
        `until`. With `resources`, each node has the resource amounts in the node table of the newest decision.
        """
        if _WATCH.parse():
            raise StatusError(405, "nodehistories cannot be watched")
        form = representations.negotiate(representations.TABLE, representations.METADATA_LIST)
        if LABEL_SELECTOR.is_set() or FIELD_SELECTOR.is_set():
            raise StatusError(400, "nodehistories cannot be selected by labels or fields")
        over = explanations.parse_window(self._clock)
        limit = _LIMIT.parse()
        after = _parse_continue(_CONTINUE.raw(), r"v1n:([^\0]{1,253})")
        nodes = self._reader.listing().nodes(after, limit + 1, bucket_of(over.from_us), bucket_of(over.to_us))
        more = _format_continue(nodes[limit - 1].name, "v1n") if len(nodes) > limit else {}
        items = [build_listed_node_history(node.name, over, node.counts) for node in nodes[:limit]]
        if _RESOURCES.parse():
            resources = self._read_resources()
            for item in items:
                item["resources"] = resources.get(item["metadata"]["name"])
        return json_response(self._list("NodeHistoryList", objects.HISTORY_COLUMNS, items, more, form))

    def _read_resources(self) -> dict[str, NodeResources]:
        """Return the resource amounts of the nodes in the newest decision, by node name; {} without a decision."""
        newest = self._reader.newest_decision()
        return list_node_resources(newest.table, newest.decision.times.started_us) if newest else {}

    def _list_archived(self, conditions: Sequence[AnyCondition], limit: int, form: str) -> Response:
        """Return a page of archived decisions. Raises StatusError 400 if the service has no archive."""
        place = _parse_continue(_CONTINUE.raw(), r"v1a:([0-9]{4}-[0-9]{2}-[0-9]{2}/[0-9]{1,18})")
        day, _, row = place.partition("/")
        page = self._reader.list_archived(conditions, (day, int(row)) if place else None, limit)
        if page is None:
            raise StatusError(400, "the service has no archive (--archive)")
        more = _format_continue(f"{page.next.day}/{page.next.row}", "v1a") if page.next else {}
        items = [objects.build_decision(row) for row in page.rows]
        return json_response(self._list("DecisionList", objects.DECISION_COLUMNS, items, more, form))

    def _conditions(self, namespace: str) -> list[AnyCondition]:
        named = {"namespace": namespace, "pod": _POD.parse()}
        conditions: list[AnyCondition] = [ColumnCondition(column, (value,)) for column, value in named.items() if value]
        if SINCE.is_set() or UNTIL.is_set():
            conditions.append(StartCondition(SINCE.parse(self._clock), UNTIL.parse(self._clock)))
        conditions += parse_label_selector(LABEL_SELECTOR.parse())
        return conditions + parse_field_selector(FIELD_SELECTOR.parse())

    def _list(
        self,
        kind: str,
        columns: Sequence[representations.TableColumn],
        items: Sequence[representations.Object],
        metadata: Json,
        form: str,
    ) -> Json:
        if form == representations.TABLE:
            return self._table(columns, items, metadata)
        if form:
            return representations.build_metadata_list(items, metadata)
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "items": items}

    def _table(
        self, columns: Sequence[representations.TableColumn], items: Sequence[representations.Object], metadata: Json
    ) -> Json:
        return representations.build_table(columns, items, metadata, self._clock(), INCLUDE_OBJECT.parse())

    def _watch(self, conditions: Sequence[AnyCondition], form: str) -> Response:
        if _INITIAL_EVENTS.name in request.args:
            raise StatusError(422, "sendInitialEvents is not served: list, then watch", reason="Invalid")
        if (
            request.environ.get(POOL, PoolKind.WATCHES) != PoolKind.WATCHES
        ):  # a watch of an hour must not occupy other threads
            raise retry_later(503, "this request was not recognized as a watch in time; send it as watch=true")
        most = watches.MAX_TIMEOUT_S
        timeout_s = min(_TIMEOUT_SECONDS.parse() or most, most)
        include = INCLUDE_OBJECT.parse()
        bookmarks = _BOOKMARKS.parse()
        version = RESOURCE_VERSION.raw()
        listing = self._reader.watched_listing()
        conditions = [*listing.within, *conditions]
        give_back = self._places.take(g.user, request.remote_addr or "")
        try:
            if version in ("", "0"):  # what there is first, as far as a page goes
                watch = watches.Watch(listing, conditions, 0)
                first = watch.add(reversed(listing.decisions([], None, MAX_PAGE)))
            else:
                watch = watches.Watch(listing, conditions, watches.parse_start_version(listing, version))
                first = watch.begin()
            before = watches.add_version(watch, first)
        except BaseException:
            give_back()
            raise
        cancelled = request.environ.get(CANCELLED) or threading.Event()

        budget = ReadBudget(UNLIMITED, request.environ.get(CLIENT_LEFT))  # a poll is bounded, and polls have no end

        def lines() -> Iterator[bytes]:
            set_budget(budget)
            yield b""  # the headers go now: the client waits for them, whenever the first event comes
            polls = watches.iterate_polls(watch, timeout_s, bookmarks, time.monotonic, cancelled.wait)
            for events in itertools.chain([before], polls):
                for start in range(0, len(events), ENCODED_AT_ONCE):
                    yield self._encode_events(events[start : start + ENCODED_AT_ONCE], form, include)

        response = Response(lines(), content_type="application/json")
        response.call_on_close(give_back)
        return response

    def _encode_events(self, events: Sequence[watches.Event], form: str, include: str) -> bytes:
        """Return events as encoded lines. A lock makes watches encode one after the other.

        Otherwise each encoding thread would delay all other threads by 5 ms at each switch between threads: a list took
        a second beside 32 watches.
        """
        with self._encoding:
            return b"".join(self._encode_event(*event, form, include) for event in events)

    def _encode_event(self, kind: str, row: Any, version: int, form: str, include: str) -> bytes:
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


def discovery_blueprint() -> Blueprint:
    """Return the Flask blueprint of the discovery routes and of the API group's OpenAPI document."""

    @declare(
        _discovery("/apis", "groups", "The API groups.", errors=(406,)),
    )
    def groups() -> Response:
        if representations.negotiate(representations.DISCOVERY):
            kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            return json_response(
                discovery.build_aggregated_discovery(list_routes()), headers={"Vary": "Accept"}, content_type=kind
            )
        return json_response(discovery.build_group_list(), headers={"Vary": "Accept"})

    @declare(_discovery(f"/apis/{GROUP}", "group", "The API group."))
    def group() -> Response:
        return json_response(discovery.build_group())

    @declare(_discovery(PREFIX, "resources", "The resources of the API group."))
    def resources() -> Response:
        return json_response(discovery.build_resource_list(list_routes()))

    @declare(_discovery("/openapi/v3", "openapiIndex", "Paths of the OpenAPI documents of API groups."))
    def openapi_index() -> Response:
        path = PREFIX.lstrip("/")
        return json_response({"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"}}})

    @declare(_discovery(f"/openapi/v3{PREFIX}", "openapiGroup", "The document of the API group."))
    def openapi_group() -> Response:
        return json_response(openapi.build_group_document(list_routes()))

    return build_blueprint("discovery", (groups, group, resources, openapi_index, openapi_group))


def _discovery(path: str, operation_id: str, summary: str, errors: tuple[int, ...] = ()) -> Route:
    """Return the declaration of a route of discovery: it needs no right, and has capacity of its own."""
    right, pool = Access.DISCLOSES_NOTHING, PoolKind.DISCOVERY
    return Route("GET", path, operation_id, summary, right=right, errors=errors, pool=pool)


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
        if len(token) > _CONTINUE.max_length:
            raise ValueError("too long")
        match = re.fullmatch(form, urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    except (Base64Error, ValueError):
        match = None
    if match is None:
        raise StatusError(400, f"continue is not a cursor of this list: {token[:64]!r}")
    return match[1]
