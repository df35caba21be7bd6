"""Plans after which pods fit: what they consist of, what forces draws, and what they must not do."""

from __future__ import annotations

import re
import time
from collections.abc import Generator
from typing import Any

import msgspec
import pytest

from herodotus_answers.cluster_questions import ClusterQuestion, Drain, PlanQuestion
from herodotus_answers.cluster_review import ClusterReviewStatus, build_cluster_review
from herodotus_answers.plans import PlanReview, PlanStep, describe_bound
from herodotus_cli.render.plan import _list_facts, describe_step
from herodotus_record.disclosure import mask_answer
from scheduler.engine.plans import answers, search
from scheduler.engine.plans.answers import answer_plan
from scheduler.engine.plans.changes import Change
from scheduler.engine.plans.drains import DrainPlanner
from scheduler.engine.plans.likely_sets import LikelySets
from scheduler.engine.plans.time_limit import TimeLimit
from scheduler.engine.plans.world import World
from scheduler.engine.progress import ignore_progress
from scheduler.engine.whatif.budgets import Budgets
from scheduler.engine.whatif.changes import ClusterReviewError, answer_review
from tests.scheduler.engine.whatif.clusters import a_budget, a_node, a_pod, a_state, nodes_by_uid
from tests.support.namespaces import OneNamespace

Json = dict[str, Any]
NEVER = {"preemptionPolicy": "Never"}


