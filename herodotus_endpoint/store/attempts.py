"""The attempts of a pod, grouped from rows of decisions.

Owns: the statement, and how many rows it reads. Does not own: which rows belong to one attempt
(`herodotus_record.attempts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from types import SimpleNamespace
from typing import Any, Final

import sqlalchemy as sa

from herodotus_endpoint.store.database import Row
from herodotus_endpoint.store.schema import DECISIONS
from herodotus_record.attempts import APART_US, AttemptRecords, group_by_attempt
from herodotus_record.model import Source

MAX_ROWS: Final = 10_000  # the newest rows of a pod name: a pod that is tried every minute for a week
_NEAR_US: Final = (
    2 * APART_US
)  # before and after: other records of the attempt, and records that they may belong to instead
_COLUMNS: Final = ("source", "cluster", "namespace", "pod", "pod_uid", "started_us", "node", "message", "state")
pod_key: Final = itemgetter("cluster", "namespace", "pod")  # of a row that is not stored yet


def load_attempts(connection: sa.Connection, namespace: str, pod: str, cluster: str = "") -> list[AttemptRecords]:
    """Return the scheduling attempts of all pods with this namespace and name, ordered by start time.

    If `cluster` is given, only pods of this cluster count. Only the newest MAX_ROWS decisions are read.
    """
    return group_by_attempt(_rows(connection, namespace, pod, cluster))


def load_attempts_including(connection: sa.Connection, row: sa.Row[Any]) -> list[AttemptRecords]:
    """Return the scheduling attempts of the pod of `row`, a row of `decisions`; one of them contains `row`.

    They are read from the pod's newest MAX_ROWS rows, or, if `row` is older than these, from the rows up to its start.
    """
    found = load_attempts(connection, row.namespace, row.pod, row.cluster)
    if any(row.id in each.ids for each in found):
        return found
    return group_by_attempt(
        _rows(connection, row.namespace, row.pod, row.cluster, DECISIONS.c.started_us <= row.started_us)
    )


def is_attempt_stored(connection: sa.Connection, row: Row, batch_rows: Sequence[Row]) -> bool:
    """Return whether another record describes the same scheduling attempt as `row`, which is not stored yet.

    `batch_rows` are the earlier rows for the same pod in the batch that is being stored. Node histories thus count an
    attempt once, for any number and order of records. For a row that the scheduler itself recorded the result is False.
    """
    if row["source"] == Source.SCHEDULER.value:
        return False
    least_us, most_us = row["started_us"] - _NEAR_US, row["started_us"] + _NEAR_US
    near = DECISIONS.c.started_us.between(least_us, most_us)
    stored = _rows(connection, row["namespace"], row["pod"], row["cluster"], near)
    new_rows = [other for other in batch_rows if least_us <= other["started_us"] <= most_us]
    new = [_unstored(other, -place) for place, other in enumerate([row, *new_rows], 1)]
    return any(-1 in attempt.ids and len(attempt.ids) > 1 for attempt in group_by_attempt([*stored, *new]))


def _rows(
    connection: sa.Connection, namespace: str, pod: str, cluster: str, *when: sa.ColumnElement[bool]
) -> Iterable[Any]:
    d = DECISIONS.c
    at = [d.pod == pod, d.namespace == namespace, *([d.cluster == cluster] if cluster else []), *when]
    newest = sa.select(d.id, *(d[name] for name in _COLUMNS)).where(*at).order_by(d.started_us.desc(), d.id.desc())
    return connection.execute(newest.limit(MAX_ROWS))


def _unstored(row: Row, id_: int) -> SimpleNamespace:
    return SimpleNamespace(id=id_, **{name: row[name] for name in _COLUMNS})
