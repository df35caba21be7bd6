"""Finding the expired chains of a tier, and deleting, summarising or moving them in short transactions.

Owns: which chains one step processes, and the statements for it. Does not own: when a step runs (`retention`),
partitions (`postgresql`), the content of a summary (`summaries`).

Invariant: all members of a chain leave a tier together, and only after the youngest of them has expired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

from herodotus_endpoint.store import summaries
from herodotus_endpoint.store.database import Database, Row
from herodotus_endpoint.store.delta_chains import LIFETIME_S, PARTITION_US, compress_chain
from herodotus_endpoint.store.record_loader import RecordLoader
from herodotus_endpoint.store.schema import DECISIONS, KEPT_LONGER, OUTCOMES, SUMMARY

ROWS_PER_STEP: Final = 200  # decisions read in one step: about 10 ms
OUTCOME_BYTES: Final = 250  # size of a row of `outcomes`
CHAINS_PER_STEP: Final = 8  # per transaction: at most 256 decisions


@dataclass(frozen=True)
class StoredChain:
    """A stored chain (a key frame with its deltas): decisions that retention deletes or summarises together.

    `base` is the sequence number of the key frame.
    """

    id: int  # of its oldest member
    incarnation_id: int
    tier: int
    base: int

    @property
    def members(self) -> sa.ColumnElement[bool]:
        """The SQL condition that selects the chain's rows of `decisions`."""
        row = DECISIONS.c
        return sa.and_(row.incarnation_id == self.incarnation_id, row.tier == self.tier, row.base == self.base)

    @property
    def others(self) -> sa.ColumnElement[bool]:
        """The SQL condition that selects all rows of `decisions` that do not belong to the chain."""
        return sa.not_(self.members)


@dataclass(frozen=True)
class ExpiredChainQuery:
    """Which chains of the tier `tier` have expired: those whose decisions were all ingested before `before_us`.

    Only rows of `decisions` that meet `where` are searched. Rows with an ingest time after `now_us`, when a
    clock was wrong, are ignored. Times are in microseconds since 1970.
    """

    tier: int
    before_us: int
    now_us: int
    where: sa.ColumnElement[bool] = field(default_factory=sa.true)


def find_expired_chains(
    connection: sa.Connection, query: ExpiredChainQuery, after: int = 0
) -> tuple[list[StoredChain], int]:
    """Return the next expired chains, groups of decisions that are deleted together, and a row id.

    Only rows with an id above `after` are searched. The returned id is the `after` for the next call.
    """
    row = DECISIONS.c
    statement = sa.select(row.id, row.incarnation_id, row.tier, row.base, row.ingested_us)
    newest_us = max(query.now_us, query.before_us)
    statement = statement.where(row.tier == query.tier, row.id > after, query.where, row.ingested_us <= newest_us)
    statement = statement.order_by(row.id).limit(ROWS_PER_STEP)
    rows = connection.execute(statement).all()
    chains: dict[tuple[int, int], StoredChain] = {}
    for d in rows:
        if d.ingested_us < query.before_us and _ends_us(d.ingested_us) <= query.before_us:
            chains.setdefault((d.incarnation_id, d.base), StoredChain(d.id, d.incarnation_id, d.tier, d.base))
    return list(chains.values())[:CHAINS_PER_STEP], rows[0].id - 1 if rows else after


def delete_chains(connection: sa.Connection, chains: Sequence[StoredChain]) -> int:
    """Delete all decisions of these chains with their outcomes, and return the number of deleted decisions."""
    rows = [r for chain in chains for r in connection.execute(sa.select(*_KEY).where(chain.members)).all()]
    _delete(connection, rows)
    return len(rows)


@dataclass(frozen=True)
class SummarisedChain:
    """A chain, a group of decisions stored together, and the summaries that are to replace its decisions.

    `frames` has the blob of each summary by the row id of its decision. `gained` is the number of bytes that the
    replacement frees, negative if the summaries are larger. `outcomes` is the number of outcomes in the summaries.
    """

    chain: StoredChain
    frames: dict[int, bytes]
    gained: int
    outcomes: int


