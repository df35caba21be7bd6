"""The skew of a workload's pods by its topology spread constraints, which a plan restores.

Pods are counted by the functions of the plugin PodTopologySpread, for `ScheduleAnyway` as for `DoNotSchedule`.

A plan whose runs are too many is proven by counting: all other domains are cordoned while pods move to one domain. Then
each of them lands there as long as more nodes fit it than others can take, and which of these nodes it gets does not
matter to the skew.

Owns: skews, the least number of moves, the proof by counting. Does not own: the search for moves (`search`), decisions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from herodotus_answers.plans import SpreadSkew
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plans.movable import is_decided_by_node_alone
from scheduler.engine.plans.verification import CORDON, MOVE, UNCORDON, PlannedStep, Proof, Verification
from scheduler.engine.plans.world import World
from scheduler.engine.plugins.pod_topology_spread.constraints import (
    HARD,
    SOFT,
    Constraint,
    Keys,
    collect_keys,
    count_domains,
    count_smallest_domain,
    parse_constraints,
)
from scheduler.engine.rules import Rules

_TOO_LARGE = "the skew stays too large"


class SpreadGoal:
    """The goal that every topology spread constraint of a workload holds, if `pod` is one of its pods."""

    def __init__(self, world: World, pod: PodInfo, rules: Rules) -> None:
        self._world, self._pod = world, pod
        self._constraints: list[tuple[Constraint, Keys]] = []
        for action in (HARD, SOFT):
            parsed = parse_constraints(pod, action, rules)
            self._constraints += [(each, collect_keys(parsed)) for each in parsed]

    def is_reached(self) -> bool:
        """Return whether every constraint's skew is at most its maxSkew."""
        return all(skew <= constraint.max_skew for constraint, _, skew in self._measure())

    def _measure(self) -> Iterator[tuple[Constraint, dict[str, int], int]]:
        """Yield each constraint with the pods of each domain, and the skew that the scheduler would compute."""
        for constraint, keys in self._constraints:
            domains = count_domains(constraint, keys, self._pod, self._world.nodes)
            counts = dict(sorted(domains.list_present()))
            skew = max(counts.values()) - count_smallest_domain(constraint, domains) if counts else 0
            yield constraint, counts, skew

    def list_skews(self) -> list[SpreadSkew]:
        """Return each constraint with its present skew."""
        return [
            {"topologyKey": constraint.key, "maxSkew": constraint.max_skew, "before": skew, "domains": counts}
            for constraint, counts, skew in self._measure()
        ]

    def count_least_moves(self) -> tuple[int, str]:
        """Return how many moves there must be at least: each takes a pod from one domain, and adds it to another."""
        least = 0
        for constraint, counts, skew in self._measure():
            if skew > constraint.max_skew:
                lowest = [0] if len(counts) < constraint.min_domains else range(max(counts.values()) + 1)
                needed = (_count_moves(counts, low, low + constraint.max_skew) for low in lowest)
                least = max(least, min(needed))
        return least, _TOO_LARGE

    def may_be_reached(self, additions: int) -> bool:
        """Return whether so many more pods may be enough to fill the emptiest domains."""
        for constraint, counts, skew in self._measure():
            if skew > constraint.max_skew:
                low = max(counts.values()) - constraint.max_skew
                few = len(counts) < constraint.min_domains
                if few or sum(max(0, low - count) for count in counts.values()) > additions:
                    return False
        return True

    def rank_nodes(self) -> Callable[[str], int]:
        """Return the function that says how many pods there are in a node's domains."""
        measured = [(constraint.key, counts) for constraint, counts, _ in self._measure()]

        def rank(name: str) -> int:
            labels = self._world.node(name).metadata.labels or {}
            return sum(counts.get(labels.get(key, ""), 0) for key, counts in measured)

        return rank

    # --- the proof by counting --------------------------------------------------------------------------------------

    def prove(
        self, verification: Verification, leaving: Sequence[PlannedStep]
    ) -> tuple[list[PlannedStep], Proof] | None:
        """Return the steps of these moves, by the domain that each is to reach, with the proof, or None."""
        world, moved = self._world, [step.pod for step in leaving if step.kind == MOVE and step.pod is not None]
        others = [pods[0] for pods in verification.others.values()]
        if len(moved) < len(leaving) or not self._may_be_counted(moved, others):
            return None
        by_domain: defaultdict[str, list[PlannedStep]] = defaultdict(list)
        for step in leaving:
            by_domain[self._find_domain(step.to)].append(step)
        steps, proof = list[PlannedStep](), Proof(None, {}, 0)
        with world.tried():
            for domain, moves in by_domain.items():
                closed = self._close_others(verification, domain, moves)
                if not self._move_all(verification, domain, moves, proof):
                    return None
                world.set_schedulable(closed, True)
                steps += [PlannedStep(CORDON, closed)] if closed else []
                steps += moves
                steps += [PlannedStep(UNCORDON, closed)] if closed else []
            if any(world.find_draws(pod).preempts for pod in others) or not self.is_reached():
                return None
        return steps, proof

    def _may_be_counted(self, moved: Sequence[PodInfo], others: Sequence[PodInfo]) -> bool:
        """Return whether the domain of each moved pod alone decides, and no waiting pod counts for a constraint."""
        keys = {constraint.key for constraint, _ in self._constraints}
        if len(keys) != 1 or any(constraint.honor_taints for constraint, _ in self._constraints):
            return False
        if not all(is_decided_by_node_alone(pod, but_for_spread=True) for pod in moved):
            return False
        if any(c.topology_key not in keys for pod in moved for c in pod.pod.spec.topology_spread_constraints or ()):
            return False
        if not all(map(is_decided_by_node_alone, others)):
            return False
        if any(c.selects(pod) and pod.namespace == self._pod.namespace for c, _ in self._constraints for pod in others):
            return False
        return not any(self._world.has_unknown_rules(pod) for pod in (*moved, *others))

    def _find_domain(self, node: str) -> str:
        return (self._world.node(node).metadata.labels or {}).get(self._constraints[0][0].key, "")

    def _close_others(self, verification: Verification, domain: str, moves: Sequence[PlannedStep]) -> tuple[str, ...]:
        """Cordon the nodes of other domains on which one of the pods could land, and return them."""
        nodes, slots = self._world.nodes, set[int]()
        with self._world.tried():
            for step in moves:
                assert step.pod is not None
                self._world.remove(step.pod, step.node)
            for step in moves:
                assert step.pod is not None
                mask, _ = self._world.find_feasible(verification.replacement_of(step.pod))
                slots.update(np.flatnonzero(mask).tolist())
        names = sorted(nodes.names[slot] for slot in slots)
        closed = tuple(name for name in names if self._find_domain(name) != domain)
        self._world.set_schedulable(closed, False)
        return closed

    def _move_all(self, verification: Verification, domain: str, moves: Sequence[PlannedStep], proof: Proof) -> bool:
        """Carry the moves out; return whether each pod lands in the domain, whichever nodes the others take there."""
        world = self._world
        competing = sum(len(pods) for pods in verification.others.values() if world.find_feasible(pods[0])[0].any())
        for number, step in enumerate(moves):
            assert step.pod is not None
            world.terminate(step.pod, step.node)
            successor = verification.replacement_of(step.pod)
            early = {world.nodes.names[slot] for slot in np.flatnonzero(world.find_feasible(successor)[0]).tolist()}
            world.remove(step.pod, step.node)
            mask, state = world.find_feasible(successor)
            names = [world.nodes.names[slot] for slot in np.flatnonzero(mask).tolist()]
            inside = [name for name in names if self._find_domain(name) == domain]
            if len(inside) < len(names) or early - {*inside} or len(inside) <= number + competing:
                return False
            proof.landings[successor.uid] = {*inside}
            world.place(successor, step.to if step.to in inside else inside[0], state)
        return True


def _count_moves(counts: dict[str, int], low: int, high: int) -> int:
    """Return how many moves there must be until every domain has at least `low` and at most `high` pods."""
    too_many = sum(max(0, count - high) for count in counts.values())
    return max(too_many, sum(max(0, low - count) for count in counts.values()))
