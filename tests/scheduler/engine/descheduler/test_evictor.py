"""Which pods the descheduler's evictor protects, and what limits its evictions."""

from __future__ import annotations

import time
from typing import Any

import pytest

from scheduler.engine.objects.types import Metadata
from scheduler.engine.whatif.pods import PriorityClass
from tests.scheduler.engine.descheduler.policies import a_policy, deschedule, evicted, refused, why_not
from tests.scheduler.engine.whatif.clusters import READY, a_budget, a_node, a_pod

Json = dict[str, Any]
TAINTED = a_node("n0", taints=[{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}])
NODES = [TAINTED, a_node("n1")]
PLUGIN: Json = {"RemovePodsViolatingNodeTaints": {}}
EVICT = "descheduler.alpha.kubernetes.io/evict"


def annotated(pod: Json, **annotations: str) -> Json:
    pod["metadata"]["annotations"] = annotations
    return pod


def why_protected(pod: Json, evictor: Json | None = None, *more: Json, **question: Any) -> list[str]:
    """Why the evictor protects the pod, which does not tolerate the taint of its node; [] if it is evicted."""
    review = deschedule([*NODES, pod, *more], a_policy(PLUGIN, evictor), "shop/p", **question)
    assert bool(evicted(review)) != bool(why_not(review))
    return why_not(review)


LOCAL: Json = {"volumes": [{"name": "cache", "emptyDir": {}}]}
CLAIM: Json = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
PROTECTED = "is protected against eviction"


