"""What the store knows of each scheduler incarnation, loaded and saved around a batch.

Owns: the rows of `incarnations`, `incarnation_profiles` and `holes`. Does not own: what a batch does with them
(`writer`), the arithmetic of sequences.

Invariant: `load` after `save` gives the same state.
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
    """One life of a scheduler process. `stored`: the holes as the database has them."""

    id: int
    cluster: str
    identity: str
    sequences: Sequences
    slot_map: SlotMap
    last_us: int
    profiles: dict[str, int] = field(default_factory=dict)  # profile -> start of its first decision
    stored_profiles: set[str] = field(default_factory=set)
    stored_holes: tuple[Hole, ...] = ()


def load(connection: sa.Connection, name: str, remembered: Incarnation | None, now_us: int) -> Incarnation:
    """An incarnation's state; a new one is registered. `remembered` is used if the database still says the same."""
    row = connection.execute(sa.select(INCARNATIONS).where(INCARNATIONS.c.incarnation == name)).one_or_none()
    if row is None:
        return _register(connection, name, now_us)
    if remembered and remembered.id == row.id and _same(remembered, row):
        return remembered
    holes = tuple(
        Hole(h.first, h.last, h.explained, h.left_out)
        for h in connection.execute(sa.select(HOLES).where(HOLES.c.incarnation_id == row.id).order_by(HOLES.c.first))
    )
    profiles = connection.scalars(sa.select(PROFILES.c.profile).where(PROFILES.c.incarnation_id == row.id))
    slot_map = load_slot_map(connection, row.id, row.rows_generation)
    sequences = Sequences(row.highest, list(holes))
    return Incarnation(row.id, row.cluster, row.identity, sequences, slot_map, row.last_us, {}, set(profiles), holes)


def save(connection: sa.Connection, incarnation: Incarnation, now_us: int, ingested_us: int) -> None:
    """Write what a batch changed. `now_us` is shown; retention goes by `ingested_us`."""
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
    fresh = [
        {"incarnation_id": incarnation.id, "profile": profile, "first_us": first_us}
        for profile, first_us in incarnation.profiles.items()
        if profile not in incarnation.stored_profiles
    ]
    if fresh:
        connection.execute(PROFILES.insert(), fresh)
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


def _register(connection: sa.Connection, name: str, now_us: int) -> Incarnation:
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


def _same(remembered: Incarnation, row: sa.Row[Any]) -> bool:
    """Whether no other process has stored frames of this incarnation since."""
    return (row.highest, row.rows_generation, row.last_us) == (
        remembered.sequences.highest,
        remembered.slot_map.generation,
        remembered.last_us,
    )
