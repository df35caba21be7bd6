"""The queries that the plugin asks: `/apis/herodotus.dev/v1alpha1/...`, read-only.

Owns: routes, parameters, what is not found. Does not own: documents (`documents`, `history`), the objects that kubectl
lists (`kubeapi`), statements (`store`).

Invariant: an answer is one snapshot of the store, and no larger than its limits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final

from flask import Blueprint, Response

from herodotus_endpoint import documents, history, parameters
from herodotus_endpoint.errors import ApiError, json_response
from herodotus_endpoint.kubeapi.resources import PREFIX
from herodotus_endpoint.questions import Questions
from herodotus_endpoint.settings import Settings
from herodotus_endpoint.store import Stored
from herodotus_endpoint.store.reader import SIMILAR
from herodotus_endpoint.store.rollups import bucket_of

View = Callable[..., Response]
ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def blueprint(questions: Questions, settings: Settings) -> Blueprint:
    """Every query route."""
    queries = Queries(questions, settings)
    routes = Blueprint("queries", __name__, url_prefix=PREFIX)
    for rule, view in queries.routes().items():
        routes.add_url_rule(rule, view.__name__, view, methods=["GET"], provide_automatic_options=False)
    return routes


class Queries:
    """The views over one store."""

    def __init__(self, questions: Questions, settings: Settings) -> None:
        self._questions = questions
        self._clock = settings.clock

    def routes(self) -> dict[str, View]:
        """Path to view."""
        return {
            "/namespaces/<namespace>/podexplanations/<pod>": self.pod_explanation,
            "/nodehistories/<node>": self.node_history,
            "/incarnations": self.incarnations,
        }

    def pod_explanation(self, namespace: str, pod: str) -> Response:
        """What happened to a pod.

        `attempt`: which of the stored attempts of its latest UID (or of `uid`), by start: 1 to the answer's
        `attempt.attempts`, as in its `attempt.ordinal`. It is not `attempt.number`, which is the scheduler's own and
        begins anew when the scheduler restarts. Without it, the latest. A decision's id in place of the pod's name
        means that decision.
        """
        parameters.known("attempt", "all", "columns", "node", "uid", "cluster")
        stored = named(self._questions, namespace, pod, "podexplanations")
        node, every_node = parameters.text("node"), parameters.boolean("all")
        try:
            columns = parameters.boolean("columns")
            return json_response(documents.explanation(stored, every_node=every_node, columns=columns, node=node))
        except KeyError as e:
            raise no_node(stored, node) from e

    def node_history(self, node: str) -> Response:
        """What a node was considered for and how it fared."""
        parameters.known("since", "cluster", "includeObject", "pretty", "resourceVersion")
        parameters.name(node, "the node's name")
        cluster = parameters.text("cluster")
        over = history.asked(self._clock)
        since = bucket_of(over.from_us)
        facts = self._questions.node_facts(node, cluster=cluster, from_bucket=since)
        if facts is None:
            details = {"name": node, "kind": "nodehistories", "similar": self._questions.similar_nodes(node)}
            raise unknown(self._questions, f'no decision considered node "{node}"', details)
        recent = self._questions.recent_of_node(node, cluster=cluster)
        share = self._questions.share(cluster=cluster, from_bucket=since)
        return json_response(history.node_history(node, over, facts, share, recent))

    def incarnations(self) -> Response:
        """The scheduler processes heard of, and what of their sequences is missing."""
        parameters.known()
        known = documents.incarnations(self._questions.incarnations())
        return json_response(documents.listing("IncarnationList", known))


def named(questions: Questions, namespace: str, name: str, kind: str) -> Stored:
    """The decision of that id, or `of_pod` of that name."""
    parameters.name(namespace, "the namespace")
    stored = questions.decision_by_id(namespace, name) if ID.fullmatch(name) else None
    return stored or of_pod(questions, namespace, name, kind)


def of_pod(questions: Questions, namespace: str, pod: str, kind: str) -> Stored:
    """The decision that `attempt`, `uid` and `cluster` name, by default a pod's latest; 404 with what helps."""
    parameters.name(namespace, "the namespace")
    parameters.name(pod, "the pod's name")
    attempt = parameters.integer("attempt", least=1)
    uid, cluster = parameters.text("uid"), parameters.text("cluster")
    stored = questions.decision_of_pod(namespace, pod, uid=uid, attempt=attempt, cluster=cluster)
    if stored is None:
        raise _no_decision(questions, namespace, pod, attempt, uid, kind)
    return stored


def unknown(questions: Questions, said: str, details: dict[str, Any]) -> ApiError:
    """404, with what helps; before the first records came, that nothing is known of anything."""
    return ApiError(404, said, details=details if questions.any_records() else details | {"noRecords": True})


def no_node(stored: Stored, node: str) -> ApiError:
    """404: the decision knows no such node; with those of its own that are called alike."""
    similar = get_close_matches(node, filter(None, stored.table.names), n=SIMILAR, cutoff=0.5)
    said = f'node "{node}" was not in the cluster when this decision was taken'
    return ApiError(404, said, details={"name": node, "kind": "nodes", "similar": similar})


def _no_decision(questions: Questions, namespace: str, pod: str, attempt: int | None, uid: str, kind: str) -> ApiError:
    """404: of the attempt or UID where the pod itself is known, otherwise with what helps to find it."""
    details: dict[str, Any] = {"name": pod, "kind": kind}
    whole = f'no decision for pod "{pod}" in namespace "{namespace}"'
    if (attempt is not None or uid) and questions.decision_of_pod(namespace, pod):
        narrowed = [f"attempt {attempt}"] * (attempt is not None) + [f"UID {uid}"] * bool(uid)
        return ApiError(404, f"{whole} with {' and '.join(narrowed)}", details=details)
    details["similar"] = questions.similar_pods(namespace, pod)
    elsewhere = questions.other_namespaces(namespace, pod)
    if elsewhere:
        details["otherNamespaces"] = elsewhere
    return unknown(questions, whole, details)
