"""An order of drains that is proven holds whatever node each pod takes, also one that is not the best."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from herodotus_answers.cluster_questions import Drain
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plans.drains import DrainPlanner, RandomDraws, WorstDraws
from scheduler.engine.plans.time_limit import TimeLimit
from scheduler.engine.plans.world import Draws, World
from scheduler.engine.whatif.budgets import Budgets
from tests.scheduler.engine.whatif.clusters import a_node, a_pod, a_state

Json = dict[str, Any]
HOST = "kubernetes.io/hostname"


class WorldOfEqualNodes(World):
    """A world in which a pod may get every node that fits it, as if all had the same score."""

    def find_draws(self, pod: PodInfo) -> Draws:
        best = super().find_draws(pod)
        return best._replace(slots=tuple(np.flatnonzero(self.find_feasible(pod)[0]).tolist()))


def make_nodes_and_pods(rng: random.Random) -> list[Json]:
    """Return four to seven nodes that are about half full, with pods that are often bound to two or three nodes."""
    names = [f"n{i}" for i in range(rng.randint(4, 7))]
    free = dict.fromkeys(names, 4000)
    objects = [a_node(name) for name in names]
    for number in range(len(names) * 3):
        cpu, allowed = rng.choice((250, 500, 700, 1000, 1500)), names
        if rng.random() < 0.6:
            allowed = rng.sample(names, rng.choice((2, 2, 3)))
        terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": allowed}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        node = max(allowed, key=lambda name: free[name])
        if free[node] - cpu < 1600:
            continue
        free[node] -= cpu
        more = {"labels": {"app": f"w{number}"}, "affinity": {"nodeAffinity": required}}
        objects.append(a_pod(f"w{number}", node, f"ReplicaSet/w{number}", f"{cpu}m", **more))
    return objects


@pytest.mark.parametrize("rolling", [False, True])
def test_a_proven_order_holds_on_every_node_that_fits(rolling: bool) -> None:
    proven = refuted = 0
    for seed in range(40):
        rng = random.Random(seed)
        state = a_state(make_nodes_and_pods(rng))
        world = WorldOfEqualNodes(state, TimeLimit(1e9, lambda: 0.0, lambda _done, _total: None))
        planner = DrainPlanner(world, Budgets([], []), [], Drain(nodes=[]))
        names = [node.metadata.name for node in state.nodes.nodes if node is not None]
        order = rng.sample(names, rng.randint(1, 3))
        if planner.try_order(order, rolling=rolling, runs=1).proven:
            proven += 1
            for number in range(20):
                draws = _draw_worst(planner, order, number)
                run = planner.run(order, draws, cordon_first=True, rolling=rolling)
                assert run.obstacle is None, (seed, order, number, run)
        else:
            refuted += any(
                planner.run(order, _draw_worst(planner, order, number), cordon_first=True, rolling=rolling).obstacle
                for number in range(20)
            )
    assert proven >= 5
    assert refuted >= 5


def _draw_worst(planner: DrainPlanner, order: list[str], number: int) -> RandomDraws:
    rng = random.Random(number)
    draws: WorstDraws = planner.find_worst_draws(order)(rng)
    return RandomDraws(rng) if number % 2 else draws
