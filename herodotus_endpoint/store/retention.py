"""What is deleted: decisions by age of ingest and by the database's size, histories by age.

Owns: what goes, in which order, in steps small enough that ingest hardly waits. Does not own: when (`Pruning` is told
to stop and how often to look), tiers (there are none yet).

Invariant: what is kept stays answerable: a chain goes whole, a decision with its outcomes, and a row of a node table
stays as long as a decision saw it. Rollups outlive the decisions that they count.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa

from herodotus_endpoint.store.engine import Database, StoreUnavailableError
from herodotus_endpoint.store.oldest import delete_oldest
from herodotus_endpoint.store.schema import (
    DECISIONS,
    GAPS,
    HOLES,
    INCARNATIONS,
    NODE_ROWS,
    OUTCOMES,
    PROFILES,
    ROLLUPS,
)
from herodotus_endpoint.store.writer import Writer

STEP: Final = 200  # incarnations deleted in one transaction
SLOTS: Final = 256  # slots whose old rows are deleted in one transaction
INTERVAL_S: Final = 10.0  # at 20 MB/s of ingest the limit is overrun by 200 MB in between
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """How long and how much. Ages count from ingest; `max_bytes` is of pages in use.

    `max_age_of`: of some namespaces, in seconds; what is longer than `max_age_s` has no effect.
    """

    max_age_s: float = 7 * 86_400
    max_bytes: int = 4 << 30
    history_max_age_s: float = 90 * 86_400
    max_age_of: Mapping[str, float] = field(default_factory=dict)


class Pruner:
    """Deletes what is over the limits, through the one writer."""

    def __init__(
        self, database: Database, writer: Writer, limits: Limits, clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._writer = writer
        self._limits = limits
        self._clock = clock

    def prune(self) -> int:
        """Bring the database within its limits; how many decisions went. StoreUnavailableError as for writing."""
        now_us = int(self._clock() * 1e6)
        cutoff_us = now_us - int(self._limits.max_age_s * 1e6)
        pruned = 0
        while step := self._step(cutoff_us):
            pruned += step
        for namespace, max_age_s in self._limits.max_age_of.items():
            while step := self._step(now_us - int(max_age_s * 1e6), namespace):
                pruned += step
        if pruned:
            with self._writer.transaction() as connection:
                incarnations = list(connection.scalars(sa.select(INCARNATIONS.c.id)))
            for incarnation_id in incarnations:
                self._prune_incarnation(incarnation_id)
        self._prune_rest(cutoff_us, now_us - int(self._limits.history_max_age_s * 1e6))
        return pruned

    def _step(self, cutoff_us: int, namespace: str = "") -> int:
        """Delete some decisions that are too old, or any while the database is too large; how many."""
        with self._writer.transaction() as connection:
            if namespace:
                return delete_oldest(connection, cutoff_us, False, namespace)
            over = self._database.live_bytes(connection) > self._limits.max_bytes
            return self._database.delete_oldest(connection, cutoff_us, over)

    def _prune_incarnation(self, incarnation_id: int) -> None:
        """What belonged to an incarnation's deleted decisions: outcomes, and rows that no decision saw."""
        first = (
            sa.select(DECISIONS.c.sequence, DECISIONS.c.generation)
            .where(DECISIONS.c.incarnation_id == incarnation_id)
            .order_by(DECISIONS.c.sequence)
            .limit(1)
        )
        known = sa.select(INCARNATIONS.c.highest, INCARNATIONS.c.rows_generation).where(
            INCARNATIONS.c.id == incarnation_id
        )
        with self._writer.transaction() as connection:
            kept = connection.execute(first).one_or_none() or connection.execute(known).one()
            sequence, generation = kept
            old = sa.and_(OUTCOMES.c.incarnation_id == incarnation_id, OUTCOMES.c.decision_sequence < sequence)
            connection.execute(OUTCOMES.delete().where(old))
            of_it = NODE_ROWS.c.incarnation_id == incarnation_id
            slots = (connection.scalar(sa.select(sa.func.max(NODE_ROWS.c.slot)).where(of_it)) or 0) + 1
        for slot in range(0, slots, SLOTS):
            with self._writer.transaction() as connection:
                connection.execute(_superseded(incarnation_id, slot, slot + SLOTS, generation))

    def _prune_rest(self, cutoff_us: int, history_cutoff_us: int) -> None:
        """Old gaps and rollups, incarnations of which nothing is left, and pages that are free now."""
        left = sa.select(DECISIONS.c.incarnation_id).where(DECISIONS.c.incarnation_id == INCARNATIONS.c.id)
        newest = sa.select(sa.func.max(INCARNATIONS.c.id)).scalar_subquery()
        ended = sa.select(INCARNATIONS.c.id).where(
            INCARNATIONS.c.last_us < cutoff_us, INCARNATIONS.c.id < newest, ~left.exists()
        )
        with self._writer.transaction() as connection:
            connection.execute(GAPS.delete().where(GAPS.c.ingested_us < cutoff_us))
            connection.execute(ROLLUPS.delete().where(ROLLUPS.c.ingested_us < history_cutoff_us))
            gone = list(connection.scalars(ended.limit(STEP)))
            for table in (NODE_ROWS, OUTCOMES, HOLES, PROFILES):
                connection.execute(table.delete().where(table.c.incarnation_id.in_(gone)))
            connection.execute(INCARNATIONS.delete().where(INCARNATIONS.c.id.in_(gone)))
            if (
                self._database.live_bytes(connection) > self._limits.max_bytes
            ):  # no decision is left: the oldest histories go
                oldest = sa.select(sa.func.min(ROLLUPS.c.bucket)).scalar_subquery()
                connection.execute(ROLLUPS.delete().where(ROLLUPS.c.bucket == oldest))
            self._database.give_back(connection)


class Pruning:
    """A thread that prunes now and then."""

    def __init__(self, pruner: Pruner, pruned: Callable[[int], None], interval_s: float = INTERVAL_S) -> None:
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


def _superseded(incarnation_id: int, from_slot: int, to_slot: int, generation: int) -> sa.Delete:
    """Rows that a later one had replaced by `generation`, the earliest that is still asked for."""
    newer = NODE_ROWS.alias()
    latest = (
        sa.select(sa.func.max(newer.c.since))
        .where(
            newer.c.incarnation_id == incarnation_id,
            newer.c.slot == NODE_ROWS.c.slot,
            newer.c.since <= generation,
        )
        .correlate(NODE_ROWS)
        .scalar_subquery()
    )
    return NODE_ROWS.delete().where(
        NODE_ROWS.c.incarnation_id == incarnation_id,
        NODE_ROWS.c.slot >= from_slot,
        NODE_ROWS.c.slot < to_slot,
        NODE_ROWS.c.since < latest,
    )
