"""The answer to a question for a plan, by its goal.

    answer_plan(state, question, report, classes, scheduler) -> PlanReview, notes

Owns: which goal is meant, and the plans of drains, consolidation and spread as an answer. Does not own: plans after
which pods fit (`fitting`), the search and the proof.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from herodotus_answers.cluster_questions import ConsolidationQuestion, Drain, PlanQuestion
from herodotus_answers.plans import (
    CONSOLIDATE,
    DRAIN,
    KINDS,
    MAX_CHANGES,
    MAX_TIME_S,
    NO_PLAN,
    NOTHING_TO_DO,
    PLANNED,
    RESIZE,
    SPREAD,
    DrainPlan,
    PlanReview,
)
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plans.changes import Change
from scheduler.engine.plans.drains import DrainPlanner, list_workers, plan_consolidation, plan_drains
from scheduler.engine.plans.fitting import PlanError, Planner, Targets, find_targets
from scheduler.engine.plans.movable import MAY_MOVE, find_hindrance
from scheduler.engine.plans.resizing import ResizeGoal, is_deferred
from scheduler.engine.plans.spreading import SpreadGoal
from scheduler.engine.plans.time_limit import TimeLimit, TimeOverError
from scheduler.engine.plans.verification import MOVE
from scheduler.engine.plans.world import World
from scheduler.engine.progress import ProgressReport
from scheduler.engine.whatif.consolidation import consolidate
from scheduler.engine.whatif.owners import find_workload
from scheduler.engine.whatif.pods import PriorityClass
from scheduler.engine.whatif.simulation import Simulation, WhatIfState


def answer_plan(
    state: WhatIfState,
    question: PlanQuestion,
    report: ProgressReport,
    classes: dict[str, PriorityClass] | None,
    scheduler: str,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[PlanReview, list[str]]:
    """Search plans for the goal of the question, and return the answer with notes.

    Raises PlanError if an object does not exist or a value is invalid, PodTemplateError or ManifestError for an invalid
    object.
    """
    _check(question)
    limit = TimeLimit(question.time_limit_seconds, clock, report)
    if question.drain or question.consolidate:
        return _plan_empty_nodes(state, question, limit), []
    if question.spread:
        return _plan_spread(state, question, limit)
    deferred = _find_deferred(state, question)
    if deferred is not None:
        return _plan_resize(state, question, World(state, limit), *deferred), []
    targets, world = find_targets(state, question, classes, scheduler), World(state, limit)
    with world.tried():
        if not targets.exist:
            targets = targets._replace(pods=[world.generate_claims(pod) for pod in targets.pods])
        return Planner(state, question, targets, world).answer()


def _check(question: PlanQuestion) -> None:
    for name, low, value, high in (
        ("maxChanges", 1, question.max_changes, MAX_CHANGES),
        ("timeLimitSeconds", 0.1, question.time_limit_seconds, MAX_TIME_S),
    ):
        if not low <= value <= high:
            raise PlanError(f"{name}: expected {low:g} to {high:g}, got {value:g}")
    unknown = [kind for kind in question.kinds if kind not in KINDS]
    if unknown:
        raise PlanError(f"kinds: expected {', '.join(KINDS)}, got {unknown[0]!r}")
    goals = (question.pods, question.workload, question.pod_group, question.object)
    if sum(bool(each) for each in (*goals, question.drain, question.consolidate, question.spread)) != 1:
        raise PlanError("expected exactly one of pods, workload, podGroup, object, drain, consolidate and spread")


def _plan_empty_nodes(state: WhatIfState, question: PlanQuestion, limit: TimeLimit) -> PlanReview:
    """Return the review of a drain or a consolidation."""
    world = World(state, limit)
    flags = Drain(nodes=[], force=question.force, delete_empty_dir_data=question.delete_empty_dir_data)
    planner = DrainPlanner(world, state.build_budgets(), state.list_waiting(), flags)
    if question.drain:
        nodes = list(dict.fromkeys(question.drain))
        for name in nodes:
            if name not in state.nodes.index or state.nodes.nodes[state.nodes.index[name]] is None:
                raise PlanError(f'nodes "{name}" not found')
        drain = plan_drains(planner, nodes, rolling=question.rolling)
    else:
        drain = plan_consolidation(planner, question.nodes)
        asked = ConsolidationQuestion(
            nodes=list_workers(world), force=question.force, delete_empty_dir_data=question.delete_empty_dir_data
        )
        with suppress(TimeOverError):  # last, as it changes the copy
            limit.check()
            emptied = consolidate(Simulation(state, lambda *_progress: limit.check(), 0), asked)["emptied"]
            drain["greedy"] = len(emptied)
    review = _build_review(question, DRAIN if question.drain else CONSOLIDATE, world)
    review["drain"] = drain
    review["verdict"] = PLANNED if drain["nodes"] else NO_PLAN
    return review


def _build_review(question: PlanQuestion, goal: str, world: World) -> PlanReview:
    nothing: DrainPlan | None = None
    return {
        "goal": goal,
        "verdict": NO_PLAN,
        "pods": 0,
        "maxChanges": question.max_changes,
        "kinds": [],
        "drain": nothing,
        "spread": [],
        "decided": world.decided,
        "seconds": round(world.limit.elapsed_s, 3),
        "timeLimitSeconds": question.time_limit_seconds,
        "endedBy": world.limit.ended,
    }


def _find_deferred(state: WhatIfState, question: PlanQuestion) -> tuple[PodInfo, str] | None:
    """Return the pod of the question and its node if a resize of the pod is deferred. Raises PlanError for several."""
    found = [
        (pod, state.nodes.names[slot])
        for slot, on_node in enumerate(state.nodes.pods)
        for pod in on_node.values()
        if pod.full_name in question.pods and is_deferred(pod)
    ]
    if found and len(question.pods) > 1:
        raise PlanError(f"pod {found[0][0].full_name} waits for a resize: ask about it alone")
    return found[0] if found else None


def _plan_resize(state: WhatIfState, question: PlanQuestion, world: World, pod: PodInfo, node: str) -> PlanReview:
    """Return the review of the moves of other pods after which a deferred resize fits on the pod's node."""
    if set(question.kinds) - {"move"}:
        raise PlanError(f"pod {pod.full_name} waits for a resize, for which only the kind move is planned")
    nodes = state.nodes
    changes = [
        Change(MOVE, nodes.names[slot], each)
        for slot, on_node in enumerate(nodes.pods)
        for each in sorted(on_node.values(), key=lambda each: (each.priority, each.full_name))
        if each.uid != pod.uid and find_hindrance(each) == MAY_MOVE
    ]
    changes.sort(key=lambda change: change.node != node)
    goal = ResizeGoal(world, node, [each.pod for each in changes if each.node == node and each.pod is not None])
    if goal.is_reached():
        review = _build_review(question, RESIZE, world)
        review["verdict"] = NOTHING_TO_DO
    else:
        review = Planner(state, question, Targets([], True), world, goal).answer_moves(changes, RESIZE)
    review["pods"] = 1
    return review


