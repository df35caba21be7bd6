"""Results that come in another batch than their decision.

Owns: what a result makes of a stored decision, which results a decision had before it came, how long a result is kept.
Does not own: which state a result is (`herodotus_record.explain`), results of the same batch (`writer`).

Invariant: a decision takes its state from its results in whatever order they came, and they stay as long as it does.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final

import sqlalchemy as sa

from herodotus_endpoint.store.engine import Database, Row
from herodotus_endpoint.store.schema import DECISIONS, FULL, KEPT_LONGER, OUTCOMES

BINDING: Final = "Binding"  # the state of a decision whose result is not stored yet
Key = tuple[int, int]  # of a decision: incarnation, sequence


def settle(connection: sa.Connection, states: Mapping[Key, str]) -> None:
    """Decisions of earlier batches that still wait for their result have it now."""
    if states:
        rows = [
            {"incarnation": incarnation, "of": sequence, "to": to} for (incarnation, sequence), to in states.items()
        ]
        connection.execute(_SETTLE, rows)


def already(connection: sa.Connection, incarnation_id: int, sequence: int) -> str | None:
    """The state that earlier batches make of a decision that comes after its results; None where there is none."""
    o = OUTCOMES.c
    of_it = (o.incarnation_id == incarnation_id, o.decision_sequence == sequence, o.state.is_not(None))
    state: str | None = connection.scalar(sa.select(o.state).where(*of_it).limit(1))
    return state


def keep_late(
    connection: sa.Connection, database: Database, outcomes: Sequence[Row], together: Container[Key], now_us: int
) -> None:
    """Rows of outcomes go where those of their decisions are kept, if these have left the first tier.

    A summary holds the outcomes that were there; one that comes later would go with the full records of its own time.
    `together`: decisions that come in the same batch.
    """
    earlier: dict[int, list[Row]] = {}
    for outcome in outcomes:
        if (outcome["incarnation_id"], outcome["decision_sequence"]) not in together:
            earlier.setdefault(outcome["incarnation_id"], []).append(outcome)
    row = DECISIONS.c
    for incarnation_id, theirs in earlier.items():
        sequences = {outcome["decision_sequence"] for outcome in theirs}
        moved = (row.incarnation_id == incarnation_id, row.sequence.in_(sequences), row.tier != FULL)
        left = set(connection.scalars(sa.select(row.sequence).where(*moved)))
        for outcome in theirs:
            if outcome["decision_sequence"] in left:
                outcome["tier"] = KEPT_LONGER
        if left:
            database.make_room(connection, now_us, KEPT_LONGER)


_SETTLE: Final = (
    DECISIONS.update()
    .where(
        DECISIONS.c.incarnation_id == sa.bindparam("incarnation"),
        DECISIONS.c.sequence == sa.bindparam("of"),
        DECISIONS.c.state == BINDING,
    )
    .values(state=sa.bindparam("to"))
)
