"""Routes that combine many decisions: pending pods, workload placements, balances, agreements and preemptions.

Owns: routes, parameters, and the selection and number of decisions per answer. Does not own: documents
(`herodotus_record`), SQL (`store`), masking (`masked_reader`).

Reading a row of a list costs microseconds; reading a whole decision of 5,000 nodes costs 4 to 20 ms. Rows therefore
select the pods, and only the newest decisions are read whole. The answer says how many.

Invariant: no request reads more than MAX_ROWS rows twice, nor more than MAX_SAMPLE decisions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import repeat
from typing import Any, Final

from flask import Blueprint, Response

from herodotus_answers.agreements import ComparedOutcome, CoveredTime, build_agreements
from herodotus_answers.balance import UnknownPluginError, build_balance, list_plugins_that_change_winner
from herodotus_answers.explain import PLACED_STATES
from herodotus_answers.headlines import format_headline
from herodotus_answers.pending import PendingPod, build_pending_pods
from herodotus_answers.pod_group import build_pod_group_placement
from herodotus_answers.preemptions import PreemptionEntry, build_preemptions
from herodotus_answers.rejection_sentences import find_short_reason
from herodotus_answers.service import StatusDetails
from herodotus_answers.wording import ShortReason
from herodotus_answers.workload import (
    Placement,
    WorkloadName,
    belongs_to_workload,
    build_workload_placement,
    build_workload_placements,
    find_deciding_factor,
    get_kind_name,
)
from herodotus_endpoint.access.masking import VisibleRow
from herodotus_endpoint.api.explanations import not_found
from herodotus_endpoint.api.masked_reader import MaskedReader, group_rows_by_attempt
from herodotus_endpoint.api.pod_groups import read_pod_group
from herodotus_endpoint.api.preemptions import (
    MAX_PREEMPTION_ROWS,
    MAX_PREEMPTIONS_READ,
    build_visible_preemption,
    find_evictions,
)
from herodotus_endpoint.api.selectors import LABEL_SELECTOR, parse_label_selector
from herodotus_endpoint.errors import StatusError, json_response
from herodotus_endpoint.parameters import CLUSTER, PROFILE, SINCE, UNTIL, IntegerParameter, NameParameter, check_name
from herodotus_endpoint.resources import (
    AGREEMENTS,
    BALANCE,
    DECISION,
    PENDING,
    POD_GROUP,
    PREEMPTIONS,
    PREFIX,
    WORKLOAD,
)
from herodotus_endpoint.routing import READ_ERRORS, RequiredRight, Route, build_blueprint, declare, list_views
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import PodWait, StoredAttempt
from herodotus_endpoint.store.counters import name_workload
from herodotus_endpoint.store.labels import parse_labels
from herodotus_endpoint.store.listing import (
    AnyCondition,
    ColumnCondition,
    PreemptionCondition,
    RowCondition,
    StartCondition,
    UnsuccessfulCondition,
)
from herodotus_endpoint.store.reader import MAX_SIMILAR
from herodotus_endpoint.store.schema import UNSUCCESSFUL
from herodotus_record.attempts import AttemptRecords
from herodotus_record.model import Agreement

MAX_ROWS: Final = 5_000  # reading them takes some tens of milliseconds
MAX_PENDING_PODS: Final = 500  # in one answer, 0.6 kB each
MAX_DECISIONS_READ: Final = 100  # per answer about pending pods or placements
DEFAULT_SAMPLE: Final = 200  # decisions whose totals are recomputed: some seconds at 5,000 nodes
MAX_SAMPLE: Final = 1_000
DAY_US: Final = 86_400_000_000
_KIND_NAME: Final = re.compile(r"([A-Za-z]+)\.([a-z0-9][a-z0-9.-]*)")
_WEIGHT: Final = re.compile(r"([^=,]+)=([0-9]{1,6})")

Json = dict[str, Any]
Row = VisibleRow  # a decision without its frame

_WEIGHTS: Final = NameParameter("weights", "Other weights, such as NodeResourcesFit=5,ImageLocality=0.")
_SAMPLE_SIZE: Final = IntegerParameter(
    "limit", "Maximum number of decisions that are counted.", default=DEFAULT_SAMPLE, minimum=1, maximum=MAX_SAMPLE
)
_PENDING_PODS: Final = Route(
    "GET",
    f"{PREFIX}/namespaces/<namespace>/pendingpods",
    "listPendingPods",
    "Pending pods of a namespace.",
    right=RequiredRight("list", PENDING),
    parameters=(CLUSTER, LABEL_SELECTOR),
    errors=READ_ERRORS,
)
_AGREEMENTS: Final = Route(
    "GET",
    f"{PREFIX}/namespaces/<namespace>/agreements",
    "listAgreements",
    "How other schedulers' outcomes compare with the reconstruction.",
    right=RequiredRight("list", AGREEMENTS),
    parameters=(SINCE, UNTIL, PROFILE, CLUSTER, LABEL_SELECTOR),
    errors=READ_ERRORS,
)
_VICTIM: Final = NameParameter("victim", "Only preemptions that evicted this pod of the namespace.")
_PREEMPTIONS: Final = Route(
    "GET",
    f"{PREFIX}/namespaces/<namespace>/preemptions",
    "listPreemptions",
    "Preemptions by pods of a namespace, and of them.",
    right=RequiredRight("list", PREEMPTIONS),
    parameters=(SINCE, UNTIL, CLUSTER, _VICTIM),
    errors=READ_ERRORS,
)
_WORKLOADS: Final = Route(
    "GET",
    f"{PREFIX}/namespaces/<namespace>/workloadplacements",
    "listWorkloadPlacements",
    "Workloads of a namespace, and how their pods are spread.",
    right=RequiredRight("list", WORKLOAD),
    document="WorkloadPlacements",
    parameters=(SINCE, UNTIL, CLUSTER, LABEL_SELECTOR),
    errors=READ_ERRORS,
)


def blueprint(reader: MaskedReader, settings: ServiceSettings) -> Blueprint:
    """Return the Flask blueprint of the routes whose responses combine many decisions."""
    return build_blueprint("aggregates", list_views(AggregateViews(reader, settings)))


class AggregateViews:
    """Flask views whose responses combine many decisions, such as pending pods and balances."""

    def __init__(self, reader: MaskedReader, settings: ServiceSettings) -> None:
        self._reader = reader
        self._clock = settings.clock

    @declare(_PENDING_PODS, _PENDING_PODS.for_all_namespaces("listAllPendingPods", "Pending pods of all namespaces."))
    def pending(self, namespace: str = "") -> Response:
        """Return the PendingPods document: the pods whose latest attempt was unsuccessful.

        If `namespace` is "", all namespaces count. If no scheduler has ever sent records, so that the list says nothing
        about pods, it has `noRecords`. Retry times are included for the newest MAX_DECISIONS_READ pods.
        """
        within = self._within(namespace)
        failed = self._rows([*within, UnsuccessfulCondition()])
        placed = self._rows([*within, *_same_pod_names(failed), _PLACED]) if failed else []
        waiting = [
            (uid, row) for uid, row in _latest_attempt_by_uid([*failed, *placed]).items() if row.state in UNSUCCESSFUL
        ]
        waits = self._reader.find_pod_waits([row.id for _, row in waiting[:MAX_DECISIONS_READ]])
        given = self._find_reasons([row for _, row in waiting[:MAX_PENDING_PODS]])
        pods = [
            _build_pending_pod(uid, row, waits.get(row.id), given.get(_build_reason_key(row)))
            for uid, row in waiting[:MAX_PENDING_PODS]
        ]
        now_us = int(self._clock() * 1e6)
        document = build_pending_pods(pods, now_us=now_us, omitted=len(waiting) - len(pods), namespace=namespace)
        if not pods and not self._reader.has_records():
            document["noRecords"] = True
        return json_response(document)

    @declare(
        Route(
            "GET",
            f"{PREFIX}/namespaces/<namespace>/workloadplacements/<workload>",
            "getWorkloadPlacement",
            "Where the pods of a workload (KIND.NAME) were placed.",
            right=RequiredRight("get", WORKLOAD, "workload"),
            parameters=(SINCE, CLUSTER, LABEL_SELECTOR),
            errors=(*READ_ERRORS, 404),
        )
    )
    def workload(self, namespace: str, workload: str) -> Response:
        """Return the WorkloadPlacement document: the nodes on which a workload's pods were placed, and why.

        `workload` is KIND.NAME, such as deployment.web. The reasons are included for the newest MAX_DECISIONS_READ
        pods.
        """
        match = _KIND_NAME.fullmatch(check_name(workload, "the workload's name"))
        if not match:
            raise StatusError(400, f"{workload[:60]!r} is not a workload: write KIND.NAME, such as deployment.web")
        kind, name = match.groups()
        since_us = self._since()
        rows = self._rows(self._within(namespace))
        last = [
            row
            for row in _latest_attempt_by_uid(rows).values()
            if row.started_us >= since_us and _belongs_to_workload(row, kind, name)
        ]
        if not last:
            raise self._no_placement(namespace, kind, name, rows)
        read = self._reader.decisions_by_row(last[:MAX_DECISIONS_READ])
        evictions = find_evictions(self._reader, last, namespace)
        pairs = zip(last, [*read, *repeat(None, len(last) - len(read))], strict=True)
        placements = [_build_placement(row, stored, evictions.get(row.pod_uid)) for row, stored in pairs]
        complete = len(rows) < MAX_ROWS or rows[-1].started_us < since_us
        workload_name = f"{get_kind_name(kind)}/{name}"
        document = build_workload_placement(
            WorkloadName(namespace, workload_name),
            placements,
            last[0].nodes_total,
            since_us=since_us,
            complete=complete,
            observed=[_build_compared_outcome(row) for row in last if row.agreement],
        )
        return json_response(document)

    @declare(_WORKLOADS, _WORKLOADS.for_all_namespaces("listAllWorkloadPlacements", "Workloads of all namespaces."))
    def workloads(self, namespace: str = "") -> Response:
        """Return the WorkloadPlacements document: the workloads whose pods were decided, with their numbers of pods.

        If `namespace` is "", all namespaces count.
        """
        since_us = self._since()
        rows = self._rows([*self._within(namespace), *self._ended()])
        last = [row for row in _latest_attempt_by_uid(rows).values() if row.started_us >= since_us]
        evictions = find_evictions(self._reader, last, namespace)
        document = build_workload_placements(
            [_build_placement(row, None, evictions.get(row.pod_uid)) for row in last],
            since_us=since_us,
            complete=len(rows) < MAX_ROWS or rows[-1].started_us < since_us,
            namespace=namespace,
        )
        return json_response(document)

    @declare(
        Route(
            "GET",
            f"{PREFIX}/namespaces/<namespace>/podgroupplacements/<podgroup>",
            "getPodGroupPlacement",
            "How the pods of a PodGroup were placed together, or which of them block it.",
            right=RequiredRight("get", POD_GROUP, "podgroup"),
            parameters=(CLUSTER,),
            errors=(*READ_ERRORS, 404),
        )
    )
    def pod_group(self, namespace: str, podgroup: str) -> Response:
        """Return the PodGroupPlacement document: the last cycle of a group, its members, and what they lack.

        One decision is read for each reason of blocked members.
        """
        name = check_name(podgroup, "the pod group's name")
        rows = self._rows([*self._within(namespace), ColumnCondition("pod_group", (name,))])
        if not rows:
            similar = self._reader.similar_pod_groups(namespace, name)
            details: StatusDetails = {"name": name, "kind": "podgroupplacements", "similar": similar}
            message = f'no decision for pod group "{name}" in namespace "{namespace}"'
            raise not_found(self._reader, message, details)
        return json_response(build_pod_group_placement(read_pod_group(self._reader, namespace, name, rows)))

    @declare(
        Route(
            "GET",
            f"{PREFIX}/balances",
            "listBalances",
            "Which nodes win, and which would win with other weights.",
            # Sums over all pods name no pod, but a labelSelector may select a single pod of any namespace.
            right=RequiredRight("list", BALANCE, instead=(LABEL_SELECTOR, RequiredRight("get", DECISION))),
            parameters=(SINCE, UNTIL, _SAMPLE_SIZE, _WEIGHTS, PROFILE, CLUSTER, LABEL_SELECTOR),
            errors=READ_ERRORS,
        )
    )
    def balance(self) -> Response:
        """Return the Balance document: how often each node was chosen in the newest `limit` placed decisions.

        `limit` and `weights` are query parameters. With `weights` (PLUGIN=N,…), the document also says how often each
        node would have been chosen with these plugin weights.
        """
        weights = _parse_weights(_WEIGHTS.parse())
        limit = _SAMPLE_SIZE.parse()
        since_us, profile = self._since(), PROFILE.parse()
        conditions = [
            *self._within(""),
            *self._ended(),
            _PLACED,
            *([ColumnCondition("profile", (profile,))] if profile else []),
        ]
        attempts = _group_newest_first(self._rows(conditions, limit + 1))
        rows = [attempt.record for attempt in attempts if attempt.record.started_us >= since_us]
        read = self._reader.decisions_by_row(rows[:limit])
        sample = [each for each in read if each and each.decision.chosen is not None and not each.decision.summary]
        until_us = self._until()
        complete = len(rows) == len(sample)  # a summary has not the scores of all nodes
        try:
            document = build_balance(sample, weights, since_us=since_us, until_us=until_us, complete=complete)
        except UnknownPluginError as e:
            raise StatusError(400, str(e)) from e
        return json_response(document)

    @declare(
        _AGREEMENTS,
        _AGREEMENTS.for_all_namespaces(
            "listAllAgreements",
            "How other schedulers' outcomes compare with the reconstruction, in all namespaces.",
        ),
    )
    def agreements(self, namespace: str = "") -> Response:
        """Return the Agreements document: how other schedulers' outcomes compare with the observer's reconstructions.

        It lists the newest MAX_DECISIONS_READ disagreements. If `namespace` is "", all namespaces count.
        """
        since_us, profile = self._since(), PROFILE.parse()
        rows = self._rows(
            [
                *self._within(namespace),
                *self._ended(),
                _COMPARED,
                *([ColumnCondition("profile", (profile,))] if profile else []),
            ]
        )
        within = [row for row in rows if row.started_us >= since_us]
        disagreeing = [row for row in within if row.agreement == Agreement.DISAGREE.value]
        newest = disagreeing[:MAX_DECISIONS_READ]
        document = build_agreements(
            [_build_compared_outcome(row) for row in within],
            list(map(_add_headline, newest, self._reader.decisions_by_row(newest))),
            CoveredTime(since_us, self._until(), len(rows) < MAX_ROWS or len(within) < len(rows)),
            omitted=len(disagreeing) - len(newest),
            namespace=namespace,
        )
        return json_response(document)

    @declare(_PREEMPTIONS, _PREEMPTIONS.for_all_namespaces("listAllPreemptions", "Preemptions in all namespaces."))
    def preemptions(self, namespace: str = "") -> Response:
        """Return the Preemptions document: which pods were evicted for which others, the newest first.

        A preemption counts for the namespaces of its preemptor and of its victims; if `namespace` is "", all count. A
        preemptor whose namespace the user may not see is not named. At most MAX_PREEMPTIONS_READ decisions are read.
        """
        named, victim = check_name(namespace, "the namespace"), _VICTIM.parse()
        since_us = self._since()
        rows = self._rows([PreemptionCondition(since_us, named, victim), *self._ended()], MAX_PREEMPTION_ROWS)
        candidates = [a.record for a in _group_newest_first(rows)]
        read = candidates[:MAX_PREEMPTIONS_READ]
        entries = list[PreemptionEntry]()
        for row, stored in zip(read, self._reader.decisions_by_row(read), strict=True):
            entry = stored and build_visible_preemption(self._reader, stored)
            if entry and _concerns(entry, row, named, victim):
                entries.append(entry)
        document = build_preemptions(
            entries,
            since_us=since_us,
            until_us=self._until(),
            complete=len(candidates) == len(read) and len(rows) < MAX_PREEMPTION_ROWS,
            namespace=named,
        )
        return json_response(document)

    def _find_reasons(self, rows: Sequence[Row]) -> dict[tuple[str, ...], ShortReason | None]:
        """Return short reasons why the pods in `rows` have no node, by the key that `_build_reason_key` returns.

        The first row with a key stands for all of them: `rows` are newest first. Only MAX_DECISIONS_READ keys are
        included. A reason is None if the decision is no longer stored.
        """
        firsts: dict[tuple[str, ...], Row] = {}
        for row in rows:
            if row.node is None and row.message:
                firsts.setdefault(_build_reason_key(row), row)
        newest = dict(list(firsts.items())[:MAX_DECISIONS_READ])
        read = self._reader.decisions_by_row(list(newest.values()))
        return {
            key: find_short_reason(stored.decision, stored.table) if stored else None
            for key, stored in zip(newest, read, strict=True)
        }

    def _rows(self, conditions: Sequence[RowCondition], limit: int = MAX_ROWS) -> list[Row]:
        return self._reader.listing().decisions(conditions, None, limit)

    def _within(self, namespace: str) -> list[AnyCondition]:
        """Return the conditions that select decisions of `namespace` whose pods match the request's labelSelector.

        If `namespace` is "", all namespaces count.
        """
        name = check_name(namespace, "the namespace")
        within: list[AnyCondition] = [ColumnCondition("namespace", (name,))] if name else []
        return within + parse_label_selector(LABEL_SELECTOR.parse())

    def _since(self) -> int:
        since_us = SINCE.parse(self._clock)
        return int(self._clock() * 1e6) - DAY_US if since_us is None else since_us

    def _until(self) -> int:
        until_us = UNTIL.parse(self._clock)
        return int(self._clock() * 1e6) if until_us is None else until_us

    def _ended(self) -> list[StartCondition]:
        """Return, as a list, the condition that a decision started before the query parameter `until`.

        Without the parameter the list is empty.
        """
        until_us = UNTIL.parse(self._clock)
        return [] if until_us is None else [StartCondition(until_us=until_us)]

    def _no_placement(self, namespace: str, kind: str, name: str, rows: Sequence[Row]) -> StatusError:
        owners = {row.owner.partition("/")[2] for row in rows if row.owner}
        close = get_close_matches(
            name, owners | {owner.rpartition("-")[0] for owner in owners}, n=MAX_SIMILAR, cutoff=0.5
        )
        details: StatusDetails = {"name": name, "kind": "workloadplacements", "similar": close}
        return not_found(self._reader, f'no decision for {kind} "{name}" in namespace "{namespace}"', details)


def _concerns(entry: PreemptionEntry, row: Row, namespace: str, victim: str) -> bool:
    """Return whether the preemptor or a victim of a preemption is in `namespace`; "" means any namespace.

    With `victim`, return whether the pod of this name in `namespace` is a victim. `row` is the row of the preemptor's
    decision.
    """
    if victim:
        return any(v["pod"] == victim and namespace in ("", v["namespace"]) for v in entry["victims"])
    return namespace in ("", row.namespace) or any(v["namespace"] == namespace for v in entry["victims"])


_PLACED: Final = ColumnCondition("state", PLACED_STATES)
_COMPARED: Final = ColumnCondition("agreement", (None,), negated=True)
_HASH: Final = "pod-template-hash"
_ALIKE: Final = ("ReplicaSet", "ReplicationController", "Job")  # owners whose pods differ by nothing that filters read


def _belongs_to_workload(row: Row, kind: str, name: str) -> bool:
    """Return whether the pod of a decision's row belongs to a workload, by the recorded owner, name and labels."""
    return belongs_to_workload(row.owner or "", row.pod, parse_labels(row.labels).get(_HASH), kind, name)


