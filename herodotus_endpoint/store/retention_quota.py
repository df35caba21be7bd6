"""How many decisions may leave by age at once: a bound on what a mistake can delete before somebody sees it.

Owns: the bounds, counting against them in the database. Does not own: deleting (`retention`), the time (`clock`).

The time of retention does not jump. Ages do, when an operator shortens them, and so would a damaged row of the clock.
Then no more than PASS_SHARE of the decisions leave in one pass, and no more than DAY_SHARE in a day. Ages below a week
need more: twice what leaves in a day when as much comes as goes. Size has no such bound: a full disk is worse, and no
clock decides it.

Invariant: what left is counted in the transaction in which it left.
"""

from __future__ import annotations

import logging
from typing import Final

import sqlalchemy as sa

from herodotus_endpoint.store.retention_clock import ROW
from herodotus_endpoint.store.retention_limits import DAY_S
from herodotus_endpoint.store.schema import CLOCK, DECISIONS

PASS_SHARE: Final = 0.05  # of the decisions: a pass comes every 10 s, and with an age of an hour 0.3 % leave in one
DAY_SHARE: Final = 0.25  # with the default of 7 days a seventh leaves in a day
FLOOR: Final = 1000  # that many may always leave: shares of a small database would hold up every burst
_DAY_US: Final = int(DAY_S * 1e6)
_log: Final = logging.getLogger(__name__)


class RetentionQuota:
    """What may still leave by age in the pass under way. `begin` starts a pass."""

    def __init__(self, shortest_age_s: float, *, unbounded: bool) -> None:
        """`unbounded`: an operator has lifted the bounds."""
        self._day_share = max(DAY_SHARE, 2 * DAY_S / shortest_age_s)
        self._unbounded = unbounded
        self._warned_us = 0
        self._day_us = 0
        self._held = 0
        self.left = 0

    def begin(self, connection: sa.Connection, now_us: int) -> None:
        """Read what left in the day under way; begin another day where that one is over."""
        row = connection.execute(sa.select(CLOCK).where(CLOCK.c.id == ROW)).one()
        day_us, held, removed = row.day_us, row.held, row.removed
        if now_us - day_us >= _DAY_US:
            day_us, held, removed = now_us, _stored(connection), 0
        elif removed >= self._of(held):
            held = max(held, _stored(connection) + removed)  # more came since
        if (day_us, held, removed) != (row.day_us, row.held, row.removed):
            values = {"day_us": day_us, "held": held, "removed": removed}
            connection.execute(CLOCK.update().where(CLOCK.c.id == ROW).values(values))
        self._day_us, self._held = day_us, held
        of_pass = max(FLOOR, int(held * PASS_SHARE))
        self.left = 1 << 62 if self._unbounded else max(0, min(of_pass, self._of(held) - removed))

    def spend(self, connection: sa.Connection, decisions: int) -> int:
        """Count decisions that leave in this transaction; return how many."""
        if decisions:
            self.left -= decisions
            connection.execute(CLOCK.update().where(CLOCK.c.id == ROW).values(removed=CLOCK.c.removed + decisions))
        return decisions

    def warn_if_spent(self, connection: sa.Connection) -> None:
        """Log once a day that the day's bound is reached."""
        removed: int = connection.execute(sa.select(CLOCK.c.removed).where(CLOCK.c.id == ROW)).scalar_one()
        if self._unbounded or removed < self._of(self._held) or self._warned_us == self._day_us:
            return
        self._warned_us = self._day_us
        _log.warning(
            "retention: %d of %d decisions have left by age within a day, which is its bound; what else is over its age"
            " stays until tomorrow; if that is meant (a shorter --max-age), restart with --retention-unbounded",
            removed,
            self._held,
        )

    def _of(self, held: int) -> int:
        return max(FLOOR, int(held * self._day_share))


def _stored(connection: sa.Connection) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(DECISIONS)).scalar_one()
