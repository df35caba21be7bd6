"""`GET /pod` and `GET /node`: the first Herodotus' routes, in its JSON shape and with its meaning.

Owns: those two documents. Does not own: counting (`store.counters`).

Its meaning: a scheduler that stops at a node's first failing filter. 0 is the filter that failed first, 2 every later
one, 1 one that passed; a filter after the first failure is no attempt. A filter that had nothing to check for the pod
passes, as it did then. Scores are weighted; a node that was never scored is unknown.

What it did plainly wrong is done otherwise: numbers are counted, not parsed out of metrics text (it read 1.2e+06 as 1);
what is missing is 0, not -1; a node that was not evaluated has no statuses, instead of failing every filter; a pod's
answer is of its latest attempt alone, instead of a mixture with older ones and with deleted pods of the same name; and
errors are the Status envelope, with its codes.

Invariant: the shapes do not change any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from flask import Blueprint, Response, request

from herodotus_endpoint import parameters
from herodotus_endpoint.errors import ApiError, json_response
from herodotus_endpoint.questions import Questions
from herodotus_endpoint.store.counters import Name
from herodotus_record.explain import Json, weighted
from herodotus_record.model import Decision, Evaluation, NodeTable

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

FAILED, PASSED, SKIPPED = 0, 1, 2
PATHS: Final = ("/pod", "/node")


def blueprint(questions: Questions) -> Blueprint:
    """Both routes."""
    routes = Blueprint("legacy", __name__)

    @routes.get("/pod", provide_automatic_options=False)
    def pod() -> Response:
        parameters.known("name", "namespace")
        name, namespace = _required("name"), _required("namespace")
        stored = questions.decision_of_pod(namespace, name)
        answer = pod_document(stored.decision, stored.table) if stored else None
        if not answer:
            raise ApiError(404, f'no filter statuses or scores for pod "{name}" in namespace "{namespace}"')
        return json_response(answer)

    @routes.get("/node", provide_automatic_options=False)
    def node() -> Response:
        parameters.known("name")
        name = _required("name")
        facts = questions.node_facts(name)
        if facts is None or not facts.counters[Name("scored")]:
            raise ApiError(404, f'node "{name}" was never scored')
        return json_response(node_document(facts.counters))

    return routes


def in_any_case(application: WSGIApplication) -> WSGIApplication:
    """`/POD` and `/Node` too, as then: it compared paths in lower case."""

    def lowered(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "").lower()
        return application(environ | {"PATH_INFO": path} if path in PATHS else environ, start_response)

    return lowered


def pod_document(decision: Decision, table: NodeTable) -> Json | None:
    """`/pod`; None when no node was filtered or scored."""
    slots = [slot for slot, e in enumerate(decision.evaluation) if e == Evaluation.EVALUATED]
    statuses = {table.names[slot]: _statuses(decision, slot) for slot in slots}
    scores = {
        table.names[slot]: {plugin: float(points) for plugin, points in weighted(decision, slot).items()}
        for slot in slots
        if decision.rank[slot] and len(decision.totals)
    }
    if not statuses and not scores:
        return None
    name = decision.pod.name
    return {"filter_scores": {name: scores}, "filter_status": {name: statuses}, "skipped_scoring": not scores}


def node_document(c: Counter[Name]) -> Json:
    """`/node`: over all histories that are stored."""
    reached = [name.plugin for name in c if name.counter == "filter_reached"]
    scored = [name.plugin for name in c if name.counter == "score"]
    return {
        "node_score_total": c[Name("total")],
        "node_score_attempts": c[Name("scored")],
        "node_score_plugin_total": {plugin: str(c[Name("score", plugin)]) for plugin in scored},
        "node_filter_pass": {p: c[Name("filter_reached", p)] - c[Name("filter_blocked", p)] for p in reached},
        "node_filter_attempts": {p: c[Name("filter_reached", p)] for p in reached},
        "node_eligible_num": c[Name("feasible")],
        "node_eligible_check_num": c[Name("evaluated")],
    }


def _statuses(decision: Decision, slot: int) -> dict[str, int]:
    """Each filter's status, as far as a scheduler that stops at the first failure would have come."""
    statuses, failed = {}, False
    for f in decision.filters:
        verdict = f.verdicts[f.ids[slot] if len(f.ids) and not f.skipped else 0]
        fails = verdict.against
        statuses[f.plugin] = SKIPPED if failed else FAILED if fails else PASSED
        failed = failed or fails
    return statuses


def _required(parameter: str) -> str:
    if not request.args.get(parameter):
        raise ApiError(400, f"parameter {parameter!r} is missing")
    return parameters.text(parameter)
