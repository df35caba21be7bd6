"""The fields of decisions and outcomes from which spans are made.

Owns: the selection of these fields. Does not own: the form of spans (`spans`), which records are new (`store`).

Invariant: no text, message or reason is selected, and no name except those of the pod itself and of its node. A reader
of the spans therefore learns nothing that masking hides from a reader of the pod's namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from herodotus_record.model import AttemptKey, Code, Decision, DecisionPath, Outcome

PHASES: Final = ("PreFilter", "Filter", "PostFilter", "PreScore", "Score")  # in the order of the scheduling cycle
QUEUES: Final = ("active", "backoff", "unschedulable", "gated")
_COUNTS: Final = {"nodes": "total", "evaluated": "evaluated", "feasible": "feasible"}  # path in the record, attribute


class TracedAttempt(NamedTuple):
    """The fields of a decision from which the spans of its attempt and of its scheduling cycle are made.

    `node` is the name of the chosen node, or "". `phases_s` has the durations of the phases in PHASES that ran, and
    `nodes` the known numbers of nodes.
    """

    key: AttemptKey
    decision_id: str
    sequence: int
    namespace: str
    pod: str
    node: str
    profile: str
    version: str
    path: DecisionPath
    started_us: int
    phases_s: Mapping[str, float]
    queues_s: Mapping[str, float]
    nodes: Mapping[str, int]

    @property
    def spans(self) -> int:
        """The number of spans made from the attempt: its own, and one for each phase of the scheduling cycle."""
        return 1 + len(self.phases_s)


class TracedPhase(NamedTuple):
    """The fields of an outcome from which the span of a phase after the scheduling cycle, such as Bind, is made."""

    incarnation: str
    decision_id: str
    decision_sequence: int
    phase: str
    status: Code
    node: str
    ended_us: int
    duration_s: float

    @property
    def spans(self) -> int:
        """The number of spans made from the outcome, for counting dropped spans: always one, the phase's own."""
        return 1


TracedRecord = TracedAttempt | TracedPhase


def select_traced(record: Decision | Outcome, node: str | None) -> TracedRecord:
    """Return the fields of a record from which its spans are made.

    `node` is the name of a decision's chosen node, or None.
    """
    if isinstance(record, Outcome):
        return TracedPhase(
            record.incarnation,
            record.decision_id,
            record.decision_sequence,
            record.phase,
            record.status,
            record.node,
            record.at_us,
            record.duration_s,
        )
    times = record.times
    return TracedAttempt(
        key=record.key,
        decision_id=record.id,
        sequence=record.sequence,
        namespace=record.pod.namespace,
        pod=record.pod.name,
        node=node or "",
        profile=record.scheduler.profile,
        version=record.scheduler.version,
        path=record.path,
        started_us=times.started_us,
        phases_s={phase: times.phases_s[phase] for phase in PHASES if phase in times.phases_s},
        queues_s={queue: times.queues_s[queue] for queue in QUEUES if queue in times.queues_s},
        nodes={
            name: getattr(record, f"nodes_{name}")
            for path, name in _COUNTS.items()
            if f"snapshot.{path}" not in record.unknown
        },
    )
