"""The queries: `/apis/herodotus.dev/v1alpha1/...`, read-only.

Owns: routes, parameters, what is not found. Does not own: documents (`documents`, `history`), statements (`store`).

Invariant: an answer is one snapshot of the store, and no larger than its limits.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from typing import Any, Final

from flask import Blueprint, Response

from herodotus_endpoint import documents, history, parameters
from herodotus_endpoint.errors import ApiError, json_response
from herodotus_endpoint.settings import Settings
from herodotus_endpoint.store import Store, Stored
from herodotus_endpoint.store.rollups import bucket_of
from herodotus_record.model import API_VERSION

PREFIX: Final = f"/apis/{API_VERSION}"
DEFAULT_PAGE: Final = 100
MAX_PAGE: Final = 500  # items of 0.5 to 1.5 kB: an answer below a megabyte
DEFAULT_WINDOW_S: Final = 24 * 3600  # of a node's history
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

View = Callable[..., Response]


def blueprint(store: Store, settings: Settings) -> Blueprint:
    """Every query route."""
    queries = Queries(store, settings)
    routes = Blueprint("queries", __name__, url_prefix=PREFIX)
    for rule, view in queries.routes().items():
        routes.add_url_rule(rule, view.__name__, view, methods=["GET"], provide_automatic_options=False)
    return routes


class Queries:
    """The views over one store."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._reader = store.reader
        self._clock = settings.clock

    def routes(self) -> dict[str, View]:
        """Path to view."""
        return {
            "/namespaces/<namespace>/podexplanations/<pod>": self.pod_explanation,
            "/namespaces/<namespace>/decisions/<name>": self.decision,
            "/namespaces/<namespace>/decisions": self.decisions,
            "/decisions": self.decisions,
            "/nodehistories/<node>": self.node_history,
            "/incarnations": self.incarnations,
        }

    def pod_explanation(self, namespace: str, pod: str) -> Response:
        """What happened to a pod.

        `attempt`: which of the stored attempts of its latest UID (or of `uid`), by start: 1 to the answer's
        `attempt.attempts`, as in its `attempt.ordinal`. It is not `attempt.number`, which is the scheduler's own and
        begins anew when the scheduler restarts. Without it, the latest.
        """
        parameters.known("attempt", "all", "node", "uid", "cluster")
        stored = self._of_pod(namespace, pod)
        node = parameters.text("node")
        try:
            return json_response(documents.explanation(stored, every_node=parameters.boolean("all"), node=node))
        except KeyError as e:
            raise ApiError(404, f'node "{node}" was not in the cluster when this decision was taken') from e

    def decision(self, namespace: str, name: str) -> Response:
        """The whole record of a decision, by its id or as the latest of a pod; `attempt` as in `pod_explanation`."""
        parameters.known("attempt", "uid", "cluster")
        if _ID.fullmatch(name):
            by_id = self._reader.decision_by_id(parameters.name(namespace, "the namespace"), name)
            if by_id:
                return json_response(documents.record(by_id))
        return json_response(documents.record(self._of_pod(namespace, name)))

    def decisions(self, namespace: str = "") -> Response:
        """A page of decisions, newest first."""
        parameters.known("limit", "continue", "pod", "cluster")
        limit = parameters.integer("limit", least=1, most=MAX_PAGE) or DEFAULT_PAGE
        rows = self._reader.decisions(
            namespace=parameters.name(namespace, "the namespace"),
            pod=parameters.text("pod"),
            cluster=parameters.text("cluster"),
            before=_cursor(parameters.text("continue")),
            limit=limit + 1,
        )
        more = _as_cursor(rows[limit - 1].id) if len(rows) > limit else ""
        items = [documents.item(row) for row in rows[:limit]]
        return json_response(documents.listing("DecisionList", items, more))

    def node_history(self, node: str) -> Response:
        """What a node was considered for and how it fared."""
        parameters.known("since", "cluster")
        parameters.name(node, "the node's name")
        cluster = parameters.text("cluster")
        now_us = int(self._clock() * 1e6)
        since_us = parameters.since("since", self._clock)
        over = history.window(now_us - DEFAULT_WINDOW_S * 1_000_000 if since_us is None else since_us, now_us)
        facts = self._reader.node_facts(node, cluster=cluster, from_bucket=bucket_of(over.from_us))
        if facts is None:
            details = {"name": node, "kind": "nodehistories", "similar": self._reader.similar_nodes(node)}
            raise ApiError(404, f'no decision considered node "{node}"', details=details)
        recent = self._reader.recent_of_node(node, cluster=cluster)
        return json_response(history.node_history(node, over, facts, recent))

    def incarnations(self) -> Response:
        """The scheduler processes heard of, and what of their sequences is missing."""
        parameters.known()
        return json_response(documents.listing("IncarnationList", documents.incarnations(self._reader.incarnations())))

    def _of_pod(self, namespace: str, pod: str) -> Stored:
        parameters.name(namespace, "the namespace")
        parameters.name(pod, "the pod's name")
        attempt = parameters.integer("attempt", least=1)
        uid, cluster = parameters.text("uid"), parameters.text("cluster")
        stored = self._reader.decision_of_pod(namespace, pod, uid=uid, attempt=attempt, cluster=cluster)
        if stored is None:
            raise self._no_decision(namespace, pod, attempt, uid)
        return stored

    def _no_decision(self, namespace: str, pod: str, attempt: int | None, uid: str) -> ApiError:
        """404: of the attempt or UID where the pod itself is known, otherwise with what helps to find it."""
        details: dict[str, Any] = {"name": pod, "kind": "podexplanations"}
        whole = f'no decision for pod "{pod}" in namespace "{namespace}"'
        if (attempt is not None or uid) and self._reader.decision_of_pod(namespace, pod):
            narrowed = [f"attempt {attempt}"] * (attempt is not None) + [f"UID {uid}"] * bool(uid)
            return ApiError(404, f"{whole} with {' and '.join(narrowed)}", details=details)
        details["similar"] = self._reader.similar_pods(namespace, pod)
        elsewhere = self._reader.other_namespaces(namespace, pod)
        if elsewhere:
            details["otherNamespaces"] = elsewhere
        return ApiError(404, whole, details=details)


def _as_cursor(before: int) -> str:
    return urlsafe_b64encode(f"v1:{before}".encode()).decode().rstrip("=")


def _cursor(token: str) -> int | None:
    """The id behind a cursor; 400 for anything that `_as_cursor` did not make."""
    if not token:
        return None
    try:
        plain = urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    except (Base64Error, ValueError):
        plain = ""
    if not re.fullmatch(r"v1:[0-9]{1,18}", plain):
        raise ApiError(400, f"continue is not a cursor of this list: {token[:64]!r}")
    return int(plain[3:])
