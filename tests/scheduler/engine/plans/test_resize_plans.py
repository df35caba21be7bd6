"""Plans after which a deferred resize fits on the pod's node."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.cluster_questions import PlanQuestion
from herodotus_answers.plans import PlanReview, format_plan_headline
from scheduler.engine.plans.answers import answer_plan
from scheduler.engine.plans.fitting import PlanError
from scheduler.engine.progress import ignore_progress
from tests.scheduler.engine.whatif.clusters import a_budget, a_node, a_pod, a_state

Json = dict[str, Any]
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


def ask(objects: list[Json], **question: Any) -> PlanReview:
    fields: Json = {"pods": ["shop/db-0"], "time_limit_seconds": 60} | question
    asked = PlanQuestion(**fields)
    return answer_plan(a_state(objects), asked, ignore_progress, None, "")[0]


def resized(cpu: str = "3", had: str = "1", **condition: str) -> Json:
    """A pod on n0 that has less than its spec asks for."""
    has = {"name": "main", "allocatedResources": {"cpu": had}, "resources": {"requests": {"cpu": had}}}
    conditions = [{"type": "Ready", "status": "True"}, DEFERRED | condition]
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": [has]}
    return a_pod("db-0", "n0", "StatefulSet/db", cpu, labels={"app": "db"}, status=status)


def moves(review: PlanReview) -> list[str]:
    steps = review["kinds"][0]["plans"][0]["steps"]
    return [f"{step['pod']} to {' or '.join(step['landsOn'])}" for step in steps if step["kind"] == "Move"]


def test_the_fewest_other_pods_leave_the_node_and_the_pod_keeps_it() -> None:
    pods = [a_pod(f"w{i}", "n0", f"ReplicaSet/w{i}", cpu) for i, cpu in enumerate(("500m", "1500m", "500m"))]
    review = ask([a_node("n0"), a_node("n1", "2"), *pods, resized()])
    assert (review["goal"], moves(review)) == ("Resize", ["w1 to n1"])
    assert format_plan_headline(review) == (
        "The pod's resize fits on its node after 1 pod is moved. No plan is smaller."
    )


def test_two_moves_are_proven_to_be_needed() -> None:
    pods = [a_pod(f"w{i}", "n0", f"ReplicaSet/w{i}", "1") for i in range(3)]
    review = ask([a_node("n0"), a_node("n1"), *pods, resized()])
    assert len(moves(review)) == 2
    reason = "it frees too little on the pod's node"
    assert review["kinds"][0]["bound"] == {"kind": "Relaxation", "changes": 2, "tried": 0, "reason": reason}


def test_a_pod_elsewhere_makes_room_for_one_that_must_leave() -> None:
    nodes = [a_node("n0"), a_node("n1", "2"), a_node("n2", "1")]
    pods = [a_pod("w0", "n0", "ReplicaSet/w", "2", labels={"app": "w"}), a_pod("x0", "n1", "ReplicaSet/x", "1")]
    review = ask([*nodes, *pods, resized()])
    assert moves(review) == ["x0 to n2", "w0 to n1"]


def test_many_equal_nodes_are_counted() -> None:
    nodes = [a_node(f"n{i}") for i in range(80)]
    review = ask([*nodes, a_pod("w0", "n0", cpu="2"), resized()])
    (found,) = review["kinds"][0]["plans"]
    assert (found["states"], found["steps"][0]["kind"], len(found["steps"][1]["landsOn"])) == (0, "Cordon", 79)


@pytest.mark.parametrize(
    "stays", [a_pod("w0", "n0", "", "2"), a_pod("w0", "n0", "DaemonSet/w", "2")], ids=["bare", "daemon"]
)
def test_pods_that_cannot_move_leave_no_plan(stays: Json) -> None:
    review = ask([a_node("n0"), a_node("n1"), stays, resized()])
    assert format_plan_headline(review) == "No plan of at most 5 changes of the kind move exists."


def test_a_budget_keeps_a_pod_on_the_node() -> None:
    pods = [a_pod("w0", "n0", cpu="2"), a_budget("web", "web", maxUnavailable=0)]
    assert ask([a_node("n0"), a_node("n1"), *pods, resized()])["verdict"] == "NoPlan"


def test_a_resize_that_fits_needs_no_plan() -> None:
    review = ask([a_node("n0"), resized()])
    assert format_plan_headline(review) == "The pod's resize fits on its node now: no plan is needed."


def test_an_infeasible_resize_is_no_deferred_one() -> None:
    with pytest.raises(PlanError, match="pod shop/db-0 does not wait for a node"):
        ask([a_node("n0"), resized(reason="Infeasible")])


def test_only_moves_are_planned_for_a_resize() -> None:
    with pytest.raises(PlanError, match="only the kind move"):
        ask([a_node("n0"), resized()], kinds=["nodes"])
