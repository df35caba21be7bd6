"""Pods placed one after the other, each as if those before it were there; nothing is bound.

Owns: the order (decide, write down, count on its node), and the frames that say what came of it. Does not own: the
cycle, the nodes: they are changed, so they must be a copy, or nobody else's.

Invariant: the first pod that is not placed is the last one that is looked at; preemption is told and not carried out.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace

from herodotus_record.codec import complete
from herodotus_record.model import Code, Decision, Frame, Key, Outcome, SchedulerInfo, Source, Times
from herodotus_record.reviews import NOTHING_CREATED, REVIEWED
from herodotus_record.version import __version__
from scheduler.columns import NodeColumns, Snapshot
from scheduler.cycle import CycleResult, schedule
from scheduler.framework.runtime import Framework
from scheduler.objects.pod import PodInfo
from scheduler.recorder import build
from scheduler.recorder.build import Attempt
from scheduler.recorder.ids import uuid7
from scheduler.recorder.omitted import NOTHING_OMITTED, OmittedLabels
from scheduler.reviews.pods import Pods


@dataclass(frozen=True)
class Origin:
    """Which cluster the nodes are of ("": files), who decides, and what is not told of pods."""

    cluster: str
    identity: str
    omitted: OmittedLabels = NOTHING_OMITTED


def place(framework: Framework, nodes: NodeColumns, asked: Pods, origin: Origin, seed: int) -> Iterator[Frame]:
    """Node rows, decision and outcome of each pod in turn. `seed`: of the draws among equals."""
    if asked.named:
        leave(nodes, asked.pods[0])
    incarnation, base = str(uuid.uuid4()), -1
    for number, pod in enumerate(asked.pods, 1):
        slots = range(nodes.slots) if base < 0 else nodes.take_touched()
        yield build.node_rows(nodes, slots, origin.cluster, incarnation, base)
        nodes.take_touched()
        base = nodes.generation
        started_us = time.time_ns() // 1000
        snapshot = Snapshot.of(nodes)
        result = _only_told(schedule(framework, pod, snapshot, seed + number))
        times = Times(
            created_us=build.microseconds(pod.pod.metadata.creation_timestamp),
            queued_us=started_us,
            started_us=started_us,
            phases_s=dict(result.trace.phases_s),
        )
        profile = framework.profile.scheduler_name
        attempt = Attempt(pod, 1, profile, snapshot, result, times, seed + number, asked.marks)
        recorded = build.decision(
            attempt,
            id=uuid7(),
            key=Key(origin.cluster, Source.RECONSTRUCTED, incarnation, pod.uid, 1),
            sequence=2 * number,
            scheduler=SchedulerInfo(profile, origin.identity, __version__),
            omitted=origin.omitted,
        )
        decision = complete(recorded)
        yield decision
        if result.chosen is None:
            return
        node = nodes.names[result.chosen]
        yield _outcome(decision, node)
        nodes.add_pod(pod, node)


def leave(nodes: NodeColumns, pod: PodInfo) -> None:
    """Stop counting a pod that is on a node already: the question is where it would go now."""
    for slot, there in enumerate(nodes.pods):
        found = [uid for uid, other in there.items() if uid == pod.uid or other.full_name == pod.full_name]
        for uid in found:
            nodes.remove_pod(uid, nodes.names[slot])


def _only_told(result: CycleResult) -> CycleResult:
    """Nobody is evicted, whatever the profile's handle says."""
    preemption = result.trace.preemption
    if preemption is not None:
        result.trace.preemption = replace(preemption, evicted=False)
    return result


def _outcome(decision: Decision, node: str) -> Outcome:
    return Outcome(
        incarnation=decision.key.incarnation,
        sequence=decision.sequence + 1,
        decision_id=decision.id,
        decision_sequence=decision.sequence,
        phase=REVIEWED,
        status=Code.SKIP,
        node=node,
        message=NOTHING_CREATED,
        at_us=decision.times.started_us,
        duration_s=0.0,
        final=True,
    )
