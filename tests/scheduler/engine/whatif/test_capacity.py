"""How many pods fit, which nodes could be emptied, and what limits the one and prevents the other."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from herodotus_answers.cluster_headlines import format_cluster_headline
from herodotus_answers.cluster_questions import (
    AddNodes,
    CapacityQuestion,
    Change,
    ClusterQuestion,
    ConsolidationQuestion,
)
from herodotus_answers.cluster_review import Capacity, ClusterReviewStatus, Consolidation, build_cluster_review
from scheduler.engine.progress import ignore_progress
from scheduler.engine.whatif.changes import answer_review
from scheduler.engine.whatif.simulation import WhatIfState
from tests.scheduler.engine.whatif.clusters import a_budget, a_node, a_pod, a_state, nodes_by_uid, random_clusters
from tests.support.examples import examples

Json = dict[str, Any]
NODES = [a_node("n0"), a_node("n1", cpu="2"), a_node("n2", taints=[{"key": "gpu", "effect": "NoSchedule"}])]


def ask(state: WhatIfState, **question: Any) -> ClusterReviewStatus:
    return answer_review(state, ClusterQuestion(**question), ignore_progress, seed=0)


def capacity(objects: list[Json], pod: Json, limit: int = 1000) -> Capacity:
    found = ask(a_state(objects), capacity=CapacityQuestion(object=pod, limit=limit))["capacity"]
    assert found is not None
    return found


def consolidation(state: WhatIfState, nodes: list[str] | None = None) -> Consolidation:
    found = ask(state, consolidate=ConsolidationQuestion(nodes=nodes))["consolidation"]
    assert found is not None
    return found


def test_counts_what_fits_and_names_what_runs_out() -> None:
    found = capacity([*NODES, a_pod("web-0", "n0")], a_pod("more", cpu="500m", owner=""))
    assert (found["fits"], found["limited"]) == (10, False)
    assert {node["node"]: (node["fits"], node["limitedBy"]) for node in found["nodes"]} == {
        "n0": (6, "Insufficient cpu"),
        "n1": (4, "Insufficient cpu"),
        "n2": (0, "node(s) had untolerated taint(s)"),
    }
    assert found["zones"] == {"zone-0": 6, "zone-1": 4, "zone-2": 0}
    assert found["message"].startswith(
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
    )


def test_ends_at_the_limit() -> None:
    found = capacity(NODES, a_pod("more", cpu="1m", owner=""), limit=7)
    assert (found["fits"], found["limited"], found["message"]) == (7, True, "")


def test_nodes_that_are_added_first_are_marked_and_come_first() -> None:
    changes: list[Change] = [AddNodes(like="n1", count=2)]
    question = CapacityQuestion(object=a_pod("more", cpu="500m", owner=""), changes=changes)
    status = ask(a_state([*NODES, a_pod("web-0", "n0")]), capacity=question)
    assert status["capacity"] is not None
    marked = [(node["fits"], node.get("isNew", False)) for node in status["capacity"]["nodes"]]
    assert marked == [(4, True), (4, True), (6, False), (4, False), (0, False)]
    headline = format_cluster_headline(build_cluster_review(status)["status"])
    assert headline.startswith("18 more pods fit, on 4 nodes: 4 on each of the 2 new nodes. ")


def test_pods_that_avoid_each_other_fit_once_per_node() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "more"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod = a_pod("more", cpu="1m", owner="", labels={"app": "more"}, affinity=affinity)
    assert capacity(NODES, pod)["fits"] == 2


def test_lower_priorities_are_not_evicted() -> None:
    full = [a_pod("low", "n0", cpu="4"), a_pod("low-1", "n1", cpu="2")]
    assert capacity([*NODES, *full], a_pod("high", priority=1000, owner=""))["fits"] == 0


def test_the_least_used_nodes_are_emptied_first() -> None:
    pods = [a_pod("web-0", "n0", cpu="1"), a_pod("web-1", "n1", cpu="1"), a_pod("web-2", "n3", cpu="3")]
    found = consolidation(a_state([a_node("n0"), a_node("n1"), a_node("n3"), *pods]))
    assert [(e["node"], e["pods"], e["targets"]) for e in found["emptied"]] == [("n0", 1, {"n1": 1})]
    kept = {kept["node"]: {p["pod"]: p["reason"] for p in kept["pods"]} for kept in found["kept"]}
    assert kept.keys() == {"n1", "n3"}
    assert "Insufficient cpu" in kept["n3"]["shop/web-2"]


def test_what_keeps_a_node_is_named() -> None:
    pods = [a_pod("web-0", "n0"), a_pod("bare", "n1", owner="")]
    found = consolidation(a_state([a_node("n0"), a_node("n1"), *pods, a_budget("web", "web", minAvailable=1)]))
    kept = {kept["node"]: {p["pod"]: p["reason"] for p in kept["pods"]} for kept in found["kept"]}
    assert kept["n0"]["shop/web-0"].startswith("Cannot evict pod as it would violate the pod's disruption budget.")
    assert kept["n1"] == {"shop/bare": "cannot delete Pods that declare no controller (use --force to override)"}


@settings(deadline=None, max_examples=examples(60))
@given(random_clusters())
def test_failed_trials_change_nothing(objects: list[Json]) -> None:
    state = a_state(objects)
    before = nodes_by_uid(state)
    found = consolidation(state)
    emptied = {e["node"] for e in found["emptied"]}
    after = nodes_by_uid(state)
    assert {uid for uid, node in before.items() if node not in emptied} <= after.keys()
    assert all(after[uid] == node for uid, node in before.items() if node not in emptied)
    assert len(before) - len(after) <= sum(uid.startswith("uid-bare") for uid in before)
    unschedulable = {node.metadata.name for node in state.nodes.nodes if node and node.spec.unschedulable}
    assert unschedulable == emptied


def test_resource_that_is_free_in_parts_alone_is_named() -> None:
    objects = [a_node("n0"), a_node("n1"), a_pod("a", "n0", cpu="3"), a_pod("b", "n1", cpu="2500m")]
    found = capacity(objects, a_pod("more", cpu="2", owner=""))
    assert found["fits"] == 0
    assert found["scattered"] == [{"resource": "cpu", "requested": 2000, "free": 2500, "most": 1500}]
    assert capacity(objects, a_pod("larger", cpu="3", owner=""))["scattered"] == []