@pytest.mark.parametrize(
    ("pod", "evictor", "why"),
    [
        (a_pod("p", "n0"), {}, ""),
        (a_pod("p", "n0", ""), {}, "pod does not have any ownerRefs"),
        (a_pod("p", "n0", ""), {"evictFailedBarePods": True}, "does not have any ownerRefs and is not in failed phase"),
        (a_pod("p", "n0", "DaemonSet/agent"), {}, "daemonset pods are protected"),
        (a_pod("p", "n0", "DaemonSet/agent"), {"evictDaemonSetPods": True}, ""),
        (a_pod("p", "n0", **LOCAL), {}, f"pod has local storage and {PROTECTED}"),
        (a_pod("p", "n0", **LOCAL), {"evictLocalStoragePods": True}, ""),
        (a_pod("p", "n0", **LOCAL), {"podProtections": {"defaultDisabled": ["PodsWithLocalStorage"]}}, ""),
        (a_pod("p", "n0", **CLAIM), {}, ""),
        (a_pod("p", "n0", **CLAIM), {"ignorePvcPods": True}, f"pod with PVC {PROTECTED}"),
        (a_pod("p", "n0", **CLAIM), {"podProtections": {"extraEnabled": ["PodsWithPVC"]}}, f"pod with PVC {PROTECTED}"),
        (a_pod("p", "n0"), {"ignorePodsWithoutPDB": True}, "does not have a PodDisruptionBudget"),
        (a_pod("p", "n0", priority=2_000_000_000), {}, "pod has system critical priority"),
        (a_pod("p", "n0", priority=2_000_000_000), {"evictSystemCriticalPods": True}, ""),
        (a_pod("p", "n0", priority=9), {"priorityThreshold": {"value": 10}}, ""),
        (a_pod("p", "n0", priority=10), {"priorityThreshold": {"value": 10}}, "the priority threshold is 10"),
        (
            a_pod("p", "n0", priority=10),
            {"priorityThreshold": {"value": 10}, "evictSystemCriticalPods": True},
            "",
        ),
        (a_pod("p", "n0"), {"labelSelector": {"matchLabels": {"app": "db"}}}, "pod labels do not match"),
        (a_pod("p", "n0"), {"labelSelector": {"matchLabels": {"app": "web"}}}, ""),
        (a_pod("p", "n0"), {"minReplicas": 2}, "owner has 1 replicas which is less than minReplicas of 2"),
        (a_pod("p", "n0"), {"minReplicas": 1}, ""),
        (a_pod("p", "n0"), {"minPodAge": "1h"}, "pod age is not older than minPodAge"),
        (annotated(a_pod("p", "n0", ""), **{EVICT: "true"}), {}, ""),
        (annotated(a_pod("p", "n0"), **{"kubernetes.io/config.mirror": "x"}), {}, "pod is a mirror pod"),
        (annotated(a_pod("p", "n0"), **{"kubernetes.io/config.source": "file"}), {}, "pod is a static pod"),
        (
            annotated(a_pod("p", "n0"), **{"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}),
            {"noEvictionPolicy": "Mandatory"},
            "prefer-no-eviction",
        ),
        (annotated(a_pod("p", "n0"), **{"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}), {}, ""),
    ],
)
def test_what_protects_a_pod(pod: Json, evictor: Json, why: str) -> None:
    (reason,) = why_protected(pod, evictor) or [""]
    assert (why in reason) if why else not reason


def test_a_budget_does_not_help_a_pod_that_shall_have_one() -> None:
    """The descheduler v0.36.0 finds no budgets unless in a dry run."""
    assert why_protected(a_pod("p", "n0"), {"ignorePodsWithoutPDB": True}, a_budget("web", "web", minAvailable=0))


def test_the_age_is_that_of_the_start() -> None:
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 600))
    pod = a_pod("p", "n0", status={**READY, "startTime": started})
    assert why_protected(pod, {"minPodAge": "5m"}) == []
    assert why_protected(pod, {"minPodAge": "15m"}) == ["pod age is not older than minPodAge: 15m"]


def test_the_threshold_may_be_a_priority_class() -> None:
    classes = {"high": PriorityClass(metadata=Metadata(name="high"), value=100)}
    evictor = {"priorityThreshold": {"name": "high"}}
    assert why_protected(a_pod("p", "n0", priority=99), evictor, classes=classes) == []
    assert why_protected(a_pod("p", "n0", priority=100), evictor, classes=classes)


def test_owners_with_enough_pods_lose_one() -> None:
    assert why_protected(a_pod("p", "n0"), {"minReplicas": 2}, a_pod("q", "n1")) == []


def test_node_fit_protects_pods_that_fit_on_no_other_node() -> None:
    """n1 has 4 CPUs, of which 3 are requested: a pod of 1 fits, one of 2 does not."""
    full = [a_pod("other", "n1", cpu="3")]
    fit = {"nodeFit": True}
    assert why_protected(a_pod("p", "n0", cpu="1"), fit, *full) == []
    assert why_protected(a_pod("p", "n0", cpu="2"), fit, *full) == ["pod does not fit on any other node (nodeFit)"]
    assert why_protected(a_pod("p", "n0", cpu="2"), {}, *full) == []
    assert why_protected(a_pod("p", "n0", nodeSelector={"disk": "ssd"}), fit)
    assert why_protected(a_pod("p", "n0"), fit | {"nodeSelector": "kubernetes.io/hostname in (n0)"})


def test_node_fit_reads_the_anti_affinity_of_the_pod_alone() -> None:
    terms = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    fit = {"nodeFit": True}
    assert why_protected(a_pod("p", "n0", affinity=apart), fit, a_pod("q", "n1"))
    assert why_protected(a_pod("p", "n0"), fit, a_pod("q", "n1", affinity=apart)) == []


def test_a_budget_refuses_what_it_does_not_allow_and_the_next_pod_is_tried() -> None:
    """Of three Ready pods two must stay: the first eviction is allowed, the others are not."""
    objects = [*NODES, *(a_pod(f"p{i}", "n0") for i in range(3)), a_budget("web", "web", minAvailable=2)]
    review = deschedule([*objects, a_pod("q", "n0", "ReplicaSet/db")], a_policy(PLUGIN), "shop/p1")
    assert evicted(review) == ["p0", "q"]
    assert [(each["name"], each["budget"]) for each in refused(review)] == [("p1", "web"), ("p2", "web")]
    assert "The disruption budget web needs 2 healthy pods and has 2 currently" in why_not(review)[0]
    assert review["plugins"][0]["refused"] == 2


@pytest.mark.parametrize(
    ("limit", "names"),
    [
        ({"maxNoOfPodsToEvictTotal": 2}, ["a0", "a1"]),
        ({"maxNoOfPodsToEvictPerNode": 1}, ["a0", "b0"]),
        ({"maxNoOfPodsToEvictPerNamespace": 3}, ["a0", "a1", "b0"]),
    ],
)
def test_limits_of_a_run(limit: Json, names: list[str]) -> None:
    nodes = [TAINTED, a_node("n1", taints=TAINTED["spec"]["taints"]), a_node("n2")]
    pods = [a_pod(f"{on}{i}", node) for on, node in (("a", "n0"), ("b", "n1")) for i in range(2)]
    review = deschedule([*nodes, *pods], a_policy(PLUGIN, **limit))
    assert evicted(review) == names
    assert {each["refusal"] for each in refused(review)} == {f"{name} is {value}" for name, value in limit.items()}


def test_a_pod_is_evicted_once_by_several_plugins() -> None:
    objects = [*NODES, a_pod("p", "n0"), a_pod("q", "n0")]
    review = deschedule(objects, a_policy({**PLUGIN, "RemoveDuplicates": {}}))
    assert [(each["name"], each["plugin"]) for each in review["evictions"]] == [
        ("p", "RemovePodsViolatingNodeTaints"),
        ("q", "RemovePodsViolatingNodeTaints"),
    ]
