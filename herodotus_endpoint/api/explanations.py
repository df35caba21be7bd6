"""Routes of `/apis/herodotus.dev/v1alpha1/` about one pod, one node or the incarnations; read-only.

Owns: routes, parameters, and the 404 answers with similar names. Does not own: documents (`documents`, `node_history`),
the objects that kubectl lists (`kubeapi`), SQL (`store`).

Invariant: an answer is one snapshot of the store and stays within the limits of its parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final

from flask import Blueprint, Response

from herodotus_endpoint import parameters
from herodotus_endpoint.api import documents, node_history
from herodotus_endpoint.api.masked_reader import MaskedReader
from herodotus_endpoint.api.resources import PREFIX
from herodotus_endpoint.errors import StatusError, json_response
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import StoredAttempt
from herodotus_endpoint.store.reader import MAX_SIMILAR
from herodotus_endpoint.store.rollups import bucket_of

View = Callable[..., Response]
ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def blueprint(reader: MaskedReader, settings: ServiceSettings) -> Blueprint:
    """Return the blueprint of all routes of this module."""
    views = ExplanationViews(reader, settings)
    routes = Blueprint("explanations", __name__, url_prefix=PREFIX)
    for rule, view in views.routes().items():
        routes.add_url_rule(rule, view.__name__, view, methods=["GET"], provide_automatic_options=False)
    return routes


class ExplanationViews:
    """Views of pod explanations, node histories and incarnations."""

    def __init__(self, reader: MaskedReader, settings: ServiceSettings) -> None:
        self._reader = reader
        self._clock = settings.clock

    def routes(self) -> dict[str, View]:
        """Return the view of each path."""
        return {
            "/namespaces/<namespace>/podexplanations/<pod>": self.pod_explanation,
            "/nodehistories/<node>": self.node_history,
            "/incarnations": self.incarnations,
        }

    def pod_explanation(self, namespace: str, pod: str) -> Response:
        """Return what happened to a pod in one attempt.

        `attempt` selects one of the stored attempts of the pod's latest UID (or of `uid`), ordered by start: 1 to the
        answer's `attempt.attempts`, as in its `attempt.ordinal`. It differs from `attempt.number`, which the scheduler
        counts and which restarts with the scheduler. Without `attempt`, the latest attempt is used. A decision ID in
        place of the pod's name selects that decision.
        """
        parameters.reject_unknown("attempt", "all", "columns", "node", "uid", "cluster")
        stored = find_decision(self._reader, namespace, pod, "podexplanations")
        node, every_node = parameters.parse_name("node"), parameters.parse_boolean("all")
        try:
            columns = parameters.parse_boolean("columns")
            return json_response(documents.build_explanation(stored, every_node=every_node, columns=columns, node=node))
        except KeyError as e:
            raise node_not_found(stored, node) from e

    def node_history(self, node: str) -> Response:
        """Return how often a node was considered, rejected and chosen, by reason and over time."""
        parameters.reject_unknown("since", "cluster", "includeObject", "pretty", "resourceVersion")
        parameters.check_name(node, "the node's name")
        over = node_history.parse_window(self._clock)
        since = bucket_of(over.from_us)
        facts = self._reader.sum_node_history(node, from_bucket=since)
        if facts is None:
            details = {"name": node, "kind": "nodehistories", "similar": self._reader.similar_nodes(node)}
            raise not_found(self._reader, f'no decision considered node "{node}"', details)
        recent = self._reader.find_recent_decisions(node)
        share = self._reader.sum_cluster_totals(from_bucket=since)
        return json_response(node_history.build_node_history(node, over, facts, share, recent))

    def incarnations(self) -> Response:
        """Return the known scheduler processes and the gaps in their sequences."""
        parameters.reject_unknown("cluster")
        known = documents.build_incarnations(self._reader.incarnations())
        return json_response(documents.build_list("IncarnationList", known))


def find_decision(reader: MaskedReader, namespace: str, name: str, kind: str) -> StoredAttempt:
    """Return the decision with the ID `name`, or else the decision of the pod `name`. Raises StatusError 404."""
    parameters.check_name(namespace, "the namespace")
    stored = reader.decision_by_id(namespace, name) if ID.fullmatch(name) else None
    return stored or find_decision_of_pod(reader, namespace, name, kind)


def find_decision_of_pod(reader: MaskedReader, namespace: str, pod: str, kind: str) -> StoredAttempt:
    """Return the decision that `attempt` and `uid` select, by default the latest. Raises StatusError 404."""
    parameters.check_name(namespace, "the namespace")
    parameters.check_name(pod, "the pod's name")
    attempt = parameters.parse_integer("attempt", minimum=1)
    uid = parameters.parse_name("uid")
    stored = reader.decision_of_pod(namespace, pod, uid=uid, attempt=attempt)
    if stored is None:
        raise _decision_not_found(reader, namespace, pod, attempt, uid, kind)
    return stored


def not_found(reader: MaskedReader, message: str, details: dict[str, Any]) -> StatusError:
    """Return a 404 error; its details say `noRecords` while the store holds no record."""
    return StatusError(404, message, details=details if reader.has_records() else details | {"noRecords": True})


def node_not_found(stored: StoredAttempt, node: str) -> StatusError:
    """Return a 404 error for a node that the decision does not know, with similar node names."""
    similar = get_close_matches(node, filter(None, stored.table.names), n=MAX_SIMILAR, cutoff=0.5)
    said = f'node "{node}" was not in the cluster when this decision was taken'
    return StatusError(404, said, details={"name": node, "kind": "nodes", "similar": similar})


def _decision_not_found(
    reader: MaskedReader, namespace: str, pod: str, attempt: int | None, uid: str, kind: str
) -> StatusError:
    """Return a 404 error: for the attempt or UID if the pod is known, otherwise with similar names."""
    details: dict[str, Any] = {"name": pod, "kind": kind}
    whole = f'no decision for pod "{pod}" in namespace "{namespace}"'
    if (attempt is not None or uid) and reader.decision_of_pod(namespace, pod):
        narrowed = [f"attempt {attempt}"] * (attempt is not None) + [f"UID {uid}"] * bool(uid)
        return StatusError(404, f"{whole} with {' and '.join(narrowed)}", details=details)
    details["similar"] = reader.similar_pods(namespace, pod)
    elsewhere = reader.other_namespaces(namespace, pod)
    if elsewhere:
        details["otherNamespaces"] = elsewhere
    return not_found(reader, whole, details)
