"""What ends each kind of step of a plan, and what contradicts it, on prepared states of a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.plans import DrainPlan, PlacedTarget, Plan, PlannedDrain, PlanReview, PlansOfKind, PlanStep
from herodotus_cli.cluster_view import NODES, PODS, ClusterView
from herodotus_cli.errors import CliError
from herodotus_cli.object_watch import LISTED, ObjectChange
from herodotus_cli.plan_execution import PATIENCE_S, PlanExecution
from herodotus_cli.plan_watch import choose_plan
from tests.scheduler.engine.whatif.clusters import a_node, a_pod
from tests.support.answers import fill

Json = dict[str, Any]
BIG = [("shop", "big")]


def ready_node(name: str, **spec: Any) -> Json:
    node = a_node(name, **spec)
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return node


def a_view(*objects: Json) -> ClusterView:
    view = ClusterView()
    show(view, *objects)
    return view


def show(view: ClusterView, *objects: Json) -> None:
    for resource, kind in ((PODS, "Pod"), (NODES, "Node")):
        view.apply(ObjectChange(resource, LISTED, [each for each in objects if each["kind"] == kind]))


def a_plan(*steps: Json, lands: str = "n0", target: bool = True) -> Json:
    placed = fill(PlacedTarget, namespace="shop", name="big", landsOn=[lands])
    plan = fill(Plan, steps=[fill(PlanStep, **step) for step in steps], targets=[placed] if target else [])
    return {**plan}


def a_move(pod: str = "w0", owner: str = "ReplicaSet/web") -> Json:
    return {"kind": "Move", "namespace": "shop", "pod": pod, "owner": owner, "node": "n0", "landsOn": ["n1"]}


def texts(execution: PlanExecution) -> list[str]:
    return [f"{event.state} {event.step or '-'} {event.text}" for event in execution.advance()]


def test_an_added_node_takes_the_place_of_the_name_in_the_plan() -> None:
    big = a_pod("big", cpu="3")
    view = a_view(ready_node("n0"), big)
    added = {"kind": "AddNodes", "node": "n0", "nodes": ["new-1"]}
    execution = PlanExecution(a_plan(added, lands="new-1"), view, BIG, resizes=False)
    assert (texts(execution), execution.find_deviation(0)) == ([], "")
    show(view, ready_node("n0"), a_node("fresh"), big)
    assert texts(execution) == [], "it is not Ready yet"
    show(view, ready_node("n0"), ready_node("fresh"), big)
    assert texts(execution) == ["Done 1 fresh added"]
    show(view, ready_node("n0"), ready_node("fresh"), a_pod("big", "fresh", cpu="3"))
    assert (texts(execution), execution.is_finished) == (["Done - shop/big is bound to fresh"], True)


def test_a_pod_that_was_scaled_down_must_not_return() -> None:
    nodes, big = [ready_node("n0"), ready_node("n1")], a_pod("big", owner="ReplicaSet/big", cpu="3")
    view = a_view(*nodes, a_pod("w0", "n0", cpu="2"), big)
    step = a_move() | {"kind": "ScaleDown", "landsOn": []}
    execution = PlanExecution(a_plan(step), view, BIG, resizes=False)
    show(view, *nodes, big)
    assert (texts(execution), execution.find_deviation(0)) == (["Done 1 shop/w0 is gone"], "")
    show(view, *nodes, big, a_pod("w9", "n1"))
    assert texts(execution) == []
    assert execution.find_deviation(0) == "shop/w9 replaced the pod that was scaled down"


def test_a_new_pod_that_stays_pending_fails_the_step_with_the_schedulers_message() -> None:
    nodes = [ready_node("n0"), ready_node("n1")]
    view = a_view(*nodes, a_pod("w0", "n0"))
    execution = PlanExecution(a_plan(a_move(), target=False), view, [], resizes=False)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
    waiting = a_pod("w2", status={"phase": "Pending", "conditions": [condition]})
    show(view, *nodes, waiting)
    assert texts(execution) == ["Progress 1 shop/w0 is deleted"]
    assert [execution.find_deviation(at) for at in (0.0, PATIENCE_S - 1, PATIENCE_S)] == [
        "",
        "",
        "shop/w2 stays Pending: 0/2 nodes",
    ]


def test_a_pod_that_is_not_created_anew_fails_the_step() -> None:
    view = a_view(ready_node("n0"), ready_node("n1"), a_pod("w0", "n0", "StatefulSet/web"))
    execution = PlanExecution(a_plan(a_move(owner="StatefulSet/web"), target=False), view, [], resizes=False)
    other = a_pod("w7", "n1", "StatefulSet/web")  # the set was scaled up: no new w0
    show(view, ready_node("n0"), ready_node("n1"), other)
    assert texts(execution) == ["Progress 1 shop/w0 is deleted"]
    assert execution.find_deviation(0) == ""
    assert execution.find_deviation(PATIENCE_S) == "no new pod of StatefulSet/web in place of shop/w0 after 30 s"


def test_a_deferred_resize_ends_the_plan_when_it_is_no_longer_pending() -> None:
    pending = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
    view = a_view(ready_node("n0"), a_pod("big", "n0", status={"phase": "Running", "conditions": [pending]}))
    execution = PlanExecution(a_plan(target=False), view, BIG, resizes=True)
    assert (texts(execution), execution.is_finished) == ([], False)
    show(view, ready_node("n0"), a_pod("big", "n0"))
    assert (texts(execution), execution.is_finished) == (["Done - shop/big is resized"], True)


def test_a_plan_that_is_old_is_left_before_its_first_step() -> None:
    view = a_view(ready_node("n0"), ready_node("n1"), a_pod("w0", "n1"), a_pod("big"))
    execution = PlanExecution(a_plan(a_move()), view, BIG, resizes=False)
    assert execution.find_deviation(0) == "shop/w0 of step 1 is no longer on n0"


def test_the_first_plan_that_can_be_followed_is_chosen_or_the_named_one() -> None:
    request, move = a_plan({"kind": "SetRequest"}), a_plan(a_move())
    kinds = [fill(PlansOfKind, kind="request", plans=[request]), fill(PlansOfKind, kind="move", plans=[request, move])]
    review = {**fill(PlanReview, verdict="Planned", kinds=kinds)}
    assert choose_plan(review, "") == (move, "move/2", ["request/1", "move/1"])
    assert choose_plan(review, "move/2") == (move, "move/2", [])
    assert choose_plan({**review, "verdict": "NothingToDo"}, "") is None
    for chosen, message in (("request", "cannot follow the plan request/1"), ("nodes", 'there is no plan "nodes"')):
        with pytest.raises(CliError, match=message):
            choose_plan(review, chosen)
    with pytest.raises(CliError, match="request/1: pods and nodes do not show when its step SetRequest is over"):
        choose_plan({**review, "kinds": kinds[:1]}, "")
    with pytest.raises(CliError, match="there is no plan to follow"):
        choose_plan({**review, "kinds": []}, "")


READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
NODES_OF_THREE = [ready_node(f"n{i}") for i in range(3)]


def test_a_pod_that_ended_has_left_its_node() -> None:
    view = a_view(*NODES_OF_THREE, a_pod("w0", "n0"))
    execution = PlanExecution(a_plan(a_move(), target=False), view, [], resizes=False)
    ended = a_pod("w0", "n0", status={"phase": "Failed"})
    show(view, *NODES_OF_THREE, ended)
    assert (texts(execution), execution.find_deviation(0)) == (["Progress 1 shop/w0 has ended"], "")
    assert execution.find_deviation(PATIENCE_S) == "no new pod of ReplicaSet/web in place of shop/w0 after 30 s"
    show(view, *NODES_OF_THREE, ended, a_pod("w1", "n1", status=READY))
    assert texts(execution) == ["Done 1 shop/w1 is Ready on n1"]
    assert execution.is_finished


def test_a_scaled_down_pod_that_ended_is_gone() -> None:
    view = a_view(*NODES_OF_THREE, a_pod("w0", "n0"))
    step = a_move() | {"kind": "ScaleDown", "landsOn": []}
    execution = PlanExecution(a_plan(step, target=False), view, [], resizes=False)
    show(view, *NODES_OF_THREE, a_pod("w0", "n0", status={"phase": "Succeeded"}))
    assert (texts(execution), execution.is_finished) == (["Done 1 shop/w0 is gone"], True)


def test_another_pod_that_is_scaled_down_leaves_the_plan() -> None:
    view = a_view(*NODES_OF_THREE, a_pod("w0", "n0"), a_pod("w1", "n1"))
    execution = PlanExecution(a_plan(a_move() | {"kind": "ScaleDown"}, target=False), view, [], resizes=False)
    assert (texts(execution), execution.find_deviation(0)) == ([], "")
    show(view, *NODES_OF_THREE, a_pod("w0", "n0"))
    assert texts(execution) == []
    assert execution.find_deviation(0) == "", "its controller may create it anew"
    assert execution.find_deviation(PATIENCE_S) == "shop/w1 was given up instead of shop/w0"
    show(view, *NODES_OF_THREE, a_pod("w0", "n0"), a_pod("w2", "n1"))
    texts(execution)
    assert execution.find_deviation(PATIENCE_S) == ""


def test_the_pod_that_is_to_fit_must_not_end() -> None:
    view = a_view(*NODES_OF_THREE, a_pod("w0", "n0"), a_pod("big", cpu="1"))
    execution = PlanExecution(a_plan(a_move()), view, BIG, resizes=False)
    show(view, *NODES_OF_THREE, a_pod("w0", "n0"), a_pod("big", cpu="1", status={"phase": "Failed"}))
    assert texts(execution) == []
    assert execution.find_deviation(0) == "shop/big has ended"


def test_a_pod_that_its_controller_adds_before_the_deletion_is_no_successor() -> None:
    view = a_view(*NODES_OF_THREE, a_pod("w0", "n0"))
    execution = PlanExecution(a_plan(a_move(), target=False), view, [], resizes=False)
    added = a_pod("added", "n2")
    show(view, *NODES_OF_THREE, a_pod("w0", "n0"), added)
    assert (texts(execution), execution.find_deviation(0)) == ([], "")
    show(view, *NODES_OF_THREE, added, a_pod("w1", "n1", status=READY))
    assert texts(execution)[-1] == "Done 1 shop/w1 is Ready on n1"
    assert execution.find_deviation(0) == ""


def test_a_pod_that_was_created_before_the_scale_down_replaces_nothing() -> None:
    view = a_view(*NODES_OF_THREE, a_pod("w0", "n0"), a_pod("w5", "n2"))
    steps = [{"kind": "Cordon", "node": "n2", "nodes": ["n2"]}, a_move() | {"kind": "ScaleDown", "landsOn": []}]
    execution = PlanExecution(a_plan(*steps, target=False), view, [], resizes=False)
    show(view, *NODES_OF_THREE, a_pod("w0", "n0"), a_pod("w6", "n1"))
    assert texts(execution) == []
    cordoned = [*NODES_OF_THREE[:2], ready_node("n2", unschedulable=True)]
    show(view, *cordoned, a_pod("w0", "n0"), a_pod("w6", "n1"))
    assert texts(execution) == ["Done 1 n2 cordoned"]
    show(view, *cordoned, a_pod("w6", "n1"))
    assert (texts(execution), execution.find_deviation(0)) == (["Done 2 shop/w0 is gone"], "")


def drains(*nodes: str, rolling: bool = False) -> Json:
    planned = [fill(PlannedDrain, node=node, command=f"kubectl drain {node}") for node in nodes]
    cordon = "" if rolling else f"kubectl cordon {' '.join(nodes)}"
    drain = fill(DrainPlan, nodes=planned, cordon=cordon, rolling=rolling)
    chosen = choose_plan({**fill(PlanReview, verdict="Planned", drain=drain)}, "")
    assert chosen is not None
    return chosen.plan


def cordoned(*nodes: str) -> list[Json]:
    return [ready_node(f"n{i}", **({"unschedulable": True} if f"n{i}" in nodes else {})) for i in range(3)]


def test_a_drain_is_over_when_the_new_pods_are_ready() -> None:
    pods, daemon = [a_pod("w0", "n0"), a_pod("w1", "n0"), a_pod("w2", "n1")], a_pod("d0", "n0", "DaemonSet/agent")
    view = a_view(*NODES_OF_THREE, *pods, daemon)
    execution = PlanExecution(drains("n0", "n1"), view, [], resizes=False)
    show(view, *cordoned("n0"), *pods, daemon)
    assert texts(execution) == []
    show(view, *cordoned("n0", "n1"), *pods, daemon)
    assert texts(execution) == ["Done 1 n0, n1 cordoned"]
    show(view, *cordoned("n0", "n1"), *pods[1:], daemon, a_pod("w3", "n2", status=READY))
    assert texts(execution) == ["Progress 2 2 pods leave n0"]
    show(view, *cordoned("n0", "n1"), pods[2], daemon, a_pod("w3", "n2", status=READY))
    assert (texts(execution), execution.find_deviation(0)) == ([], ""), "one of the two has no new pod"
    new = [a_pod(name, "n2", status=READY) for name in ("w3", "w4")]
    show(view, *cordoned("n0", "n1"), pods[2], daemon, *new)
    assert texts(execution) == ["Done 2 n0 is empty; new pods are Ready: 2 on n2"]
    show(view, *cordoned("n0", "n1"), daemon, *new, a_pod("w5", "n2", status=READY))
    assert texts(execution) == ["Done 3 n1 is empty; new pods are Ready: 1 on n2"]
    assert (execution.is_finished, execution.find_deviation(0)) == (True, "")


def test_a_rolling_drain_takes_along_the_pods_that_earlier_drains_brought() -> None:
    view = a_view(*NODES_OF_THREE, a_pod("w0", "n0"))
    execution = PlanExecution(drains("n0", "n1", rolling=True), view, [], resizes=False)
    first = a_pod("w1", "n1", status=READY)
    show(view, *cordoned("n0"), first)
    assert texts(execution) == ["Done 1 n0 is empty; new pods are Ready: 1 on n1"]
    show(view, *cordoned(), first)
    assert texts(execution) == ["Done 2 n0 uncordoned"]
    show(view, *cordoned("n1"), first)
    assert texts(execution) == []
    show(view, *cordoned("n1"), a_pod("w2", "n0", status=READY))
    assert texts(execution) == ["Done 3 n1 is empty; new pods are Ready: 1 on n0"]


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ([*cordoned("n0", "n1"), a_pod("w0", "n0")], "n1 of step 3 was drained before step 2 was over"),
        ([*cordoned("n1"), a_pod("w0", "n0"), a_pod("w1", "n1")], "n0 was uncordoned before step 2 was over"),
        (
            [*cordoned("n0", "n1"), a_pod("w1", "n1")],
            "1 of the pods that left n0 has no new pod after 30 s",
        ),
    ],
    ids=["order", "uncordoned", "not-created"],
)
def test_what_contradicts_a_drain_is_named(objects: list[Json], why: str) -> None:
    view = a_view(*NODES_OF_THREE, a_pod("w0", "n0"), a_pod("w1", "n1"))
    execution = PlanExecution(drains("n0", "n1"), view, [], resizes=False)
    show(view, *cordoned("n0", "n1"), a_pod("w0", "n0"), a_pod("w1", "n1"))
    assert texts(execution) == ["Done 1 n0, n1 cordoned"]
    show(view, *objects)
    texts(execution)
    execution.find_deviation(0)
    assert execution.find_deviation(PATIENCE_S) == why


def test_a_drained_node_must_stay_empty() -> None:
    view = a_view(*NODES_OF_THREE, a_pod("w0", "n0"), a_pod("w1", "n1"))
    execution = PlanExecution(drains("n0", "n1"), view, [], resizes=False)
    new = a_pod("w2", "n2", status=READY)
    show(view, *cordoned("n0", "n1"), new, a_pod("w1", "n1"))
    assert texts(execution)[-1] == "Done 2 n0 is empty; new pods are Ready: 1 on n2"
    show(view, *cordoned("n0", "n1"), new, a_pod("w1", "n1"), a_pod("other", "n0", ""))
    assert execution.find_deviation(0) == "shop/other was bound to n0, which was drained"
