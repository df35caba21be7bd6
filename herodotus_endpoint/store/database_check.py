"""`check`: every table read from one end to the other, and what is damaged.

Owns: the walk, what is compared with what. Does not own: checksums (`integrity`), the command line, repairing: a backup
does that.

Compared are: pages (SQLite's own check), rows with their checksums, frames with theirs, a decision's columns with its
frame, its state with its results, a delta with its key frame, histories with the sums beside them, sequences with
holes.

Invariant: it only reads, page by page, also beside a service; what it cannot read is damage too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

from herodotus_endpoint.store import integrity
from herodotus_endpoint.store.database import StoreUnavailableError
from herodotus_endpoint.store.incarnations import load
from herodotus_endpoint.store.integrity import ChecksummedTable, DamagedError, reading_decision
from herodotus_endpoint.store.packed_node_table import unpack_amounts
from herodotus_endpoint.store.record_loader import load_decision, load_outcomes
from herodotus_endpoint.store.rollups import Rollup
from herodotus_endpoint.store.schema import DECISIONS, GAPS, INCARNATIONS, NODE_ROWS, NODES, OUTCOMES, ROLLUPS
from herodotus_endpoint.store.store import Store
from herodotus_endpoint.store.table_rows import build_decision_row
from herodotus_record import codec
from herodotus_record.explain import derive_state
from herodotus_record.model import Decision, Outcome

PAGE: Final = 200  # rows read in one snapshot
_FROM_ELSEWHERE: Final = {"node", "ingested_us", "incarnation_id", "state"}  # columns that do not follow from the frame


@dataclass
class CheckReport:
    """What was read. `without`: rows that have no checksum, which were decoded."""

    rows: dict[str, int] = field(default_factory=dict)
    without: int = 0
    damage: int = 0


def check_database(store: Store, found: CheckReport) -> Iterator[str]:
    """Read the whole database; yield a line for each damage. Counts go into `found` on the way."""
    for line in _lines(store, found):
        found.damage += 1
        yield line


def _lines(store: Store, found: CheckReport) -> Iterator[str]:
    try:
        with store.snapshot() as connection:
            yield from store.database.find_damaged_pages(connection)
    except StoreUnavailableError as e:
        yield f"pages cannot be checked: {e}"
    yield from _walk(store, found, DECISIONS, [DECISIONS.c.id], _decision)
    keys = [OUTCOMES.c.incarnation_id, OUTCOMES.c.decision_sequence, OUTCOMES.c.sequence]
    yield from _walk(store, found, OUTCOMES, keys, _outcome)
    yield from _walk(store, found, GAPS, [GAPS.c.incarnation_id, GAPS.c.sequence], _covered(integrity.GAP))
    yield from _walk(store, found, NODES, [NODES.c.id], _covered(integrity.NODE))
    keys = [NODE_ROWS.c.incarnation_id, NODE_ROWS.c.slot, NODE_ROWS.c.since]
    yield from _walk(store, found, NODE_ROWS, keys, _node_row)
    keys = [ROLLUPS.c.bucket, ROLLUPS.c.cluster, ROLLUPS.c.profile, ROLLUPS.c.part]
    yield from _walk(store, found, ROLLUPS, keys, _rollup)
    yield from _walk(store, found, INCARNATIONS, [INCARNATIONS.c.id], _incarnation)


def _walk(
    store: Store,
    found: CheckReport,
    table: sa.Table,
    keys: list[sa.Column[Any]],
    examine: Callable[[sa.Connection, Any], None],
) -> Iterator[str]:
    """Yield a line for each row that `examine` raises for."""
    after: tuple[Any, ...] = ()
    found.rows[table.name] = 0
    while True:
        statement = sa.select(table).order_by(*keys).limit(PAGE)
        if after:
            statement = statement.where(sa.tuple_(*keys) > sa.tuple_(*map(sa.literal, after)))
        lines: list[str] = []
        try:
            with store.snapshot() as connection:
                rows = connection.execute(statement).all()
                for row in rows:
                    found.without += getattr(row, "checksum", 0) is None
                    lines += _examined(connection, table, keys, row, examine)
        except Exception as e:  # a damaged file: nothing behind it can be found
            yield from lines
            yield f"table {table.name} cannot be read: {e}"
            return
        yield from lines
        found.rows[table.name] += len(rows)
        if not rows:
            return
        after, before = tuple(getattr(rows[-1], key.name) for key in keys), after
        if any(value is None for value in after) or after == before:
            yield f"table {table.name} cannot be read: its keys are damaged"
            return


def _examined(
    connection: sa.Connection,
    table: sa.Table,
    keys: list[sa.Column[Any]],
    row: Any,
    examine: Callable[[sa.Connection, Any], None],
) -> list[str]:
    try:
        examine(connection, row)
    except (StoreUnavailableError, sa.exc.DBAPIError):
        raise
    except Exception as e:  # bytes that are not what they were can raise anything
        at = ", ".join(f"{key.name}={getattr(row, key.name)!r}" for key in keys)
        return [f"table {table.name}, row {at}: {e or type(e).__name__}"]
    return []


def _covered(covered: ChecksummedTable) -> Callable[[sa.Connection, Any], None]:
    def examine(_connection: sa.Connection, row: Any) -> None:
        integrity.require_intact(covered, [row])

    return examine


def _decision(connection: sa.Connection, row: Any) -> None:
    with reading_decision(row):
        decision, results = load_decision(connection, row), load_outcomes(connection, row)
    _compare_columns(row, decision)
    if not decision.summary and row.state != derive_state(decision, results):
        raise DamagedError(f"its state is {row.state}, and its results say {derive_state(decision, results)}")


def _compare_columns(row: Any, decision: Decision) -> None:
    """What was stored before a column existed has null in it."""
    expected = build_decision_row(row.incarnation_id, decision, row.node, row.ingested_us)
    for name in integrity.DECISION.columns:
        value = getattr(row, name)
        wanted = expected[name].replace("\0", "\ufffd") if isinstance(expected[name], str) else expected[name]
        stored = value.replace("\0", "\ufffd") if isinstance(value, str) else value
        if name not in _FROM_ELSEWHERE and stored is not None and stored != wanted:
            raise DamagedError(f"its column {name} is not what its frame says")


def _outcome(_connection: sa.Connection, row: Any) -> None:
    integrity.require_intact(integrity.OUTCOME, [row])
    frame = codec.decode(row.frame)
    if not isinstance(frame, Outcome) or (frame.sequence, frame.decision_sequence) != (
        row.sequence,
        row.decision_sequence,
    ):
        raise DamagedError("its frame is of another row")


def _node_row(_connection: sa.Connection, row: Any) -> None:
    integrity.require_intact(integrity.NODE_ROW, [row])
    unpack_amounts(row.amounts)


def _rollup(_connection: sa.Connection, row: Any) -> None:
    rollup = Rollup.unpack(row.counters)
    if row.part >= 0 and (row.nodes, row.chosen) != (len(rollup.nodes), rollup.chosen):
        raise DamagedError("the sums beside it are not its own")


def _incarnation(connection: sa.Connection, row: Any) -> None:
    known = load(connection, row.incarnation, None, row.last_us)
    stored = sa.select(sa.func.max(DECISIONS.c.sequence)).where(DECISIONS.c.incarnation_id == row.id)
    highest = connection.scalar(stored)
    if highest is not None and highest > known.sequences.highest:
        raise DamagedError(f"its highest sequence is {known.sequences.highest}, and {highest} is stored")
    last = -1
    for hole in known.sequences.holes:
        if hole.first <= last or hole.last < hole.first or hole.last > known.sequences.highest:
            raise DamagedError(f"its holes contradict each other at {hole.first}")
        last = hole.last
