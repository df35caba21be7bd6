"""Pod groups in local mode: the waiting pods of a group are decided together, all or none."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_local.cluster_reader import ClusterReader
from herodotus_local.service import LocalService
from scheduler.config import Configuration
from tests.local.api_server import ApiServer, node, pod

Json = dict[str, Any]
API = "/apis/herodotus.dev/v1alpha1"


def group(name: str, min_count: int) -> Json:
    policy = {"gang": {"minCount": min_count}}
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    return {"kind": "PodGroup", "metadata": metadata, "spec": {"schedulingPolicy": policy}}


def member(name: str, cpu: str = "3", of: str = "train", **spec: Any) -> Json:
    return pod(name, cpu, schedulingGroup={"podGroupName": of}, **spec)


def get(api: ApiServer, *paths: str, version: str = "") -> list[Json]:
    notes: list[str] = []
    with (
        ClusterReader(api.fetch, lambda _plural, _count: None) as reader,
        LocalService(reader, Configuration(kubernetes_version=version), notes.append) as service,
    ):
        return [service.get(f"{API}/namespaces/shop/{path}").document for path in paths]


def explain(api: ApiServer, *names: str) -> list[Json]:
    return get(api, *(f"podexplanations/{name}" for name in names))


def ask_about_group(api: ApiServer) -> Json:
    return get(api, "podgroupplacements/train")[0]


NODES = [node("n0"), node("n1")]


def test_each_pod_is_decided_beside_the_earlier_ones() -> None:
    members = [member(f"train-{i}") for i in range(2)]
    found = explain(ApiServer([*NODES, group("train", 2), *members]), "train-0", "train-1")
    assert sorted(each["outcome"]["node"] for each in found) == ["n0", "n1"]
    assert all("fits now" in each["message"] for each in found)


def test_a_group_without_quorum_takes_its_pods_back() -> None:
    members = [member(f"train-{i}") for i in range(3)]
    api = ApiServer([*NODES, group("train", 3), *members, pod("alone", "3")])
    first, last, alone = explain(api, "train-0", "train-2", "alone")
    assert first["outcome"]["state"] == "Unschedulable"
    assert [phase["phase"] for phase in first["outcome"]["phases"]] == ["PodGroup"]
    assert first["headline"] == (
        "Pending with its pod group. The group does not fit: 2 of 3 pods fit (minCount 3). train-2 found no node:"
        " nodes have too little cpu. It alone would fit n1."
    )
    assert first["message"].startswith("pod group is unschedulable")
    assert "2 Insufficient cpu" in last["message"]
    assert "fits now" in alone["message"], "the pods of the group were taken off their nodes"


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        ([member("train-0")], 'pod group "train" to appear'),
        ([group("train", 2), member("train-0")], "waiting for minCount pods from a gang"),
    ],
    ids=["no group", "too few pods"],
)
def test_a_group_that_is_not_tried_says_why(objects: list[Json], said: str) -> None:
    (found,) = explain(ApiServer([*NODES, *objects]), "train-0")
    assert said in found["message"]


def test_members_that_do_not_exist_or_are_not_tried_are_named() -> None:
    members = [member(f"train-{i}") for i in range(2)]
    gated = member("train-2", schedulingGates=[{"name": "quota"}])
    few = "only 2 of the 3 pods that the group needs have a node or can be tried."
    for others, named in (
        ([], "No other pod of the group exists."),
        ([gated], "train-2 waits for its scheduling gates (quota)."),
    ):
        paths = ("podgroupplacements/train", "podexplanations/train-0")
        found, pod_answer = get(ApiServer([*NODES, group("train", 3), *members, *others]), *paths)
        assert found["headline"] == f"The group is not placed: {few} {named}"
        assert pod_answer["headline"] == f"Pending with its pod group: {few} It alone would fit n1. {named}"
        assert [other["pod"] for other in found["otherMembers"]] == [each["metadata"]["name"] for each in others]
    alone = explain(ApiServer([*NODES, group("train", 3), *members, gated, pod("alone", "3")]), "alone")
    assert "group" not in alone[0]["headline"]


def test_groups_of_a_version_that_is_not_built_are_named_and_not_called_absent() -> None:
    api = ApiServer([*NODES, group("train", 1), member("train-0")])
    (found,) = get(api, "podexplanations/train-0", version="v1.37")
    assert found["message"] == "pod groups are not evaluated by the rules of v1.37"
    assert [note.partition(" (#")[0] for note in found["notes"] if "not built" in note] == [
        "pod groups: decided as in v1.36, because what v1.37 changes is not built"
    ]


def ask(objects: list[Json], spec: Json, version: str = "") -> Json:
    with (
        ClusterReader(ApiServer(objects).fetch, lambda _plural, _count: None) as reader,
        LocalService(reader, Configuration(kubernetes_version=version), lambda _note: None) as service,
    ):
        answer = service.post(f"{API}/clusterreviews", {"kind": "ClusterReview", "spec": spec})
    assert answer.code == 201
    status: Json = answer.document["status"]
    return status


def create(*objects: Json) -> Json:
    return {"changes": [{"kind": "Create", "object": each, "namespace": "shop"} for each in objects]}


def test_a_group_of_a_file_is_placed_or_says_where_it_stops() -> None:
    members = [member(f"train-{i}") for i in range(3)]
    status = ask(NODES, create(group("train", 2), *members))
    (found,) = status["groups"]
    assert (found["fits"], found["minCount"]) == (True, 2)
    assert sum(bool(p["node"]) for p in status["placements"]) == 2
    status = ask(NODES, create(group("train", 3), *members))
    (found,) = status["groups"]
    assert (found["fits"], found["feasible"], found["pods"], found["stoppedAt"]) == (False, 2, 3, "train-2")
    assert "2 Insufficient cpu" in found["reason"]
    assert not any(p["node"] for p in status["placements"])


def test_a_what_if_says_that_groups_of_a_version_are_not_evaluated() -> None:
    found = ask([*NODES, group("train", 1)], create(member("train-0"), pod("alone", "1")), "v1.37")
    assert {placed["name"]: placed["reason"] for placed in found["placements"]} == {
        "train-0": "pod groups are not evaluated by the rules of v1.37",
        "alone": "",
    }


def test_capacity_counts_whole_groups() -> None:
    nodes = [node(f"n{i}") for i in range(5)]
    status = ask(nodes, {"capacity": {"object": member("train-0"), "namespace": "shop", "groupSize": 2}})
    found = status["capacity"]
    assert (found["groups"], found["groupSize"], found["fits"]) == (2, 2, 4)
    assert sum(each["fits"] for each in found["nodes"]) == 4
    assert "1 Insufficient cpu" not in found["message"]
    assert "5 Insufficient cpu" in found["message"]


def test_the_answer_on_a_group_names_who_fits_who_blocks_and_what_is_missing() -> None:
    members = [member(f"train-{i}") for i in range(3)]
    found = ask_about_group(ApiServer([*NODES, group("train", 3), *members]))
    assert (found["source"], found["state"], found["minCount"]) == ("evaluated", "Unschedulable", 3)
    assert [(p["pod"], p["position"], p["provisional"]) for p in found["pods"]] == [
        ("train-0", 1, True),
        ("train-1", 2, True),
        ("train-2", 3, False),
    ]
    assert found["shortage"]["pods"] == 1
    found = ask_about_group(ApiServer([*NODES, group("train", 2), *members[:2]]))
    assert (found["state"], found["provisional"]) == ("Fits", 2)
