"""Chooses sets of changes that probably make a plan: they free a node for a target, and others for what must leave.

Owns: which sets, and their order. Does not own: orders and destinations of a set, or its proof (`search`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterator, Sequence
from itertools import combinations
from typing import Final

import numpy as np

from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects import requests
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plans.changes import Change, list_sets, repeats_pod
from scheduler.engine.plans.goals import Goal
from scheduler.engine.plans.movable import count_leaving, read_amount
from scheduler.engine.plans.verification import MOVE
from scheduler.engine.plans.world import World
from scheduler.engine.suggestions.check import fits_without

MAX_SETS_OF_NODE: Final = 24
MAX_SPARE: Final = 6  # changes beyond those of a set, from which sets for a goal are chosen
MAX_NODES: Final = 64  # on which room is made for one pod


class LikelySets:
    """The sets of changes that are tried first where all sets are too many."""

    def __init__(
        self,
        world: World,
        targets: Sequence[PodInfo],
        changes: Sequence[Change],
        needed: int,
        goal: Goal | None,
        create_successor: Callable[[Change], PodInfo],
        place_rivals: Callable[[], None],
        *,
        share_claims: bool,
    ) -> None:
        """Prepare the choice for `needed` of the targets, or for the goal.

        `create_successor` returns the pod that replaces a displaced one, and `place_rivals` places the other waiting
        pods. `share_claims` says that targets share a claim.
        """
        self._world, self._targets, self._changes = world, targets, changes
        self._needed, self._goal, self._share_claims = needed, goal, share_claims
        self._create_successor, self._place_rivals = create_successor, place_rivals

    def choose(self, size: int) -> Generator[tuple[Change, ...], None, None]:
        """Yield sets of changes that free a node for a target, and further ones where those pods must go."""
        if self._goal is not None:
            yield from self._list_for_goal(self._goal, size)
            return
        by_node: dict[str, list[Change]] = {}
        for change in self._changes:
            by_node.setdefault(change.node, []).append(change)
        for chosen in self._free_nodes(self._targets[0], by_node, size):
            if len(chosen) == size:
                yield chosen
            else:
                yield from self._extend(chosen, by_node, size)

    def _list_for_goal(self, goal: Goal, size: int) -> Iterator[tuple[Change, ...]]:
        """Yield sets of the changes that serve the goal most, each chosen as if the earlier ones were made."""
        left, ranked = [*self._changes], list[Change]()
        with self._world.tried():
            while left and len(ranked) < size + MAX_SPARE:
                rank = goal.rank_nodes()
                best = max(left, key=lambda change: rank(change.node))
                left.remove(best)
                ranked.append(best)
                best.make(self._world)
        yield from list_sets(ranked, size)

    def _extend(
        self, chosen: tuple[Change, ...], by_node: dict[str, list[Change]], size: int
    ) -> Iterator[tuple[Change, ...]]:
        """Yield larger sets, in which other pods leave so that displaced pods or further targets have a node."""
        unplaced = self._find_unplaced(chosen)
        if unplaced is None:
            return
        names = {change.node for change in chosen}
        others = {name: each for name, each in by_node.items() if name not in names}
        with self._world.tried():
            for more in self._free_nodes(unplaced, others, size - len(chosen)):
                both = (*chosen, *more)
                if len(both) == size:
                    yield both
                else:
                    yield from self._extend(both, by_node, size)

    def _find_unplaced(self, chosen: Sequence[Change]) -> PodInfo | None:
        """Return the first pod that fits nowhere after these changes: a target, or the successor of a displaced pod.

        Displaced pods go to other nodes than those that the changes free. If all fit, other waiting pods take the nodes
        of the targets first.
        """
        freed = {self._world.nodes.index[change.node] for change in chosen}
        with self._world.tried():
            for change in chosen:
                change.make(self._world)
            successors = [self._create_successor(change) for change in chosen if change.kind == MOVE]
            if not self._share_claims:
                unplaced = self._place_each(self._targets, frozenset())
                if len(self._targets) - len(unplaced) < self._needed:
                    return unplaced[0]
            homeless = self._place_each(successors, freed)
            if homeless or self._share_claims:
                return homeless[0] if homeless else None
        with self._world.tried():
            for change in chosen:
                change.make(self._world)
            self._place_rivals()
            unplaced = self._place_each(self._targets, frozenset())
            return unplaced[0] if len(self._targets) - len(unplaced) < self._needed else None

    def _place_each(self, pods: Sequence[PodInfo], avoided: Container[int]) -> list[PodInfo]:
        """Place each pod on the first node that fits it, but not in these slots; return those that fit nowhere."""
        unplaced: list[PodInfo] = []
        for pod in pods:
            mask, state = self._world.find_feasible(pod)
            slot = next((slot for slot in np.flatnonzero(mask).tolist() if slot not in avoided), None)
            if slot is None:
                unplaced.append(pod)
            else:
                self._world.place(pod, self._world.nodes.names[slot], state)
        return unplaced

    def _free_nodes(self, pod: PodInfo, by_node: dict[str, list[Change]], most: int) -> Iterator[tuple[Change, ...]]:
        """Yield sets of at most `most` changes of one node after which the pod fits there; the smallest first."""
        ranked = self._rank_nodes(pod, by_node, most)
        framework = self._world.framework(pod.pod)
        if framework is None:
            return
        for need in range(1, most + 1):
            for name in [name for least, name in ranked if least <= need][:MAX_NODES]:
                slot = self._world.nodes.index[name]
                cordoned = [change for change in by_node[name] if change.pod is None]
                if cordoned:
                    if need == 1:
                        yield (cordoned[0],)
                    continue
                largest = sorted(by_node[name], key=lambda change: self._rank_change(change, pod))
                count = 0
                for chosen in combinations(largest, need):
                    self._world.limit.check()
                    if count >= MAX_SETS_OF_NODE:
                        break
                    pods = [change.pod for change in chosen if change.pod is not None]
                    if repeats_pod(chosen) or not self._frees(pod, slot, pods):
                        continue
                    count += 1
                    if self._fits_without(framework, pod, slot, chosen):
                        yield chosen

    def _fits_without(self, framework: Framework, pod: PodInfo, slot: int, chosen: Sequence[Change]) -> bool:
        """Return whether the pod passes all filters on a node after these changes of it.

        A dry run of the filters does not free devices.
        """
        if any(change.has_claims for change in chosen) and pod.pod.spec.resource_claims:
            with self._world.tried():
                for change in chosen:
                    change.make(self._world)
                return bool(self._world.find_feasible(pod)[0][slot])
        leaving = [change.pod for change in chosen if change.pod is not None]
        return fits_without(framework, pod, self._world.nodes, slot, {slot: leaving})

    def _frees(self, pod: PodInfo, slot: int, leaving: Sequence[PodInfo]) -> bool:
        nodes = self._world.nodes
        for name in (requests.PODS, *pod.requests):
            wanted = read_amount(pod, name)
            if name in nodes.resources and wanted:
                free = int(nodes.allocatable(name)[slot]) - int(nodes.requested(name)[slot])
                if free + sum(read_amount(each, name) for each in leaving) < wanted:
                    return False
        return True

    def _rank_nodes(self, pod: PodInfo, by_node: dict[str, list[Change]], most: int) -> list[tuple[int, str]]:
        """Return the nodes that the pod fits after at most `most` pods have left, by how many must leave."""
        nodes, ranked = self._world.nodes, list[tuple[int, str]]()
        names = [name for name in (requests.PODS, *pod.requests) if name in nodes.resources]
        free = {name: nodes.allocatable(name) - nodes.requested(name) for name in names}
        for node, changes in by_node.items():
            slot, leaving = nodes.index[node], [change.pod for change in changes if change.pod is not None]
            needs = (count_leaving(leaving, name, read_amount(pod, name) - int(free[name][slot])) for name in names)
            least = max(1, *needs)
            if least <= most:
                ranked.append((least, node))
        return sorted(ranked)

    def _rank_change(self, change: Change, pod: PodInfo) -> tuple[int, bool, int]:
        """Return the sort key of a pod that the plan may evict.

        The least important comes first, then one with claims if `pod` has some, then the smallest that suffices.
        """
        assert change.pod is not None
        no_claims = bool(pod.pod.spec.resource_claims) and not change.has_claims
        return change.pod.priority, no_claims, sum(change.pod.requests.get(name, 0) for name in pod.requests)
