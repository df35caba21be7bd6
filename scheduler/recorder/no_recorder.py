"""The recorder of `--no-record`, which keeps no history. It serves to measure what recording costs.

Owns: the warning that no decision is kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Final

from herodotus_record import klog
from herodotus_record.model import AttemptKey, Decision, SchedulerInfo, Source
from scheduler.engine.records import build
from scheduler.engine.records.build import AttemptData
from scheduler.engine.records.ids import uuid7
from scheduler.recorder.recorder import PhaseResult, Recorder

_NONE: Final = array("B")


class NoRecorder(Recorder):
    """A recorder that writes nothing and needs no spool.

    Its decisions hold only what later phases of an attempt read.
    """

    def __init__(self, version: str) -> None:
        self.incarnation = ""
        self.recorded = self.dropped = self.gaps = self.repeated = 0
        self._version = version
        klog.warning("Recording is switched off (--no-record): no decision of this process can be explained later")

    @property
    def spool_bytes(self) -> int:
        return 0

    @property
    def spool_fault(self) -> str:
        return ""

    @property
    def spool_repairs(self) -> int:
        return 0

    def record_decision(self, attempt: AttemptData) -> Decision:
        """Return a decision that is not written, with only the fields that later phases read: its id, key and pod."""
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
            restricted_by=(),
            evaluation=_NONE,
            filters=(),
            scores=(),
            totals=_NONE,
            rank=_NONE,
            seed=attempt.seed,
            post_filters=(),
            message=attempt.result.message,
        )

    def record_outcome(self, decision: Decision, result: PhaseResult) -> None:
        """Do nothing: the outcome is not recorded."""

    def record_predecessor(self, annotations: Mapping[str, str]) -> None:
        """Do nothing: the previous leader's Lease annotation is ignored."""

    def build_high_water_annotation(self) -> Mapping[str, str]:
        """Return no Lease annotation, since this process writes no records."""
        return {}

    def check_spool(self) -> None:
        """Do nothing, since there is no spool."""

    def close(self) -> None:
        """Do nothing, since no file is open."""
