"""Fragmented clusters with a pod that does not fit, and a search for moves that shares nothing with the planner.

`list_move_sequences` tries every sequence of moves, in which each pod moves at most once, with the engine's filters.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np

from scheduler.engine.columns import Snapshot
from scheduler.engine.cycle import schedule
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import PodStatus
from scheduler.engine.objects.workloads import PodDisruptionBudget
from scheduler.engine.whatif.budgets import Budgets
from scheduler.engine.whatif.simulation import WhatIfState
from tests.scheduler.engine.whatif.clusters import a_budget, a_node, a_pod

Json = dict[str, Any]
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def make_cluster(seed: int, max_nodes: int = 8, max_pods: int = 24) -> list[Json]:
    """Return nodes, pods and budgets, with the pending pod `shop/big`, which may fit nowhere."""
    rng = random.Random(seed)
    nodes = [a_node(f"n{i}", cpu=str(rng.choice((4, 4, 6)))) for i in range(rng.randint(3, max_nodes))]
    for node in nodes:
        node["metadata"]["labels"][ZONE] = f"zone-{rng.randrange(3)}"
    free = {node["metadata"]["name"]: int(node["status"]["allocatable"]["cpu"]) * 1000 for node in nodes}
    objects, uses = list[Json](nodes), dict[str, set[str]]()
    workloads = [_make_workload(rng, number) for number in range(rng.randint(2, 6))]
    objects += [budget for each in workloads for budget in each["budgets"]]
    number = 0
    for _ in range(max_pods * 2):
        each = rng.choice(workloads)
        fitting = [
            name
            for name, amount in free.items()
            if amount >= each["cpu"] and not (each["alone"] and name in uses.get(each["owner"], ()))
        ]
        if not fitting or number >= max_pods:
            continue
        chosen = rng.choice(fitting)
        free[chosen] -= each["cpu"]
        uses.setdefault(each["owner"], set()).add(chosen)
        objects.append(a_pod(f"p{number}", chosen, each["owner"], f"{each['cpu']}m", **each["spec"]()))
        number += 1
        if sum(free.values()) < 4500 and rng.random() < 0.5:
            break
    most = max(free.values())
    wanted = min(4000, most + rng.choice((250, 500, 1000, 1500)))
    priority = rng.choice((0, 0, 5))
    target = a_pod("big", "", "ReplicaSet/big", f"{wanted}m", priority=priority, preemptionPolicy="Never")
    if rng.random() < 0.2:
        target["spec"]["nodeSelector"] = {ZONE: f"zone-{rng.randrange(3)}"}
    if rng.random() < 0.2:
        terms = [{"topologyKey": rng.choice((HOST, ZONE)), "labelSelector": {"matchLabels": {"app": "w0"}}}]
        target["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return [*objects, target]


def _make_workload(rng: random.Random, number: int) -> dict[str, Any]:
    name, cpu = f"w{number}", rng.choice((250, 500, 1000, 1500, 2000))
    kind = rng.choice(("ReplicaSet",) * 6 + ("StatefulSet", "Job", "DaemonSet"))
    alone, spread, priority = rng.random() < 0.2, rng.random() < 0.2, rng.choice((0, 0, 0, 3))
    matching = {"labelSelector": {"matchLabels": {"app": name}}}

    def make_spec() -> Json:
        spec: Json = {"priority": priority, "preemptionPolicy": "Never"}
        if alone:
            terms = [{"topologyKey": HOST, **matching}]
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        elif spread:
            constraint = {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **matching}
            spec["topologySpreadConstraints"] = [constraint]
        return spec

    budgets = []
    if rng.random() < 0.4:
        amounts: Json = rng.choice(({"maxUnavailable": 1}, {"maxUnavailable": 0}, {"minAvailable": 1}))
        budgets = [a_budget(name, name, **amounts)]
    return {"owner": f"{kind}/{name}", "cpu": cpu, "alone": alone, "spec": make_spec, "budgets": budgets}


class ExhaustiveResult(NamedTuple):
    """The smallest number of moves, None if there is no plan of at most the tried number, and the states visited."""

    moves: int | None
    states: int


def search_exhaustively(state: WhatIfState, most: int) -> ExhaustiveResult:
    """Return the fewest moves after which the pending pod passes all filters on some node, at most `most`."""
    target = next(PodInfo(pod) for pod in state.pending if pod.metadata.name == "big")
    states = 0
    for moves in list_move_sequences(state, most, lambda _pod: True):
        states += 1
        if _list_feasible(state, target):
            return ExhaustiveResult(moves, states)
    return ExhaustiveResult(None, states)


def search_at_random(state: WhatIfState, targets: Sequence[PodInfo], most: int, seconds: float) -> int | None:
    """Return the moves of a sequence after which the targets find nodes one after the other, None if none was found.

    Sequences of up to `most` moves are drawn for so many seconds, of any pod to any node where it passes all filters.
    The other waiting pods are placed before the targets, where the targets would fit.
    """
    rng, end = random.Random(0), time.monotonic() + seconds
    own = {pod.uid for pod in targets}
    others = [pod for pod in state.list_waiting() if pod.uid not in own]
    every = [pod for pods in state.nodes.pods for pod in pods.values()]
    budgets = Budgets(state.objects.all(PodDisruptionBudget), every)
    movable = [pod for pod in every if _owner_kind(pod) in ("ReplicaSet", "StatefulSet")]
    while time.monotonic() < end:
        sequence: list[tuple[str, str]] = []
        for pod in rng.sample(movable, min(rng.randint(1, most), len(movable))):
            undo, left = _carry_out(state, tuple(sequence), budgets)
            moves = [] if left.copy().evict(pod.pod) else [*_list_moves_of(state, pod)]
            sequence += rng.sample(moves, min(1, len(moves)))
            _undo(undo)
        undo, _ = _carry_out(state, tuple(sequence), budgets)
        fitting = _place_all(state, targets) and _place_all(state, targets, others)
        _undo(undo)
        if fitting:
            return len(sequence)
    return None


def _undo(steps: list[Any]) -> None:
    for step in reversed(steps):
        step()


def _place_all(state: WhatIfState, targets: Sequence[PodInfo], others: Sequence[PodInfo] = ()) -> bool:
    """Return whether the targets find nodes in this order, after `others` took theirs; the state is as before."""
    placed: list[tuple[str, str]] = []

    def place(pod: PodInfo, nodes: Sequence[str]) -> None:
        if nodes:
            state.nodes.add_pod(pod, nodes[0])
            placed.append((pod.uid, nodes[0]))

    wanted = {name for target in targets for name in _list_feasible(state, target)}
    for other in others:
        place(other, [name for name in _list_feasible(state, other) if name in wanted])
    before = len(placed)
    for target in targets:
        place(target, _list_feasible(state, target))
    fitting = len(placed) - before == len(targets)
    for uid, node in placed:
        state.nodes.remove_pod(uid, node)
    return fitting


def list_move_sequences(state: WhatIfState, most: int, may_move: Callable[[PodInfo], bool]) -> Iterator[int]:
    """Yield the number of moves of each sequence, the shortest first, while the state is as after it."""
    seen: set[frozenset[tuple[str, str]]] = set()
    budgets = Budgets(state.objects.all(PodDisruptionBudget), [p for pods in state.nodes.pods for p in pods.values()])
    frontier: list[tuple[tuple[str, str], ...]] = [()]  # sequences of (uid, destination)
    for moves in range(most + 1):
        following = []
        for sequence in frontier:
            reached = frozenset(sequence)
            if reached in seen:
                continue
            seen.add(reached)
            undo, left = _carry_out(state, sequence, budgets)
            try:
                yield moves
                if moves < most:
                    following += [(*sequence, move) for move in _list_moves(state, dict(sequence), left, may_move)]
            finally:
                _undo(undo)
        frontier = following


def _carry_out(
    state: WhatIfState, sequence: tuple[tuple[str, str], ...], budgets: Budgets
) -> tuple[list[Any], Budgets]:
    undo, left = list[Any](), budgets.copy()
    where = {
        uid: (pod, state.nodes.names[slot]) for slot, pods in enumerate(state.nodes.pods) for uid, pod in pods.items()
    }
    for uid, node in sequence:
        pod, origin = where[uid]
        assert left.evict(pod.pod) is None
        left.add_ready(pod.pod)
        state.nodes.remove_pod(uid, origin)
        state.nodes.add_pod(pod, node)
        undo.append(partial(state.nodes.add_pod, pod, origin))
        undo.append(partial(state.nodes.remove_pod, uid, node))
    return undo, left


def _list_moves(
    state: WhatIfState, moved: dict[str, str], budgets: Budgets, may_move: Callable[[PodInfo], bool]
) -> Iterator[tuple[str, str]]:
    """Yield each further move: a pod with a replacing controller, to each node where it passes all filters."""
    for pod in [pod for pods in state.nodes.pods for pod in pods.values()]:
        if not may_move(pod) or _owner_kind(pod) not in ("ReplicaSet", "StatefulSet") or pod.uid in moved:
            continue
        if budgets.copy().evict(pod.pod) is None:
            yield from _list_moves_of(state, pod)


def _owner_kind(pod: PodInfo) -> str:
    return next((owner.kind for owner in pod.pod.metadata.owner_references or ()), "")


def _list_moves_of(state: WhatIfState, pod: PodInfo) -> Iterator[tuple[str, str]]:
    """Yield the UID of a pod with each other node where its successor passes all filters."""
    origin = next(state.nodes.names[slot] for slot, pods in enumerate(state.nodes.pods) if pod.uid in pods)
    state.nodes.remove_pod(pod.uid, origin)
    spec = msgspec.structs.replace(pod.pod.spec, node_name="")
    again = PodInfo(msgspec.structs.replace(pod.pod, spec=spec, status=PodStatus()))
    feasible = _list_feasible(state, again)
    state.nodes.add_pod(pod, origin)
    yield from ((pod.uid, name) for name in feasible if name != origin)


def _list_feasible(state: WhatIfState, pod: PodInfo) -> list[str]:
    framework = state.framework(pod.pod.spec.scheduler_name)
    assert framework is not None
    trace = schedule(framework, pod, Snapshot.from_columns(state.nodes), 0).trace
    return [state.nodes.names[slot] for slot in np.flatnonzero(trace.feasible)]
