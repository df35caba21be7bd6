"""Questions about node groups in local mode: what is read, what may be missing, and that the cluster stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.cluster_headlines import find_problems
from herodotus_local.cluster_reader import ClusterReader
from herodotus_local.errors import UnusableInputError
from herodotus_local.service import LocalService
from scheduler.config import Configuration
from tests.local.api_server import ApiServer, node, pod

Json = dict[str, Any]
API = "/apis/herodotus.dev/v1alpha1"
KARPENTER, CLUSTER_API = ("nodepools", "nodeclaims"), ("machinedeployments", "machinesets", "machines")


def labelled(name: str, group: str) -> Json:
    made = node(name)
    made["metadata"]["labels"]["eks.amazonaws.com/nodegroup"] = group
    return made


EVENT = {
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "shop"},
    "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "waits"},
    "reason": "NotTriggerScaleUp",
    "message": "no",
    "source": {"component": "cluster-autoscaler"},
}
POOL = {
    "kind": "NodePool",
    "metadata": {"name": "spot"},
    "spec": {"template": {"spec": {"requirements": [], "taints": [{"key": "spot", "effect": "NoSchedule"}]}}},
}
CLUSTER = [labelled("n0", "small"), pod("web", "4", on="n0"), pod("waits", "3"), EVENT, POOL]


def ask(api: ApiServer, **question: Any) -> Json:
    """Return the status of the answer; each is asked after the pod was explained, as the plugin does."""
    reader = ClusterReader(api.fetch, lambda _plural, _count: None)
    with reader, LocalService(reader, Configuration(), lambda _note: None) as service:
        before = service.get(f"{API}/namespaces/shop/podexplanations/waits?all=true").document["perNode"]
        document = {"kind": "ClusterReview", "spec": {"nodeGroups": {"pods": ["shop/waits"]} | question}}
        answer = service.post(f"{API}/clusterreviews", document)
        assert answer.code == 201, answer.document
        again = service.get(f"{API}/namespaces/shop/podexplanations/waits?all=true").document["perNode"]
        assert again == before
        status: Json = answer.document["status"]
        return status


def verdicts(status: Json) -> dict[str, str]:
    return {v["group"]: v["verdict"] for v in status["nodeGroups"]["pods"][0]["groups"]}


def test_groups_events_and_verdicts_are_read_with_the_users_rights() -> None:
    status = ask(ApiServer(CLUSTER))
    assert verdicts(status) == {"small": "Fits", "spot": "DoesNotFit"}
    assert [report["reason"] for report in status["nodeGroups"]["pods"][0]["reports"]] == ["NotTriggerScaleUp"]
    assert status["notes"] == []


def test_what_keeps_groups_from_getting_nodes_is_read() -> None:
    claim = {
        "kind": "NodeClaim",
        "metadata": {"name": "spot-a1", "labels": {"karpenter.sh/nodepool": "spot"}},
        "status": {
            "conditions": [
                {"type": "Launched", "status": "True"},
                {
                    "type": "Registered",
                    "status": "Unknown",
                    "reason": "NodeNotFound",
                    "message": "Node not registered with cluster",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                },
                {"type": "Initialized", "status": "Unknown"},
            ]
        },
    }
    failed = {
        "kind": "Event",
        "metadata": {"name": "f", "namespace": "default"},
        "involvedObject": {"kind": "NodeClaim", "name": "spot-b2"},
        "reason": "InsufficientCapacityError",
        "message": "all requested instance types were unavailable during launch",
        "lastTimestamp": "2026-01-01T00:05:00Z",
        "source": {"component": "karpenter"},
    }
    scale_up = EVENT | {
        "metadata": {"name": "g", "namespace": "shop"},
        "reason": "FailedScaleUp",
        "message": "out of IPs",
    }
    deployment = {"kind": "MachineDeployment", "metadata": {"name": "md", "namespace": "capi"}, "spec": {"replicas": 2}}
    machines = [
        {
            "kind": "Machine",
            "metadata": {
                "name": f"md-{phase}",
                "namespace": "capi",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"cluster.x-k8s.io/deployment-name": "md"},
            },
            "status": {"phase": phase} | ({"nodeRef": {"name": "n0"}} if phase == "Running" else {}),
        }
        for phase in ("Provisioned", "Running")
    ]
    found = ask(ApiServer([*CLUSTER, claim, failed, scale_up, deployment, *machines]))["nodeGroups"]
    problems = {
        group["name"]: [(c["object"], clause, c["since"]) for c, clause in find_problems(group["conditions"])]
        for group in found["groups"]
    }
    assert problems == {
        "small": [],
        "spot": [
            ("NodeClaim/spot-a1", "is launched, its node has not joined", "2026-01-01T00:00:00Z"),
            ("NodeClaim/spot-b2", "InsufficientCapacityError", "2026-01-01T00:05:00Z"),
        ],
        "md": [("Machine/md-Provisioned", "is Provisioned, its node has not joined", "2026-01-01T00:00:00Z")],
    }
    assert [r["reason"] for r in found["pods"][0]["reports"]] == ["NotTriggerScaleUp", "FailedScaleUp"]


def test_events_of_autoscalers_are_read_only_where_they_have_objects() -> None:
    api = ApiServer([each for each in CLUSTER if each is not POOL])
    ask(api)
    assert [path for path in api.requests if "/events" in path and "/namespaces/shop/" not in path] == []


def test_apis_that_are_not_served_are_no_error() -> None:
    status = ask(ApiServer(CLUSTER, absent=(*KARPENTER, *CLUSTER_API)))
    assert (verdicts(status), status["notes"]) == ({"small": "Fits"}, [])


def test_missing_rights_are_one_line() -> None:
    forbidden = (*KARPENTER, *CLUSTER_API, "daemonsets", "events", "configmaps")
    status = ask(ApiServer(CLUSTER, forbidden=forbidden))
    assert verdicts(status) == {"small": "Fits"}
    (note,) = status["notes"]
    assert note.startswith(
        "nodepools, nodeclaims, machinedeployments, machinesets cannot be read: node groups are known by the labels"
    )
    assert "events cannot be read: the autoscaler's events are not shown" in note


def test_without_groups_and_without_rights_there_is_still_one_line() -> None:
    objects = [node("n0"), pod("web", "4", on="n0"), pod("waits", "3")]
    status = ask(ApiServer(objects, forbidden=(*KARPENTER, *CLUSTER_API)))
    (note,) = status["notes"]
    assert note.startswith("no node group is known here")
    assert "nodepools" in note
    assert ask(ApiServer(objects))["notes"] == [note.partition(";")[0]]


def test_an_object_of_an_unknown_form_is_named() -> None:
    strange = {"kind": "NodePool", "metadata": {"name": "x"}, "spec": {"template": "none"}}
    (note,) = ask(ApiServer([*CLUSTER[:3], strange]))["notes"]
    assert note.startswith("nodepools (of an unknown form) cannot be read")


def test_lists_are_read_in_pages() -> None:
    pools = [POOL | {"metadata": {"name": f"pool-{i}"}} for i in range(5)]
    assert len(ask(ApiServer([*CLUSTER[:3], *pools], page=2))["nodeGroups"]["groups"]) == 6


def test_a_pod_that_has_a_node_is_an_error() -> None:
    with pytest.raises(UnusableInputError, match='"shop/web" is not a pod without a node'):
        ask(ApiServer(CLUSTER), pods=["shop/web"])
