"""Reading selected records with their frames for an export.

Owns: the statement of the selection, reading page by page. Does not own: the file (`herodotus_endpoint.exchange`),
storing imported frames (`writer`).

Each page is read in its own snapshot, so that a long export blocks neither SQLite's checkpoints nor PostgreSQL's
vacuum. Records that are deleted or stored during the export are not in it.

Invariant: the order is that of ingest, and at most one page is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from herodotus_endpoint.store.integrity import DamagedError, report_damage
from herodotus_endpoint.store.schema import DECISIONS
from herodotus_endpoint.store.store import Store
from herodotus_endpoint.store.summaries import DecisionRecord

PAGE: Final = 16  # decisions: with 5,000 nodes each and their node tables about 20 MB


@dataclass(frozen=True)
class ExportSelection:
    """Which decisions to export: those of a time range, a namespace and a cluster. By default all are exported.

    `since_us` and `until_us` limit the start of the attempt, in microseconds since the epoch.
    """

    since_us: int = 0
    until_us: int | None = None  # not included
    namespace: str = ""
    cluster: str = ""

    @property
    def where(self) -> sa.ColumnElement[bool]:
        """The SQL condition that selects the matching rows of `decisions`."""
        row = DECISIONS.c
        clauses = [row.started_us >= self.since_us]
        clauses += [] if self.until_us is None else [row.started_us < self.until_us]
        clauses += [column == v for column, v in ((row.namespace, self.namespace), (row.cluster, self.cluster)) if v]
        return sa.and_(*clauses)


@dataclass(frozen=True)
class ExportedDecision:
    """A record (decision, outcomes, node table), and its encoded frames as `RecordLoader.load_frames` returns them."""

    record: DecisionRecord
    frames: list[bytes]


def export_decisions(store: Store, selection: ExportSelection) -> Iterator[ExportedDecision]:
    """Yield the selected decisions that are stored when the export begins, in the order in which they were stored.

    Damaged decisions are reported and left out. Raises StoreUnavailableError if the database fails.
    """
    after, upto = 0, store.listing.id_range()[1]
    while page := _read_page(store, selection, after, upto):
        after = page[-1][0]
        yield from (decision for _, decision in page if decision is not None)


def _read_page(
    store: Store, selection: ExportSelection, after: int, upto: int
) -> list[tuple[int, ExportedDecision | None]]:
    row = DECISIONS.c
    within = sa.and_(row.id > after, row.id <= upto, selection.where)
    with store.snapshot() as connection:
        rows = connection.execute(sa.select(DECISIONS).where(within).order_by(row.id).limit(PAGE)).all()
        return [(r.id, _load_exported(store, connection, r)) for r in rows]


def _load_exported(store: Store, connection: sa.Connection, row: sa.Row[Any]) -> ExportedDecision | None:
    """Return the record and the frames of a row of `decisions`; if they are damaged, report it and return None."""
    try:
        return ExportedDecision(store.records.load(connection, row), store.records.load_frames(connection, row))
    except DamagedError as e:
        report_damage(str(e))
        return None
