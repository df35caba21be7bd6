"""The writer, which stores a batch of frames as rows in one transaction.

Owns: which frames of a batch are new, the transaction. Does not own: decoding batches
(`herodotus_endpoint.api.ingest`), queries, deletion (`retention`).

Invariant: a batch is stored completely or not at all, and each frame once, even if it is sent again. The writer's
caches follow from the database and are cleared when a transaction fails.

Imported files may omit records, which then do not count as missing (`sequences`). A summary is not counted in
histories: it lacks most nodes, and the rest would be misleading.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import sqlalchemy as sa

from herodotus_answers.decision import count_repeats
from herodotus_answers.explain import derive_state, state_after_outcome
from herodotus_answers.node import CounterName
from herodotus_endpoint.store import incarnations, integrity, late_outcomes
from herodotus_endpoint.store.attempts import is_attempt_stored, pod_key
from herodotus_endpoint.store.counters import DecisionCounts, Ints, Mask
from herodotus_endpoint.store.database import BUSY_TIMEOUT_S, Database, Row, StoreUnavailableError, translate_errors
from herodotus_endpoint.store.delta_chains import OpenChains
from herodotus_endpoint.store.incarnations import Incarnation
from herodotus_endpoint.store.node_rows import (
    NodeRegistry,
    NodeRowsMissingError,
    apply_rows,
    load_slot_map,
)
from herodotus_endpoint.store.retention_clock import RetentionClock
from herodotus_endpoint.store.rollups import Rollup, RollupCache, bucket_of, split_by_part
from herodotus_endpoint.store.schema import DECISIONS, FULL, GAPS, NODE_ROWS, NODES, OUTCOMES, ROLLUPS, SUMMARY
from herodotus_endpoint.store.sequences import TooManyHolesError
from herodotus_endpoint.store.summaries import DecisionRecord
from herodotus_endpoint.store.table_rows import build_decision_row, build_rollup_row, compress_summaries
from herodotus_record.codec import DERIVED, as_numpy, find_feasible
from herodotus_record.codec.deltas import EncodedFrame
from herodotus_record.model import FOUND_LATER, Decision, Frame, Gap, HighWater, NodeRows, Outcome

MAX_CACHED_INCARNATIONS: Final = 64  # incarnations with cached state: more than write at the same time
OnNew = Callable[[Decision | Outcome, str | None], None]


class BatchError(ValueError):
    """A batch of frames that contradicts the stored records. The message says how."""


class ForeignClusterError(ValueError):
    """A batch with records of another cluster than that of its sender. The message names both clusters."""


@dataclass
class IngestReceipt:
    """The numbers of accepted and duplicate frames of a batch, and of new records by kind."""

    accepted: int = 0
    duplicates: int = 0
    decisions: int = 0
    outcomes: int = 0
    gaps: int = 0
    node_rows: int = 0


@dataclass(frozen=True)
class _HourCounts:
    """The counts of those decisions of a batch that belong to one hour, cluster and scheduler profile.

    All these decisions have the same assignment of nodes to slots: `node_ids` has the node id in each slot.
    """

    bucket: int
    cluster: str
    profile: str
    counted: DecisionCounts
    node_ids: Ints


@dataclass
class _Batch:
    """What a transaction has collected from the frames of a batch and not yet written: rows, states and counts."""

    now_us: int  # time of retention
    seen_us: int  # wall clock
    cluster: str = ""  # the only allowed cluster; "" allows any
    imported: bool = False  # from a file that may leave records out
    receipt: IngestReceipt = field(default_factory=IngestReceipt)
    touched: dict[str, Incarnation] = field(default_factory=dict)
    decisions: dict[tuple[int, int], Row] = field(default_factory=dict)  # by (incarnation, sequence)
    decisions_of_pod: dict[tuple[str, ...], list[Row]] = field(default_factory=dict)  # the same rows by pod
    summaries: list[tuple[Decision, Row, bytes]] = field(
        default_factory=list
    )  # those of `decisions`, with their contents
    node_rows: list[Row] = field(default_factory=list)
    outcomes: list[Row] = field(default_factory=list)
    gaps: list[Row] = field(default_factory=list)
    looked_up: set[tuple[int, int]] = field(
        default_factory=set
    )  # (incarnation, sequence) that were looked up in the database
    settled: dict[tuple[int, int], str] = field(default_factory=dict)  # (incarnation, sequence) -> state
    found_later: set[tuple[int, int]] = field(
        default_factory=set
    )  # those of `settled` whose outcome a later scheduler found
    repeats: Counter[tuple[int, int]] = field(default_factory=Counter)  # by (incarnation, sequence) of the decision
    shares: dict[tuple[object, ...], _HourCounts] = field(default_factory=dict)
    feasible: dict[tuple[str, str], tuple[Decision, Mask]] = field(
        default_factory=dict
    )  # by namespace and template: the latest decision and its mask of feasible nodes
    earlier: dict[bytes, Ints] = field(default_factory=dict)  # former assignments of nodes to slots, by their bytes


class Writer:
    """Stores batches of frames, one at a time. Other threads wait for at most BUSY_TIMEOUT_S."""

    def __init__(self, database: Database, engine: sa.Engine, clock: RetentionClock) -> None:
        self._database = database
        self._engine = engine
        self._clock = clock
        self._lock = threading.Lock()
        self.clear_caches()

    def store(
        self,
        frames: Iterable[tuple[Frame | DecisionRecord, EncodedFrame]],
        cluster: str = "",
        *,
        imported: bool = False,
        on_new: OnNew | None = None,
    ) -> IngestReceipt:
        """Store the frames of a batch in order and return how many were new. After any exception, none is stored.

        Each frame is given decoded and as bytes. A summary is one item, a DecisionRecord with the bytes of
        `summaries.encode_summary`. `imported` means that the frames come from a file that may omit records. If
        `cluster` is given, all frames must be of this cluster, and an incarnation whose cluster is unknown gets it.

        `on_new` is called for each new full decision and outcome before the commit, with the name of the decision's
        chosen node. It must not keep the record: a decoded batch takes ten times its bytes in memory.

        Raises ForeignClusterError if a frame is of another cluster, NodeRowsMissingError if a complete node table must
        be sent first, BatchError if the batch contradicts stored records, and StoreUnavailableError if the database
        fails.
        """
        batch = _Batch(self._clock.now_us(), self._clock.wall_us(), cluster, imported)
        try:
            with self.transaction() as connection:
                self._database.ensure_partition(connection, batch.now_us, FULL)
                for frame, raw in frames:
                    new = self._add_frame(connection, batch, frame, raw)
                    if new and on_new and isinstance(frame, Decision | Outcome):
                        on_new(frame, self._chosen_node(batch, frame))
                self._write(connection, batch)
                self._cache_incarnations(batch)
        except TooManyHolesError as e:
            raise BatchError(str(e)) from e
        return batch.receipt

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Yield the connection of the writing transaction, and commit the transaction when the block ends.

        If the block raises, the transaction is rolled back and the caches are cleared. Raises StoreUnavailableError if
        the transaction cannot begin or commit.
        """
        if not self._lock.acquire(timeout=BUSY_TIMEOUT_S):
            raise StoreUnavailableError("other batches are being stored")
        try:
            with translate_errors(), self._engine.begin() as connection:
                yield connection
        except BaseException:
            self.clear_caches()
            raise
        finally:
            self._lock.release()

    def check_writable(self) -> None:
        """Raise StoreUnavailableError if the database cannot be written: full, read-only or deleted.

        Does nothing while a batch is being stored, because that is a write too.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            with translate_errors(), self._engine.connect() as connection:
                self._database.check_writable(connection)
        finally:
            self._lock.release()

    def clear_caches(self) -> None:
        """Clear all caches of the writer. Call it within `transaction`, which excludes other threads."""
        self._registry = NodeRegistry()
        self._incarnations: dict[str, Incarnation] = {}
        self._considered_ids: set[int] = set()
        self._chains = OpenChains()
        self._rollup_cache = RollupCache()

    def _cache_incarnations(self, batch: _Batch) -> None:
        self._incarnations |= batch.touched
        while len(self._incarnations) > MAX_CACHED_INCARNATIONS:
            del self._incarnations[next(iter(self._incarnations))]

    def _add_frame(
        self, connection: sa.Connection, batch: _Batch, frame: Frame | DecisionRecord, raw: EncodedFrame
    ) -> bool:
        """Add the rows of a frame to the batch if the frame is new, and return whether it was.

        The batch's receipt counts the frame in both cases.
        """
        match frame:
            case Decision():
                incarnation = self._incarnation(connection, batch, frame.key.incarnation, frame.key.cluster)
                new = self._add_decision(connection, batch, incarnation, frame, raw)
            case Outcome() if frame.sequence == FOUND_LATER:
                new = self._add_found_later(connection, batch, frame, raw)
            case Outcome():
                incarnation = self._incarnation(connection, batch, frame.incarnation)
                new = self._add_outcome(connection, batch, incarnation, frame, raw)
            case Gap():
                incarnation = self._incarnation(connection, batch, frame.incarnation)
                new = self._add_gap(connection, batch, incarnation, frame)
            case HighWater():
                earlier = self._incarnation(
                    connection, batch, frame.of
                )  # first, so that ids follow the order of incarnations
                incarnation = self._incarnation(connection, batch, frame.incarnation, earlier.cluster)
                new = incarnation.sequences.receive(frame.sequence)
                earlier.sequences.extend_to(frame.reached)
            case NodeRows():
                incarnation = self._incarnation(connection, batch, frame.incarnation, frame.cluster)
                new, rows = apply_rows(connection, self._registry, incarnation.id, incarnation.slot_map, frame)
                batch.node_rows += rows
                batch.receipt.node_rows += new
            case DecisionRecord():
                key = frame.decision.key
                incarnation = self._incarnation(connection, batch, key.incarnation, key.cluster)
                new = self._add_summary(connection, batch, incarnation, frame, raw)
        batch.receipt.accepted += new
        batch.receipt.duplicates += not new
        return bool(new)

    def _chosen_node(self, batch: _Batch, frame: Decision | Outcome) -> str | None:
        """Return the name of the node that a new decision of the batch chose; None for no node or an outcome."""
        if isinstance(frame, Outcome) or frame.chosen is None:
            return None
        incarnation = batch.touched[frame.key.incarnation]
        node: str | None = batch.decisions[incarnation.id, frame.sequence]["node"]
        return node

    def _incarnation(self, connection: sa.Connection, batch: _Batch, name: str, cluster: str = "") -> Incarnation:
        incarnation = batch.touched.get(name)
        if incarnation is None:
            incarnation = incarnations.load(connection, name, self._incarnations.get(name), batch.seen_us)
            batch.touched[name] = incarnation
            self._close_deleted_chains(connection, incarnation.id)
        cluster = cluster or batch.cluster
        if batch.cluster and (foreign := {cluster, incarnation.cluster} - {"", batch.cluster}):
            raise ForeignClusterError(
                f"incarnation {name} is of cluster {foreign.pop()}, its sender of {batch.cluster}"
            )
        if cluster and incarnation.cluster not in ("", cluster):
            raise BatchError(f"incarnation {name} belongs to cluster {incarnation.cluster}, not {cluster}")
        incarnation.cluster = incarnation.cluster or cluster
        return incarnation

    def _close_deleted_chains(self, connection: sa.Connection, incarnation_id: int) -> None:
        """Close the open chains of an incarnation whose key frames were deleted, so that they get no more deltas."""
        bases = self._chains.base_sequences(incarnation_id)
        if bases:
            row = DECISIONS.c
            stored = (row.incarnation_id == incarnation_id, row.tier == FULL, row.sequence.in_(bases))
            self._chains.keep_only(incarnation_id, set(connection.scalars(sa.select(row.sequence).where(*stored))))

    def _add_decision(
        self, connection: sa.Connection, batch: _Batch, incarnation: Incarnation, decision: Decision, raw: EncodedFrame
    ) -> bool:
        late = decision.sequence <= incarnation.sequences.highest
        if not _is_new(connection, batch, incarnation, _FrameKey(DECISIONS, decision.sequence)):
            return False
        slot_map = incarnation.slot_map
        if decision.generation > slot_map.generation:
            raise NodeRowsMissingError(
                f"the decision of sequence {decision.sequence} saw generation {decision.generation} of the node table,"
                f" the stored rows end at {slot_map.generation}: send a complete table"
            )
        if decision.generation < slot_map.since:  # nodes were added or removed since
            self._write_node_rows(connection, batch)
            slot_map = load_slot_map(connection, incarnation.id, decision.generation)
        node_ids = slot_map.nodes_of(decision.slots)
        if slot_map is not incarnation.slot_map:
            node_ids = batch.earlier.setdefault(node_ids.tobytes(), node_ids)
        chosen = None if decision.chosen is None else self._registry.name(connection, int(node_ids[decision.chosen]))
        feasible = _find_feasible(batch, decision)
        row = build_decision_row(incarnation.id, decision, chosen, batch.now_us)
        if not is_attempt_stored(connection, row, batch.decisions_of_pod.get(pod_key(row), ())):
            self._count_decision(batch, decision, feasible, node_ids)
        row["base"], row["frame"] = self._chains.pack(incarnation.id, decision, feasible, raw, batch.now_us)
        row["frame_bytes"] = len(row["frame"])
        self._collect_decision(batch, incarnation, decision, row, FULL)
        if late:
            row["repeats"] = late_outcomes.find_repeats(connection, incarnation.id, decision.sequence)
        if late and (state := late_outcomes.find_final_state(connection, incarnation.id, decision.sequence)):
            batch.settled[incarnation.id, decision.sequence] = state
        return True

    def _add_summary(
        self,
        connection: sa.Connection,
        batch: _Batch,
        incarnation: Incarnation,
        summary: DecisionRecord,
        content: EncodedFrame,
    ) -> bool:
        """Add a summary with its node table and outcomes to the batch, and return whether it was new."""
        d = summary.decision
        new = _is_new(connection, batch, incarnation, _FrameKey(DECISIONS, d.sequence))
        if batch.imported:
            incarnation.sequences.mark_left_out(max((o.sequence for o in summary.outcomes), default=d.sequence))
        if not new:
            return False
        chosen = None if d.chosen is None else summary.table.names[d.chosen]
        row = build_decision_row(incarnation.id, d, chosen, batch.now_us)
        row["state"] = derive_state(d, summary.outcomes)
        row["repeats"] = count_repeats(summary.outcomes)
        batch.summaries.append((d, row, bytes(content)))
        self._database.ensure_partition(connection, batch.now_us, SUMMARY)
        self._collect_decision(batch, incarnation, d, row, SUMMARY)
        return True

    def _collect_decision(
        self, batch: _Batch, incarnation: Incarnation, decision: Decision, row: Row, tier: int
    ) -> None:
        row["tier"] = tier
        batch.decisions[incarnation.id, decision.sequence] = row
        batch.decisions_of_pod.setdefault(pod_key(row), []).append(row)
        incarnation.identity = decision.scheduler.identity
        incarnation.profiles.setdefault(decision.scheduler.profile, decision.times.started_us)
        batch.receipt.decisions += 1

    def _count_decision(self, batch: _Batch, decision: Decision, feasible: Mask, node_ids: Ints) -> None:
        bucket_key = (bucket_of(decision.times.started_us), decision.key.cluster, decision.scheduler.profile)
        key = (*bucket_key, id(node_ids))
        share = batch.shares.get(key)
        if share is None:
            share = batch.shares[key] = _HourCounts(*bucket_key, DecisionCounts(decision.slots), node_ids)
        share.counted.count(decision, feasible)

    def _add_outcome(
        self, connection: sa.Connection, batch: _Batch, incarnation: Incarnation, outcome: Outcome, raw: EncodedFrame
    ) -> bool:
        key = _FrameKey(OUTCOMES, outcome.sequence, outcome.decision_sequence)
        if not _is_new(connection, batch, incarnation, key):
            return False
        end = state_after_outcome(outcome) if outcome.final else None
        if end and (incarnation.id, outcome.decision_sequence) in batch.found_later:
            return False
        self._collect_outcome(batch, incarnation.id, outcome, raw, end)
        return True

    def _add_found_later(self, connection: sa.Connection, batch: _Batch, outcome: Outcome, raw: EncodedFrame) -> bool:
        """Add an outcome that a later scheduler process found, if the decision has no final outcome yet.

        Returns whether it was added. It is not added if the decision is neither stored nor in the batch.
        """
        stored = late_outcomes.find_decision(connection, outcome.incarnation, outcome.decision_sequence)
        if stored is None:  # the decision may be in this batch, when a file is imported
            incarnation = batch.touched.get(outcome.incarnation)
            if incarnation is None or (incarnation.id, outcome.decision_sequence) not in batch.decisions:
                return False
            row = batch.decisions[incarnation.id, outcome.decision_sequence]
            stored = incarnation.id, incarnation.cluster, row["state"]
        incarnation_id, cluster, state = stored
        if batch.cluster and cluster not in ("", batch.cluster):
            raise ForeignClusterError(
                f"incarnation {outcome.incarnation} is of cluster {cluster}, its sender of {batch.cluster}"
            )
        key = (incarnation_id, outcome.decision_sequence)
        if state != late_outcomes.BINDING or key in batch.settled or not outcome.final:
            return False
        batch.found_later.add(key)
        self._collect_outcome(batch, incarnation_id, outcome, raw, state_after_outcome(outcome))
        return True

    def _collect_outcome(
        self, batch: _Batch, incarnation_id: int, outcome: Outcome, raw: EncodedFrame, end: str | None
    ) -> None:
        row: Row = {
            "incarnation_id": incarnation_id,
            "decision_sequence": outcome.decision_sequence,
            "sequence": outcome.sequence,
            "state": end,
            "ingested_us": batch.now_us,
            "frame": bytes(raw),
            "tier": FULL,
        }
        row["checksum"] = integrity.OUTCOME.checksum(row)
        batch.outcomes.append(row)
        if outcome.repeats:
            batch.repeats[incarnation_id, outcome.decision_sequence] += outcome.repeats
        if end:
            batch.settled.setdefault((incarnation_id, outcome.decision_sequence), end)
        batch.receipt.outcomes += 1

    def _add_gap(self, connection: sa.Connection, batch: _Batch, incarnation: Incarnation, gap: Gap) -> bool:
        reported_by_shipper = gap.first <= gap.sequence <= gap.last
        if reported_by_shipper:  # its sequence is one of the lost ones, and stays a hole
            new = not _is_stored(connection, batch, incarnation, _FrameKey(GAPS, gap.sequence))
        else:
            new = _is_new(connection, batch, incarnation, _FrameKey(GAPS, gap.sequence))
        if not new:
            return False
        incarnation.sequences.explain(gap.first, gap.last)
        fields = {f: getattr(gap, f) for f in ("sequence", "first", "last", "reason", "at_us")}
        row: Row = {"incarnation_id": incarnation.id, "ingested_us": batch.now_us, **fields}
        row["checksum"] = integrity.GAP.checksum(row)
        batch.gaps.append(row)
        batch.receipt.gaps += 1
        return True

    def _write(self, connection: sa.Connection, batch: _Batch) -> None:
        self._write_node_rows(connection, batch)
        compress_summaries(batch.summaries)
        earlier = {}
        for key, to in batch.settled.items():
            row = batch.decisions.get(key)
            if row is None:
                earlier[key] = to
            elif row["state"] == late_outcomes.BINDING:
                row["state"] = to
        for key in batch.repeats.keys() & batch.decisions.keys():
            batch.decisions[key]["repeats"] += batch.repeats.pop(key)
        if found_later := late_outcomes.select_found_later(connection, earlier.keys() - batch.found_later):
            batch.outcomes = [o for o in batch.outcomes if not o["state"] or _decision_key(o) not in found_later]
        late_outcomes.set_tiers(connection, self._database, batch.outcomes, batch.decisions, batch.now_us)
        decisions = list(batch.decisions.values())
        for table, rows in ((DECISIONS, decisions), (OUTCOMES, batch.outcomes), (GAPS, batch.gaps)):
            if rows:
                self._database.insert(connection, table, rows)
        late_outcomes.update_states(connection, earlier)
        late_outcomes.add_repeats(connection, batch.repeats)
        self._write_rollups(connection, batch)
        for incarnation in batch.touched.values():
            incarnations.save(connection, incarnation, batch.seen_us, batch.now_us)

    def _write_node_rows(self, connection: sa.Connection, batch: _Batch) -> None:
        """Insert the node-table rows that the batch has collected so far, except those that are already stored.

        This is needed before the transaction reads node-table rows, and at its end.
        """
        if batch.node_rows:
            self._database.insert_missing(connection, NODE_ROWS, batch.node_rows)
        batch.node_rows = []

    def _write_rollups(self, connection: sa.Connection, batch: _Batch) -> None:
        """Add the counts of the batch to the stored node histories. Each rollup is read and written once."""
        shares: dict[tuple[int, str, str], list[_HourCounts]] = {}
        for share in batch.shares.values():
            shares.setdefault((share.bucket, share.cluster, share.profile), []).append(share)
        for (bucket, cluster, profile), parts in shares.items():
            rollup_key = {"bucket": bucket, "cluster": cluster, "profile": profile}
            key = sa.and_(*(ROLLUPS.c[name] == value for name, value in rollup_key.items()))
            blobs = connection.execute(sa.select(ROLLUPS.c.part, ROLLUPS.c.counters).where(key, ROLLUPS.c.part >= 0))
            rollups = {
                row.part: self._rollup_cache.get((*rollup_key.values(), row.part), row.counters) for row in blobs
            }
            stored = set(rollups)
            for share in parts:
                share.counted.finish()
                for part, slots in split_by_part(share.node_ids).items():
                    rollups.setdefault(part, Rollup()).add(share.counted, slots, share.node_ids[slots])
                self._mark_considered(connection, share)
            rows = {part: build_rollup_row(rollup, batch.now_us) for part, rollup in rollups.items()}
            for part, rollup in rollups.items():
                self._rollup_cache.put((*rollup_key.values(), part), rows[part]["counters"], rollup)
            fresh = [rollup_key | {"part": part} | row for part, row in rows.items() if part not in stored]
            if fresh:
                connection.execute(ROLLUPS.insert(), fresh)
            if stored:
                update = ROLLUPS.update().where(key, ROLLUPS.c.part == sa.bindparam("of"))
                connection.execute(update, [{"of": part} | row for part, row in rows.items() if part in stored])

    def _mark_considered(self, connection: sa.Connection, share: _HourCounts) -> None:
        seen = share.counted.columns[CounterName("considered")] > 0
        fresh = set(share.node_ids[seen].tolist()) - self._considered_ids - {0}
        if fresh:
            connection.execute(_CONSIDERED, [{"node": node_id} for node_id in sorted(fresh)])
            self._considered_ids |= fresh


class _FrameKey(NamedTuple):
    """The table for a frame, and its sequence number in the incarnation; for an outcome also its decision's number."""

    table: sa.Table
    sequence: int
    decision_sequence: int | None = None


