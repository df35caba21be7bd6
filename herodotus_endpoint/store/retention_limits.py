"""The limits of retention: ages and sizes, the scope of each age, and a quota on deletions by age.

Owns: limits, selecting the age of a cluster and namespace, SQL conditions for it, and counting deletions against the
quota. Does not own: deletion (`retention`), the time (`retention_clock`), parsing durations in flags.

The most specific age applies: first that of a namespace in a cluster, then of a namespace, then of a cluster, then the
default.

The quota bounds what a mistake can delete before an operator notices. The time of retention does not jump, but an
operator can shorten ages, and the row of the clock can be damaged. In these cases at most PASS_SHARE of the decisions
are removed in one pass and at most DAY_SHARE in a day. Ages below a week need a larger share: twice what is removed in
a day while the number of decisions is constant. Deletion by size has no quota: a full disk is worse, and it does not
depend on a clock.

Invariants: every decision is in exactly one scope. Removed decisions are counted in the transaction that removes them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa

from herodotus_endpoint.store.retention_clock import ROW
from herodotus_endpoint.store.schema import CLOCK, DECISIONS

DAY_S: Final = 86_400.0


@dataclass(frozen=True)
class RetentionLimits:
    """The limits of retention: how old records may become, in seconds since ingest, and how many bytes they may use.

    `max_age_s` limits full records and `summary_max_age_s` their summaries. If the latter is not larger, decisions are
    deleted without a summary. `max_age_of` and `summary_max_age_of` override ages by NAMESPACE, CLUSTER/NAMESPACE or
    CLUSTER/. `history_max_age_s` limits node histories. `max_bytes` limits the database and `summary_max_bytes` the
    summaries in it. `unbounded` sets the clock of retention to the wall clock at the start and lifts the quota of
    deletions by age.
    """

    max_age_s: float = 7 * DAY_S
    max_bytes: int = 4 << 30
    history_max_age_s: float = 90 * DAY_S
    max_age_of: Mapping[str, float] = field(default_factory=dict)
    summary_max_age_s: float = 30 * DAY_S
    summary_max_age_of: Mapping[str, float] = field(default_factory=dict)
    summary_max_bytes: int = 1 << 30
    unbounded: bool = False


@dataclass(frozen=True)
class RetentionScope:
    """The decisions of clusters and namespaces that have the same age limits, in seconds.

    `where` selects them. Full records are summarised or deleted at the age `full_s`, summaries are deleted at the age
    `last_s`, which is not below `full_s`.
    """

    where: sa.ColumnElement[bool]
    full_s: float
    last_s: float

    @property
    def summarised(self) -> bool:
        """Whether full records become summaries instead of being deleted."""
        return self.last_s > self.full_s


def build_scopes(limits: RetentionLimits) -> list[RetentionScope]:
    """Return the retention scopes in a stable order: one for each distinct pair of full and summary age limits.

    A scope selects the decisions of the namespaces and clusters to which its pair applies. Every decision is in exactly
    one scope.
    """
    named = {*limits.max_age_of, *limits.summary_max_age_of}
    clusters = sorted({cluster for cluster, slash, _ in (name.rpartition("/") for name in named) if slash})
    namespaces = sorted({namespace for namespace in (name.rpartition("/")[2] for name in named) if namespace})
    conditions_by_ages: dict[tuple[float, float], list[sa.ColumnElement[bool]]] = {}
    for cluster in (*clusters, None):
        for namespace in (*namespaces, None):
            full_s = _age(limits.max_age_of, limits.max_age_s, cluster, namespace)
            summary_s = _age(limits.summary_max_age_of, limits.summary_max_age_s, cluster, namespace)
            condition = sa.and_(
                _is(DECISIONS.c.cluster, cluster, clusters), _is(DECISIONS.c.namespace, namespace, namespaces)
            )
            conditions_by_ages.setdefault((full_s, max(full_s, summary_s)), []).append(condition)
    if len(conditions_by_ages) == 1:
        return [RetentionScope(sa.true(), *ages) for ages in conditions_by_ages]
    return [RetentionScope(sa.or_(*conditions), *ages) for ages, conditions in conditions_by_ages.items()]


def _age(ages: Mapping[str, float], default_s: float, cluster: str | None, namespace: str | None) -> float:
    """Return the most specific of `ages` for a cluster and namespace, or `default_s` if no limit names them.

    None stands for all clusters or all namespaces that no limit names.
    """
    keys = (f"{cluster}/{namespace}", namespace, f"{cluster}/")
    return next((ages[key] for key in keys if key is not None and key in ages), default_s)


def _is(column: sa.Column[str], value: str | None, named: list[str]) -> sa.ColumnElement[bool]:
    if value is not None:
        return column == value
    return column.not_in(named) if named else sa.true()


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
        """Start a pass at the retention clock's time `now_us`: set `left` to what the pass and the day still allow.

        The database has how much was removed on the day. If that day is over, a new one starts.
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
        """Subtract the number of decisions that this transaction removes from the quota, and return this number."""
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
