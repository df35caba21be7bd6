"""Results that come in another batch than their decision.

Owns: what a result makes of a stored decision, which results a decision had before it came, how long a result is kept.
Does not own: which state a result is (`herodotus_record.explain`), results of the same batch (`writer`).

Invariants: a decision takes its state from its results in whatever order they came, and they stay as long as it does.
It has one final result: where a later scheduler found one (`Outcome.found_later`) and the decision's own still arrives,
the first of the two stays. Both are proved by the pod, so they say the same.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from typing import Final

import sqlalchemy as sa

from herodotus_endpoint.store.database import Database, Row
from herodotus_endpoint.store.schema import DECISIONS, FULL, INCARNATIONS, KEPT_LONGER, OUTCOMES
from herodotus_record.model import FOUND_LATER, Source

BINDING: Final = "Binding"  # the state of a decision whose result is not stored yet
DecisionKey = tuple[int, int]  # of a decision: incarnation, sequence


def update_states(connection: sa.Connection, states: Mapping[DecisionKey, str]) -> None:
    """Decisions of earlier batches that still wait for their result have it now."""
    if states:
        rows = [
            {"incarnation": incarnation, "of": sequence, "to": to} for (incarnation, sequence), to in states.items()
        ]
        connection.execute(_SETTLE, rows)


def find_final_state(connection: sa.Connection, incarnation_id: int, sequence: int) -> str | None:
    """The state that earlier batches make of a decision that comes after its results; None where there is none."""
    o = OUTCOMES.c
    of_it = (o.incarnation_id == incarnation_id, o.decision_sequence == sequence, o.state.is_not(None))
    state: str | None = connection.scalar(sa.select(o.state).where(*of_it).limit(1))
    return state


def find_open_decisions(
    connection: sa.Connection, cluster: str, profiles: Sequence[str], except_of: str, most: int
) -> Sequence[Row]:
    """Return the decisions of a cluster's schedulers whose result is not stored, the oldest first.

    `except_of`: an incarnation whose decisions are left out.
    """
    d, i = DECISIONS.c, INCARNATIONS.c
    statement = (
        sa.select(i.incarnation, d.sequence, d.decision_id, d.namespace, d.pod, d.pod_uid, d.node, d.started_us)
        .join(INCARNATIONS, i.id == d.incarnation_id)
        .where(d.state == sa.bindparam("open", BINDING, literal_execute=True))  # as the index has it
        .where(d.cluster == cluster, d.source == Source.SCHEDULER.value, d.profile.in_(profiles))
        .where(i.incarnation != except_of)
        .order_by(d.id)
        .limit(most)
    )
    return [row._asdict() for row in connection.execute(statement)]


def find_decision(connection: sa.Connection, incarnation: str, sequence: int) -> tuple[int, str, str] | None:
    """Return the incarnation's row id and cluster, and the state, of a stored decision; None where it is not stored."""
    d, i = DECISIONS.c, INCARNATIONS.c
    statement = (
        sa.select(i.id, i.cluster, d.state)
        .join(INCARNATIONS, i.id == d.incarnation_id)
        .where(i.incarnation == incarnation, d.sequence == sequence)
    )
    row = connection.execute(statement).one_or_none()
    return None if row is None else (row.id, row.cluster, row.state)


def select_found_later(connection: sa.Connection, keys: Collection[DecisionKey]) -> set[DecisionKey]:
    """Return those of these decisions whose result a later scheduler has found."""
    o = OUTCOMES.c
    found = set()
    for incarnation_id in {incarnation_id for incarnation_id, _ in keys}:
        sequences = [sequence for of, sequence in keys if of == incarnation_id]
        of_them = (o.incarnation_id == incarnation_id, o.decision_sequence.in_(sequences), o.sequence == FOUND_LATER)
        found |= {
            (incarnation_id, sequence)
            for sequence in connection.scalars(sa.select(o.decision_sequence).where(*of_them))
        }
    return found


def set_tiers(
    connection: sa.Connection,
    database: Database,
    outcomes: Sequence[Row],
    together: Container[DecisionKey],
    now_us: int,
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
            database.ensure_partition(connection, now_us, KEPT_LONGER)


_SETTLE: Final = (
    DECISIONS.update()
    .where(
        DECISIONS.c.incarnation_id == sa.bindparam("incarnation"),
        DECISIONS.c.sequence == sa.bindparam("of"),
        DECISIONS.c.state == BINDING,
    )
    .values(state=sa.bindparam("to"))
)