@pytest.fixture
def in_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let limits be seconds of processor time, which other work on the machine does not shorten."""
    monkeypatch.setattr(answers, "TimeLimit", lambda seconds, _, report: TimeLimit(seconds, time.thread_time, report))


def ask(objects: list[Json], **question: Any) -> PlanReview:
    """Return the answer to a question for a plan, and check that the copy is left as it was."""
    state = a_state(objects)
    before = nodes_by_uid(state)
    asked = PlanQuestion(**({"pods": ["shop/big"]} | question))
    status = answer_review(state, ClusterQuestion(plan=asked), ignore_progress, 0)
    if not question.get("consolidate"):
        assert nodes_by_uid(state) == before
    assert status["plan"] is not None
    return status["plan"]


def headline(objects: list[Json], **question: Any) -> str:
    asked = PlanQuestion(**({"pods": ["shop/big"]} | question))
    status = answer_review(a_state(objects), ClusterQuestion(plan=asked), ignore_progress, 0)
    return build_cluster_review(status)["status"]["headline"]


def steps_of(review: PlanReview, kind: str) -> list[list[PlanStep]]:
    return [plan["steps"] for each in review["kinds"] if each["kind"] == kind for plan in each["plans"]]


def lines(steps: list[PlanStep]) -> list[str]:
    return [
        " ".join(filter(None, (s["kind"], s["pod"], *s["nodes"], "to" * bool(s["landsOn"]), *s["landsOn"])))
        for s in steps
    ]


def big(cpu: str = "3", **more: Any) -> Json:
    return a_pod("big", "", "ReplicaSet/big", cpu, **({"labels": {"app": "big"}} | more))


TWO = [a_node("n0"), a_node("n1")]
ALONE = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
LOWER = '{"spec":{"template":{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"2500m"}}}]}}}}'


def test_a_pod_that_would_return_to_its_node_is_kept_away_by_a_cordon() -> None:
    review = ask([*TWO, a_pod("w0", "n0", cpu="2"), a_pod("w1", "n1", cpu="2"), big()], kinds=["move"])
    assert lines(steps_of(review, "move")[0]) == ["Cordon n0", "Move w0 to n1", "Uncordon n0"]
    plan = review["kinds"][0]["plans"][0]
    assert plan["targets"] == [{"namespace": "shop", "name": "big", "landsOn": ["n0"]}]
    assert [step["counted"] for step in plan["steps"]] == [False, True, False]
    assert plan["changes"] == 1
    assert plan["steps"][1]["command"].endswith("| kubectl create --raw /api/v1/namespaces/shop/pods/w0/eviction -f -")


def test_a_pod_that_fits_only_elsewhere_needs_no_cordon() -> None:
    zone = {"nodeSelector": {"topology.kubernetes.io/zone": "zone-1"}, "labels": {"app": "x"}}
    other = a_pod("w0", "n0", "ReplicaSet/x", "2", **zone)
    assert lines(steps_of(ask([*TWO, other, a_pod("w1", "n1", cpu="2"), big()], kinds=["move"]), "move")[0]) == [
        "Move w0 to n1"
    ]


def test_a_chain_of_moves_makes_room_for_a_displaced_pod_first() -> None:
    nodes = [a_node("n0", "4"), a_node("n1", "4"), a_node("n2", "2")]
    only = {"nodeSelector": {"kubernetes.io/hostname": "n0"}}
    tied = {"affinity": _allow("n0", "n1"), "labels": {"app": "m"}}
    pods = [
        a_pod("m0", "n0", "ReplicaSet/m", "3", **tied),
        a_pod("s0", "n1", "ReplicaSet/s", "2", labels={"app": "s"}),
    ]
    review = ask([*nodes, *pods, big("3", **only)], kinds=["move"])
    moves = [line for line in lines(steps_of(review, "move")[0]) if line.startswith("Move")]
    assert moves == ["Move s0 to n2", "Move m0 to n1"]
    assert review["kinds"][0]["bound"]["kind"] == "Exhaustive"
    assert review["kinds"][0]["bound"]["changes"] == 2


def test_a_kind_of_which_no_number_of_changes_is_enough_states_no_number() -> None:
    bound = ask([*TWO, a_pod("w0", "n0", cpu="2"), big("100")], kinds=["move"])["kinds"][0]["bound"]
    assert (bound["kind"], bound["changes"]) == ("Relaxation", None)
    assert describe_bound(bound) == f"No plan of this kind exists: {bound['reason']}."


def _allow(*nodes: str) -> Json:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


@pytest.mark.parametrize(
    ("owner", "note"),
    [
        ("", "1 pods are not moved: they have no controller that makes them anew"),
        ("Job/w", "1 pods are not moved: they belong to Jobs, which count a deleted pod as failed"),
        ("DaemonSet/w", ""),
    ],
)
def test_pods_that_nobody_makes_anew_are_not_moved(owner: str, note: str) -> None:
    objects = [*TWO, a_pod("w0", "n0", owner, "2"), a_pod("w1", "n1", "DaemonSet/w", cpu="2"), big()]
    status = answer_review(
        a_state(objects),
        ClusterQuestion(plan=PlanQuestion(pods=["shop/big"], kinds=["move"])),
        ignore_progress,
        0,
    )
    assert status["plan"] is not None
    assert status["plan"]["verdict"] == "NoPlan"
    assert status["notes"] == [note] * bool(note)


def test_a_budget_that_allows_no_eviction_keeps_its_pods() -> None:
    pods = [a_pod("w0", "n0", cpu="2"), a_pod("x0", "n1", "ReplicaSet/x", "2", labels={"app": "x"})]
    review = ask([*TWO, *pods, a_budget("web", "web", maxUnavailable=0), big()], kinds=["move"])
    assert [s["pod"] for s in steps_of(review, "move")[0] if s["pod"]] == ["x0"]


def test_an_eviction_that_a_budget_allows_is_asked_of_the_api_server() -> None:
    objects = [*TWO, a_pod("w0", "n0", cpu="2"), a_pod("w1", "n1", cpu="2"), a_budget("web", "web", maxUnavailable=1)]
    plan = ask([*objects, big()], kinds=["move"])["kinds"][0]["plans"][0]
    assert plan["disruption"]["budgets"] == ["shop/web"]
    assert plan["steps"][1]["command"].endswith("| kubectl create --raw /api/v1/namespaces/shop/pods/w0/eviction -f -")


def test_another_pending_pod_that_takes_the_room_in_one_order_spoils_a_plan() -> None:
    thief = a_pod("thief", "", "ReplicaSet/thief", "3", labels={"app": "thief"})
    objects = [*TWO, a_pod("w0", "n0", cpu="2"), a_pod("w1", "n1", cpu="2"), thief, big()]
    (moves,) = ask(objects, kinds=["move"])["kinds"]
    assert not moves["plans"]
    assert moves["failures"]["TargetPending"]


@pytest.mark.parametrize(("thieves", "holds"), [(1, True), (2, False)])
def test_each_of_several_equal_pods_may_take_the_room(thieves: int, holds: bool) -> None:
    """The new node takes two of these pods."""
    nodes = [a_node("n0", "1"), a_node("n1", "7", unschedulable=True)]
    others = [a_pod(f"t{i}", "", "ReplicaSet/t", "3", labels={"app": "t"}) for i in range(thieves)]
    assert bool(steps_of(ask([*nodes, *others, big()], kinds=["nodes"], max_changes=1), "nodes")) is holds


def test_pods_that_are_being_deleted_are_noted() -> None:
    leaving = a_pod("w0", "n0", cpu="2")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    question = ClusterQuestion(plan=PlanQuestion(pods=["shop/big"], kinds=["move"]))
    objects = [*TWO, leaving, a_pod("w1", "n1", cpu="2"), big()]
    status = answer_review(a_state(objects), question, ignore_progress, 0)
    assert status["notes"] == ["1 pods are being deleted: plans take them as staying"]


MANY = [a_node(f"n{i}") for i in range(80)]


def _fill(cpu: str, **more: Any) -> list[Json]:
    return [a_pod(f"w{i}", f"n{i}", f"ReplicaSet/w{i % 7}", cpu, labels={"app": "w"}, **more) for i in range(80)]


def test_a_plan_with_many_equal_nodes_is_proven_by_counting() -> None:
    plan = ask([*MANY, *_fill("1"), big("4")], kinds=["move"])["kinds"][0]["plans"][0]
    assert lines(plan["steps"])[0] == "Cordon n0"
    assert (plan["states"], len(plan["steps"][1]["landsOn"])) == (0, 79)
    assert plan["targets"][0]["landsOn"] == ["n0"]


@pytest.mark.parametrize(("thieves", "plans"), [(0, True), (1, False)])
def test_counting_proves_nothing_where_others_may_take_the_nodes(thieves: int, plans: bool) -> None:
    """One node has room for a displaced pod, and another pod may take it first."""
    nodes = [*MANY, a_node("spare", "3")]
    only = {"nodeSelector": {"kubernetes.io/hostname": "spare"}}
    waiting = [a_pod("thief", "", "ReplicaSet/t", "2", labels={"app": "t"}, **only)] * thieves
    moves = ask([*nodes, *_fill("2500m"), *waiting, big("4")], kinds=["move"], max_changes=1)["kinds"][0]
    assert bool(moves["plans"]) is plans


def test_a_displaced_pod_that_would_preempt_another_spoils_a_plan() -> None:
    low = {"priority": -5, "labels": {"app": "low"}}
    pods = [a_pod("w0", "n0", cpu="2", priority=0), a_pod("l0", "n1", "ReplicaSet/low", "3", **low)]
    (moves,) = ask([*TWO, *pods, big("3", **NEVER)], kinds=["move"], max_changes=1)["kinds"]
    assert not moves["plans"]


def test_less_important_pods_are_given_up_by_scaling_their_workload_down() -> None:
    pods = [a_pod(f"w{i}", f"n{i}", cpu="2", priority=-5) for i in range(2)]
    review = ask([*TWO, *pods, big("4", priority=5, **NEVER)], kinds=["scale-down"])
    plan = review["kinds"][0]["plans"][0]
    assert [step["kind"] for step in plan["steps"]] == ["ScaleDown"]
    assert plan["steps"][0]["command"] == (
        "kubectl -n shop annotate pod w0 controller.kubernetes.io/pod-deletion-cost=-2147483648 --overwrite"
        " && kubectl -n shop scale replicaset web --replicas=1"
    )


def test_pods_of_the_same_priority_are_not_given_up() -> None:
    pods = [a_pod(f"w{i}", f"n{i}", cpu="2") for i in range(2)]
    assert not steps_of(ask([*TWO, *pods, big("4", **NEVER)], kinds=["scale-down"]), "scale-down")


def test_nodes_are_uncordoned_before_new_ones_are_added() -> None:
    cordoned = a_node("n2", unschedulable=True)
    pods = [a_pod(f"w{i}", f"n{i}", cpu="2") for i in range(2)]
    assert [lines(steps) for steps in steps_of(ask([*TWO, cordoned, *pods, big()], kinds=["nodes"]), "nodes")] == [
        ["Uncordon n2"]
    ]
    added = steps_of(ask([*TWO, *pods, big()], kinds=["nodes"]), "nodes")
    assert [lines(steps) for steps in added] == [["AddNodes n0-new-1"], ["AddNodes n1-new-1"]]


def test_daemons_count_on_a_new_node() -> None:
    pods = [a_pod(f"d{i}", f"n{i}", "DaemonSet/d", cpu="2") for i in range(2)]
    (nodes,) = ask([*TWO, *pods, big()], kinds=["nodes"], max_changes=2)["kinds"]
    assert not nodes["plans"]
    assert (nodes["bound"]["kind"], nodes["bound"]["reason"]) == (
        "NotProven",
        "only copies of the present nodes were tried",
    )


@pytest.mark.parametrize(
    ("owner", "command"),
    [
        ("ReplicaSet/big", f"kubectl -n shop patch replicaset big -p '{LOWER}' && kubectl -n shop delete pod big"),
        ("DaemonSet/big", f"kubectl -n shop patch daemonset big -p '{LOWER}'"),
        ("Job/big", "kubectl -n shop get job big -o json | kubectl patch --local -f - "),
        ("", "kubectl -n shop get pod big -o json | kubectl patch --local -f - "),
    ],
)
def test_the_largest_request_that_fits_is_found_with_the_command_for_the_owner(owner: str, command: str) -> None:
    pods = [a_pod("w0", "n0", cpu="2"), a_pod("w1", "n1", cpu="1500m")]
    waiting = a_pod("big", "", owner, "3", labels={"app": "big"})
    (steps,) = steps_of(ask([*TWO, *pods, waiting], kinds=["request"]), "request")
    assert steps[0]["request"] == "main:cpu=2500m"
    assert steps[0]["command"].startswith(command)
    assert '"requests":{"cpu":"2500m"}' in steps[0]["command"]
    assert "manifest" not in describe_step(steps[0])


def test_pods_that_are_replaced_and_pods_that_are_preempted_are_counted_apart() -> None:
    disruption = {"pods": 11, "replaced": 10, "budgets": [], "volumes": 0, "localData": 0, "newNodes": 0}
    plan = {"targets": [{"namespace": "shop", "name": "big", "landsOn": ["n0"]}], "disruption": disruption}
    cost = "its 10 other pods are replaced too, which is not simulated, 1 pod deleted"
    assert _list_facts(plan) == [("PLACED", "shop/big on n0"), ("COST", cost)]


def test_moves_and_nodes_are_mixed_where_either_alone_is_not_enough() -> None:
    nodes = [a_node("n0"), a_node("n1", "1"), a_node("n2", "1", unschedulable=True)]
    pods = [a_pod("w0", "n0", cpu="1"), a_pod("w1", "n1", cpu="1")]
    review = ask(
        [*nodes, *pods, big("4", affinity=_allow("n0"))], kinds=["move", "nodes"], max_changes=2, time_limit_seconds=60
    )
    kinds = {each["kind"]: [lines(plan["steps"]) for plan in each["plans"]] for each in review["kinds"]}
    assert not kinds["move"]
    assert [line for line in kinds["mixed"][0] if "n0" not in line] == ["Uncordon n2", "Move w0 to n2"]


def test_a_node_is_freed_for_each_of_several_pods_where_all_sets_are_too_many() -> None:
    objects = [a_node(f"{kind}{i}") for kind in ("n", "spare") for i in range(3)]
    for i in range(3):
        objects += [a_pod(f"a{i}", f"n{i}", "", "1500m"), a_pod(f"b{i}", f"n{i}", f"ReplicaSet/b{i}", "1")]
        objects += [a_pod(f"c{i}", f"spare{i}", "", "2800m")]
    objects += [a_node(f"full{i}") for i in range(25)]
    objects += [a_pod(f"d{i}", f"full{i // 3}", f"ReplicaSet/d{i}", "1300m") for i in range(75)]
    objects += [a_pod(f"big{i}", "", "ReplicaSet/big", "2", preemptionPolicy="Never") for i in range(3)]
    review = ask(objects, pods=[f"shop/big{i}" for i in range(3)], kinds=["move"], max_changes=3)
    (plan, *_) = review["kinds"][0]["plans"]
    assert sorted(step["pod"] for step in plan["steps"] if step["counted"]) == ["b0", "b1", "b2"]
    assert review["kinds"][0]["bound"]["kind"] == "Exhaustive"


def test_a_first_plan_is_reported_and_then_replaced_by_a_smaller_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The likely sets lack the one move that is enough, so the first plan has two."""
    choose = LikelySets.choose

    def choose_pairs(sets: LikelySets, size: int) -> Generator[tuple[Change, ...], None, None]:
        if size == 2:
            yield from choose(sets, size)

    monkeypatch.setattr(search, "MAX_QUICK_SETS", 1)
    monkeypatch.setattr(LikelySets, "choose", choose_pairs)
    objects = [a_node("n0"), a_node("n1"), a_node("spare"), a_pod("s", "spare", "", "1500m")]
    objects += [a_pod("a", "n0", "ReplicaSet/a", "1"), a_pod("b", "n0", "ReplicaSet/b", "1"), a_pod("c", "n0", "", "1")]
    objects += [a_pod("d", "n1", "ReplicaSet/d", "2500m"), a_pod("e", "n1", "", "500m"), big("3")]
    reported: list[int] = []

    def report(_done: int, _total: int, smallest: int = 0, /) -> None:
        reported.append(smallest)

    review = answer_plan(a_state(objects), PlanQuestion(pods=["shop/big"], kinds=["move"]), report, None, "")[0]
    assert list(dict.fromkeys(reported)) == [0, 2]
    assert review["kinds"][0]["plans"][0]["changes"] == 1
    assert review["kinds"][0]["bound"]["kind"] == "Exhaustive"


