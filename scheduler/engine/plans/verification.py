"""Carries a plan out on a copy, in every order and with every draw that kube-scheduler may make.

After each step the user waits until the pods that the step displaced are Ready. Meanwhile, and until the next step,
kube-scheduler may try any waiting pod at any time: a target of the plan, a displaced pod, or one that was pending
before. A pod that is deleted keeps its room for a while, and its claims keep their devices until later; its controller
makes the new pod at once, or when the old one is gone. Each of these events may come in any order, and each pod may get
any of its best nodes.

Owns: the exploration, and the first run that goes wrong. Does not own: the steps (`search`), one decision (`world`).

Invariant: a plan holds only if every run ends with the targets on nodes, and no run has a displaced pod that finds no
node or a pod that preempts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plans.movable import helped_only_by_room, waits_for_end
from scheduler.engine.plans.world import World
from scheduler.engine.whatif.owners import build_replacement

TARGET, DISPLACED, OTHER = "target", "displaced", "other"
CORDON, UNCORDON, MOVE, SCALE_DOWN, CREATE = "Cordon", "Uncordon", "Move", "ScaleDown", "Create"
ADD_NODES: Final = "AddNodes"
GOAL_MISSED: Final = "GoalMissed"
STUCK, TARGET_PENDING, PREEMPTS = "DisplacedPending", "TargetPending", "Preempts"
MAX_STATES: Final = 1000  # of one plan: the decisions in each take some milliseconds


class UnprovenError(Exception):
    """There are too many runs to carry out each of them, or runs that cannot be. The message says which."""


class PlannedStep(NamedTuple):
    """A step of a plan: `nodes` are cordoned or uncordoned, or `pod` leaves `node`.

    New nodes, `nodes`, are copies of `node`. `to` is the node that the search had in mind for the pod's successor; the
    pod may land elsewhere.
    """

    kind: str
    nodes: tuple[str, ...] = ()
    pod: PodInfo | None = None
    node: str = ""
    to: str = ""


@dataclass(eq=False)
class Tracked:
    """A pod that waits, or waited. `step` is the number of the step that displaced it, -1 for others."""

    pod: PodInfo
    role: str
    step: int = -1
    key: tuple[object, ...] = field(init=False)

    def __post_init__(self) -> None:
        owner = self.pod.pod.metadata.controller
        labels = frozenset(self.pod.labels.items())
        of = (owner.kind, owner.name) if owner else (self.pod.name,)
        self.key = (self.role, self.pod.namespace, self.pod.spec_digest, self.pod.priority, labels, *of)


def identify_kind(pod: PodInfo) -> object:
    """Return what pods have in common that are alike to the scheduler and have one owner."""
    return Tracked(pod, OTHER).key


_Draw = tuple[Tracked, int, CycleState | None]  # a pod, the slot of its node, and the state of the cycle


class _Leaving(NamedTuple):
    """A step whose pod is being deleted, or is gone (`gone`, as it was on its node) while its claims are not free."""

    step: PlannedStep
    gone: PodInfo | None = None


class Landing(NamedTuple):
    """A pod that found a node during a step."""

    step: int
    pod: Tracked
    node: str


class Failure(NamedTuple):
    """The first run that goes wrong: what happens to which pod, and where pods landed before."""

    kind: str
    pod: Tracked | None
    step: int
    landings: tuple[Landing, ...]


@dataclass
class Proof:
    """What became of all runs of a plan. `landings` are the nodes of each pod by UID, over all runs."""

    failure: Failure | None
    landings: dict[str, set[str]]
    states: int


class Verification:
    """Runs plans for the same targets on one copy."""

    def __init__(
        self,
        world: World,
        targets: Sequence[PodInfo],
        others: Iterable[PodInfo],
        *,
        min_targets: int = 0,
        goal: Callable[[], bool] | None = None,
    ) -> None:
        """`others` are further pods that wait. With `min_targets`, that many targets are placed together or none.

        `goal` says of the copy after the last step whether the plan has reached what it is for.
        """
        self._world, self.targets = world, targets
        self.others: dict[object, list[PodInfo]] = {}  # further waiting pods, those of one kind together
        for pod in others:
            self.others.setdefault(identify_kind(pod), []).append(pod)
        self._min_targets, self.goal = min_targets, goal
        self._lowest: int | None = None  # priority of the pods that may be preempted; successors have those of pods
        self._replacements: dict[str, PodInfo] = {}  # by the UID of the pod that leaves

    def run(self, steps: Sequence[PlannedStep], max_states: int = MAX_STATES) -> Proof:
        """Carry out all runs of the steps, and return what became of them.

        Raise UnprovenError if they are too many, or if pods may compete for one persistent volume.
        """
        run = _Run(self, steps, max_states)
        with self._world.tried():
            exist = not any(step.kind == CREATE for step in steps)
            run.waiting = [Tracked(pod, TARGET) for pod in self.targets if exist]
            run.waiting += [Tracked(pod, OTHER) for pod in self._list_relevant(steps)]
            moved = [step.pod for step in steps if step.kind == MOVE and step.pod is not None]
            placed = {pod.uid: pod for pod in (*self.targets, *moved, *(each.pod for each in run.waiting))}
            if sum(self._world.chooses_volume(pod) for pod in placed.values()) > 1:
                raise UnprovenError("several pods wait for volumes, and which one each gets is not simulated")
            failure = run.explore(0, None)
        return Proof(failure, run.landed, len(run.seen))

    def _list_relevant(self, steps: Sequence[PlannedStep]) -> Iterator[PodInfo]:
        """Yield the other waiting pods that may find a node, or preempt, during the plan."""
        with self._world.tried():
            for step in steps:
                if step.kind == UNCORDON:
                    self._world.set_schedulable(step.nodes, True)
                elif step.kind == ADD_NODES:
                    for name in step.nodes:
                        self._world.add_node(step.node, name)
                elif step.pod is not None:
                    self._world.remove(step.pod, step.node)
            fits = [bool(self._world.find_feasible(pods[0])[0].any()) for pods in self.others.values()]
        for pods, fit in zip(self.others.values(), fits, strict=True):
            if fit or not helped_only_by_room(pods[0]) or self._may_preempt(pods[0]):
                yield from pods

    def _may_preempt(self, pod: PodInfo) -> bool:
        """Return whether some pod on a node, or one that the plan places, is less important than this waiting pod."""
        if self._lowest is None:
            there = (each.priority for pods in self._world.nodes.pods for each in pods.values())
            own = (target.priority for target in self.targets)
            self._lowest = min((*there, *own), default=pod.priority)
        return pod.priority > self._lowest and pod.pod.spec.preemption_policy != "Never"

    def replacement_of(self, pod: PodInfo) -> PodInfo:
        """Return the pod that the controller of a pod makes in its place, the same one each time."""
        if pod.uid not in self._replacements:
            self._replacements[pod.uid] = build_replacement(pod.pod, len(self._replacements) + 1)
        return self._replacements[pod.uid]


class _Run:
    """The runs of one plan. The state is in the world, `waiting` and `placed`; `explore` leaves it as it was."""

    def __init__(self, verification: Verification, steps: Sequence[PlannedStep], max_states: int) -> None:
        self._max_states = max_states
        self._of, self._world, self._steps = verification, verification._world, steps
        self.waiting: list[Tracked] = []
        self._placed: list[Landing] = []
        self.seen: set[object] = set()
        self.landed: defaultdict[str, set[str]] = defaultdict(set)

    def explore(self, done: int, leaving: _Leaving | None) -> Failure | None:
        """Carry out all runs from the present state on; return the first failure.

        `done` steps were begun. `leaving` is the last one until its pod and what that had are gone.
        """
        signature = self._sign(done, leaving)
        if signature in self.seen:
            return None
        self.seen.add(signature)
        if len(self.seen) > self._max_states:
            raise UnprovenError(f"more than {self._max_states} states can be reached")
        moved = False
        for pods in self._list_units():
            placements, preempts, certain = self._draw(pods)
            if preempts:
                return Failure(PREEMPTS, pods[0], done - 1, tuple(self._placed))
            moved = moved or certain
            for placement in placements:
                failure = self._place(placement, done, leaving)
                if failure is not None:
                    return failure
        if leaving is not None:
            return self._end(leaving, done)
        stuck = next((pod for pod in self.waiting if pod.role == DISPLACED), None)
        if stuck is not None:
            return None if moved else Failure(STUCK, stuck, done - 1, tuple(self._placed))
        if done < len(self._steps):
            return self._begin(self._steps[done], done)
        pending = next((pod for pod in self.waiting if pod.role == TARGET), None)
        if pending is not None and not moved:
            return Failure(TARGET_PENDING, pending, done - 1, tuple(self._placed))
        if self._of.goal is not None and not moved and not self._of.goal():
            return Failure(GOAL_MISSED, None, done - 1, tuple(self._placed))
        return None

    def _sign(self, done: int, leaving: _Leaving | None) -> object:
        placed = Counter(
            (landing.pod.key, landing.node, self._world.list_devices(landing.pod.pod)) for landing in self._placed
        )
        stage = None if leaving is None else leaving.gone is None
        return done, stage, frozenset(placed.items()), len(self.waiting)

    def _list_units(self) -> list[list[Tracked]]:
        """Return what kube-scheduler may try next: one waiting pod of each kind, or the targets together."""
        together = self._of._min_targets > 0
        first = {each.key: [each] for each in reversed(self.waiting) if not (together and each.role == TARGET)}
        group = [each for each in self.waiting if each.role == TARGET] if together else []
        return [*first.values(), *([group] if group else [])]

    def _draw(self, pods: Sequence[Tracked]) -> tuple[list[list[_Draw]], bool, bool]:
        """Return the ways in which these pods may get nodes, whether one preempts instead, and whether they get nodes.

        By the nodes of its first pods, a group may miss its quorum, and waits then.
        """
        draws = self._world.find_draws(pods[0].pod)
        state = draws.result.state if draws.result is not None else None
        if len(pods) == 1:
            reached = self._of._min_targets <= 1 or pods[0].role != TARGET
            placements = [[(pods[0], slot, state)] for slot in draws.slots if reached]
            return placements, draws.preempts, bool(placements)
        ways, certain = list[list[_Draw]](), True
        for way in self._draw_group(pods, [], set()):
            if len(way) < self._of._min_targets:
                certain = False
                continue
            ways.append(way)
            if len(ways) > MAX_STATES:
                raise UnprovenError(f"the pods may land in more than {MAX_STATES} ways")
        return ways, False, certain

    def _draw_group(self, pods: Sequence[Tracked], way: list[_Draw], seen: set[object]) -> Iterator[list[_Draw]]:
        """Yield the ways in which the rest of a group may land after those of `way`, each state once."""
        signature = len(pods), frozenset(Counter((pod.key, slot) for pod, slot, _ in way).items())
        if signature in seen:
            return
        seen.add(signature)
        if not pods:
            yield way
            return
        draws = self._world.find_draws(pods[0].pod)
        if not draws.slots:
            yield from self._draw_group(pods[1:], way, seen)
        for slot in draws.slots:
            assert draws.result is not None
            mark = self._world.mark()
            self._world.place(pods[0].pod, self._world.nodes.names[slot], draws.result.state)
            yield from self._draw_group(pods[1:], [*way, (pods[0], slot, draws.result.state)], seen)
            self._world.undo(mark)

    def _place(self, placement: Sequence[_Draw], done: int, leaving: _Leaving | None) -> Failure | None:
        waiting, placed, mark = self.waiting, self._placed, self._world.mark()
        self._placed = [*placed]
        for pod, slot, state in placement:
            node = self._world.nodes.names[slot]
            self._world.place(pod.pod, node, state)
            self.landed[pod.pod.uid].add(node)
            self._placed.append(Landing(done - 1, pod, node))
        gone = {pod.pod.uid for pod, _, _ in placement}
        self.waiting = [pod for pod in waiting if pod.pod.uid not in gone]
        failure = self.explore(done, leaving)
        self.waiting, self._placed = waiting, placed
        self._world.undo(mark)
        return failure

    def _begin(self, step: PlannedStep, done: int) -> Failure | None:
        """Carry out a step and continue."""
        waiting, mark = self.waiting, self._world.mark()
        leaving = None
        if step.kind in (CORDON, UNCORDON):
            self._world.set_schedulable(step.nodes, step.kind == UNCORDON)
        elif step.kind == ADD_NODES:
            for name in step.nodes:
                self._world.add_node(step.node, name)
        elif step.kind == CREATE:
            self.waiting = [*waiting, *(Tracked(pod, TARGET) for pod in self._of.targets)]
        else:
            assert step.pod is not None
            leaving = _Leaving(step)
            self._world.terminate(step.pod, step.node)
            if step.kind == MOVE and not waits_for_end(step.pod):
                self.waiting = [*waiting, self._replace(step, done)]
        failure = self.explore(done + 1, leaving)
        self.waiting = waiting
        self._world.undo(mark)
        return failure

    def _end(self, leaving: _Leaving, done: int) -> Failure | None:
        """Let the pod that is being deleted end, or free the claims of one that is gone, and continue."""
        step, gone = leaving
        assert step.pod is not None
        waiting, mark, following = self.waiting, self._world.mark(), None
        if gone is None:
            gone = self._world.take_off(step.pod, step.node)
            if step.kind == MOVE and waits_for_end(step.pod):
                self.waiting = [*waiting, self._replace(step, done - 1)]
            following = _Leaving(step, gone) if gone.pod.spec.resource_claims else None
        if following is None:
            self._world.release_claims(gone)
        failure = self.explore(done, following)
        self.waiting = waiting
        self._world.undo(mark)
        return failure

    def _replace(self, step: PlannedStep, number: int) -> Tracked:
        assert step.pod is not None
        return Tracked(self._world.generate_claims(self._of.replacement_of(step.pod)), DISPLACED, number)