def _plan_spread(state: WhatIfState, question: PlanQuestion, limit: TimeLimit) -> tuple[PlanReview, list[str]]:
    """Return the review of the moves that restore a workload's spread."""
    namespace = question.namespace or "default"
    pods = [
        (pod, state.nodes.names[slot])
        for slot, on_node in enumerate(state.nodes.pods)
        for pod in on_node.values()
        if pod.namespace == namespace and str(find_workload(pod.pod, state.objects)) == question.spread
    ]
    if not pods:
        raise PlanError(f"{namespace}/{question.spread}: no pod is on a node")
    newest = max(pods, key=lambda each: (each[0].pod.metadata.creation_timestamp or "", each[0].name))[0]
    if not newest.pod.spec.topology_spread_constraints:
        raise PlanError(f"{namespace}/{question.spread} has no topology spread constraint")
    world = World(state, limit)
    goal = SpreadGoal(world, newest, state.rules)
    skews = goal.list_skews()
    if goal.is_reached():
        review = _build_review(question, SPREAD, world)
        review["verdict"] = NOTHING_TO_DO
    else:
        changes = [
            Change(MOVE, node, pod)
            for pod, node in sorted(pods, key=lambda each: each[0].full_name)
            if find_hindrance(pod) == MAY_MOVE
        ]
        review = Planner(state, question, Targets([], True), world, goal).answer_moves(changes, SPREAD)
    review["pods"], review["spread"] = len(pods), skews
    return review, []
