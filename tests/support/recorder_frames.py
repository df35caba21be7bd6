"""Frames in a spool, and what the recorder writes."""

from __future__ import annotations

from herodotus_record import codec
from herodotus_record.model import (
    Code,
    Decision,
    Gap,
    Reason,
    Times,
)
from scheduler.engine.columns import Snapshot
from scheduler.engine.cycle import CycleResult
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.records.build import AttemptData
from scheduler.recorder.recorder import PhaseResult, Recorder
from tests.builders import CLUSTER, a_table

TIMES = Times(0, 0, 0)


def record_attempt(recorder: Recorder, pod: PodInfo, snapshot: Snapshot, result: CycleResult) -> Decision:
    return recorder.record_decision(AttemptData(pod, 1, "test", snapshot, result, TIMES, 0, (Reason("mark"),)))


def record_bind(recorder: Recorder, of: Decision) -> None:
    recorder.record_outcome(of, PhaseResult("Bind", Code.SUCCESS, "a", final=True))


ME = "incarnation"


def encoded_gap(sequence: int, reason: str = "") -> bytes:
    return codec.encode(Gap(ME, sequence, 1, 1, reason, 0))


TABLE = codec.encode(a_table(["a", "b"]).rows(CLUSTER, ME))
