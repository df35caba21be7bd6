"""The proof of a plan by counting, for plans with too many runs to carry out each.

The nodes that pods leave are cordoned until all of them are gone. Then nothing lands there, and each displaced pod has
a node as long as more nodes fit it than other pods can take meanwhile: each of those takes at most one. At the end the
targets find what is free on these nodes, whatever happened elsewhere.

It needs pods that are decided by their node alone: without pod affinity, spread constraints that reject, volumes and
claims. A target or another waiting pod does not preempt on the way: a displaced pod that is less important only adds to
a node what preemption would take away again. At the end each other waiting pod is decided, without and with the
targets.

Owns: when the proof applies, and the steps. Does not own: the exploration of all runs (`verification`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plans.movable import is_decided_by_node_alone
from scheduler.engine.plans.verification import (
    CORDON,
    CREATE,
    MOVE,
    SCALE_DOWN,
    UNCORDON,
    PlannedStep,
    Proof,
    Verification,
)
from scheduler.engine.plans.world import World


def prove_by_room(
    world: World, verification: Verification, leaving: Sequence[PlannedStep], *, exist: bool
) -> tuple[list[PlannedStep], Proof] | None:
    """Return the steps of a plan in which these pods leave, with its proof, or None if it cannot be proven so.

    `leaving` are moves and pods that are given up. `exist` says that the targets wait already.
    """
    targets, others = verification.targets, [pods[0] for pods in verification.others.values()]
    displaced = [(step, verification.replacement_of(step.pod)) for step in leaving if step.kind == MOVE and step.pod]
    if any(step.kind not in (MOVE, SCALE_DOWN) for step in leaving):
        return None
    if not all(map(is_decided_by_node_alone, (*targets, *others, *(pod for _, pod in displaced)))):
        return None
    if any(world.has_extenders(pod) for pod in (*targets, *others, *(pod for _, pod in displaced))):
        return None
    emptied = tuple(sorted({step.node for step in leaving}))
    proof = Proof(None, {}, 0)
    with world.tried():
        world.set_schedulable(emptied, False)
        competitors = [*verification.others.values(), *([targets] if exist else [])]
        competing = sum(len(pods) for pods in competitors if any(world.find_feasible(pod)[0].any() for pod in pods[:1]))
        for _, pod in displaced:
            slots = np.flatnonzero(world.find_feasible(pod)[0])
            proof.landings[pod.uid] = {world.nodes.names[slot] for slot in slots.tolist()}
        if len(displaced) == len(leaving):  # the pods with the fewest nodes first, while nobody has taken one
            displaced.sort(key=lambda each: len(proof.landings[each[1].uid]))
            leaving = [step for step, _ in displaced]
        if any(len(proof.landings[pod.uid]) <= n + competing for n, (_, pod) in enumerate(displaced)):
            return None
        for step in leaving:
            assert step.pod is not None
            world.remove(step.pod, step.node)
        there = [world.nodes.index[name] for name in emptied]
        if any(world.find_feasible(pod)[0][there].any() for pod in (*others, *(pod for _, pod in displaced))):
            return None  # it tolerates the cordon
        world.set_schedulable(emptied, True)
        if not _settle(world, others, proof, targets, emptied):
            return None
        if verification.goal is not None and not verification.goal():
            return None
    steps = [PlannedStep(CORDON, emptied), *leaving, PlannedStep(UNCORDON, emptied)]
    return [*steps, *([] if exist else [PlannedStep(CREATE)])], proof


def fit_in_any_order(world: World, verification: Verification) -> bool:
    """Return whether targets that fit one after the other do so in every order; False if that is not certain.

    Alike pods that are decided by their node alone do, where no other waiting pod gets a node before or after them.
    """
    targets, others = verification.targets, [pods[0] for pods in verification.others.values()]
    if len({target.spec_digest for target in targets}) > 1 or not all(map(is_decided_by_node_alone, targets)):
        return False
    with world.tried():
        if any(draws.slots or draws.preempts for draws in map(world.find_draws, others)):
            return False
        for target in targets:
            mask, state = world.find_feasible(target)
            slots = np.flatnonzero(mask)
            if not len(slots):
                return False
            world.place(target, world.nodes.names[int(slots[0])], state)
        return not any(draws.slots or draws.preempts for draws in map(world.find_draws, others))


def _settle(
    world: World, others: Iterable[PodInfo], proof: Proof, targets: Sequence[PodInfo], emptied: Sequence[str]
) -> bool:
    """Return whether the targets get nodes and no other waiting pod does, or preempts, before or after them.

    The emptied nodes must take all targets, since room elsewhere may be gone by then. Several targets must be alike:
    then it does not matter which of them a node takes.
    """
    if len({target.spec_digest for target in targets}) > 1:
        return False
    if any(draws.slots or draws.preempts for draws in map(world.find_draws, others)):
        return False
    for target in targets:
        mask, state = world.find_feasible(target)
        proof.landings[target.uid] = {world.nodes.names[slot] for slot in np.flatnonzero(mask).tolist()}
        node = next((name for name in emptied if name in proof.landings[target.uid]), None)
        if node is None:
            return False
        world.place(target, node, state)
    return not any(draws.slots or draws.preempts for draws in map(world.find_draws, others))
