"""Pods that wait for Kueue or Volcano are explained from these projects' objects, as far as they may be read."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.undecided_group import build_undecided_group
from herodotus_cli.batch_queues import read_group, read_queue
from herodotus_cli.errors import ServerError
from herodotus_cli.render.pod import build_queue
from herodotus_cli.render.screen_elements import TextLine
from tests.answer_schemas import validate
from tests.support.answers import as_json

Json = dict[str, Any]
KUEUE = "/apis/kueue.x-k8s.io"
V1 = f"{KUEUE}/v1beta1"
VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"
LACKS = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor spot, 2 more needed"


class Objects:
    """Serves objects by path; `forbidden` paths may not be read, and no other path exists."""

    def __init__(self, objects: dict[str, Json], *forbidden: str) -> None:
        self.objects, self.forbidden, self.paths = objects, forbidden, list[str]()

    def get(self, path: str) -> Json:
        self.paths.append(path)
        if path in self.forbidden:
            raise ServerError("Forbidden", "no")
        if path not in self.objects:
            raise ServerError("NotFound", "no")
        return self.objects[path]


def pod(gate: str = "kueue.x-k8s.io/admission", **metadata: Any) -> Json:
    gates = {"schedulingGates": [{"name": gate}]} if gate else {}
    return {"metadata": {"name": "p", "namespace": "ml", "uid": "u-p", **metadata}, "spec": gates}


def workload(name: str, owner: str, *, priority: int = 0, created: str = "2026-01-01", said: str = LACKS) -> Json:
    metadata = {"name": name, "creationTimestamp": created, "ownerReferences": [{"uid": owner}]}
    waiting = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": said}
    return {
        "metadata": metadata,
        "spec": {"queueName": "team", "priority": priority},
        "status": {"conditions": [waiting]},
    }


def cluster() -> dict[str, Json]:
    others = [workload("first", "u-1", priority=5), workload("old", "u-2", created="2025-12-31")]
    flavor = {"name": "spot", "resources": [{"name": "cpu", "nominalQuota": "10"}]}
    usage = [{"name": "spot", "resources": [{"name": "cpu", "total": "9"}]}]
    return {
        KUEUE: {"versions": [{"version": "v1beta1"}]},
        f"{V1}/namespaces/ml/workloads": {"items": [workload("mine", "u-p"), *others]},
        f"{V1}/namespaces/ml/localqueues/team": {"spec": {"clusterQueue": "all"}},
        f"{V1}/clusterqueues/all": {
            "spec": {"resourceGroups": [{"flavors": [flavor]}]},
            "status": {"flavorsUsage": usage},
        },
    }


def test_a_pod_that_waits_for_quota() -> None:
    found = as_json(read_queue(pod(), Objects(cluster()).get))
    assert (found["object"], found["state"], found["message"]) == ("Workload/mine", "waiting for quota", LACKS)
    assert (found["localQueue"], found["queue"], found["position"], found["waiting"]) == ("team", "all", 3, 3)
    assert found["quota"] == [{"flavor": "spot", "resource": "cpu", "used": "9", "limit": "10"}]
    assert found["notes"] == []


def test_the_position_is_that_of_the_visibility_api() -> None:
    path = "/apis/visibility.kueue.x-k8s.io/v1beta1/namespaces/ml/localqueues/team/pendingworkloads"
    items = [{"metadata": {"name": "mine"}, "positionInLocalQueue": 0}, {"metadata": {"name": "old"}}]
    found = as_json(read_queue(pod(), Objects(cluster() | {path: {"items": items}}).get))
    assert (found["position"], found["waiting"]) == (1, 2)


@pytest.mark.parametrize(
    ("missing", "forbidden", "says"),
    [
        (KUEUE, (), "Kueue's API (kueue.x-k8s.io) is not served or may not be read"),
        ("", (f"{V1}/namespaces/ml/workloads",), "Workloads of the namespace: you may not read it"),
        ("", (f"{V1}/clusterqueues/all",), "ClusterQueue all: you may not read it"),
        (f"{V1}/namespaces/ml/localqueues/team", (), "LocalQueue team: not found"),
    ],
    ids=["no API", "no workloads", "no cluster queue", "no local queue"],
)
def test_what_cannot_be_read_is_named_in_one_line(missing: str, forbidden: tuple[str, ...], says: str) -> None:
    objects = {path: obj for path, obj in cluster().items() if path != missing}
    found = as_json(read_queue(pod(), Objects(objects, *forbidden).get))
    assert found["notes"] == [says]
    assert [b.text for b in build_queue(found) if isinstance(b, TextLine)][-1] == f"note: {says}"


def test_the_workload_of_a_group_of_pods_is_found_by_its_label() -> None:
    grouped = pod(uid="u-x", labels={"kueue.x-k8s.io/pod-group-name": "old"})
    assert as_json(read_queue(grouped, Objects(cluster()).get))["object"] == "Workload/old"


def test_volcano_says_why_a_group_waits() -> None:
    group = {
        "spec": {"queue": "batch", "minMember": 4},
        "status": {
            "phase": "Inqueue",
            "conditions": [{"type": "Unschedulable", "status": "True", "message": "4/4 tasks in gang unschedulable"}],
        },
    }
    queue = {"spec": {"capability": {"cpu": "8"}}, "status": {"pending": 2, "allocated": {"cpu": "6"}}}
    objects = Objects({f"{VOLCANO}/namespaces/ml/podgroups/train": group, f"{VOLCANO}/queues/batch": queue})
    member = pod("", annotations={"scheduling.k8s.io/group-name": "train"})
    found = as_json(read_queue(member, objects.get))
    assert (found["by"], found["state"], found["minMember"], found["queue"]) == ("Volcano", "Inqueue", 4, "batch")
    assert found["message"] == "4/4 tasks in gang unschedulable"
    assert found["waiting"] == 2
    assert found["quota"] == [{"flavor": None, "resource": "cpu", "used": "6", "limit": "8"}]


def test_the_other_pods_of_a_volcano_group_that_fit_nowhere_are_named() -> None:
    def a_pod(name: str, reason: str, message: str) -> Json:
        member = pod("", annotations={"scheduling.k8s.io/group-name": "train"})
        member["metadata"]["name"] = name
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        return member | {"status": {"conditions": [condition]}}

    origin = "gang unschedulable. Origin reason is b: 0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2."
    members = [a_pod("a", "Schedulable", "could go to n1"), a_pod("b", "Unschedulable", origin)]
    members += [a_pod("c", "Schedulable", "could go to n2")]
    found = as_json(read_queue(members[0], Objects({"/api/v1/namespaces/ml/pods": {"items": members}}).get))
    assert found["message"] == "other pods of the group without a node: b (2 Insufficient cpu)"


@pytest.mark.parametrize(
    ("labels", "selector", "groups"),
    [
        (
            {"scheduling.x-k8s.io/pod-group": "train"},
            "scheduling.x-k8s.io%2Fpod-group%3Dtrain",
            "/apis/scheduling.x-k8s.io/v1alpha1",
        ),
        (
            {"pod-group.scheduling.sigs.k8s.io": "train"},
            "pod-group.scheduling.sigs.k8s.io%3Dtrain",
            "/apis/scheduling.sigs.k8s.io/v1alpha1",
        ),
        (
            {
                "pod-group.scheduling.sigs.k8s.io/name": "train",
                "pod-group.scheduling.sigs.k8s.io/min-available": "4",
            },
            "pod-group.scheduling.sigs.k8s.io%2Fname%3Dtrain",
            "",
        ),
    ],
    ids=["pod-group", "earlier-label", "labels-alone"],
)
def test_a_group_of_coscheduling_says_how_many_of_its_pods_exist(
    labels: dict[str, str], selector: str, groups: str
) -> None:
    members: list[Json] = [pod(""), pod(""), pod("", deletionTimestamp="2026-01-01T00:00:00Z"), pod("")]
    members[1]["metadata"]["name"] = "other"
    members[0]["spec"]["nodeName"] = "n0"
    members[3]["status"] = {"phase": "Failed"}
    objects: dict[str, Json] = {f"/api/v1/namespaces/ml/pods?labelSelector={selector}": {"items": members}}
    if groups:
        objects[f"{groups}/namespaces/ml/podgroups/train"] = {
            "spec": {"minMember": 4},
            "status": {"phase": "Pending"},
        }
    found = as_json(read_queue(pod("", labels=labels), Objects(objects).get))
    assert (found["by"], found["object"], found["state"], found["minMember"]) == (
        "Coscheduling",
        "PodGroup/train",
        "Pending",
        4,
    )
    count = "only 2 of the 4 pods that the group needs exist; 1 of them has a node"
    assert found["message"] == f"{count}; other pods of the group without a node: other (was not tried yet)"
    assert found["notes"] == []


def test_other_pods_cost_no_request() -> None:
    objects = Objects({})
    assert read_queue(pod("example.com/gate"), objects.get) is None
    assert read_queue(pod(""), objects.get) is None
    placed = pod()
    placed["spec"]["nodeName"] = "n0"
    assert read_queue(placed, objects.get) is None
    assert objects.paths == []


def a_member(name: str, node: str = "", **metadata: Any) -> Json:
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"name": name, "namespace": "ml", "uid": name, **metadata}, "spec": spec}


@pytest.mark.parametrize(
    ("member", "by", "needed"),
    [
        ({"annotations": {"scheduling.k8s.io/group-name": "g"}}, "Volcano", 3),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, "Coscheduling", 4),
        ({"labels": {"kueue.x-k8s.io/pod-group-name": "g"}}, "Kueue", None),
    ],
)
def test_a_group_is_found_by_its_object_or_its_pods(member: Json, by: str, needed: int | None) -> None:
    volcano = {"spec": {"minMember": 3, "queue": "q"}, "status": {"phase": "Pending"}}
    objects = cluster() | {
        "/api/v1/namespaces/ml/pods": {"items": [a_member("p-0", **member), a_member("p-1", "n1", **member)]},
        f"{VOLCANO}/namespaces/ml/podgroups/g": volcano,
        "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/ml/podgroups/g": {"spec": {"minMember": 4}},
    }
    if by != "Volcano":
        del objects[f"{VOLCANO}/namespaces/ml/podgroups/g"]
    found = read_group("ml", "g", Objects(objects).get)
    assert found is not None
    assert found.queue is not None
    assert (found.queue["by"], found.queue["minMember"], len(found.pods)) == (by, needed, 2)
    document = build_undecided_group("ml", "g", found.queue, found.pods, found.notes)
    validate(as_json(document))
    assert f"{by} schedules this group" in document["headline"]
    assert "1 of them has a node." in document["headline"]
    assert [(pod["pod"], pod["node"]) for pod in document["pods"]] == [("p-0", None), ("p-1", "n1")]


def test_a_group_without_any_object_is_not_found() -> None:
    assert read_group("ml", "g", Objects({"/api/v1/namespaces/ml/pods": {"items": [a_member("p")]}}).get) is None
