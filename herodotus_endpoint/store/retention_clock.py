"""The time that retention goes by: kept in the database, advanced by the monotonic clock, never by a jump.

Owns: that time, its row. Does not own: ages (`ages`), what is deleted (`retention`).

A wall clock that is ten years ahead for a moment would make every record ten years old. This time advances by what the
monotonic clock counts while a process runs, and stands still while none does. Where the wall clock is ahead (after an
outage, or because it is wrong), it follows by CATCH_UP of the elapsed time, so that a record leaves at most a tenth
early. Where the wall clock is behind, it goes on: it never goes back.

Times of ingest are of this time, so an age is a difference of two readings of one clock. Processes share it by its row:
each writes what it has reached, and takes what another one has reached beyond that.

Invariant: it never goes back, and between two readings that are `t` seconds of the monotonic clock apart it advances by
at most (1 + CATCH_UP) · t, however often a process starts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import sqlalchemy as sa

from herodotus_endpoint.store.schema import CLOCK, DECISIONS, INCARNATIONS

CATCH_UP: Final = 0.1  # an outage of a day is made up for within ten days; ages are short by a tenth at most
ROW: Final = 1


class RetentionClock:
    """The time of retention. Every thread may ask. `start` comes before anything else."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._now_s = 0.0
        self._read_s = monotonic()

    def start(self, connection: sa.Connection) -> None:
        """Take the time up where the database left it. `connection`: one that writes."""
        row = connection.execute(sa.select(CLOCK.c.now_us).where(CLOCK.c.id == ROW)).one_or_none()
        now_us = row.now_us if row else _first_us(connection, int(self._wall() * 1e6))
        if row is None:
            connection.execute(CLOCK.insert().values(id=ROW, now_us=now_us))
        with self._lock:
            self._now_s, self._read_s = now_us / 1e6, self._monotonic()

    def now_us(self) -> int:
        """Return the time of retention in microseconds."""
        with self._lock:
            return int(self._advance() * 1e6)

    def wall_us(self) -> int:
        """Return the wall clock's time in microseconds: for what is shown, never for what is deleted."""
        return int(self._wall() * 1e6)

    def offset_s(self) -> float:
        """Return by how many seconds the wall clock is ahead; negative where it is behind."""
        with self._lock:
            return self._wall() - self._advance()

    def sync(self, connection: sa.Connection) -> int:
        """Write the time to the database, take over what another process reached, and return it in microseconds."""
        now_us = self.now_us()
        stored = connection.execute(sa.select(CLOCK.c.now_us).where(CLOCK.c.id == ROW)).scalar_one()
        if stored > now_us:
            with self._lock:
                self._now_s = max(self._advance(), stored / 1e6)
            return int(stored)
        connection.execute(CLOCK.update().where(CLOCK.c.id == ROW).values(now_us=now_us))
        return now_us

    def follow_wall(self, connection: sa.Connection) -> None:
        """Go forward to the wall clock at once: an operator vouches for it."""
        with self._lock:
            self._now_s = max(self._advance(), self._wall())
        self.sync(connection)

    def _advance(self) -> float:
        read_s = self._monotonic()
        elapsed_s, self._read_s = max(0.0, read_s - self._read_s), read_s
        self._now_s += elapsed_s
        self._now_s += min(max(0.0, self._wall() - self._now_s), CATCH_UP * elapsed_s)
        return self._now_s


def _first_us(connection: sa.Connection, wall_us: int) -> int:
    """Return where the time of a database begins that has none yet: the newest record, or now if that is earlier.

    Either clock may be wrong. The earlier one deletes nothing.
    """
    newest = connection.scalar(sa.select(DECISIONS.c.ingested_us).order_by(DECISIONS.c.id.desc()).limit(1))
    if newest is None:
        newest = connection.scalar(sa.select(sa.func.max(INCARNATIONS.c.last_us)))
    return wall_us if newest is None else min(wall_us, int(newest))
