"""The recorder: numbers records and puts them into the spool, in order.

Owns: the incarnation, the sequence, gap records, the high-water mark that tells a successor how far we came. Does not
own: the cycle, the spool's files, where the mark is published (`scheduler.commands.run` puts it into the Lease).

Invariant: sequences are contiguous; a record that could not be written is inside a Gap that is written before the next
one. Nothing here raises into scheduling: history may be incomplete, and then says so.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from herodotus_record import codec
from herodotus_record.codec import deltas
from herodotus_record.model import (
    AttemptKey,
    Code,
    Decision,
    Gap,
    HighWater,
    Outcome,
    Reason,
    SchedulerInfo,
    Source,
)
from scheduler import klog
from scheduler.engine.columns import NodeColumns
from scheduler.engine.records import build
from scheduler.engine.records.build import AttemptData, ClassRecordCache
from scheduler.engine.records.ids import uuid7
from scheduler.engine.records.omitted_labels import NOTHING_OMITTED, OmittedLabels
from scheduler.engine.records.record_cache import RecentClasses
from scheduler.recorder.spool import Spool, SpoolFullError

HIGH_WATER_ANNOTATION: Final = "herodotus.dev/high-water"  # the Lease's annotation: INCARNATION SEQUENCE
MAX_SEQUENCE: Final = 1 << 53  # the decisions service refuses higher ones
_HIGH_WATER: Final = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) ([0-9]{1,16})")
CHECK_EVERY_S: Final = 0.5  # between looks at the spool's files while nothing is recorded
URGENT_EVERY_S: Final = 10.0  # between gap records in the reserve of a spool that stays full


class Recorder:
    """Decisions come from the loop's thread, outcomes from binding threads too."""

    def __init__(
        self,
        open_spool: Callable[[str], Spool],
        cluster: str,
        identity: str,
        version: str,
        marks: tuple[Reason, ...] = (),
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        omitted: OmittedLabels = NOTHING_OMITTED,
    ) -> None:
        """`marks`: what every record of this process says is switched off. OSError when there can be no spool."""
        self.incarnation = str(uuid.uuid4())
        self.dropped = 0
        self.recorded = 0
        self.gaps = 0  # gap records written
        self._spool = open_spool(self.incarnation)
        self._cluster = cluster
        self._identity = identity
        self._version = version
        self._marks = marks
        self._now_us = now_us
        self._omitted = omitted
        self._lock = threading.Lock()
        self._classes = RecentClasses(ClassRecordCache)
        self._schedulers: dict[str, SchedulerInfo] = {}  # by profile
        self._deltas = deltas.DeltaWriter()
        self._sequence = 0
        self._rows_generation = -1
        self._table_needed = True  # the next decision must bring the complete node table
        self._gap: tuple[int, str] | None = None  # first sequence that was lost, and why
        self._unwritten = 0  # bytes of the last frames that found no room
        self._checked_s = self._urgent_s = float("-inf")

    def record_decision(self, attempt: AttemptData) -> Decision:
        """Record an attempt. Returns when it is in the spool, or known to be lost."""
        source = Source.SCHEDULER if attempt.reconstruction is None else Source.RECONSTRUCTED
        with self._lock:
            record = build.decision(
                attempt,
                id=uuid7(),
                key=AttemptKey(self._cluster, source, self.incarnation, attempt.pod.uid, attempt.number),
                sequence=self._take_sequence(),
                scheduler=self._get_scheduler_info(attempt.profile),
                marks=self._marks,
                classes=self._classes,
                omitted=self._omitted,
            )
            self._write_record(record, attempt.snapshot.nodes)
            return record

    def record_outcome(
        self,
        decision: Decision,
        phase: str,
        status: Code,
        node: str,
        message: str | Reason,
        duration_s: float,
        *,
        final: bool,
    ) -> None:
        """Record how a later phase of a decision ended. `message`: a `Reason` where it names other pods."""
        with self._lock:
            self._write_record(
                Outcome(
                    incarnation=self.incarnation,
                    sequence=self._take_sequence(),
                    decision_id=decision.id,
                    decision_sequence=decision.sequence,
                    phase=phase,
                    status=status,
                    node=node,
                    message="" if isinstance(message, Reason) else message,
                    at_us=self._now_us(),
                    duration_s=duration_s,
                    final=final,
                    reason=message if isinstance(message, Reason) else None,
                )
            )

    def record_late_outcome(self, outcome: Outcome) -> bool:
        """Record the result of another incarnation's decision; whether it is in the spool.

        It has no sequence of ours: where it is lost, the decision is still open, and its result is found again.
        """
        with self._lock:
            try:
                self._append(codec.encode(outcome))
            except OSError as e:
                klog.error(e, "Cannot record the result of an earlier decision", decision=outcome.decision_id)
                return False
            return True

    def record_predecessor(self, annotations: Mapping[str, str]) -> None:
        """Record how far the leader before us came, by what it left in the Lease. Once, before anything else.

        What of it never arrives at the decisions service shows there as missing, also where its spool is gone.
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
            self._write_record(HighWater(self.incarnation, self._take_sequence(), of, reached, self._now_us()))

    def build_high_water_annotation(self) -> Mapping[str, str]:
        """Our own words for the leader after us: every sequence up to this one was given to a record."""
        return {HIGH_WATER_ANNOTATION: f"{self.incarnation} {self._sequence}"}

    @property
    def spool_bytes(self) -> int:
        """What the spool holds, as last counted."""
        return self._spool.total_bytes

    @property
    def spool_repairs(self) -> int:
        """How many segments were deleted or damaged while open, and written again."""
        return self._spool.repairs

    @property
    def spool_fault(self) -> str:
        """What is wrong with the spool's files; "" when nothing."""
        return self._spool.fault

    def check_spool(self) -> None:
        """Check the spool's files, and record what was lost, without waiting for the next record."""
        now = time.monotonic()
        if self._gap is None and now - self._checked_s < CHECK_EVERY_S:
            return
        self._checked_s = now
        with self._lock:
            self._spool.check()
            self._close_gap()
            if self._gap is not None and now - self._urgent_s >= URGENT_EVERY_S:
                self._urgent_s = now
                self._close_gap(urgent=True)

    def close(self) -> None:
        """Nothing more will be recorded."""
        with self._lock:
            self._spool.check()
            self._close_gap(urgent=True)
            self._spool.close()

    def _get_scheduler_info(self, profile: str) -> SchedulerInfo:
        """The same object for each record of a profile."""
        known = self._schedulers.get(profile)
        if known is None:
            known = self._schedulers[profile] = SchedulerInfo(profile, self._identity, self._version)
        return known

    def _take_sequence(self) -> int:
        """The next record's sequence. An open gap is closed first, with a sequence of its own."""
        self._close_gap()
        self._sequence += 1
        return self._sequence

    def _close_gap(self, *, urgent: bool = False) -> None:
        """Record what was lost once there is room for what was, so that the next record is not lost again.

        `urgent`: now, into the spool's reserve.
        """
        if self._gap is None:
            return
        first, reason = self._gap
        own = self._sequence + 1
        frame = codec.encode(Gap(self.incarnation, own, first, self._sequence, reason, self._now_us()))
        with contextlib.suppress(SpoolFullError):  # still no room: the gap goes on
            if not urgent and not self._spool.has_room(self._unwritten + len(frame)):
                return
            self._spool.append(frame, urgent=urgent)
            self._sequence, self._gap = own, None
            self.gaps += 1

    def _write_record(self, record: Decision | Outcome | HighWater, columns: NodeColumns | None = None) -> None:
        """Write a record; a decision brings the rows of the node table that changed, which go first.

        While a gap is open nothing is written: what follows is lost too, so that the gap's range is exact.
        """
        if self._gap is not None:
            self.dropped += 1
            return
        try:
            if isinstance(record, Decision) and columns is not None:
                self._write_decision(record, columns)
            else:
                self._append(codec.encode(record))
            self.recorded += 1
        except Exception as e:  # whatever it is, it is history's problem and not scheduling's
            self._deltas.forget_bases()  # what was not written is no base
            self._gap = (record.sequence, str(e))
            klog.error(e, "Cannot record decisions; scheduling goes on", sequence=record.sequence)
            self.dropped += 1

    def _write_decision(self, record: Decision, columns: NodeColumns) -> None:
        """A new segment starts with the complete table, and so does whatever follows rows that were lost."""
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
        return codec.encode(build.node_rows(columns, slots, self._cluster, self.incarnation, base))

    def _append(self, frames: bytes, *, whole: bool = False) -> None:
        """Write frames to the spool's end. `whole`: they begin with the complete node table, and so a segment."""
        try:
            if whole:
                self._spool.rotate(frames)
            else:
                self._spool.append(frames)
        except SpoolFullError:
            self._unwritten = len(frames)
            raise
