"""A pod's attempts, as the rows of decisions tell them.

Owns: the statement, and how many rows it reads. Does not own: which rows tell of one attempt (`herodotus_record`).
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

MAX_ROWS: Final = 10_000  # rows of a pod's name, the newest: a pod that was tried every minute for a week
_NEAR_US: Final = 2 * APART_US  # on either side: records that may tell of an attempt, and what else they may tell of
_COLUMNS: Final = ("source", "cluster", "namespace", "pod", "pod_uid", "started_us", "node", "message", "state")
pod_key: Final = itemgetter("cluster", "namespace", "pod")  # of a row that is not stored yet


def load_attempts(connection: sa.Connection, namespace: str, pod: str, cluster: str = "") -> list[AttemptRecords]:
    """The attempts of every pod that had this name, by start. `cluster`: of one alone."""
    return group_by_attempt(_rows(connection, namespace, pod, cluster))


def load_attempts_including(connection: sa.Connection, row: sa.Row[Any]) -> list[AttemptRecords]:
    """As `attempts_of` the row's pod, but where it is not among the newest, those up to the row."""
    found = load_attempts(connection, row.namespace, row.pod, row.cluster)
    if any(row.id in each.ids for each in found):
        return found
    return group_by_attempt(
        _rows(connection, row.namespace, row.pod, row.cluster, DECISIONS.c.started_us <= row.started_us)
    )


def is_attempt_stored(connection: sa.Connection, row: Row, coming: Sequence[Row]) -> bool:
    """Whether another record tells of the attempt of a row that is not stored yet, as those in `coming` are not.

    `coming`: of the same pod. So a sum has an attempt once, however many records of it come, and in whichever order.
    """
    if row["source"] == Source.SCHEDULER.value:
        return False
    least_us, most_us = row["started_us"] - _NEAR_US, row["started_us"] + _NEAR_US
    near = DECISIONS.c.started_us.between(least_us, most_us)
    stored = _rows(connection, row["namespace"], row["pod"], row["cluster"], near)
    with_it = [other for other in coming if least_us <= other["started_us"] <= most_us]
    new = [_unstored(other, -place) for place, other in enumerate([row, *with_it], 1)]
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
