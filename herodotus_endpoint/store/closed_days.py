"""Reading the records that a cluster's schedulers delivered on one day, for the archive.

Owns: the statements, finding the rows of a day without an index on time. Does not own: files
(`herodotus_endpoint.archive`).

Rows of `decisions` are in the order of ingest, so the first row of a day is found by bisection. Several replicas may
store rows slightly out of order; the bounds are therefore widened, and the time of each row is compared.

Invariant: a record belongs to exactly one day. At most one page is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from herodotus_endpoint.store.integrity import DamagedError, report_damage
from herodotus_endpoint.store.schema import DECISIONS
from herodotus_endpoint.store.store import Store
from herodotus_endpoint.store.summaries import DecisionRecord

DAY_US: Final = 86_400_000_000
PAGE: Final = 64  # decisions: with 5,000 nodes each and their node tables about 80 MB
OUT_OF_ORDER: Final = 100_000  # rows that replicas may store out of order: a minute of ingest


@dataclass(frozen=True)
class DayRecord:
    """A record, its row id (its position in the order of ingest), and its time of ingest in microseconds."""

    row: int
    ingested_us: int
    record: DecisionRecord


def find_first_ingest(store: Store) -> int | None:
    """Return the ingest time of the oldest decision in microseconds, or None if there is no decision."""
    d = DECISIONS.c
    with store.snapshot() as connection:
        first_us = connection.execute(sa.select(d.ingested_us).order_by(d.id).limit(1)).scalar()
        return None if first_us is None else int(first_us)


def list_clusters_of_day(store: Store, start_us: int) -> list[str]:
    """Return the ids of the clusters with decisions of the day that begins at `start_us`, sorted."""
    with store.snapshot() as connection:
        within = _rows_of_day(connection, start_us)
        return sorted(connection.scalars(sa.select(DECISIONS.c.cluster).where(within).distinct()))


def read_day(store: Store, cluster: str, start_us: int, after: int = 0) -> Iterator[DayRecord]:
    """Yield the records of a cluster that were stored on the day that begins at `start_us`, in the order of ingest.

    Only those with row ids above `after` are read. Damaged decisions are reported and left out. Raises
    StoreUnavailableError if the database fails.
    """
    with store.snapshot() as connection:
        within = sa.and_(_rows_of_day(connection, start_us), DECISIONS.c.cluster == cluster)
    while True:
        with store.snapshot() as connection:
            statement = sa.select(DECISIONS).where(within, DECISIONS.c.id > after)
            rows = connection.execute(statement.order_by(DECISIONS.c.id).limit(PAGE)).all()
            records = []
            for row in rows:
                try:
                    records.append(DayRecord(row.id, row.ingested_us, store.records.load(connection, row)))
                except DamagedError as e:
                    report_damage(str(e))
        if not rows:
            return
        after = rows[-1].id
        yield from records


def _rows_of_day(connection: sa.Connection, start_us: int) -> sa.ColumnElement[bool]:
    """Return the condition that selects the decisions stored on the day that begins at `start_us`."""
    d = DECISIONS.c
    first, last = (_find_row(connection, at_us) for at_us in (start_us, start_us + DAY_US))
    return sa.and_(
        d.id >= first - OUT_OF_ORDER,
        d.id <= last + OUT_OF_ORDER,
        d.ingested_us >= start_us,
        d.ingested_us < start_us + DAY_US,
    )


def _find_row(connection: sa.Connection, at_us: int) -> int:
    """Return, by bisection, the lowest row id of a decision stored at `at_us` or later.

    It may be wrong by a few rows, as ids do not strictly follow the time. It is above all ids if no decision is that
    late.
    """
    d = DECISIONS.c
    least, most = connection.execute(sa.select(sa.func.min(d.id), sa.func.max(d.id))).one()
    low, high = int(least or 0), int(most or 0) + 1
    while low < high:
        middle = (low + high) // 2
        probe = sa.select(d.ingested_us).where(d.id >= middle).order_by(d.id).limit(1)
        ingested_us = connection.execute(probe).scalar()
        if ingested_us is not None and ingested_us < at_us:
            low = middle + 1
        else:
            high = middle
    return low
