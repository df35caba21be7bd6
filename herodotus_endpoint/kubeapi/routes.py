"""Decisions and node histories as kubectl asks for them: get, list, watch, tables; discovery and OpenAPI.

Owns: those routes, their parameters. Does not own: forms (`forms`), the objects (`objects`), watches (`watching`).

Invariant: a list is a page of at most MAX_PAGE items, newest first, and says where it goes on.
"""

from __future__ import annotations

import re
import select
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
from flask import Blueprint, Response, g, request

from herodotus_endpoint import documents, history, parameters, queries
from herodotus_endpoint.errors import ApiError, json_response
from herodotus_endpoint.kubeapi import discovery, forms, objects, watching
from herodotus_endpoint.kubeapi.resources import GROUP, PREFIX
from herodotus_endpoint.kubeapi.selectors import field_conditions, label_conditions
from herodotus_endpoint.metrics import Metrics
from herodotus_endpoint.questions import Questions
from herodotus_endpoint.settings import Settings
from herodotus_endpoint.store.listing import AnyCondition, Condition
from herodotus_endpoint.store.rollups import bucket_of
from herodotus_record.model import API_VERSION

DEFAULT_PAGE: Final = 100
MAX_PAGE: Final = 500  # items of 1 to 2 kB: an answer of a megabyte; as kubectl asks for
MAX_CURSOR: Final = 512  # a node's name of 253 characters in base64
GET: Final = ("resourceVersion", "includeObject", "pretty")  # what clients add to any get; versions are not kept
LIST: Final = ("limit", "continue", "labelSelector", "fieldSelector", "resourceVersionMatch", *GET)
WATCH: Final = ("watch", "timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents")

Json = dict[str, Any]
View = Callable[..., Response]


def blueprint(questions: Questions, settings: Settings, metrics: Metrics, stopping: threading.Event) -> Blueprint:
    """Get, list and watch. `stopping`: set when the process ends, and watches with it."""
    routes = Blueprint("objects", __name__, url_prefix=PREFIX)
    places = watching.Places(settings.max_watches, settings.max_watches_per_user, metrics)
    views = Objects(questions, settings, places, stopping)
    for rule, view in (
        ("/decisions", views.decisions),
        ("/namespaces/<namespace>/decisions", views.decisions),
        ("/namespaces/<namespace>/decisions/<name>", views.decision),
        ("/nodehistories", views.node_histories),
    ):
        routes.add_url_rule(rule, view.__name__, view, methods=["GET"], provide_automatic_options=False)
    return routes


