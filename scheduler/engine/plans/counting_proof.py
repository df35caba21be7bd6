"""The proof of a plan by counting, for plans with too many runs to carry out each.

The nodes that pods leave are cordoned until all of them are gone. Then nothing lands there, and each displaced pod has
a node as long as more nodes fit it than other pods can take meanwhile: each of those takes at most one. At the end the
targets find what is free on these nodes, independently of the others.

It needs pods that are decided by their node alone: without pod affinity, spread constraints that reject, volumes and
claims. A target or another waiting pod does not preempt on the way: a displaced pod that is less important only adds to
a node what preemption would take away again. At the end each other waiting pod is decided, without and with the
targets.

An order of drains is proven likewise, for each displaced pod: the other pods that may land on the nodes that fit it are
too small, in sum, to fill all of these.

Owns: when the proof applies, and the steps. Does not own: the exploration of all runs (`verification`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.engine.objects import requests
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plans.movable import is_decided_by_node_alone, read_amount
from scheduler.engine.plans.verification import (
    CORDON,
    CREATE,
    MOVE,
    SCALE_DOWN,
    UNCORDON,
    PlannedStep,
    Proof,
    Verification,
    identify_kind,
)
from scheduler.engine.plans.world import Mask, World
from scheduler.engine.whatif.owners import build_replacement, is_replaced

MAX_SHARES: Final = 2_000_000  # kinds of pods times nodes; beyond, a pod's node is not proven


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
    if any(world.has_unknown_rules(pod) for pod in (*targets, *others, *(pod for _, pod in displaced))):
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
    if any(map(world.has_unknown_rules, (*targets, *others))):
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

    The emptied nodes must take all targets, since other pods may have taken the room elsewhere before. Several targets
    must be alike: then it does not matter which of them a node takes.
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


def is_drain_order_certain(
    world: World, waiting: Sequence[PodInfo], leaving: Mapping[str, Sequence[PodInfo]], *, rolling: bool
) -> bool:
    """Return True if each displaced pod is certain to find a node, in each order of pods and with each tie-break.

    `leaving` are the pods that the drains evict, by node in the order of the drains. The nodes are all cordoned before
    the first drain, or with `rolling` each until its drain is over. A pod that was displaced may be on a node that is
    drained later, and be displaced again.
    """
    displaced = {node: [pod for pod in pods if is_replaced(pod)] for node, pods in leaving.items()}
    lowest = min((pod.priority for pods in world.nodes.pods for pod in pods.values()), default=0)
    if any(pod.priority > lowest and pod.pod.spec.preemption_policy != "Never" for pod in waiting):
        return False
    concerned = [*waiting, *(pod for pods in displaced.values() for pod in pods)]
    if any(not is_decided_by_node_alone(pod) or world.has_unknown_rules(pod) for pod in concerned):
        return False
    waits = {identify_kind(pod) for pod in waiting}
    loose = defaultdict[object, list[PodInfo]](list)  # the waiting and the displaced pods, those of one kind together
    for pod in waiting:
        loose[identify_kind(pod)].append(pod)
    reach = defaultdict[object, Mask](lambda: np.zeros(world.nodes.slots, np.bool_))  # the nodes that they may be on
    with world.tried():
        for node, pods in leaving.items():
            for pod in pods:
                world.remove(pod, node)
            if rolling and any(world.find_feasible(loose[kind][0])[0].any() for kind in waits):
                return False  # a later drain may evict it, or be refused
            cordoned, slot = [node] if rolling else [*leaving], world.nodes.index[node]
            world.set_schedulable(cordoned, False)
            moving = {kind for kind, mask in reach.items() if mask[slot]}
            for pod in displaced[node]:
                successor = build_replacement(pod.pod, 0)
                kind = identify_kind(successor)
                moving.add(kind)
                loose[kind].append(successor)
            masks = {kind: world.find_feasible(loose[kind][0])[0] for kind in moving | waits}
            if any(mask[[world.nodes.index[name] for name in cordoned]].any() for mask in masks.values()):
                return False  # it tolerates the cordon
            for kind, mask in masks.items():
                reach[kind] = reach[kind] | mask
                reach[kind][slot] = False
            for kind in moving:
                world.limit.check()
                if len(loose) * int(masks[kind].sum()) > MAX_SHARES:
                    return False
                if not _always_finds_node(world, kind, masks[kind], reach, loose):
                    return False
            if rolling:
                world.set_schedulable(cordoned, True)
    return True


def _always_finds_node(
    world: World,
    own: object,
    mask: Mask,
    reach: Mapping[object, Mask],
    loose: Mapping[object, Sequence[PodInfo]],
) -> bool:
    """Return whether the other loose pods leave a pod of the kind `own` one of the nodes of `mask`, wherever they are.

    They fill a node for it if the shares that they have in filling it add up to 1. Each is on one node at most. So they
    cannot fill all of some nodes if the sum of each one's largest share on these is less than the number of the nodes.
    The nodes that are hardest to fill are tried first, alone and together with the next ones.
    """
    pod, fitting = loose[own][0], np.flatnonzero(mask)
    resources = [requests.PODS, *(name for name, amount in pod.requests.items() if amount)]
    fillers = 1 - world.compute_missing(pod, resources)[:, fitting]  # the least that another pod must take
    counts = np.array([len(pods) - (key == own) for key, pods in loose.items()])
    shares = np.zeros((len(loose), len(fitting)))
    for row, (key, pods) in zip(shares, loose.items(), strict=True):
        other = pods[0]
        amounts = np.array([read_amount(other, name) for name in resources])
        row[:] = np.max(amounts[:, None] / np.maximum(1, fillers), axis=0)
        if any(port.conflicts(each) for port in pod.host_ports for each in other.host_ports):
            row[:] = 1
        row *= reach[key][fitting]
    shares = np.minimum(shares, 1)[:, np.argsort(counts @ shares, kind="stable")]
    sums = counts @ np.maximum.accumulate(shares, axis=1)
    return bool((sums < np.arange(1, len(fitting) + 1) - 1e-9).any())
