"""The answers made of many decisions: which pods wait, where a workload went, which nodes win, who agrees.

Owns: routes, parameters, which decisions make up an answer, and how many are read at most. Does not own: documents
(`herodotus_record`), statements (`store`), who may see what (`questions`).

Rows of a list cost microseconds, a whole decision of 5,000 nodes 4 to 20 ms. So rows find what is asked about, and
whole decisions are read of the newest alone; an answer says of how many.

Invariant: no request reads more than LOOKED_AT rows twice, and MOST_READ decisions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final

from flask import Blueprint, Response, request

from herodotus_endpoint import parameters
from herodotus_endpoint.errors import ApiError, json_response
from herodotus_endpoint.kubeapi.resources import PREFIX
from herodotus_endpoint.kubeapi.selectors import label_conditions
from herodotus_endpoint.placing import PLACED, placement
from herodotus_endpoint.queries import View, unknown
from herodotus_endpoint.questions import Questions
from herodotus_endpoint.settings import Settings
from herodotus_endpoint.store import Stored, Wait
from herodotus_endpoint.store.labels import read
from herodotus_endpoint.store.listing import AnyCondition, Condition, Unsuccessful
from herodotus_endpoint.store.reader import SIMILAR
from herodotus_endpoint.store.schema import UNSUCCESSFUL
from herodotus_record.agreements import Compared, agreements
from herodotus_record.attempts import Attempt, attempts
from herodotus_record.balance import UnknownPluginError, balance
from herodotus_record.headlines import headline
from herodotus_record.model import Agreement
from herodotus_record.pending import Waiting, pending_pods
from herodotus_record.placements import workload_placement

LOOKED_AT: Final = 5_000  # rows: some tens of milliseconds
PENDING_TOLD: Final = 500  # pods of an answer, 0.6 kB each
READ: Final = 100  # whole decisions, of pending pods and of placements
SAMPLE: Final = 200  # decisions weighed again: at 5,000 nodes some seconds
MOST_READ: Final = 1_000
DAY_US: Final = 86_400_000_000
_KIND_NAME: Final = re.compile(r"([A-Za-z]+)\.([a-z0-9][a-z0-9.-]*)")
_WEIGHT: Final = re.compile(r"([^=,]+)=([0-9]{1,6})")

Row = Any  # a row of a list: a decision without its frame


def blueprint(questions: Questions, settings: Settings) -> Blueprint:
    """Every route."""
    routes = Blueprint("surveys", __name__, url_prefix=PREFIX)
    for rule, view in Surveys(questions, settings).routes().items():
        routes.add_url_rule(rule, view.__name__, view, methods=["GET"], provide_automatic_options=False)
    return routes


class Surveys:
    """The views."""

    def __init__(self, questions: Questions, settings: Settings) -> None:
        self._questions = questions
        self._clock = settings.clock

    def routes(self) -> dict[str, View]:
        """Path to view."""
        return {
            "/pendingpods": self.pending,
            "/namespaces/<namespace>/pendingpods": self.pending,
            "/namespaces/<namespace>/workloadplacements/<workload>": self.workload,
            "/balances": self.balance,
            "/agreements": self.agreements,
            "/namespaces/<namespace>/agreements": self.agreements,
        }

    def pending(self, namespace: str = "") -> Response:
        """The pods whose last attempt found no node; when they are tried again, for the newest READ of them."""
        parameters.known("cluster", "labelSelector")
        within = self._within(namespace)
        failed = self._rows([*within, Unsuccessful()])
        placed = self._rows([*within, *_named(failed), _PLACED]) if failed else []
        waiting = [(uid, row) for uid, row in _latest([*failed, *placed]).items() if row.state in UNSUCCESSFUL]
        waits = self._questions.waits([row.id for _, row in waiting[:READ]])
        told = [_waiting(uid, row, waits.get(row.id)) for uid, row in waiting[:PENDING_TOLD]]
        now_us = int(self._clock() * 1e6)
        return json_response(pending_pods(told, now_us=now_us, omitted=len(waiting) - len(told), namespace=namespace))

    def workload(self, namespace: str, workload: str) -> Response:
        """Where the pods of a workload went; `workload` is KIND.NAME. What decided is told of the newest READ."""
        parameters.known("since", "cluster", "labelSelector")
        match = _KIND_NAME.fullmatch(parameters.name(workload, "the workload's name"))
        if not match:
            raise ApiError(400, f"{workload[:60]!r} is not a workload: write KIND.NAME, such as deployment.web")
        kind, name = match.groups()
        since_us = self._since()
        rows = self._rows(self._within(namespace))
        last = [row for row in _latest(rows).values() if row.started_us >= since_us and _belongs(row, kind, name)]
        if not last:
            raise self._no_placement(namespace, kind, name, rows)
        read = {row.id: self._questions.decision_by_id(row.namespace, row.decision_id) for row in last[:READ]}
        placements = [placement(row, read.get(row.id)) for row in last]
        complete = len(rows) < LOOKED_AT or rows[-1].started_us < since_us
        shown = f"{_KINDS.get(kind.lower(), kind)}/{name}"
        document = workload_placement(
            namespace, shown, placements, since_us=since_us, nodes_total=last[0].nodes_total, complete=complete
        )
        return json_response(document)

    def balance(self) -> Response:
        """Which nodes won; with `weights` (PLUGIN=N,…) also who would have. Of the newest `limit` placed decisions."""
        parameters.known("since", "limit", "weights", "profile", "cluster", "labelSelector")
        weights = _weights(parameters.text("weights"))
        limit = parameters.integer("limit", least=1, most=MOST_READ) or SAMPLE
        since_us, profile = self._since(), parameters.text("profile")
        conditions = [*self._within(""), _PLACED, *([Condition("profile", (profile,))] if profile else [])]
        found = _attempts(self._rows(conditions, limit + 1))
        rows = [attempt.record for attempt in found if attempt.record.started_us >= since_us]
        sample = list(self._read(rows[:limit]))
        until_us = int(self._clock() * 1e6)
        complete = len(rows) == len(sample)  # a summary has not the scores of all nodes
        try:
            document = balance(sample, weights, since_us=since_us, until_us=until_us, complete=complete)
        except UnknownPluginError as e:
            raise ApiError(400, str(e)) from e
        return json_response(document)

    def agreements(self, namespace: str = "") -> Response:
        """How the outcomes of other schedulers compare with what was reconstructed; the newest READ disagreements."""
        parameters.known("since", "profile", "cluster", "labelSelector")
        since_us, profile = self._since(), parameters.text("profile")
        rows = self._rows(
            [*self._within(namespace), _COMPARED, *([Condition("profile", (profile,))] if profile else [])]
        )
        within = [row for row in rows if row.started_us >= since_us]
        disagreeing = [row for row in within if row.agreement == Agreement.DISAGREE.value]
        document = agreements(
            [_compared(row) for row in within],
            [self._with_headline(row) for row in disagreeing[:READ]],
            since_us=since_us,
            until_us=int(self._clock() * 1e6),
            complete=len(rows) < LOOKED_AT or len(within) < len(rows),
            omitted=max(0, len(disagreeing) - READ),
            namespace=namespace,
        )
        return json_response(document)

    def _with_headline(self, row: Row) -> Compared:
        stored = self._questions.decision_by_id(row.namespace, row.decision_id)
        return replace(_compared(row), headline=None if stored is None else headline(stored.decision, stored.table))

    def _read(self, rows: Sequence[Row]) -> Iterator[Stored]:
        for row in rows:
            stored = self._questions.decision_by_id(row.namespace, row.decision_id)
            if stored is not None and stored.decision.chosen is not None and not stored.decision.summary:
                yield stored

    def _rows(self, conditions: Sequence[AnyCondition], limit: int = LOOKED_AT) -> list[Row]:
        return self._questions.listing.decisions(conditions, None, limit)

    def _within(self, namespace: str) -> list[AnyCondition]:
        """What every answer is of: the namespace and cluster asked for, pods with the labels asked for."""
        cluster = parameters.text("cluster")
        asked = {"namespace": parameters.name(namespace, "the namespace"), "cluster": cluster}
        within: list[AnyCondition] = [Condition(column, (value,)) for column, value in asked.items() if value]
        return within + label_conditions(request.args.get("labelSelector", ""))

    def _since(self) -> int:
        since_us = parameters.since("since", self._clock)
        return int(self._clock() * 1e6) - DAY_US if since_us is None else since_us

    def _no_placement(self, namespace: str, kind: str, name: str, rows: Sequence[Row]) -> ApiError:
        owners = {row.owner.partition("/")[2] for row in rows if row.owner}
        close = get_close_matches(name, owners | {owner.rpartition("-")[0] for owner in owners}, n=SIMILAR, cutoff=0.5)
        details = {"name": name, "kind": "workloadplacements", "similar": close}
        return unknown(self._questions, f'no decision for {kind} "{name}" in namespace "{namespace}"', details)


_PLACED: Final = Condition("state", PLACED)
_COMPARED: Final = Condition("agreement", (None,), negated=True)
_KINDS: Final = {
    "deployment": "Deployment",
    "replicaset": "ReplicaSet",
    "statefulset": "StatefulSet",
    "daemonset": "DaemonSet",
    "job": "Job",
    "cronjob": "CronJob",
    "pod": "Pod",
}
_HASH: Final = "pod-template-hash"
_MADE_BY: Final = {"Deployment": "ReplicaSet", "CronJob": "Job"}  # what owns the pods of a kind that owns none itself


def _belongs(row: Row, kind: str, name: str) -> bool:
    """Whether a row's pod is the workload's: by its owner, or by the owner that a Deployment or CronJob makes.

    Those are named after it, with a hash or a time behind; the record does not hold who owns the owner. A Deployment's
    pods tell the hash by a label.
    """
    kind = _KINDS.get(kind.lower(), kind)
    if kind == "Pod":
        return row.owner is None and row.pod == name
    owner_kind, _, owner = (row.owner or "").partition("/")
    if _MADE_BY.get(kind) != owner_kind:
        return (owner_kind, owner) == (kind, name)
    made = read(row.labels).get(_HASH)
    return owner == f"{name}-{made}" if made else bool(re.fullmatch(rf"{re.escape(name)}-[a-z0-9]{{5,10}}", owner))


def _latest(rows: Sequence[Row]) -> dict[str, Row]:
    """The attempt that began last, by its pod's UID, the newest first."""
    found: dict[str, Row] = {}
    for attempt in _attempts(rows):
        found.setdefault(attempt.uid, attempt.record)
    return found


