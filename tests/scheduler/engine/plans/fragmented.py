"""Fragmented clusters with a pod that does not fit, and a search for moves that shares nothing with the planner.

`list_move_sequences` tries every sequence of moves, in which each pod moves at most once, with the engine's filters.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from scheduler.engine.columns import Snapshot
from scheduler.engine.cycle import schedule_regardless_of_group
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import PodGroup
from scheduler.engine.objects.workloads import PodDisruptionBudget
from scheduler.engine.whatif.budgets import Budgets
from scheduler.engine.whatif.simulation import WhatIfState
from tests.scheduler.engine.plans.devices import (
    DeviceWorkload,
    make_devices,
    place_with_claims,
    take_off_with_claims,
)
from tests.scheduler.engine.whatif.clusters import a_budget, a_node, a_pod

Json = dict[str, Any]
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def make_cluster(seed: int, max_nodes: int = 8, max_pods: int = 24) -> list[Json]:
    """Return nodes, pods and budgets, with the pending pod `shop/big` or the pods of the group `shop/big`.

    These may fit nowhere. Half of the clusters have devices and claims.
    """
    rng = random.Random(seed)
    nodes = [a_node(f"n{i}", cpu=str(rng.choice((4, 4, 6)))) for i in range(rng.randint(3, max_nodes))]
    for node in nodes:
        node["metadata"]["labels"][ZONE] = f"zone-{rng.randrange(3)}"
    free = {node["metadata"]["name"]: int(node["status"]["allocatable"]["cpu"]) * 1000 for node in nodes}
    objects, uses = list[Json](nodes), dict[str, set[str]]()
    with_devices = rng.random() < 0.5
    made, devices = make_devices(rng, list(free)) if with_devices else ([], {})
    objects += made
    workloads = [_make_workload(rng, number, with_devices=with_devices) for number in range(rng.randint(2, 6))]
    objects += [budget for each in workloads for budget in each["budgets"]]
    number = 0
    for _ in range(max_pods * 2):
        each = rng.choice(workloads)
        claims: DeviceWorkload | None = each["claims"]
        fitting = [
            name
            for name, amount in free.items()
            if amount >= each["cpu"]
            and not (each["alone"] and name in uses.get(each["owner"], ()))
            and not (claims is not None and claims.find_devices(name, devices) is None)
        ]
        if not fitting or number >= max_pods:
            continue
        chosen = rng.choice(fitting)
        free[chosen] -= each["cpu"]
        uses.setdefault(each["owner"], set()).add(chosen)
        pod = a_pod(f"p{number}", chosen, each["owner"], f"{each['cpu']}m", **each["spec"]())
        if claims is not None:
            taken = claims.find_devices(chosen, devices) or []
            devices[chosen] = [name for name in devices[chosen] if name not in taken]
            objects += claims.attach(pod, chosen, taken)
        objects.append(pod)
        number += 1
        if sum(free.values()) < 4500 and rng.random() < 0.5:
            break
    objects += [obj for each in workloads if each["claims"] is not None for obj in each["claims"].list_objects()]
    return [*objects, *_make_targets(rng, free, devices)]


def _make_targets(rng: random.Random, free: dict[str, int], devices: dict[str, list[str]]) -> list[Json]:
    """Return the pending pod or group with its claims; `free` are millicores, `devices` the free ones, of each node."""
    spec: Json = {"priority": rng.choice((0, 0, 5)), "preemptionPolicy": "Never"}
    if rng.random() < 0.2:
        spec["nodeSelector"] = {ZONE: f"zone-{rng.randrange(3)}"}
    if rng.random() < 0.2:
        terms = [{"topologyKey": rng.choice((HOST, ZONE)), "labelSelector": {"matchLabels": {"app": "w0"}}}]
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    size, largest = rng.choice((1, 1, 2, 3)), sorted(free.values(), reverse=True)
    wanted = min(4000, largest[size - 1] + rng.choice((50, 250, 500, 1000)))
    claims = None
    if devices and rng.random() < 0.6:
        count = max(map(len, devices.values())) + 1
        if 0 < count <= 3:
            claims, wanted = DeviceWorkload(rng, "big", count, shared=size > 1 and rng.random() < 0.5), 250
    objects: list[Json] = []
    if size > 1:
        spec["schedulingGroup"] = {"podGroupName": "big"}
        policy = {"gang": {"minCount": rng.randint(2, size)}}
        metadata = {"name": "big", "namespace": "shop"}
        group = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata}
        objects.append(group | {"spec": {"schedulingPolicy": policy}})
    for number in range(size):
        pod = a_pod(f"big-{number}" if size > 1 else "big", "", "ReplicaSet/big", f"{wanted}m", **spec)
        if claims is not None:
            objects += claims.attach(pod, "", [])
        objects.append(pod)
    return [*objects, *(claims.list_objects() if claims is not None else [])]


def _make_workload(rng: random.Random, number: int, *, with_devices: bool) -> dict[str, Any]:
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
    claims = None
    if with_devices and kind != "DaemonSet" and rng.random() < 0.6:
        claims = DeviceWorkload(rng, name, rng.randint(1, 2), shared=rng.random() < 0.25)
    return {
        "claims": claims,
        "owner": f"{kind}/{name}",
        "cpu": cpu,
        "alone": alone,
        "spec": make_spec,
        "budgets": budgets,
    }


class ExhaustiveResult(NamedTuple):
    """The smallest number of moves, None if there is no plan of at most the tried number, and the states visited."""

    moves: int | None
    states: int


def search_exhaustively(state: WhatIfState, most: int) -> ExhaustiveResult:
    """Return the fewest moves, at most `most`, after which the pending pods, or the quorum of their group, fit."""
    targets = [PodInfo(pod) for pod in state.pending if (pod.metadata.labels or {}).get("app") == "big"]
    groups = [each.spec.scheduling_policy.gang for each in state.objects.all(PodGroup)]
    needed = groups[0].min_count if groups and groups[0] is not None else len(targets)
    states = 0
    for moves in list_move_sequences(state, most, lambda _pod: True):
        states += 1
        if _find_placement(state, targets, needed):
            return ExhaustiveResult(moves, states)
    return ExhaustiveResult(None, states)


def _find_placement(state: WhatIfState, targets: Sequence[PodInfo], needed: int) -> bool:
    """Return whether `needed` of these alike pods pass all filters one after the other, on any nodes."""
    if not needed:
        return True
    for name in _list_feasible(state, targets[0]):
        undo = place_with_claims(state, targets[0], name)
        try:
            if _find_placement(state, targets[1:], needed - 1):
                return True
        finally:
            undo()
    return False


def search_at_random(
    state: WhatIfState, targets: Sequence[PodInfo], most: int, seconds: float, *, ending: bool = False
) -> int | None:
    """Return the moves of a sequence after which the targets find nodes one after the other, None if none was found.

    Sequences of up to `most` moves are drawn for so many seconds of processor time, of any pod to any node where it
    passes all filters, or with `ending` of less important pods that end. The other waiting pods are placed before the
    targets, where the targets would fit.
    """
    rng, end = random.Random(0), time.process_time() + seconds
    own = {pod.uid for pod in targets}
    others = [pod for pod in state.list_waiting() if pod.uid not in own]
    every = [pod for pods in state.nodes.pods for pod in pods.values()]
    budgets = Budgets(state.objects.all(PodDisruptionBudget), every)
    movable = _list_ending(every, targets, others) if ending else [pod for pod in every if _is_replaced_elsewhere(pod)]
    while movable and time.process_time() < end:
        sequence: list[tuple[str, str]] = []
        for pod in rng.sample(movable, min(rng.randint(1, most), len(movable))):
            undo, left = _carry_out(state, tuple(sequence), budgets)
            moves = [] if left.copy().evict(pod.pod) else [(pod.uid, "")] if ending else [*_list_moves_of(state, pod)]
            sequence += rng.sample(moves, min(1, len(moves)))
            _undo(undo)
        undo, _ = _carry_out(state, tuple(sequence), budgets)
        fitting = _place_all(state, targets) and _place_all(state, targets, others)
        _undo(undo)
        if fitting:
            return len(sequence)
    return None


def _is_replaced_elsewhere(pod: PodInfo) -> bool:
    return _owner_kind(pod) in ("ReplicaSet", "StatefulSet") and pod.pod_group is None


def _list_ending(every: Sequence[PodInfo], targets: Sequence[PodInfo], others: Sequence[PodInfo]) -> list[PodInfo]:
    """Return the pods that end when their ReplicaSet is scaled down: of less importance, and all its pods are Ready."""
    lowest, waiting = min(pod.priority for pod in targets), {pod.labels.get("app") for pod in others}
    return [
        pod
        for pod in every
        if pod.priority < lowest
        and _owner_kind(pod) == "ReplicaSet"
        and pod.pod_group is None
        and pod.labels.get("app") not in waiting
    ]


def _undo(steps: list[Any]) -> None:
    for step in reversed(steps):
        step()


def _place_all(state: WhatIfState, targets: Sequence[PodInfo], others: Sequence[PodInfo] = ()) -> bool:
    """Return whether the targets find nodes in this order, after `others` took theirs; the state is as before."""
    placed: list[Callable[[], None]] = []

    def place(pod: PodInfo, nodes: Sequence[str]) -> None:
        if nodes:
            placed.append(place_with_claims(state, pod, nodes[0]))

    wanted = {name for target in targets for name in _list_feasible(state, target)}
    for other in others:
        place(other, [name for name in _list_feasible(state, other) if name in wanted])
    before = len(placed)
    for target in targets:
        place(target, _list_feasible(state, target))
    fitting = len(placed) - before == len(targets)
    _undo(placed)
    return fitting


def list_move_sequences(state: WhatIfState, most: int, may_move: Callable[[PodInfo], bool]) -> Iterator[int]:
    """Yield the number of moves of each sequence, the shortest first, while the state is as after it."""
    seen: set[object] = set()
    has_claims = any(pod.pod.spec.resource_claims for pods in state.nodes.pods for pod in pods.values())
    budgets = Budgets(state.objects.all(PodDisruptionBudget), [p for pods in state.nodes.pods for p in pods.values()])
    frontier: list[tuple[tuple[str, str], ...]] = [()]  # sequences of (uid, destination)
    for moves in range(most + 1):
        following = []
        for sequence in frontier:
            reached = sequence if has_claims else frozenset(sequence)  # the order decides which devices are left
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
        again, put_back = take_off_with_claims(state, pod, origin)
        undo.append(put_back)
        if node:
            left.add_ready(pod.pod)
            undo.append(place_with_claims(state, again, node))
    return undo, left


def _list_moves(
    state: WhatIfState, moved: dict[str, str], budgets: Budgets, may_move: Callable[[PodInfo], bool]
) -> Iterator[tuple[str, str]]:
    """Yield each further move: a pod with a replacing controller, to each node where it passes all filters."""
    for pod in [pod for pods in state.nodes.pods for pod in pods.values()]:
        if not may_move(pod) or not _is_replaced_elsewhere(pod) or pod.uid in moved:
            continue
        if budgets.copy().evict(pod.pod) is None:
            yield from _list_moves_of(state, pod)


def _owner_kind(pod: PodInfo) -> str:
    return next((owner.kind for owner in pod.pod.metadata.owner_references or ()), "")


def _list_moves_of(state: WhatIfState, pod: PodInfo) -> Iterator[tuple[str, str]]:
    """Yield the UID of a pod with each other node where its successor passes all filters."""
    origin = next(state.nodes.names[slot] for slot, pods in enumerate(state.nodes.pods) if pod.uid in pods)
    again, put_back = take_off_with_claims(state, pod, origin)
    feasible = _list_feasible(state, again)
    put_back()
    yield from ((pod.uid, name) for name in feasible if name != origin)


def _list_feasible(state: WhatIfState, pod: PodInfo) -> list[str]:
    framework = state.framework(pod.pod.spec.scheduler_name)
    assert framework is not None
    trace = schedule_regardless_of_group(framework, pod, Snapshot.from_columns(state.nodes), 0).trace
    return [state.nodes.names[slot] for slot in np.flatnonzero(trace.feasible)]
