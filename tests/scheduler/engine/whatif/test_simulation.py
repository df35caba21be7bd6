from __future__ import annotations

import random
import time
from typing import Any

import pytest

from herodotus_answers.workload import NOMINATED, ONLY, TIE, find_deciding_factor
from herodotus_record.codec import fill_derived
from herodotus_record.model import AttemptKey, SchedulerInfo, Source
from scheduler.engine.columns import Snapshot
from scheduler.engine.cycle import CycleResult, schedule
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.records import build
from scheduler.engine.whatif.simulation import WhatIfState, name_deciding_factor
from tests.scheduler.engine.whatif.clusters import a_node, a_pod, a_state


def decide(state: WhatIfState) -> tuple[PodInfo, CycleResult]:
    pod = PodInfo(state.pending[0])
    framework = state.framework("default-scheduler")
    assert framework is not None
    return pod, schedule(framework, pod, Snapshot.from_columns(state.nodes), 0)


def name_from_record(state: WhatIfState, pod: PodInfo, result: CycleResult) -> str:
    snapshot = Snapshot.from_columns(state.nodes)
    times = build.build_evaluation_times(pod, result, time.time_ns() // 1000)
    attempt = build.AttemptData(pod, 1, "default-scheduler", snapshot, result, times, 0)
    identity = build.RecordIdentity(
        "", AttemptKey("", Source.EVALUATED, "", pod.uid, 1), 1, SchedulerInfo("default-scheduler", "", "")
    )
    return find_deciding_factor(fill_derived(build.decision(attempt, identity))).by


def a_random_cluster(seed: int) -> WhatIfState:
    """Nodes with different loads, taints and labels, and a pod that prefers some of them."""
    rng = random.Random(seed)
    prefer = [{"key": "slow", "effect": "PreferNoSchedule"}]
    nodes = [
        a_node(f"n{i}", rng.choice(["2", "4", "8"]), taints=prefer if rng.random() < 0.3 else [])
        for i in range(rng.randint(2, 9))
    ]
    pods = [a_pod(f"p{i}", f"n{i % len(nodes)}", cpu=rng.choice(["250m", "1"])) for i in range(rng.randint(0, 9))]
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n0", "n1"]}]}
    preferred = [{"weight": rng.randint(1, 100), "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return a_state([*nodes, *pods, a_pod("new", affinity=affinity if rng.random() < 0.5 else None)])


def test_the_deciding_factor_is_that_of_the_record() -> None:
    found = set()
    for seed in range(60):
        state = a_random_cluster(seed)
        pod, result = decide(state)
        if result.chosen is not None:
            found.add(name_deciding_factor(result))
            assert name_deciding_factor(result) == name_from_record(state, pod, result), seed
    assert {"NodeAffinity", "NodeResourcesFit", "TaintToleration", TIE} <= found


@pytest.mark.parametrize(
    ("more", "factor"),
    [
        pytest.param({"nodeSelector": {"kubernetes.io/hostname": "n1"}}, ONLY, id="one feasible node"),
        pytest.param({"status": {"phase": "Pending", "nominatedNodeName": "n1"}}, NOMINATED, id="nominated"),
    ],
)
def test_a_node_that_no_score_decided(more: dict[str, Any], factor: str) -> None:
    state = a_state([a_node("n0"), a_node("n1"), a_pod("new", **more)])
    _, result = decide(state)
    assert name_deciding_factor(result) == factor
