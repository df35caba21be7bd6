"""Places pods one after the other, each as if the earlier ones were bound; nothing is bound.

The nodes must be a copy, since placed pods are added to them.

Invariant: the first pod without a node is the last one that is tried. Preemption is reported and not carried out.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import replace

from herodotus_record.codec import fill_derived
from herodotus_record.model import AttemptKey, Code, Decision, Frame, Outcome, SchedulerInfo, Source
from herodotus_record.reviews import NOTHING_CREATED, REVIEWED
from herodotus_record.version import __version__
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.records import build
from scheduler.engine.records.build import AttemptData, Origin, RecordIdentity
from scheduler.engine.records.ids import uuid7
from scheduler.engine.suggestions.search import suggest
from scheduler.engine.whatif.pods import Pods


def place(framework: Framework, nodes: NodeColumns, requested: Pods, origin: Origin, seed: int) -> Iterator[Frame]:
    """Schedule the pods of a review in order, and yield the records of each: node rows, decision and outcome.

    Stop after the first pod without a node, which has no outcome. `nodes` must be a copy, since each placed pod is
    added to it. `seed` determines the choice among nodes with equal totals.
    """
    if requested.named:
        remove_existing(nodes, requested.pods[0])
        framework.nominator.remove_named(requested.pods[0])
    incarnation, base = str(uuid.uuid4()), -1
    for number, pod in enumerate(requested.pods, 1):
        slots = range(nodes.slots) if base < 0 else nodes.take_changed_slots()
        yield build.node_rows(nodes, slots, origin.cluster, incarnation, base)
        nodes.take_changed_slots()
        base = nodes.generation
        started_us = time.time_ns() // 1000
        snapshot = Snapshot.from_columns(nodes)
        result = _without_eviction(schedule(framework, pod, snapshot, seed + number))
        times = build.build_evaluation_times(pod, result, started_us)
        profile = framework.profile.scheduler_name
        attempt = AttemptData(pod, 1, profile, snapshot, result, times, seed + number, requested.notes)
        attempt = attempt._replace(suggestions=suggest(framework, pod, nodes, result))
        key = AttemptKey(origin.cluster, Source.RECONSTRUCTED, incarnation, pod.uid, 1)
        identity = RecordIdentity(uuid7(), key, 2 * number, SchedulerInfo(profile, origin.identity, __version__))
        decision = fill_derived(build.decision(attempt, identity, omitted=origin.omitted))
        yield decision
        if result.chosen is None:
            return
        node = nodes.names[result.chosen]
        yield _outcome(decision, node)
        nodes.add_pod(pod, node)


def remove_existing(nodes: NodeColumns, pod: PodInfo) -> None:
    """Remove every pod with the UID or full name of `pod` from its node, so that a review can place it anew."""
    for slot, there in enumerate(nodes.pods):
        found = [uid for uid, other in there.items() if uid == pod.uid or other.full_name == pod.full_name]
        for uid in found:
            nodes.remove_pod(uid, nodes.names[slot])


def _without_eviction(result: CycleResult) -> CycleResult:
    """Mark the preemption in a result, if any, as not carried out, and return the result."""
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
