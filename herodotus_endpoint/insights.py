"""The answers made of several decisions of named pods: their attempts, and two of them side by side.

Owns: routes, parameters, which decisions are asked for. Does not own: documents (`herodotus_record`), statements
(`store`), who may see what (`questions`).

Invariant: an answer reads no more than MAX_ATTEMPTS decisions.
"""

from __future__ import annotations

from typing import Final

from flask import Blueprint, Response

from herodotus_endpoint import parameters
from herodotus_endpoint.errors import ApiError, json_response
from herodotus_endpoint.kubeapi.resources import PREFIX
from herodotus_endpoint.queries import View, no_node, of_pod
from herodotus_endpoint.questions import Questions
from herodotus_endpoint.store import Stored
from herodotus_record.comparisons import node_comparison, pod_comparison
from herodotus_record.histories import pod_history

ATTEMPTS: Final = 20  # a screen's worth
MAX_ATTEMPTS: Final = 100  # a decision of 5,000 nodes takes 20 ms to read


def blueprint(questions: Questions) -> Blueprint:
    """Every route."""
    insights = Insights(questions)
    routes = Blueprint("insights", __name__, url_prefix=PREFIX)
    for rule, view in insights.routes().items():
        routes.add_url_rule(rule, view.__name__, view, methods=["GET"], provide_automatic_options=False)
    return routes


class Insights:
    """The views."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    def routes(self) -> dict[str, View]:
        """Path to view."""
        return {
            "/namespaces/<namespace>/podhistories/<pod>": self.pod_history,
            "/namespaces/<namespace>/podcomparisons/<pod>": self.pod_comparison,
            "/namespaces/<namespace>/nodecomparisons/<pod>": self.node_comparison,
        }

    def pod_history(self, namespace: str, pod: str) -> Response:
        """The newest attempts of a pod, at most `limit`, oldest first; of its latest UID unless `uid` is given."""
        parameters.known("limit", "uid", "cluster")
        limit = parameters.integer("limit", least=1, most=MAX_ATTEMPTS) or ATTEMPTS
        last = of_pod(self._questions, namespace, pod, "podhistories")
        first = max(1, last.attempts - limit + 1)
        uid, cluster = last.decision.pod.uid, last.decision.key.cluster
        earlier = [
            self._questions.decision_of_pod(namespace, pod, uid=uid, attempt=n, cluster=cluster)
            for n in range(first, last.attempts)
        ]
        attempts = [*(stored for stored in earlier if stored is not None), last]
        return json_response(pod_history(attempts, first=first, total=last.attempts))

    def pod_comparison(self, namespace: str, pod: str) -> Response:
        """The latest attempts of two pods of a namespace: the one of the path, and `with`."""
        parameters.known("with", "cluster")
        other = parameters.text("with")
        if not other:
            raise ApiError(400, "with must name another pod")
        pods = [of_pod(self._questions, namespace, name, "podcomparisons") for name in (pod, other)]
        document = pod_comparison(pods)
        for side, stored in zip(document["pods"], pods, strict=True):
            side["attempt"] |= _place(stored)
        return json_response(document)

    def node_comparison(self, namespace: str, pod: str) -> Response:
        """Two nodes, `a` and `b`, in one attempt of a pod."""
        parameters.known("a", "b", "attempt", "uid", "cluster")
        nodes = parameters.text("a"), parameters.text("b")
        if not all(nodes) or nodes[0] == nodes[1]:
            raise ApiError(400, "a and b must name two nodes")
        stored = of_pod(self._questions, namespace, pod, "nodecomparisons")
        try:
            document = node_comparison(stored, nodes)
        except KeyError as e:
            raise no_node(stored, str(e.args[0])) from e
        document["attempt"] |= _place(stored)
        return json_response(document)


def _place(stored: Stored) -> dict[str, int]:
    return {"ordinal": stored.ordinal, "attempts": stored.attempts}
