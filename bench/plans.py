"""Measures plans in large clusters: `python -m bench.plans fit|openb …`.

python -m bench.plans fit [--nodes 5000] [--pods 50000]
    A pod that fits on no node of a fragmented cluster: the answers within 5 s and within 60 s, and the memory.
python -m bench.plans openb NODES.csv.gz PODS.csv.gz [--seconds 240]
    How many nodes can be emptied at the end of a trace in the format of Alibaba's openb-v2023, after its pods were
    placed by kube-scheduler's rules. The GPUs of a node are one amount of thousandths, so which card a pod gets does
    not matter; the models that a pod accepts are a node affinity.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from bench.algorithm import calibration_ms
from bench.processes import exit_on_sigterm, peak_mib, reset_peak, resident_mib
from herodotus_answers.cluster_questions import ClusterQuestion, ConsolidationQuestion, PlanQuestion
from herodotus_answers.plans import PlanReview
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Pod
from scheduler.engine.plans.time_limit import TimeLimit
from scheduler.engine.plans.world import World
from scheduler.engine.progress import ignore_progress
from scheduler.engine.whatif.changes import answer_review
from scheduler.engine.whatif.simulation import WhatIfState
from tests.scheduler.engine.whatif.clusters import a_budget, a_node, a_pod, a_state

Json = dict[str, Any]

_SELF: Final = [os.getpid()]
_GPU: Final = "example.com/gpu-milli"
_MODEL: Final = "example.com/gpu-model"
_SIZES: Final = (1000, 2000, 3000, 4000, 8000)  # millicores of pods
_NODE: Final = 32_000  # millicores
_FREE: Final = 8_000  # at most, of any node
_WORKLOADS: Final = 2_000


def build_fragmented(nodes: int, pods: int, cpu: int) -> WhatIfState:
    """Return a cluster with budgets and `shop/big`, which asks for `cpu` millicores: more than any node has free."""
    rng = random.Random(0)
    free = [_NODE] * nodes
    objects: list[Json] = [a_node(f"n{i}", str(_NODE // 1000)) for i in range(nodes)]
    objects += [a_budget(f"w{i}", f"w{i}", maxUnavailable=1) for i in range(0, _WORKLOADS, 2)]
    for number in range(pods):
        # ever larger pods would not fit, so each node gets about the same number of them
        node = number % nodes
        left = pods // nodes - number // nodes
        fitting = [size for size in _SIZES if size + (left - 1) * _SIZES[0] <= free[node]]
        size = rng.choice(fitting) if fitting else 250
        size = max(size, free[node] - _FREE) if left == 1 else size
        free[node] -= size
        objects.append(a_pod(f"p{number}", f"n{node}", f"ReplicaSet/w{rng.randrange(_WORKLOADS)}", f"{size}m"))
    objects.append(a_pod("big", "", "ReplicaSet/big", f"{cpu}m", preemptionPolicy="Never"))
    return a_state(objects)


def ask(state: WhatIfState, **question: Any) -> PlanReview:
    """Return the plans that answer a question."""
    asked = ClusterQuestion(plan=PlanQuestion(**question))
    review = answer_review(state, asked, ignore_progress, 0)["plan"]
    assert review is not None
    return review


def measure_fit(nodes: int, pods: int, cpu: int) -> None:
    """Print what is found for a pod in 5 and in 60 seconds, by kind of plan."""
    started = time.monotonic()
    state = build_fragmented(nodes, pods, cpu)
    print(f"{nodes} nodes, {pods} pods, built in {time.monotonic() - started:.0f} s")
    for seconds in (5.0, 60.0):
        before = resident_mib(_SELF)
        reset_peak(_SELF)
        started = time.monotonic()
        review = ask(state, pods=["shop/big"], time_limit_seconds=seconds)
        took, grown = time.monotonic() - started, peak_mib(_SELF) - before
        print(f"limit {seconds:g} s: {took:.1f} s, {review['decided']} decided, +{grown:.0f} of {before:.0f} MiB")
        for kind in review["kinds"]:
            bound, plans = kind["bound"], kind["plans"]
            smallest = f"{plans[0]['changes']} changes, {len(plans[0]['steps'])} steps" if plans else "no plan"
            print(f"  {kind['kind']:10} {smallest}; {bound['kind']} {bound['reason']} {kind['failures'] or ''}")


def _read(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as file:
        yield from csv.DictReader(file)


def _make_trace_node(row: dict[str, str]) -> Json:
    node = a_node(row["sn"], f"{row['cpu_milli']}m")
    node["status"]["allocatable"] |= {"memory": f"{row['memory_mib']}Mi", _GPU: str(int(row["gpu"]) * 1000)}
    if row["model"]:
        node["metadata"]["labels"][_MODEL] = row["model"]
    return node


def _make_trace_pod(row: dict[str, str]) -> PodInfo:
    fields: Json = {"preemptionPolicy": "Never"}
    if row["gpu_spec"]:
        match = [{"key": _MODEL, "operator": "In", "values": row["gpu_spec"].split("|")}]
        required = {"nodeSelectorTerms": [{"matchExpressions": match}]}
        fields["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    pod = a_pod(row["name"], "", f"ReplicaSet/{row['name']}", f"{row['cpu_milli']}m", **fields)
    amounts = pod["spec"]["containers"][0]["resources"]["requests"]
    amounts["memory"] = f"{row['memory_mib']}Mi"
    gpu = int(row["num_gpu"]) * int(row["gpu_milli"])
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts | ({_GPU: str(gpu)} if gpu else {})}
    return PodInfo(msgspec.convert(pod, Pod))


def replay(nodes: Path, pods: Path) -> tuple[WhatIfState, int, int]:
    """Return the cluster after the last pod was created, how many pods run, and how many found no node.

    No pod leaves, as in the measurements that were published for these lists: with their times, 70 pods run at most.
    """
    state = a_state([_make_trace_node(row) for row in _read(nodes)])
    world = World(state, TimeLimit(1e9, time.monotonic, ignore_progress))
    rng, rejected = random.Random(0), 0
    for row in sorted(_read(pods), key=lambda row: int(row["creation_time"])):
        pod = _make_trace_pod(row)
        draws = world.find_draws(pod)
        if draws.result is None or not draws.slots:
            rejected += 1
            continue
        world.place(pod, world.nodes.names[rng.choice(draws.slots)], draws.result.state)
    return state, sum(map(len, state.nodes.pods)), rejected


def measure_consolidation(nodes: Path, pods: Path, seconds: float) -> None:
    """Print how many nodes are empty at the end of the trace, and how many can be emptied."""
    started = time.monotonic()
    state, running, rejected = replay(nodes, pods)
    live = np.flatnonzero(state.nodes.live[: state.nodes.slots]).tolist()
    empty = sum(not state.nodes.pods[slot] for slot in live)
    print(f"{pods.name}: {len(live)} nodes, {running} pods run, {rejected} found no node,", end=" ")
    print(f"replayed in {time.monotonic() - started:.0f} s; {empty} nodes are empty", flush=True)
    question = ClusterQuestion(consolidate=ConsolidationQuestion())
    greedy = answer_review(state, question, ignore_progress, 0)["consolidation"]
    assert greedy is not None
    print(f"  greedy {len(greedy['emptied'])}, {time.monotonic() - started:.0f} s", flush=True)
    state, _, _ = replay(nodes, pods)  # the answer changed the copy
    reset_peak(_SELF)
    before, started = resident_mib(_SELF), time.monotonic()
    drain = ask(state, consolidate=True, time_limit_seconds=seconds)["drain"]
    assert drain is not None
    print(f"  plan {len(drain['nodes'])} (held in {drain['runs']} runs, {drain['orders']} orders),", end=" ")
    print(f"bound {drain['bound']}, {len(drain['obstacles'])} alone cannot be emptied,", end=" ")
    print(f"{time.monotonic() - started:.0f} s, +{peak_mib(_SELF) - before:.0f} of {before:.0f} MiB")


def main() -> None:
    """Measure what the command line names."""
    exit_on_sigterm()
    parser = argparse.ArgumentParser(prog="python -m bench.plans", description="Measure plans in large clusters.")
    kinds = parser.add_subparsers(dest="kind", required=True)
    fit = kinds.add_parser("fit")
    fit.add_argument("--nodes", type=int, default=5000)
    fit.add_argument("--pods", type=int, default=50_000)
    fit.add_argument("--cpu", type=int, default=12_000, help="millicores that the pod asks for")
    openb = kinds.add_parser("openb")
    openb.add_argument("node_list", type=Path, metavar="NODES")
    openb.add_argument("pod_list", type=Path, metavar="PODS")
    openb.add_argument("--seconds", type=float, default=240.0)
    arguments = parser.parse_args()
    print(f"calibration {calibration_ms():.1f} ms")
    if arguments.kind == "fit":
        measure_fit(arguments.nodes, arguments.pods, arguments.cpu)
    else:
        measure_consolidation(arguments.node_list, arguments.pod_list, arguments.seconds)


if __name__ == "__main__":
    main()
