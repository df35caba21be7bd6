"""Plans for pods and groups with resource claims, and plans that move pods with claims."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.cluster_questions import ClusterQuestion, PlanQuestion
from herodotus_answers.plans import PlanReview
from scheduler.engine.plans import search
from scheduler.engine.progress import ignore_progress
from scheduler.engine.whatif.changes import answer_review
from tests.scheduler.engine.plans.devices import API, CLASS, DRIVER
from tests.scheduler.engine.whatif.clusters import a_node, a_pod, a_state

Json = dict[str, Any]
SELECTOR = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
CARDS = {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": CLASS}, "spec": {"selectors": [SELECTOR]}}


def ask(objects: list[Json], **question: Any) -> PlanReview:
    state = a_state([CARDS, *objects])
    asked = ClusterQuestion(plan=PlanQuestion(**({"namespace": "shop"} | question)))
    status = answer_review(state, asked, ignore_progress, 0)
    assert status["plan"] is not None
    return status["plan"]


def list_moves(review: PlanReview) -> list[str]:
    """Return the pods that move in the first plan."""
    return [step["pod"] for step in review["kinds"][0]["plans"][0]["steps"] if step["kind"] == "Move"]


def list_steps(review: PlanReview) -> list[str]:
    """Return each step of the first plan as KIND NODE-OR-POD."""
    return [
        f"{step['kind']} {step['pod'] or ','.join(step['nodes'])}" for step in review["kinds"][0]["plans"][0]["steps"]
    ]


def a_slice(node: str, count: int) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"card-{i}"} for i in range(count)]
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": devices}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}


def spec_of(count: int) -> Json:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": CLASS, "count": count}}]}}


def a_template(name: str, count: int = 1) -> Json:
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": API, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": {"spec": spec_of(count)}}


def a_claim(name: str, *, count: int = 1, node: str = "", first: int = 0, of: Json | None = None) -> Json:
    """A claim, allocated to cards of a node from the number `first` on if one is given, and generated for the pod."""
    claim: Json = {"apiVersion": API, "kind": "ResourceClaim", "spec": spec_of(count)}
    claim["metadata"] = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    if of is not None:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": of["metadata"]["name"], "uid": of["metadata"]["uid"]}
        claim["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    if node:
        results = [
            {"request": "r", "driver": DRIVER, "pool": node, "device": f"card-{first + i}"} for i in range(count)
        ]
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
        claim["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
        claim["status"] = {
            "allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": terms}},
            "reservedFor": [],
        }
    return claim


def with_own_claim(name: str, node: str, owner: str, *, count: int = 1, first: int = 0, **more: Any) -> list[Json]:
    """A pod with a claim that was generated for it from the template `card`, and the claim."""
    pod = a_pod(name, node, owner, resourceClaims=[{"name": "d", "resourceClaimTemplateName": f"card-{count}"}], **more)
    pod["status"] = pod["status"] | {"resourceClaimStatuses": [{"name": "d", "resourceClaimName": f"{name}-d"}]}
    claim = a_claim(f"{name}-d", count=count, node=node, first=first, of=pod)
    if node:
        claim["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": f"uid-{name}"}]
    return [pod, claim]


def test_a_file_whose_pods_have_claims_fits_where_devices_are_free() -> None:
    spec = {"containers": [{"name": "main", "image": "x"}]}
    spec |= {"resourceClaims": [{"name": "d", "resourceClaimTemplateName": "card-1"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new", "namespace": "shop"}, "spec": spec}
    objects = [a_node("n0"), a_node("n1"), a_slice("n1", 1), a_template("card-1")]
    assert ask(objects, object=pod)["verdict"] == "NothingToDo"
    assert ask([*objects[:2], a_slice("n1", 0), a_template("card-1")], object=pod)["verdict"] == "NoPlan"


def a_group_that_shares_a_claim(cpu: str) -> list[Json]:
    """Two pods of a group, of which both or none are scheduled, and their claim."""
    group: Json = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup"}
    group |= {"metadata": {"name": "big", "namespace": "shop"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    fields: Json = {"resourceClaims": [{"name": "d", "resourceClaimName": "shared"}]}
    fields |= {"schedulingGroup": {"podGroupName": "big"}}
    return [group, a_claim("shared"), *(a_pod(f"big-{i}", "", "ReplicaSet/big", cpu=cpu, **fields) for i in range(2))]


def test_pods_that_share_a_claim_fit_on_a_node_with_room_for_all_of_them() -> None:
    """The first feasible node has room for one."""
    nodes = [a_node("n0"), a_node("n1", cpu="8"), a_node("n2", cpu="3"), a_slice("n0", 1), a_slice("n1", 1)]
    pods = [a_pod("w0", "n0", "", "2400m"), a_pod("w1", "n1", cpu="2750m"), a_pod("w2", "n1", "", "2500m")]
    review = ask([*nodes, *pods, *a_group_that_shares_a_claim("1500m")], pod_group="big", kinds=["move"])
    assert list_moves(review) == ["w1"]
    assert review["kinds"][0]["plans"][0]["targets"][0]["landsOn"] == ["n1"]


@pytest.mark.parametrize(("most", "verdict"), [("110", "NothingToDo"), ("2", "NoPlan")])
def test_a_group_that_may_miss_its_quorum_by_a_tie_break_does_not_fit(most: str, verdict: str) -> None:
    """Two nodes are equally good for the first pod, and the one takes at most `most` pods."""
    nodes = [a_node("n0"), a_node("n1"), a_slice("n0", 1), a_slice("n1", 1)]
    nodes[0]["status"]["allocatable"]["pods"] = most
    objects = [*nodes, a_pod("w0", "n0", ""), a_pod("w1", "n1", ""), *a_group_that_shares_a_claim("1")]
    assert ask(objects, pod_group="big", kinds=["move"])["verdict"] == verdict


def test_a_pod_lands_elsewhere_only_after_its_claim_is_free() -> None:
    """Until then its new pod gets the old node, where the claim still has its device: a cordon prevents it."""
    first = a_pod("w0", "n0", cpu="3", resourceClaims=[{"name": "d", "resourceClaimName": "single"}])
    claim = a_claim("single", node="n0")
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "w0", "uid": "uid-w0"}]
    target = a_pod("big", "", "", cpu="3", nodeSelector={"kubernetes.io/hostname": "n0"})
    objects = [a_node("n0"), a_node("n1", cpu="8"), a_slice("n0", 1), a_slice("n1", 1), first, claim, target]
    review = ask(objects, pods=["shop/big"], kinds=["move"])
    assert list_steps(review) == ["Cordon n0", "Move w0", "Uncordon n0"]


@pytest.mark.parametrize("most_sets", [search.MAX_QUICK_SETS, 0], ids=["every set", "from the nodes"])
def test_devices_of_a_moved_pod_are_free_for_the_target(monkeypatch: pytest.MonkeyPatch, most_sets: int) -> None:
    monkeypatch.setattr(search, "MAX_QUICK_SETS", most_sets)
    objects = [*(a_node(f"n{i}") for i in range(3)), *(a_slice(f"n{i}", 2) for i in range(3))]
    objects += [a_template("card-1"), a_template("card-2", 2)]
    for i in range(3):
        objects += with_own_claim(f"w{i}", f"n{i}", "ReplicaSet/web" if i == 1 else "")
    review = ask([*objects, *with_own_claim("big", "", "", count=2)], pods=["shop/big"], kinds=["move"])
    assert list_moves(review) == ["w1"]
    assert review["kinds"][0]["plans"][0]["targets"][0]["landsOn"] == ["n1"]


def test_a_new_node_has_the_devices_of_the_node_that_it_copies() -> None:
    objects = [a_node("n0"), a_node("n1"), a_node("n2"), a_slice("n0", 1), a_slice("n1", 2), a_template("card-2", 2)]
    objects += [*with_own_claim("w0", "n1", "", count=2), *with_own_claim("big", "", "ReplicaSet/big", count=2)]
    (nodes,) = ask(objects, pods=["shop/big"], kinds=["nodes"])["kinds"]
    (plan,) = nodes["plans"]
    assert [(step["kind"], step["node"], step["nodes"]) for step in plan["steps"]] == [("AddNodes", "n1", ["n1-new-1"])]
    assert plan["targets"][0]["landsOn"] == ["n1-new-1"]