def test_a_shape_of_one_node_among_many_shapes_is_copied() -> None:
    """The pod fits on the only large node's shape; every other node has a shape of its own."""
    nodes = [a_node(f"n{i}") for i in range(40)]
    for i, node in enumerate(nodes):
        node["metadata"]["labels"]["rack"] = f"r{i}"
    objects = [*nodes, a_node("rare", "8"), a_pod("p", "rare", "", "7"), big("7")]
    (plan,) = ask(objects, kinds=["nodes"])["kinds"][0]["plans"]
    assert [step["node"] for step in plan["steps"]] == ["rare"]


def test_pods_of_a_file_are_created_when_there_is_room() -> None:
    pods = [a_pod("w0", "n0", cpu="2"), a_pod("w1", "n1", cpu="2")]
    manifest = big() | {"apiVersion": "v1"}
    review = ask([*TWO, *pods], pods=[], object=manifest, namespace="shop", kinds=["move"])
    assert lines(steps_of(review, "move")[0]) == ["Cordon n0", "Move w0 to n1", "Uncordon n0", "Create"]


def test_all_pending_pods_of_a_workload_fit() -> None:
    nodes = [a_node(f"n{i}") for i in range(4)]
    pods = [a_pod(f"w{i}", f"n{i}", f"ReplicaSet/{'abcd'[i]}", "1500m", labels={"app": "x"}) for i in range(4)]
    waiting = [a_pod(f"big-{i}", "", "ReplicaSet/big", "3", labels={"app": "big"}) for i in range(2)]
    review = ask([*nodes, *pods, *waiting], pods=[], workload="ReplicaSet/big", namespace="shop", kinds=["move"])
    plan = review["kinds"][0]["plans"][0]
    assert plan["changes"] == 2
    assert len(plan["targets"]) == 2
    assert review["kinds"][0]["bound"] == {"kind": "Exhaustive", "changes": 2, "tried": 5, "reason": ""}


