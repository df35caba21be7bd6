"""What leaves the database for a file: decisions that are selected, whole, with the frames that they are made of.

Owns: the selection's statement, reading page by page. Does not own: the file (`herodotus_endpoint.exchange`), how
frames come back (`writer`).

A page is read in one snapshot, and the next one in another: an export of hours holds up neither SQLite's checkpoints
nor PostgreSQL's vacuum. What retention takes out meanwhile is not in the export; what comes meanwhile is not either.

Invariant: order is that of ingest, and no more than a page is in memory.
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

PAGE: Final = 16  # decisions: of 5,000 nodes each, with a node table of its own, some 20 MB


@dataclass(frozen=True)
class ExportSelection:
    """Which decisions: by when they started, in microseconds since the epoch, and whose they are. Default: all."""

    since_us: int = 0
    until_us: int | None = None  # not included
    namespace: str = ""
    cluster: str = ""

    @property
    def where(self) -> sa.ColumnElement[bool]:
        """What selects their rows."""
        row = DECISIONS.c
        clauses = [row.started_us >= self.since_us]
        clauses += [] if self.until_us is None else [row.started_us < self.until_us]
        clauses += [column == v for column, v in ((row.namespace, self.namespace), (row.cluster, self.cluster)) if v]
        return sa.and_(*clauses)


@dataclass(frozen=True)
class ExportedDecision:
    """A decision with what belongs to it, and the frames that it is made of, as `Wholes.frames` gives them."""

    whole: DecisionRecord
    frames: list[bytes]


def export_decisions(store: Store, what: ExportSelection) -> Iterator[ExportedDecision]:
    """The decisions that are selected and stored now. StoreUnavailableError as for reading."""
    after, upto = 0, store.listing.id_range()[1]
    while page := _page(store, what, after, upto):
        after = page[-1][0]
        yield from (found for _, found in page if found is not None)


def _page(store: Store, what: ExportSelection, after: int, upto: int) -> list[tuple[int, ExportedDecision | None]]:
    row = DECISIONS.c
    within = sa.and_(row.id > after, row.id <= upto, what.where)
    with store.snapshot() as connection:
        rows = connection.execute(sa.select(DECISIONS).where(within).order_by(row.id).limit(PAGE)).all()
        return [(r.id, _exported(store, connection, r)) for r in rows]


def _exported(store: Store, connection: sa.Connection, row: sa.Row[Any]) -> ExportedDecision | None:
    """Return the decision in a row; report it and return None if it is damaged."""
    try:
        return ExportedDecision(store.records.load(connection, row), store.records.load_frames(connection, row))
    except DamagedError as e:
        report_damage(str(e))
        return None
