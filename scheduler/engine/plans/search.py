"""Finds the fewest moves after which pods fit: sets of changes by size, and for each an order and destinations.

A change is a pod that moves, a pod that ends because its workload is scaled down, or a cordoned node that is
uncordoned. First plans come from likely sets, smaller ones first: the search starts from the nodes that lack the least,
which pods must leave there, and what must leave where those, or further targets, have to go. Then all smaller sets are
tried, where they are not too many, for a smaller plan or the proof that there is none.

A sequence that fits on paper becomes a plan when `verification` proves it for every draw. Where a run goes wrong
because a displaced pod lands on another node than the search had in mind, that node is cordoned for the step, and the
plan is verified again.

Owns: candidates, their order, the bounds, the steps that force a draw. Does not own: budgets of the answer
(`fitting`), decisions (`world`).

Invariant: a returned plan was verified, and `Bound` claims only what was searched in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, islice
from math import comb
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects import requests
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plans.counting_proof import prove_by_room
from scheduler.engine.plans.goals import Goal
from scheduler.engine.plans.movable import IMPOSSIBLE, count_leaving, helped_only_by_room, read_amount
from scheduler.engine.plans.time_limit import TimeOverError
from scheduler.engine.plans.verification import (
    CORDON,
    CREATE,
    DISPLACED,
    MAX_STATES,
    MOVE,
    SCALE_DOWN,
    TARGET_PENDING,
    UNCORDON,
    PlannedStep,
    Proof,
    Tracked,
    UnprovenError,
    Verification,
)
from scheduler.engine.plans.world import World
from scheduler.engine.suggestions.check import fits_without
from scheduler.engine.whatif.budgets import Budgets

MAX_SETS: Final = 60_000  # of one size, each of which takes 0.1 to 1 ms; larger numbers are searched from the nodes
MAX_QUICK_SETS: Final = 1000  # of one size, which are all tried before a first plan is shown
MAX_COMPARED: Final = 2000  # changes; of more, two are too many to try all, and comparing each takes 40 us
MAX_FORCED: Final = 12  # cordons that are added to one plan
MAX_ATTEMPTS: Final = 12  # sequences of one set that are verified
MAX_FIRST_ATTEMPTS: Final = 4  # the same, while first plans are looked for
MAX_FIRST_STATES: Final = 200  # of one set, in which some of its pods were moved, while first plans are looked for
MAX_PLANS: Final = 3
MAX_DESTINATIONS: Final = 4  # of a pod, in a search that is not exhaustive
MAX_RIVALS: Final = 8  # kinds of other waiting pods that are tried before a proof, which tries all
MAX_SETS_OF_NODE: Final = 24
MAX_SPARE: Final = 6  # changes beyond those of a set, from which sets for a goal are chosen
MAX_EXPLORED_NODES: Final = 60  # in larger clusters many nodes are equally good, and plans have too many runs
MAX_NODES: Final = 64  # from which a search that is not exhaustive starts
EXHAUSTIVE, RELAXATION, NOT_PROVEN = "Exhaustive", "Relaxation", "NotProven"
FREES_TOO_LITTLE: Final = "it frees too little on every suitable node"


@dataclass(frozen=True, eq=False)
class Change:
    """One change: `pod` moves away from `node` or ends there, or `node` is uncordoned."""

    kind: str
    node: str
    pod: PodInfo | None = None

    @property
    def has_claims(self) -> bool:
        """Whether the change's pod has resource claims."""
        return self.pod is not None and bool(self.pod.pod.spec.resource_claims)

    @cached_property
    def key(self) -> object:
        """What alike changes share: pods of one node and controller that nothing else tells apart."""
        pod = self.pod
        if pod is None or pod.has_storage or self.has_claims:
            return self.kind, self.node, pod.uid if pod else ""
        return self.kind, self.node, Tracked(pod, DISPLACED).key, pod.pod.status.phase


class Move(NamedTuple):
    """A change in a sequence, and the node that its pod's successor gets; "" if there is none."""

    change: Change
    to: str


