"""Drains of several nodes: an order in which every budget holds and no pod stays pending, and the most empty nodes.

A drain evicts all pods of its node that budgets allow now, waits until their successors are Ready, and repeats it, as
`kubectl drain` does. Nodes that stay empty are cordoned before the first drain, so that no pod moves twice. An order
that counting proves is preferred. Another one is carried out many times: pods leave one by one or together, successors
and waiting pods come in any order, and each gets one of its best nodes. Every second run draws at random. The others
are adversarial: pods with many suitable nodes choose first, and take nodes that other pods need. That is no proof: the
number of runs is part of the answer.

Owns: orders, sets of nodes, runs, the bound of a consolidation. Does not own: which pods a drain refuses
(`whatif.eviction`), decisions (`world`), the proof (`counting_proof`).

Invariant: each run leaves the copy as it was.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from herodotus_answers.cluster_questions import Drain
from herodotus_answers.plans import DrainObstacle, DrainPlan, PlannedDrain
from scheduler.engine.objects import requests
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plans.counting_proof import is_drain_order_certain
from scheduler.engine.plans.movable import is_decided_by_node_alone, read_amount
from scheduler.engine.plans.time_limit import TimeOverError
from scheduler.engine.plans.verification import identify_kind
from scheduler.engine.plans.world import Mask, World
from scheduler.engine.whatif.budgets import Budgets
from scheduler.engine.whatif.eviction import build_command, find_refusal, is_left_alone
from scheduler.engine.whatif.owners import build_replacement, is_replaced

RUNS: Final = 20  # of each order or set that is tried
MAX_RUNS: Final = 1000  # of an order that is not proven, if there is time
MAX_ORDERS: Final = 720  # of six nodes; beyond, orders are drawn at random
# Shares of the time: for nodes that can be emptied alone, and of what is left for choosing a set before it is repeated.
LISTING, CHOOSING = 1 / 3, 0.7
PROVING: Final = 0.5  # share of the time for an order that is proven, once another one held in a run
CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"


class Halt(NamedTuple):
    """Why a drain ended early. `homeless` is the displaced pod that found no node; None if the cause is another."""

    obstacle: DrainObstacle
    homeless: PodInfo | None = None


@dataclass
class DrainRun:
    """The result of a simulated run: the drains that completed, and what blocked the next one, or None.

    `homeless` is the displaced pod that found no node, if that blocked it.
    """

    drained: list[PlannedDrain] = field(default_factory=list)
    obstacle: DrainObstacle | None = None
    homeless: PodInfo | None = None


class TriedOrder(NamedTuple):
    """What became of an order: the run in which it failed, else the first one, and the number of runs that held."""

    run: DrainRun
    runs: int
    proven: bool = False


class RandomDraws:
    """The nondeterministic choices of a run, drawn at random: evictions at a time, order of pods, node of each pod."""

    def __init__(self, rng: random.Random) -> None:
        """Take the source of all draws."""
        self._rng = rng

    def count_evictions(self, left: int) -> int:
        """Return how many of the `left` pods leave before the scheduler decides again."""
        return self._rng.choice((1, left, self._rng.randint(1, left)))

    def shuffle(self, pods: list[PodInfo]) -> None:
        """Bring pods into the order in which they leave, or in which the scheduler tries those of one priority."""
        self._rng.shuffle(pods)

    def choose(self, slots: Sequence[int]) -> int:
        """Return the slot of the node that a pod gets, of its best ones."""
        return self._rng.choice(slots)


class AdversarialDraws(RandomDraws):
    """Draws that give the nodes of pods with few alternatives to pods with many.

    `scarcity` is by slot: for each displaced pod that the node admits, 1 divided by the number of nodes that admit it,
    summed. Pods with many nodes come first.
    """

    def __init__(self, rng: random.Random, scarcity: NDArray[np.float64], choices: dict[object, int]) -> None:
        """`choices` is the number of nodes that admit a pod of each kind."""
        super().__init__(rng)
        self._scarcity, self._choices = scarcity, choices

    def shuffle(self, pods: list[PodInfo]) -> None:
        super().shuffle(pods)
        pods.sort(key=lambda pod: -self._choices.get(identify_kind(pod), 0) * self._rng.uniform(0.5, 1))

    def choose(self, slots: Sequence[int]) -> int:
        return max(slots, key=lambda slot: (float(self._scarcity[slot]) * self._rng.uniform(0.8, 1), slot))


@dataclass
class RunState:
    """What a run of drains changes beside the copy: its budgets and the pods that wait. `draws` are its choices."""

    budgets: Budgets
    waiting: list[PodInfo]
    draws: RandomDraws

    def copy(self) -> RunState:
        """Return a state that changes apart from this one, except for the draws."""
        return RunState(self.budgets.copy(), [*self.waiting], self.draws)


class DrainPlanner:
    """The simulation of drains on a copy of the cluster. Each method leaves the copy as it was."""

    def __init__(self, world: World, budgets: Budgets, waiting: Sequence[PodInfo], flags: Drain) -> None:
        """Take the copy. `waiting` are the pods that have no node before the first drain, and compete for room.

        Those of pod groups are not simulated, and nothing is proven beside them.
        """
        self.world, self._budgets = world, budgets
        self._waiting = [pod for pod in waiting if pod.pod_group is None]
        self._has_waiting_groups = len(self._waiting) < len(waiting)
        self._flags, self._numbers = flags, 0

    def may_be_emptied(self, node: str) -> bool:
        """Return whether the node has a Node object, and `kubectl drain` with these flags refuses none of its pods.

        Raises KeyError for an unknown name.
        """
        slot = self.world.nodes.index[node]
        pods = self.world.nodes.pods[slot].values()
        return self.world.nodes.nodes[slot] is not None and not any(find_refusal(p.pod, self._flags) for p in pods)

    def run(self, order: Sequence[str], draws: RandomDraws, *, cordon_first: bool, rolling: bool) -> DrainRun:
        """Drain the nodes in this order, and undo it all."""
        result, state = DrainRun(), self._begin(draws)
        with self.world.tried():
            if cordon_first and not rolling:
                self.world.set_schedulable(order, False)
            for node in order:
                self.world.limit.check()  # nodes without pods need no decision
                self.world.set_schedulable([node], False)
                drained, halt = self._drain(node, state)
                if halt is not None:
                    result.obstacle, result.homeless = halt
                    break
                result.drained.append(drained)
                if rolling:
                    self.world.set_schedulable([node], True)
        return result

    def _begin(self, draws: RandomDraws) -> RunState:
        return RunState(self._budgets.copy(), [*self._waiting], draws)

    def can_never_move(self, pod: PodInfo, node: str) -> bool:
        """Return whether the successor of a pod of a node fits on no other node, also after drains of others.

        Drained nodes take no pods, and the others only get fuller. So a pod that no other pod can help fits nowhere
        later if no node that admits it has room now.
        """
        if not is_decided_by_node_alone(pod) or self.world.has_unknown_rules(pod):
            return False
        with self.world.tried():
            self.world.set_schedulable([node], False)
            return not (self.world.find_admitting(pod) & self.world.find_roomy(pod)).any()

    def choose(self, order: Sequence[str], wanted: int) -> list[str]:
        """Return nodes that were drained one after the other, at most `wanted`; fewer if the time is over.

        The first `wanted` nodes of the order are cordoned. Where a displaced pod finds no node, the last of them that
        would take it is given up and takes pods again; without one, the drained node is. So each drain is tried about
        once, and the number of decisions grows with that of the pods.
        """
        chosen, state = list[str](), self._begin(RandomDraws(random.Random(0)))
        hopeful, spare = deque(order[:wanted]), deque(order[wanted:])
        with suppress(TimeOverError), self.world.tried():
            self.world.set_schedulable(hopeful, False)
            while hopeful:
                self.world.limit.check()
                mark, after = self.world.mark(), state.copy()
                _, halt = self._drain(hopeful[0], after)
                if halt is None:
                    state = after
                    chosen.append(hopeful.popleft())
                    continue
                taker = self._find_taker(halt.homeless, hopeful)
                self.world.undo(mark)
                hopeful.remove(taker)
                self.world.set_schedulable([taker], True)
                if taker == halt.obstacle["node"] and spare:
                    hopeful.append(spare.popleft())
                    self.world.set_schedulable([hopeful[-1]], False)
        return chosen

    def _find_taker(self, homeless: PodInfo | None, hopeful: Sequence[str]) -> str:
        """Return the last of these cordoned nodes on which the pod would fit, else the first, which it left."""
        if homeless is None:
            return hopeful[0]
        with self.world.tried():
            self.world.set_schedulable([name for name in hopeful if name != hopeful[0]], True)
            mask, _ = self.world.find_feasible(homeless)
        fitting = (name for name in reversed(hopeful) if name != hopeful[0] and mask[self.world.nodes.index[name]])
        return next(fitting, hopeful[0])

    def _drain(self, node: str, state: RunState) -> tuple[PlannedDrain, Halt | None]:
        pods = sorted(self.world.nodes.pods[self.world.nodes.index[node]].values(), key=lambda pod: pod.full_name)
        targets: Counter[str] = Counter()
        done: PlannedDrain = {
            "node": node,
            "pods": 0,
            "targets": {},
            "command": build_command([node], self._flags),
        }
        for pod in pods:
            refusal = find_refusal(pod.pod, self._flags)
            if refusal is not None:
                return done, Halt({"node": node, "pod": pod.full_name, "reason": refusal[1]})
        left = [pod for pod in pods if not is_left_alone(pod.pod)]
        done["pods"] = len(left)
        state.draws.shuffle(left)
        while left:
            refused, evicted, message = list[PodInfo](), list[PodInfo](), ""
            for pod in left:
                refusal_now = state.budgets.evict(pod.pod)
                if refusal_now is None:
                    evicted.append(pod)
                else:
                    refused.append(pod)
                    message = refusal_now.message
            if not evicted:
                return done, Halt({"node": node, "pod": refused[0].full_name, "reason": message})
            halt = self._replace(evicted, node, state, targets)
            if halt is not None:
                return done, halt
            left = refused
        done["targets"] = dict(targets)
        return done, None

    def _replace(self, evicted: Sequence[PodInfo], node: str, state: RunState, targets: Counter[str]) -> Halt | None:
        """Let the pods end, some at a time, and schedule their successors and the waiting pods meanwhile."""
        left, displaced = [*evicted], list[PodInfo]()
        while left:
            count = state.draws.count_evictions(len(left))
            for pod in left[:count]:
                self.world.remove(pod, node)
                if is_replaced(pod):
                    self._numbers += 1
                    displaced.append(self.world.generate_claims(build_replacement(pod.pod, self._numbers)))
            del left[:count]
            halt = self._schedule(displaced, node, state, targets)
            if halt is not None:
                return halt
        if not displaced:
            return None
        result = self.world.find_draws(displaced[0]).result
        reason = result.message if result else "no profile decides it"
        return Halt({"node": node, "pod": displaced[0].full_name, "reason": reason}, displaced[0])

    def _schedule(self, displaced: list[PodInfo], node: str, state: RunState, targets: Counter[str]) -> Halt | None:
        """Place the displaced and the waiting pods until no one finds a node, and remove from the lists those that do.

        Returns the Halt of a pod that would preempt.
        """
        queue = [*displaced, *state.waiting]
        state.draws.shuffle(queue)
        own = {pod.uid for pod in displaced}
        queue.sort(key=lambda pod: -pod.priority)
        progress = True
        while queue and progress:
            progress = False
            nowhere: set[object] = set()  # kinds of pods that find no node since the last placement
            for pod in list(queue):
                kind = identify_kind(pod)
                if kind in nowhere:
                    continue
                found = self.world.find_draws(pod)
                if found.preempts:
                    return Halt({"node": node, "pod": pod.full_name, "reason": "it would evict other pods"})
                if not found.slots:
                    nowhere.add(kind)
                    continue
                nowhere.clear()
                assert found.result is not None
                name = self.world.nodes.names[state.draws.choose(found.slots)]
                self.world.place(pod, name, found.result.state)
                queue.remove(pod)
                progress = True
                if pod.uid in own:
                    displaced.remove(pod)
                    targets[name] += 1
                    state.budgets.add_ready(pod.pod)
                else:
                    state.waiting.remove(pod)
        return None

    def _is_proven(self, order: Sequence[str], *, rolling: bool) -> bool:
        """Return whether an order that held in one run holds in every run.

        In which order budgets allow evictions does not matter where each evicted pod with a budget is replaced.
        """
        leaving = {node: self._list_leaving(node) for node in order}
        pods = [pod for each in leaving.values() for pod in each]
        if self._has_waiting_groups or any(self._budgets.has_budget(pod.pod) and not is_replaced(pod) for pod in pods):
            return False
        return is_drain_order_certain(self.world, self._waiting, leaving, rolling=rolling)

    def _list_leaving(self, node: str) -> list[PodInfo]:
        pods = self.world.nodes.pods[self.world.nodes.index[node]].values()
        return [pod for pod in pods if not is_left_alone(pod.pod)]

    def build_adversarial_draws(self, order: Sequence[str]) -> Callable[[random.Random], AdversarialDraws]:
        """Return a function that makes the adversarial draws of a run from its source of chance."""
        scarcity, admitting = np.zeros(self.world.nodes.slots), dict[object, Mask]()
        for pod in (pod for node in order for pod in self._list_leaving(node) if is_replaced(pod)):
            new = build_replacement(pod.pod, 0)
            kind = identify_kind(new)
            if kind not in admitting:
                admitting[kind] = self.world.find_admitting(new)
            scarcity += admitting[kind] / max(1, admitting[kind].sum())
        choices = {kind: int(mask.sum()) for kind, mask in admitting.items()}
        return lambda rng: AdversarialDraws(rng, scarcity, choices)

    def try_order(self, order: Sequence[str], *, rolling: bool, runs: int = RUNS) -> TriedOrder:
        """Carry an order out once, prove that it holds, and if that fails repeat it, `runs` times in all.

        Raises TimeOverError if there is no time for one run.
        """
        first = self.run(order, RandomDraws(random.Random(0)), cordon_first=True, rolling=rolling)
        if first.obstacle is not None:
            return TriedOrder(first, 0)
        number = 1
        with suppress(TimeOverError):
            if self._is_proven(order, rolling=rolling):
                return TriedOrder(first, 1, proven=True)
            adversarial = self.build_adversarial_draws(order) if runs > 1 else RandomDraws
            while number < runs:
                rng = random.Random(number)
                draws = adversarial(rng) if number % 2 else RandomDraws(rng)
                run = self.run(order, draws, cordon_first=True, rolling=rolling)
                if run.obstacle is not None:
                    return TriedOrder(run, number)
                number += 1
        return TriedOrder(first, number)


def plan_drains(planner: DrainPlanner, nodes: Sequence[str], *, rolling: bool) -> DrainPlan:
    """Return an order of drains that is proven, or else one that held in all runs.

    Without one, `nodes` is empty and the obstacles are named.
    """
    plan, failed, held = _start_plan(rolling=rolling), DrainRun(), deque[TriedOrder]()
    with suppress(TimeOverError):
        given = planner.run(nodes, RandomDraws(random.Random(0)), cordon_first=False, rolling=rolling)
        plan["given"] = "" if given.obstacle is None else "a pod stays Pending, or a budget forbids an eviction"
        for order in _list_orders(nodes):
            if held and planner.world.limit.has_used(PROVING):
                break
            trial = planner.try_order(order, rolling=rolling, runs=1)
            plan["orders"] += 1
            if trial.proven:
                held = deque([trial])
                break
            if trial.run.obstacle is None:
                held.append(trial)
            failed = max(trial.run, failed, key=_rank_failure)
        while held and not held[0].proven:
            order = tuple(each["node"] for each in held[0].run.drained)
            trial = planner.try_order(order, rolling=rolling, runs=MAX_RUNS)
            if trial.run.obstacle is None:
                held[0] = trial
                break
            held.popleft()
            failed = max(trial.run, failed, key=_rank_failure)
    if held:
        _write_order(plan, held[0])
    elif failed.obstacle is not None:
        plan["obstacles"] = [failed.obstacle]
    return plan


def _rank_failure(run: DrainRun) -> tuple[bool, int]:
    return run.obstacle is not None, len(run.drained)


def _write_order(plan: DrainPlan, trial: TriedOrder) -> None:
    plan["nodes"], plan["runs"], plan["proven"] = trial.run.drained, trial.runs, trial.proven
    names = [each["node"] for each in trial.run.drained]
    plan["cordon"] = "" if plan["rolling"] or len(names) == 1 else f"kubectl cordon {' '.join(names)}"


def _start_plan(*, rolling: bool = False, bound: int | None = None) -> DrainPlan:
    return {
        "nodes": [],
        "cordon": "",
        "rolling": rolling,
        "obstacles": [],
        "orders": 0,
        "runs": 0,
        "proven": False,
        "given": "",
        "greedy": None,
        "bound": bound,
    }


def _list_orders(nodes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the given order first, then all others of up to six nodes, or `MAX_ORDERS` random ones of more."""
    if len(nodes) <= 6:
        yield from permutations(nodes)
        return
    yield tuple(nodes)
    rng = random.Random(0)
    for _ in range(MAX_ORDERS):
        yield tuple(rng.sample(nodes, len(nodes)))


