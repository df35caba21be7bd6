"""The recorder: numbers records and puts them into the spool, in order.

Owns: the incarnation, the sequence, gap records, the high-water mark that tells a successor how far we came. Does not
own: the cycle, the spool's files, where the mark is published (`scheduler.run` puts it into the Lease).

Invariant: sequences are contiguous; a record that could not be written is inside a Gap that is written before the next
one. Nothing here raises into scheduling: history may be incomplete, and then says so.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from herodotus_record import codec
from herodotus_record.codec import deltas
from herodotus_record.model import (
    Code,
    Decision,
    Frame,
    Gap,
    HighWater,
    Key,
    Outcome,
    SchedulerInfo,
    Source,
)
from scheduler import klog
from scheduler.columns import NodeColumns
from scheduler.recorder import build
from scheduler.recorder.build import Attempt, Herd
from scheduler.recorder.herds import Recent
from scheduler.recorder.ids import uuid7
from scheduler.recorder.omitted import NOTHING_OMITTED, OmittedLabels
from scheduler.recorder.spool import Spool, SpoolFullError

MARK: Final = "herodotus.dev/high-water"  # the Lease's annotation: INCARNATION SEQUENCE


class Recorder:
    """Decisions come from the loop's thread, outcomes from binding threads too."""

    def __init__(
        self,
        open_spool: Callable[[str], Spool],
        cluster: str,
        identity: str,
        version: str,
        marks: tuple[str, ...] = (),
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
        self._herds = Recent(Herd)
        self._schedulers: dict[str, SchedulerInfo] = {}  # by profile
        self._deltas = deltas.Writer()
        self._sequence = 0
        self._rows_generation = -1
        self._table_needed = True  # the next decision must bring the complete node table
        self._gap: tuple[int, str] | None = None  # first sequence that was lost, and why

    def decision(self, attempt: Attempt) -> Decision:
        """Record an attempt. Returns when it is in the spool, or known to be lost."""
        source = Source.SCHEDULER if attempt.reconstruction is None else Source.RECONSTRUCTED
        with self._lock:
            record = build.decision(
                attempt,
                id=uuid7(),
                key=Key(self._cluster, source, self.incarnation, attempt.pod.uid, attempt.number),
                sequence=self._next(),
                scheduler=self._scheduler(attempt.profile),
                marks=self._marks,
                herds=self._herds,
                omitted=self._omitted,
            )
            self._put(record, attempt.snapshot.nodes)
            return record

    def outcome(
        self, decision: Decision, phase: str, status: Code, node: str, message: str, duration_s: float, *, final: bool
    ) -> None:
        """Record how a later phase of a decision ended."""
        with self._lock:
            self._put(
                Outcome(
                    incarnation=self.incarnation,
                    sequence=self._next(),
                    decision_id=decision.id,
                    decision_sequence=decision.sequence,
                    phase=phase,
                    status=status,
                    node=node,
                    message=message,
                    at_us=self._now_us(),
                    duration_s=duration_s,
                    final=final,
                )
            )

    def inherit(self, annotations: Mapping[str, str]) -> None:
        """Record how far the leader before us came, by what it left in the Lease. Once, before anything else.

        What of it never arrives at the decisions service shows there as missing, also where its spool is gone.
        """
        of, _, reached = annotations.get(MARK, "").partition(" ")
        if not of or not (reached.isascii() and reached.isdecimal()) or int(reached) == 0:
            return  # a first leader, or somebody else's words
        klog.info(2, "An earlier leader recorded decisions", incarnation=of, reached=int(reached))
        with self._lock:
            self._put(HighWater(self.incarnation, self._next(), of, int(reached), self._now_us()))

    def mark(self) -> Mapping[str, str]:
        """Our own words for the leader after us: every sequence up to this one was given to a record."""
        return {MARK: f"{self.incarnation} {self._sequence}"}

    @property
    def spool_bytes(self) -> int:
        """What the spool holds, as last counted."""
        return self._spool.total_bytes

    def settle(self) -> None:
        """Say what was lost, if anything was and there is room again, without waiting for the next record."""
        if self._gap is not None:
            with self._lock:
                self._close_gap()

    def close(self) -> None:
        """Nothing more will be recorded."""
        with self._lock:
            self._close_gap()
            self._spool.close()

    def _scheduler(self, profile: str) -> SchedulerInfo:
        """The same object for each record of a profile."""
        known = self._schedulers.get(profile)
        if known is None:
            known = self._schedulers[profile] = SchedulerInfo(profile, self._identity, self._version)
        return known

    def _next(self) -> int:
        """The next record's sequence. An open gap is closed first, with a sequence of its own."""
        self._close_gap()
        self._sequence += 1
        return self._sequence

    def _close_gap(self) -> None:
        if self._gap is None:
            return
        first, reason = self._gap
        own = self._sequence + 1
        with contextlib.suppress(SpoolFullError):  # still no room: the gap goes on
            self._append(Gap(self.incarnation, own, first, self._sequence, reason, self._now_us()))
            self._sequence, self._gap = own, None
            self.gaps += 1

    def _put(self, record: Decision | Outcome | HighWater, columns: NodeColumns | None = None) -> None:
        """Write a record; a decision brings the rows of the node table that changed, which go first."""
        try:
            if isinstance(record, Decision) and columns is not None:
                self._put_decision(record, columns)
            else:
                self._append(record)
            self.recorded += 1
        except Exception as e:  # whatever it is, it is history's problem and not scheduling's
            self._deltas.forget()  # what was not written is no base
            if self._gap is None:
                self._gap = (record.sequence, str(e))
                klog.error(e, "Cannot record decisions; scheduling goes on", sequence=record.sequence)
            self.dropped += 1

    def _put_decision(self, record: Decision, columns: NodeColumns) -> None:
        """A new segment starts with the complete table, and so does whatever follows rows that were lost."""
        touched, whole = columns.take_touched(), self._table_needed or self._spool.wants_rotation
        self._table_needed = bool(whole or touched)
        if whole:
            self._deltas.forget()
            rows = self._rows(columns, range(columns.slots), base=-1)
        elif touched:
            rows = self._rows(columns, touched, base=self._rows_generation)
        else:
            rows = b""
        frames = rows + self._deltas.encode(record)
        if whole:
            self._spool.rotate(frames)
        else:
            self._spool.append(frames)
        self._table_needed = False
        self._rows_generation = columns.generation  # unchanged where no row was touched

    def _rows(self, columns: NodeColumns, slots: Sequence[int], base: int) -> bytes:
        return codec.encode(build.node_rows(columns, slots, self._cluster, self.incarnation, base))

    def _append(self, frame: Frame) -> None:
        """To the spool's end. Before the first decision there is no segment: one without a node table, then."""
        if self._spool.empty:
            self._spool.rotate(codec.encode(frame))
        else:
            self._spool.append(codec.encode(frame))
