"""Answers of local mode: the decisions service's documents, from a cluster that is read when a question comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from herodotus_local.cluster_reader import ClusterReader
from herodotus_local.configuration import find_configuration
from herodotus_local.errors import HistoryNeededError, NoObjectError, ReadError, UnusableInputError
from herodotus_local.service import LocalService
from scheduler.config import Configuration
from tests.local.api_server import ApiServer, node, pod

Json = dict[str, Any]
API = "/apis/herodotus.dev/v1alpha1"
WAITS = "fits now; default-scheduler has not placed it yet"
CLUSTER = [
    node("worker-1"),
    node("worker-2", cpu="8"),
    node("worker-3", taints=[{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]),
    pod("big", cpu="3", on="worker-1"),
    pod("web", cpu="1", on="worker-2"),
    pod("waits", cpu="2"),
    pod("huge", cpu="20"),
    pod("gated", schedulingGates=[{"name": "quota"}]),
    pod("elsewhere", cpu="20", namespace="ml"),
]

Open = Callable[..., LocalService]


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def local(notes: list[str]) -> Iterator[Open]:
    with ExitStack() as stack:

        def opened(api: ApiServer) -> LocalService:
            reader = stack.enter_context(ClusterReader(api.fetch, lambda _plural, _count: None))
            return stack.enter_context(LocalService(reader, find_configuration(api.fetch).configuration, notes.append))

        yield opened


def document(service: LocalService, path: str) -> Json:
    answer = service.get(f"{API}/{path}")
    assert answer.code == 200, answer.document
    return answer.document


def test_a_pod_that_fits_nowhere(local: Open) -> None:
    found = document(local(ApiServer(CLUSTER)), "namespaces/shop/podexplanations/huge")
    assert found["outcome"]["state"] == "Unschedulable"
    assert found["attempt"]["source"] == "evaluated"
    assert found["message"].startswith(
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
    )


def test_a_pod_that_fits_and_waits_is_not_called_placed(local: Open) -> None:
    found = document(local(ApiServer(CLUSTER)), "namespaces/shop/podexplanations/waits")
    assert (found["outcome"]["node"], found["outcome"]["state"]) == ("worker-2", "Failed")
    assert found["message"] == WAITS


def test_a_placed_pod_is_decided_as_if_it_were_not_there(local: Open) -> None:
    found = document(local(ApiServer(CLUSTER)), "namespaces/shop/podexplanations/big?all=true")
    assert (found["outcome"]["node"], found["outcome"]["state"]) == ("worker-1", "Bound")
    assert {row["node"] for row in found["ranking"]} == {"worker-1", "worker-2"}
    assert found["reconstruction"]["cause"] == "evaluated-later"  # worker-2 would be better today


@pytest.mark.parametrize("version", ["v1.31.14", "v1.32.13", "v1.33.5", "v1.34.2", "v1.37.1"])
def test_pods_are_decided_where_pods_on_nodes_count_in_another_way(local: Open, version: str) -> None:
    """Their amounts are counted again for the version, before the first pod is decided."""
    api = ApiServer(CLUSTER)
    api.version = {"gitVersion": version}
    assert document(local(api), "namespaces/shop/podexplanations/waits")["outcome"]["node"] == "worker-2"


def test_questions_do_not_change_the_cluster(local: Open) -> None:
    service = local(ApiServer(CLUSTER))
    before = document(service, "namespaces/shop/podexplanations/huge?all=true")["perNode"]
    for name in ("big", "web", "waits"):
        document(service, f"namespaces/shop/podexplanations/{name}")
    again = local(ApiServer(CLUSTER))
    document(again, "namespaces/shop/podexplanations/big")
    assert document(again, "namespaces/shop/podexplanations/huge?all=true")["perNode"] == before


@pytest.mark.parametrize(
    ("path", "pods"),
    [
        ("pendingpods", ["ml/elsewhere", "shop/huge", "shop/waits"]),
        ("namespaces/shop/pendingpods", ["shop/huge", "shop/waits"]),
    ],
)
def test_pending_pods(local: Open, path: str, pods: list[str]) -> None:
    found = document(local(ApiServer(CLUSTER)), path)
    assert sorted(f"{p['namespace']}/{p['pod']}" for p in found["pods"]) == pods
    assert {p["reason"] for p in found["pods"]} == {
        "nodes have too little cpu; others have the untolerated taint dedicated=gpu:NoSchedule",
        "fits now; default-scheduler has not placed it yet",
    }


def test_a_node_is_explained_by_its_pods_and_the_waiting_ones(local: Open) -> None:
    found = document(local(ApiServer(CLUSTER)), "nodehistories/worker-1")
    assert {row["pod"] for row in found["recent"]} == {"big", "waits", "huge", "elsewhere"}
    assert found["source"] == "evaluated"
    assert found["headline"].startswith("Evaluated for 4 pods: feasible for ")


def test_two_pods_and_two_nodes_are_compared(local: Open) -> None:
    service = local(ApiServer(CLUSTER))
    assert document(service, "namespaces/shop/podcomparisons/waits?with=huge")["kind"] == "PodComparison"
    found = document(service, "namespaces/shop/nodecomparisons/huge?a=worker-1&b=worker-2")
    assert found["kind"] == "NodeComparison"


def test_a_review_places_pods_that_do_not_exist(local: Open) -> None:
    template = {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}}
    spec = {"replicas": 3, "selector": {}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "new"}, "spec": spec}
    review = {"kind": "PlacementReview", "spec": {"object": deployment}}
    answer = local(ApiServer(CLUSTER)).post(f"{API}/namespaces/shop/placementreviews", review)
    assert answer.code == 201, answer.document
    assert answer.document["status"]["fits"] == 2  # on worker-2, which has 7 of 8 CPU free
    assert answer.document["spec"]["schedulerName"] == "default-scheduler"


def test_an_invalid_review_is_refused_as_the_service_does(local: Open) -> None:
    review = {"kind": "PlacementReview", "spec": {"object": {"kind": "Pod", "metadata": {"name": "x"}}}}
    assert local(ApiServer(CLUSTER)).post(f"{API}/namespaces/shop/placementreviews", review).code == 422


def owned(name: str, owner: str, **more: Any) -> Json:
    """Return a pod with a controller, given as KIND/NAME."""
    made = pod(name, **more)
    kind, _, of = owner.partition("/")
    return made | {"metadata": made["metadata"] | {"ownerReferences": [{"kind": kind, "name": of, "controller": True}]}}


def test_a_workload_has_the_pods_that_exist_and_why_others_wait(local: Open) -> None:
    pods = [
        owned("api-6b8f9-a", "ReplicaSet/api-6b8f9", on="worker-1"),
        owned("api-6b8f9-b", "ReplicaSet/api-6b8f9", cpu="20"),
        owned("api-0", "StatefulSet/api", on="worker-2"),
    ]
    leaves = owned("api-6b8f9-c", "ReplicaSet/api-6b8f9", on="worker-2")
    leaves["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"  # its ReplicaSet counts it no more
    pods.append(leaves)
    service = local(ApiServer([*CLUSTER, *pods]))
    found = document(service, "namespaces/shop/workloadplacements/deployment.api")
    assert (found["source"], found["metadata"]["name"]) == ("evaluated", "Deployment/api")
    assert found["headline"] == "1 pod is on 1 of 3 nodes. 1 pod waits for a node."
    assert [(node["node"], node["decidedBy"]) for node in found["nodes"]] == [("worker-1", {})]
    assert [each["pod"] for each in found["pending"]] == ["api-6b8f9-b"]
    assert "Insufficient cpu" in found["pending"][0]["message"]
    with pytest.raises(NoObjectError, match='no pod of deployment "none" found'):
        service.get(f"{API}/namespaces/shop/workloadplacements/deployment.none")


@pytest.mark.parametrize(
    "path",
    ["namespaces/shop/podhistories/web", "balances", "namespaces/shop/podexplanations/web?attempt=2", "agreements"],
)
def test_a_question_about_the_past_is_refused(local: Open, path: str) -> None:
    with pytest.raises(HistoryNeededError):
        local(ApiServer(CLUSTER)).get(f"{API}/{path}")


def test_an_unknown_pod_is_named_with_similar_ones(local: Open) -> None:
    with pytest.raises(NoObjectError, match='pods "wait" not found') as e:
        local(ApiServer(CLUSTER)).get(f"{API}/namespaces/shop/podexplanations/wait")
    assert e.value.similar == ("waits",)


def test_a_gated_pod_has_no_decision(local: Open) -> None:
    answer = local(ApiServer(CLUSTER)).get(f"{API}/namespaces/shop/podexplanations/gated")
    assert (answer.code, answer.document["message"]) == (404, 'no decision for pod "gated" in namespace "shop"')


def test_lists_are_read_in_pages(local: Open) -> None:
    api = ApiServer(CLUSTER, page=2)
    found = document(local(api), "namespaces/shop/podexplanations/huge")
    assert found["nodes"]["total"] == 3
    assert any("continue=2" in path for path in api.requests)


def test_a_pod_with_volumes_needs_their_kinds_and_others_do_not(local: Open) -> None:
    api = ApiServer(CLUSTER)
    document(local(api), "namespaces/shop/podexplanations/huge")
    assert not any("persistentvolumes" in path for path in api.requests)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    api = ApiServer([*CLUSTER, pod("stateful", volumes=[volume])])
    found = document(local(api), "namespaces/shop/podexplanations/stateful")
    assert any("persistentvolumes" in path for path in api.requests)
    assert 'persistentvolumeclaim "data" not found' in found["message"]


# --- rights


def test_unreadable_storage_is_unknown_and_not_absent(local: Open, notes: list[str]) -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    api = ApiServer(
        [*CLUSTER, pod("stateful", volumes=[volume])], forbidden=["persistentvolumeclaims", "persistentvolumes"]
    )
    found = document(local(api), "namespaces/shop/podexplanations/stateful")
    assert found["message"] == "may fit (whether its volumes fit is unknown); default-scheduler has not placed it yet"
    assert notes == [
        "persistentvolumeclaims, persistentvolumes cannot be read: whether volumes fit is not evaluated"
        " (VolumeBinding, VolumeZone, NodeVolumeLimits)"
    ]


UNREAD_IN_NAMESPACE = ["pods", "namespaces", "services", "replicasets", "poddisruptionbudgets", "podgroups"]


def test_where_only_one_namespace_may_be_read_the_headline_says_so(local: Open, notes: list[str]) -> None:
    api = ApiServer([*CLUSTER, pod("theirs", cpu="7", on="worker-2", namespace="ml")], forbidden=UNREAD_IN_NAMESPACE)
    service = local(api)
    found = document(service, "namespaces/shop/podexplanations/waits")
    assert found["outcome"]["node"] == "worker-2"  # which is full, but the user may not know
    assert found["headline"].startswith(
        "The pod may fit: pods of other namespaces were not read; default-scheduler has not placed it yet. It would go"
        " to worker-2: "
    )
    huge = document(service, "namespaces/shop/podexplanations/huge")
    assert huge["headline"].endswith("But pods of other namespaces were not read, so nodes may have less free.")
    assert [each["checked"] for each in huge["suggestions"]] == [False] * len(huge["suggestions"])
    assert notes == []  # nothing else that was not read concerns these pods


def test_objects_of_the_one_readable_namespace_count(local: Open, notes: list[str]) -> None:
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"}, "spec": {}}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    forbidden = ["pods", "persistentvolumeclaims", "namespaces", "resourceclaims"]
    selects = {"topologyKey": "zone", "namespaceSelector": {}, "labelSelector": {}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selects]}}
    mine = pod(
        "mine", volumes=[volume], affinity=affinity, resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]
    )
    api = ApiServer([*CLUSTER, claim, mine], forbidden=forbidden)
    document(local(api), "namespaces/shop/podexplanations/mine")
    assert any(path.startswith("/api/v1/namespaces/shop/persistentvolumeclaims") for path in api.requests)
    assert len(notes) == 2  # at most, and none about the claims of volumes, which were read
    assert not any("persistentvolumeclaims" in note for note in notes)


def test_without_the_right_to_nodes_pending_pods_have_the_reason_of_their_condition(
    local: Open, notes: list[str]
) -> None:
    tried, untried = pod("tried"), pod("untried", namespace="ml")
    tried["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/2 nodes are available: 2 Insufficient cpu.",
        }
    ]
    service = local(ApiServer([node("worker-1"), tried, untried, pod("runs", on="worker-1")], forbidden=["nodes"]))
    found = document(service, "pendingpods")
    assert [(p["pod"], p["reason"], p["attempt"], p["id"]) for p in found["pods"]] == [
        ("untried", "no scheduler has tried it: it has no condition PodScheduled", 0, None),
        ("tried", "Insufficient cpu", 0, None),
    ]
    assert [p["startedAt"] for p in found["pods"]] == [None, None]  # a condition has no time of an attempt
    assert found["source"] == "conditions"
    assert notes == ["you may not list nodes: nothing is evaluated; the reasons are those of the pods' conditions"]
    with pytest.raises(ReadError, match="nodes is forbidden"):
        service.get(f"{API}/namespaces/shop/podexplanations/tried")


# --- clusters without nodes, and nodes that are gone


def test_a_cluster_without_nodes_has_answers(local: Open) -> None:
    service = local(ApiServer([pod("waits")]))
    assert document(service, "pendingpods")["pods"][0]["reason"] == "no nodes available to schedule pods"
    question = {"spec": {"capacity": {"object": pod("new")}}}
    status = service.post(f"{API}/clusterreviews", question).document["status"]
    assert status["headline"] == "0 more pods fit. The next one fits nowhere (no nodes available to schedule pods)."
    groups = service.post(f"{API}/clusterreviews", {"spec": {"nodeGroups": {}}}).document["status"]
    assert groups["headline"] == "No node group is known in this cluster."


def test_a_node_that_is_gone_is_not_found_with_the_pods_that_name_it(local: Open) -> None:
    service = local(ApiServer([*CLUSTER, pod("lost", on="worker-9"), pod("lost", on="worker-9", namespace="ml")]))
    with pytest.raises(NoObjectError, match='nodes "worker-9" not found; pods that name it: shop/lost, ml/lost'):
        service.get(f"{API}/nodehistories/worker-9")
    with pytest.raises(NoObjectError, match='pods "lost" is on node worker-9, which does not exist'):
        service.get(f"{API}/namespaces/shop/podexplanations/lost")
    with pytest.raises(NoObjectError, match='nodes "worker-9" not found'):
        service.get(f"{API}/namespaces/shop/podexplanations/waits?node=worker-9")
    assert "lost" not in [p["pod"] for p in document(service, "pendingpods")["pods"]]


def test_an_invalid_quantity_is_named(local: Open) -> None:
    with pytest.raises(UnusableInputError, match="Pod shop/odd"):
        local(ApiServer([*CLUSTER, pod("odd", cpu="many")])).get(f"{API}/pendingpods")


# --- configuration


def scheduler_pod(*flags: str, volume: Json | None = None) -> Json:
    container: Json = {"name": "kube-scheduler", "command": ["kube-scheduler", *flags]}
    spec: Json = {"containers": [container]}
    if volume is not None:
        container["volumeMounts"] = [{"name": "config", "mountPath": "/etc/scheduler"}]
        spec["volumes"] = [{"name": "config", **volume}]
    metadata = {"name": "kube-scheduler-a", "namespace": "kube-system", "labels": {"component": "kube-scheduler"}}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {}}


WRITTEN = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: packs}]
"""
CONFIG_MAP = {
    "kind": "ConfigMap",
    "metadata": {"name": "scheduler", "namespace": "kube-system"},
    "data": {"config.yaml": WRITTEN},
}


