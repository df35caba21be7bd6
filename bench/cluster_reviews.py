"""Measures questions about the whole cluster, once the cluster is read: `python -m bench.cluster_reviews [NODES PODS]`.

Pods belong to 200 ReplicaSets, each with a PodDisruptionBudget without a status. Consolidation, which moves nearly all
pods, is measured on a tenth of the cluster.

With `node-groups` as the first argument, the section of an answer about node groups is measured: each of 60 groups has
nodes in three zones, of one of four sizes; every third is tainted. Ten DaemonSets run on each node. The pods fit
nowhere: one asks for too much, one is spread over zones, one avoids other pods on its node.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from bench.processes import peak_mib, reset_peak, resident_mib
from herodotus_answers.cluster_questions import (
    CapacityQuestion,
    ClusterQuestion,
    ConsolidationQuestion,
    Drain,
    NodeGroupsQuestion,
    Scale,
    UpgradeQuestion,
)
from scheduler.engine.progress import ignore_progress
from scheduler.engine.whatif.changes import answer_review
from scheduler.engine.whatif.simulation import WhatIfState
from tests.scheduler.engine.nodegroups.objects import HOST, ZONE, daemon_set, grouped
from tests.scheduler.engine.whatif.clusters import a_budget, a_node, a_pod, a_state

Json = dict[str, Any]

_WORKLOADS: Final = 200
_NEW_PODS: Final = 9_000
_ROUNDS: Final = 3
_SELF: Final = [os.getpid()]
_SELECTOR: Final = {"labelSelector": {"matchLabels": {"app": "waits"}}}
_SPREAD: Final = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **_SELECTOR}
_APART: Final = {
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOST, **_SELECTOR}]}
}
_UNPLACEABLE: Final[dict[str, Json]] = {
    "plain": {},
    "spread": {"topologySpreadConstraints": [_SPREAD]},
    "apart": {"affinity": _APART},
}


def _running(nodes: int, pods: int, cpu: str) -> list[Json]:
    owners = [f"w{i % _WORKLOADS}" for i in range(pods)]
    return [a_pod(f"{of}-{i}", f"n{i % nodes}", f"ReplicaSet/{of}", cpu) for i, of in enumerate(owners)]


def _measure(title: str, nodes: int, pods: int, **question: Any) -> None:
    objects = [a_node(f"n{i}", "32") for i in range(nodes)] + _running(nodes, pods, "500m")
    objects += [a_budget(f"w{i}", f"w{i}", maxUnavailable="10%") for i in range(_WORKLOADS)]
    state, decided = a_state(objects), 0

    def count(done: int, _total: int, _smallest: int = 0, /) -> None:
        nonlocal decided
        decided = done

    before = resident_mib(_SELF)
    reset_peak(_SELF)
    start = time.process_time()
    answer_review(state, ClusterQuestion(**question), count, 0)
    took, grown = time.process_time() - start, peak_mib(_SELF) - before
    print(f"{title:12} {nodes} nodes, {pods} pods: {decided} decided, {took:.2f} s of CPU, +{grown:.0f} MiB")


def build_groups(nodes: int, pods: int, groups: int) -> WhatIfState:
    """Return a cluster whose nodes are divided into `groups` node groups, with pods on them and three pending pods."""
    objects: list[Json] = []
    for i in range(nodes):
        number = i % groups
        taint = {"key": "dedicated", "value": str(number), "effect": "NoSchedule"}
        spec: Json = {} if number % 3 else {"taints": [taint]}
        labels = {f"example.com/label-{k}": "value" for k in range(12)}
        zone = f"zone-{i // groups % 3}"
        objects.append(grouped(f"n{i}", f"group-{number}", str(4 * (1 + number % 4)), zone, labels=labels, **spec))
    objects += _running(nodes, pods, "100m")
    objects += [daemon_set(f"agent-{i}", "50m") for i in range(10)]
    for name, fields in _UNPLACEABLE.items():
        objects.append(a_pod(name, cpu="20", owner="", labels={"app": "waits"}, **fields))
    return a_state(objects)


def measure_groups(nodes: int, pods: int, groups: int) -> Iterator[tuple[str, float, int]]:
    """Yield for each pending pod its name, the CPU time of an answer about node groups, and the number of groups in it.

    The time is the shortest of several answers, in seconds.
    """
    state = build_groups(nodes, pods, groups)
    gc.freeze()
    for pod in state.pending:
        name, times = pod.metadata.name, list[float]()
        for _ in range(_ROUNDS):
            started = time.process_time()
            spec = ClusterQuestion(node_groups=NodeGroupsQuestion(pods=[f"shop/{name}"]))
            answer = answer_review(state, spec, ignore_progress, 0)["nodeGroups"]
            times.append(time.process_time() - started)
        assert answer is not None
        yield name, min(times), len(answer["pods"][0]["groups"])


def main(nodes: int = 5000, pods: int = 50_000) -> None:
    """Measure each kind of question about a cluster of this size, and print the times."""
    new = a_pod("new", cpu="100m", owner="")
    _measure("drain", nodes, pods, changes=[Drain(nodes=["n0"])])
    scaled = Scale(workload="ReplicaSet/w0", namespace="shop", replicas=pods // _WORKLOADS + _NEW_PODS)
    _measure("scale", nodes, pods, changes=[scaled])
    _measure("capacity", nodes, pods, capacity=CapacityQuestion(object=new))
    _measure("upgrade", nodes, pods, upgrade=UpgradeQuestion(to="v1.37.0"))
    _measure("upgrade, all", nodes, pods, upgrade=UpgradeQuestion(to="v1.37.0", pods_per_workload=0))
    _measure("consolidate", nodes // 10, pods // 10, consolidate=ConsolidationQuestion())


def measure_node_groups(nodes: int = 5000, pods: int = 50_000, groups: int = 60) -> None:
    """Measure answers about node groups for three pods on a cluster of this size, and print the times."""
    for name, seconds, verdicts in measure_groups(nodes, pods, groups):
        print(f"{name:8} {nodes} nodes, {verdicts} groups: {seconds * 1000:.0f} ms of CPU")


if __name__ == "__main__":
    if sys.argv[1:2] == ["node-groups"]:
        measure_node_groups(*map(int, sys.argv[2:]))
    else:
        main(*map(int, sys.argv[1:]))
