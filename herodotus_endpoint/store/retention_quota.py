"""A quota on deletions by age, which bounds what a mistake can delete before an operator notices.

Owns: the bounds, counting against them in the database. Does not own: deletion (`retention`), the time
(`retention_clock`).

The time of retention does not jump. But an operator can shorten ages, and the row of the clock can be damaged. In these
cases at most PASS_SHARE of the decisions are removed in one pass and at most DAY_SHARE in a day. Ages below a week need
a larger share: twice what is removed in a day while the number of decisions is constant. Deletion by size has no quota:
a full disk is worse, and it does not depend on a clock.

Invariant: removed decisions are counted in the transaction that removes them.
"""

from __future__ import annotations

import logging
from typing import Final

import sqlalchemy as sa

from herodotus_endpoint.store.retention_clock import ROW
from herodotus_endpoint.store.retention_limits import DAY_S
from herodotus_endpoint.store.schema import CLOCK, DECISIONS

PASS_SHARE: Final = 0.05  # per pass; a pass runs every 10 s, and with an age of an hour removes 0.3 %
DAY_SHARE: Final = 0.25  # per day; with the default age of 7 days a seventh is removed
FLOOR: Final = 1000  # always allowed: shares of a small database would delay each burst
_DAY_US: Final = int(DAY_S * 1e6)
_log: Final = logging.getLogger(__name__)


class RetentionQuota:
    """The quota of decisions that retention may remove because of their age, per pass and per day.

    `left` is the number that it may still remove in the current pass. `begin` starts a pass.
    """

    def __init__(self, shortest_age_s: float, *, unbounded: bool) -> None:
        """Create a quota; with `unbounded` it has no limits, because an operator has lifted them.

        If `shortest_age_s`, the shortest age limit, is below eight days, the daily quota is larger.
        """
        self._day_share = max(DAY_SHARE, 2 * DAY_S / shortest_age_s)
        self._unbounded = unbounded
        self._warned_us = 0
        self._day_us = 0
        self._held = 0
        self.left = 0

    def begin(self, connection: sa.Connection, now_us: int) -> None:
        """Start a pass at the retention clock's time `now_us`, and set `left` by what was already removed today.

        If the last day is over, a new one starts.
        """
        row = connection.execute(sa.select(CLOCK).where(CLOCK.c.id == ROW)).one()
        day_us, held, removed = row.day_us, row.held, row.removed
        if now_us - day_us >= _DAY_US:
            day_us, held, removed = now_us, _count_decisions(connection), 0
        elif removed >= self._day_limit(held):
            held = max(held, _count_decisions(connection) + removed)  # more were stored since
        if (day_us, held, removed) != (row.day_us, row.held, row.removed):
            values = {"day_us": day_us, "held": held, "removed": removed}
            connection.execute(CLOCK.update().where(CLOCK.c.id == ROW).values(values))
        self._day_us, self._held = day_us, held
        pass_limit = max(FLOOR, int(held * PASS_SHARE))
        self.left = 1 << 62 if self._unbounded else max(0, min(pass_limit, self._day_limit(held) - removed))

    def spend(self, connection: sa.Connection, decisions: int) -> int:
        """Subtract decisions that this transaction removes from the quota, and return `decisions` unchanged."""
        if decisions:
            self.left -= decisions
            connection.execute(CLOCK.update().where(CLOCK.c.id == ROW).values(removed=CLOCK.c.removed + decisions))
        return decisions

    def warn_if_spent(self, connection: sa.Connection) -> None:
        """Log a warning once a day if the day's quota is used up."""
        removed: int = connection.execute(sa.select(CLOCK.c.removed).where(CLOCK.c.id == ROW)).scalar_one()
        if self._unbounded or removed < self._day_limit(self._held) or self._warned_us == self._day_us:
            return
        self._warned_us = self._day_us
        _log.warning(
            "retention: %d of %d decisions were removed by age today, which is the daily limit; other expired decisions"
            " stay until tomorrow; if you shortened --max-age on purpose, restart with --retention-unbounded",
            removed,
            self._held,
        )

    def _day_limit(self, held: int) -> int:
        return max(FLOOR, int(held * self._day_share))


def _count_decisions(connection: sa.Connection) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(DECISIONS)).scalar_one()