@pytest.mark.parametrize(
    ("pods", "verdict"),
    [
        ([a_pod("w0", "n0", cpu="2")], "NothingToDo"),
        ([a_pod(f"w{i}", f"n{i}", cpu="2", priority=-1) for i in range(2)], "Preempting"),
    ],
    ids=["fits", "preempts"],
)
def test_no_plan_is_made_where_none_is_needed(pods: list[Json], verdict: str) -> None:
    review = ask([*TWO, *pods, big()])
    assert (review["verdict"], review["kinds"]) == (verdict, [])


def test_no_plan_is_proven_not_to_exist() -> None:
    objects = [*TWO, a_pod("w0", "n0", cpu="3"), a_pod("w1", "n1", cpu="3"), big()]
    assert headline(objects, kinds=["move"], max_changes=2) == "No plan of at most 2 changes of the kind move exists."


def test_a_search_without_time_proves_nothing() -> None:
    objects = [*TWO, a_pod("w0", "n0", cpu="3"), a_pod("w1", "n1", cpu="3"), big()]
    times = iter([0.0, 0.0, *[100.0] * 1000])
    from scheduler.engine.plans.answers import answer_plan

    review, _ = answer_plan(
        a_state(objects),
        PlanQuestion(pods=["shop/big"], kinds=["move"]),
        ignore_progress,
        None,
        "",
        lambda: next(times),
    )
    assert review["kinds"][0]["bound"]["kind"] == "NotProven"
    assert review["kinds"][0]["bound"]["reason"] == "the time is over"


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"pods": ["shop/other"]}, 'plan: pods "shop/other" not found'),
        ({"pods": [], "workload": "Deployment/x"}, "plan: default/Deployment/x: no pod waits for a node"),
        ({"pods": [], "pod_group": "g"}, 'plan: podgroups "g" not found in namespace default'),
        ({"kinds": ["magic"]}, "plan: kinds: expected change, move, scale-down, nodes, request, got 'magic'"),
        ({"max_changes": 11}, "plan: maxChanges: expected 1 to 10, got 11"),
        ({"pods": [], "drain": ["n9"]}, 'plan: nodes "n9" not found'),
        ({"pods": [], "spread": "Deployment/x"}, "plan: default/Deployment/x: no pod is on a node"),
        (
            {"drain": ["n0"]},
            "plan: expected exactly one of pods, workload, podGroup, object, drain, consolidate and spread",
        ),
    ],
    ids=str,
)
def test_a_question_that_makes_no_sense_is_refused(question: Json, message: str) -> None:
    with pytest.raises(ClusterReviewError) as raised:
        ask([*TWO, big()], **question)
    assert str(raised.value) == message


