"""The right that each route requires, checked before the route runs.

Owns: the table of routes and rights, the errors 401 and 403, the namespaces that the reader of a request may see. Does
not own: reviews by the API server (`authorization`), senders of records (`ingest`).

An answer covers one cluster: the one that the parameter `cluster` names, or else the API server's own. Rights to
namespaces apply to the API server's own cluster. Reading another cluster requires the right to `get` that cluster: the
resource `clusters.herodotus.dev` (without objects), by cluster ID.

Without `AccessControl` (an installation behind the service proxy, which passes on no user) every client that reaches a
listener reads everything: the right to the service proxy is the only one.

Invariant: a route that is missing from the table prevents the start. If a right cannot be checked, the answer is 503.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flask import Flask, Response, g, request

from herodotus_endpoint import parameters
from herodotus_endpoint.access import audit_log
from herodotus_endpoint.access.authorization import ResourceRight, ReviewCache, Right, UrlRight
from herodotus_endpoint.access.identity import Authenticator
from herodotus_endpoint.access.masking import VisibleNamespaces
from herodotus_endpoint.access.user_info import UserInfo
from herodotus_endpoint.errors import StatusError, retry_later
from herodotus_kube.client import KubeError
from herodotus_record.model import API_GROUP

MAX_NAMESPACES_CHECKED: Final = 50  # per answer, at some milliseconds each; further namespaces are hidden

RightOfRequest = Callable[[Mapping[str, Any]], Right]  # from the path's parts


@dataclass(frozen=True)
class AccessControl:
    """The authenticator of readers and the cache of their rights, with which the guard checks each request."""

    identity: Authenticator
    rights: ReviewCache


def _right_to(verb: str, resource: str, name: str = "") -> RightOfRequest:
    return lambda parts: ResourceRight(verb, resource, parts.get("namespace", ""), parts.get(name, ""))


def _right_to_list(parts: Mapping[str, Any]) -> Right:
    watched = request.args.get("watch", "false") not in ("false", "0")
    return ResourceRight("watch" if watched else "list", "decisions", parts.get("namespace", ""))


def _right_to_balance(_parts: Mapping[str, Any]) -> Right:
    """Return the right that a request for balances requires: `list balances`, or `get decisions` with a labelSelector.

    Sums over all pods name no pod, but a labelSelector may select a single pod of any namespace.
    """
    selected = request.args.get("labelSelector")
    return ResourceRight("get", "decisions") if selected else ResourceRight("list", "balances")


def _right_to_legacy_pod(_parts: Mapping[str, Any]) -> Right:
    return ResourceRight("get", "podexplanations", request.args.get("namespace", ""), request.args.get("name", ""))


def _right_to_legacy_node(_parts: Mapping[str, Any]) -> Right:
    return ResourceRight("get", "nodehistories", "", request.args.get("name", ""))


# None: the route discloses nothing of the cluster (a page is an empty shell), or it authenticates senders itself.
REQUIRED_RIGHTS: Final[Mapping[str, RightOfRequest | None]] = {
    "livez": None,
    "readyz": None,
    "version": None,
    "index": None,
    "openapi": None,
    "metrics": lambda _: UrlRight("/metrics"),
    "ingest.frames": None,
    "open_decisions.open_decisions": None,
    "pages.short": None,
    "pages.home": None,
    "pages.file": None,
    "discovery.groups": None,
    "discovery.group": None,
    "discovery.resources": None,
    "discovery.openapi_index": None,
    "discovery.openapi_group": None,
    "objects.decisions": _right_to_list,
    "objects.decision": _right_to("get", "decisions", "name"),
    "objects.node_histories": _right_to("list", "nodehistories"),
    "explanations.node_history": _right_to("get", "nodehistories", "node"),
    "explanations.pod_explanation": _right_to("get", "podexplanations", "pod"),
    "explanations.incarnations": _right_to("list", "incarnations"),
    "comparisons.pod_history": _right_to("get", "podhistories", "pod"),
    "comparisons.pod_comparison": _right_to("list", "decisions"),  # the other pod may be any of the namespace
    "comparisons.node_comparison": _right_to("get", "nodecomparisons", "pod"),
    "aggregates.pending": _right_to("list", "pendingpods"),
    "aggregates.workload": _right_to("get", "workloadplacements", "workload"),
    "aggregates.balance": _right_to_balance,
    "aggregates.agreements": _right_to("list", "agreements"),
    "reviews.create": _right_to("create", "placementreviews"),
    "review_queue.take": None,
    "review_queue.answer": None,
    "legacy.pod": _right_to_legacy_pod,
    "legacy.node": _right_to_legacy_node,
}


def install_guard(app: Flask, access: AccessControl | None, own: str, clusters: Callable[[], Sequence[str]]) -> None:
    """Make the app check before each request that its reader has the right that the route requires.

    If `access` is None, every request is allowed. `own` is the ID of the API server's cluster, or "" without an API
    server. `clusters` returns the IDs of the clusters that have records. Raises KeyError if REQUIRED_RIGHTS lacks a
    route of the app.
    """
    if access is not None and not own:
        raise ValueError("access control needs the cluster of the API server")
    for rule in app.url_map.iter_rules():
        REQUIRED_RIGHTS[rule.endpoint]

    @app.before_request
    def check() -> None:
        needs = REQUIRED_RIGHTS[request.endpoint] if request.endpoint else None
        g.look = _all_namespaces_visible
        g.user = ""
        g.access = access
        g.clusters = clusters
        g.right = needs(request.view_args or {}) if needs else None
        g.cluster = (parameters.parse_name("cluster") if isinstance(g.right, ResourceRight) else "") or own
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
        audit_log.log_request(g.user, g.right, response.status_code)
        return response


def request_cluster() -> str:
    """Return the ID of the cluster whose records this request reads, or "" if no stored record names a cluster.

    Raises StatusError 400 if neither the request nor the service determines the cluster and several have records.
    """
    if not g.cluster:
        g.cluster = _only_cluster(g.clusters())
    found: str = g.cluster
    return found


def switch_cluster(other: str) -> None:
    """Make the rest of this request read the cluster with the ID `other`, with all of its namespaces.

    Raises StatusError 403 if the reader may not read that cluster.
    """
    if g.access is not None:
        _authorize(g.access, g.identity, _right_to_cluster(other))
        g.look = _all_namespaces_visible
    g.cluster = other


def visible_namespaces(namespaces: frozenset[str]) -> VisibleNamespaces:
    """Return which of `namespaces` the reader of the current request may see."""
    visible: VisibleNamespaces = g.look(namespaces)
    return visible


def _right_to_cluster(cluster: str) -> Right:
    return ResourceRight("get", "clusters", name=cluster)


def _only_cluster(known: Sequence[str]) -> str:
    if len(known) > 1:
        raise StatusError(400, f"several clusters have records: set cluster= to one of {', '.join(known)}")
    return known[0] if known else ""


def _authenticate(access: AccessControl) -> UserInfo:
    try:
        user = access.identity.authenticate(request.environ)
    except KubeError as e:
        raise retry_later(503, f"cannot check the right to read this: {e}") from e
    if user is None:
        raise StatusError(401, "Unauthorized")
    return user


def _authorize(access: AccessControl, user: UserInfo, right: Right) -> None:
    try:
        if access.rights.is_allowed(user, right):
            return
    except KubeError as e:
        raise retry_later(503, f"cannot check the right to read this: {e}") from e
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
        asked = sorted(namespaces - {own})[:MAX_NAMESPACES_CHECKED]
        seen = frozenset(n for n in asked if rights.is_allowed(user, ResourceRight("get", "decisions", n)))
        return VisibleNamespaces(seen | ({own} if own else frozenset()))
    except KubeError as e:
        raise retry_later(503, f"cannot check which namespaces are visible: {e}") from e


def _all_namespaces_visible(_namespaces: frozenset[str]) -> VisibleNamespaces:
    return VisibleNamespaces(everything=True)
