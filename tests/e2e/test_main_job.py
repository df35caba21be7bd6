"""Pods are bound, every decision is stored, and the records agree with the API server."""

from __future__ import annotations

import subprocess
import sys

from tests.e2e.cluster import Cluster, Herodotus, attempts, node, placements, pod
from tests.processes import ROOT, eventually


def test_five_hundred_pods_on_fifty_nodes(cluster: Cluster, namespace: str, herodotus: Herodotus) -> None:
    """Every pod is bound and has one stored decision, for its spec.nodeName; no node is overcommitted."""
    herodotus.add_nodes(*(node(f"n{i}") for i in range(50)))
    cluster.create_all(f"/api/v1/namespaces/{namespace}/pods", [pod(f"p{i}", cpu="300m") for i in range(500)])

    eventually(lambda: len(cluster.bound(namespace)) == 500, "all pods to be bound", 120)
    bound = {p["metadata"]["uid"]: p["spec"]["nodeName"] for p in cluster.bound(namespace).values()}
    eventually(lambda: bound.keys() <= placements(herodotus.decisions(namespace)).keys(), "all decisions", 60)

    decisions = herodotus.decisions(namespace)
    chosen = placements(decisions)
    assert {uid: [d["status"]["node"] for d in found] for uid, found in chosen.items()} == {
        u: [n] for u, n in bound.items()
    }
    assert set(attempts(decisions).values()) == {1}
    per_node = [list(bound.values()).count(f"n{i}") for i in range(50)]
    assert max(per_node) <= 13  # 13 x 300m fit into 4 cpus
    assert [i["missing"] for i in herodotus.incarnations()] == [0]


def test_event_condition_and_record_have_the_same_message(
    cluster: Cluster, namespace: str, herodotus: Herodotus
) -> None:
    """All have one message for an unschedulable pod; the answer has every rejecting filter per node, with numbers."""
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    nodes = node("small"), node("tainted", taints=[taint]), node("cordoned", cpu="64", unschedulable=True)
    herodotus.add_nodes(*nodes)
    cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod("huge", cpu="8"))
    expected = (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."
        " no new claims to deallocate, preemption: 0/3 nodes are available:"
        " 3 Preemption is not helpful for scheduling."
    )

    condition = eventually(lambda: cluster.condition(namespace, "huge") or None, "the condition")
    (event,) = eventually(lambda: cluster.events(namespace, "huge", "FailedScheduling") or None, "the event")
    eventually(lambda: herodotus.decisions(namespace) or None, "the decision")
    answer = herodotus.explanation(namespace, "huge")

    assert (condition["status"], condition["reason"], condition["message"]) == ("False", "Unschedulable", expected)
    assert (event["type"], event["action"], event["note"]) == ("Warning", "Scheduling", expected)
    assert event["reportingController"] == "herodotus-scheduler"
    assert answer["summary"] == expected
    rejected = {
        row["node"]: {r["plugin"]: [d["text"] for d in r["reasons"]] for r in row["rejectedBy"]}
        for row in answer["perNode"]
    }
    short = "cpu: requests 8; free 4 of 4"
    assert rejected == {
        "small": {"NodeResourcesFit": [short]},
        "tainted": {"TaintToleration": ["taint dedicated=gpu:NoSchedule not tolerated"], "NodeResourcesFit": [short]},
        "cordoned": {"NodeUnschedulable": ["cordoned (spec.unschedulable)"]},
    }


def test_a_waiting_pod_is_placed_when_the_cluster_changes(
    cluster: Cluster, namespace: str, herodotus: Herodotus
) -> None:
    """Uncordoning a node, deleting a pod and adding a node each requeue the pod that they help."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    herodotus.add_nodes(node("a", unschedulable=True))
    cluster.create(pods, pod("first", cpu="3"))
    eventually(lambda: cluster.condition(namespace, "first").get("reason") == "Unschedulable", "first to wait")
    cluster.patch("/api/v1/nodes/a", {"spec": {"unschedulable": None}})
    eventually(lambda: "first" in cluster.bound(namespace), "first to be bound once a is uncordoned")

    cluster.create(pods, pod("second", cpu="3"))
    eventually(lambda: cluster.condition(namespace, "second").get("reason") == "Unschedulable", "second to wait")
    cluster.delete(f"{pods}/first")
    eventually(lambda: "second" in cluster.bound(namespace), "second to be bound once first is gone")

    cluster.create(pods, pod("third", cpu="3"))
    eventually(lambda: cluster.condition(namespace, "third").get("reason") == "Unschedulable", "third to wait")
    herodotus.add_nodes(node("b"))
    bound = eventually(lambda: cluster.bound(namespace).get("third"), "third to be bound once b is there")
    assert bound["spec"]["nodeName"] == "b"


def test_pods_that_are_gated_lack_their_claims_or_are_of_other_schedulers_are_not_tried(
    cluster: Cluster, namespace: str, herodotus: Herodotus
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    herodotus.add_nodes(node("a"))
    cluster.create(pods, pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
    cluster.create(pods, pod("foreign", scheduler="someone-else"))
    claim = {"name": "gpu", "resourceClaimName": "gpu"}
    cluster.create(pods, pod("claiming", resourceClaims=[claim]))
    cluster.create(pods, pod("plain"))

    eventually(lambda: "plain" in cluster.bound(namespace), "the plain pod")
    assert set(cluster.bound(namespace)) == {"plain"}
    eventually(lambda: herodotus.decisions(namespace) or None, "the decision")
    assert {d["spec"]["pod"]["name"] for d in herodotus.decisions(namespace)} == {"plain"}
    cluster.patch(f"{pods}/gated", {"spec": {"schedulingGates": None}})
    eventually(lambda: "gated" in cluster.bound(namespace), "the pod whose gate was lifted")


def test_the_plugin_shows_the_decision(cluster: Cluster, namespace: str, herodotus: Herodotus) -> None:
    """The commands are `kubectl herodotus pod` and `node`, run as a user runs them."""
    herodotus.add_nodes(*(node(f"n{i}") for i in range(3)))
    cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod("shown", cpu="1"))
    eventually(
        lambda: [d for d in herodotus.decisions(namespace) if d["status"]["state"] == "Bound"] or None, "the decision"
    )
    where = cluster.bound(namespace)["shown"]["spec"]["nodeName"]

    def plugin(*arguments: str) -> str:
        command = [sys.executable, str(ROOT / "kubectl-herodotus"), *arguments, "--endpoint", herodotus.endpoint_url]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout

    shown = plugin("pod", "shown", "-n", namespace)
    assert f"On {where}: drawn among 3 nodes with the best total" in shown
    assert f"{namespace}/shown" in plugin("node", where)


def test_a_recreated_pod_is_a_new_pod(cluster: Cluster, namespace: str, herodotus: Herodotus) -> None:
    """It has the same name and a new UID: it is scheduled again, and the histories are separate."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    herodotus.add_nodes(node("a"))
    uids = []
    for _ in range(2):
        uids.append(cluster.create(pods, pod("same"))["metadata"]["uid"])
        eventually(lambda: "same" in cluster.bound(namespace), "the pod to be bound")
        cluster.delete(f"{pods}/same")
        eventually(lambda: not cluster.items(pods), "the pod to be gone")

    def placed() -> list[str]:
        """Return the UIDs of placed pods; an attempt before the node's watch event came placed none."""
        return sorted(d["spec"]["pod"]["uid"] for d in herodotus.decisions(namespace) if d["status"]["node"])

    eventually(lambda: placed() == sorted(uids), "one placement of each")
