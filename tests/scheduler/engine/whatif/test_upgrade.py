"""What the rules of another version would decide otherwise, and by which rule."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.cluster_questions import ClusterQuestion, UpgradeQuestion
from herodotus_answers.cluster_review import UpgradeReview
from scheduler.engine.progress import ignore_progress
from scheduler.engine.whatif.changes import ClusterReviewError, answer_review
from scheduler.engine.whatif.simulation import WhatIfState
from tests.scheduler.engine.whatif.clusters import a_node, a_pod, a_state

Json = dict[str, Any]


def upgrade(state: WhatIfState, to: str, **question: Any) -> UpgradeReview:
    spec = ClusterQuestion(upgrade=UpgradeQuestion(to=to, **question))
    found = answer_review(state, spec, ignore_progress, seed=0)["upgrade"]
    assert found is not None
    return found


def with_sidecar_port(pod: Json, port: int) -> Json:
    ports = [{"containerPort": port, "hostPort": port, "protocol": "TCP"}]
    pod["spec"]["initContainers"] = [{"name": "proxy", "image": "p", "restartPolicy": "Always", "ports": ports}]
    return pod


def summarize(found: UpgradeReview) -> list[tuple[str, str, str, int, list[str]]]:
    return [(each["name"], each["owner"], each["change"], each["pods"], each["rules"]) for each in found["changes"]]


def test_a_pod_that_no_longer_fits_is_named_with_the_rule() -> None:
    """Two pods share a host port of their sidecars, which kube-scheduler does not look at before v1.33.6."""
    objects = [a_node("n1"), *(with_sidecar_port(a_pod(f"p{i}", "n1"), 8080) for i in (1, 2))]
    found = upgrade(a_state(objects, "v1.33.5"), "v1.34")
    assert summarize(found) == [("p1", "ReplicaSet/web", "FitsNoMore", 2, ["SidecarPorts"])]
    (change,) = found["changes"]
    assert (change["node"], change["bestBefore"], change["bestAfter"]) == ("n1", ["n1"], [])
    assert "1 node(s) didn't have free ports" in change["messageAfter"]
    assert (found["fromVersion"], found["toVersion"], found["pods"], found["decided"]) == ("v1.33.5", "v1.34.9", 2, 2)


def test_a_node_that_rejects_its_pod_is_told_from_a_pod_without_a_node() -> None:
    objects = [a_node("n1"), a_node("n2"), *(with_sidecar_port(a_pod(f"p{i}", "n1"), 8080) for i in (1, 2))]
    assert [each["change"] for each in upgrade(a_state(objects, "v1.33.5"), "v1.33.6")["changes"]] == ["NodeRejects"]


def with_requests(pod: Json, cpu: str, memory: str) -> Json:
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu, "memory": memory}}
    return pod


def test_a_pod_that_would_get_another_node_is_named_with_the_rule() -> None:
    """With the pod n1 is the more even node, and v1.35 scores that; n2 gains more, and v1.36 scores the gain."""
    objects = [
        a_node("n1"),
        a_node("n2"),
        with_requests(a_pod("on1", "n1", owner=""), "1", "3Gi"),
        with_requests(a_pod("on2", "n2", owner=""), "0", "4Gi"),
        with_requests(a_pod("waits", owner="Job/j"), "1", "3Gi"),
    ]
    found = upgrade(a_state(objects, "v1.35"), "v1.36")
    assert {rule["name"] for rule in found["rules"]} >= {"BalanceGain", "NodeDeclaredFeatures"}
    assert summarize(found) == [("waits", "Job/j", "OtherNode", 1, ["BalanceGain"])]
    assert [(each["bestBefore"], each["bestAfter"]) for each in found["changes"]] == [(["n1"], ["n2"])]


@pytest.mark.parametrize(("to", "told"), [("v1.36", []), ("v1.37", ["allocation of devices"])])
def test_an_upgrade_says_what_is_not_built_of_the_other_version(to: str, told: list[str]) -> None:
    claiming = a_pod("p", "n1")
    claiming["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "c"}]
    spec = ClusterQuestion(upgrade=UpgradeQuestion(to=to))
    state = a_state([a_node("n1"), claiming, a_pod("q", "n1")], "v1.35")
    notes = answer_review(state, spec, ignore_progress, seed=0)["notes"]
    assert [note.partition(": decided as in v1.36")[0] for note in notes] == told


def test_the_same_version_changes_nothing() -> None:
    objects = [a_node("n1"), a_pod("p", "n1"), a_pod("big", cpu="9")]
    found = upgrade(a_state(objects, "v1.34.9"), "v1.34")
    assert (found["changes"], found["rules"], found["decided"]) == ([], [], 2)


def test_another_wording_is_a_difference_of_its_own() -> None:
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    found = upgrade(a_state([a_node("n1", taints=[taint]), a_pod("p")], "v1.34.1"), "v1.34.2")
    assert [(each["change"], each["rules"]) for each in found["changes"]] == [("OtherMessage", [])]


def test_a_number_of_pods_of_each_workload_stands_for_all() -> None:
    objects = [a_node("n1", cpu="64"), *(a_pod(f"p{i}", "n1") for i in range(30)), a_pod("other", "n1", owner="Job/j")]
    found = upgrade(a_state(objects, "v1.35"), "v1.36", pods_per_workload=3)
    assert (found["pods"], found["decided"]) == (31, 4)
    assert upgrade(a_state(objects, "v1.35"), "v1.36", pods_per_workload=0)["decided"] == 31


@pytest.mark.parametrize(("to", "error"), [("v1.99", "no rules of Kubernetes v1.99.0"), ("soon", "invalid Kubernetes")])
def test_an_unknown_version_is_refused(to: str, error: str) -> None:
    with pytest.raises(ClusterReviewError, match=error):
        upgrade(a_state([a_node("n1")], "v1.35"), to)


def test_a_gate_that_the_other_version_does_not_know_is_refused() -> None:
    state = a_state([a_node("n1")], "v1.36")
    state.feature_gates = {"GangScheduling": False}
    with pytest.raises(ClusterReviewError, match="unrecognized feature gate: GangScheduling"):
        upgrade(state, "v1.37")


def test_pods_stay_where_they_are() -> None:
    objects = [a_node("n1"), a_node("n2"), a_pod("p", "n1"), a_pod("q", "n2")]
    state = a_state(objects, "v1.35")
    upgrade(state, "v1.36")
    assert [sorted(pods) for pods in state.nodes.pods] == [["uid-p"], ["uid-q"]]