# --- drains, consolidation, spread ----------------------------------------------------------------------------------


def test_nodes_are_cordoned_before_several_drains() -> None:
    nodes = [a_node(f"n{i}") for i in range(3)]
    pods = [a_pod(f"w{i}", f"n{i}", cpu="1") for i in range(3)]
    drain = ask([*nodes, *pods], pods=[], drain=["n0", "n1"])["drain"]
    assert drain is not None
    assert drain["cordon"] == "kubectl cordon n0 n1"
    assert [(each["node"], each["targets"]) for each in drain["nodes"]] == [("n0", {"n2": 1}), ("n1", {"n2": 1})]
    assert (drain["proven"], drain["runs"]) == (True, 1)


def test_rolling_drains_are_ordered_such_that_no_pod_stays_pending() -> None:
    """The pod of n1 fits on n0 alone, and that node is full until it was drained to the small node."""
    nodes = [a_node("n0", "4"), a_node("n1", "4"), a_node("n2", "2")]
    pods = [
        a_pod("a0", "n0", "ReplicaSet/a", "2", labels={"app": "a"}, affinity=_allow("n0", "n2")),
        a_pod("b0", "n1", "ReplicaSet/b", "3", labels={"app": "b"}, affinity=_allow("n0", "n1")),
    ]
    drain = ask([*nodes, *pods], pods=[], drain=["n1", "n0"], rolling=True)["drain"]
    assert drain is not None
    assert [each["node"] for each in drain["nodes"]] == ["n0", "n1"]
    assert drain["given"] == "a pod stays Pending, or a budget forbids an eviction"
    assert drain["cordon"] == ""


