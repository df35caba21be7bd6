"""Lists: decisions by what is selected, page by page; nodes with their counts; whose an incarnation is.

Owns: the statements of lists and watches, and their bounds. Does not own: how a selector is written, documents, what
one decision holds (`reader`).

Invariant: pages are ordered by ingest, newest first, and a page is no larger than its limit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import sqlalchemy as sa

from herodotus_endpoint.store.counters import CounterName
from herodotus_endpoint.store.database import translate_errors
from herodotus_endpoint.store.integrity import intact_decisions
from herodotus_endpoint.store.labels import LabelCondition
from herodotus_endpoint.store.retention_clock import RetentionClock
from herodotus_endpoint.store.rollups import ALL_NODES_PART, Rollup, part_of
from herodotus_endpoint.store.schema import DECISIONS, NODES, OUTCOMES, ROLLUPS, UNSUCCESSFUL

UNSETTLED: Final = "Binding"  # the one state that outcomes change, as `explain.state` says
COUNTED: Final = ("considered", "evaluated", "feasible", "chosen")  # of each node in a list
_COLUMNS: Final = [c for c in DECISIONS.c if c.name not in ("frame", "base", "frame_bytes")]


@dataclass(frozen=True)
class ColumnCondition:
    """What a column of a decision must be: one of `values`, or (`negated`) none of them. None among them: no value."""

    column: str
    values: tuple[str | None, ...]
    negated: bool = False

    def clause(self) -> sa.ColumnElement[bool]:
        """The condition as SQL."""
        column = DECISIONS.c[self.column]
        named = [value for value in self.values if value is not None]
        clause: sa.ColumnElement[bool] = column.in_(named)
        if self.negated:
            clause = sa.or_(column.is_(None), ~clause)
        if None in self.values:
            clause = sa.and_(clause, column.is_not(None)) if self.negated else sa.or_(clause, column.is_(None))
        return clause

    def selects(self, row: Any, state: str) -> bool:
        """Whether it holds for a row while its decision is in a state."""
        value = state if self.column == "state" else getattr(row, self.column)
        return (value in self.values) is not self.negated


class UnsuccessfulCondition:
    """No node was found, or the pod could not be bound to it."""

    def clause(self) -> sa.ColumnElement[bool]:
        """The condition as SQL, in the words of the index of such decisions: with parameters it would not be used."""
        return DECISIONS.c.state.in_(sa.bindparam("unsuccessful", UNSUCCESSFUL, expanding=True, literal_execute=True))

    def selects(self, _row: Any, state: str) -> bool:
        """Whether it holds for a row while its decision is in a state."""
        return state in UNSUCCESSFUL


AnyCondition = ColumnCondition | LabelCondition | UnsuccessfulCondition


@dataclass(frozen=True)
class NodeCounts:
    """A node in a list: the sums of `COUNTED` over a window, over every node of that name."""

    name: str
    counts: tuple[int, ...]


class Listing:
    """Answers with rows. Every thread may ask."""

    def __init__(self, engine: sa.Engine, clock: RetentionClock) -> None:
        self._engine = engine
        self._clock = clock

    def decisions(self, conditions: Sequence[AnyCondition], before: int | None, limit: int) -> list[sa.Row[Any]]:
        """Rows without frames, newest first by ingest, from below the id `before`."""
        clauses = (c.clause() for c in conditions)
        named = any(isinstance(c, ColumnCondition) and c.column == "pod" and not c.negated for c in conditions)
        # SQLite would go through a whole namespace in order, rather than find few rows by name and sort them
        order = DECISIONS.c.id + 0 if named else DECISIONS.c.id
        statement = sa.select(*_COLUMNS).where(*clauses).order_by(order.desc()).limit(limit)
        if before is not None:
            statement = statement.where(DECISIONS.c.id < before)
        with self._snapshot() as connection:
            return intact_decisions(connection.execute(statement))

    def list_after(self, after: int, limit: int) -> list[sa.Row[Any]]:
        """Rows with ids above `after`, oldest first."""
        statement = sa.select(*_COLUMNS).where(DECISIONS.c.id > after).order_by(DECISIONS.c.id).limit(limit)
        with self._snapshot() as connection:
            return intact_decisions(connection.execute(statement))

    def list_unsettled(self, after: int, upto: int, within_s: float) -> list[sa.Row[Any]]:
        """Rows with ids above `after` and up to `upto` that wait for their result, or got it within some seconds."""
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

    def list_by_id(self, ids: Collection[int]) -> list[sa.Row[Any]]:
        """The rows of these ids that are still stored, oldest first."""
        statement = sa.select(*_COLUMNS).where(DECISIONS.c.id.in_(ids)).order_by(DECISIONS.c.id)
        with self._snapshot() as connection:
            return intact_decisions(connection.execute(statement))

    def id_range(self) -> tuple[int, int]:
        """The lowest and the highest id that are stored; (1, 0) where nothing is."""
        least, most = sa.func.min(DECISIONS.c.id), sa.func.max(DECISIONS.c.id)
        with self._snapshot() as connection:
            first = connection.scalar(sa.select(least))
            return (1, 0) if first is None else (int(first), int(connection.scalar(sa.select(most)) or 0))

    def nodes(self, after: str, limit: int, from_bucket: int, cluster: str = "") -> list[NodeCounts]:
        """Nodes that have a history, by name, from behind `after`, with their counts since a bucket.

        `cluster`: of one cluster.
        """
        of_it = (NODES.c.cluster == cluster,) if cluster else ()
        names = sa.select(NODES.c.name).where(NODES.c.considered, NODES.c.name > after, *of_it).distinct()
        with self._snapshot() as connection:
            wanted = list(connection.scalars(names.order_by(NODES.c.name).limit(limit)))
            ids = sa.select(NODES.c.id, NODES.c.name).where(NODES.c.name.in_(wanted), *of_it)
            place = {name: i for i, name in enumerate(wanted)}
            place_of = {row.id: place[row.name] for row in connection.execute(ids)}
            sums = np.zeros((len(wanted), len(COUNTED)), np.int64)
            parts = {ALL_NODES_PART, *map(part_of, place_of)}
            statement = sa.select(ROLLUPS.c.counters).where(ROLLUPS.c.bucket >= from_bucket, ROLLUPS.c.part.in_(parts))
            for blob in connection.scalars(statement.order_by(ROLLUPS.c.bucket)):
                _add(sums, place_of, Rollup.unpack(blob))
        return [NodeCounts(name, tuple(map(int, sums[i]))) for i, name in enumerate(wanted)]

    @contextmanager
    def _snapshot(self) -> Iterator[sa.Connection]:
        with translate_errors(), self._engine.connect() as connection, connection.begin():
            yield connection


def _add(sums: np.ndarray[Any, Any], place_of: dict[int, int], rollup: Rollup) -> None:
    places = np.array([place_of.get(int(node), -1) for node in rollup.nodes], np.int64)
    held = np.flatnonzero(places >= 0)
    for i, counter in enumerate(COUNTED):
        np.add.at(sums[:, i], places[held], rollup.column(CounterName(counter))[held])
