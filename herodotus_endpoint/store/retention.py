"""What leaves the store: full records become summaries, summaries go, by age of ingest and by the database's size.

Owns: what goes, in which order, in steps small enough that ingest hardly waits. Does not own: when (`Pruning` is told
to stop and how often to look), ages (`ages`), what a summary keeps (`summaries`), taking chains out (`oldest`).

A step is one transaction: whatever ends the process between two, each decision is there once, whole or summarised.

Invariant: what is kept stays answerable: a chain goes whole, a decision with its outcomes, and a row of a node table
stays as long as a full record saw it. Rollups outlive the decisions that they count.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import sqlalchemy as sa

from herodotus_endpoint.store import expired_chains, unused_nodes
from herodotus_endpoint.store.database import StoreUnavailableError
from herodotus_endpoint.store.delta_chains import PARTITION_US
from herodotus_endpoint.store.integrity import DamagedError
from herodotus_endpoint.store.node_rows import latest_since
from herodotus_endpoint.store.retention_limits import RetentionLimits, build_scopes
from herodotus_endpoint.store.retention_quota import RetentionQuota
from herodotus_endpoint.store.schema import (
    DECISIONS,
    FULL,
    GAPS,
    HOLES,
    INCARNATIONS,
    KEPT_LONGER,
    NODE_ROWS,
    OUTCOMES,
    PROFILES,
    ROLLUPS,
    SUMMARY,
)
from herodotus_endpoint.store.store import Store

STEP: Final = 200  # incarnations deleted in one transaction
SLOTS: Final = 256  # slots whose old rows are deleted in one transaction
CLOCK_OFF_S: Final = 3600.0  # an hour: less is a restart or a clock that was set
WIDEST_US: Final = 4 * PARTITION_US  # no partition is wider
INTERVAL_S: Final = 10.0  # at 20 MB/s of ingest the limit is overrun by 200 MB in between
TIERS: Final = (FULL, KEPT_LONGER, SUMMARY)
_log: Final = logging.getLogger(__name__)


class PruneResult(NamedTuple):
    """How many decisions left a tier."""

    summarised: int = 0
    deleted: int = 0


class Pruner:
    """Takes out what is over the limits, through the one writer."""

    def __init__(self, store: Store, limits: RetentionLimits) -> None:
        self._store = store
        self._database = store.database
        self._writer = store.writer
        self._limits = limits
        self._scopes = build_scopes(limits)
        self._clock = store.clock
        self._quota = RetentionQuota(min(scope.full_s for scope in self._scopes), unbounded=limits.unbounded)
        self._clock_is_off = False
        if limits.unbounded:
            with self._writer.transaction() as connection:
                self._clock.follow_wall(connection)
        self._part = -1  # of the nodes, whose names were looked at last
        self._damaged: list[expired_chains.StoredChain] = []  # cannot become summaries
        self._after: dict[int, int] = {}  # by scope: up to this id none of its full records is left; they come in order

    def prune(self) -> PruneResult:
        """Bring the database within its limits; how many decisions went. StoreUnavailableError as for writing.

        Of several replicas one does it at a time, and the others nothing: they would make the same summaries.
        """
        with self._store.try_prune_lock() as alone:
            with self._writer.transaction() as connection:
                now_us = self._clock.sync(connection)
                if alone:
                    self._quota.begin(connection, now_us)
            self._warn_of_clock()
            return self._prune(now_us) if alone else PruneResult()

    def _warn_of_clock(self) -> None:
        offset_s = self._clock.offset_s()
        was_off, self._clock_is_off = self._clock_is_off, abs(offset_s) > CLOCK_OFF_S
        if self._clock_is_off and not was_off:
            _log.warning(
                "the clock of this machine is %.0f s %s the time that retention has counted; ages are by that time,"
                " which follows slowly; after an outage that is as it should be; otherwise set the clock right",
                abs(offset_s),
                "ahead of" if offset_s > 0 else "behind",
            )

    def _prune(self, now_us: int) -> PruneResult:
        summarised, deleted = self._by_age(now_us)
        more_summarised, more_deleted = self._by_size(now_us)
        pruned = PruneResult(summarised + more_summarised, deleted + more_deleted)
        if any(pruned):
            with self._writer.transaction() as connection:
                incarnations = list(connection.scalars(sa.select(INCARNATIONS.c.id)))
            for incarnation_id in incarnations:
                self._prune_incarnation(incarnation_id)
        longest_s = max(scope.last_s for scope in self._scopes)
        self._prune_rest(now_us - int(longest_s * 1e6), now_us - int(self._limits.history_max_age_s * 1e6))
        return pruned

    def _by_age(self, now_us: int) -> PruneResult:
        """Whole partitions, where there are any; then chain by chain what leaves at other times than most."""
        summarised = deleted = 0
        longest_s = max(scope.last_s for scope in self._scopes)
        quota = self._quota
        while quota.left > 0 and (step := self._drop(TIERS, _before(now_us, longest_s), quota)):
            deleted += step
        for number, scope in enumerate(self._scopes):
            if scope.summarised:
                for tier in (FULL, KEPT_LONGER):
                    while quota.left > 0 and (step := self._summarise(number, tier, _before(now_us, scope.full_s))):
                        summarised += step
            last_us = _before(now_us, scope.last_s)
            if self._database.partitioned and scope.last_s == longest_s:
                last_us -= last_us % WIDEST_US  # the rest is dropped with its partition, if the quota lets it go whole
            for tier in TIERS:
                while quota.left > 0 and (step := self._delete(number, tier, last_us, quota)):
                    deleted += step
        if quota.left <= 0:
            with self._writer.transaction() as connection:
                quota.warn_if_spent(connection)
        self._make_way(_before(now_us, self._limits.max_age_s))
        return PruneResult(summarised, deleted)

    def _by_size(self, now_us: int) -> PruneResult:
        """Summaries within their share; then the oldest full records become summaries, and at last summaries go."""
        reach_us, everything = self._database.prunable_before_us(now_us), len(self._scopes)
        summaries = any(scope.summarised for scope in self._scopes)
        summarised = deleted = 0
        while self._summaries_over() and (step := self._shrink((SUMMARY,), everything, reach_us)):
            deleted += step
        while summaries and self._over() and any(steps := self._summarise_oldest(everything, reach_us)):
            summarised += steps.summarised
            deleted += steps.deleted
        while self._over() and (step := self._shrink(TIERS, everything, reach_us)):
            deleted += step
        return PruneResult(summarised, deleted)

    def _over(self) -> bool:
        with self._store.snapshot() as connection:
            return self._database.live_bytes(connection) > self._limits.max_bytes

    def _summaries_over(self) -> bool:
        with self._store.snapshot() as connection:
            return self._database.measure_tiers(connection)["summary"].bytes > self._limits.summary_max_bytes

    def _summarise_oldest(self, scope: int, reach_us: int) -> PruneResult:
        """Chains of which summaries would be no smaller, which is so of small clusters, are deleted."""
        prepared = self._prepared(scope, KEPT_LONGER, reach_us) or self._prepared(scope, FULL, reach_us)
        smaller = [p for p in prepared if p.gained > 0]
        others = [p.chain for p in prepared if p.gained <= 0]
        with self._writer.transaction() as connection:
            deleted = expired_chains.delete_chains(connection, others)
            summarised = sum(
                expired_chains.replace_with_summaries(connection, self._database, chain) for chain in smaller
            )
        self._drop_empty()
        return PruneResult(summarised, deleted)

    def _shrink(self, tiers: Sequence[int], scope: int, reach_us: int) -> int:
        if self._database.partitioned:
            return self._drop(tiers, reach_us)
        return next((step for tier in reversed(tiers) if (step := self._delete(scope, tier, reach_us))), 0)

    def _drop(self, tiers: Sequence[int], before_us: int, quota: RetentionQuota | None = None) -> int:
        """One partition that ended before a moment; how many decisions it held. `quota`: where age is the reason."""
        with self._writer.transaction() as connection:
            if quota is None:
                return self._database.drop_oldest_partition(connection, tiers, before_us, 1 << 62)
            return quota.spend(
                connection, self._database.drop_oldest_partition(connection, tiers, before_us, quota.left)
            )

    def _drop_empty(self) -> None:
        with self._writer.transaction() as connection:
            self._database.drop_empty_partitions(connection)

    def _summarise(self, scope: int, tier: int, before_us: int) -> int:
        """Some chains that are ready; how many decisions."""
        prepared = self._prepared(scope, tier, before_us)
        if not prepared:
            return 0
        with self._writer.transaction() as connection:
            replaced = sum(
                expired_chains.replace_with_summaries(connection, self._database, chain) for chain in prepared
            )
            return self._quota.spend(connection, replaced)

    def _prepared(self, scope: int, tier: int, before_us: int) -> list[expired_chains.SummarisedChain]:
        """The next chains with what they become, which is made before ingest has to wait."""
        with self._store.snapshot() as connection:
            chains = self._next(connection, scope, tier, before_us, but=self._damaged)
            now_us = self._clock.wall_us()
            prepared = []
            for chain in chains:
                try:
                    prepared.append(expired_chains.summarise_chain(connection, self._store.records, chain, now_us))
                except DamagedError as e:
                    _log.error("retention: %s; its chain is kept as it is until all of it is deleted", e)
                    self._damaged.append(chain)
            if chains and not prepared:
                return self._prepared(scope, tier, before_us)
            return prepared

    def _delete(self, scope: int, tier: int, before_us: int, quota: RetentionQuota | None = None) -> int:
        with self._store.snapshot() as connection:
            chains = self._next(connection, scope, tier, before_us)
        if not chains:
            return 0
        with self._writer.transaction() as connection:
            deleted = expired_chains.delete_chains(connection, chains)
            return quota.spend(connection, deleted) if quota else deleted

    def _make_way(self, before_us: int) -> None:
        """Full records of longer ages leave partitions that all others have left, and these are dropped."""
        if not self._database.partitioned:
            return
        while True:
            with self._writer.transaction() as connection:
                ended_us = before_us - before_us % PARTITION_US
                chains, _ = expired_chains.find_expired_chains(connection, FULL, sa.true(), 0, ended_us, before_us)
                for chain in chains:
                    expired_chains.move_to_kept_longer(connection, self._database, chain)
            if not chains:
                break
        self._drop_empty()

    def _next(
        self,
        connection: sa.Connection,
        scope: int,
        tier: int,
        before_us: int,
        but: Sequence[expired_chains.StoredChain] = (),
    ) -> list[expired_chains.StoredChain]:
        """`but`: chains that are passed over."""
        where = sa.true() if scope == len(self._scopes) else self._scopes[scope].where
        where = sa.and_(where, *(chain.others for chain in but))
        after = self._after.get(scope, 0) if tier == FULL else 0
        chains, reached = expired_chains.find_expired_chains(
            connection, tier, where, after, before_us, self._clock.now_us()
        )
        if tier == FULL and not self._damaged:  # they stay in front of those that are looked at
            self._after[scope] = reached
        return chains

    def _prune_incarnation(self, incarnation_id: int) -> None:
        """What belonged to an incarnation's deleted decisions: outcomes, and rows that no decision saw."""
        with self._writer.transaction() as connection:
            sequence, generation = _earliest(connection, incarnation_id)
            o = OUTCOMES.c  # what came after its decision was summarised is of a tier of its own
            old = (o.incarnation_id == incarnation_id, o.decision_sequence < sequence, o.tier == FULL)
            connection.execute(OUTCOMES.delete().where(*old))
            of_it = NODE_ROWS.c.incarnation_id == incarnation_id
            slots = (connection.scalar(sa.select(sa.func.max(NODE_ROWS.c.slot)).where(of_it)) or 0) + 1
        for slot in range(0, slots, SLOTS):
            with self._writer.transaction() as connection:
                connection.execute(_delete_superseded(incarnation_id, slot, slot + SLOTS, generation))

    def _prune_rest(self, cutoff_us: int, history_cutoff_us: int) -> None:
        """Old gaps and rollups, incarnations of which nothing is left, and pages that are free now."""
        left = sa.select(DECISIONS.c.incarnation_id).where(DECISIONS.c.incarnation_id == INCARNATIONS.c.id)
        newest = sa.select(sa.func.max(INCARNATIONS.c.id)).scalar_subquery()
        ended = sa.select(INCARNATIONS.c.id).where(
            sa.func.coalesce(INCARNATIONS.c.ingested_us, INCARNATIONS.c.last_us) < cutoff_us,
            INCARNATIONS.c.id < newest,
            ~left.exists(),
        )
        with self._writer.transaction() as connection:
            connection.execute(GAPS.delete().where(GAPS.c.ingested_us < cutoff_us))
            forgotten = connection.execute(ROLLUPS.delete().where(ROLLUPS.c.ingested_us < history_cutoff_us)).rowcount
            gone = list(connection.scalars(ended.limit(STEP)))
            for table in (NODE_ROWS, OUTCOMES, HOLES, PROFILES):
                connection.execute(table.delete().where(table.c.incarnation_id.in_(gone)))
            connection.execute(INCARNATIONS.delete().where(INCARNATIONS.c.id.in_(gone)))
            if self._database.live_bytes(connection) > self._limits.max_bytes:  # no decision is left: histories go
                first = sa.select(sa.func.min(ROLLUPS.c.bucket)).scalar_subquery()
                connection.execute(ROLLUPS.delete().where(ROLLUPS.c.bucket == first))
            self._database.release_space(connection)
        if forgotten:  # so once an hour at most
            self._prune_names()

    def _prune_names(self) -> None:
        """Names of nodes that are gone, one part of them after the other."""
        with self._store.snapshot() as connection:
            self._part = (self._part + 1) % unused_nodes.count_parts(connection)
            unused = unused_nodes.find_unused_nodes(connection, self._part)
        if unused:
            with self._writer.transaction() as connection:
                unused_nodes.delete_nodes(connection, unused)
                self._writer.clear_caches()


