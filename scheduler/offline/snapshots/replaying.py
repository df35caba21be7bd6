"""Replays a snapshot: places its pods again with another configuration, and compares the nodes.

Pure except that it changes the engine's nodes.

The selected pods are removed from their nodes all at once, and placed one after the other as if they were new; all
others stay. A pod whose own node is among the best stays there, because a random choice is not a change.

Invariant: every selected pod is reported once, as the same, moved or unplaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from herodotus_record.model import API_VERSION, DecisionPath
from herodotus_record.units import natural_sort_key
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.manifests.cluster import LoadedCluster
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.whatif.claims import SimulatedClaims

Json = dict[str, Any]


@dataclass(frozen=True)
class PlacedPod:
    """A pod of the snapshot with the name of the node that it is on."""

    pod: PodInfo
    node: str


@dataclass(frozen=True)
class ReplayedDecision:
    """The result of placing one pod again: its old node `was` and its new node `now`, either "" if there is none.

    `points` is the lead of the new node's total score over the old one's, or None if these cannot be compared, for
    example because the old node is infeasible.
    """

    pod: PodInfo
    was: str
    now: str
    points: int | None
    message: str
    carried_by: str = ""  # the plugin that most of the lead is of


def replay(
    framework_of: Callable[[PodInfo], Framework],
    cluster: LoadedCluster,
    placed: Iterable[PlacedPod],
    against: Mapping[str, str],
    report: Callable[[int], None] = lambda _: None,
) -> list[ReplayedDecision]:
    """Remove the pods from their nodes, place them again one after the other, and return one result per pod.

    `framework_of` returns the framework that decides a pod. Each new node is compared with the node of the pod's UID in
    `against` ("": none), or with the pod's own node if it is not there. `report` gets the number of pods decided so
    far.
    """
    placed, nodes, claims = list(placed), cluster.nodes, SimulatedClaims(cluster.objects)
    for each in placed:
        nodes.remove_pod(each.pod.uid, each.node)
        claims.release(each.pod, deletes_generated=False)
    results = []
    for number, each in enumerate(placed, 1):
        pod = _waiting(each.pod)
        result = schedule(framework_of(pod), pod, Snapshot.from_columns(nodes), seed=0)
        replayed = _compared(pod, against.get(pod.uid, each.node), nodes, result)
        if replayed.now:
            nodes.add_pod(pod, replayed.now)
            claims.allocate(pod, replayed.now, result.state)
        results.append(replayed)
        report(number)
    return results


def document(replayed: Sequence[ReplayedDecision], *, snapshot: str, by: str, against: str) -> Json:
    """Return the results of a replay as a JSON document of kind Replay.

    `by` names the configuration that placed the pods, and `against` the placement that it is compared with.
    """
    before = Counter(r.was for r in replayed if r.was)
    after = Counter(r.now for r in replayed if r.now)
    names = sorted(before.keys() | after.keys(), key=natural_sort_key)
    moved = [r for r in replayed if r.now and r.now != r.was]
    unplaced = [r for r in replayed if not r.now and r.was]
    return {
        "apiVersion": API_VERSION,
        "kind": "Replay",
        "snapshot": snapshot,
        "configuration": by,
        "comparedWith": against,
        "pods": len(replayed),
        "same": len(replayed) - len(moved) - len(unplaced),
        "moved": [{**_named(r), "to": r.now, "points": r.points, "decidedBy": r.carried_by or None} for r in moved],
        "unplaced": [{**_named(r), "message": r.message} for r in unplaced],
        "nodes": [
            {"node": name, "before": before[name], "after": after[name]}
            for name in names
            if before[name] != after[name]
        ],
    }


def _waiting(pod: PodInfo) -> PodInfo:
    """Return a copy of the pod without its node and nominated node, as it was before it was bound."""
    spec = replace(pod.pod.spec, node_name="")
    return PodInfo(replace(pod.pod, spec=spec, status=replace(pod.pod.status, nominated_node_name="")))


def _named(r: ReplayedDecision) -> Json:
    return {"namespace": r.pod.namespace, "pod": r.pod.name, "from": r.was or None}


def _compared(pod: PodInfo, was: str, nodes: NodeColumns, result: CycleResult) -> ReplayedDecision:
    if result.chosen is None:
        return ReplayedDecision(pod, was, "", None, result.message)
    trace, old = result.trace, nodes.index.get(was) if was else None
    fits = old is not None and bool(trace.feasible[old])
    if not fits or old is None or trace.totals is None or result.path is not DecisionPath.SCORED:
        same = fits and result.path is not DecisionPath.NOMINATED
        return ReplayedDecision(pod, was, was if same else nodes.names[result.chosen], None, "")
    points = int(trace.totals[result.chosen] - trace.totals[old])
    if points == 0:
        return ReplayedDecision(pod, was, was, 0, "")
    leads = {
        run.plugin: int(run.normalized[result.chosen] - run.normalized[old]) * run.weight
        for run in trace.scores
        if run.normalized is not None
    }
    return ReplayedDecision(pod, was, nodes.names[result.chosen], points, "", max(leads, key=lambda p: leads[p]))
