"""Routes that combine a few named decisions: the history of a pod, and comparisons of two pods or two nodes.

Owns: routes, parameters, and which decisions are read. Does not own: documents (`herodotus_record`), SQL (`store`),
masking (`masked_reader`).

Invariant: an answer reads at most MAX_ATTEMPTS decisions.
"""

from __future__ import annotations

from typing import Final

from flask import Blueprint, Response

from herodotus_endpoint import parameters
from herodotus_endpoint.api.explanations import View, find_decision_of_pod, node_not_found
from herodotus_endpoint.api.masked_reader import MaskedReader
from herodotus_endpoint.api.resources import PREFIX
from herodotus_endpoint.errors import StatusError, json_response
from herodotus_endpoint.store import StoredAttempt
from herodotus_record.comparisons import build_node_comparison, build_pod_comparison
from herodotus_record.histories import build_pod_history

ATTEMPTS: Final = 20  # the default: about one screen
MAX_ATTEMPTS: Final = 100  # a decision of 5,000 nodes takes 20 ms to read


def blueprint(reader: MaskedReader) -> Blueprint:
    """Return the Flask blueprint of the routes for pod histories, pod comparisons and node comparisons."""
    views = ComparisonViews(reader)
    routes = Blueprint("comparisons", __name__, url_prefix=PREFIX)
    for rule, view in views.routes().items():
        routes.add_url_rule(rule, view.__name__, view, methods=["GET"], provide_automatic_options=False)
    return routes


class ComparisonViews:
    """Flask views of pod histories, pod comparisons and node comparisons."""

    def __init__(self, reader: MaskedReader) -> None:
        self._reader = reader

    def routes(self) -> dict[str, View]:
        """Return the view function of each URL rule, relative to the API group's path."""
        return {
            "/namespaces/<namespace>/podhistories/<pod>": self.pod_history,
            "/namespaces/<namespace>/podcomparisons/<pod>": self.pod_comparison,
            "/namespaces/<namespace>/nodecomparisons/<pod>": self.node_comparison,
        }

    def pod_history(self, namespace: str, pod: str) -> Response:
        """Return the PodHistory document: a pod's newest `limit` attempts, oldest first.

        `limit` and `uid` are query parameters. Without `uid`, the attempts are those of the pod's latest UID.
        """
        parameters.reject_unknown("limit", "uid", "cluster")
        limit = parameters.parse_integer("limit", minimum=1, maximum=MAX_ATTEMPTS) or ATTEMPTS
        last = find_decision_of_pod(self._reader, namespace, pod, "podhistories")
        first = max(1, last.attempts - limit + 1)
        uid = last.decision.pod.uid
        earlier = [
            self._reader.decision_of_pod(namespace, pod, uid=uid, attempt=n) for n in range(first, last.attempts)
        ]
        attempts = [*(stored for stored in earlier if stored is not None), last]
        return json_response(build_pod_history(attempts, first=first, total=last.attempts))

    def pod_comparison(self, namespace: str, pod: str) -> Response:
        """Return the PodComparison document of the latest attempts of two pods in one namespace.

        The path names the first pod, the query parameter `with` the second.
        """
        parameters.reject_unknown("with", "cluster")
        other = parameters.parse_name("with")
        if not other:
            raise StatusError(400, "with must name another pod")
        pods = [find_decision_of_pod(self._reader, namespace, name, "podcomparisons") for name in (pod, other)]
        document = build_pod_comparison(pods)
        for side, stored in zip(document["pods"], pods, strict=True):
            side["attempt"] |= _attempt_position(stored)
        return json_response(document)

    def node_comparison(self, namespace: str, pod: str) -> Response:
        """Return the NodeComparison document of two nodes in one attempt of a pod.

        The query parameters `a` and `b` name the nodes. The parameters `attempt` and `uid` select the attempt, by
        default the latest.
        """
        parameters.reject_unknown("a", "b", "attempt", "uid", "cluster")
        nodes = parameters.parse_name("a"), parameters.parse_name("b")
        if not all(nodes) or nodes[0] == nodes[1]:
            raise StatusError(400, "a and b must name two nodes")
        stored = find_decision_of_pod(self._reader, namespace, pod, "nodecomparisons")
        try:
            document = build_node_comparison(stored, nodes)
        except KeyError as e:
            raise node_not_found(stored, str(e.args[0])) from e
        document["attempt"] |= _attempt_position(stored)
        return json_response(document)


def _attempt_position(stored: StoredAttempt) -> dict[str, int]:
    return {"ordinal": stored.ordinal, "attempts": stored.attempts}