def summarise_chain(
    connection: sa.Connection, records: RecordLoader, chain: StoredChain, now_us: int
) -> SummarisedChain:
    """Build the summaries of a chain's decisions without storing them.

    It takes milliseconds per decision, so call it in a reading transaction, for which ingest does not wait. `now_us` is
    recorded as the time of summarising.
    """
    rows = connection.execute(sa.select(DECISIONS).where(chain.members).order_by(DECISIONS.c.sequence)).all()
    key = next((row.frame for row in rows if row.sequence == chain.base), None)
    members = [records.load(connection, row, key) for row in rows]
    blobs = compress_chain([summaries.encode_summary(summaries.summarise_record(whole, now_us)) for whole in members])
    size = sum(len(row.frame) for row in rows) + sum(OUTCOME_BYTES * len(whole.outcomes) for whole in members)
    frames = dict(zip((row.id for row in rows), blobs, strict=True))
    return SummarisedChain(chain, frames, size - sum(map(len, blobs)), sum(len(whole.outcomes) for whole in members))


def replace_with_summaries(connection: sa.Connection, database: Database, prepared: SummarisedChain) -> int:
    """Replace the decisions of a chain by their prepared summaries and return how many were replaced.

    Returns 0 and changes nothing if the chain has been changed or deleted since the summaries were built, or has an
    outcome that they do not contain.
    """
    columns = [c for c in DECISIONS.c if c.name != "frame"]
    rows = connection.execute(sa.select(*columns).where(prepared.chain.members).order_by(DECISIONS.c.sequence)).all()
    if not rows or {row.id for row in rows} != prepared.frames.keys():
        return 0
    o = OUTCOMES.c
    theirs = (o.incarnation_id == rows[0].incarnation_id, o.decision_sequence.in_([row.sequence for row in rows]))
    if connection.scalar(sa.select(sa.func.count()).select_from(OUTCOMES).where(*theirs)) != prepared.outcomes:
        return 0
    _delete(connection, rows)
    base = rows[0].sequence
    for row in rows:
        database.ensure_partition(connection, row.ingested_us, SUMMARY)
    database.insert(connection, DECISIONS, [_summary(row, base, prepared.frames[row.id]) for row in rows])
    return len(rows)


def move_to_kept_longer(connection: sa.Connection, database: Database, chain: StoredChain) -> int:
    """Move a chain's decisions and their outcomes to the tier KEPT_LONGER and return the number of decisions.

    The partition from which they are moved can then be dropped.
    """
    moved = connection.execute(sa.select(*_KEY).where(chain.members)).all()
    for r in moved:
        database.ensure_partition(connection, r.ingested_us, KEPT_LONGER)
        of_it = (OUTCOMES.c.incarnation_id == r.incarnation_id, OUTCOMES.c.decision_sequence == r.sequence)
        connection.execute(OUTCOMES.update().where(*of_it).values(tier=KEPT_LONGER))
    return connection.execute(DECISIONS.update().where(chain.members).values(tier=KEPT_LONGER)).rowcount


def _ends_us(ingested_us: int) -> int:
    """Return until when, in microseconds, decisions could join the chain of a decision ingested at `ingested_us`."""
    return min(ingested_us + int(LIFETIME_S * 1e6), ingested_us - ingested_us % PARTITION_US + PARTITION_US)


_KEY: Final = (DECISIONS.c.id, DECISIONS.c.incarnation_id, DECISIONS.c.sequence, DECISIONS.c.ingested_us)


def _delete(connection: sa.Connection, rows: Sequence[Any]) -> None:
    if not rows:
        return
    keys = [{"incarnation": r.incarnation_id, "of": r.sequence} for r in rows]
    connection.execute(_DELETE_OUTCOMES, keys)
    connection.execute(_DELETE_DECISION, [{"row": r.id, "at_us": r.ingested_us} for r in rows])


def _summary(row: sa.Row[Any], base: int, frame: bytes) -> Row:
    # a chain that was compressed again may have another key frame than before
    return {**row._mapping, "tier": SUMMARY, "base": base, "frame": frame, "frame_bytes": len(frame)}


_DELETE_OUTCOMES: Final = OUTCOMES.delete().where(
    OUTCOMES.c.incarnation_id == sa.bindparam("incarnation"), OUTCOMES.c.decision_sequence == sa.bindparam("of")
)
_DELETE_DECISION: Final = DECISIONS.delete().where(
    DECISIONS.c.id == sa.bindparam("row"), DECISIONS.c.ingested_us == sa.bindparam("at_us")
)
