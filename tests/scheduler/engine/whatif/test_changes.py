"""What follows from changes to a cluster: who moves, who stays, and what controllers and budgets make of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus_answers.cluster_questions import (
    AddNodes,
    Change,
    Cordon,
    Create,
    Drain,
    LabelNodes,
    RemoveNodes,
    Scale,
    TaintNodes,
    Uncordon,
)
from herodotus_answers.cluster_review import ClusterReviewStatus
from scheduler.engine.whatif.changes import ClusterReviewError
from tests.scheduler.engine.whatif.clusters import (
    NODES,
    a_budget,
    a_node,
    a_pod,
    a_state,
    nodes_by_uid,
    random_clusters,
    review,
)
from tests.support.answers import as_json
from tests.support.examples import examples


def moves(status: ClusterReviewStatus) -> dict[str, str]:
    return {pod["name"]: pod["node"] for pod in status["placements"]}


def test_drained_pods_are_replaced_elsewhere() -> None:
    found = review([*NODES, a_pod("web-0", "n0"), a_pod("web-1", "n1", cpu="3")], [Drain(nodes=["n0"])])
    (pod,) = found["placements"]
    assert (pod["name"], pod["cause"], pod["fromNode"], pod["node"], pod["owner"]) == (
        "web-0",
        "Drained",
        "n0",
        "n2",
        "ReplicaSet/web",
    )
    assert [
        (n["name"], n["before"] and n["before"]["pods"], n["after"] and n["after"]["pods"]) for n in found["nodes"]
    ] == [
        ("n0", 1, 0),
        ("n2", 0, 1),
    ]
    assert not found["nodes"][0]["schedulable"]


def test_a_pod_that_fits_nowhere_stays_pending_with_kube_schedulers_words() -> None:
    full = [a_pod(f"full-{i}", f"n{i}", cpu="3") for i in (1, 2)]
    (pod,) = review([*NODES, *full, a_pod("big", "n0", cpu="3")], [Drain(nodes=["n0"])])["placements"]
    assert pod["node"] == ""
    assert pod["reason"].startswith("0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.")


@pytest.mark.parametrize(
    ("pod", "flags", "cause"),
    [
        pytest.param(a_pod("bare", "n0", owner=""), {}, "NoController", id="bare"),
        pytest.param(
            a_pod("cache", "n0", volumes=[{"name": "v", "emptyDir": {}}]), {}, "LocalStorage", id="local storage"
        ),
        pytest.param(a_pod("agent", "n0", "DaemonSet/agent"), {"ignore_daemon_sets": False}, "DaemonSet", id="daemon"),
    ],
)
def test_kubectl_drains_nothing_from_a_node_with_a_pod_that_it_refuses(
    pod: dict[str, Any], flags: dict[str, Any], cause: str
) -> None:
    found = review([*NODES, pod, a_pod("web-0", "n0")], [Drain(nodes=["n0"], **flags)])
    assert not found["placements"]
    assert {blocked["name"]: blocked["cause"] for blocked in found["blocked"]} == {
        pod["metadata"]["name"]: cause,
        "web-0": "NodeNotDrained",
    }


def test_flags_let_a_drain_delete_what_it_refuses() -> None:
    objects = [*NODES, a_pod("bare", "n0", owner=""), a_pod("cache", "n0", volumes=[{"name": "v", "emptyDir": {}}])]
    found = review(objects, [Drain(nodes=["n0"], force=True, delete_empty_dir_data=True)])
    assert [(pod["name"], pod["cause"]) for pod in found["deleted"]] == [("bare", "NoController")]
    assert list(moves(found)) == ["cache"]
    assert found["drainCommands"] == ["kubectl drain n0 --ignore-daemonsets --force --delete-emptydir-data"]


def test_commands_of_drains_are_named_unless_a_pod_blocks_one() -> None:
    drains: list[Change] = [Drain(nodes=["n0", "n1"], disable_eviction=True), Cordon(nodes=["n2"]), Drain(nodes=["n2"])]
    commands = ["kubectl drain n0 n1 --ignore-daemonsets --disable-eviction", "kubectl drain n2 --ignore-daemonsets"]
    assert review([*NODES, a_pod("web-0", "n0")], drains)["drainCommands"] == commands
    assert review([*NODES, a_pod("bare", "n1", owner="")], drains)["drainCommands"] == []
    assert review(NODES, [Cordon(nodes=["n2"])])["drainCommands"] == []


def test_daemon_and_mirror_pods_stay() -> None:
    objects = [*NODES, a_pod("agent", "n0", "DaemonSet/agent"), a_pod("etcd-n0", "n0", "Node/n0")]
    found = review(objects, [Drain(nodes=["n0"])])
    assert [(pod["name"], pod["cause"]) for pod in found["ignored"]] == [("agent", "DaemonSet"), ("etcd-n0", "Node")]


@pytest.mark.parametrize(
    ("later", "blocked", "ignored", "left"),
    [
        pytest.param(Drain(nodes=["n0"]), ["web-0"], ["agent"], [], id="drained again"),
        pytest.param(Drain(nodes=["n0"], disable_eviction=True), [], ["agent"], ["web-0"], id="drained with force"),
        pytest.param(RemoveNodes(nodes=["n0"]), [], [], ["agent", "web-0"], id="removed"),
    ],
)
def test_a_later_change_decides_on_pods_that_a_drain_left(
    later: Change, blocked: list[str], ignored: list[str], left: list[str]
) -> None:
    objects = [*NODES, a_pod("web-0", "n0"), a_pod("agent", "n0", "DaemonSet/agent")]
    status = review([*objects, a_budget("web", "web", maxUnavailable=0)], [Drain(nodes=["n0"]), later])
    assert [pod["name"] for pod in status["blocked"]] == blocked
    assert [pod["name"] for pod in status["ignored"]] == ignored
    assert sorted([pod["name"] for pod in status["placements"]] + [pod["name"] for pod in status["deleted"]]) == left


def test_a_budget_blocks_until_replacements_are_ready() -> None:
    pods = [a_pod(f"web-{i}", "n0") for i in range(3)]
    found = review([*NODES, *pods, a_budget("web", "web", maxUnavailable=1)], [Drain(nodes=["n0"])])
    assert sorted(moves(found)) == ["web-0", "web-1", "web-2"]
    assert not found["blocked"]


def test_a_budget_that_never_allows_more_is_named() -> None:
    full = [a_pod(f"full-{i}", f"n{i}", "ReplicaSet/full", cpu="4") for i in (1, 2)]
    pods = [a_pod(f"web-{i}", "n0") for i in range(3)]
    found = review([*NODES, *full, *pods, a_budget("web", "web", minAvailable=2)], [Drain(nodes=["n0"])])
    assert moves(found) == {"web-0": ""}
    assert [(b["name"], b["cause"], b["budget"]) for b in found["blocked"]] == [
        ("web-1", "Budget", "web"),
        ("web-2", "Budget", "web"),
    ]
    assert found["blocked"][0]["message"] == (
        "Cannot evict pod as it would violate the pod's disruption budget. "
        "The disruption budget web needs 2 healthy pods and has 2 currently"
    )


def test_two_budgets_of_a_pod_refuse_its_eviction() -> None:
    objects = [*NODES, a_pod("web-0", "n0"), a_budget("a", "web", minAvailable=0), a_budget("b", "web", minAvailable=0)]
    (blocked,) = review(objects, [Drain(nodes=["n0"])])["blocked"]
    assert blocked["message"].startswith("This pod has more than one PodDisruptionBudget")
    assert blocked["remedy"].startswith("let only one of a, b select the pod")


@pytest.mark.parametrize(
    ("spec", "remedy"),
    [
        ({"maxUnavailable": 0}, "give web a maxUnavailable of 1 or more (now 0)"),
        (
            {"minAvailable": 2},
            "give web a minAvailable of less than its number of pods (now 2), or run more than 2 pods",
        ),
        ({"minAvailable": "100%"}, "give web a minAvailable of less than its number of pods (now 2)"),
    ],
)
def test_what_would_make_a_budget_allow_an_eviction_is_told_beside_other_obstacles(spec: Any, remedy: str) -> None:
    pods = [a_pod("web-0", "n0"), a_pod("web-1", "n1"), a_pod("bare", "n0", owner="", labels={})]
    found = review([*NODES, *pods, a_budget("web", "web", **spec)], [Drain(nodes=["n0"])])
    assert {b["name"]: (b["cause"], b["remedy"]) for b in found["blocked"]} == {
        "bare": ("NoController", ""),
        "web-0": ("Budget", remedy),
    }


NOT_READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}


@pytest.mark.parametrize(("policy", "leaves"), [("AlwaysAllow", True), ("IfHealthyBudget", False), (None, False)])
def test_pods_that_are_not_ready(policy: str | None, leaves: bool) -> None:
    more: dict[str, Any] = {"unhealthyPodEvictionPolicy": policy} if policy else {}
    objects = [*NODES, a_pod("web-0", "n0", status=NOT_READY), a_budget("web", "web", minAvailable=1, **more)]
    assert bool(review(objects, [Drain(nodes=["n0"])])["placements"]) is leaves


def test_disabled_eviction_asks_no_budget() -> None:
    objects = [*NODES, a_pod("web-0", "n0"), a_budget("web", "web", minAvailable=1)]
    assert list(moves(review(objects, [Drain(nodes=["n0"], disable_eviction=True)]))) == ["web-0"]


def test_removed_nodes_leave_their_pods_to_the_controllers() -> None:
    objects = [*NODES, a_pod("web-0", "n0"), a_pod("bare", "n0", owner=""), a_pod("agent", "n0", "DaemonSet/agent")]
    found = review(objects, [RemoveNodes(nodes=["n0"])])
    assert list(moves(found)) == ["web-0"]
    assert [(pod["name"], pod["cause"]) for pod in found["deleted"]] == [
        ("agent", "DaemonSet"),
        ("bare", "NoController"),
    ]
    assert [(node["name"], node["after"]) for node in found["nodes"] if node["after"] is None] == [("n0", None)]


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        ({}, {"selecting": [{"namespace": "shop", "name": "web", "pods": 1}]}),
        ({"disable_eviction": True}, None),
    ],
    ids=["evicted", "deleted"],
)
def test_drain_names_the_budgets_that_it_asked(flags: dict[str, bool], asked: dict[str, Any] | None) -> None:
    pods = [a_pod("web-0", "n0"), a_pod("web-1", "n1"), a_pod("db-0", "n0", "StatefulSet/db")]
    objects = [*NODES, *pods, a_budget("web", "web", minAvailable=1), a_budget("other", "other", minAvailable=1)]
    assert review(objects, [Drain(nodes=["n0"], **flags)])["budgets"] == asked
    assert review(objects, [Cordon(nodes=["n0"])])["budgets"] is None


def test_new_nodes_take_pending_pods_and_get_daemon_pods() -> None:
    full = [a_pod(f"full-{i}", f"n{i}", cpu="3") for i in range(3)]
    daemon = a_pod("agent-0", "n0", "DaemonSet/agent", cpu="1")
    found = review([*NODES, *full, daemon, a_pod("waits", cpu="3")], [AddNodes(like="n0", count=2, zone="zone-9")])
    assert [(pod["name"], pod["cause"], pod["node"][:7]) for pod in found["pending"]] == [
        ("waits", "Pending", "n0-new-")
    ]
    assert {pod["node"] for pod in found["placements"]} == {"n0-new-1", "n0-new-2"}
    assert {pod["cause"] for pod in found["placements"]} == {"NodeAdded"}


def test_new_nodes_get_pods_of_daemon_sets_that_have_no_room_on_the_copied_node() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["n0"]}
    pinned = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    daemon = a_pod("agent-0", "", "DaemonSet/agent", cpu="2", affinity={"nodeAffinity": pinned})
    found = review([*NODES, a_pod("full", "n0", cpu="3"), daemon], [AddNodes(like="n0")])
    assert [(pod["owner"], pod["node"]) for pod in found["placements"]] == [("DaemonSet/agent", "n0-new-1")]


def test_taints_evict_only_with_no_execute() -> None:
    tolerates = [{"key": "gpu", "operator": "Exists"}]
    objects = [*NODES, a_pod("web-0", "n0"), a_pod("web-1", "n0", tolerations=tolerates)]
    assert not review(objects, [TaintNodes(nodes=["n0"], taints=["gpu=yes:NoSchedule"])])["placements"]
    assert list(moves(review(objects, [TaintNodes(nodes=["n0"], taints=["gpu=yes:NoExecute"])]))) == ["web-0"]


def test_labels_let_a_pending_pod_fit() -> None:
    objects = [*NODES, a_pod("waits", nodeSelector={"disk": "ssd"})]
    (pod,) = review(objects, [LabelNodes(nodes=["n2"], labels={"disk": "ssd"})])["pending"]
    assert (pod["name"], pod["node"]) == ("waits", "n2")


def test_scaling_down_deletes_pending_and_doubled_up_pods_first() -> None:
    objects = [*NODES, a_pod("web-0", "n0"), a_pod("web-1", "n1"), a_pod("web-2", "n1"), a_pod("web-3", cpu="9")]
    found = review(objects, [Scale(workload="ReplicaSet/web", namespace="shop", replicas=2)])
    assert [pod["name"] for pod in found["deleted"]] == ["web-3", "web-2"]


def test_scaling_a_stateful_set_keeps_ordinals() -> None:
    objects = [*NODES, *(a_pod(f"db-{i}", f"n{i}", "StatefulSet/db") for i in range(3))]
    down = review(objects, [Scale(workload="StatefulSet/db", namespace="shop", replicas=1)])
    assert [pod["name"] for pod in down["deleted"]] == ["db-2", "db-1"]
    up = review(objects, [Scale(workload="StatefulSet/db", namespace="shop", replicas=5)])
    assert [pod["name"] for pod in up["placements"]] == ["db-3", "db-4"]


def test_created_workloads_are_placed_after_the_earlier_changes() -> None:
    template = {"metadata": {"labels": {"app": "new"}}, "spec": a_pod("x")["spec"]}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "new", "namespace": "shop"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "new"}}, "template": template},
    }
    found = review(NODES, [Cordon(nodes=["n0"]), Create(object=manifest)])
    assert sorted(moves(found)) == ["new-0", "new-1", "new-2"]
    assert "n0" not in moves(found).values()


def test_preemption_moves_the_victims() -> None:
    small = [a_pod(f"small-{i}", f"n{i}", cpu="3", priority=0) for i in (1, 2)]
    objects = [*NODES[1:], *small, a_node("n3"), a_pod("high", "n3", "StatefulSet/high", cpu="4", priority=9)]
    found = review(objects, [Drain(nodes=["n3"])])
    placed = {pod["name"]: pod for pod in found["placements"]}
    (victim,) = placed["high"]["victims"]
    assert placed["high"]["node"]
    moved = placed[victim.removeprefix("shop/")]
    assert (moved["cause"], moved["node"]) == ("Preempted", "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Drain(nodes=["gone"]), 'change 1 (Drain): nodes "gone" not found'),
        (Cordon(nodes=[]), "change 1 (Cordon): nodes: required"),
        (AddNodes(like="n0", count=0), "change 1 (AddNodes): count: expected 1 to 10000, got 0"),
        (
            TaintNodes(nodes=["n0"], taints=["gpu"]),
            "change 1 (TaintNodes): taints: expected KEY[=VALUE]:EFFECT or KEY[:EFFECT]-",
        ),
        (Scale(workload="ReplicaSet/none", replicas=1), "change 1 (Scale): default/ReplicaSet/none has no pod to copy"),
        (Create(object={"kind": "DaemonSet"}), "change 1 (Create): a DaemonSet cannot be created"),
    ],
)
def test_wrong_changes_are_errors(change: Change, message: str) -> None:
    with pytest.raises(ClusterReviewError) as error:
        review(NODES, [change])
    assert str(error.value).startswith(message)


# --- properties -------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["n0", "n1", "n2"])
SOME = st.lists(NAMES, min_size=1, max_size=2, unique=True)
KINDS = st.sampled_from(["ReplicaSet/web", "StatefulSet/db"])
CHANGES = st.one_of(
    st.builds(Drain, nodes=SOME, force=st.booleans(), delete_empty_dir_data=st.booleans()),
    st.builds(Cordon, nodes=SOME),
    st.builds(Uncordon, nodes=SOME),
    st.builds(AddNodes, like=NAMES, count=st.integers(1, 3)),
    st.builds(TaintNodes, nodes=SOME, taints=st.sampled_from([["a=b:NoExecute"], ["a=b:NoSchedule"], ["a-"]])),
    st.builds(LabelNodes, nodes=SOME, labels=st.sampled_from([{"disk": "ssd"}, {"disk": None}])),
    st.builds(Scale, workload=KINDS, namespace=st.just("shop"), replicas=st.integers(1, 8)),
)


def count_fates(status: ClusterReviewStatus) -> Counter[str]:
    lists = as_json(status)
    fates = {
        "placements": "placed",
        "pending": "placed",
        "blocked": "blocked",
        "ignored": "removed",
        "deleted": "removed",
    }
    return Counter(f"{p['namespace']}/{p['name']}/{fate}" for name, fate in fates.items() for p in lists[name])


@settings(deadline=None, max_examples=examples(150))
@given(random_clusters(), st.lists(CHANGES, min_size=1, max_size=4))
def test_no_pod_is_lost_or_counted_twice(objects: list[dict[str, Any]], changes: list[Change]) -> None:
    state = a_state(objects)
    before = nodes_by_uid(state)
    status = review(objects, changes, state)
    after = nodes_by_uid(state)
    kept = before.keys() & after.keys()
    gone = {f"shop/{uid.removeprefix('uid-')}" for uid in before.keys() - kept}
    moved = [f"{p['namespace']}/{p['name']}" for p in status["placements"] if p["fromNode"]]
    deleted = [f"{p['namespace']}/{p['name']}" for p in status["deleted"] if p["node"]]
    assert sorted([*moved, *deleted]) == sorted(gone)
    stays = Counter(
        [(p["name"], p["node"]) for p in status["blocked"]] + [(p["name"], p["node"]) for p in status["ignored"]]
    )
    assert set(stays.values()) <= {1}
    assert stays.keys() <= {
        (pod.name, state.nodes.names[i]) for i, on in enumerate(state.nodes.pods) for pod in on.values()
    }
    placed = sum(bool(p["node"]) for p in (*status["placements"], *status["pending"]))
    assert len(after) == len(kept) + placed
    assert sum(n["after"]["pods"] if n["after"] else 0 for n in status["nodes"]) - sum(
        n["before"]["pods"] if n["before"] else 0 for n in status["nodes"]
    ) == len(after) - len(before)
    requested = state.nodes.requested("pods")
    assert all(requested[slot] == len(pods) for slot, pods in enumerate(state.nodes.pods))


CANCELLING: list[list[Change]] = [
    [Cordon(nodes=["n0", "n1"]), Uncordon(nodes=["n0", "n1"])],
    [TaintNodes(nodes=["n1"], taints=["a=b:NoSchedule"]), TaintNodes(nodes=["n1"], taints=["a:NoSchedule-"])],
    [LabelNodes(nodes=["n1"], labels={"x": "y"}), LabelNodes(nodes=["n1"], labels={"x": None})],
    [AddNodes(like="n2"), RemoveNodes(nodes=["n2-new-1"])],
]


@settings(deadline=None, max_examples=examples(40))
@given(random_clusters(), st.sampled_from(CANCELLING))
def test_changes_that_cancel_out_leave_the_present_state(objects: list[dict[str, Any]], changes: list[Change]) -> None:
    """Without pending pods, which a change in between may help."""
    settled = [o for o in objects if o["kind"] != "Pod" or o["spec"].get("nodeName")]
    state = a_state(settled)
    before = nodes_by_uid(state)
    status = review(settled, changes, state)
    assert nodes_by_uid(state) == before
    assert not count_fates(status)
    assert not status["nodes"]


def test_scaling_up_and_down_again_leaves_the_present_state() -> None:
    """Unless a new pod shares a node with an older one: the ReplicaSet controller then deletes the one or the other."""
    objects = [*NODES, a_pod("web-0", "n0"), a_pod("web-1", "n1")]
    state = a_state(objects)
    before = nodes_by_uid(state)
    scaled = [Scale(workload="ReplicaSet/web", namespace="shop", replicas=n) for n in (3, 2)]
    status = review(objects, scaled, state)
    assert nodes_by_uid(state) == before
    assert not count_fates(status)
