"""The answer to what the descheduler would do: policies that are refused, landings, runs, and the sentence."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.cluster_questions import ClusterQuestion, DescheduleQuestion
from herodotus_answers.cluster_review import build_cluster_review
from scheduler.engine.descheduler.answers import answer_deschedule
from scheduler.engine.objects.selectors import InvalidSelectorError, parse_label_selector
from scheduler.engine.progress import ignore_progress
from scheduler.engine.whatif.changes import ClusterReviewError, answer_review
from tests.scheduler.engine.descheduler.policies import a_policy, deschedule, evicted
from tests.scheduler.engine.whatif.clusters import a_budget, a_node, a_pod, a_state

Json = dict[str, Any]
DUPLICATES: Json = {"RemoveDuplicates": {}}
LOW = "LowNodeUtilization"
CPU = {"cpu": 20}


def headline(objects: list[Json], policy: Json, *pods: str) -> str:
    question = ClusterQuestion(deschedule=DescheduleQuestion(policy=policy, pods=list(pods)))
    status = answer_review(a_state(objects), question, ignore_progress, 0)
    return build_cluster_review(status)["status"]["headline"]


def test_a_pod_may_come_back_to_its_node() -> None:
    """The descheduler does not look at the host port that is taken on the other node; kube-scheduler does."""
    ports: Json = {"containers": [{"name": "main", "image": "web", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
    objects = [a_node("n0"), a_node("n1"), a_pod("p", "n0", **ports), a_pod("q", "n1", "ReplicaSet/other", **ports)]
    objects[2]["spec"]["affinity"] = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
                }
            ]
        }
    }
    args = {"nodeAffinityType": ["preferredDuringSchedulingIgnoredDuringExecution"]}
    policy = a_policy({"RemovePodsViolatingNodeAffinity": args}, {"nodeFit": True})
    (eviction,) = deschedule(objects, policy)["evictions"]
    assert (eviction["outcome"], eviction["landsOn"]) == ("Returns", "n0")
    assert headline(objects, policy) == "1 pod would be evicted: comes back to its node."
    assert headline(objects, policy, "shop/p") == (
        "shop/p would be evicted by RemovePodsViolatingNodeAffinity: its successor comes back to n0."
    )


def test_the_sentence_counts_the_outcomes() -> None:
    objects = [a_node("n0"), a_node("n1"), *(a_pod(f"w{i}", "n0") for i in range(4))]
    assert headline(objects, a_policy(DUPLICATES)) == "2 pods would be evicted: all land on other nodes."
    budget = a_budget("web", "web", minAvailable=3)
    refused = "1 pod would be evicted: lands on another node. 1 eviction is refused."
    assert headline([*objects, budget], a_policy(DUPLICATES)) == refused
    assert headline(objects[:4], a_policy({"RemovePodsViolatingNodeTaints": {}})) == "No pod would be evicted."


def test_equal_pods_are_evicted_in_some_of_the_runs() -> None:
    objects = [a_node("n0"), a_node("n1"), a_pod("w0", "n0"), a_pod("w1", "n0")]
    review = deschedule(objects, a_policy(DUPLICATES), "shop/w0", "shop/w1")
    assert review["runs"] == 20
    assert review["others"] == 1
    runs = [pod["runs"] for pod in review["pods"]]
    assert sum(runs) == 20
    assert all(runs)
    assert headline(objects, a_policy(DUPLICATES), "shop/w0").startswith("shop/w0 may be evicted (in ")


def test_fewer_than_two_ready_nodes_end_the_run() -> None:
    unready = a_node("n1", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}])
    review = deschedule([a_node("n0"), unready, a_pod("w0", "n0"), a_pod("w1", "n0")], a_policy(DUPLICATES))
    assert review["plugins"][0]["summary"] == "the descheduler does nothing with fewer than two ready nodes"


def test_the_policy_selects_nodes() -> None:
    objects = [*(a_node(f"n{i}") for i in range(3)), a_pod("w0", "n0"), a_pod("w1", "n0")]
    assert evicted(deschedule(objects, a_policy(DUPLICATES, nodeSelector="kubernetes.io/hostname!=n0"))) == []


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            {"apiVersion": "descheduler/v1alpha1"},
            "expected descheduler/v1alpha2 DeschedulerPolicy, got descheduler/v1alpha1",
        ),
        (
            a_policy({"RemoveDuplicates": {"nodeFit": True}}),
            "RemoveDuplicates: Object contains unknown field `nodeFit`",
        ),
        (a_policy(DUPLICATES, {"evictEverything": True}), "DefaultEvictor: Object contains unknown field"),
        (a_policy(DUPLICATES, {"priorityThreshold": {"value": 1, "name": "high"}}), "only one of priorityThreshold"),
        (
            a_policy(DUPLICATES, {"priorityThreshold": {"name": "gone"}}),
            'priorityclasses.scheduling.k8s.io "gone" not found',
        ),
        (a_policy(DUPLICATES, {"priorityThreshold": {"value": 2_000_000_001}}), "can't be greater than 2000000000"),
        (a_policy(DUPLICATES, {"minPodAge": "old"}), "minPodAge: 'old' is not a duration"),
        (a_policy({LOW: {}}), "LowNodeUtilization: thresholds: no resource threshold is configured"),
        (a_policy({LOW: {"thresholds": {"cpu": 101}, "targetThresholds": CPU}}), "cpu threshold not in [0, 100] range"),
        (a_policy({LOW: {"thresholds": {"cpu": 30}, "targetThresholds": CPU}}), "percentage is greater than"),
        (a_policy({LOW: {"thresholds": CPU, "targetThresholds": {"pods": 50}}}), "configured different resources"),
        (a_policy({"RemovePodsViolatingNodeAffinity": {}}), "nodeAffinityType needs to be set"),
        (a_policy(DUPLICATES, nodeSelector="a in b"), "nodeSelector: unable to parse the selector 'a in b'"),
    ],
)
def test_policies_that_the_descheduler_refuses(policy: Json, message: str) -> None:
    with pytest.raises(ClusterReviewError) as caught:
        deschedule([a_node("n0"), a_node("n1")], policy)
    assert str(caught.value).startswith("deschedule: ")
    assert message in str(caught.value)


def test_a_plugin_needs_its_configuration() -> None:
    policy = a_policy(DUPLICATES)
    del policy["profiles"][0]["pluginConfig"][1]
    with pytest.raises(ClusterReviewError, match="unable to find RemoveDuplicates plugin config"):
        deschedule([a_node("n0")], policy)


def test_what_is_not_evaluated_is_named() -> None:
    plugins: Json = {
        "PodLifeTime": {"maxPodLifeTimeSeconds": 1},
        "OurPlugin": {},
        LOW: {"metricsUtilization": {"source": "KubernetesMetrics"}},
    }
    plugins[LOW] |= {"thresholds": CPU, "targetThresholds": CPU}
    question = DescheduleQuestion(policy=a_policy(plugins, maxPods=3))
    state = a_state([a_node("n0"), a_node("n1")])
    review, notes = answer_deschedule(state, question, ignore_progress, None, 0)
    assert notes == [
        "the descheduler v0.36.0 ignores the unknown field maxPods",
        "profile default: PodLifeTime is not evaluated",
        "profile default: OurPlugin is no plugin of the descheduler v0.36.0: not evaluated",
        "profile default: LowNodeUtilization is not evaluated, because metricsUtilization reads metrics of actual use",
    ]
    assert not any(each["evaluated"] for each in review["plugins"])


def test_the_time_limit_ends_further_runs_and_the_landing() -> None:
    """A clock that jumps after the first run: its evictions are the answer, and where pods land is unknown."""
    now = iter([0.0] * 60)

    def clock() -> float:
        return next(now, 100.0)

    objects = [*(a_node(f"n{i}") for i in range(3)), *(a_pod(f"w{i}", "n0") for i in range(12))]
    question = DescheduleQuestion(policy=a_policy(DUPLICATES, {"nodeFit": True}), time_limit_seconds=10)
    review, _ = answer_deschedule(a_state(objects), question, ignore_progress, None, 0, clock)
    assert review["runs"] < 20
    assert {each["outcome"] for each in review["evictions"]} == {"Unknown"}
    assert review["endedBy"] == "TimeOver"


def test_unknown_pods_are_refused() -> None:
    with pytest.raises(ClusterReviewError, match='deschedule: no node has a pod "shop/gone"'):
        deschedule([a_node("n0")], a_policy(DUPLICATES), "shop/gone")


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("", []),
        ("a=1,b==2", [("a", "In", ["1"]), ("b", "In", ["2"])]),
        ("a != 1, !b ,c", [("a", "NotIn", ["1"]), ("b", "DoesNotExist", None), ("c", "Exists", None)]),
        ("a in (x, y),b notin (z)", [("a", "In", ["x", "y"]), ("b", "NotIn", ["z"])]),
        ("a>1,b<2", [("a", "Gt", ["1"]), ("b", "Lt", ["2"])]),
        ("kubernetes.io/os=linux", [("kubernetes.io/os", "In", ["linux"])]),
    ],
)
def test_selectors_are_parsed_from_text(text: str, requirements: list[Any]) -> None:
    parsed = parse_label_selector(text).match_expressions or []
    assert [(each.key, each.operator, each.values) for each in parsed] == requirements


@pytest.mark.parametrize("text", ["a in b", "a=1,=", "(a)", "a=1 b=2"])
def test_other_texts_are_no_selectors(text: str) -> None:
    with pytest.raises(InvalidSelectorError):
        parse_label_selector(text)
