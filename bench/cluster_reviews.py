"""Measures questions about the whole cluster, once the cluster is read: `python -m bench.cluster_reviews [NODES PODS]`.

Pods belong to 200 ReplicaSets, each with a PodDisruptionBudget without a status. Consolidation, which moves nearly all
pods, is measured on a tenth of the cluster.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Final

from bench.processes import peak_mib, reset_peak, resident_mib
from herodotus_record.cluster_reviews import (
    CapacityQuestion,
    ClusterReviewSpec,
    ConsolidationQuestion,
    Drain,
    Scale,
    UpgradeQuestion,
)
from scheduler.engine.whatif.changes import answer_review
from scheduler.engine.whatif.simulation import WhatIfState
from tests.scheduler.engine.whatif.clusters import a_budget, a_node, a_pod, a_state

_WORKLOADS: Final = 200
_NEW_PODS: Final = 9_000
_SELF: Final = [os.getpid()]


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

    before = resident_mib(_SELF)
    reset_peak(_SELF)
    start = time.process_time()
    answer_review(state, ClusterReviewSpec(**question), count, 0)
    took, grown = time.process_time() - start, peak_mib(_SELF) - before
    print(f"{title:12} {nodes} nodes, {pods} pods: {decided} decided, {took:.2f} s of CPU, +{grown:.0f} MiB")


def main(nodes: int = 5000, pods: int = 50_000) -> None:
    """Measure each kind of question on a cluster of this size."""
    new = a_pod("new", cpu="100m", owner="")
    _measure("drain", nodes, pods, changes=[Drain(nodes=["n0"])])
    scaled = Scale(workload="ReplicaSet/w0", namespace="shop", replicas=pods // _WORKLOADS + _NEW_PODS)
    _measure("scale", nodes, pods, changes=[scaled])
    _measure("capacity", nodes, pods, capacity=CapacityQuestion(object=new))
    _measure("upgrade", nodes, pods, upgrade=UpgradeQuestion(to="v1.37.0"))
    _measure("upgrade, all", nodes, pods, upgrade=UpgradeQuestion(to="v1.37.0", pods_per_workload=0))
    _measure("consolidate", nodes // 10, pods // 10, consolidate=ConsolidationQuestion())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
