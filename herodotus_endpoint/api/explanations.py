"""Routes of `/apis/herodotus.dev/v1alpha1/` about one pod, one node or the incarnations; read-only.

Owns: routes, parameters, and the 404 answers with similar names. Does not own: documents (`documents`,
`herodotus_answers.node`), the objects that kubectl lists (`kubeapi`), SQL (`store`).

Invariant: an answer is one snapshot of the store and stays within the limits of its parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Final

from flask import Blueprint, Response

from herodotus_answers.node import HistoryWindow, build_node_history, read_node_resources
from herodotus_answers.service import StatusDetails
from herodotus_endpoint.api import documents
from herodotus_endpoint.api.masked_reader import MaskedReader
from herodotus_endpoint.api.preemptions import find_eviction, find_preemption_before
from herodotus_endpoint.errors import StatusError, json_response
from herodotus_endpoint.parameters import (
    ATTEMPT,
    CLUSTER,
    GET_PARAMETERS,
    SINCE,
    UID,
    UNTIL,
    FlagParameter,
    IntegerParameter,
    NameParameter,
    check_name,
)
from herodotus_endpoint.resources import EXPLANATION, HISTORY, INCARNATION, PREFIX
from herodotus_endpoint.routing import READ_ERRORS, RequiredRight, Route, build_blueprint, declare, list_views
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import StoredAttempt
from herodotus_endpoint.store.reader import MAX_SEARCHED, MAX_SIMILAR
from herodotus_endpoint.store.rollups import BUCKET_US, bucket_of

DEFAULT_WINDOW_S: Final = 24 * 3600
ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_ALL: Final = FlagParameter("all", "Return every node, not only the most relevant ones.")
_COLUMNS: Final = FlagParameter("columns", "Return all nodes as columns, which are compact.")
_NODE: Final = NameParameter("node", "Only this node.")


def blueprint(reader: MaskedReader, settings: ServiceSettings) -> Blueprint:
    """Return the Flask blueprint of the routes for pod explanations, node histories and incarnations."""
    return build_blueprint("explanations", list_views(ExplanationViews(reader, settings)))


class ExplanationViews:
    """Flask views of pod explanations, node histories and incarnations (scheduler processes)."""

    def __init__(self, reader: MaskedReader, settings: ServiceSettings) -> None:
        self._reader = reader
        self._clock = settings.clock

    @declare(
        Route(
            "GET",
            f"{PREFIX}/namespaces/<namespace>/podexplanations/<pod>",
            "getPodExplanation",
            "What happened to a pod.",
            right=RequiredRight("get", EXPLANATION, "pod"),
            parameters=(ATTEMPT, _ALL, _COLUMNS, _NODE, UID, CLUSTER),
            errors=(*READ_ERRORS, 404),
        )
    )
    def pod_explanation(self, namespace: str, pod: str) -> Response:
        """Return the PodExplanation document: what happened to a pod in one scheduling attempt.

        The query parameter `attempt` counts the stored attempts of one pod UID by start, from 1. The response repeats
        it as `attempt.ordinal`; `attempt.number` is the scheduler's count, which restarts with the scheduler. By
        default, the latest attempt and the pod's latest UID are used.

        If `pod` is a decision ID, that decision is used.
        """
        stored = find_decision(self._reader, namespace, pod, "podexplanations")
        node, every_node = _NODE.parse(), _ALL.parse()
        try:
            columns = _COLUMNS.parse()
            answer = documents.build_explanation(stored, every_node=every_node, columns=columns, node=node)
        except KeyError as e:
            raise node_not_found(stored, node) from e
        preemption = find_eviction(self._reader, stored)
        if preemption is not None:
            answer["preemptedBy"] = preemption
        made_room = find_preemption_before(self._reader, stored)
        if made_room is not None:
            answer["madeRoom"] = made_room
        return json_response(answer)

    @declare(
        Route(
            "GET",
            f"{PREFIX}/nodehistories/<node>",
            "getNodeHistory",
            "How often a node was considered, rejected and chosen.",
            right=RequiredRight("get", HISTORY, "node"),
            parameters=(SINCE, CLUSTER, *GET_PARAMETERS),
            errors=(*READ_ERRORS, 404),
        )
    )
    def node_history(self, node: str) -> Response:
        """Return the NodeHistory document: how often a node was considered, rejected and chosen, and why."""
        check_name(node, "the node's name")
        over = parse_window(self._clock)
        since = bucket_of(over.from_us)
        facts = self._reader.sum_node_history(node, from_bucket=since)
        if facts is None:
            details: StatusDetails = {
                "name": node,
                "kind": "nodehistories",
                "similar": self._reader.similar_nodes(node),
            }
            raise not_found(self._reader, f'no decision considered node "{node}"', details)
        recent = self._reader.find_recent_decisions(node)
        share = self._reader.sum_cluster_totals(from_bucket=since)
        answer = build_node_history(node, over, facts, share, recent, searched=MAX_SEARCHED)
        newest = self._reader.newest_decision()
        if newest and node in newest.table.names:
            slot, at_us = newest.table.names.index(node), newest.decision.times.started_us
            answer["resources"] = read_node_resources(newest.table, slot, at_us)
        return json_response(answer)

    @declare(
        Route(
            "GET",
            f"{PREFIX}/incarnations",
            "listIncarnations",
            "Scheduler processes.",
            right=RequiredRight("list", INCARNATION),
            document="IncarnationList",
            parameters=(CLUSTER,),
            errors=READ_ERRORS,
        )
    )
    def incarnations(self) -> Response:
        """Return the list of known scheduler processes (incarnations) with the gaps in their sequence numbers."""
        return json_response(documents.build_incarnations(self._reader.incarnations()))


def parse_window(clock: Callable[[], float]) -> HistoryWindow:
    """Return the window of the query parameters `since`, by default a day ago, and `until`, by default now.

    It begins with the hour of `since`. `clock` returns seconds since 1970.
    """
    now_us = int(clock() * 1e6)
    since_us, until_us = SINCE.parse(clock), UNTIL.parse(clock)
    since_us = now_us - DEFAULT_WINDOW_S * 1_000_000 if since_us is None else since_us
    return HistoryWindow(since_us // BUCKET_US * BUCKET_US, now_us if until_us is None else until_us, BUCKET_US)


def find_decision(reader: MaskedReader, namespace: str, name: str, kind: str) -> StoredAttempt:
    """Return the stored attempt with the decision ID `name`, or else an attempt of the pod called `name`.

    The query parameters `attempt` and `uid` select the pod's attempt, by default the latest. Raises StatusError 404 if
    there is none; `kind` is the resource that the error names.
    """
    check_name(namespace, "the namespace")
    is_id = ID.fullmatch(name) is not None
    stored = reader.decision_by_id(namespace, name) if is_id else None
    if stored is None and is_id:
        stored = reader.archived_decision_by_id(namespace, name)
    return stored or find_decision_of_pod(reader, namespace, name, kind)


def find_decision_of_pod(
    reader: MaskedReader, namespace: str, pod: str, kind: str, attempt: IntegerParameter = ATTEMPT
) -> StoredAttempt:
    """Return the attempt of a pod that the query parameters `attempt` and `uid` select, by default the latest.

    Raises StatusError 404 if there is none; `kind` is the resource that the error names.
    """
    return find_decisions_of_pod(reader, namespace, pod, kind, attempt, last=1)[-1]


def find_decisions_of_pod(
    reader: MaskedReader, namespace: str, pod: str, kind: str, selected: IntegerParameter = ATTEMPT, *, last: int
) -> list[StoredAttempt]:
    """Return the `last` attempts of a pod, ordered by start, that end with the one that the query parameters select.

    These are `attempt` and `uid`. If the database has no decision of the pod, the attempts are those of the archive, if
    there is one. Raises StatusError 404 if there is none; `kind` is the resource that the error names.
    """
    check_name(namespace, "the namespace")
    check_name(pod, "the pod's name")
    attempt, uid = selected.parse() or None, UID.parse()
    attempts = reader.decisions_of_pod(namespace, pod, uid=uid, attempt=attempt, last=last)
    if not attempts and (attempt is None or reader.decision_of_pod(namespace, pod, uid=uid) is None):
        attempts = reader.archived_decisions_of_pod(namespace, pod, uid=uid, attempt=attempt, last=last)
    if not attempts:
        narrowed = [f"attempt {attempt}"] * (attempt is not None) + [f"UID {uid}"] * bool(uid)
        raise _decision_not_found(reader, namespace, pod, " and ".join(narrowed), kind)
    return attempts


def not_found(reader: MaskedReader, message: str, details: StatusDetails) -> StatusError:
    """Return a 404 error with this message and these details.

    If no scheduler of the request's cluster has ever sent records, the details also contain `noRecords`.
    """
    if not reader.has_records():
        details["noRecords"] = True
    return StatusError(404, message, details=details)


def node_not_found(stored: StoredAttempt, node: str) -> StatusError:
    """Return a 404 error that says that a node was not in the cluster in this attempt, with similar node names."""
    similar = get_close_matches(node, filter(None, stored.table.names), n=MAX_SIMILAR, cutoff=0.5)
    message = f'node "{node}" was not in the cluster when this decision was taken'
    return StatusError(404, message, details={"name": node, "kind": "nodes", "similar": similar})


def _decision_not_found(reader: MaskedReader, namespace: str, pod: str, selection: str, kind: str) -> StatusError:
    """Return the 404 error for a pod without a matching decision.

    `selection` names the attempt or UID of the request, or is empty. If the pod has other decisions, the error contains
    it. Otherwise the error suggests similar pod names, and other namespaces with a pod of this name.
    """
    details: StatusDetails = {"name": pod, "kind": kind}
    whole = f'no decision for pod "{pod}" in namespace "{namespace}"'
    if selection and reader.decision_of_pod(namespace, pod):
        return StatusError(404, f"{whole} with {selection}", details=details)
    details["similar"] = reader.similar_pods(namespace, pod)
    elsewhere = reader.other_namespaces(namespace, pod)
    if elsewhere:
        details["otherNamespaces"] = elsewhere
    return not_found(reader, whole, details)
