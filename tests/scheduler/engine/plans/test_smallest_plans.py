"""No plan of moves is larger than needed: each bound is held against a search that tries everything.

PLAN_SEEDS is the number of random clusters (`make plans`).
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from herodotus_answers.cluster_questions import ClusterQuestion, PlanQuestion
from herodotus_answers.plans import PlanReview, PlansOfKind
from scheduler.engine.progress import ignore_progress
from scheduler.engine.whatif.changes import answer_review
from tests.scheduler.engine.plans.fragmented import Json, make_cluster, search_exhaustively
from tests.scheduler.engine.whatif.clusters import a_state
from tests.support.breadth import widen

SEEDS = int(os.environ.get("PLAN_SEEDS", "300"))
MOST = 2  # moves of the search that tries everything: three take a minute for one cluster


def plan(objects: list[Json], **question: object) -> PlanReview:
    """Return the plans for the pending pod or group `shop/big`."""
    grouped = any(each["kind"] == "PodGroup" for each in objects)
    target: Json = {"pod_group": "big", "namespace": "shop"} if grouped else {"pods": ["shop/big"]}
    asked = PlanQuestion(**(target | question))
    status = answer_review(a_state(objects), ClusterQuestion(plan=asked), ignore_progress, 0)
    assert status["plan"] is not None
    return status["plan"]


def _find_moves(review: PlanReview) -> PlansOfKind | None:
    return next((kind for kind in review["kinds"] if kind["kind"] == "move"), None)


def check_seed(seed: int, max_nodes: int, max_pods: int) -> str:
    """Compare the plans of one random cluster with those of the search that tries everything; return what it was."""
    objects = make_cluster(seed, max_nodes, max_pods)
    review = plan(objects, kinds=["move"], max_changes=MOST + 1, time_limit_seconds=60)
    smallest = search_exhaustively(a_state(objects), MOST).moves
    moves = _find_moves(review)
    if moves is None:
        assert review["verdict"] == "NothingToDo"
        assert smallest == 0
        return "fits"
    bound, size = moves["bound"], moves["plans"][0]["changes"] if moves["plans"] else None
    if size is None:
        if bound["kind"] != "NotProven":
            assert smallest is None, f"seed {seed}: {smallest} moves suffice, and none were found"
            return "no plan, proven"
        return "no plan, paper only" if smallest is not None else "no plan, not proven"
    if smallest is not None and smallest < size:
        assert bound["kind"] == "NotProven", f"seed {seed}: {smallest} moves suffice, and {size} are called the fewest"
        return f"{size} moves, fewer on paper"
    assert smallest in (None, size), f"seed {seed}: a plan of {size} moves, where {smallest} are needed"
    return f"{size} moves, {bound['kind']}"


@pytest.mark.parametrize("first", widen(range(0, 60, 20), every=3))
def test_no_smaller_plan_exists(first: int) -> None:
    kinds = Counter(check_seed(seed, 6, 14) for seed in range(first, first + 20))
    assert any("moves" in kind for kind in kinds), kinds


@pytest.mark.slow
@pytest.mark.timeout(20 * SEEDS)
def test_no_smaller_plan_exists_in_larger_clusters() -> None:
    kinds = Counter(check_seed(seed, 8, 24) for seed in range(1000, 1000 + SEEDS))
    print(f"\n{SEEDS} clusters:", *(f"{count:4} {kind}" for kind, count in sorted(kinds.items())), sep="\n")
    assert any("moves" in kind for kind in kinds)
