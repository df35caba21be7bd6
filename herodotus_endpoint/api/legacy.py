"""Routes `GET /pod` and `GET /node` of the first Herodotus, with its JSON format and semantics.

Owns: both documents. Does not own: counting (`store.counters`).

The semantics are those of a scheduler that stops at the first filter that fails on a node. Status 0 marks the filter
that failed first, 2 every later filter, 1 a filter that passed; a filter after the first failure does not count as an
attempt. A filter with nothing to check for the pod passes. Scores are weighted; a node that was never scored is
unknown.

Errors of the first version are not reproduced: numbers are counted instead of parsed from metrics text (which read
1.2e+06 as 1); a missing number is 0 instead of -1; a node that was not evaluated has no statuses instead of failing
every filter; the answer for a pod covers its latest attempt only, instead of a mixture with older attempts and with
deleted pods of the same name; errors are Status objects with HTTP status codes.

Invariant: the format does not change any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from flask import Blueprint, Response

from herodotus_answers.explain import weigh_scores
from herodotus_answers.node import CounterName
from herodotus_endpoint.api.masked_reader import MaskedReader
from herodotus_endpoint.errors import StatusError, json_response
from herodotus_endpoint.parameters import CLUSTER, NameParameter
from herodotus_endpoint.resources import EXPLANATION, HISTORY
from herodotus_endpoint.routing import READ_ERRORS, RequiredRight, Route, build_blueprint, declare
from herodotus_record.model import Decision, Evaluation, NodeTable

Json = dict[str, Any]

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

FAILED, PASSED, SKIPPED = 0, 1, 2
PATHS: Final = ("/pod", "/node")

_NAME: Final = NameParameter("name", "A name.", missing="parameter 'name' is missing")
_NAMESPACE: Final = NameParameter("namespace", "A namespace.", missing="parameter 'namespace' is missing")


def blueprint(reader: MaskedReader) -> Blueprint:
    """Return the Flask blueprint of the routes `GET /pod` and `GET /node`."""

    @declare(
        Route(
            "GET",
            "/pod",
            "legacyPod",
            "The first Herodotus' answer for a pod.",
            right=RequiredRight("get", EXPLANATION, "name"),
            parameters=(_NAME, _NAMESPACE, CLUSTER),
            errors=(*READ_ERRORS, 404),
        )
    )
    def pod() -> Response:
        name, namespace = _NAME.parse(), _NAMESPACE.parse()
        stored = reader.decision_of_pod(namespace, name)
        answer = build_pod_document(stored.decision, stored.table) if stored else None
        if not answer:
            raise StatusError(404, f'no filter statuses or scores for pod "{name}" in namespace "{namespace}"')
        return json_response(answer)

    @declare(
        Route(
            "GET",
            "/node",
            "legacyNode",
            "The first Herodotus' answer for a node.",
            right=RequiredRight("get", HISTORY, "name"),
            parameters=(_NAME, CLUSTER),
            errors=(*READ_ERRORS, 404),
        )
    )
    def node() -> Response:
        name = _NAME.parse()
        facts = reader.sum_node_history(name)
        if facts is None or not facts.counters[CounterName("scored")]:
            raise StatusError(404, f'node "{name}" was never scored')
        return json_response(build_node_document(facts.counters))

    return build_blueprint("legacy", (pod, node))


def ignore_path_case(application: WSGIApplication) -> WSGIApplication:
    """Wrap a WSGI application so that it also accepts the paths /pod and /node in other case, such as /POD.

    The first version of Herodotus compared paths in lower case.
    """

    def lowered(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "").lower()
        return application(environ | {"PATH_INFO": path} if path in PATHS else environ, start_response)

    return lowered


def build_pod_document(decision: Decision, table: NodeTable) -> Json | None:
    """Return the response document of `GET /pod`: the pod's filter statuses and weighted scores by node.

    The result is None if no node was filtered or scored.
    """
    slots = [slot for slot, e in enumerate(decision.evaluation) if e == Evaluation.EVALUATED]
    statuses = {table.names[slot]: _statuses(decision, slot) for slot in slots}
    scores = {
        table.names[slot]: {plugin: float(points) for plugin, points in weigh_scores(decision, slot).items()}
        for slot in slots
        if decision.rank[slot] and len(decision.totals)
    }
    if not statuses and not scores:
        return None
    name = decision.pod.name
    return {"filter_scores": {name: scores}, "filter_status": {name: statuses}, "skipped_scoring": not scores}


def build_node_document(c: Counter[CounterName]) -> Json:
    """Return the response document of `GET /node` from a node's counters over its whole stored history."""
    reached = [name.plugin for name in c if name.counter == "filter_reached"]
    scored = [name.plugin for name in c if name.counter == "score"]
    return {
        "node_score_total": c[CounterName("total")],
        "node_score_attempts": c[CounterName("scored")],
        "node_score_plugin_total": {plugin: str(c[CounterName("score", plugin)]) for plugin in scored},
        "node_filter_pass": {
            p: c[CounterName("filter_reached", p)] - c[CounterName("filter_blocked", p)] for p in reached
        },
        "node_filter_attempts": {p: c[CounterName("filter_reached", p)] for p in reached},
        "node_eligible_num": c[CounterName("feasible")],
        "node_eligible_check_num": c[CounterName("evaluated")],
    }


def _statuses(decision: Decision, slot: int) -> dict[str, int]:
    """Return the status by filter (FAILED, PASSED or SKIPPED) of the node at index `slot` of the decision's columns.

    As in a scheduler that stops at the first failure, every filter after the failed one is SKIPPED.
    """
    statuses, failed = {}, False
    for f in decision.filters:
        verdict = f.verdicts[f.ids[slot] if len(f.ids) and not f.skipped else 0]
        fails = verdict.rejects_node
        statuses[f.plugin] = SKIPPED if failed else FAILED if fails else PASSED
        failed = failed or fails
    return statuses