def names(configuration: Configuration) -> list[str]:
    return [profile.scheduler_name for profile in configuration.profiles]


def test_the_configuration_of_kube_scheduler_is_read_from_its_config_map() -> None:
    mounted = scheduler_pod("--config=/etc/scheduler/config.yaml", volume={"configMap": {"name": "scheduler"}})
    found = find_configuration(ApiServer([mounted, CONFIG_MAP]).fetch)
    assert names(found.configuration) == ["packs"]
    assert found.origin == "its configuration"


@pytest.mark.parametrize(
    ("objects", "header", "notes"),
    [
        ([], "default profile assumed", ()),
        ([scheduler_pod()], "its default profile", ()),
        (
            [scheduler_pod("--config", "/etc/x", volume={"hostPath": {}})],
            "default profile assumed",
            ("note: kube-scheduler's --config /etc/x cannot be read from here; name a copy: --config",),
        ),
    ],
)
def test_the_origin_of_the_configuration_is_stated(objects: list[Json], header: str, notes: tuple[str, ...]) -> None:
    found = find_configuration(ApiServer(objects).fetch)
    assert (names(found.configuration), found.notes) == (["default-scheduler"], notes)
    assert found.header == f"evaluated now with kube-scheduler v1.36.2 rules; {header}"


def test_the_header_is_one_line_of_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / ("long" * 10 + ".yaml")
    file.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    found = find_configuration(ApiServer([]).fetch, file=str(file), version="1.34")
    assert found.header.endswith("longlong.yaml")
    assert len(found.header) <= 80


