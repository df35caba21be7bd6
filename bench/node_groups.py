"""Measures the section of an answer about node groups: `python -m bench.node_groups [NODES PODS GROUPS]`.

Each group has nodes in three zones, of one of four sizes; every third is tainted. Ten DaemonSets run on each node. The
pods fit nowhere: one asks for too much, one is spread over zones, one avoids other pods on its node.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from herodotus_record.cluster_reviews import ClusterReviewSpec
from herodotus_record.node_groups import NodeGroupsQuestion
from scheduler.engine.whatif.changes import answer_review
from scheduler.engine.whatif.simulation import WhatIfState
from tests.scheduler.engine.nodegroups.objects import HOST, ZONE, daemon_set, grouped
from tests.scheduler.engine.whatif.clusters import a_pod, a_state

Json = dict[str, Any]

_WORKLOADS: Final = 200
_ROUNDS: Final = 3
_SELECTOR: Final = {"labelSelector": {"matchLabels": {"app": "waits"}}}
_SPREAD: Final = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **_SELECTOR}
_APART: Final = {
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOST, **_SELECTOR}]}
}


class MeasuredPod(NamedTuple):
    """The best CPU time of an answer about one pod, and how many groups it has verdicts for."""

    name: str
    seconds: float
    groups: int


def build_state(nodes: int, pods: int, groups: int) -> WhatIfState:
    """Return a cluster of this size with three pending pods."""
    objects: list[Json] = []
    for i in range(nodes):
        number = i % groups
        taint = {"key": "dedicated", "value": str(number), "effect": "NoSchedule"}
        spec: Json = {} if number % 3 else {"taints": [taint]}
        labels = {f"example.com/label-{k}": "value" for k in range(12)}
        zone = f"zone-{i // groups % 3}"
        objects.append(grouped(f"n{i}", f"group-{number}", str(4 * (1 + number % 4)), zone, labels=labels, **spec))
    owners = [f"w{i % _WORKLOADS}" for i in range(pods)]
    objects += [a_pod(f"{of}-{i}", f"n{i % nodes}", f"ReplicaSet/{of}", "100m") for i, of in enumerate(owners)]
    objects += [daemon_set(f"agent-{i}", "50m") for i in range(10)]
    waiting: dict[str, Json] = {
        "plain": {},
        "spread": {"topologySpreadConstraints": [_SPREAD]},
        "apart": {"affinity": _APART},
    }
    for name, fields in waiting.items():
        objects.append(a_pod(name, cpu="20", owner="", labels={"app": "waits"}, **fields))
    return a_state(objects)


def measure(nodes: int, pods: int, groups: int) -> Iterator[MeasuredPod]:
    """Yield the CPU time of the whole answer about each pending pod: finding the groups, verdicts, and changes."""
    state = build_state(nodes, pods, groups)
    gc.freeze()
    for pod in state.pending:
        name, times = pod.metadata.name, list[float]()
        for _ in range(_ROUNDS):
            started = time.process_time()
            spec = ClusterReviewSpec(node_groups=NodeGroupsQuestion(pods=[f"shop/{name}"]))
            found = answer_review(state, spec, lambda _done, _total: None, 0).node_groups
            times.append(time.process_time() - started)
        assert found is not None
        yield MeasuredPod(name, min(times), len(found.pods[0].groups))


def main(nodes: int = 5000, pods: int = 50_000, groups: int = 60) -> None:
    """Measure answers about three pods on a cluster of this size."""
    for found in measure(nodes, pods, groups):
        print(f"{found.name:8} {nodes} nodes, {found.groups} groups: {found.seconds * 1000:.0f} ms of CPU")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
