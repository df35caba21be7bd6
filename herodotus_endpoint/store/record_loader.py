"""A decision with what belongs to it, out of its row: whatever tier it is in.

Owns: reading frame, key frame, outcomes and node table of a row. Does not own: which rows (`reader`, `retention`,
`exchange`), what a summary holds (`summaries`).

Invariant: the table has a name for every slot that held a node, and the decision is the one that was stored.
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

STATES_WITH_RESULT: Final = ("Bound", "DryRun", "Failed")  # states that follow from a stored result
Row = sa.Row[Any]


class RecordLoader:
    """Reads rows, which must have every column. Every thread may ask."""

    def __init__(self) -> None:
        self._tables = NodeTableCache()

    def load(self, connection: sa.Connection, row: Row, base: bytes | None = None) -> DecisionRecord:
        """The decision in a row. `base`: the frame of its key frame, where that was read already."""
        with reading_decision(row):
            return self._load(connection, row, base)

    def _load(self, connection: sa.Connection, row: Row, base: bytes | None) -> DecisionRecord:
        content = _content(connection, row, base)
        later = load_outcomes(connection, row)
        if content[: len(summaries.MAGIC)] == summaries.MAGIC:
            found = summaries.decode_summary(content)
            known = {o.sequence for o in found.outcomes}
            later = tuple(o for o in later if o.sequence not in known)
            _require_own(row, found.decision)
            return DecisionRecord(found.decision, (*found.outcomes, *later), found.table)
        found_decision = decode_decision(content)
        _require_own(row, found_decision)
        if row.state in STATES_WITH_RESULT and not any(outcome.final for outcome in later):
            raise DamagedError(f"its state is {row.state}, and its result is not there")
        return DecisionRecord(found_decision, later, self._table(connection, row, found_decision))

    def load_frames(self, connection: sa.Connection, row: Row) -> list[bytes]:
        """What the decision in a row is made of: its frame, of a summary its node table's, its outcomes'."""
        content = _content(connection, row, None)
        later = _outcome_frames(connection, row)
        if content[: len(summaries.MAGIC)] != summaries.MAGIC:
            return [encode_wire_frame(content), *later]
        held = summaries.split_frames(content)
        return [*held, *(frame for frame in later if frame not in held)]

    def _table(self, connection: sa.Connection, row: Row, decision: Decision) -> NodeTable:
        table = self._tables.get(connection, row.incarnation_id, row.generation, decision.slots)
        for slot in [slot for slot, name in enumerate(table.names) if not name]:
            if decision.evaluation[slot] != Evaluation.ABSENT:  # the scheduler sent no row for it
                table.names[slot] = f"unknown (slot {slot})"
        return table


def load_decision(connection: sa.Connection, row: Row) -> Decision:
    """The decision in a row alone."""
    with reading_decision(row):
        content = _content(connection, row, None)
        is_summary = content[: len(summaries.MAGIC)] == summaries.MAGIC
        decision = summaries.decode_summary(content).decision if is_summary else decode_decision(content)
        _require_own(row, decision)
    return decision


def _require_own(row: Row, decision: Decision) -> None:
    """Raise DamagedError if a row holds another row's frame."""
    if (decision.id.replace("\0", "\ufffd"), decision.sequence) != (
        row.decision_id.replace("\0", "\ufffd"),
        row.sequence,
    ):
        raise DamagedError("it holds the frame of another decision")


def load_outcomes(connection: sa.Connection, row: Row) -> tuple[Outcome, ...]:
    """The outcomes of a row's decision that are stored beside it."""
    frames = (codec.decode(frame) for frame in _outcome_frames(connection, row))
    return tuple(f for f in frames if isinstance(f, Outcome))


def _outcome_frames(connection: sa.Connection, row: Row) -> list[bytes]:
    statement = (
        sa.select(OUTCOMES)
        .where(OUTCOMES.c.incarnation_id == row.incarnation_id, OUTCOMES.c.decision_sequence == row.sequence)
        .order_by(OUTCOMES.c.sequence == FOUND_LATER, OUTCOMES.c.sequence)  # what was found later is the last
    )
    rows = connection.execute(statement).all()
    integrity.require_intact(integrity.OUTCOME, rows)
    return [row.frame for row in rows]


def _content(connection: sa.Connection, row: Row, base: bytes | None) -> bytes:
    """What was packed, read against its key frame where it is a delta."""

    def key_frame() -> bytes:
        if base is not None:
            return base
        key = (DECISIONS.c.incarnation_id == row.incarnation_id, DECISIONS.c.sequence == row.base)
        frame: bytes = connection.execute(sa.select(DECISIONS.c.frame).where(*key)).scalar_one()
        return frame

    return decompress_blob(row.frame, None if row.base in (None, row.sequence) else key_frame)
