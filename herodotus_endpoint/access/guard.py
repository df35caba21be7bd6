"""The check that a reader has the right that a route requires, before the route runs.

No POST request passes that a page of another site may have made a browser send.

Owns: the errors 401 and 403, the namespaces that the reader of a request may see, and the access log. Does not own:
which right a route requires (its declaration, `routing.Route`), reviews by the API server
(`herodotus_kube.delegated_auth`), senders of records (`ingest`).

The access log has one line per request that is not limited to one namespace. A line holds the user, the right, the
object's name and the status code; never a token, a header or a query. Behind the service proxy no user is known: the
API server's audit log has the name.

An answer covers one cluster: the one that the parameter `cluster` names, or else the API server's own. Rights to
namespaces apply to the API server's own cluster. Reading another cluster requires the right to `get` that cluster: the
resource `clusters.herodotus.dev` (without objects), by cluster ID.

Without a `ReaderAuthenticator` (an installation behind the service proxy, which passes on no user) every client that
reaches a listener reads everything: the right to the service proxy is the only one.

Invariant: if a right cannot be checked, the answer is 503.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flask import Flask, Response, g, request

from herodotus_endpoint import parameters
from herodotus_endpoint.access.authentication import ReaderAuthenticator
from herodotus_endpoint.access.masking import VisibleNamespaces
from herodotus_endpoint.errors import StatusError, retry_later
from herodotus_endpoint.resources import CLUSTER
from herodotus_endpoint.routing import Access, RequiredRight, Route, install_routes
from herodotus_kube.api_conventions import ApiError
from herodotus_kube.delegated_auth import ReviewCache, UrlRight, UserInfo
from herodotus_record.model import API_GROUP, VERSION_OF_API

_FORM_TYPES: Final = ("text/plain", "multipart/form-data", "application/x-www-form-urlencoded")
MAX_NAMESPACES_CHECKED: Final = 50  # per answer, at some milliseconds each; further namespaces are hidden
ACCESS_LOG: Final = "herodotus_endpoint.access"  # logger; operators filter by its name
_log: Final = logging.getLogger(ACCESS_LOG)


@dataclass(frozen=True)
class ResourceRight:
    """The right to use a verb, such as `list`, on a resource of the API group herodotus.dev.

    If `namespace` is "", the right covers all namespaces; if `name` is "", it covers every object.
    """

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""

    def attributes(self) -> dict[str, Any]:
        """Return the part of a SubjectAccessReview's spec that describes this right (`resourceAttributes`)."""
        return {
            "resourceAttributes": {
                "group": API_GROUP,
                "version": VERSION_OF_API,
                "verb": self.verb,
                "resource": self.resource,
                "namespace": self.namespace,
                "name": self.name,
            }
        }

    def __str__(self) -> str:
        """Return the right in the wording of the API server's Forbidden message."""
        scope = f' in the namespace "{self.namespace}"' if self.namespace else " at the cluster scope"
        return f'{self.verb} resource "{self.resource}" in API group "{API_GROUP}"{scope}'


Right = ResourceRight | UrlRight


@dataclass(frozen=True)
class KnownClusters:
    """The clusters that a request may be about.

    `own` is the ID of the API server's cluster, or "" without an API server. `recorded` returns the IDs of the clusters
    that have records. `names` maps further names of clusters to their IDs.
    """

    own: str
    recorded: Callable[[], Sequence[str]]
    names: Mapping[str, str]

    def resolve(self, name: str) -> str:
        """Return the ID of the cluster that a request names by its ID or by one of `names`; "" stays ""."""
        return self.names.get(name, name)


def install_guard(app: Flask, access: ReaderAuthenticator | None, clusters: KnownClusters) -> None:
    """Make the app check before each request that its reader has the right that the route requires.

    If `access` is None, every request is allowed. Raises RouteDeclarationError if a route of the app has no
    declaration.
    """
    own = clusters.own
    if access is not None and not own:
        raise ValueError("access control needs the cluster of the API server")
    routes = install_routes(app)

    @app.before_request
    def check() -> None:
        g.look = _all_namespaces_visible
        g.user = ""
        g.access = access
        g.clusters = clusters
        g.right = _find_required_right(routes[request.endpoint]) if request.endpoint else None
        _refuse_other_sites()
        named = parameters.CLUSTER.parse() if isinstance(g.right, ResourceRight) else ""
        g.cluster = clusters.resolve(named) or own
        whole = access is not None and g.cluster != own
        if whole:
            g.right = _right_to_cluster(g.cluster)
        if access is not None and g.right is not None:
            user = _authenticate(access)
            g.user = user.name
            _authorize(access, user, g.right)
            g.identity = user
            if not whole:
                route = g.right.namespace if isinstance(g.right, ResourceRight) else ""
                g.look = lambda namespaces: _find_visible_namespaces(access.rights, user, namespaces, route)

    @app.after_request
    def log(response: Response) -> Response:
        _log_request(g.user, g.right, response.status_code)
        return response


def _refuse_other_sites() -> None:
    """Raise StatusError if a page of another site may have made a browser send this POST request.

    Browsers state the origin in the header Sec-Fetch-Site, which other clients do not send. Browsers before 2023 lack
    the header, but let such a page send only the media types of a form, which are refused too.
    """
    if request.method != "POST":
        return
    if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        raise StatusError(403, "a browser sent this request for a page of another site")
    if request.mimetype in _FORM_TYPES:
        raise StatusError(415, f"Content-Type must not be {request.mimetype}, which a page of another site may send")


