"""Retention: full records become summaries and summaries are deleted, by age and by the size of the database.

Owns: what is removed and in which order, in steps so short that ingest hardly waits, and the thread that does it. Does
not own: ages (`retention_limits`), the content of a summary (`summaries`), processing chains (`expired_chains`).

A step is one transaction. If the process ends between two steps, each decision is stored once, in full or as a summary.

Invariant: every record that is kept can be read. A chain is removed as a unit, and a decision together with its
outcomes. A node row stays as long as a full record refers to it. Rollups outlive the decisions that they count.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import sqlalchemy as sa

from herodotus_endpoint.store import expired_chains, node_rows
from herodotus_endpoint.store.database import StoreUnavailableError
from herodotus_endpoint.store.delta_chains import PARTITION_US
from herodotus_endpoint.store.integrity import DamagedError
from herodotus_endpoint.store.node_rows import latest_since
from herodotus_endpoint.store.retention_limits import RetentionLimits, RetentionQuota, build_scopes
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

INCARNATIONS_PER_STEP: Final = 200  # incarnations deleted per transaction
SLOTS_PER_STEP: Final = 256  # slots whose old rows are deleted per transaction
CLOCK_OFF_S: Final = 3600.0  # an hour; smaller differences come from restarts and clock corrections
WIDEST_US: Final = 4 * PARTITION_US  # the widest partition
INTERVAL_S: Final = 10.0  # at 20 MB/s of ingest the size exceeds its limit by up to 200 MB in between
TIERS: Final = (FULL, KEPT_LONGER, SUMMARY)
_log: Final = logging.getLogger(__name__)


class PruneResult(NamedTuple):
    """The numbers of decisions that one pass of retention summarised and deleted."""

    summarised: int = 0
    deleted: int = 0


class Pruner:
    """Summarises and deletes decisions that exceed the limits of age or size, in the store's writing transactions."""

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
        self._last_part = -1  # part of the nodes whose unused ids were deleted last
        self._damaged: list[expired_chains.StoredChain] = []  # chains that cannot be summarised
        self._start_after: dict[int, int] = {}  # by scope: the id up to which no full record is left

    def prune(self) -> PruneResult:
        """Run one pass of retention and return how many decisions it summarised and deleted.

        Only one replica runs a pass at a time. The others return at once and remove nothing, because they would make
        the same summaries. Raises StoreUnavailableError if the database fails.
        """
        with self._store.try_prune_lock() as locked:
            with self._writer.transaction() as connection:
                now_us = self._clock.sync(connection)
                if locked:
                    self._quota.begin(connection, now_us)
            self._warn_of_clock()
            return self._prune(now_us) if locked else PruneResult()

    def _warn_of_clock(self) -> None:
        offset_s = self._clock.offset_s()
        was_off, self._clock_is_off = self._clock_is_off, abs(offset_s) > CLOCK_OFF_S
        if self._clock_is_off and not was_off:
            _log.warning(
                "the clock of this machine is %.0f s %s the time that retention has counted; ages use that time,"
                " which follows the clock slowly; this is expected after an outage; otherwise correct the clock",
                abs(offset_s),
                "ahead of" if offset_s > 0 else "behind",
            )

    def _prune(self, now_us: int) -> PruneResult:
        summarised, deleted = self._prune_by_age(now_us)
        more_summarised, more_deleted = self._prune_by_size(now_us)
        pruned = PruneResult(summarised + more_summarised, deleted + more_deleted)
        if any(pruned):
            with self._writer.transaction() as connection:
                incarnations = list(connection.scalars(sa.select(INCARNATIONS.c.id)))
            for incarnation_id in incarnations:
                self._prune_incarnation(incarnation_id)
        longest_s = max(scope.last_s for scope in self._scopes)
        self._prune_rest(now_us - int(longest_s * 1e6), now_us - int(self._limits.history_max_age_s * 1e6))
        return pruned

    def _prune_by_age(self, now_us: int) -> PruneResult:
        """Summarise or delete decisions that exceed their age limits: first whole partitions, then single chains."""
        summarised = deleted = 0
        longest_s = max(scope.last_s for scope in self._scopes)
        quota = self._quota
        while quota.left > 0 and (step := self._drop_partition(TIERS, _cutoff_us(now_us, longest_s), quota)):
            deleted += step
        for number, scope in enumerate(self._scopes):
            if scope.summarised:
                for tier in (FULL, KEPT_LONGER):
                    while quota.left > 0 and (step := self._summarise(number, tier, _cutoff_us(now_us, scope.full_s))):
                        summarised += step
            last_us = _cutoff_us(now_us, scope.last_s)
            if self._database.partitioned and scope.last_s == longest_s:
                last_us -= last_us % WIDEST_US  # younger ones are dropped with their partition, if the quota allows it
            for tier in TIERS:
                while quota.left > 0 and (step := self._delete(number, tier, last_us, quota)):
                    deleted += step
        if quota.left <= 0:
            with self._writer.transaction() as connection:
                quota.warn_if_spent(connection)
        self._clear_expired_partitions(_cutoff_us(now_us, self._limits.max_age_s))
        return PruneResult(summarised, deleted)

    def _prune_by_size(self, now_us: int) -> PruneResult:
        """Summarise and delete decisions until the database does not exceed its size limit.

        First delete the oldest summaries while all summaries exceed their own limit, then summarise the oldest full
        records, then delete the oldest decisions.
        """
        until_us, all_scopes = self._database.prunable_before_us(now_us), len(self._scopes)
        summaries = any(scope.summarised for scope in self._scopes)
        summarised = deleted = 0
        while self._are_summaries_over_limit() and (step := self._delete_oldest((SUMMARY,), all_scopes, until_us)):
            deleted += step
        while summaries and self._is_over_limit() and any(steps := self._summarise_oldest(all_scopes, until_us)):
            summarised += steps.summarised
            deleted += steps.deleted
        while self._is_over_limit() and (step := self._delete_oldest(TIERS, all_scopes, until_us)):
            deleted += step
        return PruneResult(summarised, deleted)

    def _is_over_limit(self) -> bool:
        with self._store.snapshot() as connection:
            return self._database.live_bytes(connection) > self._limits.max_bytes

    def _are_summaries_over_limit(self) -> bool:
        with self._store.snapshot() as connection:
            return self._database.measure_tiers(connection)["summary"].bytes > self._limits.summary_max_bytes

    def _summarise_oldest(self, scope: int, until_us: int) -> PruneResult:
        """Summarise the oldest chains, groups of decisions stored together, that were ingested before `until_us`.

        Chains whose summaries would not be smaller, as in small clusters, are deleted. Returns the numbers of
        decisions. `scope` is an index of `_scopes`, or their number for all decisions.
        """
        prepared = self._prepare_summaries(scope, KEPT_LONGER, until_us) or self._prepare_summaries(
            scope, FULL, until_us
        )
        smaller = [p for p in prepared if p.gained > 0]
        others = [p.chain for p in prepared if p.gained <= 0]
        with self._writer.transaction() as connection:
            deleted = expired_chains.delete_chains(connection, others)
            summarised = sum(
                expired_chains.replace_with_summaries(connection, self._database, chain) for chain in smaller
            )
        self._drop_empty_partitions()
        return PruneResult(summarised, deleted)

    def _delete_oldest(self, tiers: Sequence[int], scope: int, until_us: int) -> int:
        if self._database.partitioned:
            return self._drop_partition(tiers, until_us)
        return next((step for tier in reversed(tiers) if (step := self._delete(scope, tier, until_us))), 0)

    def _drop_partition(self, tiers: Sequence[int], before_us: int, quota: RetentionQuota | None = None) -> int:
        """Drop one partition that ended before `before_us` and return how many decisions it contained.

        `quota` limits removal by age; it is None for removal by size, which has no quota.
        """
        with self._writer.transaction() as connection:
            if quota is None:
                return self._database.drop_oldest_partition(connection, tiers, before_us, 1 << 62)
            return quota.spend(
                connection, self._database.drop_oldest_partition(connection, tiers, before_us, quota.left)
            )

    def _drop_empty_partitions(self) -> None:
        with self._writer.transaction() as connection:
            self._database.drop_empty_partitions(connection)

    def _summarise(self, scope: int, tier: int, before_us: int) -> int:
        """Replace the next records of a scope and tier that were ingested before `before_us` by summaries.

        Returns the number of summarised decisions. `scope` is an index of `_scopes`.
        """
        prepared = self._prepare_summaries(scope, tier, before_us)
        if not prepared:
            return 0
        with self._writer.transaction() as connection:
            replaced = sum(
                expired_chains.replace_with_summaries(connection, self._database, chain) for chain in prepared
            )
            return self._quota.spend(connection, replaced)

    def _prepare_summaries(self, scope: int, tier: int, before_us: int) -> list[expired_chains.SummarisedChain]:
        """Build summaries of the next records of a scope and tier ingested before `before_us`, without storing them.

        A reading transaction is used, so that ingest does not wait. `scope` is an index of `_scopes`, or their number
        for all decisions.
        """
        with self._store.snapshot() as connection:
            chains = self._find_chains(connection, scope, tier, before_us, excluded=self._damaged)
            now_us = self._clock.wall_us()
            prepared = []
            for chain in chains:
                try:
                    prepared.append(expired_chains.summarise_chain(connection, self._store.records, chain, now_us))
                except DamagedError as e:
                    _log.error("retention: %s; its chain is not summarised, and stays until it is deleted", e)
                    self._damaged.append(chain)
            if chains and not prepared:
                return self._prepare_summaries(scope, tier, before_us)
            return prepared

    def _delete(self, scope: int, tier: int, before_us: int, quota: RetentionQuota | None = None) -> int:
        with self._store.snapshot() as connection:
            chains = self._find_chains(connection, scope, tier, before_us)
        if not chains:
            return 0
        with self._writer.transaction() as connection:
            deleted = expired_chains.delete_chains(connection, chains)
            return quota.spend(connection, deleted) if quota else deleted

    def _clear_expired_partitions(self, before_us: int) -> None:
        """Move the remaining full records out of partitions that ended before `before_us`, and drop these partitions.

        The records move to the tier KEPT_LONGER, because some have longer age limits. A database without partitions is
        not changed.
        """
        if not self._database.partitioned:
            return
        while True:
            with self._writer.transaction() as connection:
                ended_us = before_us - before_us % PARTITION_US
                query = expired_chains.ExpiredChainQuery(FULL, ended_us, before_us)
                chains, _ = expired_chains.find_expired_chains(connection, query)
                for chain in chains:
                    expired_chains.move_to_kept_longer(connection, self._database, chain)
            if not chains:
                break
        self._drop_empty_partitions()

    def _find_chains(
        self,
        connection: sa.Connection,
        scope: int,
        tier: int,
        before_us: int,
        excluded: Sequence[expired_chains.StoredChain] = (),
    ) -> list[expired_chains.StoredChain]:
        """Return the next chains of a scope and tier that were ingested before `before_us`, but none in `excluded`.

        A chain is a group of decisions that are deleted together. `scope` is an index of `_scopes`, or their number for
        all decisions.
        """
        condition = sa.true() if scope == len(self._scopes) else self._scopes[scope].where
        condition = sa.and_(condition, *(chain.others for chain in excluded))
        after = self._start_after.get(scope, 0) if tier == FULL else 0
        query = expired_chains.ExpiredChainQuery(tier, before_us, self._clock.now_us(), condition)
        chains, reached = expired_chains.find_expired_chains(connection, query, after)
        if (
            tier == FULL and not self._damaged
        ):  # damaged chains stay before the others, so the start must not move past them
            self._start_after[scope] = reached
        return chains

    def _prune_incarnation(self, incarnation_id: int) -> None:
        """Delete an incarnation's outcomes of deleted decisions, and its node rows to which no decision refers."""
        with self._writer.transaction() as connection:
            sequence, generation = _find_oldest_full_record(connection, incarnation_id)
            o = OUTCOMES.c  # outcomes that arrived after their decision was summarised have another tier
            old = (o.incarnation_id == incarnation_id, o.decision_sequence < sequence, o.tier == FULL)
            connection.execute(OUTCOMES.delete().where(*old))
            of_it = NODE_ROWS.c.incarnation_id == incarnation_id
            slots = (connection.scalar(sa.select(sa.func.max(NODE_ROWS.c.slot)).where(of_it)) or 0) + 1
        for slot in range(0, slots, SLOTS_PER_STEP):
            with self._writer.transaction() as connection:
                connection.execute(_delete_superseded(incarnation_id, slot, slot + SLOTS_PER_STEP, generation))

    def _prune_rest(self, cutoff_us: int, history_cutoff_us: int) -> None:
        """Delete expired gaps, node histories, and incarnations without decisions, and release the freed space.

        Histories expire at `history_cutoff_us`, the others at `cutoff_us`. If the database still exceeds its size
        limit, the oldest hour of histories is deleted too.
        """
        left = sa.select(DECISIONS.c.incarnation_id).where(DECISIONS.c.incarnation_id == INCARNATIONS.c.id)
        newest = sa.select(sa.func.max(INCARNATIONS.c.id)).scalar_subquery()
        ended = sa.select(INCARNATIONS.c.id).where(
            sa.func.coalesce(INCARNATIONS.c.ingested_us, INCARNATIONS.c.last_us) < cutoff_us,
            INCARNATIONS.c.id < newest,
            ~left.exists(),
        )
        with self._writer.transaction() as connection:
            connection.execute(GAPS.delete().where(GAPS.c.ingested_us < cutoff_us))
            expired_rollups = connection.execute(
                ROLLUPS.delete().where(ROLLUPS.c.ingested_us < history_cutoff_us)
            ).rowcount
            ended_ids = list(connection.scalars(ended.limit(INCARNATIONS_PER_STEP)))
            for table in (NODE_ROWS, OUTCOMES, HOLES, PROFILES):
                connection.execute(table.delete().where(table.c.incarnation_id.in_(ended_ids)))
            connection.execute(INCARNATIONS.delete().where(INCARNATIONS.c.id.in_(ended_ids)))
            if (
                self._database.live_bytes(connection) > self._limits.max_bytes
            ):  # without decisions to delete, delete the oldest histories
                first = sa.select(sa.func.min(ROLLUPS.c.bucket)).scalar_subquery()
                connection.execute(ROLLUPS.delete().where(ROLLUPS.c.bucket == first))
            self._database.release_space(connection)
        if expired_rollups:  # at most once an hour
            self._prune_names()

    def _prune_names(self) -> None:
        """Delete unused nodes from the table `nodes`. Each call searches the next range of node ids."""
        with self._store.snapshot() as connection:
            self._last_part = (self._last_part + 1) % node_rows.count_parts(connection)
            unused = node_rows.find_unused_nodes(connection, self._last_part)
        if unused:
            with self._writer.transaction() as connection:
                node_rows.delete_nodes(connection, unused)
                self._writer.clear_caches()


