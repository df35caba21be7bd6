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
from herodotus_endpoint.store.query_results import AttemptSeries, PodIdentity
from herodotus_endpoint.store.schema import DECISIONS
from herodotus_record.attempts import APART_US, AttemptRecords, group_by_attempt
from herodotus_record.model import Source

MAX_ROWS: Final = 10_000  # the newest rows of a pod name: a pod that is tried every minute for a week; 0.2 s
_NEAR_US: Final = (
    2 * APART_US
)  # before and after: other records of the attempt, and records that they may belong to instead
_COLUMNS: Final = (
    "source",
    "cluster",
    "namespace",
    "pod",
    "pod_uid",
    "started_us",
    "node",
    "message",
    "state",
    "repeats",
)
pod_key: Final = itemgetter("cluster", "namespace", "pod")  # of a row that is not stored yet


class AttemptLookup:
    """Finds attempts of pods in one snapshot. The rows of a pod are read and grouped once, however often it is asked.

    For questions about several decisions, which may all be of one pod. `cluster` is "" where a pod may be of any.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._pods: dict[tuple[str, str, str], list[_PodAttempts]] = {}

    def find_latest(self, pod: PodIdentity) -> AttemptSeries:
        """Return the attempts of the pod's UID, or, if it has none, of the latest UID with its name.

        Only the newest MAX_ROWS decisions about pods of this name are read. The result is empty if none is stored.
        """
        return self._newest(pod.namespace, pod.name, pod.cluster).series(pod.uid)

    def find_including(self, row: Any) -> tuple[AttemptSeries, int]:
        """Return the attempts of the pod of `row`, a row of `decisions`, and the index of the one with this row.

        The attempts are those in the newest MAX_ROWS rows with the pod's name, or, if `row` is older than these, in the
        rows up to its start.
        """
        newest = self._newest(row.namespace, row.pod, row.cluster)
        rows = self._pods[row.cluster, row.namespace, row.pod]
        holder = next((each for each in (newest, *rows) if row.id in each.places), None)
        if holder is None:
            older = _rows(
                self._connection, row.namespace, row.pod, row.cluster, DECISIONS.c.started_us <= row.started_us
            )
            holder = _PodAttempts(group_by_attempt(older))
            rows.append(holder)
        uid, index = holder.places[row.id]
        return holder.series(uid), index

    def _newest(self, namespace: str, pod: str, cluster: str) -> _PodAttempts:
        rows = self._pods.get((cluster, namespace, pod))
        if rows is None:
            rows = [_PodAttempts(group_by_attempt(_rows(self._connection, namespace, pod, cluster)))]
            self._pods[cluster, namespace, pod] = rows
        return rows[0]


class _PodAttempts:
    """The attempts that some rows of one pod name record, by UID, and the place of each row among them."""

    def __init__(self, attempts: Sequence[AttemptRecords]) -> None:
        self._latest_uid = attempts[-1].uid if attempts else ""
        by_uid: dict[str, list[AttemptRecords]] = {}
        self.places: dict[int, tuple[str, int]] = {}  # by row id: UID, and index in its series
        for each in attempts:
            same = by_uid.setdefault(each.uid, [])
            for id_ in each.ids:
                self.places[id_] = each.uid, len(same)
            same.append(each)
        self._series = {uid: AttemptSeries(same) for uid, same in by_uid.items()}

    def series(self, uid: str) -> AttemptSeries:
        return self._series.get(uid or self._latest_uid) or AttemptSeries(())


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
    conditions = [d.pod == pod, d.namespace == namespace, *([d.cluster == cluster] if cluster else []), *when]
    newest = (
        sa.select(d.id, *(d[name] for name in _COLUMNS)).where(*conditions).order_by(d.started_us.desc(), d.id.desc())
    )
    return connection.execute(newest.limit(MAX_ROWS))


def _unstored(row: Row, id_: int) -> SimpleNamespace:
    return SimpleNamespace(id=id_, **{name: row[name] for name in _COLUMNS})
