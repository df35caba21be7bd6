"""An order of drains that is proven holds whatever node each pod takes, also one that is not the best."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import numpy as np
import pytest

from herodotus_answers.cluster_questions import Drain
from scheduler.config.types import Configuration, PluginConfig, PluginRef, Plugins, PluginSet, ProfileConfig
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Pod
from scheduler.engine.plans.drains import AdversarialDraws, DrainPlanner, RandomDraws, TriedOrder
from scheduler.engine.plans.time_limit import TimeLimit
from scheduler.engine.plans.world import Draws, World
from scheduler.engine.progress import ignore_progress
from scheduler.engine.whatif.budgets import Budgets
from scheduler.engine.whatif.owners import build_replacement
from scheduler.engine.whatif.simulation import WhatIfState
from tests.scheduler.engine.whatif.clusters import STOCK, a_node, a_pod, a_state

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
        planner = DrainPlanner(make_world(state), Budgets([], []), [], Drain(nodes=[]))
        names = [node.metadata.name for node in state.nodes.nodes if node is not None]
        order = rng.sample(names, rng.randint(1, 3))
        if planner.try_order(order, rolling=rolling, runs=1).proven:
            proven += 1
            for number in range(20):
                draws = _draw(planner, order, number)
                run = planner.run(order, draws, cordon_first=True, rolling=rolling)
                assert run.obstacle is None, (seed, order, number, run)
        else:
            refuted += any(
                planner.run(order, _draw(planner, order, number), cordon_first=True, rolling=rolling).obstacle
                for number in range(20)
            )
    assert proven >= 5
    assert refuted >= 5


def try_drain_of_n0(*objects: Json, config: Configuration = STOCK) -> TriedOrder:
    """Try the drain of n0, which has one pod of 1 cpu, beside n1 with 1 cpu free and n2 with 4."""
    nodes = [a_node("n0"), a_node("n1", cpu="1"), a_node("n2")]
    state = a_state([*nodes, a_pod("w0", "n0"), *objects], config=config)
    planner = DrainPlanner(make_world(state), Budgets([], []), state.list_waiting(), Drain(nodes=[]))
    return planner.try_order(["n0"], rolling=False, runs=1)


def test_nothing_is_proven_beside_a_waiting_pod_group() -> None:
    """Its pods are not simulated, and may take the room or preempt."""
    assert try_drain_of_n0().proven
    assert try_drain_of_n0(a_pod("alone", "", "ReplicaSet/b", cpu="9")).proven
    member = a_pod("big-0", "", "ReplicaSet/big", cpu="9", schedulingGroup={"podGroupName": "big"})
    tried = try_drain_of_n0(member)
    assert tried.run.obstacle is None
    assert not tried.proven


@pytest.mark.parametrize(("when", "proven"), [("ScheduleAnyway", True), ("DoNotSchedule", False)])
def test_nothing_is_proven_where_default_constraints_can_reject_nodes(when: str, proven: bool) -> None:
    constraint = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": when}
    args = {"defaultingType": "List", "defaultConstraints": [constraint]}
    plugin = PluginConfig(name="PodTopologySpread", args=args)
    profile = ProfileConfig(scheduler_name="default-scheduler", plugin_config=(plugin,))
    assert try_drain_of_n0(config=Configuration(profiles=(profile,))).proven is proven


def test_a_pod_that_another_pod_repels_may_move_once_that_has_left() -> None:
    repels = {"labelSelector": {"matchLabels": {"app": "h"}}, "topologyKey": "zone"}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [repels]}}
    nodes = [a_node("n0", labels={"zone": "a"}), a_node("n1", labels={"zone": "b"}), a_node("n2", labels={"zone": "b"})]
    moved = a_pod("h", "n0", "ReplicaSet/h", labels={"app": "h"})
    state = a_state([*nodes, moved, a_pod("x", "n1", "ReplicaSet/x", affinity=anti)])
    planner = DrainPlanner(make_world(state), Budgets([], []), [], Drain(nodes=[]))
    (pod,) = state.nodes.pods[state.nodes.index["n0"]].values()
    assert not planner.can_never_move(build_replacement(pod.pod, 0), "n0")
    too_large = build_replacement(PodInfo(msgspec.convert(a_pod("h", cpu="99"), Pod)).pod, 0)
    assert planner.can_never_move(too_large, "n0")


def test_without_the_filter_for_resources_a_large_pod_may_move() -> None:
    off = Plugins(multi_point=PluginSet(disabled=(PluginRef(name="NodeResourcesFit"),)))
    profile = ProfileConfig(scheduler_name="default-scheduler", plugins=off)
    state = a_state([a_node("n0"), a_node("n1")], config=Configuration(profiles=(profile,)))
    planner = DrainPlanner(make_world(state), Budgets([], []), [], Drain(nodes=[]))
    too_large = build_replacement(PodInfo(msgspec.convert(a_pod("h", cpu="99"), Pod)).pod, 0)
    assert not planner.can_never_move(too_large, "n0")


def make_world(state: WhatIfState) -> World:
    return WorldOfEqualNodes(state, TimeLimit(1e9, lambda: 0.0, ignore_progress))


def _draw(planner: DrainPlanner, order: list[str], number: int) -> RandomDraws:
    rng = random.Random(number)
    draws: AdversarialDraws = planner.build_adversarial_draws(order)(rng)
    return RandomDraws(rng) if number % 2 else draws
