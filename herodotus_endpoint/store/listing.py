"""Lists of decisions by conditions, page by page, and lists of nodes with counts.

Owns: the statements of lists and watches, and their bounds. Does not own: parsing selectors, documents, loading one
decision (`reader`).

Invariant: pages of decisions are ordered by ingest, newest first, and a page is no larger than its limit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import sqlalchemy as sa

from herodotus_answers.node import CounterName
from herodotus_endpoint.store.database import Snapshot
from herodotus_endpoint.store.integrity import intact_decisions
from herodotus_endpoint.store.labels import LabelCondition
from herodotus_endpoint.store.retention_clock import RetentionClock
from herodotus_endpoint.store.rollups import Rollup, part_of
from herodotus_endpoint.store.schema import DECISIONS, NODES, OUTCOMES, ROLLUPS, UNSUCCESSFUL

UNSETTLED: Final = "Binding"  # the only state that outcomes change, see `explain.derive_state`
COUNTED: Final = ("considered", "evaluated", "feasible", "chosen")  # counters of each node in a list
_NEVER_US: Final = 2**62  # after every time of a record
_COLUMNS: Final = [c for c in DECISIONS.c if c.name not in ("frame", "base", "frame_bytes", "victims")]


@dataclass(frozen=True)
class ColumnCondition:
    """A condition that a column of `decisions` has one of `values`, or none of them if `negated` is true.

    None among the values stands for SQL's NULL.
    """

    column: str
    values: tuple[str | None, ...]
    negated: bool = False

    def clause(self) -> sa.ColumnElement[bool]:
        """Return the condition as an SQL expression over `decisions`."""
        column = DECISIONS.c[self.column]
        named = [value for value in self.values if value is not None]
        clause: sa.ColumnElement[bool] = column.in_(named)
        if self.negated:
            clause = sa.or_(column.is_(None), ~clause)
        if None in self.values:
            clause = sa.and_(clause, column.is_not(None)) if self.negated else sa.or_(clause, column.is_(None))
        return clause

    def selects(self, row: Any, state: str) -> bool:
        """Return whether a row of `decisions` would meet the condition if its decision were in `state`.

        A watch compares the result for the former and the present state.
        """
        value = state if self.column == "state" else getattr(row, self.column)
        return (value in self.values) is not self.negated


class UnsuccessfulCondition:
    """The condition that a decision found no node or the pod could not be bound."""

    def clause(self) -> sa.ColumnElement[bool]:
        """Return the condition as an SQL expression over `decisions`.

        It contains literals, because with parameters the database would not use the partial index.
        """
        return DECISIONS.c.state.in_(sa.bindparam("unsuccessful", UNSUCCESSFUL, expanding=True, literal_execute=True))

    def selects(self, _row: Any, state: str) -> bool:
        """Return whether a row of `decisions` would meet the condition if its decision were in `state`."""
        return state in UNSUCCESSFUL


@dataclass(frozen=True)
class StartCondition:
    """The condition that a decision started at `since_us` or later, and before `until_us`.

    None does not restrict.
    """

    since_us: int | None = None
    until_us: int | None = None

    def clause(self) -> sa.ColumnElement[bool]:
        """Return the condition as an SQL expression over `decisions`."""
        started = DECISIONS.c.started_us
        bounds = [] if self.since_us is None else [started >= self.since_us]
        return sa.and_(sa.true(), *bounds, *([] if self.until_us is None else [started < self.until_us]))

    def selects(self, row: Any, _state: str) -> bool:
        """Return whether a row of `decisions` meets the condition, whatever its state."""
        is_late_enough = self.since_us is None or row.started_us >= self.since_us
        return is_late_enough and (self.until_us is None or row.started_us < self.until_us)


@dataclass(frozen=True)
class PreemptionCondition:
    """The condition that a decision since `since_us` evicted pods, and is about a pod of `namespace` or evicted one.

    If `namespace` is "", every namespace counts. With `victim`, the decision evicted the pod of this name, of
    `namespace`. Watches and the archive do not have the condition.
    """

    since_us: int
    namespace: str = ""
    victim: str = ""

    def clause(self) -> sa.ColumnElement[bool]:
        """Return the condition as an SQL expression over `decisions`, for which the database uses a partial index.

        The index `decisions_preempting` has only decisions that evicted pods.
        """
        victims = DECISIONS.c.victims
        names = f",{self.namespace}/" if self.namespace else "/"
        evicted = victims.is_not(None) & (DECISIONS.c.started_us >= self.since_us)
        if self.victim:
            return evicted & victims.contains(f"{names}{self.victim},", autoescape=True)
        if self.namespace:
            return evicted & ((DECISIONS.c.namespace == self.namespace) | victims.contains(names, autoescape=True))
        return evicted


@dataclass(frozen=True)
class EvictionCondition:
    """The condition that a decision evicted a pod since `since_us`, before another pod had its name.

    The pod is identified by cluster, namespace, name and `uid`; records name victims without their UID.
    """

    cluster: str
    namespace: str
    pod: str
    uid: str
    since_us: int

    def clause(self) -> sa.ColumnElement[bool]:
        """Return the condition as an SQL expression over `decisions`, for which the database uses a partial index.

        The index `decisions_preempting` has only decisions that evicted pods.
        """
        d, later = DECISIONS.c, DECISIONS.alias().c
        successor = sa.select(sa.func.min(later.started_us)).where(
            later.pod == self.pod,
            later.namespace == self.namespace,
            later.started_us > self.since_us,
            later.cluster == self.cluster,
            later.pod_uid.not_in((self.uid, "")),  # a log does not tell the UID
        )
        evicted = PreemptionCondition(self.since_us, self.namespace, self.pod).clause()
        until = sa.func.coalesce(successor.scalar_subquery(), _NEVER_US)
        return evicted & (d.cluster == self.cluster) & (d.started_us < until)


AnyCondition = ColumnCondition | LabelCondition | UnsuccessfulCondition | StartCondition
RowCondition = AnyCondition | PreemptionCondition | EvictionCondition


@dataclass(frozen=True)
class NodeCounts:
    """The counters of all nodes with one name, summed over a time window.

    `counts` has the sums in the order of `COUNTED`: considered, evaluated, feasible, chosen.
    """

    name: str
    counts: tuple[int, ...]


class Listing:
    """Reads pages of decisions, as rows of `decisions` without frames, and pages of nodes. Safe for concurrent use."""

    def __init__(self, snapshot: Snapshot, clock: RetentionClock) -> None:
        """Create a listing. `snapshot` opens a connection that reads one snapshot."""
        self._snapshot = snapshot
        self._clock = clock

    def decisions(self, conditions: Sequence[RowCondition], before: int | None, limit: int) -> list[sa.Row[Any]]:
        """Return at most `limit` rows of `decisions` that meet all conditions, newest first, without their frames.

        If `before` is given, only rows with ids below it are returned.
        """
        clauses = (c.clause() for c in conditions)
        named = any(isinstance(c, ColumnCondition) and c.column == "pod" and not c.negated for c in conditions)
        # without + 0 SQLite would scan a namespace in order instead of finding rows by name and sorting them
        order = DECISIONS.c.id + 0 if named else DECISIONS.c.id
        statement = sa.select(*_COLUMNS).where(*clauses).order_by(order.desc()).limit(limit)
        if before is not None:
            statement = statement.where(DECISIONS.c.id < before)
        with self._snapshot() as connection:
            return intact_decisions(connection.execute(statement))

    def list_after(self, after: int, limit: int) -> list[sa.Row[Any]]:
        """Return at most `limit` rows of `decisions` with ids above `after`, oldest first."""
        statement = sa.select(*_COLUMNS).where(DECISIONS.c.id > after).order_by(DECISIONS.c.id).limit(limit)
        with self._snapshot() as connection:
            return intact_decisions(connection.execute(statement))

    def list_unsettled(self, after: int, upto: int, within_s: float) -> list[sa.Row[Any]]:
        """Return rows of `decisions` without a result, or with one that arrived in the last `within_s` seconds.

        Only rows with ids above `after`, up to `upto`, are returned, oldest first.
        """
        since_us = self._clock.now_us() - int(within_s * 1e6)
        outcome = sa.exists().where(
            OUTCOMES.c.incarnation_id == DECISIONS.c.incarnation_id,
            OUTCOMES.c.decision_sequence == DECISIONS.c.sequence,
            OUTCOMES.c.state.is_not(None),
            OUTCOMES.c.ingested_us >= since_us,
        )
        within = (DECISIONS.c.id > after, DECISIONS.c.id <= upto)
        statement = sa.select(*_COLUMNS).where(*within, sa.or_(DECISIONS.c.state == UNSETTLED, outcome))
        with self._snapshot() as connection:
            return intact_decisions(connection.execute(statement.order_by(DECISIONS.c.id)))

    def list_settled(self, ids: Collection[int]) -> list[sa.Row[Any]]:
        """Return the rows of `decisions` that have one of these ids and a result, oldest first."""
        settled = (DECISIONS.c.id.in_(ids), DECISIONS.c.state != UNSETTLED)
        statement = sa.select(*_COLUMNS).where(*settled).order_by(DECISIONS.c.id)
        with self._snapshot() as connection:
            return intact_decisions(connection.execute(statement))

    def id_range(self) -> tuple[int, int]:
        """Return the lowest and the highest row id in `decisions`, or (1, 0) if the table is empty."""
        least, most = sa.func.min(DECISIONS.c.id), sa.func.max(DECISIONS.c.id)
        with self._snapshot() as connection:
            first = connection.scalar(sa.select(least))
            return (1, 0) if first is None else (int(first), int(connection.scalar(sa.select(most)) or 0))

    def nodes(self, after: str, limit: int, from_bucket: int, last_bucket: int, cluster: str = "") -> list[NodeCounts]:
        """Return at most `limit` nodes that decisions considered, sorted by name, with their counts.

        The page begins with the first name after `after`. The counts cover the hours from `from_bucket` to
        `last_bucket`, in hours since the epoch. If `cluster` is given, only nodes of this cluster are returned.
        """
        of_it = (NODES.c.cluster == cluster,) if cluster else ()
        names = sa.select(NODES.c.name).where(NODES.c.considered, NODES.c.name > after, *of_it).distinct()
        with self._snapshot() as connection:
            wanted = list(connection.scalars(names.order_by(NODES.c.name).limit(limit)))
            ids = sa.select(NODES.c.id, NODES.c.name).where(NODES.c.name.in_(wanted), *of_it)
            index = {name: i for i, name in enumerate(wanted)}
            index_of = {row.id: index[row.name] for row in connection.execute(ids)}
            sums = np.zeros((len(wanted), len(COUNTED)), np.int64)
            parts = {*map(part_of, index_of)}
            statement = sa.select(ROLLUPS.c.counters).where(
                ROLLUPS.c.bucket.between(from_bucket, last_bucket), ROLLUPS.c.part.in_(parts)
            )
            for blob in connection.scalars(statement.order_by(ROLLUPS.c.bucket)):
                _add_rollup(sums, index_of, Rollup.unpack(blob))
        return [NodeCounts(name, tuple(map(int, sums[i]))) for i, name in enumerate(wanted)]


def _add_rollup(sums: np.ndarray[Any, Any], index_of: dict[int, int], rollup: Rollup) -> None:
    places = np.array([index_of.get(int(node), -1) for node in rollup.nodes], np.int64)
    held = np.flatnonzero(places >= 0)
    for i, counter in enumerate(COUNTED):
        np.add.at(sums[:, i], places[held], rollup.column(CounterName(counter))[held])
