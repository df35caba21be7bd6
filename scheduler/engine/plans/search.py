"""Finds the fewest moves after which pods fit: sets of changes by size, and for each an order and destinations.

A change is a pod that moves, a pod that ends because its workload is scaled down, or a cordoned node that is
uncordoned. First plans come from likely sets, smaller ones first: the search starts from the nodes that lack the least,
which pods must leave there, and what must leave where those, or further targets, have to go. Then all smaller sets are
tried, where they are not too many, for a smaller plan or the proof that there is none.

A sequence that fits on paper becomes a plan when `verification` proves it for every draw. Where a run goes wrong
because a displaced pod lands on another node than the search had in mind, that node is cordoned for the step, and the
plan is verified again.

Owns: the sizes that are tried, orders and destinations, bounds, the steps that force a draw. Does not own: likely sets
(`likely_sets`), room (`room`), budgets of the answer (`fitting`), decisions (`world`).

Invariant: a returned plan was verified, and `Bound` claims only what was searched in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import numpy as np

from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plans.changes import Change, Move, count_sets, list_sets, repeats_pod
from scheduler.engine.plans.counting_proof import prove_by_room
from scheduler.engine.plans.goals import Goal
from scheduler.engine.plans.likely_sets import LikelySets
from scheduler.engine.plans.movable import IMPOSSIBLE, helped_only_by_room
from scheduler.engine.plans.room import Room
from scheduler.engine.plans.time_limit import TimeOverError
from scheduler.engine.plans.verification import (
    CORDON,
    CREATE,
    DISPLACED,
    MAX_STATES,
    SCALE_DOWN,
    TARGET_PENDING,
    UNCORDON,
    PlannedStep,
    Proof,
    UnprovenError,
    Verification,
)
from scheduler.engine.plans.world import World
from scheduler.engine.whatif.budgets import Budgets

MAX_SETS: Final = 60_000  # of one size, each of which takes 0.1 to 1 ms; of larger numbers, likely ones are tried
MAX_QUICK_SETS: Final = 1000  # of one size, which are all tried before a first plan is shown
MAX_FORCED: Final = 12  # cordons that are added to one plan
MAX_ATTEMPTS: Final = 12  # sequences of one set that are verified
MAX_FIRST_ATTEMPTS: Final = 4  # the same, while first plans are looked for
MAX_FIRST_STATES: Final = 200  # of one set, in which some of its pods were moved, while first plans are looked for
MAX_PLANS: Final = 3
MAX_DESTINATIONS: Final = 4  # of a pod, in a search that is not exhaustive
MAX_RIVALS: Final = 8  # kinds of other waiting pods that are tried before a proof, which tries all
MAX_EXPLORED_NODES: Final = 60  # in larger clusters many nodes are equally good, and plans have too many runs
EXHAUSTIVE, RELAXATION, NOT_PROVEN = "Exhaustive", "Relaxation", "NotProven"
FREES_TOO_LITTLE: Final = "it frees too little on every suitable node"


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
        self._room: Room | None = None  # None: room alone does not help the targets
        if targets and all(map(helped_only_by_room, targets)):
            self._room = Room(world, targets[0], changes, self._needed if self._alike else 1, self._needed)
        self._likely = LikelySets(
            world,
            targets,
            changes,
            self._needed,
            goal,
            self._create_successor,
            self._place_rivals,
            share_claims=self._share_claims,
        )
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
        sets = self._likely.choose(size) if some else list_sets(self._changes, size)
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
            reason = (
                f"{unproven} {'smaller ' if plans else ''}sets of changes fit on paper, and do not hold for every draw"
            )
            if not self._exact:
                reason = "the pods are not alike, so their placement was not searched in full"
        return Bound(NOT_PROVEN, size if plans else size - 1, self.tried, reason)

    @property
    def _exact(self) -> bool:
        """Whether the test that the targets fit, or that the goal is reached, has no false negative."""
        return len(self._targets) <= 1 or (
            self._alike and self._room is not None and not any(target.terms for target in self._targets)
        )

    def _count_least(self) -> tuple[int, str]:
        """Return how many changes there must be at least, and why fewer do not do."""
        least, why = 0, ""
        if self._goal is not None:
            least, why = self._goal.count_least_moves()
        elif self._room is not None and len(self._targets) == 1:
            least, why = self._room.count_least_changes(), FREES_TOO_LITTLE
        if least > len(self._changes):  # all of them are not enough; without any change, that says why
            least = IMPOSSIBLE if self._changes else 0
        return least, why

    # --- one set ----------------------------------------------------------------------------------------------------

    def _try(self, chosen: Sequence[Change], *, narrow: bool) -> FoundPlan | None:
        """Return a plan of exactly these changes, or None if none holds; the result counts what failed."""
        if repeats_pod(chosen) or not self._may_fit(chosen):
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
        if self._room is None:
            return True
        if not self._room.suffices(chosen):
            return False
        with self._world.tried():
            for change in chosen:
                change.make(self._world)
            return self.fits()

    def _may_reach(self, goal: Goal, left: Sequence[Change]) -> bool:
        """Return whether the goal may be reached by these changes, wherever their pods land."""
        with self._world.tried():
            for change in left:
                change.make(self._world)
            return goal.may_be_reached(len(left))

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
                    change.make(self._world)
                    yield from extend(rest, [*moves, Move(change, "")], budgets)
                    self._world.undo(mark)
                    continue
                after = budgets.copy()
                if after.evict(change.pod.pod) is not None:
                    continue
                mark = self._world.mark()
                change.make(self._world)
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


def _list_shared_claims(pod: PodInfo) -> Iterator[tuple[str, str]]:
    """Yield the namespace and name of each claim that the pod's spec names, which other pods may name too."""
    for claim in pod.pod.spec.resource_claims or ():
        if claim.resource_claim_name:
            yield pod.namespace, claim.resource_claim_name
