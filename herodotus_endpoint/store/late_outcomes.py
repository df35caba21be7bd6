"""Outcomes that arrive in another batch than their decision.

Owns: updating the state and the repeats of stored decisions, finding outcomes that arrived before their decision, the
tier of late outcomes. Does not own: the state that follows from an outcome (`herodotus_answers.explain`), outcomes of
the same batch (`writer`).

Invariant: state and repeats of a decision follow from its outcomes in any order of arrival, and they are kept as long
as the decision. A decision has one final outcome: if a later scheduler found one (sequence FOUND_LATER) and the
original one arrives too, the first of the two is kept. Both were read from the pod, so they agree.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from typing import Final

import sqlalchemy as sa

from herodotus_answers.decision import count_repeats
from herodotus_endpoint.store.database import Database, Row
from herodotus_endpoint.store.schema import DECISIONS, FULL, INCARNATIONS, KEPT_LONGER, OUTCOMES
from herodotus_record import codec
from herodotus_record.model import FOUND_LATER, Outcome, Source

BINDING: Final = "Binding"  # state of a decision without a stored result
DecisionKey = tuple[int, int]  # incarnation id and sequence of a decision


def update_states(connection: sa.Connection, states: Mapping[DecisionKey, str]) -> None:
    """Set the states of stored decisions, by decision, if they have no result yet (their stored state is `Binding`)."""
    if states:
        rows = [
            {"incarnation": incarnation, "of": sequence, "to": to} for (incarnation, sequence), to in states.items()
        ]
        connection.execute(_UPDATE_STATE, rows)


def add_repeats(connection: sa.Connection, repeats: Mapping[DecisionKey, int]) -> None:
    """Increase the stored numbers of repeats of decisions by the numbers in `repeats`."""
    if repeats:
        rows = [{"incarnation": incarnation, "of": of, "more": more} for (incarnation, of), more in repeats.items()]
        connection.execute(_ADD_REPEATS, rows)


def find_repeats(connection: sa.Connection, incarnation_id: int, sequence: int) -> int:
    """Return how often a decision was repeated, by the outcomes that were stored before the decision itself."""
    o = OUTCOMES.c
    of_it = (o.incarnation_id == incarnation_id, o.decision_sequence == sequence, o.state.is_(None))
    frames = connection.scalars(sa.select(o.frame).where(*of_it)).all()
    return count_repeats([outcome for outcome in map(codec.decode, frames) if isinstance(outcome, Outcome)])


def find_final_state(connection: sa.Connection, incarnation_id: int, sequence: int) -> str | None:
    """Return the state that a decision gets from a final outcome that was stored before the decision, or None.

    None means that no final outcome is stored.
    """
    o = OUTCOMES.c
    of_it = (o.incarnation_id == incarnation_id, o.decision_sequence == sequence, o.state.is_not(None))
    state: str | None = connection.scalar(sa.select(o.state).where(*of_it).limit(1))
    return state


def find_open_decisions(
    connection: sa.Connection, cluster: str, profiles: Sequence[str], excluded_incarnation: str, most: int
) -> Sequence[Row]:
    """Return at most `most` stored decisions whose result is not known yet, oldest first.

    Only decisions of these scheduler profiles of the cluster are returned, except those of the scheduler process (the
    incarnation) `excluded_incarnation`. Each is a dict with the columns that identify the decision, its pod and its
    node.
    """
    d, i = DECISIONS.c, INCARNATIONS.c
    statement = (
        sa.select(i.incarnation, d.sequence, d.decision_id, d.namespace, d.pod, d.pod_uid, d.node, d.started_us)
        .join(INCARNATIONS, i.id == d.incarnation_id)
        .where(
            d.state == sa.bindparam("open", BINDING, literal_execute=True)
        )  # a literal, so that the partial index is used
        .where(d.cluster == cluster, d.source == Source.SCHEDULER.value, d.profile.in_(profiles))
        .where(i.incarnation != excluded_incarnation)
        .order_by(d.id)
        .limit(most)
    )
    return [row._asdict() for row in connection.execute(statement)]


def find_decision(connection: sa.Connection, incarnation: str, sequence: int) -> tuple[int, str, str] | None:
    """Return the incarnation's row id, its cluster and the decision's state, or None if the decision is not stored."""
    d, i = DECISIONS.c, INCARNATIONS.c
    statement = (
        sa.select(i.id, i.cluster, d.state)
        .join(INCARNATIONS, i.id == d.incarnation_id)
        .where(i.incarnation == incarnation, d.sequence == sequence)
    )
    row = connection.execute(statement).one_or_none()
    return None if row is None else (row.id, row.cluster, row.state)


def select_found_later(connection: sa.Connection, keys: Collection[DecisionKey]) -> set[DecisionKey]:
    """Return those of the keys (incarnation id, sequence number) whose result a later scheduler process found."""
    o = OUTCOMES.c
    matches = set()
    for incarnation_id in {incarnation_id for incarnation_id, _ in keys}:
        sequences = [sequence for of, sequence in keys if of == incarnation_id]
        of_them = (o.incarnation_id == incarnation_id, o.decision_sequence.in_(sequences), o.sequence == FOUND_LATER)
        matches |= {
            (incarnation_id, sequence)
            for sequence in connection.scalars(sa.select(o.decision_sequence).where(*of_them))
        }
    return matches


def set_tiers(
    connection: sa.Connection,
    database: Database,
    outcomes: Sequence[Row],
    in_batch: Container[DecisionKey],
    now_us: int,
) -> None:
    """Set the tier of new outcome rows to KEPT_LONGER if their decisions are stored in another tier than FULL.

    In the tier FULL, retention would drop the outcomes with the full records of the same ingest time, although their
    decisions stay. `in_batch` contains the keys of decisions that are stored together with the outcomes: these stay
    FULL.
    """
    by_incarnation: dict[int, list[Row]] = {}
    for outcome in outcomes:
        if (outcome["incarnation_id"], outcome["decision_sequence"]) not in in_batch:
            by_incarnation.setdefault(outcome["incarnation_id"], []).append(outcome)
    row = DECISIONS.c
    for incarnation_id, of_incarnation in by_incarnation.items():
        sequences = {outcome["decision_sequence"] for outcome in of_incarnation}
        moved = (row.incarnation_id == incarnation_id, row.sequence.in_(sequences), row.tier != FULL)
        left = set(connection.scalars(sa.select(row.sequence).where(*moved)))
        for outcome in of_incarnation:
            if outcome["decision_sequence"] in left:
                outcome["tier"] = KEPT_LONGER
        if left:
            database.ensure_partition(connection, now_us, KEPT_LONGER)


_UPDATE_STATE: Final = (
    DECISIONS.update()
    .where(
        DECISIONS.c.incarnation_id == sa.bindparam("incarnation"),
        DECISIONS.c.sequence == sa.bindparam("of"),
        DECISIONS.c.state == BINDING,
    )
    .values(state=sa.bindparam("to"))
)
_ADD_REPEATS: Final = (
    DECISIONS.update()
    .where(
        DECISIONS.c.incarnation_id == sa.bindparam("incarnation"),
        DECISIONS.c.sequence == sa.bindparam("of"),
    )
    .values(repeats=DECISIONS.c.repeats + sa.bindparam("more"))
)
