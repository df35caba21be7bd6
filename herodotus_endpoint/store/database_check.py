"""The check of a complete database for damage, as the command `check` runs it.

Owns: reading all tables, and what is compared. Does not own: checksums (`integrity`), the command line, repair, for
which a backup is needed.

The check covers pages (SQLite's own check), checksums of rows and frames, a decision's columns against its frame, its
state against its outcomes, deltas against their key frames, histories against the sums beside them, and sequences
against holes.

Invariant: the check only reads, page by page, and can run beside a service. What cannot be read counts as damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

from herodotus_answers.decision import count_repeats
from herodotus_answers.explain import derive_state
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
from herodotus_record.model import Decision, Outcome

PAGE: Final = 200  # rows read in one snapshot
_NOT_IN_FRAME: Final = {
    "node",
    "ingested_us",
    "incarnation_id",
    "state",
}  # columns that cannot be derived from the frame


@dataclass
class CheckReport:
    """The counts of a database check: rows read by table name, and damages found."""

    rows: dict[str, int] = field(default_factory=dict)
    damage: int = 0


def check_database(store: Store, report: CheckReport) -> Iterator[str]:
    """Read the complete database and yield a message for each damage; the counts in `report` grow meanwhile."""
    for line in _check_tables(store, report):
        report.damage += 1
        yield line


def _check_tables(store: Store, report: CheckReport) -> Iterator[str]:
    try:
        with store.snapshot() as connection:
            yield from store.database.find_damaged_pages(connection)
    except StoreUnavailableError as e:
        yield f"pages cannot be checked: {e}"
    yield from _check_table(store, report, DECISIONS, [DECISIONS.c.id], _check_decision)
    keys = [OUTCOMES.c.incarnation_id, OUTCOMES.c.decision_sequence, OUTCOMES.c.sequence]
    yield from _check_table(store, report, OUTCOMES, keys, _check_outcome)
    yield from _check_table(
        store, report, GAPS, [GAPS.c.incarnation_id, GAPS.c.sequence], _checksum_check(integrity.GAP)
    )
    yield from _check_table(store, report, NODES, [NODES.c.id], _checksum_check(integrity.NODE))
    keys = [NODE_ROWS.c.incarnation_id, NODE_ROWS.c.slot, NODE_ROWS.c.since]
    yield from _check_table(store, report, NODE_ROWS, keys, _check_node_row)
    keys = [ROLLUPS.c.bucket, ROLLUPS.c.cluster, ROLLUPS.c.profile, ROLLUPS.c.part]
    yield from _check_table(store, report, ROLLUPS, keys, _check_rollup)
    yield from _check_table(store, report, INCARNATIONS, [INCARNATIONS.c.id], _check_incarnation)


def _check_table(
    store: Store,
    report: CheckReport,
    table: sa.Table,
    keys: list[sa.Column[Any]],
    examine: Callable[[sa.Connection, Any], None],
) -> Iterator[str]:
    """Read a table page by page, ordered by `keys`, and yield a message for each row for which `examine` raises.

    The rows are counted in `report`. If the table cannot be read further, that is the last message.
    """
    after: tuple[Any, ...] = ()
    report.rows[table.name] = 0
    while True:
        statement = sa.select(table).order_by(*keys).limit(PAGE)
        if after:
            statement = statement.where(sa.tuple_(*keys) > sa.tuple_(*map(sa.literal, after)))
        lines: list[str] = []
        try:
            with store.snapshot() as connection:
                rows = connection.execute(statement).all()
                for row in rows:
                    lines += _examine_row(connection, table, keys, row, examine)
        except Exception as e:  # the file is damaged, and the rows that follow cannot be read
            yield from lines
            yield f"table {table.name} cannot be read: {e}"
            return
        yield from lines
        report.rows[table.name] += len(rows)
        if not rows:
            return
        after, before = tuple(getattr(rows[-1], key.name) for key in keys), after
        if any(value is None for value in after) or after == before:
            yield f"table {table.name} cannot be read: its keys are damaged"
            return


def _examine_row(
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
    except Exception as e:  # decoding damaged bytes can raise any exception
        key_values = ", ".join(f"{key.name}={getattr(row, key.name)!r}" for key in keys)
        return [f"table {table.name}, row {key_values}: {e or type(e).__name__}"]
    return []


def _checksum_check(covered: ChecksummedTable) -> Callable[[sa.Connection, Any], None]:
    def examine(_connection: sa.Connection, row: Any) -> None:
        integrity.require_intact(covered, [row])

    return examine


def _check_decision(connection: sa.Connection, row: Any) -> None:
    with reading_decision(row):
        decision, results = load_decision(connection, row), load_outcomes(connection, row)
    _compare_columns(row, decision)
    if not decision.summary and row.state != derive_state(decision, results):
        raise DamagedError(f"its state is {row.state}, and its outcomes give {derive_state(decision, results)}")
    if not decision.summary and row.repeats != count_repeats(results):
        raise DamagedError(f"it was repeated {row.repeats} times, and its outcomes give {count_repeats(results)}")


def _compare_columns(row: Any, decision: Decision) -> None:
    """Raise DamagedError if a column of `row` differs from `decision`, which was decoded from the frame in the row."""
    expected = build_decision_row(row.incarnation_id, decision, row.node, row.ingested_us)
    for name in integrity.DECISION.columns:
        value = getattr(row, name)
        wanted = expected[name].replace("\0", "\ufffd") if isinstance(expected[name], str) else expected[name]
        stored = value.replace("\0", "\ufffd") if isinstance(value, str) else value
        if name not in _NOT_IN_FRAME and stored != wanted:
            raise DamagedError(f"its column {name} differs from its frame")


def _check_outcome(_connection: sa.Connection, row: Any) -> None:
    integrity.require_intact(integrity.OUTCOME, [row])
    frame = codec.decode(row.frame)
    if not isinstance(frame, Outcome) or (frame.sequence, frame.decision_sequence) != (
        row.sequence,
        row.decision_sequence,
    ):
        raise DamagedError("its frame belongs to another row")


def _check_node_row(_connection: sa.Connection, row: Any) -> None:
    integrity.require_intact(integrity.NODE_ROW, [row])
    unpack_amounts(row.amounts)


def _check_rollup(_connection: sa.Connection, row: Any) -> None:
    rollup = Rollup.unpack(row.counters)
    if (row.nodes, row.chosen) != (len(rollup.nodes), rollup.chosen):
        raise DamagedError("the sums in its row differ from its blob")


def _check_incarnation(connection: sa.Connection, row: Any) -> None:
    incarnation = load(connection, row.incarnation, None, row.last_us)
    stored = sa.select(sa.func.max(DECISIONS.c.sequence)).where(DECISIONS.c.incarnation_id == row.id)
    highest = connection.scalar(stored)
    if highest is not None and highest > incarnation.sequences.highest:
        raise DamagedError(f"its highest sequence is {incarnation.sequences.highest}, and {highest} is stored")
    last = -1
    for hole in incarnation.sequences.holes:
        if hole.first <= last or hole.last < hole.first or hole.last > incarnation.sequences.highest:
            raise DamagedError(f"its holes contradict each other at {hole.first}")
        last = hole.last