@pytest.mark.usefixtures("in_processor_time")
def test_an_order_of_drains_that_is_proven_is_preferred() -> None:
    """The pod b of n1 fits on n3 alone until n0 was drained, and c may take n3, although n2 is better for c now."""
    nodes = [a_node("n0", "4"), a_node("n1", "8"), a_node("n2", "8"), a_node("n3", "4")]
    pods = [
        a_pod("a0", "n0", "ReplicaSet/a", "2", labels={"app": "a"}, affinity=_allow("n2")),
        a_pod("b0", "n1", "ReplicaSet/b", "3", labels={"app": "b"}, affinity=_allow("n0", "n3")),
        a_pod("c0", "n1", "ReplicaSet/c", "2", labels={"app": "c"}),
        a_pod("d0", "n3", "ReplicaSet/d", "500m", labels={"app": "d"}),
    ]
    drain = ask([*nodes, *pods], pods=[], drain=["n1", "n0"], rolling=True)["drain"]
    assert drain is not None
    assert (drain["given"], drain["proven"]) == ("", True)
    assert [each["node"] for each in drain["nodes"]] == ["n0", "n1"]
    only = ask([*nodes, *pods], pods=[], drain=["n1"], time_limit_seconds=1)["drain"]
    assert only is not None
    assert not only["proven"]
    assert only["runs"] > 1
    words = "which is no proof."
    assert headline([*nodes, *pods], pods=[], drain=["n1"], time_limit_seconds=1).endswith(words)


@pytest.mark.usefixtures("in_processor_time")
def test_no_drain_is_proven_while_a_pod_may_preempt_or_pods_share_a_constraint() -> None:
    nodes = [a_node(f"n{i}") for i in range(3)]
    pods = [a_pod("w0", "n0"), a_pod("w1", "n1")]
    high = a_pod("high", "", "ReplicaSet/high", "9", priority=9)
    alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [ALONE]}}
    for objects, proven in (
        (pods, True),
        ([*pods, high], False),
        ([*pods, high | {"spec": high["spec"] | NEVER}], True),
        ([a_pod("w0", "n0", affinity=alone)], False),
    ):
        drain = ask([*nodes, *objects], pods=[], drain=["n0"], time_limit_seconds=1)["drain"]
        assert drain is not None
        assert (len(drain["nodes"]), drain["proven"]) == (1, proven)


def test_a_drain_that_a_budget_forbids_is_named() -> None:
    objects = [*TWO, a_pod("w0", "n0"), a_budget("web", "web", maxUnavailable=0)]
    review = ask(objects, pods=[], drain=["n0"])
    assert review["verdict"] == "NoPlan"
    assert review["drain"] is not None
    assert [(each["node"], each["pod"]) for each in review["drain"]["obstacles"]] == [("n0", "shop/w0")]


def test_more_nodes_are_emptied_than_one_after_the_other() -> None:
    """The pods of the emptiest node fit on the two others only beside nothing else."""
    nodes = [a_node("n0", "4"), a_node("n1", "4"), a_node("n2", "4"), a_node("n3", "8")]
    pods = [a_pod(f"w{i}", f"n{i}", f"ReplicaSet/{'abcd'[i]}", "2", labels={"app": "x"}) for i in range(3)]
    drain = ask([*nodes, *pods], pods=[], consolidate=True)["drain"]
    assert drain is not None
    assert drain["greedy"] is not None
    assert drain["bound"] == 3
    assert len(drain["nodes"]) == 3 >= drain["greedy"]


def test_a_node_whose_pod_fits_nowhere_else_is_not_in_the_bound() -> None:
    """By sums the pods of any one node fit on the two others, but the pod of n0 alone is larger than each free part."""
    nodes = [a_node("n0", "4"), a_node("n1", "4"), a_node("n2", "4")]
    pods = [
        a_pod("a", "n0", "ReplicaSet/a", "3"),
        a_pod("b", "n1", "ReplicaSet/b", "2"),
        a_pod("c", "n2", "ReplicaSet/c", "2"),
    ]
    drain = ask([*nodes, *pods], pods=[], consolidate=True)["drain"]
    assert drain is not None
    assert [each["node"] for each in drain["obstacles"]] == ["n0"]
    assert (len(drain["nodes"]), drain["bound"]) == (1, 1)
    full = [*nodes, *pods, a_pod("d", "n1", "ReplicaSet/d", "2"), a_pod("e", "n2", "ReplicaSet/e", "1")]
    drain = ask(full, pods=[], consolidate=True)["drain"]
    assert drain is not None
    assert (drain["nodes"], drain["bound"]) == ([], 0)


def test_a_large_consolidation_takes_decisions_in_proportion_to_its_pods() -> None:
    """Half of the nodes are emptied. Carrying out all earlier drains again for each node would take 400 decisions."""
    nodes = [a_node(f"n{i}") for i in range(40)]
    pods = [a_pod(f"w{i}", f"n{i}", f"ReplicaSet/w{i}", "2", labels={"app": "x"}) for i in range(40)]
    limit = TimeLimit(1e9, lambda: 0.0, ignore_progress)
    world = World(a_state([*nodes, *pods]), limit)
    planner = DrainPlanner(world, Budgets([], []), [], Drain(nodes=[]))
    assert len(planner.choose([f"n{i}" for i in range(40)], 30)) == 20
    assert world.decided <= 100


