"""What `top` makes of the answers to what-ifs: moves, amounts, pods that wait."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_cli.top.cluster import Amount, build_state, read_node, read_pod
from herodotus_cli.top.simulation import (
    build_replica_action,
    build_words,
    read_simulation,
    select_still_waiting,
    simulate,
)
from tests.cli.top.fakes import NODES, PODS, REVIEW, amounts, placement, pod, waiting

GIB = 1 << 30
ROWS = [row for row in map(read_pod, PODS) if row]
STATE = build_state(map(read_node, NODES), ROWS, has_all_pods=True)
ACTIONS = (("drain", "worker-1"),)


def review(**status: Any) -> dict[str, Any]:
    empty = {"headline": "", "placements": [], "pending": [], "deleted": [], "nodes": []}
    return {"status": empty | status}


def read_amounts(shown: int) -> dict[str, tuple[Amount, Amount, Amount]]:
    state = simulate(STATE, read_simulation(ACTIONS, REVIEW), shown)
    return {row.name: (row.cpu, row.memory, row.pods) for row in state.nodes if row.is_changed}


def test_each_move_takes_the_pods_requests_along() -> None:
    assert read_amounts(0) == {
        "worker-1": (Amount(4000, 4000, 4000), Amount(2 * GIB, 16 * GIB, 2 * GIB), Amount(2, 110, 2)),
        "worker-10": (Amount(500, 4000, 500), Amount(GIB, 16 * GIB, GIB), Amount(1, 110, 1)),
    }
    assert read_amounts(1) == {
        "worker-1": (Amount(3000, 4000, 4000), Amount(GIB, 16 * GIB, 2 * GIB), Amount(1, 110, 2)),
        "worker-10": (Amount(1500, 4000, 500), Amount(2 * GIB, 16 * GIB, GIB), Amount(2, 110, 1)),
    }


def test_after_all_moves_the_amounts_are_those_of_the_answer() -> None:
    """Also where the pods that were read would add up to others, as when one was created since."""
    status = {**REVIEW["status"], "nodes": [{**REVIEW["status"]["nodes"][0], "after": amounts(750, 1, 1)}]}
    state = simulate(STATE, read_simulation(ACTIONS, {"status": status}), 2)
    (changed,) = [row for row in state.nodes if row.is_changed]
    assert (changed.cpu, changed.pods) == (Amount(750, 4000, 4000), Amount(1, 110, 2))


@pytest.mark.parametrize(
    ("node", "schedulable", "marks"),
    [("worker-1", False, ("cordoned",)), ("worker-2", True, ())],
    ids=["cordon", "uncordon"],
)
def test_cordon_without_a_move_changes_the_mark(node: str, schedulable: bool, marks: tuple[str, ...]) -> None:
    same = amounts(0, 0, 0)
    answer = review(nodes=[{"name": node, "before": same, "after": same, "schedulable": schedulable}])
    state = simulate(STATE, read_simulation((("cordon", node),), answer), 0)
    assert [(row.name, row.marks) for row in state.nodes if row.is_changed] == [(node, marks)]


def test_pods_wait_that_find_no_node_and_no_longer_those_that_get_one() -> None:
    answer = review(
        placements=[placement("db-0", "worker-1", "", "data", reason="0/2 nodes are available: 2 Insufficient cpu.")],
        pending=[placement("payments-0", "", "worker-2", cause="Pending")],
    )
    pods = select_still_waiting([waiting("payments-0"), waiting("other")], read_simulation(ACTIONS, answer))
    assert [(p["namespace"], p["pod"], p["reason"]) for p in pods] == [
        ("data", "db-0", "2 nodes: Insufficient cpu"),
        ("shop", "other", "Insufficient cpu"),
    ]


def test_deleted_pod_leaves_its_node_and_does_not_wait() -> None:
    deleted = {"namespace": "shop", "name": "web-0", "node": "worker-1", "cause": "ScaledDown", "owner": ""}
    simulation = read_simulation((("scale", "rs/web=0"),), review(deleted=[deleted]))
    assert "web-0" not in [pod.name for pod in simulate(STATE, simulation, 1).pods]
    assert select_still_waiting([], simulation) == []


def test_new_pod_requests_what_another_of_its_workload_does() -> None:
    new = placement("web-new", "", "worker-2", owner="ReplicaSet/web-5d9c", cause="ScaledUp")
    row = next(
        p for p in simulate(STATE, read_simulation(ACTIONS, review(placements=[new])), 1).pods if "new" in p.name
    )
    assert (row.node, row.cpu, row.memory, row.workload) == ("worker-2", 1000, GIB, "ReplicaSet/web-5d9c")


def test_replica_scales_the_deployment_above_a_replica_set() -> None:
    raw = pod("web-1", owner="ReplicaSet/web-abc")
    raw["metadata"]["labels"] = {"pod-template-hash": "abc"}
    row = read_pod(raw)
    assert row is not None
    assert build_replica_action(row, [row, row, *ROWS]) == ("scale", "deployment/web=3", "-n", "shop")
    assert build_replica_action(row._replace(workload=""), [row]) is None


def test_actions_follow_each_other_in_one_question() -> None:
    words = build_words([("drain", "n 1"), ("scale", "deployment/web=3", "-n", "shop")])
    assert words == ["whatif", "drain", "n 1", "--then", "scale deployment/web=3 -n shop"]
