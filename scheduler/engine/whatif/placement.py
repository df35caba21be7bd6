"""Places pods one after the other, each as if the earlier ones were bound; nothing is bound.

The cluster must be a copy: placed pods are added to nodes, and their claims are allocated.

Invariant: the first pod without a node is the last one that is tried. Preemption is reported and not carried out.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace

from herodotus_answers.placement_review import NOTHING_CREATED, REVIEWED
from herodotus_record.codec import fill_derived
from herodotus_record.model import AttemptKey, Code, Decision, Frame, Outcome, Source
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule_regardless_of_group
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.records import build
from scheduler.engine.records.build import AttemptData, Origin, RecordIdentity
from scheduler.engine.records.ids import uuid7
from scheduler.engine.suggestions.search import suggest
from scheduler.engine.whatif.claims import SimulatedClaims
from scheduler.engine.whatif.pods import Pods


@dataclass(frozen=True)
class CopiedCluster:
    """The nodes and other objects of a cluster, which a review changes."""

    nodes: NodeColumns
    objects: ClusterObjects


def place(framework: Framework, cluster: CopiedCluster, requested: Pods, origin: Origin, seed: int) -> Iterator[Frame]:
    """Schedule the pods of a review in order, and yield for each the records: node rows, decision and outcome.

    Stop after the first pod without a node, for which there is no outcome. `seed` determines the choice among nodes
    with equal totals.
    """
    nodes, claims = cluster.nodes, SimulatedClaims(cluster.objects)
    if requested.named:
        for existing in remove_existing(nodes, requested.pods[0]):
            claims.release(existing)
        framework.nominator.remove_named(requested.pods[0])
    incarnation, base = str(uuid.uuid4()), -1
    for number, pod in enumerate(map(claims.generate, requested.pods), 1):
        slots = range(nodes.slots) if base < 0 else nodes.take_changed_slots()
        yield build.node_rows(nodes, slots, origin.cluster, incarnation, base)
        nodes.take_changed_slots()
        base = nodes.generation
        started_us = time.time_ns() // 1000
        snapshot = Snapshot.from_columns(nodes)
        result = _without_eviction(schedule_regardless_of_group(framework, pod, snapshot, seed + number))
        times = build.build_evaluation_times(pod, result, started_us)
        profile = framework.profile.scheduler_name
        attempt = AttemptData(pod, 1, profile, snapshot, result, times, seed + number, requested.notes)
        attempt = attempt._replace(suggestions=suggest(framework, pod, nodes, result))
        key = AttemptKey(origin.cluster, Source.RECONSTRUCTED, incarnation, pod.uid, 1)
        scheduler = build.describe_scheduler(profile, origin.identity, framework.profile.rules)
        identity = RecordIdentity(uuid7(), key, 2 * number, scheduler)
        decision = fill_derived(build.decision(attempt, identity, omitted=origin.omitted))
        yield decision
        if result.chosen is None:
            return
        node = nodes.names[result.chosen]
        yield _outcome(decision, node)
        claims.allocate(pod, node, result.state)
        nodes.add_pod(pod, node)


def remove_existing(nodes: NodeColumns, pod: PodInfo) -> list[PodInfo]:
    """Remove every pod with the UID or full name of `pod` from its node, so that a review can place it anew.

    Returns the removed pods.
    """
    removed = []
    for slot, there in enumerate(nodes.pods):
        others = [other for other in there.values() if other.uid == pod.uid or other.full_name == pod.full_name]
        for other in others:
            nodes.remove_pod(other.uid, nodes.names[slot])
        removed += others
    return removed


def _without_eviction(result: CycleResult) -> CycleResult:
    """Mark the preemption in a result, if any, as not carried out, in place, and return the result."""
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
