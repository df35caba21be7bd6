"""The state of scheduler incarnations, which the writer loads and saves with each batch.

An incarnation is one run of a scheduler process. It numbers its records without omissions, so the service knows which
ones did not arrive: a hole is a range of numbers that is missing below the highest one (`sequences`).

Owns: the rows of `incarnations`, `incarnation_profiles` and `holes`. Does not own: changes of the state (`writer`),
counting sequence numbers (`sequences`).

Invariant: `load` after `save` returns the same state.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import sqlalchemy as sa

from herodotus_endpoint.store.node_rows import SlotMap, load_slot_map
from herodotus_endpoint.store.schema import HOLES, INCARNATIONS, PROFILES
from herodotus_endpoint.store.sequences import Hole, Sequences


@dataclass
class Incarnation:
    """What the store knows of one incarnation, which is one run of a scheduler process.

    `sequences` says which sequence numbers have arrived, and `slot_map` which node is in each node slot.
    `stored_profiles` and `stored_holes` are the profiles and the ranges of missing sequence numbers that the database
    contains.
    """

    id: int
    cluster: str
    identity: str
    sequences: Sequences
    slot_map: SlotMap
    last_us: int
    profiles: dict[str, int] = field(default_factory=dict)  # profile -> start of its first decision
    stored_profiles: set[str] = field(default_factory=set)
    stored_holes: tuple[Hole, ...] = ()


def load(connection: sa.Connection, name: str, cached: Incarnation | None, now_us: int) -> Incarnation:
    """Return the state of the incarnation with this name (a UUID); insert a new one if the database has none.

    `cached` is returned if the database still has the same state. `now_us` is the wall clock's time in microseconds.
    """
    row = connection.execute(sa.select(INCARNATIONS).where(INCARNATIONS.c.incarnation == name)).one_or_none()
    if row is None:
        return _insert(connection, name, now_us)
    if cached and cached.id == row.id and _is_current(cached, row):
        return cached
    holes = tuple(
        Hole(h.first, h.last, h.explained, h.left_out)
        for h in connection.execute(sa.select(HOLES).where(HOLES.c.incarnation_id == row.id).order_by(HOLES.c.first))
    )
    profiles = connection.scalars(sa.select(PROFILES.c.profile).where(PROFILES.c.incarnation_id == row.id))
    slot_map = load_slot_map(connection, row.id, row.rows_generation)
    sequences = Sequences(row.highest, list(holes))
    return Incarnation(row.id, row.cluster, row.identity, sequences, slot_map, row.last_us, {}, set(profiles), holes)


def save(connection: sa.Connection, incarnation: Incarnation, now_us: int, ingested_us: int) -> None:
    """Write the state of an incarnation to the database.

    `now_us`, the wall clock's time, is displayed as its last contact. `ingested_us` is the retention clock's time, by
    which retention measures its age. Both are in microseconds.
    """
    incarnation.last_us = now_us
    connection.execute(
        INCARNATIONS.update()
        .where(INCARNATIONS.c.id == incarnation.id)
        .values(
            cluster=incarnation.cluster,
            identity=incarnation.identity,
            rows_generation=incarnation.slot_map.generation,
            highest=incarnation.sequences.highest,
            last_us=now_us,
            ingested_us=ingested_us,
        )
    )
    new_profiles = [
        {"incarnation_id": incarnation.id, "profile": profile, "first_us": first_us}
        for profile, first_us in incarnation.profiles.items()
        if profile not in incarnation.stored_profiles
    ]
    if new_profiles:
        connection.execute(PROFILES.insert(), new_profiles)
        incarnation.stored_profiles |= set(incarnation.profiles)
    _save_holes(connection, incarnation)


def _save_holes(connection: sa.Connection, incarnation: Incarnation) -> None:
    holes = tuple(incarnation.sequences.holes)
    if holes == incarnation.stored_holes:
        return
    connection.execute(HOLES.delete().where(HOLES.c.incarnation_id == incarnation.id))
    if holes:
        rows = [{"incarnation_id": incarnation.id, **asdict(h)} for h in holes]
        connection.execute(HOLES.insert(), rows)
    incarnation.stored_holes = holes


def _insert(connection: sa.Connection, name: str, now_us: int) -> Incarnation:
    created = connection.execute(
        INCARNATIONS.insert().values(
            incarnation=name,
            cluster="",
            identity="",
            rows_generation=-1,
            highest=-1,
            first_us=now_us,
            last_us=now_us,
        )
    )
    assert created.inserted_primary_key is not None
    empty = SlotMap(-1, -1, np.zeros(0, np.int64), np.zeros(0, np.int64))
    return Incarnation(created.inserted_primary_key[0], "", "", Sequences(), empty, now_us)


def _is_current(cached: Incarnation, row: sa.Row[Any]) -> bool:
    """Return whether `cached` equals its `row` in the database, so that no other process has stored frames since."""
    return (row.highest, row.rows_generation, row.last_us) == (
        cached.sequences.highest,
        cached.slot_map.generation,
        cached.last_us,
    )
