"""What keeps an autoscaler from removing a node."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.cluster_questions import ClusterQuestion, ScaleDownQuestion
from herodotus_answers.node_groups import NodeScaleDown
from scheduler.engine.progress import ignore_progress
from scheduler.engine.whatif.changes import ClusterReviewError, answer_review
from tests.scheduler.engine.nodegroups.objects import POOL, grouped, machine_deployment, node_pool
from tests.scheduler.engine.whatif.clusters import a_budget, a_node, a_pod, a_state, nodes_by_uid

Json = dict[str, Any]
EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def ask(objects: list[Json], *nodes: str) -> dict[str, NodeScaleDown]:
    spec = ClusterQuestion(scale_down=ScaleDownQuestion(nodes=list(nodes) or None))
    found = answer_review(a_state(objects), spec, ignore_progress, seed=0)["scaleDown"]
    assert found is not None
    return {node["node"]: node for node in found["nodes"]}


def blockers(objects: list[Json]) -> list[tuple[str, str | None, str]]:
    """Return cause, pod and autoscaler of what keeps n0."""
    return [(b["cause"], b["pod"], b["autoscaler"]) for b in ask(objects, "n0")["n0"]["blockers"]]


def annotated(pod: Json, **annotations: str) -> Json:
    names = {
        "evict": EVICT,
        "volumes": "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
        "disrupt": "karpenter.sh/do-not-disrupt",
    }
    metadata = pod["metadata"] | {"annotations": {names[key]: value for key, value in annotations.items()}}
    return pod | {"metadata": metadata}


SPARE = a_node("n1")
CACHE = [{"name": "cache", "emptyDir": {}}]


def test_a_node_whose_pods_fit_elsewhere_has_no_blocker() -> None:
    found = ask([a_node("n0"), SPARE, a_pod("web-0", "n0"), a_pod("agent", "n0", "DaemonSet/agent")])
    assert (found["n0"]["pods"], found["n0"]["blockers"]) == (1, [])


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (annotated(a_pod("web-0", "n0"), evict="false"), [("NotSafeToEvict", "shop/web-0", "cluster-autoscaler")]),
        (annotated(a_pod("web-0", "n0"), disrupt="true"), [("DoNotDisrupt", "shop/web-0", "karpenter")]),
        (a_pod("web-0", "n0", volumes=CACHE), [("LocalStorage", "shop/web-0", "cluster-autoscaler")]),
        (
            a_pod("web-0", "n0", volumes=[{"name": "h", "hostPath": {"path": "/x"}}]),
            [("LocalStorage", "shop/web-0", "cluster-autoscaler")],
        ),
        (a_pod("web-0", "n0", volumes=[{"name": "m", "emptyDir": {"medium": "Memory"}}]), []),
        (annotated(a_pod("web-0", "n0", volumes=CACHE), volumes="cache"), []),
        (annotated(a_pod("web-0", "n0", volumes=CACHE), evict="true"), []),
        (a_pod("bare", "n0", owner=""), [("NoController", "shop/bare", "cluster-autoscaler")]),
        (a_pod("odd", "n0", owner="Rollout/odd"), [("CustomController", "shop/odd", "cluster-autoscaler")]),
    ],
)
def test_pods_keep_their_node(pod: Json, expected: list[tuple[str, str, str]]) -> None:
    assert blockers([a_node("n0"), SPARE, pod]) == expected


def test_system_pods_need_a_budget() -> None:
    pod = a_pod("dns", "n0")
    pod["metadata"]["namespace"] = "kube-system"
    assert blockers([a_node("n0"), SPARE, pod]) == [("SystemPod", "kube-system/dns", "cluster-autoscaler")]
    budget = a_budget("dns", "web", maxUnavailable=1)
    budget["metadata"]["namespace"] = "kube-system"
    assert blockers([a_node("n0"), SPARE, pod, budget]) == []


def test_budgets_and_pods_that_fit_nowhere_are_named_together() -> None:
    pods = [a_pod("web-0", "n0"), a_pod("big-0", "n0", "ReplicaSet/big", cpu="3")]
    found = ask([a_node("n0"), a_node("n1", cpu="2"), *pods, a_budget("web", "web", minAvailable=1)], "n0")["n0"]
    assert [(b["cause"], b["pod"]) for b in found["blockers"]] == [
        ("Budget", "shop/web-0"),
        ("FitsNowhere", "shop/big-0"),
    ]
    assert "The disruption budget web needs 1 healthy pods" in found["blockers"][0]["message"]
    assert "Insufficient cpu" in found["blockers"][1]["reason"]


def test_pods_of_one_node_do_not_share_the_same_room() -> None:
    pods = [a_pod(f"web-{i}", "n0", cpu="2") for i in range(2)]
    assert [b[:2] for b in blockers([a_node("n0"), a_node("n1", cpu="3"), *pods])] == [("FitsNowhere", "shop/web-1")]


def test_annotations_of_the_node_and_the_size_of_its_group() -> None:
    kept = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true", "karpenter.sh/do-not-disrupt": "true"}
    node = grouped("n0", "pool", key=POOL, annotations=kept)
    pool = node_pool("pool", disruption={"budgets": [{"nodes": "0"}]})
    assert blockers([node, SPARE, pool]) == [
        ("ScaleDownDisabled", None, "cluster-autoscaler"),
        ("DoNotDisrupt", None, "karpenter"),
        ("DisruptionBudget", None, "karpenter"),
    ]
    owned = a_node("n0")
    owned["metadata"]["annotations"] = {
        "cluster.x-k8s.io/owner-kind": "MachineDeployment",
        "cluster.x-k8s.io/owner-name": "md",
    }
    md = machine_deployment("md", 1, annotations={"min-size": "1", "max-size": "3"})
    assert blockers([owned, SPARE, md]) == [("MinSize", None, "cluster-autoscaler")]


def test_each_node_is_examined_alone_and_nothing_changes() -> None:
    objects = [a_node("n0", cpu="2"), a_node("n1", cpu="2"), a_pod("a", "n0", cpu="1"), a_pod("b", "n1", cpu="1")]
    state = a_state(objects)
    before = nodes_by_uid(state)
    found = answer_review(state, ClusterQuestion(scale_down=ScaleDownQuestion()), ignore_progress, seed=0)
    assert found["scaleDown"] is not None
    assert [node["blockers"] for node in found["scaleDown"]["nodes"]] == [[], []]
    assert nodes_by_uid(state) == before
    assert not any(node and node.spec.unschedulable for node in state.nodes.nodes)


def test_an_unknown_node_is_an_error() -> None:
    with pytest.raises(ClusterReviewError, match='scaleDown: nodes "gone" not found'):
        ask([a_node("n0")], "gone")