def plan_consolidation(planner: DrainPlanner, most: int) -> DrainPlan:
    """Return the largest set of nodes found that can be emptied, at most `most` unless that is 0, with the bound.

    The bound holds for all nodes but the control plane's.
    """
    world = planner.world
    names = list_workers(world)
    movable = [name for name in names if planner.may_be_emptied(name)]
    candidates, obstacles, immovable = list[str](), list[DrainObstacle](), set[str]()
    with suppress(TimeOverError), world.limit.share(LISTING):
        _sort_out(planner, names, candidates, obstacles, immovable)
    bound = _bound_empty_nodes(world, [name for name in movable if name not in immovable])
    wanted = min(bound, most or bound)
    plan = _start_plan(bound=bound)
    plan["obstacles"] = obstacles
    with suppress(TimeOverError):
        _try_sets(planner, _sort_by_use(world, candidates), wanted, plan)
    return plan


def _try_sets(planner: DrainPlanner, order: Sequence[str], wanted: int, plan: DrainPlan) -> None:
    """Write the largest set that held into the plan, until one has `wanted` nodes."""
    rng, seen = random.Random(0), set[frozenset[str]]()
    while wanted and order:
        plan["orders"] += 1
        with planner.world.limit.share(CHOOSING):
            chosen = planner.choose(order, wanted)
        planner.world.limit.check()
        held = [*chosen]
        while len(held) > len(plan["nodes"]) and frozenset(held) not in seen:
            seen.add(frozenset(held))
            trial = planner.try_order(held, rolling=False)
            if trial.run.obstacle is None:
                _write_order(plan, trial)
            else:
                held.remove(trial.run.obstacle["node"])
        if len(plan["nodes"]) == wanted or plan["orders"] >= MAX_ORDERS:
            return
        order = _vary(order, chosen, rng)