@dataclass
class Bound:
    """What is known about plans with fewer changes.

    `kind` is EXHAUSTIVE if all `sets` of fewer changes were tried, RELAXATION if fewer than `moves` changes cannot do
    for the `reason`, else NOT_PROVEN with the `reason`.
    """

    kind: str = NOT_PROVEN
    moves: int = 0
    sets: int = 0
    reason: str = ""


@dataclass
class FoundPlan:
    """A plan that was verified: its changes in order, all steps, and where pods land."""

    moves: list[Move]
    steps: list[PlannedStep]
    proof: Proof


@dataclass
class SearchResult:
    """Plans of `size` changes, the best first, and what is proven about smaller ones."""

    plans: list[FoundPlan] = field(default_factory=list)
    size: int = 0
    bound: Bound = field(default_factory=Bound)
    failures: Counter[str] = field(default_factory=Counter)  # of sequences, by what went wrong


class PlanSearch:
    """The search for plans after which the targets have nodes."""

    def __init__(
        self,
        world: World,
        targets: Sequence[PodInfo],
        verification: Verification,
        budgets: Budgets,
        changes: Sequence[Change],
        max_changes: int,
        *,
        exist: bool = True,
        min_targets: int = 0,
        goal: Goal | None = None,
    ) -> None:
        """Prepare the search for plans of at most `max_changes` of these changes.

        `exist` says that the targets wait already; otherwise they are created after the other steps.
        """
        self._goal = goal
        self._world, self._targets, self._verification = world, targets, verification
        self._budgets, self._exist = budgets, exist
        self._needed = min_targets or len(targets)
        claims = Counter(name for target in targets for name in _list_shared_claims(target))
        self._share_claims = any(count > 1 for count in claims.values())
        self._alike = len({target.spec_digest for target in targets}) == 1
        self._room_only = bool(targets) and all(map(helped_only_by_room, targets))
        self._resources = world.list_counted_resources(targets[0]) if targets else []
        self.result = SearchResult()
        self._changes = changes
        self._counts = count_sets(changes, max_changes)
        self._least: tuple[int, str] | None = None  # the fewest changes that may do, and why; None: not known yet
        self._complete = set[int]()  # sizes of which all sets were tried
        self._unproven: Counter[int] = Counter()  # sets by size with a sequence that fits by requests and does not hold
        self.tried, self._size = 0, 0
        self._ended = ""  # why a turn of the search ended early

    def find(self) -> None:
        """Look for plans, and stop at the first size of which some hold; smaller ones may exist."""
        self._try_sizes(range(len(self._counts)), narrow=True)

    def improve(self) -> None:
        """Look for plans with fewer changes than those of the result, in all sets of changes that are not too many."""
        if self.result.bound.kind == NOT_PROVEN:
            smaller = range(self.result.size if self.result.plans else len(self._counts))
            self._try_sizes([size for size in smaller if self._counts[size] <= MAX_SETS], narrow=False)

    def _try_sizes(self, sizes: Iterable[int], *, narrow: bool) -> None:
        """Try sets of these sizes until some have plans: all sets and orders, or with `narrow` the likely ones."""
        try:
            self._least = self._least or self._count_least()
            for size in sizes:
                if size >= self._least[0]:
                    self._try_sets(size, narrow=narrow)
                if self.result.plans and self.result.size == size:
                    break
        except TimeOverError as e:
            self._ended = str(e)
        self.result.bound = self._compute_bound()

    def _try_sets(self, size: int, *, narrow: bool) -> None:
        """Try sets of a size until there are enough plans, which replace larger ones in the result."""
        plans: list[FoundPlan] = []
        some = narrow and self._counts[size] > MAX_QUICK_SETS
        sets = self._list_sets(self._changes, size) if some else list_sets(self._changes, size)
        self._size, self._unproven[size] = size, 0
        with closing(sets):
            for chosen in sets:
                self._world.limit.check()
                self.tried += 1
                plan = self._try(chosen, narrow=narrow)
                if plan is not None:
                    plans.append(plan)
                    self.result.size, self.result.plans = size, plans
                    self._world.limit.note_plan(size)
                    if len(plans) >= MAX_PLANS:
                        return
        if not narrow:
            self._complete.add(size)

    def _compute_bound(self) -> Bound:
        """Return what is known about plans that are smaller than those of the result.

        Without plans, the bound is about plans of at most as many changes as a plan may have.
        """
        (least, why), plans = self._least or (0, ""), self.result.plans
        size = self.result.size if plans else len(self._counts)
        if plans and size <= 1:
            return Bound(EXHAUSTIVE, size, 1)  # the targets do not fit as it is
        if size <= least:
            return Bound(RELAXATION, size if plans else least, 0, why)
        smaller, unproven = range(least, size), 0
        reason = self._ended or "not every smaller set of changes was tried"
        if self._complete.issuperset(smaller):
            unproven = sum(self._unproven[each] for each in smaller)
            if self._exact and not unproven:
                return Bound(EXHAUSTIVE, size, sum(self._counts[:size]))
            reason = f"{unproven} smaller sets of changes fit on paper, and do not hold for every draw"
            if not self._exact:
                reason = "the pods are not alike, so their placement was not searched in full"
        return Bound(NOT_PROVEN, size if plans else size - 1, self.tried, reason)

    @property
    def _exact(self) -> bool:
        """Whether the test that the targets fit, or that the goal is reached, has no false negative."""
        return len(self._targets) <= 1 or (
            self._alike and self._room_only and not any(target.terms for target in self._targets)
        )

    def _count_least(self) -> tuple[int, str]:
        """Return how many changes there must be at least, and why fewer do not do."""
        least, why = 0, ""
        if self._goal is not None:
            least, why = self._goal.count_least_moves()
        elif self._room_only and len(self._targets) == 1:
            least, why = self._bound_by_room(self._changes), FREES_TOO_LITTLE
        if least > len(self._changes):  # all of them are not enough; without any change, that says why
            least = IMPOSSIBLE if self._changes else 0
        return least, why

    # --- one set ----------------------------------------------------------------------------------------------------

    def _try(self, chosen: Sequence[Change], *, narrow: bool) -> FoundPlan | None:
        """Return a plan of exactly these changes, or None if none holds; the result counts what failed."""
        if _repeats_pod(chosen) or not self._may_fit(chosen):
            return None
        with closing(self._list_sequences(chosen, narrow=narrow)) as sequences:
            first = list(islice(sequences, MAX_FIRST_ATTEMPTS if narrow else MAX_ATTEMPTS))
        for moves in first:
            if moves is None:
                self.result.failures[TARGET_PENDING] += 1
                continue
            plan = self._prove(moves)
            if plan is not None:
                return plan
        self._unproven[self._size] += bool(first)
        return None

    def _may_fit(self, chosen: Sequence[Change]) -> bool:
        """Return whether the targets fit if the pods of these changes are gone; True if that says nothing."""
        if self._goal is not None:
            return self._may_reach(self._goal, chosen)
        if not self._room_only:
            return True
        if not self._has_room(chosen):
            return False
        with self._world.tried():
            for change in chosen:
                self._leave(change)
            return self.fits()

    def _may_reach(self, goal: Goal, left: Sequence[Change]) -> bool:
        """Return whether the goal may be reached by these changes, wherever their pods land."""
        with self._world.tried():
            for change in left:
                self._leave(change)
            return goal.may_be_reached(len(left))

    def _leave(self, change: Change) -> None:
        if change.pod is None:
            self._world.set_schedulable((change.node,), True)
        else:
            self._world.remove(change.pod, change.node)

    def fits(self) -> bool:
        """Return whether enough targets find a node one after the other, and the goal is reached.

        The first feasible node of each will do, unless targets share a claim: then the first one's node decides.
        """
        if self._goal is not None and not self._goal.is_reached():
            return False
        if not self._share_claims:
            return self._fit_in_order(None)
        mask, _ = self._world.find_feasible(self._targets[0])
        return any(map(self._fit_in_order, np.flatnonzero(mask).tolist()))

    def _fit_in_order(self, first_slot: int | None) -> bool:
        """Return whether enough targets find a node one after the other, the first one in this slot if one is given."""
        placed = 0
        with self._world.tried():
            for number, target in enumerate(self._targets):
                mask, state = self._world.find_feasible(target)
                slots = np.flatnonzero(mask)
                if len(slots):
                    placed += 1
                    slot = int(slots[0]) if number or first_slot is None else first_slot
                    self._world.place(target, self._world.nodes.names[slot], state)
                if placed >= self._needed or placed + len(self._targets) - number - 1 < self._needed:
                    break
        return placed >= self._needed

    def _list_sequences(self, chosen: Sequence[Change], *, narrow: bool) -> Generator[list[Move] | None, None, None]:
        """Yield orders of these changes with destinations, such that each pod fits there and the targets fit then.

        Yields None for one after which another waiting pod may take the room of the targets.
        """
        seen: set[object] = set()
        freed = {change.node for change in chosen}

        def extend(left: tuple[Change, ...], moves: list[Move], budgets: Budgets) -> Iterator[list[Move] | None]:
            placed = Counter((move.change.key, move.to) for move in moves)
            claiming = tuple(move for move in moves if move.change.has_claims)  # their order decides on the devices
            signature = (frozenset(Counter(change.key for change in left).items()), frozenset(placed.items()), claiming)
            if signature in seen or (narrow and len(seen) >= MAX_FIRST_STATES):
                return
            seen.add(signature)
            if self._goal is not None and not self._may_reach(self._goal, left):
                return
            if not left:
                if self.fits():
                    yield [*moves] if self._outlasts_rivals() else None
                return
            for change in left:
                rest = tuple(each for each in left if each is not change)
                if change.pod is None:
                    mark = self._world.mark()
                    self._leave(change)
                    yield from extend(rest, [*moves, Move(change, "")], budgets)
                    self._world.undo(mark)
                    continue
                after = budgets.copy()
                if after.evict(change.pod.pod) is not None:
                    continue
                mark = self._world.mark()
                self._leave(change)
                if change.kind == SCALE_DOWN:
                    yield from extend(rest, [*moves, Move(change, "")], after)
                else:
                    after.add_ready(change.pod.pod)
                    successor = self._create_successor(change)
                    for node, state in self._list_destinations(change, successor, freed, narrow=narrow):
                        inner = self._world.mark()
                        self._world.place(successor, node, state)
                        yield from extend(rest, [*moves, Move(change, node)], after)
                        self._world.undo(inner)
                self._world.undo(mark)

        with self._world.tried():
            yield from extend(tuple(chosen), [], self._budgets)

    def _outlasts_rivals(self) -> bool:
        """Return whether the targets still fit after another waiting pod took one of its best nodes, or several did.

        A proof tries that too, with all of them. One that cannot succeed is not worth its runs.
        """
        for alike in islice(self._verification.others.values(), MAX_RIVALS):
            draws = self._world.find_draws(alike[0])
            for slot in draws.slots[:MAX_DESTINATIONS]:
                assert draws.result is not None
                with self._world.tried():
                    self._world.place(alike[0], self._world.nodes.names[slot], draws.result.state)
                    if not self.fits():
                        return False
        with self._world.tried():
            self._place_rivals()
            return self.fits()

    def _place_rivals(self) -> None:
        """Place other waiting pods, each on one of its best nodes, those where a target fits; the rest waits on."""
        kinds = {target.spec_digest: target for target in self._targets}.values()
        for alike in islice(self._verification.others.values(), MAX_RIVALS):
            for pod in alike:
                draws = self._world.find_draws(pod)
                wanted = np.any([self._world.find_feasible(target)[0] for target in kinds], axis=0)
                slot = next((slot for slot in draws.slots if wanted[slot]), None)
                if slot is None:
                    break
                assert draws.result is not None
                self._world.place(pod, self._world.nodes.names[slot], draws.result.state)

    def _create_successor(self, change: Change) -> PodInfo:
        """Return the pod that replaces the change's pod, whose claims of templates now exist."""
        assert change.pod is not None
        return self._world.generate_claims(self._verification.replacement_of(change.pod))

    def _list_destinations(
        self, change: Change, successor: PodInfo, freed: Container[str], *, narrow: bool
    ) -> list[tuple[str, CycleState]]:
        """Return the nodes where the successor of a pod that is gone fits, except its own.

        The best ones come first, and of others those that the plan does not free.
        """
        mask, state = self._world.find_feasible(successor)
        names = [self._world.nodes.names[slot] for slot in np.flatnonzero(mask).tolist()]
        names = [name for name in names if name != change.node]
        if len(names) > 1:
            draws = self._world.find_draws(successor)
            best = {self._world.nodes.names[slot] for slot in draws.slots}
            rank = (lambda _name: 0) if self._goal is None else self._goal.rank_nodes()
            names.sort(key=lambda name: (rank(name), name not in best, name in freed))
        return [(name, state) for name in (names[:MAX_DESTINATIONS] if narrow else names)]

    # --- proving ----------------------------------------------------------------------------------------------------

    def _prove(self, moves: Sequence[Move]) -> FoundPlan | None:
        """Return the plan of a sequence with the steps that force it, or None if no such steps make it hold.

        Where many nodes fit, all runs are too many, and counting is tried first.
        """
        large = np.count_nonzero(self._world.nodes.live) > MAX_EXPLORED_NODES
        plan = self._prove_by_room(moves) if large else None
        plan = plan or self._prove_by_runs(moves, MAX_STATES // 10 if large else MAX_STATES)
        return plan if plan is not None or large else self._prove_by_room(moves)

    def _prove_by_room(self, moves: Sequence[Move]) -> FoundPlan | None:
        leaving = [PlannedStep(change.kind, (), change.pod, change.node, to) for change, to in moves]
        if self._goal is not None:
            proven = self._goal.prove(self._verification, leaving)
        else:
            proven = prove_by_room(self._world, self._verification, leaving, exist=self._exist)
        return None if proven is None else FoundPlan(list(moves), *proven)

    def _prove_by_runs(self, moves: Sequence[Move], max_states: int) -> FoundPlan | None:
        cordons: list[set[str]] = [set() for _ in moves]
        for _ in range(MAX_FORCED):
            steps, owners = self._build_steps(moves, cordons)
            try:
                proof = self._verification.run(steps, max_states)
            except UnprovenError as e:
                self.result.failures[str(e)] += 1
                return None
            failure = proof.failure
            if failure is None:
                return FoundPlan(list(moves), steps, proof)
            stray = next(
                (
                    (owners[landing.pod.step], landing.node)
                    for landing in failure.landings
                    if landing.pod.role == DISPLACED and landing.node != steps[landing.pod.step].to
                ),
                None,
            )
            if stray is None or stray[1] in cordons[stray[0]]:
                self.result.failures[failure.kind] += 1
                return None
            cordons[stray[0]].add(stray[1])
        self.result.failures["Forced"] += 1
        return None

    def _build_steps(
        self, moves: Sequence[Move], cordons: Sequence[set[str]]
    ) -> tuple[list[PlannedStep], dict[int, int]]:
        """Return the steps of a plan, and the index of the move that belongs to each step of a move.

        A cordon stays until its node is a destination, or until the end.
        """
        steps: list[PlannedStep] = []
        owners: dict[int, int] = {}
        now: set[str] = set()
        for number, ((change, to), wanted) in enumerate(zip(moves, cordons, strict=True)):
            keep = {name for name in now if name != to} | wanted
            if keep - now:
                steps.append(PlannedStep(CORDON, tuple(sorted(keep - now))))
            if now - keep:
                steps.append(PlannedStep(UNCORDON, tuple(sorted(now - keep))))
            now = keep
            owners[len(steps)] = number
            if change.pod is None:
                steps.append(PlannedStep(UNCORDON, (change.node,)))
            else:
                steps.append(PlannedStep(change.kind, (), change.pod, change.node, to))
        if now:
            steps.append(PlannedStep(UNCORDON, tuple(sorted(now))))
        if not self._exist:
            steps.append(PlannedStep(CREATE))
        return steps, owners

    # --- room -------------------------------------------------------------------------------------------------------

    @cached_property
    def _missing(self) -> NDArray[np.int64]:
        """What each node lacks for a target; it is computed once, because the copy is as before between tries."""
        return self._world.compute_missing(self._targets[0], self._resources)

    def _has_room(self, chosen: Sequence[Change]) -> bool:
        """Return whether the nodes have enough for the targets without the pods of these changes."""
        if not self._resources:
            return True
        index, missing = self._world.nodes.index, dict[int, NDArray[np.int64]]()
        opened = {index[change.node] for change in chosen if change.pod is None}
        for change in chosen:
            column = missing.setdefault(index[change.node], self._missing[:, index[change.node]].copy())
            if change.pod is not None:
                column -= [read_amount(change.pod, name) for name in self._resources]
        room = int(self._room_now.sum())
        for slot, column in missing.items():
            if slot in opened or self._open_now[slot]:
                room += int(self._count_room(column)) * bool(self._admitting[slot]) - int(self._room_now[slot])
        return room >= (self._needed if self._alike else 1)

    def _count_room(self, missing: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for how many targets, at most all, a node has room that lacks this for one, along the first axis."""
        amounts = np.array([read_amount(self._targets[0], name) for name in self._resources], np.int64)
        amounts = amounts.reshape(-1, *[1] * (missing.ndim - 1))
        room: NDArray[np.int64] = np.clip(((amounts - missing) // amounts).min(axis=0), 0, self._needed)
        return room

    @cached_property
    def _open_now(self) -> NDArray[np.bool_]:
        """The nodes that are suitable for a target by their Node object alone, without any change."""
        return self._world.find_admitting(self._targets[0])

    @cached_property
    def _room_now(self) -> NDArray[np.int64]:
        """For how many targets each node has room, without any change."""
        return self._count_room(self._missing) * self._open_now

    @cached_property
    def _admitting(self) -> NDArray[np.bool_]:
        """The nodes that no change leaves as unsuitable for a target as they are, such as those with another taint."""
        with self._world.tried():
            for change in self._changes:
                if change.pod is None:
                    self._leave(change)
            return self._world.find_admitting(self._targets[0])

    @cached_property
    def _nodes_with_room(self) -> NDArray[np.bool_]:
        """The nodes that have enough for a target as they are; they reject it for a reason that a change may lift."""
        return np.logical_and(np.all(self._missing <= 0, axis=0), self._admitting)

    def _count_leaving(self, changes: Sequence[Change]) -> dict[str, int]:
        """Return for each node how many pods at least must leave it until it has room for a target."""
        on_node: dict[str, list[PodInfo]] = {}
        cordoned = {change.node for change in changes if change.pod is None}
        for change in changes:
            if change.pod is not None:
                on_node.setdefault(change.node, []).append(change.pod)
        missing, counts = self._missing, dict[str, int]()
        for name in {*on_node, *cordoned}:
            slot = self._world.nodes.index[name]
            if not self._admitting[slot]:
                continue
            column = missing[:, slot].tolist()
            needs = (
                count_leaving(on_node.get(name, ()), resource, lacking)
                for resource, lacking in zip(self._resources, column, strict=True)
            )
            counts[name] = max(needs, default=0) + (name in cordoned)
        return counts

    def _bound_by_room(self, changes: Sequence[Change]) -> int:
        """Return how many changes there must be at least, by the resources alone."""
        if not self._resources:
            return 1
        counts = self._count_leaving(changes)
        untouched = np.flatnonzero(self._nodes_with_room)
        rejected_otherwise = any(self._world.nodes.names[slot] not in counts for slot in untouched)
        smallest = min(counts.values(), default=IMPOSSIBLE)
        return 1 if rejected_otherwise else max(1, smallest)

    # --- from the nodes ---------------------------------------------------------------------------------------------

    def _list_sets(self, changes: Sequence[Change], size: int) -> Generator[tuple[Change, ...], None, None]:
        """Yield sets of changes that free a node for a target, and further ones where those pods must go."""
        if self._goal is not None:
            yield from self._list_sets_for_goal(self._goal, changes, size)
            return
        by_node: dict[str, list[Change]] = {}
        for change in changes:
            by_node.setdefault(change.node, []).append(change)
        target = self._targets[0]
        for chosen in self._free_nodes(target, by_node, size):
            if len(chosen) == size:
                yield chosen
            else:
                yield from self._extend(chosen, by_node, size)

    def _list_sets_for_goal(self, goal: Goal, changes: Sequence[Change], size: int) -> Iterator[tuple[Change, ...]]:
        """Yield sets of the changes that serve the goal most, each chosen as if the earlier ones were made."""
        left, ranked = list(changes), list[Change]()
        with self._world.tried():
            while left and len(ranked) < size + MAX_SPARE:
                rank = goal.rank_nodes()
                best = max(left, key=lambda change: rank(change.node))
                left.remove(best)
                ranked.append(best)
                self._leave(best)
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
                self._leave(change)
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
                self._leave(change)
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
                    if _repeats_pod(chosen) or not self._frees(pod, slot, pods):
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
                    self._leave(change)
                return bool(self._world.find_feasible(pod)[0][slot])
        leaving = [change.pod for change in chosen if change.pod is not None]
        return fits_without(framework, pod, self._world.nodes, slot, leaving)

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
        """Return the sort key of a pod that may leave.

        The least important comes first, then one with claims if `pod` has some, then the smallest that suffices.
        """
        assert change.pod is not None
        no_claims = bool(pod.pod.spec.resource_claims) and not change.has_claims
        return change.pod.priority, no_claims, sum(change.pod.requests.get(name, 0) for name in pod.requests)


def count_sets(changes: Sequence[Change], largest: int) -> list[int]:
    """Return how many sets `list_sets` yields of each size from 0 to `largest`; of many changes, alike ones apart."""
    if len(changes) > MAX_COMPARED:
        return [comb(len(changes), size) for size in range(largest + 1)]
    counts = [1, *[0] * largest]
    for alike in Counter(change.key for change in changes).values():
        counts = [sum(counts[max(0, each - alike) : each + 1]) for each in range(largest + 1)]
    return counts


def list_sets(changes: Sequence[Change], size: int) -> Generator[tuple[Change, ...], None, None]:
    """Yield the sets of some size, one of those that differ only in which of several alike changes they have."""
    groups: dict[object, list[Change]] = {}
    for change in changes:
        alike = groups.setdefault(change.key, [])
        alike.insert(0 if change.kind == SCALE_DOWN else len(alike), change)  # not those that move in the same set

    def choose(kinds: list[list[Change]], size: int) -> Generator[tuple[Change, ...], None, None]:
        if size == 0:
            yield ()
            return
        for number, alike in enumerate(kinds):
            for count in range(min(size, len(alike)), 0, -1):
                for rest in choose(kinds[number + 1 :], size - count):
                    yield (*alike[:count], *rest)

    return choose(list(groups.values()), size)


def _list_shared_claims(pod: PodInfo) -> Iterator[tuple[str, str]]:
    """Yield the namespace and name of each claim that the pod's spec names, which other pods may name too."""
    for claim in pod.pod.spec.resource_claims or ():
        if claim.resource_claim_name:
            yield pod.namespace, claim.resource_claim_name


def _repeats_pod(changes: Sequence[Change]) -> bool:
    """Return whether a pod would both move and end."""
    uids = [change.pod.uid for change in changes if change.pod is not None]
    return len(set(uids)) < len(uids)
