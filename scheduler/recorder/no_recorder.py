"""No history: what stands in for the recorder where `--no-record` switches it off, to see what recording costs.

Owns: nothing. Loud about it where it is made: nobody shall look for decisions that were never kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Final

from herodotus_record.model import AttemptKey, Code, Decision, Reason, SchedulerInfo, Source
from scheduler import klog
from scheduler.engine.records import build
from scheduler.engine.records.build import AttemptData
from scheduler.engine.records.ids import uuid7
from scheduler.recorder.recorder import Recorder

_NONE: Final = array("B")


class NoRecorder(Recorder):
    """Keeps nothing, numbers nothing, needs no spool. Its decisions only say whose they are."""

    def __init__(self, version: str) -> None:
        self.incarnation = ""
        self.recorded = self.dropped = self.gaps = 0
        self._version = version
        klog.warning("Recording is switched off (--no-record): no decision of this process can be explained later")

    @property
    def spool_bytes(self) -> int:
        """Nothing."""
        return 0

    @property
    def spool_fault(self) -> str:
        """Nothing."""
        return ""

    @property
    def spool_repairs(self) -> int:
        """None."""
        return 0

    def record_decision(self, attempt: AttemptData) -> Decision:
        """What later phases ask of a decision: whose it is."""
        return Decision(
            id=uuid7(),
            key=AttemptKey("", Source.SCHEDULER, "", attempt.pod.uid, attempt.number),
            sequence=0,
            scheduler=SchedulerInfo(attempt.profile, "", self._version),
            pod=build.pod_info(attempt.pod),
            times=attempt.times,
            generation=attempt.snapshot.generation,
            slots=0,
            nodes_total=0,
            nodes_evaluated=0,
            nodes_feasible=0,
            path=attempt.result.path,
            chosen=attempt.result.chosen,
            pre_filters=(),
            narrowed_by=(),
            evaluation=_NONE,
            filters=(),
            scores=(),
            totals=_NONE,
            rank=_NONE,
            seed=attempt.seed,
            post_filters=(),
            message=attempt.result.message,
        )

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
        """Nothing."""

    def record_predecessor(self, annotations: Mapping[str, str]) -> None:
        """What an earlier leader recorded is found missing only by a later one that records."""

    def build_high_water_annotation(self) -> Mapping[str, str]:
        """No sequence, so no words about it."""
        return {}

    def check_spool(self) -> None:
        """Nothing was lost that was to be kept."""

    def close(self) -> None:
        """Nothing is open."""
