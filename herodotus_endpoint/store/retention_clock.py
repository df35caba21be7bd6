"""The clock of retention: stored in the database, advanced by the monotonic clock, and never set by a jump.

Owns: the time of retention and its row. Does not own: ages (`retention_limits`), deletion (`retention`).

A wall clock that is ten years ahead for a moment would make every record ten years old. This clock advances with the
monotonic clock while a process runs, and stops while none runs. If the wall clock is ahead, after an outage or because
it is wrong, this clock advances faster by CATCH_UP of the elapsed time. A record is therefore deleted at most a tenth
early. If the wall clock is behind, this clock continues.

Times of ingest are in this time, so an age is the difference of two readings of one clock. Processes share the time
through its row: each stores its time, and takes the stored time if that is later.

Invariant: the time never goes back. Between two readings that are `t` seconds of the monotonic clock apart it advances
by at most (1 + CATCH_UP) · t, regardless of how often processes start.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import sqlalchemy as sa

from herodotus_endpoint.store.schema import CLOCK, DECISIONS, INCARNATIONS

CATCH_UP: Final = 0.1  # catches up on an outage of a day in ten days; ages are at most a tenth too high
ROW: Final = 1


class RetentionClock:
    """The clock by which retention measures the age of records. It never goes back and follows the wall clock slowly.

    Call `start` before any other method. Safe for concurrent use.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._now_s = 0.0
        self._read_s = monotonic()

    def start(self, connection: sa.Connection) -> None:
        """Continue from the time that the database contains. `connection` must be able to write."""
        row = connection.execute(sa.select(CLOCK.c.now_us).where(CLOCK.c.id == ROW)).one_or_none()
        now_us = row.now_us if row else _first_us(connection, int(self._wall() * 1e6))
        if row is None:
            connection.execute(CLOCK.insert().values(id=ROW, now_us=now_us))
        with self._lock:
            self._now_s, self._read_s = now_us / 1e6, self._monotonic()

    def now_us(self) -> int:
        """Return the time by which ages are measured, in microseconds since the epoch. The wall clock may differ."""
        with self._lock:
            return int(self._advance() * 1e6)

    def wall_us(self) -> int:
        """Return the wall clock's time in microseconds, for displayed times only, never for deletion."""
        return int(self._wall() * 1e6)

    def offset_s(self) -> float:
        """Return by how many seconds the wall clock is ahead of this clock; negative if it is behind."""
        with self._lock:
            return self._wall() - self._advance()

    def sync(self, connection: sa.Connection) -> int:
        """Store this clock's time in the database, or adopt the stored time if it is later.

        Returns the resulting time in microseconds since the epoch.
        """
        now_us = self.now_us()
        stored = connection.execute(sa.select(CLOCK.c.now_us).where(CLOCK.c.id == ROW)).scalar_one()
        if stored > now_us:
            with self._lock:
                self._now_s = max(self._advance(), stored / 1e6)
            return int(stored)
        connection.execute(CLOCK.update().where(CLOCK.c.id == ROW).values(now_us=now_us))
        return now_us

    def follow_wall(self, connection: sa.Connection) -> None:
        """Advance to the wall clock's time at once, if that is later, and store the time.

        Call it when an operator has confirmed that the wall clock is right.
        """
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
    """Return the time at which the clock starts in a database that has not stored its time yet.

    It is the earlier one of `wall_us` and the newest record's time. Either may be wrong; the earlier one causes no
    deletion.
    """
    newest = connection.scalar(sa.select(DECISIONS.c.ingested_us).order_by(DECISIONS.c.id.desc()).limit(1))
    if newest is None:
        newest = connection.scalar(sa.select(sa.func.max(INCARNATIONS.c.last_us)))
    return wall_us if newest is None else min(wall_us, int(newest))