def _vary(order: Sequence[str], chosen: Sequence[str], rng: random.Random) -> list[str]:
    """Return another order: the nodes that were chosen first but a few, and then the others at random."""
    dropped = set(rng.sample(chosen, min(len(chosen), rng.randint(1, 3))))
    kept = [name for name in chosen if name not in dropped]
    rest = [name for name in order if name not in kept and name not in dropped]
    rng.shuffle(rest)
    return [*kept, *rest, *sorted(dropped)]


def list_workers(world: World) -> list[str]:
    """Return the nodes that may be emptied: all but those of the control plane."""
    nodes = [node for node in world.nodes.nodes if node is not None]
    return [node.metadata.name for node in nodes if CONTROL_PLANE not in (node.metadata.labels or {})]


def _sort_out(
    planner: DrainPlanner,
    names: Sequence[str],
    candidates: list[str],
    obstacles: list[DrainObstacle],
    immovable: set[str],
) -> None:
    """Add the nodes that can be emptied alone to the candidates, and what keeps each of the others.

    `immovable` gets those with a pod that can never move.
    """
    for name in names:
        run = planner.run([name], RandomDraws(random.Random(0)), cordon_first=True, rolling=False)
        if run.obstacle is None:
            candidates.append(name)
            continue
        obstacles.append(run.obstacle)
        if run.homeless is not None and planner.can_never_move(run.homeless, name):
            immovable.add(name)