def _attempts(rows: Sequence[Row]) -> list[Attempt]:
    """Each once, whoever tells of it, the one that began last first: what was imported came in later than it began."""
    return attempts(rows)[::-1]


def _named(rows: Sequence[Row]) -> list[Condition]:
    """Rows of the same pods, for which there is an index by name."""
    return [Condition("pod", tuple({row.pod for row in rows}))]


def _waiting(uid: str, row: Row, wait: Wait | None) -> Waiting:
    return Waiting(
        namespace=row.namespace,
        pod=row.pod,
        uid=uid,
        owner=row.owner,
        profile=row.profile,
        state=row.state,
        attempt=row.attempt,
        started_us=row.started_us,
        message=row.message,
        decision_id=row.decision_id,
        created_us=wait.created_us if wait else None,
        retry=wait.retry if wait else None,
    )


def _compared(row: Row) -> Compared:
    return Compared(
        namespace=row.namespace,
        pod=row.pod,
        scheduler=row.profile,
        agreement=row.agreement,
        cause=row.cause,
        node=row.node,
        started_us=row.started_us,
        decision_id=row.decision_id,
    )


def _weights(text: str) -> dict[str, int]:
    """`PLUGIN=N,PLUGIN=N` as a mapping; 400 for anything else."""
    found: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        match = _WEIGHT.fullmatch(part.strip())
        if not match:
            raise ApiError(400, f"weights must be PLUGIN=NUMBER,…, not {part[:60]!r}")
        found[match[1]] = int(match[2])
    return found
