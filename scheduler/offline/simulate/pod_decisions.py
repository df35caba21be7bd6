"""Why a pod has one node with one variant of the scheduler, and another node with another.

    comparison = compare_decisions(question, (first, second), registry, report)

Owns: which attempts of the two runs are compared, and their records. Does not own: a run (`simulation`), the sentences
about two decisions (`herodotus_answers.comparison`).

Invariant: equal traces, variants and seeds give equal documents.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple

from herodotus_answers.comparison import PodComparison, build_pod_comparison
from herodotus_answers.simulation_questions import SimulationQuestion
from herodotus_record.codec import fill_derived
from herodotus_record.model import POD_GROUP_PHASE, AttemptKey, Code, Decision, NodeTable, Outcome, Source, Times
from scheduler.backend.pod_groups.placing import UNSCHEDULABLE
from scheduler.config import Registry
from scheduler.engine.columns import NodeColumns
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.records import build
from scheduler.engine.records.build import AttemptData, RecordIdentity
from scheduler.offline.simulate.comparison import PERCENT, Report, Variant, read_events
from scheduler.offline.simulate.simulation import TraceSimulation
from scheduler.offline.simulate.virtual_cluster import SimulatedAttempt, SimulationError
from scheduler.offline.traces.document import PodArrived

VARIANTS: Final = 2
_MICROSECONDS: Final = 1_000_000
_IDS: Final = uuid.UUID("9f0d1b7e-6c1c-4a52-9a3c-3f3c3d0e6b55")  # the name space of the IDs of simulated decisions


class SimulatedDecision(NamedTuple):
    """The record of a simulated attempt, with the nodes as they were then. Implements `RecordedDecision`.

    `node` is the node that got the pod, or "" if none did.
    """

    decision: Decision
    outcomes: tuple[Outcome, ...]
    table: NodeTable
    node: str


class PodDecisions:
    """The decisions about one pod in a run, without those that only repeat the result of the one before.

    Implements `SimulationWatcher`.
    """

    def __init__(self, pod: str, variant: str) -> None:
        """Start without decisions. `pod` is NAMESPACE/NAME."""
        self._pod, self._variant = pod, variant
        self._number = 0
        self.decisions: list[SimulatedDecision] = []

    def observe(self, attempt: SimulatedAttempt) -> None:
        """Record the attempt if it is about the pod and ends with another result than the one before."""
        if attempt.pod.full_name != self._pod:
            return
        self._number += 1
        chosen = attempt.result.chosen
        node = "" if chosen is None else attempt.snapshot.nodes.names[chosen]
        if not self.decisions or self.decisions[-1].node != node:
            self.decisions.append(self._build(attempt, node))

    def advance(self, now_s: float, nodes: NodeColumns, waiting: int) -> None:
        pass

    def arrived(self, now_s: float, pod: PodInfo) -> None:
        pass

    def decided(self, now_s: float, pod: PodInfo, node: str) -> None:
        """Note that the pod did not get the node that `observe` saw, because its group was not placed."""
        last = self.decisions[-1] if self.decisions and pod.full_name == self._pod else None
        if last is None or node or not last.node:
            return
        self.decisions.pop()
        if not self.decisions or self.decisions[-1].node:
            outcome = _build_outcome(last.decision, last.node, POD_GROUP_PHASE, Code.UNSCHEDULABLE, UNSCHEDULABLE)
            self.decisions.append(last._replace(outcomes=(outcome,), node=""))

    def preempted(self, now_s: float, victim: PodInfo) -> None:
        pass

    def _build(self, attempt: SimulatedAttempt, node: str) -> SimulatedDecision:
        nodes, profile = attempt.snapshot.nodes, attempt.framework.profile
        table = NodeTable()
        table.apply(build.node_rows(nodes, range(nodes.slots), "", "", base=-1))
        at_us = round(attempt.now_s * _MICROSECONDS)
        data = AttemptData(
            attempt.pod,
            self._number,
            profile.scheduler_name,
            attempt.snapshot,
            attempt.result,
            Times(0, at_us, at_us),
            attempt.seed,
        )
        identity = RecordIdentity(
            str(uuid.uuid5(_IDS, f"{self._variant}/{attempt.pod.uid}/{self._number}")),
            AttemptKey("", Source.EVALUATED, "", attempt.pod.uid, self._number),
            self._number,
            build.describe_scheduler(profile.scheduler_name, self._variant, profile.rules),
        )
        decision = fill_derived(build.decision(data, identity))
        outcomes = (_build_outcome(decision, node, "Bind", Code.SUCCESS),) if node else ()
        return SimulatedDecision(decision, outcomes, table, node)


def compare_decisions(
    question: SimulationQuestion, variants: Sequence[Variant], registry: Registry, report: Report
) -> PodComparison:
    """Replay a trace with two variants, and compare the first decisions about the question's pod that differ.

    If none differ, compare the last ones. `report` gets the percentage of the work that is done. Raises TraceError,
    SimulationError and ConfigError.
    """
    pod = question.pod
    if len(variants) != VARIANTS:
        raise SimulationError(
            f"the decisions about a pod are compared between {VARIANTS} variants, and there are {len(variants)}:"
            " name two configurations or two versions"
        )
    events = read_events(question).events
    if not any(isinstance(each, PodArrived) and each.name == pod for each in events):
        raise SimulationError(f"pod {pod}: no pod of this name arrives in {', '.join(question.traces)}")
    runs = []
    for number, variant in enumerate(variants):
        run = PodDecisions(pod, variant.name)
        TraceSimulation(variant.config, registry, question.seed, run.observe).run(events, run, lambda _: None)
        report(PERCENT * (number + 1) // VARIANTS, PERCENT)
        runs.append(run.decisions)
    if not all(runs):
        raise SimulationError(f"pod {pod}: the trace has it on its node from the first, and no attempt")
    return build_pod_comparison(_select_pair(*runs), [variant.name for variant in variants])


def _select_pair(
    first: Sequence[SimulatedDecision], second: Sequence[SimulatedDecision]
) -> tuple[SimulatedDecision, SimulatedDecision]:
    """Return the first decisions of two runs that differ. Where one run has no more, its last one counts."""
    for i in range(max(len(first), len(second))):
        pair = first[min(i, len(first) - 1)], second[min(i, len(second) - 1)]
        if pair[0].node != pair[1].node:
            return pair
    return first[-1], second[-1]


def _build_outcome(decision: Decision, node: str, phase: str, status: Code, message: str = "") -> Outcome:
    """Return the outcome of a simulated decision, which comes at the same moment."""
    return Outcome(
        incarnation="",
        sequence=decision.sequence,
        decision_id=decision.id,
        decision_sequence=decision.sequence,
        phase=phase,
        status=status,
        node=node,
        message=message,
        at_us=decision.times.started_us,
        duration_s=0.0,
        final=True,
    )