def _sort_by_use(world: World, names: Iterable[str]) -> list[str]:
    """Return the nodes with the smallest share of requested CPU or memory first."""
    nodes = world.nodes
    used = [(nodes.requested(name), nodes.allocatable(name)) for name in (requests.CPU, requests.MEMORY)]

    def share(name: str) -> tuple[float, str]:
        slot = nodes.index[name]
        return max(int(requested[slot]) / max(1, int(total[slot])) for requested, total in used), name

    return sorted(names, key=share)


def _bound_empty_nodes(world: World, candidates: Sequence[str]) -> int:
    """Return how many nodes can be emptied at most: the rest must have what the pods that move request, in sum.

    Taken for each resource alone, with the nodes of the smallest gain first, and regardless of which pods fit where.
    """
    nodes = world.nodes
    live = nodes.live[: nodes.slots]
    best = len(candidates)
    for resource in nodes.resources:
        allocatable, requested = nodes.allocatable(resource), nodes.requested(resource)
        free = int(np.maximum(allocatable - requested, 0)[live].sum())
        # Emptying a node takes its free room, and needs as much elsewhere as its pods request.
        costs = sorted(_movable(world, name, resource) + max(0, _free(world, name, resource)) for name in candidates)
        count = 0
        for cost in costs:
            free -= cost
            if free < 0:
                break
            count += 1
        best = min(best, count)
    return best


def _movable(world: World, name: str, resource: str) -> int:
    slot = world.nodes.index[name]
    return sum(
        read_amount(pod, resource)
        for pod in world.nodes.pods[slot].values()
        if not is_left_alone(pod.pod) and is_replaced(pod)
    )


def _free(world: World, name: str, resource: str) -> int:
    slot = world.nodes.index[name]
    return int(world.nodes.allocatable(resource)[slot]) - int(world.nodes.requested(resource)[slot])
