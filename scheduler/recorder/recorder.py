"""The recorder: numbers records and appends them to the spool in order.

Owns: the incarnation, the sequence numbers, gap records, and the high-water mark, from which a successor knows how many
records this process wrote. Does not own: building a record (`engine.records.build`), the spool's
files, publishing the high-water mark (`scheduler.commands.run` writes it into the Lease).

Invariant: sequence numbers are contiguous. A record that could not be written lies within the range of a Gap, which is
written before the next record. No method raises into scheduling: lost history is stated as lost.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from herodotus_record import codec, klog
from herodotus_record.codec import deltas
from herodotus_record.model import (
    NODE_GROUPS_PHASE,
    REPEATS_PHASE,
    AttemptKey,
    Code,
    Decision,
    DecisionPath,
    Gap,
    HighWater,
    Outcome,
    Reason,
    SchedulerInfo,
    Source,
)
from scheduler.engine.columns import NodeColumns
from scheduler.engine.records import build
from scheduler.engine.records.build import AttemptData, Origin, RecordCaches, RecordIdentity
from scheduler.engine.records.ids import uuid7
from scheduler.recorder.repeats import RecentAttempt, RecentAttempts
from scheduler.recorder.spool import Spool, SpoolFullError

HIGH_WATER_ANNOTATION: Final = "herodotus.dev/high-water"  # the Lease's annotation: INCARNATION SEQUENCE
MAX_SEQUENCE: Final = 1 << 53  # the decisions service refuses higher ones
_HIGH_WATER: Final = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) ([0-9]{1,16})")
CHECK_EVERY_S: Final = 0.5  # between looks at the spool's files while nothing is recorded
URGENT_EVERY_S: Final = 10.0  # between gap records in the reserve of a spool that stays full


class PhaseResult(NamedTuple):
    """The result of a phase after the decision, such as Permit, Bind or Evict, for the pod on `node`.

    `message` is a `Reason` if it names other pods. `final` says that no further outcome of the decision follows.
    """

    phase: str
    status: Code
    node: str
    message: str | Reason = ""
    duration_s: float = 0.0
    final: bool = False


class RecordedAttempt(NamedTuple):
    """A decision without a node that was written: what is needed to add verdicts of node groups to it later.

    `template` is equal for pods of one namespace whose spec is the same.
    """

    id: str
    sequence: int
    namespace: str
    pod: str
    uid: str
    template: Hashable


class Recorder:
    """Numbers the records of one scheduler process and writes them to its spool. Thread-safe."""

    def __init__(
        self,
        open_spool: Callable[[str], Spool],
        origin: Origin,
        version: str,
        notes: tuple[Reason, ...] = (),
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        """Start a new incarnation (run of a scheduler process) and open its spool. Raise OSError if that is impossible.

        `notes` are added to every decision of this process: they state which features are switched off.
        """
        self.incarnation = str(uuid.uuid4())
        self.dropped = 0
        self.recorded = 0
        self.gaps = 0  # gap records written
        self.repeated = 0  # attempts that were counted on the record that they repeat
        self._spool = open_spool(self.incarnation)
        self._origin = origin
        self._version = version
        self._notes = notes
        self.on_no_node: Callable[[RecordedAttempt], None] | None = None  # called by the thread that records
        self._now_us = now_us
        self._lock = threading.Lock()
        self._caches = RecordCaches()
        self._recent = RecentAttempts()
        self._schedulers: dict[str, SchedulerInfo] = {}  # by profile
        self._deltas = deltas.DeltaWriter()
        self._sequence = 0
        self._rows_generation = -1
        self._table_needed = True  # the next decision must bring the complete node table
        self._gap: tuple[int, str] | None = None  # first sequence that was lost, and why
        self._unwritten = 0  # bytes of the last frames that found no room
        self._checked_s = self._urgent_s = float("-inf")
        self._predecessor: tuple[str, int] | None = None  # the previous leader's incarnation and last number, unwritten

    def record_decision(self, attempt: AttemptData) -> Decision:
        """Build the decision of an attempt, write it to the spool and return it.

        A decision that cannot be written is counted as lost and is returned too. If the attempt has the same result as
        the pod's last recorded attempt, at most a second ago, it is only counted; the decision then has the id and
        sequence number of that record.
        """
        with self._lock:
            now_us = self._now_us()
            self._write_repeats(*self._recent.pop_expired(now_us))
            record, columns = self._build(attempt), attempt.snapshot.nodes
            is_rejection = record.chosen is None
            recent = self._recent.find(record, columns) if is_rejection else None
            if recent is not None:
                recent.count(record.times.started_us)
                self.repeated += 1
                return replace(record, id=recent.decision.id, sequence=recent.decision.sequence)
            if (ended := self._recent.pop(record.key.pod_uid)) is not None:
                self._write_repeats(ended)
                record = replace(record, sequence=self._next_sequence())
            is_written = self._write_record(record, columns)
            if is_rejection and is_written:
                self._recent.add(record, columns, now_us, is_large=attempt.pod.is_large)
        if is_written and self.on_no_node is not None and record.path is DecisionPath.NONE:
            pod = record.pod
            template = (pod.namespace, pod.digest)
            self.on_no_node(RecordedAttempt(record.id, record.sequence, pod.namespace, pod.name, pod.uid, template))
        return record

    def _build(self, attempt: AttemptData) -> Decision:
        source = Source.SCHEDULER if attempt.reconstruction is None else Source.RECONSTRUCTED
        key = AttemptKey(self._origin.cluster, source, self.incarnation, attempt.pod.uid, attempt.number)
        scheduler = self._get_scheduler_info(attempt.profile)
        identity = RecordIdentity(uuid7(), key, self._next_sequence(), scheduler)
        return build.decision(attempt, identity, notes=self._notes, caches=self._caches, omitted=self._origin.omitted)

    def _write_repeats(self, *ended: RecentAttempt) -> None:
        """Write one outcome for each of these recorded attempts, with the number of attempts that repeated it."""
        for recent in ended:
            result = PhaseResult(REPEATS_PHASE, Code.SUCCESS, "", duration_s=(recent.last_us - recent.first_us) / 1e6)
            self._write_outcome(recent.decision, result, recent.last_us, repeats=recent.repeats)

    def record_outcome(self, decision: Decision, result: PhaseResult) -> None:
        """Write the outcome of a later phase of the decision's attempt, such as the binding, to the spool."""
        with self._lock:
            self._write_outcome(decision, result, self._now_us())

    def record_node_groups(self, decision: RecordedAttempt, verdicts: bytes, at_us: int) -> None:
        """Write to the spool the verdicts of node groups on the pod of an attempt that found no node.

        `verdicts` is a `node_groups.RecordedNodeGroups` as JSON, and `at_us` when the verdicts were made, in
        microseconds.
        """
        with self._lock:
            result = PhaseResult(NODE_GROUPS_PHASE, Code.SUCCESS, "")
            self._write_outcome(decision, result, at_us, node_groups=verdicts.decode())

    def _write_outcome(
        self,
        of: Decision | RecordedAttempt,
        result: PhaseResult,
        at_us: int,
        *,
        node_groups: str = "",
        repeats: int = 0,
    ) -> None:
        message = result.message
        self._write_record(
            Outcome(
                incarnation=self.incarnation,
                sequence=self._next_sequence(),
                decision_id=of.id,
                decision_sequence=of.sequence,
                phase=result.phase,
                status=result.status,
                node=result.node,
                message="" if isinstance(message, Reason) else message,
                at_us=at_us,
                duration_s=result.duration_s,
                final=result.final,
                reason=message if isinstance(message, Reason) else None,
                node_groups=node_groups,
                repeats=repeats,
            )
        )

    def record_late_outcome(self, outcome: Outcome) -> bool:
        """Write the outcome of a decision that an earlier scheduler process made.

        Return whether the outcome was written. The outcome has no sequence number of this incarnation. If it cannot be
        written, the decision stays open, and the caller may find the outcome again later.
        """
        with self._lock:
            try:
                self._append(codec.encode(outcome))
            except OSError as e:
                klog.repeated_error(e, "Cannot record the result of an earlier decision", decision=outcome.decision_id)
                return False
            return True

    def record_predecessor(self, annotations: Mapping[str, str]) -> None:
        """Record the last sequence number that the previous leader wrote into the Lease's annotations.

        The decisions service then shows records of that leader that never arrive as missing, even if its spool is gone.
        Call this once, before any decision.
        """
        written = annotations.get(HIGH_WATER_ANNOTATION)
        if written is None:
            return  # the first leader
        match = _HIGH_WATER.fullmatch(written)
        if match is None or int(match[2]) > MAX_SEQUENCE or match[1] == self.incarnation:
            klog.warning(
                "Ignoring the Lease annotation: not INCARNATION SEQUENCE",
                annotation=HIGH_WATER_ANNOTATION,
                value=written[:80],
            )
            return
        of, reached = match[1], int(match[2])
        if reached == 0:
            return  # it recorded nothing
        klog.info(2, "An earlier leader recorded decisions", incarnation=of, reached=reached)
        with self._lock:
            self._predecessor = of, reached
            self._write_predecessor()

    def build_high_water_annotation(self) -> Mapping[str, str]:
        """Return the Lease annotation for the next leader: this incarnation and its last record, written or lost."""
        return {HIGH_WATER_ANNOTATION: f"{self.incarnation} {self._sequence}"}

    @property
    def spool_bytes(self) -> int:
        """The size of the spool in bytes when it was last measured."""
        return self._spool.total_bytes

    @property
    def spool_repairs(self) -> int:
        """The number of times that the open segment was deleted or damaged from outside and written again."""
        return self._spool.repairs

    @property
    def spool_fault(self) -> str:
        """A message about a current or recent problem with the spool's files, or "" if there is none."""
        return self._spool.fault

    def check_spool(self) -> None:
        """Repair the spool's files if needed, and write overdue counts of repeats and the gap record for lost records.

        Call it regularly while nothing is recorded. Unless records were lost, it does something every CHECK_EVERY_S
        seconds only.
        """
        now = time.monotonic()
        if self._gap is None and now - self._checked_s < CHECK_EVERY_S:
            return
        self._checked_s = now
        with self._lock:
            self._spool.check()
            self._write_repeats(*self._recent.pop_expired(self._now_us()))
            self._close_gap()
            if self._gap is not None and now - self._urgent_s >= URGENT_EVERY_S:
                self._urgent_s = now
                self._close_gap(urgent=True)

    def close(self) -> None:
        """Write counts of repeats and a gap record for records that were lost since the last one; close the spool."""
        with self._lock:
            self._spool.check()
            self._write_repeats(*self._recent.pop_all())
            self._close_gap(urgent=True)
            self._spool.close()

    def _get_scheduler_info(self, profile: str) -> SchedulerInfo:
        """Return the profile's SchedulerInfo, always the same object for one profile."""
        scheduler = self._schedulers.get(profile)
        if scheduler is None:
            scheduler = replace(
                build.describe_scheduler(profile, self._origin.identity, self._origin.rules), version=self._version
            )
            self._schedulers[profile] = scheduler
        return scheduler

    def _next_sequence(self) -> int:
        """Return the sequence number for the next record. It counts as used once the record is written or lost.

        If records were lost before, their gap record is written first if there is room, and takes a number itself.
        """
        self._close_gap()
        return self._sequence + 1

    def _close_gap(self, *, urgent: bool = False) -> None:
        """Write a gap record, which reports the records lost since the last one. Do nothing if no record was lost.

        It is written once there is room for it and for the record that did not fit, or with `urgent` at once into the
        spool's reserved disk space.
        """
        if self._gap is None:
            self._write_predecessor(urgent=urgent)
            return
        first, reason = self._gap
        own = self._sequence + 1
        frame = codec.encode(Gap(self.incarnation, own, first, self._sequence, reason, self._now_us()))
        with contextlib.suppress(SpoolFullError):  # still no room: the gap continues
            if not urgent and not self._spool.has_room(self._unwritten + len(frame)):
                return
            self._spool.append(frame, urgent=urgent)
            self._sequence, self._gap = own, None
            self.gaps += 1
            self._write_predecessor(urgent=urgent)

    def _write_predecessor(self, *, urgent: bool = False) -> None:
        """Write what the previous leader recorded, if it was not written yet.

        It takes a number only when it is written, and is tried again until then. If the disk was full for both leaders,
        nothing else says what the previous one has lost.
        """
        if self._predecessor is None:
            return
        of, reached = self._predecessor
        own = self._sequence + 1
        frame = codec.encode(HighWater(self.incarnation, own, of, reached, self._now_us()))
        with contextlib.suppress(OSError):
            self._spool.append(frame, urgent=urgent)
            self._sequence, self._predecessor = own, None
            self.recorded += 1

    def _write_record(self, record: Decision | Outcome, columns: NodeColumns | None = None) -> bool:
        """Write a record to the spool, or count it as lost. Return whether it was written.

        A decision is preceded by the node rows that changed. After a record was lost, nothing is written before the gap
        record that reports it, so that the gap's range is exact. The record's number counts as used only when this
        method ends: another thread writes the last used number to the Lease, and a scheduler that is killed during the
        write has not written the record.

        After `close`, the record is dropped without using a number, since nothing can report its loss any more.
        """
        if self._spool.is_closed:
            self.dropped += 1
            return False
        try:
            if self._gap is not None:
                self.dropped += 1
                return False
            if isinstance(record, Decision) and columns is not None:
                self._write_decision(record, columns)
            else:
                self._append(codec.encode(record))
            self.recorded += 1
            return True
        except Exception as e:  # whatever it is, it is history's problem and not scheduling's
            self._deltas.forget_bases()  # what was not written is no base
            self._gap = (record.sequence, str(e))
            klog.repeated_error(e, "Cannot record decisions; scheduling goes on", sequence=record.sequence)
            self.dropped += 1
            return False
        finally:
            self._sequence = record.sequence

    def _write_decision(self, record: Decision, columns: NodeColumns) -> None:
        """Write a decision, preceded by the node table's rows that changed since the last decision.

        A new segment, and a decision after lost rows, begin with the complete table.
        """
        touched, whole = columns.take_changed_slots(), self._table_needed or self._spool.needs_rotation
        self._table_needed = bool(whole or touched)
        if whole:
            self._deltas.forget_bases()
            rows = self._encode_node_rows(columns, range(columns.slots), base=-1)
        elif touched:
            rows = self._encode_node_rows(columns, touched, base=self._rows_generation)
        else:
            rows = b""
        frames = rows + self._deltas.encode(record)
        self._append(frames, whole=whole)
        self._table_needed = False
        self._rows_generation = columns.generation  # unchanged where no row was touched

    def _encode_node_rows(self, columns: NodeColumns, slots: Sequence[int], base: int) -> bytes:
        return codec.encode(build.node_rows(columns, slots, self._origin.cluster, self.incarnation, base))

    def _append(self, frames: bytes, *, whole: bool = False) -> None:
        """Append frames (encoded records) to the spool.

        With `whole`, they begin with the rows of all nodes and start a new segment file.
        """
        try:
            if whole:
                self._spool.rotate(frames)
            else:
                self._spool.append(frames)
        except SpoolFullError:
            self._unwritten = len(frames)
            raise
