"""Which pods that do not exist yet quotas and LimitRanges refuse, by the rules of the API server."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.live.workloads.admission import list_refusals

Json = dict[str, Any]


def container(name: str = "app", limits: Json | None = None, **requests: str) -> Json:
    return {"name": name, "resources": {"requests": requests, "limits": limits or {}}}


def quota(hard: Json, used: Json | None = None, **spec: Any) -> Json:
    return {"metadata": {"name": "team"}, "spec": {"hard": hard, **spec}, "status": {"hard": hard, "used": used or {}}}


def limit_range(**item: Any) -> Json:
    return {"metadata": {"name": "bounds"}, "spec": {"limits": [{"type": "Container", **item}]}}


@pytest.mark.parametrize(
    ("hard", "used", "sentences"),
    [
        ({"pods": "10"}, {"pods": "7"}, ["allows 3 of 4 new pods: pods 7 of 10 used"]),
        ({"pods": "10"}, {"pods": "6"}, []),
        (
            {"requests.cpu": "4", "pods": "9"},
            {"requests.cpu": "3500m"},
            ["allows 1 of 4 new pods: requests.cpu 3500m of 4 used, each pod has 500m"],
        ),
        ({"memory": "1Gi"}, {}, ["refuses such pods: container app has no requests.memory"]),
        ({"requests.storage": "1Gi", "services": "1"}, {}, []),
        ({"limits.cpu": "1"}, {}, ["refuses such pods: container app has no limits.cpu"]),
    ],
    ids=["pods", "room", "cpu", "required", "no-pods", "limits"],
)
def test_a_quota_refuses_the_pods_for_which_it_has_no_room(hard: Json, used: Json, sentences: list[str]) -> None:
    found = list_refusals({"containers": [container(cpu="500m")]}, 4, [quota(hard, used)], [])
    assert [refusal.text for refusal in found] == [f"ResourceQuota team {sentence}" for sentence in sentences]
    assert all(f"allows {refusal.allowed} of" in refusal.text or not refusal.allowed for refusal in found)


def test_init_containers_and_sidecars_count_as_in_a_quota() -> None:
    sidecar = container("proxy", cpu="1") | {"restartPolicy": "Always"}
    spec = {"initContainers": [sidecar, container("load", cpu="3")], "containers": [container(cpu="2")]}
    (found,) = list_refusals(spec, 2, [quota({"cpu": "5"})], [])
    assert found.text.endswith("allows 1 of 2 new pods: cpu 0 of 5 used, each pod has 4")


@pytest.mark.parametrize(
    ("scope", "counts"),
    [
        ({"scopes": ["NotTerminating"]}, True),
        ({"scopes": ["Terminating"]}, False),
        ({"scopes": ["BestEffort"]}, False),
        ({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}}, False),
        ({"scopes": ["CrossNamespacePodAffinity"]}, False),
    ],
)
def test_a_quota_counts_only_pods_of_its_scope(scope: Json, counts: bool) -> None:
    found = list_refusals({"containers": [container(cpu="1")]}, 1, [quota({"pods": "0"}, **scope)], [])
    assert bool(found) is counts


def test_a_limit_range_refuses_or_supplies_what_is_missing() -> None:
    spec = {"containers": [container(cpu="8")]}
    assert list_refusals(spec, 1, [], [limit_range(max={"cpu": "4"})]) == [
        ("LimitRange bounds refuses such pods: container app requests 8 cpu, at most 4", 0)
    ]
    assert list_refusals(spec, 1, [], [limit_range(min={"cpu": "10"})]) == [
        ("LimitRange bounds refuses such pods: container app requests 8 cpu, at least 10", 0)
    ]
    supplies = limit_range(default={"memory": "1Gi"}, defaultRequest={"memory": "512Mi"})
    (found,) = list_refusals(spec, 3, [quota({"requests.memory": "1Gi"})], [supplies])
    assert found.text.endswith("allows 2 of 3 new pods: requests.memory 0 of 1Gi used, each pod has 512Mi")