def request_cluster() -> str:
    """Return the ID of the cluster whose records this request reads, or "" if no stored record names a cluster.

    Raises StatusError 400 if neither the request nor the service determines the cluster and several have records.
    """
    if not g.cluster:
        g.cluster = _only_cluster(g.clusters.recorded())
    cluster: str = g.cluster
    return cluster


def named_cluster() -> str:
    """Return the ID of the cluster that the parameter `cluster` of this request names, or "" without it."""
    return g.cluster if parameters.CLUSTER.is_set() else ""


def keep_readable(clusters: Sequence[str]) -> list[str]:
    """Return those of `clusters`, by ID, whose records the reader of this request may read at least in part.

    The API server's own cluster is always included: the right to its records depends on the namespace. Raises
    StatusError 503 if a right cannot be checked.
    """
    access: ReaderAuthenticator | None = g.access
    if access is None:
        return list(clusters)
    try:
        if access.rights.is_allowed(g.identity, ResourceRight("get", CLUSTER.plural)):
            return list(clusters)
        return [
            c for c in clusters if c == g.clusters.own or access.rights.is_allowed(g.identity, _right_to_cluster(c))
        ]
    except ApiError as e:
        raise retry_later(503, f"cannot check which clusters are readable: {e.describe()}") from e


def switch_cluster(name: str) -> str:
    """Make the rest of this request read the cluster that its body names, and return the cluster's ID.

    All namespaces of that cluster become visible. Nothing changes if the name is "", which is then returned, or that of
    the API server's own cluster. Raises StatusError 403 if the reader may not read the cluster.
    """
    clusters: KnownClusters = g.clusters
    other = clusters.resolve(name)
    if other in ("", clusters.own):
        return other
    if g.access is not None:
        _authorize(g.access, g.identity, _right_to_cluster(other))
        g.look = _all_namespaces_visible
    g.cluster = other
    return other


def visible_namespaces(namespaces: frozenset[str]) -> VisibleNamespaces:
    """Return which of `namespaces` the reader of the current request may see."""
    visible: VisibleNamespaces = g.look(namespaces)
    return visible


def _find_required_right(route: Route) -> Right | None:
    """Return the right that the current request to the route requires, or None if it requires none."""
    if route.right is Access.URL:
        return UrlRight(route.path)
    if not isinstance(route.right, RequiredRight):
        return None
    named = {p.name: p.raw() for p in route.parameters} | (request.view_args or {})
    required = route.right.select(request.args)
    name = named[required.name] if required.name else ""
    return ResourceRight(required.verb, required.resource.plural, named.get("namespace", ""), name)


def _right_to_cluster(cluster: str) -> Right:
    return ResourceRight("get", CLUSTER.plural, name=cluster)


def _only_cluster(clusters: Sequence[str]) -> str:
    if len(clusters) > 1:
        message = "several clusters have records; name one (cluster=, or --cluster of the plugin)"
        raise StatusError(400, f"{message}: {', '.join(clusters)}")
    return clusters[0] if clusters else ""


def _authenticate(access: ReaderAuthenticator) -> UserInfo:
    try:
        user = access.authenticate(request.environ)
    except ApiError as e:
        raise retry_later(503, f"cannot check the right to read this: {e.describe()}") from e
    if user is None:
        raise StatusError(401, "Unauthorized")
    return user


def _authorize(access: ReaderAuthenticator, user: UserInfo, right: Right) -> None:
    try:
        if access.rights.is_allowed(user, right):
            return
    except ApiError as e:
        raise retry_later(503, f"cannot check the right to read this: {e.describe()}") from e
    what = f"{right.resource}.{API_GROUP}" if isinstance(right, ResourceRight) else right.path
    if isinstance(right, ResourceRight) and right.name:
        what = f'{what} "{right.name}"'
    raise StatusError(403, f'{what} is forbidden: User "{user.name}" cannot {right}')


def _find_visible_namespaces(
    rights: ReviewCache, user: UserInfo, namespaces: frozenset[str], own: str
) -> VisibleNamespaces:
    """Return which of `namespaces` the user may see, which means: get decisions in them.

    `own` is the namespace in the route's path, or "". It counts as visible, because the guard has already checked the
    right to it. At most MAX_NAMESPACES_CHECKED others are checked with the API server; the rest counts as not visible.
    """
    try:
        if rights.is_allowed(user, ResourceRight("get", "decisions")):
            return VisibleNamespaces(everything=True)
        others = sorted(namespaces - {own})[:MAX_NAMESPACES_CHECKED]
        visible = frozenset(n for n in others if rights.is_allowed(user, ResourceRight("get", "decisions", n)))
        return VisibleNamespaces(visible | ({own} if own else frozenset()))
    except ApiError as e:
        raise retry_later(503, f"cannot check which namespaces are visible: {e.describe()}") from e


def _all_namespaces_visible(_namespaces: frozenset[str]) -> VisibleNamespaces:
    return VisibleNamespaces(everything=True)


def _log_request(user: str, right: Right | None, code: int) -> None:
    """Write a line to the access log if the request concerned nodes or all namespaces; otherwise write nothing.

    `right` is the right that the route required, or None if it required none. `code` is the HTTP status code of the
    response. `user` is "" if the reader is not known by name.
    """
    if isinstance(right, ResourceRight) and not right.namespace:
        request_line = {"verb": right.verb, "resource": right.resource, "name": right.name}
        _log.info("%s", json.dumps({"user": user} | request_line | {"code": code}))  # one line, whatever a name holds
