"""Measures questions about the whole cluster, once the cluster is read: `python -m bench.cluster_reviews [NODES PODS]`.

Pods belong to 200 ReplicaSets, each with a PodDisruptionBudget without a status. Consolidation, which moves nearly all
pods, is measured on a tenth of the cluster.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Final

from herodotus_record.cluster_reviews import CapacityQuestion, ClusterReviewSpec, ConsolidationQuestion, Drain, Scale
from scheduler.engine.whatif.changes import answer_review
from scheduler.engine.whatif.simulation import WhatIfState
from tests.scheduler.engine.whatif.clusters import a_budget, a_node, a_pod, a_state

_WORKLOADS: Final = 200
_NEW_PODS: Final = 9_000


def _build_state(nodes: int, pods: int) -> WhatIfState:
    objects: list[dict[str, Any]] = [a_node(f"n{i}", "32") for i in range(nodes)]
    owners = [f"w{i % _WORKLOADS}" for i in range(pods)]
    objects += [a_pod(f"{of}-{i}", f"n{i % nodes}", f"ReplicaSet/{of}", "500m") for i, of in enumerate(owners)]
    objects += [a_budget(f"w{i}", f"w{i}", maxUnavailable="10%") for i in range(_WORKLOADS)]
    return a_state(objects)


def _measure(title: str, nodes: int, pods: int, **question: Any) -> None:
    state, decided = _build_state(nodes, pods), 0

    def count(done: int, _total: int) -> None:
        nonlocal decided
        decided = done

    start = time.process_time()
    answer_review(state, ClusterReviewSpec(**question), count, 0)
    print(f"{title:12} {nodes} nodes, {pods} pods: {decided} decided, {time.process_time() - start:.2f} s of CPU")


def main(nodes: int = 5000, pods: int = 50_000) -> None:
    """Measure each kind of question on a cluster of this size."""
    new = a_pod("new", cpu="100m", owner="")
    _measure("drain", nodes, pods, changes=[Drain(nodes=["n0"])])
    scaled = Scale(workload="ReplicaSet/w0", namespace="shop", replicas=pods // _WORKLOADS + _NEW_PODS)
    _measure("scale", nodes, pods, changes=[scaled])
    _measure("capacity", nodes, pods, capacity=CapacityQuestion(object=new))
    _measure("consolidate", nodes // 10, pods // 10, consolidate=ConsolidationQuestion())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
