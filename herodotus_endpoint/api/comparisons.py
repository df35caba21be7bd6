"""Routes that combine a few named decisions: the history of a pod, and comparisons of two pods or two nodes.

Owns: routes, parameters, and which decisions are read. Does not own: documents (`herodotus_record`), SQL (`store`),
masking (`masked_reader`).

Invariant: an answer reads at most MAX_ATTEMPTS decisions.
"""

from __future__ import annotations

from typing import Final

from flask import Blueprint, Response

from herodotus_answers.comparison import ComparedAttempt, build_node_comparison, build_pod_comparison
from herodotus_answers.pod_history import build_pod_history
from herodotus_endpoint.api.explanations import find_decision_of_pod, find_decisions_of_pod, node_not_found
from herodotus_endpoint.api.masked_reader import MaskedReader
from herodotus_endpoint.errors import StatusError, json_response
from herodotus_endpoint.parameters import ATTEMPT, CLUSTER, UID, IntegerParameter, NameParameter
from herodotus_endpoint.resources import DECISION, NODE_COMPARISON, POD_HISTORY, PREFIX
from herodotus_endpoint.routing import READ_ERRORS, RequiredRight, Route, build_blueprint, declare, list_views
from herodotus_endpoint.store import StoredAttempt

ATTEMPTS: Final = 20  # the default: about one screen
MAX_ATTEMPTS: Final = 100  # a decision of 5,000 nodes takes 20 ms to read

_LIMIT: Final = IntegerParameter(
    "limit", "Maximum number of attempts.", default=ATTEMPTS, minimum=1, maximum=MAX_ATTEMPTS
)
_OTHER_POD: Final = NameParameter("with", "The other pod.", missing="with must name another pod")
_OTHER_NAMESPACE: Final = NameParameter("withNamespace", "Namespace of the other pod [that of the first].")
_OTHER_ATTEMPT: Final = IntegerParameter(
    "withAttempt", "Number of the other pod's attempt, ordered by start [the last].", minimum=1
)
_NODE_A: Final = NameParameter("a", "One node.", missing="a and b must name two nodes")
_NODE_B: Final = NameParameter("b", "The other node.", missing=_NODE_A.missing)


def blueprint(reader: MaskedReader) -> Blueprint:
    """Return the Flask blueprint of the routes for pod histories, pod comparisons and node comparisons."""
    return build_blueprint("comparisons", list_views(ComparisonViews(reader)))


class ComparisonViews:
    """Flask views of pod histories, pod comparisons and node comparisons."""

    def __init__(self, reader: MaskedReader) -> None:
        self._reader = reader

    @declare(
        Route(
            "GET",
            f"{PREFIX}/namespaces/<namespace>/podhistories/<pod>",
            "getPodHistory",
            "A pod's attempts, and what changed between them.",
            right=RequiredRight("get", POD_HISTORY, "pod"),
            parameters=(_LIMIT, UID, CLUSTER),
            errors=(*READ_ERRORS, 404),
        )
    )
    def pod_history(self, namespace: str, pod: str) -> Response:
        """Return the PodHistory document: a pod's newest `limit` attempts, oldest first.

        `limit` and `uid` are query parameters. Without `uid`, the attempts are those of the pod's latest UID.
        """
        limit = _LIMIT.parse()
        attempts = find_decisions_of_pod(self._reader, namespace, pod, "podhistories", last=limit)
        last = attempts[-1]
        document = build_pod_history(attempts, [(each.ordinal, each.last_ordinal) for each in attempts])
        if last.archived:
            document["archive"] = {"day": last.archived}
        return json_response(document)

    @declare(
        Route(
            "GET",
            f"{PREFIX}/namespaces/<namespace>/podcomparisons/<pod>",
            "getPodComparison",
            "Two pods side by side.",
            right=RequiredRight("list", DECISION),  # the other pod may be any of the namespace
            parameters=(_OTHER_POD, _OTHER_NAMESPACE, ATTEMPT, _OTHER_ATTEMPT, CLUSTER),
            errors=(*READ_ERRORS, 404),
        )
    )
    def pod_comparison(self, namespace: str, pod: str) -> Response:
        """Return the PodComparison document of two pods, or of two attempts at one pod.

        The path names the first pod, the query parameters `with` and `withNamespace` the second, whose namespace the
        reader must see, too. `attempt` and `withAttempt` select their attempts, by default the latest.
        """
        other, other_namespace = _OTHER_POD.parse(), _OTHER_NAMESPACE.parse() or namespace
        if other_namespace != namespace and not self._reader.sees(other_namespace):
            raise StatusError(403, f'you may not get decisions in the namespace "{other_namespace}"')
        named = ((namespace, pod, ATTEMPT), (other_namespace, other, _OTHER_ATTEMPT))
        pods = [
            find_decision_of_pod(self._reader, where, name, "podcomparisons", attempt) for where, name, attempt in named
        ]
        is_one = pods[0].decision.pod.uid == pods[1].decision.pod.uid
        if is_one and pods[0].ordinal == pods[1].ordinal:
            raise StatusError(400, _describe_same_attempt(pods[0]))
        document = build_pod_comparison(pods, attempts=[each.ordinal for each in pods] if is_one else ())
        for side, stored in zip(document["pods"], pods, strict=True):
            _add_position(side["attempt"], stored)
        return json_response(document)

    @declare(
        Route(
            "GET",
            f"{PREFIX}/namespaces/<namespace>/nodecomparisons/<pod>",
            "getNodeComparison",
            "Two nodes for one pod.",
            right=RequiredRight("get", NODE_COMPARISON, "pod"),
            parameters=(_NODE_A, _NODE_B, ATTEMPT, UID, CLUSTER),
            errors=(*READ_ERRORS, 404),
        )
    )
    def node_comparison(self, namespace: str, pod: str) -> Response:
        """Return the NodeComparison document of two nodes in one attempt of a pod.

        The query parameters `a` and `b` name the nodes. The parameters `attempt` and `uid` select the attempt, by
        default the latest.
        """
        nodes = _NODE_A.parse(), _NODE_B.parse()
        if nodes[0] == nodes[1]:
            raise StatusError(400, _NODE_A.missing)
        stored = find_decision_of_pod(self._reader, namespace, pod, "nodecomparisons")
        try:
            document = build_node_comparison(stored, nodes)
        except KeyError as e:
            raise node_not_found(stored, str(e.args[0])) from e
        _add_position(document["attempt"], stored)
        return json_response(document)


def _describe_same_attempt(stored: StoredAttempt) -> str:
    """Return why a record of a pod cannot be compared with itself."""
    first, last = stored.ordinal, stored.last_ordinal
    if first == last:
        return "one attempt at one pod cannot be compared: attempt and withAttempt must differ"
    return f"attempts {first} to {last} had the same result and are one record: nothing changed between them"


def _add_position(attempt: ComparedAttempt, stored: StoredAttempt) -> None:
    """Set which of the pod's stored attempts the record stands for, and `attempts`, their number."""
    attempt["ordinal"], attempt["lastOrdinal"], attempt["attempts"] = (
        stored.ordinal,
        stored.last_ordinal,
        stored.attempts,
    )