def test_the_feature_gates_of_kube_scheduler_apply() -> None:
    flags = "--feature-gates=TaintTolerationComparisonOperators=true,GracefulNodeShutdown=false"
    found = find_configuration(ApiServer([scheduler_pod(flags)]).fetch)
    assert found.configuration.feature_gates == {"TaintTolerationComparisonOperators": True}
    assert found.notes == ()


def test_feature_gates_that_are_not_built_are_stated() -> None:
    found = find_configuration(ApiServer([scheduler_pod("--feature-gates", "DRAListTypeAttributes=true")]).fetch)
    assert found.configuration.feature_gates == {}
    assert found.notes == (
        "note: kube-scheduler's feature gates do not apply (cannot set feature gate DRAListTypeAttributes to true,"
        " only false is built here)",
    )


def kube_scheduler(image: str, *flags: str) -> Json:
    pod = scheduler_pod(*flags)
    pod["spec"]["containers"][0]["image"] = image
    return pod


CANDIDATE = {
    "kind": "LeaseCandidate",
    "metadata": {"name": "a", "namespace": "kube-system"},
    "spec": {"leaseName": "kube-scheduler", "binaryVersion": "1.34.2", "emulationVersion": "1.33.0"},
}


@pytest.mark.parametrize(
    ("objects", "server", "rules"),
    [
        ([kube_scheduler("registry.k8s.io/kube-scheduler:v1.34.2")], "v1.35.0", "v1.34.2 rules (its image)"),
        (
            [kube_scheduler("registry.k8s.io/kube-scheduler:v1.36.2", "--emulated-version=kube=1.34")],
            "v1.36.2",
            "v1.36.2 emulating v1.34 rules (its image)",
        ),
        ([CANDIDATE], "v1.35.0", "v1.34.2 emulating v1.33 rules (its LeaseCandidate)"),
        ([], "v1.33.5-gke.1308000", "v1.33.5 rules (the API server's version)"),
    ],
    ids=["image", "emulating", "lease-candidate", "api-server"],
)
def test_the_rules_are_those_of_the_cluster(objects: list[Json], server: str, rules: str) -> None:
    api = ApiServer(objects)
    api.version = {"gitVersion": server}
    assert find_configuration(api.fetch).rules == rules


def test_a_version_that_the_user_names_replaces_the_clusters() -> None:
    api = ApiServer([kube_scheduler("registry.k8s.io/kube-scheduler:v1.34.2")])
    found = find_configuration(api.fetch, version="1.32")
    assert found.rules == "v1.32.13 rules (--kubernetes-version)"
    assert (found.configuration.kubernetes_version, found.configuration.version_source) == ("v1.32.13", "flag")


def test_rules_that_are_not_known_are_stated() -> None:
    api = ApiServer([])
    api.version = {"gitVersion": "v1.29.4"}
    found = find_configuration(api.fetch)
    assert found.rules == "v1.31.0 rules (the API server's version)"
    assert found.notes == (
        "note: the rules of v1.29.4 are not known (known: v1.31 to v1.37); those of v1.31.0 apply, so answers may"
        " differ from the cluster's",
    )