def test_the_number_of_emptied_nodes_can_be_limited() -> None:
    nodes = [a_node(f"n{i}") for i in range(4)]
    drain = ask([*nodes, a_pod("w0", "n0")], pods=[], consolidate=True, nodes=2)["drain"]
    assert drain is not None
    assert (len(drain["nodes"]), drain["bound"]) == (2, 3)


def test_a_workload_is_spread_again_by_the_fewest_moves() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    more: Json = {"cpu": "500m", "topologySpreadConstraints": [constraint]}
    pods = [a_pod(f"w{i}", "n0", **more) for i in range(4)]
    question = {"pods": [], "spread": "ReplicaSet/web", "namespace": "shop"}
    review = ask([*TWO, *pods], **question)
    assert review["spread"][0]["domains"] == {"zone-0": 4, "zone-1": 0}
    plan = review["kinds"][0]["plans"][0]
    assert [step["landsOn"] for step in plan["steps"] if step["counted"]] == [["n1"], ["n1"]]
    bound = {"kind": "Relaxation", "changes": 2, "tried": 0, "reason": "the skew stays too large"}
    assert review["kinds"][0]["bound"] == bound
    even = [a_pod(f"w{i}", f"n{i % 2}", **more) for i in range(4)]
    assert ask([*TWO, *even], **question)["verdict"] == "NothingToDo"


def test_a_reader_of_another_namespace_sees_nodes_and_no_names() -> None:
    """A plan names pods, owners and budgets in steps and commands: all of them are masked."""
    pods = [a_pod(f"w{i}", f"n{i}", cpu="2") for i in range(2)]
    objects = [*TWO, *pods, a_budget("web", "web", maxUnavailable=1), big()]
    question = ClusterQuestion(plan=PlanQuestion(pods=["shop/big"]))
    status = answer_review(a_state(objects), question, ignore_progress, 0)
    masked = mask_answer(status, ClusterReviewStatus, OneNamespace("other"))
    text = msgspec.json.encode(build_cluster_review(masked)).decode()
    assert masked["plan"] is not None
    assert [s["nodes"] for s in steps_of(masked["plan"], "move")[0]] == [["n0"], [], ["n0"]]
    assert steps_of(masked["plan"], "move")[0][0]["command"] == "kubectl cordon n0"
    for name in ("shop", "w0", "w1", "web", "ReplicaSet", "big", "main"):
        assert name not in text, name


def _labelled(name: str, **labels: str) -> Json:
    node = a_node(name)
    node["metadata"]["labels"] |= labels
    return node


TAINTED_NODE = a_node("n0", taints=[{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}])
FIXES: dict[str, tuple[list[Json], str, str, bool]] = {
    "toleration": (
        [TAINTED_NODE, big()],
        "The pod fits after 1 change (tolerate the taint dedicated=ml:NoSchedule). No plan is smaller.",
        "kubectl -n shop patch replicaset big",
        True,
    ),
    "toleration of a pod without an owner": (
        [TAINTED_NODE, a_pod("big", "", "", "3")],
        "The pod fits after 1 change (tolerate the taint dedicated=ml:NoSchedule). No plan is smaller.",
        "kubectl -n shop patch pod big",
        True,
    ),
    "a label rather than a new node": (
        [_labelled("n0", disk="ssd"), a_node("n1"), a_pod("full", "n0", "", "4"), big(nodeSelector={"disk": "ssd"})],
        "The pod fits after 1 change (remove disk=ssd from the node selector). No plan is smaller.",
        "kubectl -n shop patch replicaset big",
        True,
    ),
    "pods that end anyway": (
        [
            a_node("n0"),
            big(nodeSelector={"kubernetes.io/hostname": "n0"}),
            a_pod("full", "n0", "", "4")
            | {"metadata": a_pod("full")["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        ],
        "The pod fits after 1 change (wait for the end of shop/full on n0, now terminating). No plan is smaller.",
        "",
        False,
    ),
}


@pytest.mark.parametrize("case", FIXES)
def test_a_fix_that_the_answer_about_the_pod_names_is_a_plan(case: str) -> None:
    objects, expected, command, proven = FIXES[case]
    kinds = {} if proven else {"kinds": ["change"]}
    assert headline(objects, **kinds) == expected
    review = ask(objects, **kinds)
    plan = next(plan for each in review["kinds"] for plan in each["plans"] if each["kind"] == "change")
    assert plan["steps"][0]["command"].startswith(command)
    assert (plan["proven"], plan["changes"]) == (proven, 1)


def test_a_fix_of_the_pod_says_which_other_pods_it_replaces() -> None:
    labels = {"app": "big", "pod-template-hash": "abc"}
    pods = [a_pod(f"big-{i}", "n0", "ReplicaSet/big-abc", "1", labels=labels) for i in range(2)]
    waiting = a_pod("big", "", "ReplicaSet/big-abc", "3", labels=labels)
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": "big-abc",
            "namespace": "shop",
            "uid": "big-abc",
            "labels": labels,
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "big", "uid": "big", "controller": True}
            ],
        },
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}},
    }
    review = ask([a_node("n0"), a_node("n1", taints=TAINTED_NODE["spec"]["taints"]), owner, *pods, waiting])
    (plan,) = next(each["plans"] for each in review["kinds"] if each["kind"] == "change")
    disruption = plan["disruption"]
    assert (plan["steps"][0]["owner"], disruption["pods"], disruption["replaced"]) == ("Deployment/big", 2, 2)


