"""Which pods each plugin of the descheduler evicts, in small clusters computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler.engine.descheduler.policies import a_policy, deschedule, evicted, why_not
from tests.scheduler.engine.whatif.clusters import a_node, a_pod

Json = dict[str, Any]
DEDICATED = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
THREE = [a_node("n0"), a_node("n1"), a_node("n2")]


def filled(counts: dict[str, int], cpu: str = "1") -> list[Json]:
    """Nodes of 4 CPUs, with so many pods on each."""
    nodes = [a_node(name) for name in counts]
    return [*nodes, *(a_pod(f"{name}-{i}", name, cpu=cpu) for name, count in counts.items() for i in range(count))]


# --- node utilization ---------------------------------------------------------------------------------------------


def low(thresholds: Json, targets: Json, **more: Any) -> Json:
    return {"LowNodeUtilization": {"thresholds": thresholds, "targetThresholds": targets, **more}}


def test_an_overutilized_node_loses_pods_until_it_is_at_its_target() -> None:
    """n0 has 4 of 4 CPUs, its target is 2 (50 %); n1 has 0 and may take 2."""
    review = deschedule(filled({"n0": 4, "n1": 0, "n2": 2}), a_policy(low({"cpu": 20}, {"cpu": 50})))
    assert evicted(review) == ["n0-0", "n0-1"]
    assert review["evictions"][0]["reason"] == "its node is overutilized: cpu 100% > 50%"
    assert [(each["node"], each["class"], each["percentages"]) for each in review["plugins"][0]["utilization"]] == [
        ("n0", "Overutilized", {"cpu": 100.0}),
        ("n1", "Underutilized", {"cpu": 0.0}),
        ("n2", "Appropriate", {"cpu": 50.0}),
    ]


def test_evictions_end_when_the_room_below_the_target_is_used_up() -> None:
    """n1 has 1 of 4 CPUs and takes 1 more until its target of 2, so one of the two evictions is left."""
    review = deschedule(filled({"n0": 4, "n1": 1, "n2": 2}), a_policy(low({"cpu": 25}, {"cpu": 50})))
    assert evicted(review) == ["n0-0"]


@pytest.mark.parametrize(
    ("counts", "more", "summary"),
    [
        ({"n0": 4, "n1": 2}, {}, "no node is underutilized"),
        ({"n0": 2, "n1": 0}, {}, "no node is overutilized"),
        ({"n0": 0, "n1": 0}, {}, "all nodes are underutilized"),
        ({"n0": 4, "n1": 0}, {"numberOfNodes": 1}, "1 underutilized nodes are not more than numberOfNodes, 1"),
    ],
)
def test_a_plugin_says_why_it_does_nothing(counts: dict[str, int], more: Json, summary: str) -> None:
    review = deschedule(filled(counts), a_policy(low({"cpu": 20}, {"cpu": 50}, **more)))
    assert (evicted(review), review["plugins"][0]["summary"]) == ([], summary)


def test_deviation_thresholds_are_relative_to_the_average() -> None:
    """Uses of 100, 50 and 0 % have the average 50: below 40 % a node is underutilized, above 70 % overutilized.

    Of 4 CPUs 2.8 may be used: of n0's four pods two must go, until 2 are left.
    """
    policy = a_policy(low({"cpu": 10}, {"cpu": 20}, useDeviationThresholds=True))
    assert evicted(deschedule(filled({"n0": 4, "n1": 2, "n2": 0}), policy)) == ["n0-0", "n0-1"]
    wide = a_policy(low({"cpu": 10}, {"cpu": 50}, useDeviationThresholds=True))
    assert evicted(deschedule(filled({"n0": 4, "n1": 2, "n2": 0}), wide)) == []


def test_pods_of_low_priority_and_quality_of_service_leave_first() -> None:
    """Of equal priority, BestEffort pods come first, then Burstable and Guaranteed ones."""
    guaranteed = a_pod("a-guaranteed", "n0")
    guaranteed["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }
    best_effort = a_pod("c-best-effort", "n0")
    best_effort["spec"]["containers"][0]["resources"] = {}
    objects = [
        *(a_node(f"n{i}") for i in range(2)),
        a_pod("0-important", "n0", priority=10),
        guaranteed,
        a_pod("b-burstable", "n0"),
        best_effort,
        a_pod("d-burstable", "n0"),
    ]
    policy = a_policy(low({"pods": 1}, {"pods": 1}), {"evictSystemCriticalPods": True})
    assert evicted(deschedule(objects, policy))[:4] == ["c-best-effort"]  # 110 pods · 1 % is room for one
    policy = a_policy(low({"cpu": 1}, {"cpu": 20}))  # 0.8 of 4 CPUs: room is used up after one with a request
    assert evicted(deschedule(objects, policy)) == ["c-best-effort", "b-burstable"]


def test_a_limit_per_node_ends_the_evictions_of_the_plugin() -> None:
    policy = a_policy(low({"cpu": 20}, {"cpu": 50}, evictionLimits={"node": 1}))
    assert evicted(deschedule(filled({"n0": 4, "n1": 0}), policy)) == ["n0-0"]


def test_pods_that_tolerate_no_node_with_room_stay() -> None:
    objects = [a_node("n0"), a_node("n1", taints=[DEDICATED]), *(a_pod(f"p{i}", "n0") for i in range(4))]
    review = deschedule(objects, a_policy(low({"cpu": 20}, {"cpu": 50})), "shop/p0")
    assert evicted(review) == []
    assert why_not(review) == ["it does not tolerate the taints of a node with room"]


def test_underutilized_nodes_are_emptied_while_others_have_room() -> None:
    """n1 uses 25 %, at the threshold; n0 has 1 CPU left, so one pod of n1 leaves, and then no room is left."""
    objects = [*filled({"n0": 3, "n1": 1}), a_node("n2"), a_pod("n2-0", "n2")]
    policy = a_policy({"HighNodeUtilization": {"thresholds": {"cpu": 25}}})
    assert evicted(deschedule(objects, policy)) == ["n1-0"]
    assert deschedule(objects, policy)["evictions"][0]["reason"] == "its node is underutilized: cpu 25% ≤ 25%"


def test_only_pods_that_request_a_resource_with_a_threshold_leave_in_that_mode() -> None:
    objects = filled({"n0": 3, "n1": 1})
    args = {"thresholds": {"memory": 25}, "evictionModes": ["OnlyThresholdingResources"]}
    objects[2]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "4Gi"  # n0 is above 25 % of 8Gi
    review = deschedule(objects, a_policy({"HighNodeUtilization": args}), "shop/n1-0")
    assert (evicted(review), why_not(review)) == ([], ["it requests none of memory"])


# --- duplicates ---------------------------------------------------------------------------------------------------


def test_duplicates_above_the_average_of_the_nodes_leave() -> None:
    """Five pods on three nodes: up to two on each; n0 has four, of which the last two leave."""
    objects = [*THREE, *(a_pod(f"w{i}", "n0") for i in range(4)), a_pod("w4", "n1")]
    review = deschedule(objects, a_policy({"RemoveDuplicates": {}}))
    assert evicted(review) == ["w2", "w3"]
    assert review["evictions"][0]["reason"] == "4 pods of ReplicaSet/web are on its node, and 2 would do"
    assert review["others"] == 2  # the descheduler may keep others


def test_pods_with_other_images_are_no_duplicates() -> None:
    objects = [*THREE, *(a_pod(f"w{i}", "n0") for i in range(2))]
    assert evicted(deschedule(objects, a_policy({"RemoveDuplicates": {}}))) == ["w1"]
    objects[-1]["spec"]["containers"][0]["image"] = "web:2"
    assert evicted(deschedule(objects, a_policy({"RemoveDuplicates": {}}))) == []


def test_nodes_that_pods_do_not_tolerate_do_not_count_for_the_average() -> None:
    tainted = [a_node("n0"), a_node("n1", taints=[DEDICATED]), *(a_pod(f"w{i}", "n0") for i in range(2))]
    review = deschedule(tainted, a_policy({"RemoveDuplicates": {}}), "shop/w1")
    assert evicted(review) == []
    assert why_not(review) == ["fewer than two nodes tolerate and match the pods of its owner"]


def test_kinds_of_owners_can_be_left_out() -> None:
    objects = [*THREE, *(a_pod(f"w{i}", "n0") for i in range(2))]
    policy = a_policy({"RemoveDuplicates": {"excludeOwnerKinds": ["ReplicaSet"]}})
    assert evicted(deschedule(objects, policy)) == []


# --- topology spread ----------------------------------------------------------------------------------------------


def spread_pods(counts: dict[str, int], action: str = "DoNotSchedule", **more: Any) -> list[Json]:
    constraint = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": action}
    constraint["labelSelector"] = {"matchLabels": {"app": "web"}}
    each: Json = {"topologySpreadConstraints": [constraint | more], "cpu": "500m"}
    return [a_pod(f"{node}-{i}", node, **each) for node, count in counts.items() for i in range(count)]


SPREAD = "RemovePodsViolatingTopologySpreadConstraint"


def test_pods_of_a_domain_with_too_many_leave() -> None:
    """4, 1 and 1 pods: the average is 2, so two of the four move to one domain each."""
    objects = [*THREE, *spread_pods({"n0": 4, "n1": 1, "n2": 1})]
    review = deschedule(objects, a_policy({SPREAD: {}}))
    assert sorted(evicted(review)) == ["n0-2", "n0-3"]
    zone = "topology.kubernetes.io/zone: its domain has 4 pods and another one 1, maxSkew is 1"
    assert {each["reason"] for each in review["evictions"]} == {zone}


def test_domains_within_the_skew_stay() -> None:
    objects = [*THREE, *spread_pods({"n0": 2, "n1": 1, "n2": 1})]
    review = deschedule(objects, a_policy({SPREAD: {}}), "shop/n0-0")
    assert (evicted(review), why_not(review)) == ([], ["the constraints that select it need no eviction of it"])


def test_soft_constraints_count_if_the_policy_names_them() -> None:
    objects = [*THREE, *spread_pods({"n0": 4, "n1": 1, "n2": 1}, "ScheduleAnyway")]
    assert evicted(deschedule(objects, a_policy({SPREAD: {}}))) == []
    assert len(evicted(deschedule(objects, a_policy({SPREAD: {"constraints": ["ScheduleAnyway"]}})))) == 2


def test_pods_that_fit_in_no_domain_with_few_pods_stay_unless_the_policy_says_otherwise() -> None:
    objects = [a_node("n0"), a_node("n1", unschedulable=True), *spread_pods({"n0": 4, "n1": 0})]
    assert evicted(deschedule(objects, a_policy({SPREAD: {}}))) == []
    assert len(evicted(deschedule(objects, a_policy({SPREAD: {"topologyBalanceNodeFit": False}})))) == 2


def test_nodes_with_taints_count_unless_they_are_honored() -> None:
    nodes = [a_node("n0"), a_node("n1", taints=[DEDICATED])]
    args = {SPREAD: {"topologyBalanceNodeFit": False}}
    assert len(evicted(deschedule([*nodes, *spread_pods({"n0": 4})], a_policy(args)))) == 2
    honoring = spread_pods({"n0": 4}, nodeTaintsPolicy="Honor")
    assert evicted(deschedule([*nodes, *honoring], a_policy(args))) == []


def test_pods_of_higher_priority_leave_a_domain_first() -> None:
    """The descheduler v0.36.0 sorts them so, against its comments."""
    objects = [*THREE, *spread_pods({"n0": 4, "n1": 1, "n2": 1})]
    objects[3]["spec"]["priority"] = 10
    assert "n0-0" in evicted(deschedule(objects, a_policy({SPREAD: {}})))


# --- taints, affinity, anti-affinity ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "args", "leaves"),
    [
        ("NoSchedule", {}, True),
        ("PreferNoSchedule", {}, False),
        ("PreferNoSchedule", {"includePreferNoSchedule": True}, True),
        ("NoExecute", {}, False),
        ("NoSchedule", {"excludedTaints": ["dedicated"]}, False),
        ("NoSchedule", {"excludedTaints": ["dedicated=other"]}, False),
        ("NoSchedule", {"includedTaints": ["dedicated=ml"]}, True),
        ("NoSchedule", {"includedTaints": ["gpu"]}, False),
        ("NoSchedule", {"includedTaints": []}, False),
    ],
)
def test_taints_that_a_pod_does_not_tolerate(effect: str, args: Json, leaves: bool) -> None:
    if args.get("excludedTaints") == ["dedicated=other"]:
        leaves = True  # another value is not excluded
    nodes = [a_node("n0", taints=[DEDICATED | {"effect": effect}]), a_node("n1")]
    tolerant = a_pod("tolerant", "n0", tolerations=[{"key": "dedicated", "operator": "Exists"}])
    review = deschedule([*nodes, a_pod("p", "n0"), tolerant], a_policy({"RemovePodsViolatingNodeTaints": args}))
    assert evicted(review) == (["p"] if leaves else [])


def affine(kind: str, disk: str) -> Json:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [disk]}]}
    if kind == "required":
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    preferred = [{"weight": 5, "preference": term}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


@pytest.mark.parametrize("kind", ["required", "preferred"])
def test_node_affinity_that_another_node_satisfies(kind: str) -> None:
    nodes = [a_node("n0"), a_node("n1"), a_node("n2")]
    nodes[1]["metadata"]["labels"]["disk"] = "ssd"
    args = {"nodeAffinityType": [f"{kind}DuringSchedulingIgnoredDuringExecution"]}
    policy = a_policy({"RemovePodsViolatingNodeAffinity": args})
    objects = [
        *nodes,
        a_pod("p", "n0", affinity=affine(kind, "ssd")),
        a_pod("right", "n1", affinity=affine(kind, "ssd")),
    ]
    assert evicted(deschedule(objects, policy)) == ["p"]
    nodes[1]["spec"]["unschedulable"] = True
    stays = deschedule(objects, policy)
    assert evicted(stays) == ([] if kind == "required" else ["p"])  # the weight is that of any node, it need not fit


def test_a_pod_near_one_that_its_anti_affinity_excludes_leaves_and_the_other_then_stays() -> None:
    terms = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    objects = [*THREE, *(a_pod(f"w{i}", "n0", affinity=apart) for i in range(3)), a_pod("w3", "n1", affinity=apart)]
    policy = a_policy({"RemovePodsViolatingInterPodAntiAffinity": {}})
    review = deschedule(objects, policy, "shop/w3")
    assert evicted(review) == ["w0", "w1"]
    assert why_not(review) == ["no pod near it is excluded by its required anti-affinity"]
    assert [each["outcome"] for each in review["evictions"]] == ["Moves", "StaysPending"]  # one node is left for two
