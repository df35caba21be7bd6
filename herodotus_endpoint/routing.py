"""The declaration of a route, from which the service derives everything else that it says or checks about the route.

A view declares its routes with the decorator `declare`; `build_blueprint` registers them with Flask. From a `Route`
follow the right that the guard checks, the verbs in discovery, the OpenAPI operation, the check for unknown query
parameters, the worker pool that runs the request, and the longest body that is read.

Owns: `Route`, the rights and the pools that it may name, and which route a request is for. Does not own: query
parameters (`parameters`), resources (`resources`), the check of a right (`access.guard`), the size of a pool (`pools`),
the documents (`openapi`, `kubeapi.discovery`).

Invariant: the service does not start with a route whose declaration is missing or incomplete.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from flask import Blueprint, Flask, Response, current_app
from werkzeug.exceptions import HTTPException

from herodotus_endpoint import parameters
from herodotus_endpoint.parameters import Arguments, Parameter
from herodotus_endpoint.resources import PREFIX, RESOURCES, ServedResource

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

Json = dict[str, Any]
View = Callable[..., Response]
AnyView = TypeVar("AnyView", bound=View)

JSON: Final = "application/json"
TEXT: Final = "text/plain"
READ_ERRORS: Final = (400, 401, 403, 406, 503, 504)
_CHECK_ERRORS: Final = frozenset((400, 401, 403, 503))
MAX_IGNORED_BODY: Final = 4 << 10  # of a request to a route that reads no body
_NAMESPACE: Final = "/namespaces/<namespace>"
_VERBS: Final = ("get", "list", "watch", "create")
_ATTRIBUTE: Final = "declared_routes"  # of a view: its routes
_EXTENSION: Final = "herodotus_routes"  # of an app: its routes by Flask endpoint


class RouteDeclarationError(Exception):
    """A route of the service has no declaration, or an incomplete one. The message names the route."""


class PoolKind(str, Enum):
    """The kind of worker pool in which a route runs. Kinds have separate threads, so that none delays another.

    DISCOVERY is for what the API server needs to keep the API group available, and what else reads no record.
    """

    QUERIES = "queries"
    WATCHES = "watches"
    DISCOVERY = "discovery"
    REVIEWS = "reviews"
    INGEST = "ingest"
    POLLS = "polls"
    PROBES = "probes"


class Access(Enum):
    """What a route requires of a client instead of a right to a resource."""

    DISCLOSES_NOTHING = auto()  # no right: the response holds nothing of the cluster
    SENDER = auto()  # the view authenticates the client as a sender of records
    URL = auto()  # the right to get the route's path as a non-resource URL


@dataclass(frozen=True)
class RequiredRight:
    """The right to a resource of the API group that a route requires.

    The right covers the namespace that the request names in its path or in a query parameter of the route, otherwise
    all namespaces. `name` is the path's part or the query parameter with the object's name; if it is "", the right
    covers every object. `instead` is a pair of a query parameter and the right that the route requires in place of
    this one if a request sets that parameter.
    """

    verb: str
    resource: ServedResource
    name: str = ""
    instead: tuple[Parameter, RequiredRight] | None = None

    def select(self, arguments: Arguments) -> RequiredRight:
        """Return the right that a request with these query parameters requires: this one, or the one in `instead`."""
        return self.instead[1] if self.instead and self.instead[0].is_set(arguments) else self

    def alternatives(self) -> Sequence[RequiredRight]:
        """Return the rights that a request to the route may require: this one, and that of `instead` if it is set."""
        return (self, self.instead[1]) if self.instead else (self,)


@dataclass(frozen=True)
class Answer:
    """A successful response in the OpenAPI document: its status code, its meaning, and the type of its body.

    `schema` is the body's JSON schema; if it is None, the schema of the route's document is used. A response without a
    body has no content types.
    """

    code: int = 200
    description: str = "OK"
    content_types: Sequence[str] = (JSON,)
    schema: Json | None = None


@dataclass(frozen=True)
class Route:
    """One HTTP operation of the service.

    `path` is a URL rule of Flask, such as /apis/herodotus.dev/v1alpha1/nodehistories/<node>. `document` is the kind of
    the document that it returns, if that is not the kind of its resource, or TEXT for plain text. `errors` holds the
    HTTP status codes of its errors. `headers` holds the request headers that the OpenAPI document lists, and `body` the
    JSON schema of a request's body by content type. `pool` is the kind of worker pool for all requests but watches, and
    `max_body` the longest body in bytes.
    """

    method: str
    path: str
    operation_id: str = ""
    summary: str = ""
    right: RequiredRight | Access | None = None
    document: str = ""
    parameters: tuple[Parameter, ...] = ()
    errors: tuple[int, ...] = ()
    answers: tuple[Answer, ...] = (Answer(),)
    headers: tuple[Parameter, ...] = ()
    body: Mapping[str, Json] | None = None
    pool: PoolKind = PoolKind.QUERIES
    max_body: int = MAX_IGNORED_BODY

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def path_parts(self) -> list[str]:
        """The names of the path's variable parts, in the path's order."""
        return re.findall(r"<(\w+)>", self.path)

    @cached_property
    def api_request(self) -> tuple[str, str] | None:
        """The verb and the plural resource as which the API server authorizes a request, or None outside the group."""
        plural, _, name = self.path.replace(_NAMESPACE, "").removeprefix(f"{PREFIX}/").partition("/")
        if not self.path.startswith(f"{PREFIX}/"):
            return None
        return "create" if self.method == "POST" else "get" if name else "list", plural

    @cached_property
    def resource(self) -> ServedResource | None:
        """The resource of the API group that the path names, or None."""
        plural = self.api_request[1] if self.api_request else ""
        return next((resource for resource in RESOURCES if resource.plural == plural), None)

    @property
    def document_kind(self) -> str:
        """The kind of the document that the route returns, TEXT for plain text, or "" for other JSON."""
        return self.document or (self.resource.kind if self.resource else "")

    @property
    def rejects_unknown_parameters(self) -> bool:
        """Whether an unknown query parameter is an error. Routes without records ignore one that a probe may add."""
        return isinstance(self.right, RequiredRight)

    def choose_pool(self, arguments: Arguments) -> PoolKind:
        """Return the kind of worker pool for a request with these query parameters.

        It is WATCHES if the right that the request requires is one to watch, otherwise `pool`.
        """
        is_watch = isinstance(self.right, RequiredRight) and self.right.select(arguments).verb == "watch"
        return PoolKind.WATCHES if is_watch else self.pool

    def for_all_namespaces(self, operation_id: str, summary: str) -> Route:
        """Return the same route without the namespace in its path."""
        return replace(self, path=self.path.replace(_NAMESPACE, ""), operation_id=operation_id, summary=summary)

    def find_gaps(self) -> list[str]:
        """Return a clause for each defect of the declaration; [] if it is complete and consistent."""
        required = self.right.alternatives() if isinstance(self.right, RequiredRight) else ()
        names = [parameter.name for parameter in self.parameters]
        gaps = {
            "it has no operation ID": not self.operation_id,
            "it has no summary": not self.summary,
            "it names neither a right nor Access.DISCLOSES_NOTHING": self.right is None,
            "it names a parameter twice": len(set(names)) < len(names),
            "a parameter has no description": not all(p.description for p in (*self.parameters, *self.headers)),
            "the object's name in its right is neither in its path nor in a parameter": any(
                right.name and right.name not in (*self.path_parts, *names) for right in required
            ),
            "the parameter that changes its right is not among its parameters": any(
                right.instead and right.instead[0] not in self.parameters for right in required
            ),
            "its errors lack those of the check of its right and parameters (400, 401, 403, 503)": bool(required)
            and not _CHECK_ERRORS.issubset(self.errors),
            "its path names no resource of the API group": bool(required and self.api_request and not self.resource),
            "it takes a body and declares no limit of it": self.method == "POST" and self.max_body == MAX_IGNORED_BODY,
        }
        return [gap for gap, found in gaps.items() if found]


def declare(*routes: Route) -> Callable[[AnyView], AnyView]:
    """Return a decorator that declares the routes of a view function or method."""

    def attach(view: AnyView) -> AnyView:
        vars(view)[_ATTRIBUTE] = routes
        return view

    return attach


def list_views(container: object) -> list[View]:
    """Return the methods of an object that `declare` decorates."""
    return [getattr(container, name) for name, member in vars(type(container)).items() if hasattr(member, _ATTRIBUTE)]


def build_blueprint(name: str, views: Iterable[View]) -> Blueprint:
    """Return a Flask blueprint of the declared routes of views.

    Raises RouteDeclarationError if a view has no declaration or an incomplete one.
    """
    blueprint = Blueprint(name, __name__)
    for view in views:
        routes: Sequence[Route] = getattr(view, _ATTRIBUTE, ())
        if not routes:
            raise RouteDeclarationError(f"the view {view.__qualname__} declares no route")
        for route in routes:
            gaps = route.find_gaps()
            if gaps:
                raise RouteDeclarationError(f"the declaration of route {route} is incomplete: {'; '.join(gaps)}")
            blueprint.add_url_rule(
                route.path,
                route.operation_id,
                _DeclaredView(route, view),
                methods=[route.method],
                provide_automatic_options=False,
            )
    return blueprint


def install_routes(app: Flask) -> Mapping[str, Route]:
    """Return the declared route of each Flask endpoint of the app, and keep them for `list_routes`.

    Raises RouteDeclarationError if a route was registered without a declaration, or if two have one operation ID.
    """
    routes: dict[str, Route] = {}
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        if not isinstance(view, _DeclaredView):
            raise RouteDeclarationError(f"route {rule.rule} has no declaration: register it with build_blueprint")
        routes[rule.endpoint] = view.route
    operations = [route.operation_id for route in routes.values()]
    for endpoint, route in routes.items():
        if operations.count(route.operation_id) > 1:
            raise RouteDeclarationError(f"route {route} has the operation ID of another route: {endpoint}")
    app.extensions[_EXTENSION] = routes
    return routes


def find_route(app: Flask, environ: WSGIEnvironment) -> tuple[Route, Arguments] | None:
    """Return the route and the query parameters of a request, or None if its path or method has no route.

    Flask matches the path and parses the parameters. `environ` is the WSGI environment.
    """
    sent = app.request_class(environ)
    try:
        adapter = app.create_url_adapter(sent)
        assert adapter is not None
        endpoint, _ = adapter.match()
    except HTTPException:  # no such path or method, or a redirect to the path
        return None
    return app.extensions[_EXTENSION][endpoint], sent.args


def list_routes(app: Flask | None = None) -> list[Route]:
    """Return the routes of an app, by default of the current request's, in the order of their registration."""
    return list((app or current_app).extensions[_EXTENSION].values())


def list_verbs(routes: Iterable[Route], resource: ServedResource) -> list[str]:
    """Return the verbs that the routes of a resource serve, in the order get, list, watch, create."""
    serving = [route for route in routes if route.resource is resource]
    verbs = {route.api_request[0] for route in serving if route.api_request}
    for route in serving:
        if isinstance(route.right, RequiredRight):
            verbs |= {right.verb for right in route.right.alternatives()[1:] if right.resource is resource}
    return [verb for verb in _VERBS if verb in verbs]


@dataclass(frozen=True)
class _DeclaredView:
    """A view with one of its routes, which rejects unknown query parameters before it calls the view."""

    route: Route
    view: View

    def __call__(self, **parts: str) -> Response:
        if self.route.rejects_unknown_parameters:
            parameters.reject_unknown(*(parameter.name for parameter in self.route.parameters))
        return self.view(**parts)