def test_a_lower_request_or_an_uncordoned_node_is_a_plan_of_its_own_kind_alone() -> None:
    review = ask([a_node("n0"), a_node("n1", unschedulable=True), a_pod("full", "n0", "", "2"), big()])
    assert {each["kind"] for each in review["kinds"] if each["plans"]} == {"nodes", "request"}


def test_a_lower_request_is_rounded_as_a_suggestion() -> None:
    review = ask([a_node("n0", cpu="16"), a_pod("full", "n0", "", "5350m"), big(cpu="15")])
    (plan,) = next(each["plans"] for each in review["kinds"] if each["kind"] == "request")
    assert re.findall(r"\d+m", plan["steps"][0]["command"] or str(plan["steps"][0])) == ["10600m"]  # not 10650m


def test_a_new_node_comes_after_a_fix_and_a_lower_request() -> None:
    review = ask(
        [_labelled("n0", disk="ssd"), a_node("n1"), a_pod("full", "n0", "", "2"), big(nodeSelector={"disk": "ssd"})]
    )
    assert [each["kind"] for each in review["kinds"] if each["plans"]] == ["change", "request", "nodes"]
    fixes = next(each["plans"] for each in review["kinds"] if each["kind"] == "change")
    assert [(plan["steps"][0]["text"], plan["proven"]) for plan in fixes] == [
        ("remove disk=ssd from the node selector", True),
        ("label n1 with disk=ssd", True),
    ]
    assert fixes[1]["steps"][0]["command"] == "kubectl label node n1 disk=ssd"
    assert fixes[1]["targets"][0]["landsOn"] == ["n1"]


def test_a_fix_that_gives_up_hardware_comes_after_all_other_plans() -> None:
    gpu = _labelled("n0", accelerator="gpu")
    gpu["status"]["allocatable"]["nvidia.com/gpu"] = "1"
    review = ask([gpu, a_node("n1"), a_pod("full", "n0", "", "2"), big(nodeSelector={"accelerator": "gpu"})])
    assert [each["kind"] for each in review["kinds"] if each["plans"]] == ["request", "nodes", "change"]


def test_no_sets_are_tried_where_the_node_with_room_has_a_taint() -> None:
    """No pod that leaves lifts the taint, and the other nodes have none of the resource."""
    tainted = a_node("n9", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    tainted["status"]["allocatable"]["example.com/gpu"] = "1"
    pods = [a_pod(f"w{i}", f"n{i % 2}", cpu="500m") for i in range(8)] + [a_pod("w9", "n9", cpu="500m")]
    waiting = a_pod("big", "", "", "500m", **NEVER)
    waiting["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
    review = ask([*TWO, tainted, *pods, waiting], kinds=["move", "scale-down"])
    assert review["verdict"] == "NoPlan"
    assert review["kinds"][0]["bound"] == {
        "kind": "Relaxation",
        "changes": None,
        "tried": 0,
        "reason": "it frees too little on every suitable node",
    }
    assert review["decided"] < 20


def test_copies_of_nodes_that_the_pod_does_not_tolerate_are_not_tried() -> None:
    tainted = [a_node(f"n{i}", taints=[{"key": "team", "value": str(i), "effect": "NoSchedule"}]) for i in range(5)]
    objects = [*tainted, *(a_pod(f"w{i}", f"n{i}", cpu="4") for i in range(5)), big()]
    review = ask(objects, kinds=["nodes"])
    assert review["verdict"] == "NoPlan"
    assert review["kinds"][0]["failures"] == {}
    assert review["decided"] < 15


def test_no_sets_are_simulated_that_leave_too_little_room_for_all_pods_together() -> None:
    """One of the two pods fits already, and after one move there is no room for the other."""
    pods = [a_pod(f"w{i}-{j}", f"n{i}", f"ReplicaSet/w{j}", cpu="250m") for i in (1, 2) for j in range(6)]
    targets = [a_pod(f"big-{i}", "", "ReplicaSet/big", "3", **NEVER) for i in range(2)]
    review = ask(
        [*(a_node(f"n{i}") for i in range(3)), a_pod("w", "n0", "", cpu="500m"), *pods, *targets],
        pods=["shop/big-0", "shop/big-1"],
        kinds=["move"],
        max_changes=1,
    )
    assert review["verdict"] == "NoPlan"
    assert review["kinds"][0]["bound"]["kind"] == "Exhaustive"
    assert review["decided"] < 15
