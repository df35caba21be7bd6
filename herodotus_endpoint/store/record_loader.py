"""Loading a record, which is a decision with its outcomes and node table, from a row of any tier.

Owns: reading the frame, key frame, outcomes and node table of a row. Does not own: which rows are read (`reader`,
`retention`, `export`), the content of a summary (`summaries`).

Invariant: the node table has a name for every slot that held a node, and the decision is the one that was stored.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from herodotus_endpoint.store import integrity, summaries
from herodotus_endpoint.store.delta_chains import decode_decision, decompress_blob, encode_wire_frame
from herodotus_endpoint.store.integrity import DamagedError, reading_decision
from herodotus_endpoint.store.node_table_cache import NodeTableCache
from herodotus_endpoint.store.schema import DECISIONS, OUTCOMES
from herodotus_endpoint.store.summaries import DecisionRecord
from herodotus_record import codec
from herodotus_record.model import FOUND_LATER, Decision, Evaluation, NodeTable, Outcome

STATES_WITH_RESULT: Final = ("Bound", "DryRun", "Failed")  # states that require a stored outcome
Row = sa.Row[Any]


class RecordLoader:
    """Loads records (decision, outcomes, node table) from complete rows of `decisions`. Safe for concurrent use."""

    def __init__(self) -> None:
        self._tables = NodeTableCache()

    def clear(self) -> None:
        """Drop every cached node table."""
        self._tables = NodeTableCache()

    def load(self, connection: sa.Connection, row: Row, base: bytes | None = None) -> DecisionRecord:
        """Return the record (decision, outcomes, node table) of a row of `decisions`.

        `base` is the blob of the row's key frame, if the caller has read it. Raises DamagedError if the stored bytes
        are damaged.
        """
        with reading_decision(row):
            return self._load(connection, row, base)

    def _load(self, connection: sa.Connection, row: Row, base: bytes | None) -> DecisionRecord:
        content = _content(connection, row, base)
        later = load_outcomes(connection, row)
        if content[: len(summaries.MAGIC)] == summaries.MAGIC:
            summary = summaries.decode_summary(content)
            in_summary = {o.sequence for o in summary.outcomes}
            later = tuple(o for o in later if o.sequence not in in_summary)
            _require_same_decision(row, summary.decision)
            return DecisionRecord(summary.decision, (*summary.outcomes, *later), summary.table)
        decision = decode_decision(content)
        _require_same_decision(row, decision)
        if row.state in STATES_WITH_RESULT and not any(outcome.final for outcome in later):
            raise DamagedError(f"its state is {row.state}, and its result is not stored")
        return DecisionRecord(decision, later, self._table(connection, row, decision))

    def load_frames(self, connection: sa.Connection, row: Row) -> list[bytes]:
        """Return the encoded frames of a row of `decisions`: the decision, then its outcomes.

        A summary also has its node rows, after the decision.
        """
        content = _content(connection, row, None)
        later = _outcome_frames(connection, row)
        if content[: len(summaries.MAGIC)] != summaries.MAGIC:
            return [encode_wire_frame(content), *later]
        in_summary = summaries.split_frames(content)
        return [*in_summary, *(frame for frame in later if frame not in in_summary)]

    def _table(self, connection: sa.Connection, row: Row, decision: Decision) -> NodeTable:
        table = self._tables.get(connection, row.incarnation_id, row.generation, decision.slots)
        for slot in [slot for slot, name in enumerate(table.names) if not name]:
            if decision.evaluation[slot] != Evaluation.ABSENT:  # the scheduler sent no row for it
                table.names[slot] = f"unknown (slot {slot})"
        return table


def load_decision(connection: sa.Connection, row: Row) -> Decision:
    """Return the decision of a row of `decisions`, without node table and outcomes.

    Raises DamagedError if the row is damaged.
    """
    with reading_decision(row):
        content = _content(connection, row, None)
        is_summary = content[: len(summaries.MAGIC)] == summaries.MAGIC
        decision = summaries.decode_summary(content).decision if is_summary else decode_decision(content)
        _require_same_decision(row, decision)
    return decision


def _require_same_decision(row: Row, decision: Decision) -> None:
    """Raise DamagedError if `decision`, decoded from the frame in `row`, is not the decision that the row names."""
    if (decision.id.replace("\0", "\ufffd"), decision.sequence) != (
        row.decision_id.replace("\0", "\ufffd"),
        row.sequence,
    ):
        raise DamagedError("it contains the frame of another decision")


def load_outcomes(connection: sa.Connection, row: Row) -> tuple[Outcome, ...]:
    """Return the outcomes that the table `outcomes` has for the decision in a row of `decisions`."""
    frames = (codec.decode(frame) for frame in _outcome_frames(connection, row))
    return tuple(f for f in frames if isinstance(f, Outcome))


def _outcome_frames(connection: sa.Connection, row: Row) -> list[bytes]:
    statement = (
        sa.select(OUTCOMES)
        .where(OUTCOMES.c.incarnation_id == row.incarnation_id, OUTCOMES.c.decision_sequence == row.sequence)
        .order_by(
            OUTCOMES.c.sequence == FOUND_LATER, OUTCOMES.c.sequence
        )  # an outcome found by a later scheduler is last
    )
    rows = connection.execute(statement).all()
    integrity.require_intact(integrity.OUTCOME, rows)
    return [row.frame for row in rows]


def _content(connection: sa.Connection, row: Row, base: bytes | None) -> bytes:
    """Return the uncompressed content of the blob in a row of `decisions`.

    If the blob is a delta, its key frame is needed: `base` is the key frame's blob, or None to read it.
    """

    def key_frame() -> bytes:
        if base is not None:
            return base
        key = (DECISIONS.c.incarnation_id == row.incarnation_id, DECISIONS.c.sequence == row.base)
        frame: bytes = connection.execute(sa.select(DECISIONS.c.frame).where(*key)).scalar_one()
        return frame

    return decompress_blob(row.frame, None if row.base == row.sequence else key_frame)