def _latest_attempt_by_uid(rows: Sequence[Row]) -> dict[str, Row]:
    """Return, by pod UID, the row of each pod's latest attempt, with the newest attempt first."""
    rows_by_uid: dict[str, Row] = {}
    for attempt in _group_newest_first(rows):
        rows_by_uid.setdefault(attempt.uid, attempt.record)
    return rows_by_uid


def _group_newest_first(rows: Sequence[Row]) -> list[AttemptRecords]:
    """Return the attempts that the rows of decisions describe, in descending order of their start.

    The order of the rows does not suffice, because imported records arrive long after their attempts.
    """
    return group_rows_by_attempt(rows)[::-1]


def _same_pod_names(rows: Sequence[Row]) -> list[ColumnCondition]:
    """Return, as a list, an indexable condition that selects decisions about pods with the same names as in `rows`."""
    return [ColumnCondition("pod", tuple({row.pod for row in rows}))]


def _build_reason_key(row: Row) -> tuple[str, ...]:
    """Return a key that is equal for pods whose decisions have the same reason: namespace, owner and message.

    The pod's name replaces an owner whose pods differ: those of a StatefulSet have their own volumes, those of a
    DaemonSet their own nodes.
    """
    is_alike = (row.owner or "").partition("/")[0] in _ALIKE
    return row.namespace, str(row.owner) if is_alike else row.pod, row.message