def _find_feasible(batch: _Batch, decision: Decision) -> Mask:
    """Return the mask of a decision's feasible nodes, with an entry per node slot.

    Two consecutive decisions for one pod template get the same object if they share the objects with their evaluation
    and filter results, unless their frames have ranks.
    """
    if decision.rank is not DERIVED:
        return as_numpy(decision.rank) > 0
    template = (decision.pod.namespace, decision.pod.digest)
    last, feasible = batch.feasible.get(template, (None, None))
    if (
        feasible is None
        or last is None
        or decision.evaluation is not last.evaluation
        or decision.path is not last.path
        or len(decision.filters) != len(last.filters)
        or any(a is not b for a, b in zip(decision.filters, last.filters, strict=True))
    ):
        feasible = find_feasible(decision)
    batch.feasible[template] = decision, feasible
    return feasible


def _is_new(connection: sa.Connection, batch: _Batch, incarnation: Incarnation, key: _FrameKey) -> bool:
    """Return whether a frame is new, and mark its sequence number as received."""
    if batch.imported:
        incarnation.sequences.mark_left_out(key.sequence)
    if not incarnation.sequences.is_left_out(key.sequence):
        return incarnation.sequences.receive(key.sequence)
    return not _is_stored(connection, batch, incarnation, key)


def _is_stored(connection: sa.Connection, batch: _Batch, incarnation: Incarnation, key: _FrameKey) -> bool:
    """Return whether a frame is stored or occurred before in this batch."""
    columns = key.table.c
    conditions = [columns.incarnation_id == incarnation.id, columns.sequence == key.sequence]
    if key.decision_sequence is not None:  # the primary key begins with it
        conditions.append(columns.decision_sequence == key.decision_sequence)
    is_stored = (incarnation.id, key.sequence) in batch.looked_up or connection.scalar(
        sa.select(sa.exists().where(*conditions))
    )
    batch.looked_up.add((incarnation.id, key.sequence))
    return bool(is_stored)


def _decision_key(outcome: Row) -> tuple[int, int]:
    return outcome["incarnation_id"], outcome["decision_sequence"]


_CONSIDERED: Final = NODES.update().where(NODES.c.id == sa.bindparam("node")).values(considered=True)