class PruningThread:
    """A thread that prunes now and then."""

    def __init__(self, pruner: Pruner, pruned: Callable[[PruneResult], None], interval_s: float = INTERVAL_S) -> None:
        self._pruner = pruner
        self._pruned = pruned
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)

    def start(self) -> None:
        """Begin, with a first look at once."""
        self._thread.start()

    def stop(self) -> None:
        """End after the step under way."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                self._pruned(self._pruner.prune())
            except StoreUnavailableError as e:
                _log.warning("retention: the database cannot do it now: %s", e)
            except Exception:  # the thread must live: a full disk is worse than a line in the log
                _log.exception("retention failed")
            if self._stop.wait(self._interval_s):
                return


def _before(now_us: int, age_s: float) -> int:
    return now_us - int(age_s * 1e6)


def _earliest(connection: sa.Connection, incarnation_id: int) -> tuple[int, int]:
    """Sequence and generation from which an incarnation's full records go on; what is next where there are none.

    Chains begin with their key frame, so that an index says which is the first.
    """
    row = DECISIONS.c
    of_it = (row.incarnation_id == incarnation_id, row.tier.in_((FULL, KEPT_LONGER)))
    alone = sa.select(sa.func.min(row.sequence)).where(*of_it, row.base.is_(None))
    firsts = [
        connection.scalar(
            sa.select(sa.func.min(row.base)).where(row.incarnation_id == incarnation_id, row.tier == tier)
        )
        for tier in (FULL, KEPT_LONGER)
    ]
    found = [first for first in (*firsts, connection.scalar(alone)) if first is not None]
    if found:
        at = (row.incarnation_id == incarnation_id, row.sequence == min(found))
        return min(found), connection.execute(sa.select(row.generation).where(*at)).scalars().first() or 0
    known = sa.select(INCARNATIONS.c.highest, INCARNATIONS.c.rows_generation)
    highest, generation = connection.execute(known.where(INCARNATIONS.c.id == incarnation_id)).one()
    return highest, generation


def _delete_superseded(incarnation_id: int, from_slot: int, to_slot: int, generation: int) -> sa.Delete:
    """Rows that a later one had replaced by `generation`, the earliest that is still asked for."""
    return NODE_ROWS.delete().where(
        NODE_ROWS.c.incarnation_id == incarnation_id,
        NODE_ROWS.c.slot >= from_slot,
        NODE_ROWS.c.slot < to_slot,
        NODE_ROWS.c.since < latest_since(incarnation_id, NODE_ROWS.c.slot, generation),
    )