def _build_pending_pod(uid: str, row: Row, wait: PodWait | None, reason: ShortReason | None) -> PendingPod:
    return PendingPod(
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
        pod_group=row.pod_group or "",
        is_undone=row.state == "Unschedulable" and row.node is not None,
        created_us=wait.created_us if wait else None,
        retry=wait.retry if wait else None,
        restricted_to=wait.restricted_to if wait else (),
        reason=reason,
    )


def _build_compared_outcome(row: Row) -> ComparedOutcome:
    return ComparedOutcome(
        namespace=row.namespace,
        pod=row.pod,
        scheduler=row.profile,
        agreement=row.agreement,
        cause=row.cause,
        node=row.node,
        started_us=row.started_us,
        decision_id=row.decision_id,
    )


def _add_headline(row: Row, stored: StoredAttempt | None) -> ComparedOutcome:
    """Return the compared outcome of a row, with the headline of `stored`, or without one if `stored` is None."""
    headline = None if stored is None else format_headline(stored.decision, stored.table)
    return replace(_build_compared_outcome(row), headline=headline)


def _parse_weights(text: str) -> dict[str, int]:
    """Return the weights by plugin name from a text such as `NodeResourcesFit=5,ImageLocality=0`.

    Raises StatusError 400 for any other text.
    """
    weights: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        match = _WEIGHT.fullmatch(part.strip())
        if not match:
            raise StatusError(400, f"weights must be PLUGIN=NUMBER,…, not {part[:60]!r}")
        weights[match[1]] = int(match[2])
    return weights


def _build_placement(row: Any, stored: StoredAttempt | None, preempted_by: PreemptionEntry | None) -> Placement:
    """Return the placement that a row of the table of decisions describes.

    `stored` is the row's whole decision, or None if it was not read; then the deciding factor is unknown.
    `preempted_by` is the preemption that evicted the pod since then.
    """
    decision = stored.decision if stored and row.state in PLACED_STATES else None
    return Placement(
        namespace=row.namespace,
        pod=row.pod,
        workload=name_workload(row.owner or "", row.pod, parse_labels(row.labels)),
        node=row.node,
        started_us=row.started_us,
        state=row.state,
        message=row.message,
        reason=(stored and find_short_reason(stored.decision, stored.table)) or None,
        decided_by=find_deciding_factor(decision) if decision else None,
        moves_without=list_plugins_that_change_winner(decision) if decision else (),
        preempted_by=preempted_by,
    )
