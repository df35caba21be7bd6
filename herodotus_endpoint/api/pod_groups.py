"""Select the members of a pod group from decisions, and read those that explain it.

Owns: which decisions belong to the last cycle of a group, and which of them are read. Does not own: the document
(`herodotus_answers.pod_group`), statements (`store`).
"""

from __future__ import annotations

from collections.abc import Sequence

from herodotus_answers.explain import PLACED_STATES
from herodotus_answers.pod_group import (
    FITS,
    MAX_REASONS,
    PREEMPTED,
    GroupMember,
    GroupRecords,
    MemberRecord,
    group_by_reason,
)
from herodotus_answers.preemptions import PreemptionEntry, name_preemptor
from herodotus_endpoint.access.masking import VisibleRow
from herodotus_endpoint.api.masked_reader import MaskedReader, group_rows_by_attempt
from herodotus_endpoint.api.preemptions import find_evictions
from herodotus_record.model import POD_GROUP_PHASE, Source
from herodotus_record.notes import format_outcome_message


def read_pod_group(reader: MaskedReader, namespace: str, name: str, rows: Sequence[VisibleRow]) -> GroupRecords:
    """Return a pod group's records: its members, its last cycle, and a decision for each reason of blocked members.

    `rows` are the newest decisions about pods of the group, at least one.
    """
    attempts = group_rows_by_attempt(rows)[::-1]
    latest: dict[str, VisibleRow] = {}
    for attempt in _leave_out_unfinished(reader, namespace, [attempt.record for attempt in attempts]):
        latest.setdefault(attempt.pod_uid, attempt)
    # pods on nodes that local mode evaluates alone are not the group's last cycle
    newest = next((row for row in latest.values() if row.group_cycle is not None), next(iter(latest.values())))
    cycle = None
    if newest.group_cycle is not None:
        stored = reader.decision_by_id(namespace, newest.decision_id)
        cycle = stored.decision.group_cycle if stored else None
    if cycle is None:
        chosen = sorted(latest.values(), key=lambda row: (row.started_us, row.sequence))
    else:
        inside = [row for row in latest.values() if _cycle_of(row) == _cycle_of(newest)]
        earlier = [row for row in latest.values() if _cycle_of(row) != _cycle_of(newest) and row.state in PLACED_STATES]
        # records do not know of deletions, so only as many as the cycle counted
        chosen = [*earlier[: cycle.scheduled][::-1], *sorted(inside, key=lambda row: int(row.group_position or 0))]
    evictions = find_evictions(reader, [row for row in chosen if row.state in PLACED_STATES], namespace)
    members = [_build_member(row, newest, evictions.get(row.pod_uid)) for row in chosen]
    by_id = {row.decision_id: row for row in chosen}
    first = [by_id[group[0].decision_id] for group in group_by_reason(members)[:MAX_REASONS]]
    blocking = {
        row.decision_id: MemberRecord(read.decision, read.table)
        for row, read in zip(first, reader.decisions_by_row(first), strict=True)
        if read is not None
    }
    message = _find_group_message(reader, members)
    return GroupRecords(namespace, name, members, cycle, blocking, message, newest.source)


def _leave_out_unfinished(reader: MaskedReader, namespace: str, rows: Sequence[VisibleRow]) -> Sequence[VisibleRow]:
    """Return `rows` without those of the group's newest cycle, if it is incomplete and there is an earlier cycle.

    `rows` has one row for each attempt, newest first. A cycle is incomplete if it has fewer rows than it has pods.
    """
    newest = next((row for row in rows if row.group_cycle is not None), None)
    if newest is None:
        return rows
    stored = reader.decision_by_id(namespace, newest.decision_id)
    cycle = stored.decision.group_cycle if stored else None
    others = [row for row in rows if _cycle_of(row) != _cycle_of(newest)]
    is_whole = cycle is None or len(rows) - len(others) >= cycle.pods
    return rows if is_whole or all(row.group_cycle is None for row in others) else others


def _cycle_of(row: VisibleRow) -> tuple[int, int | None]:
    """Return the key of the group's cycle in which a row was decided: incarnation ID and cycle number, or None."""
    return row.incarnation_id, row.group_cycle


def _build_member(row: VisibleRow, newest: VisibleRow, preempted_by: PreemptionEntry | None) -> GroupMember:
    """Return the group member that a row of `decisions` describes.

    `newest` is a row of the group's last cycle. A member of an earlier cycle has no position. `preempted_by` is the
    preemption that evicted the member since then.
    """
    is_evaluated = row.source == Source.EVALUATED.value and row.state == "Failed"
    return GroupMember(
        namespace=row.namespace,
        pod=row.pod,
        uid=row.pod_uid,
        state=PREEMPTED if preempted_by else FITS if is_evaluated else row.state,
        node=row.node,
        position=row.group_position if _cycle_of(row) == _cycle_of(newest) else None,
        attempt=row.attempt,
        started_us=row.started_us,
        message=row.message,
        decision_id=row.decision_id,
        preemptor=name_preemptor(preempted_by) if preempted_by else "",
    )


def _find_group_message(reader: MaskedReader, members: Sequence[GroupMember]) -> str:
    """Return why the group's placement was undone, from the first such member's outcomes; "" if no member has one."""
    undone = next((member for member in members if member.is_provisional), None)
    stored = reader.decision_by_id(undone.namespace, undone.decision_id) if undone else None
    outcomes = stored.outcomes if stored else ()
    return next((format_outcome_message(o) for o in outcomes if o.phase == POD_GROUP_PHASE), "")
