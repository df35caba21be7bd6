"""Proofs that must not hold: what another pod, a toleration, a volume or a lack of time spoils."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.cluster_questions import PlanQuestion
from herodotus_answers.plans import PlanReview, PlansOfKind
from scheduler.engine.plans.answers import answer_plan
from scheduler.engine.progress import ignore_progress
from tests.scheduler.engine.whatif.clusters import a_node, a_pod, a_state

Json = dict[str, Any]
NEVER = {"preemptionPolicy": "Never"}


def ask(objects: list[Json], clock: Any = None, **question: Any) -> PlanReview:
    fields: Json = {"pods": ["shop/big"], "time_limit_seconds": 60} | question
    asked = PlanQuestion(**fields)
    more = () if clock is None else (clock,)
    return answer_plan(a_state(objects), asked, ignore_progress, None, "", *more)[0]


def big(cpu: str = "3", name: str = "big", **more: Any) -> Json:
    return a_pod(name, "", "ReplicaSet/big", cpu, **({"labels": {"app": "big"}} | more))


def only(node: str) -> Json:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def of(review: PlanReview, kind: str) -> PlansOfKind:
    return next(each for each in review["kinds"] if each["kind"] == kind)


def test_pods_that_fit_one_at_a_time_do_not_preempt() -> None:
    objects = [a_node("n0"), a_pod("w0", "n0", cpu="1"), big(), big(name="big-2")]
    review = ask(objects, pods=["shop/big", "shop/big-2"], kinds=["move"])
    assert review["verdict"] == "NoPlan"


def test_pods_preempt_where_only_some_must() -> None:
    objects = [a_node("n0"), a_node("n1"), a_pod("w0", "n0", cpu="3", priority=-1), big(), big(name="big-2")]
    assert ask(objects, pods=["shop/big", "shop/big-2"])["verdict"] == "Preempting"


def test_pods_fit_only_if_every_draw_leaves_room() -> None:
    """The small pod may take the only node of the other one."""
    objects = [a_node("n0", "3"), a_node("n1"), big("2", name="small", **NEVER), big("3", **only("n1"), **NEVER)]
    review = ask(objects, pods=["shop/small", "shop/big"], kinds=["move"])
    assert review["verdict"] == "NoPlan"
    assert of(review, "move")["bound"]["kind"] == "NotProven"


@pytest.mark.parametrize(("policy", "holds"), [({}, False), (NEVER, True)], ids=["preempts", "never"])
def test_a_waiting_pod_that_may_preempt_the_target_spoils_a_plan(policy: Json, holds: bool) -> None:
    objects = [a_node("n0", unschedulable=True), a_pod("w0", "n0", cpu="2", priority=-10), big("2")]
    other = a_pod("other", "", "ReplicaSet/other", "4", priority=50, labels={"app": "other"}, **policy)
    review = ask([*objects, other], kinds=["nodes"], max_changes=1)
    first = [plan["steps"][0]["kind"] for plan in of(review, "nodes")["plans"]]
    assert ("Uncordon" in first) is holds


@pytest.mark.parametrize(("tolerations", "holds"), [([], True), ([{"operator": "Exists"}], False)])
def test_counting_knows_who_returns_to_a_cordoned_node(tolerations: list[Json], holds: bool) -> None:
    """A pod of a StatefulSet is made anew when the old one is gone, and the node has its room then."""
    nodes = [a_node(f"n{i}") for i in range(80)]
    full = [a_pod(f"x{i}", f"n{i}", "", "2", labels={"app": "x"}) for i in range(1, 80)]
    moving = a_pod("a-0", "n0", "StatefulSet/a", "2", tolerations=tolerations)
    objects = [*nodes, *full, moving, a_pod("b", "n0", "", "1", labels={"app": "b"}), big("3", **only("n0"), **NEVER)]
    review = ask(objects, kinds=["move"], max_changes=1)
    assert bool(of(review, "move")["plans"]) is holds


def _claim(name: str) -> Json:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}},
        "storageClassName": "local",
        "volumeMode": "Filesystem",
    }
    metadata = {"name": name, "namespace": "shop", "uid": name}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def test_two_pods_are_not_both_given_one_volume() -> None:
    on_n0 = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n0"]}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "10Gi"},
        "local": {"path": "/d"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_n0]}]}},
        "storageClassName": "local",
        "volumeMode": "Filesystem",
    }
    storage = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "v"},
            "spec": spec,
            "status": {"phase": "Available"},
        },
        _claim("c0"),
        _claim("c1"),
    ]
    names = ["big", "big-2"]
    waiting = [
        big("2", name, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": f"c{i}"}}], **NEVER)
        for i, name in enumerate(names)
    ]
    objects = [a_node("n0"), a_node("n1"), *storage, a_pod("w0", "n0", cpu="4"), *waiting]
    moves = of(ask(objects, pods=[f"shop/{name}" for name in names], kinds=["move"]), "move")
    assert not moves["plans"]
    assert moves["bound"]["kind"] == "NotProven"
    assert of(ask(objects[:-1], kinds=["move"]), "move")["plans"]  # one of them alone


def test_a_request_and_a_mixed_search_prove_nothing_that_they_did_not_try() -> None:
    """Both CPU and memory are too much, and one is lowered at a time."""
    pod = big("8")
    pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = "16Gi"
    request = of(ask([a_node("n0"), pod], kinds=["request"]), "request")
    assert request["bound"]["kind"] == "NotProven"
    terms = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "alone"}}}]
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    pods = [a_pod("w0", "n0", cpu="2"), a_pod("alone", "n1", "", labels={"app": "alone"})]
    nodes = [a_node("n0"), a_node("n1", "8", unschedulable=True)]
    review = ask([*nodes, *pods, big("4", affinity=apart, **only("n1"))], kinds=["move", "nodes"])
    assert of(review, "mixed")["bound"]["kind"] == "Exhaustive"


def test_consolidation_spares_the_control_plane_and_bounds_more_than_was_asked() -> None:
    nodes = [a_node(f"n{i}") for i in range(4)]
    nodes[0]["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = ""
    drain = ask(nodes, pods=[], consolidate=True, nodes=2)["drain"]
    assert drain is not None
    assert (len(drain["nodes"]), drain["bound"], drain["greedy"]) == (2, 3, 3)
    assert "n0" not in {each["node"] for each in drain["nodes"]}


def test_a_consolidation_without_time_ends() -> None:
    nodes = [a_node(f"n{i}") for i in range(4)]
    now = iter([0.0] * 2 + [100.0] * 1000)
    drain = ask(nodes, lambda: next(now), pods=[], consolidate=True)["drain"]
    assert drain is not None
    assert (drain["nodes"], drain["greedy"]) == ([], None)


def test_a_pod_does_not_both_move_and_end() -> None:
    """Together the kinds have two changes of each pod."""
    nodes = [a_node("n0"), a_node("n1", "2")]
    pods = [a_pod(f"w{i}", "n0", "ReplicaSet/w", "1", priority=-5, labels={"app": "w"}) for i in range(3)]
    review = ask([*nodes, *pods, big("4", priority=5, **NEVER)], kinds=["move", "scale-down"], max_changes=4)
    for each in review["kinds"]:
        for plan in each["plans"]:
            moved = [step["pod"] for step in plan["steps"] if step["counted"]]
            assert len(set(moved)) == len(moved)


def test_pods_of_a_controller_that_cannot_be_scaled_are_not_given_up() -> None:
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "r", "uid": "r", "controller": True}
    metadata = {"name": "web", "namespace": "shop", "uid": "web", "ownerReferences": [rollout]}
    selector = {"selector": {"matchLabels": {"app": "web"}}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": selector}
    objects = [a_node("n0"), owner, a_pod("w0", "n0", cpu="2", priority=-5), big("4", priority=5, **NEVER)]
    assert not of(ask(objects, kinds=["scale-down"]), "scale-down")["plans"]


def test_a_search_whose_last_set_was_cut_proves_nothing() -> None:
    objects = [a_node("n0"), a_node("n1"), a_pod("w0", "n0", cpu="3"), a_pod("w1", "n1", cpu="3"), big(**NEVER)]
    reads = 0

    def count() -> float:
        nonlocal reads
        reads += 1
        return 0.0

    ask(objects, count, kinds=["move"], max_changes=1)
    for last in range(1, reads):  # the time is over after each reading of the clock
        now = iter([0.0] * last + [100.0] * 1000)
        bound = of(ask(objects, lambda now=now: next(now), kinds=["move"], max_changes=1), "move")["bound"]
        if last < reads - 3:  # the search had ended: its second turn and the answer read the clock too
            assert bound["kind"] == "NotProven", last