class Objects:
    """The views over one store."""

    def __init__(
        self, questions: Questions, settings: Settings, places: watching.Places, stopping: threading.Event
    ) -> None:
        self._questions = questions
        self._clock = settings.clock
        self._places = places
        self._stopping = stopping

    def decision(self, namespace: str, name: str) -> Response:
        """A decision, by its id or as the latest of the pod of that name (`attempt` as of an explanation)."""
        parameters.known("attempt", "uid", "cluster", *GET)
        form = forms.wanted(forms.TABLE, forms.METADATA)
        stored = queries.named(self._questions, namespace, name, "decisions")
        (row,) = self._questions.listing.decisions([Condition("decision_id", (stored.decision.id,))], None, 1)
        if form == forms.TABLE:
            return json_response(self._table(objects.DECISION_COLUMNS, [objects.decision(row)], {}))
        document = documents.record(stored) | {"metadata": objects.decision_metadata(row)}
        return json_response(forms.partial(document) if form else document)

    def decisions(self, namespace: str = "") -> Response:
        """A page of decisions, or what comes and changes from now on (`watch`)."""
        parameters.known("pod", "cluster", *LIST, *WATCH)
        form = forms.wanted(forms.TABLE, forms.METADATA, forms.METADATA_LIST)
        conditions = self._conditions(parameters.name(namespace, "the namespace"))
        if parameters.boolean("watch") and request.method == "GET":
            return self._watch(conditions, form)
        limit = parameters.limit(DEFAULT_PAGE, MAX_PAGE)
        _, highest = self._questions.listing.bounds()  # before the page: what comes in between is watched, not missed
        rows = self._questions.listing.decisions(conditions, _cursor(request.args.get("continue", "")), limit + 1)
        metadata = {"resourceVersion": str(highest)} | (_more(str(rows[limit - 1].id)) if len(rows) > limit else {})
        items = [objects.decision(row) for row in rows[:limit]]
        return json_response(self._list("DecisionList", objects.DECISION_COLUMNS, items, metadata, form))

    def node_histories(self) -> Response:
        """A page of the nodes that have a history, by name, with their counts over the last day."""
        parameters.known("since", *LIST, *WATCH)
        if parameters.boolean("watch"):
            raise ApiError(405, "nodehistories cannot be watched")
        form = forms.wanted(forms.TABLE, forms.METADATA_LIST)
        if request.args.get("labelSelector") or request.args.get("fieldSelector"):
            raise ApiError(400, "nodehistories cannot be selected by labels or fields")
        over = history.asked(self._clock)
        limit = parameters.limit(DEFAULT_PAGE, MAX_PAGE)
        after = _plain(request.args.get("continue", ""), r"v1n:([^\0]{1,253})")
        found = self._questions.listing.nodes(after, limit + 1, bucket_of(over.from_us))
        more = _more(found[limit - 1].name, "v1n") if len(found) > limit else {}
        items = [objects.node_history(node, over) for node in found[:limit]]
        return json_response(self._list("NodeHistoryList", objects.HISTORY_COLUMNS, items, more, form))

    def _conditions(self, namespace: str) -> list[AnyCondition]:
        named = {"namespace": namespace, "pod": parameters.text("pod"), "cluster": parameters.text("cluster")}
        conditions: list[AnyCondition] = [Condition(column, (value,)) for column, value in named.items() if value]
        conditions += label_conditions(request.args.get("labelSelector", ""))
        return conditions + field_conditions(request.args.get("fieldSelector", ""))

    def _list(self, kind: str, columns: Sequence[forms.Column], items: list[Json], metadata: Json, form: str) -> Json:
        if form == forms.TABLE:
            return self._table(columns, items, metadata)
        if form:
            return forms.partial_list(items, metadata)
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "items": items}

    def _table(self, columns: Sequence[forms.Column], items: list[Json], metadata: Json) -> Json:
        return forms.table(columns, items, metadata, self._clock(), forms.included())

    def _watch(self, conditions: Sequence[AnyCondition], form: str) -> Response:
        if "sendInitialEvents" in request.args:
            raise ApiError(422, "sendInitialEvents is not served: list, then watch", reason="Invalid")
        most = watching.MAX_TIMEOUT_S
        timeout_s = parameters.integer("timeoutSeconds", most=2**31)
        timeout_s = min(watching.DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s or most, most)
        include = forms.included()
        bookmarks = parameters.boolean("allowWatchBookmarks")
        version = parameters.text("resourceVersion")
        listing = self._questions.listing
        before: Iterator[watching.Event] = iter(())
        give_back = self._places.take(g.user)
        try:
            if version in ("", "0"):  # what there is first, as far as a page goes
                newest = listing.decisions([], None, MAX_PAGE)
                start = min((row.id for row in newest), default=1) - 1
                watch = watching.Watch(listing, conditions, start)
            else:
                watch = watching.Watch(listing, conditions, watching.start_of(listing, version))
                before = watch.begin(int(self._clock() * 1e6))
        except BaseException:
            give_back()
            raise
        wait = _waiter(request.environ.get("gunicorn.socket"), self._stopping)

        def lines() -> Iterator[bytes]:
            yield b""  # the headers go now: the client waits for them, whenever the first event comes
            for kind, row in before:
                yield self._event(kind, row, watch.version, form, include)
            for kind, row in watching.events(watch, timeout_s, bookmarks, time.monotonic, wait):
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
            obj = objects.decision(row)
            obj["metadata"] |= metadata
            rows = [obj]
        if form == forms.TABLE:
            obj = forms.table(objects.DECISION_COLUMNS, rows, metadata, self._clock(), include)
        elif form:
            obj = forms.partial(obj)
        return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def discovery_blueprint(openapi: Callable[[], Json]) -> Blueprint:
    """What clients ask before they ask for anything. `openapi`: the document of the group."""
    routes = Blueprint("discovery", __name__)

    def groups() -> Response:
        if forms.wanted(forms.DISCOVERY):
            kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            return json_response(discovery.aggregated(), headers={"Vary": "Accept"}, content_type=kind)
        return json_response(discovery.groups(), headers={"Vary": "Accept"})

    def group() -> Response:
        return json_response(discovery.group())

    def resources() -> Response:
        return json_response(discovery.resources())

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


def _waiter(sock: Any, stopping: threading.Event) -> Callable[[float], bool]:
    """Waits; True when the process stops or the client has gone, which is noticed at once."""
    if sock is None or not hasattr(select, "POLLRDHUP"):
        return stopping.wait
    gone = select.poll()
    gone.register(sock.fileno(), select.POLLRDHUP)
    return lambda seconds: bool(gone.poll(seconds * 1000)) or stopping.is_set()


def _more(place: str, kind: str = "v1") -> Json:
    return {"continue": urlsafe_b64encode(f"{kind}:{place}".encode()).decode().rstrip("=")}


def _cursor(token: str) -> int | None:
    place = _plain(token, r"v1:([0-9]{1,18})")
    return int(place) if place else None


def _plain(token: str, form: str) -> str:
    """What is behind a cursor; "" where there is none; 400 for anything that `_more` did not make."""
    if not token:
        return ""
    try:
        if len(token) > MAX_CURSOR:
            raise ValueError("too long")
        match = re.fullmatch(form, urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    except (Base64Error, ValueError):
        match = None
    if match is None:
        raise ApiError(400, f"continue is not a cursor of this list: {token[:64]!r}")
    return match[1]
