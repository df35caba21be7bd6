"""Which right each route needs, and that it is checked before the route runs.

Owns: the table of routes and rights, 401 and 403, what the reader of a request sees. Does not own: answers of the API
server (`rights`), senders of records (`ingest`).

Without `Access` (an installation behind the service proxy, which names nobody) whoever reaches a listener reads
everything: the right to the service proxy is the only one there is.

Invariant: a route that is not in the table stops the start. A right that cannot be checked is 503, never an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from flask import Flask, Response, g, request

from herodotus_endpoint.access import trail
from herodotus_endpoint.access.apiserver import NoAnswerError
from herodotus_endpoint.access.identity import Identity
from herodotus_endpoint.access.rights import Resource, Right, Rights, Url
from herodotus_endpoint.access.user import User
from herodotus_endpoint.errors import ApiError, busy
from herodotus_endpoint.masking import Sight
from herodotus_record.model import API_GROUP

MOST_ASKED: Final = 50  # namespaces asked about for one answer, each some milliseconds; the others are hidden

Needs = Callable[[Mapping[str, Any]], Right]  # from the path's parts


@dataclass(frozen=True)
class Access:
    """Delegated to the API server."""

    identity: Identity
    rights: Rights


def _of(verb: str, resource: str, name: str = "") -> Needs:
    return lambda parts: Resource(verb, resource, parts.get("namespace", ""), parts.get(name, ""))


def _listed(parts: Mapping[str, Any]) -> Right:
    watched = request.args.get("watch", "false") not in ("false", "0")
    return Resource("watch" if watched else "list", "decisions", parts.get("namespace", ""))


def _balance(_parts: Mapping[str, Any]) -> Right:
    """Sums name nobody, but labels may select a single pod, of whichever namespace."""
    selected = request.args.get("labelSelector")
    return Resource("get", "decisions") if selected else Resource("list", "balances")


def _legacy_pod(_parts: Mapping[str, Any]) -> Right:
    return Resource("get", "podexplanations", request.args.get("namespace", ""), request.args.get("name", ""))


def _legacy_node(_parts: Mapping[str, Any]) -> Right:
    return Resource("get", "nodehistories", "", request.args.get("name", ""))


# None: tells nothing of the cluster (a page is an empty shell), or (ingest) checks its senders itself.
NEEDS: Final[Mapping[str, Needs | None]] = {
    "livez": None,
    "readyz": None,
    "version": None,
    "index": None,
    "openapi": None,
    "metrics": lambda _: Url("/metrics"),
    "ingest.frames": None,
    "pages.short": None,
    "pages.home": None,
    "pages.file": None,
    "discovery.groups": None,
    "discovery.group": None,
    "discovery.resources": None,
    "discovery.openapi_index": None,
    "discovery.openapi_group": None,
    "objects.decisions": _listed,
    "objects.decision": _of("get", "decisions", "name"),
    "objects.node_histories": _of("list", "nodehistories"),
    "queries.node_history": _of("get", "nodehistories", "node"),
    "queries.pod_explanation": _of("get", "podexplanations", "pod"),
    "queries.incarnations": _of("list", "incarnations"),
    "insights.pod_history": _of("get", "podhistories", "pod"),
    "insights.pod_comparison": _of("list", "decisions"),  # the other pod may be any of the namespace
    "insights.node_comparison": _of("get", "nodecomparisons", "pod"),
    "surveys.pending": _of("list", "pendingpods"),
    "surveys.workload": _of("get", "workloadplacements", "workload"),
    "surveys.balance": _balance,
    "surveys.agreements": _of("list", "agreements"),
    "reviews.create": _of("create", "placementreviews"),
    "desk.take": None,
    "desk.answer": None,
    "legacy.pod": _legacy_pod,
    "legacy.node": _legacy_node,
}


def install(app: Flask, access: Access | None) -> None:
    """Check every request from now on. KeyError when a route of the app is not in the table."""
    for rule in app.url_map.iter_rules():
        NEEDS[rule.endpoint]

    @app.before_request
    def check() -> None:
        needs = NEEDS[request.endpoint] if request.endpoint else None
        g.look = _everything
        g.user = ""
        g.right = needs(request.view_args or {}) if needs else None
        if access is not None and g.right is not None:
            user = _named(access)
            g.user = user.name
            _allowed(access, user, g.right)
            g.look = lambda namespaces: _sight(access.rights, user, namespaces)

    @app.after_request
    def log(response: Response) -> Response:
        trail.leave(g.user, g.right, response.status_code)
        return response


def look(namespaces: frozenset[str]) -> Sight:
    """What the reader of this request sees of some namespaces."""
    sight: Sight = g.look(namespaces)
    return sight


def _named(access: Access) -> User:
    try:
        user = access.identity.of(request.environ)
    except NoAnswerError as e:
        raise busy(503, f"who may read this cannot be found out: {e}") from e
    if user is None:
        raise ApiError(401, "Unauthorized")
    return user


def _allowed(access: Access, user: User, right: Right) -> None:
    try:
        if access.rights.may(user, right):
            return
    except NoAnswerError as e:
        raise busy(503, f"who may read this cannot be found out: {e}") from e
    what = f"{right.resource}.{API_GROUP}" if isinstance(right, Resource) else right.path
    if isinstance(right, Resource) and right.name:
        what = f'{what} "{right.name}"'
    raise ApiError(403, f'{what} is forbidden: User "{user.name}" cannot {right}')


def _sight(rights: Rights, user: User, namespaces: frozenset[str]) -> Sight:
    """Namespaces of which the reader may get decisions; those beyond MOST_ASKED are not asked about."""
    try:
        if not namespaces or rights.may(user, Resource("get", "decisions")):
            return Sight(everything=True)
        asked = sorted(namespaces)[:MOST_ASKED]
        return Sight(frozenset(n for n in asked if rights.may(user, Resource("get", "decisions", n))))
    except NoAnswerError as e:
        raise busy(503, f"what may be shown cannot be found out: {e}") from e


def _everything(_namespaces: frozenset[str]) -> Sight:
    return Sight(everything=True)