class PruningThread:
    """A thread that runs a pass of retention every INTERVAL_S seconds and calls `pruned` with its result."""

    def __init__(self, pruner: Pruner, pruned: Callable[[PruneResult], None]) -> None:
        self._pruner = pruner
        self._report = pruned
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)

    def start(self) -> None:
        """Start the thread, which runs its first pass at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait until its current pass ends."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                self._report(self._pruner.prune())
            except StoreUnavailableError as e:
                _log.warning("retention: the database is unavailable, the next pass retries: %s", e)
            except Exception:  # the thread must go on: without retention the disk fills up
                _log.exception("retention failed")
            if self._stop.wait(INTERVAL_S):
                return


def _cutoff_us(now_us: int, age_s: float) -> int:
    return now_us - int(age_s * 1e6)


def _find_oldest_full_record(connection: sa.Connection, incarnation_id: int) -> tuple[int, int]:
    """Return the sequence number and the node-table generation of an incarnation's oldest full record.

    Without full records, return the incarnation's highest sequence number and latest generation. The oldest record is a
    key frame, because chains begin with one, and an index finds it.
    """
    row = DECISIONS.c
    firsts = [
        connection.scalar(
            sa.select(sa.func.min(row.base)).where(row.incarnation_id == incarnation_id, row.tier == tier)
        )
        for tier in (FULL, KEPT_LONGER)
    ]
    oldest = min((first for first in firsts if first is not None), default=None)
    if oldest is not None:
        conditions = (row.incarnation_id == incarnation_id, row.sequence == oldest)
        return oldest, connection.execute(sa.select(row.generation).where(*conditions)).scalars().first() or 0
    latest = sa.select(INCARNATIONS.c.highest, INCARNATIONS.c.rows_generation)
    highest, generation = connection.execute(latest.where(INCARNATIONS.c.id == incarnation_id)).one()
    return highest, generation


def _delete_superseded(incarnation_id: int, from_slot: int, to_slot: int, generation: int) -> sa.Delete:
    """Return a statement that deletes node-table rows that newer rows replaced at or before `generation`.

    It covers the slots from `from_slot` up to, but without, `to_slot`.
    """
    return NODE_ROWS.delete().where(
        NODE_ROWS.c.incarnation_id == incarnation_id,
        NODE_ROWS.c.slot >= from_slot,
        NODE_ROWS.c.slot < to_slot,
        NODE_ROWS.c.since < latest_since(incarnation_id, NODE_ROWS.c.slot, generation),
    )
