"""Plans that restore a workload's spread: compared with a search that tries everything, and what forces or spoils them.

PLAN_SEEDS is the number of random clusters (`make plans`).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from herodotus_answers.cluster_questions import PlanQuestion
from herodotus_answers.plans import PlanReview
from scheduler.engine.plans.answers import answer_plan
from scheduler.engine.progress import ignore_progress
from scheduler.engine.whatif.simulation import WhatIfState
from tests.scheduler.engine.plans.fragmented import HOST, ZONE, list_move_sequences
from tests.scheduler.engine.whatif.clusters import a_budget, a_node, a_pod, a_state

Json = dict[str, Any]
SEEDS = int(os.environ.get("PLAN_SEEDS", "300"))
MOST = 2  # moves of the search that tries everything


def plan(objects: list[Json], **question: Any) -> PlanReview:
    asked = PlanQuestion(spread="ReplicaSet/web", namespace="shop", **({"time_limit_seconds": 60} | question))
    return answer_plan(a_state(objects), asked, ignore_progress, None, "")[0]


def a_zoned_node(name: str, zone: str, cpu: str = "4", **spec: Any) -> Json:
    node = a_node(name, cpu, **spec)
    node["metadata"]["labels"][ZONE] = zone
    return node


def a_constraint(key: str = ZONE, skew: int = 1, action: str = "ScheduleAnyway", **more: Any) -> Json:
    selector = {"matchLabels": {"app": "web"}}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": selector, **more}


def make_cluster(seed: int) -> list[Json]:
    """Return a cluster after a rollout, a drain or the return of a zone, and now and then an evenly spread one."""
    rng = random.Random(seed)
    zones = rng.randint(2, 3)
    nodes = [a_zoned_node(f"n{i}", f"zone-{i % zones}", rng.choice(("2", "3", "4"))) for i in range(rng.randint(3, 6))]
    key = rng.choice((ZONE, ZONE, HOST))
    constraints = [a_constraint(key, rng.choice((1, 1, 2)), rng.choice(("ScheduleAnyway", "DoNotSchedule")))]
    if key == ZONE and rng.random() < 0.3:
        constraints.append(a_constraint(HOST, rng.choice((1, 2))))
    if rng.random() < 0.2:
        constraints[0]["matchLabelKeys"] = ["revision"]
    if rng.random() < 0.2:
        constraints[0]["nodeTaintsPolicy"] = "Honor"
    if rng.random() < 0.15:
        nodes[-1]["spec"] |= {"unschedulable": True, "taints": [{"key": "gone", "effect": "NoSchedule"}]}
    more: Json = {"topologySpreadConstraints": constraints, "preemptionPolicy": "Never"}
    filled = nodes[: rng.randint(1, len(nodes))]  # the others came back, or were just drained
    pods = []
    for i in range(rng.randint(3, 7)):
        node, revision = rng.choice(filled)["metadata"]["name"], rng.choice(("a", "b"))
        pods.append(a_pod(f"w{i}", node, cpu="300m", labels={"app": "web", "revision": revision}, **more))
    for i, node in enumerate(nodes):
        if rng.random() < 0.4:
            name, cpu = node["metadata"]["name"], rng.choice(("500m", "1", "1700m"))
            pods.append(a_pod(f"x{i}", name, "ReplicaSet/x", cpu, labels={"app": "x"}, preemptionPolicy="Never"))
    amounts: list[Json] = [{"maxUnavailable": 1}, {"maxUnavailable": 1}, {"maxUnavailable": 0}]
    budgets = [a_budget("web", "web", **rng.choice(amounts))] if rng.random() < 0.3 else []
    return [*nodes, *pods, *budgets]


def is_spread(state: WhatIfState, objects: list[Json]) -> bool:
    """Return whether the newest pod's constraints hold, counted from the objects' labels alone."""
    pods = [each for each in objects if each["kind"] == "Pod" and each["metadata"]["labels"]["app"] == "web"]
    newest = max(pods, key=lambda pod: pod["metadata"]["name"])
    nodes = [each for each in objects if each["kind"] == "Node"]
    for constraint in newest["spec"]["topologySpreadConstraints"]:
        counts: dict[str, int] = {}
        for node in nodes:
            if constraint.get("nodeTaintsPolicy") == "Honor" and node["spec"].get("taints"):
                continue
            slot = state.nodes.index[node["metadata"]["name"]]
            here = [pod for pod in state.nodes.pods[slot].values() if pod.labels["app"] == "web"]
            for key in constraint.get("matchLabelKeys", ()):
                here = [pod for pod in here if pod.labels[key] == newest["metadata"]["labels"][key]]
            domain = node["metadata"]["labels"][constraint["topologyKey"]]
            counts[domain] = counts.get(domain, 0) + len(here)
        if max(counts.values()) - min(counts.values()) > constraint["maxSkew"]:
            return False
    return True


def search_exhaustively(objects: list[Json]) -> int | None:
    """Return the fewest moves of the workload's pods after which it is spread, None if there are none of MOST."""
    state = a_state(objects)
    reached: Iterator[int] = (
        moves
        for moves in list_move_sequences(state, MOST, lambda pod: pod.labels["app"] == "web")
        if is_spread(state, objects)
    )
    return next(reached, None)


def check_seed(seed: int) -> str:
    """Compare the plan of one random cluster with the search that tries everything; return what it was."""
    objects = make_cluster(seed)
    review, smallest = plan(objects, max_changes=MOST + 1), search_exhaustively(objects)
    if review["verdict"] == "NothingToDo":
        assert smallest == 0, seed
        return "spread"
    (moves,) = review["kinds"]
    bound, size = moves["bound"], moves["plans"][0]["changes"] if moves["plans"] else None
    assert smallest != 0, f"seed {seed}: it is spread, and a plan was made"
    if size is None:
        if bound["kind"] != "NotProven":
            assert smallest is None, f"seed {seed}: {smallest} moves suffice, and none were found"
            return "no plan, proven"
        return "no plan, paper only" if smallest is not None else "no plan, not proven"
    if smallest is not None and smallest < size:
        assert bound["kind"] == "NotProven", f"seed {seed}: {smallest} moves suffice, and {size} are called the fewest"
        return f"{size} moves, fewer on paper"
    assert smallest in (None, size), f"seed {seed}: a plan of {size} moves, where {smallest} are needed"
    return f"{size} moves, {bound['kind']}"


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_no_smaller_plan_restores_the_spread(first: int) -> None:
    kinds = Counter(check_seed(seed) for seed in range(first, first + 10))
    assert any("moves" in kind for kind in kinds), kinds


@pytest.mark.slow
@pytest.mark.timeout(20 * SEEDS)
def test_no_smaller_plan_restores_the_spread_of_many() -> None:
    kinds = Counter(check_seed(seed) for seed in range(1000, 1000 + SEEDS))
    print(f"\n{SEEDS} clusters:", *(f"{count:4} {kind}" for kind, count in sorted(kinds.items())), sep="\n")
    assert any("moves" in kind for kind in kinds)


# --- larger clusters ------------------------------------------------------------------------------------------------


def _zones(nodes: int, zones: int = 3) -> list[Json]:
    return [a_zoned_node(f"n{i}", f"zone-{i % zones}") for i in range(nodes)]


def _web(count: int, nodes: list[str], constraint: Json) -> list[Json]:
    more: Json = {"cpu": "500m", "topologySpreadConstraints": [constraint]}
    return [a_pod(f"w{i}", nodes[i % len(nodes)], **more) for i in range(count)]


@pytest.mark.parametrize("action", ["ScheduleAnyway", "DoNotSchedule"])
def test_a_zone_that_came_back_gets_its_pods_whichever_of_its_nodes_they_draw(action: str) -> None:
    """zone-2 was away: its 30 nodes are equally good for each of the four pods, which is too many runs to try."""
    objects = [*_zones(90), *_web(12, [f"n{i}" for i in range(90) if i % 3 < 2], a_constraint(action=action))]
    review = plan(objects)
    found = review["kinds"][0]["plans"][0]
    assert found["states"] == 0
    assert review["kinds"][0]["bound"]["kind"] == "Relaxation"
    moves = [step for step in found["steps"] if step["kind"] == "Move"]
    assert len(moves) == 4
    assert all({int(name[1:]) % 3 for name in step["landsOn"]} == {2} for step in moves)
    cordoned = [{int(name[1:]) % 3 for name in step["nodes"]} for step in found["steps"] if step["kind"] != "Move"]
    assert cordoned == ([] if action == "DoNotSchedule" else [{0, 1}, {0, 1}])


def test_a_waiting_pod_of_the_workload_keeps_the_spread_from_being_proven_by_counting() -> None:
    """It may take a node of any zone before or after the moves."""
    constraint = a_constraint()
    only: Json = {"nodeSelector": {HOST: "n0"}, "cpu": "5", "topologySpreadConstraints": [constraint]}
    waiting = a_pod("w99", **only)
    pods = _web(12, [f"n{i}" for i in range(90) if i % 3 < 2], constraint)
    assert not plan([*_zones(90), *pods, waiting], time_limit_seconds=5)["kinds"][0]["plans"]


def test_a_spread_that_needs_more_moves_than_asked_for_is_proven() -> None:
    review = plan([*_zones(6), *_web(12, ["n0", "n1"], a_constraint())], max_changes=2)
    bound = {"kind": "Relaxation", "changes": 4, "tried": 0, "reason": "the skew stays too large"}
    assert (review["verdict"], review["kinds"][0]["bound"]) == ("NoPlan", bound)


def test_a_drained_node_counts_unless_the_constraint_honors_taints() -> None:
    nodes = [a_node("n0"), a_node("n1"), a_node("n2", unschedulable=True)]
    nodes[2]["spec"]["taints"] = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    honors = a_constraint(HOST, nodeTaintsPolicy="Honor")
    assert plan([*nodes, *_web(4, ["n0", "n1"], honors)])["verdict"] == "NothingToDo"
    assert plan([*nodes, *_web(4, ["n0", "n1"], a_constraint(HOST))])["verdict"] == "NoPlan"
