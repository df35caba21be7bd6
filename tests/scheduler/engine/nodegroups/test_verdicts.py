"""Whether a pod fits on a new node of a group, what rejects it, and what would help."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.node_groups import NodeGroupVerdict
from scheduler.engine.whatif.changes import ClusterReviewError
from tests.scheduler.engine.nodegroups.objects import (
    EKS,
    POOL,
    ZONE,
    ask,
    daemon_set,
    grouped,
    isin,
    machine_deployment,
    node_claim,
    node_pool,
    verdicts,
    waiting,
)
from tests.scheduler.engine.whatif.clusters import a_node, a_pod, a_state

Json = dict[str, Any]
HOST = "kubernetes.io/hostname"
TYPE = "node.kubernetes.io/instance-type"
FULL = {"cpu": "8", "memory": "32Gi", "max-size": "3"}
BUSY = [grouped("n0", "small"), a_pod("web-0", "n0", cpu="4")]


def rejections(verdict: NodeGroupVerdict) -> list[tuple[str, list[str]]]:
    return [(rejection["plugin"], rejection["reasons"]) for rejection in verdict["rejections"]]


def test_an_empty_node_of_a_full_group_takes_the_pod() -> None:
    (verdict,) = verdicts(BUSY, waiting("3")).values()
    assert (verdict["verdict"], verdict["zones"], verdict["rejections"]) == ("Fits", ["a"], [])


def test_every_rejecting_filter_is_named_with_the_smallest_change() -> None:
    tainted = grouped("n1", "gpu", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    found = verdicts([*BUSY, tainted], waiting("6", nodeSelector={"disk": "ssd"}))
    assert found["gpu"]["verdict"] == "DoesNotFit"
    assert rejections(found["gpu"]) == [
        ("TaintToleration", ["node(s) had untolerated taint(s)"]),
        ("NodeAffinity", ["node(s) didn't match Pod's node affinity/selector"]),
        ("NodeResourcesFit", ["Insufficient cpu"]),
    ]
    assert found["gpu"]["change"] == (
        "tolerate the taint gpu:NoSchedule and remove disk=ssd from the node selector"
        " and lower the cpu request of container main from 6 to 4"
    )


def test_daemon_sets_take_room_on_the_new_node() -> None:
    objects = [grouped("n0", "pool"), daemon_set("agent", "500m"), a_pod("web-0", "n0", cpu="4")]
    (verdict,) = verdicts(objects, waiting("3600m")).values()
    assert rejections(verdict) == [("NodeResourcesFit", ["Insufficient cpu"])]
    assert verdict["change"] == "lower the cpu request of container main from 3600m to 3500m"
    assert verdicts(objects, waiting("3500m"))["pool"]["verdict"] == "Fits"


def test_daemon_sets_take_pods_and_host_ports_on_the_new_node() -> None:
    ports = [{"containerPort": 9100, "hostPort": 9100}]
    objects = [grouped("n0", "pool", allocatable={"pods": "1"}), daemon_set("exporter", "1m", ports=ports)]
    container = {"name": "main", "ports": ports, "resources": {"requests": {"cpu": "1"}}}
    (verdict,) = verdicts(objects, waiting(containers=[container])).values()
    assert rejections(verdict) == [
        ("NodePorts", ["node(s) didn't have free ports for the requested pod ports"]),
        ("NodeResourcesFit", ["Too many pods"]),
    ]


@pytest.mark.parametrize(
    ("group", "limit"),
    [
        (machine_deployment("g", 3, annotations=FULL), "size 3 of at most 3"),
        (node_pool("g", limits={"cpu": "20"}, status={"resources": {"cpu": "16"}}), "cpu: 16 of at most 20"),
        (node_pool("g", limits={"nodes": "0"}), "nodes: 0 of at most 0"),
        (node_pool("g", replicas=2), "a static NodePool with 2 replicas"),
    ],
)
def test_a_group_at_its_limit_is_named_so(group: Json, limit: str) -> None:
    claim = node_claim("c", "g", {TYPE: "l", ZONE: "a"}, {"cpu": "8", "memory": "32Gi", "pods": "110"})
    found = verdicts([a_node("n0", cpu="1"), group, claim], waiting("5"))["g"]
    assert (found["verdict"], found["atLimit"]) == ("FitsAtLimit", limit)
    assert verdicts([a_node("n0", cpu="1"), group, claim], waiting("50"))["g"]["verdict"] != "FitsAtLimit"


def test_a_size_that_the_status_of_cluster_autoscaler_reports_is_a_limit() -> None:
    status = "clusterWide: {}\nnodeGroups:\n- name: small\n  health: {status: Healthy, minSize: 1, maxSize: 1}\n"
    config_map = {"kind": "ConfigMap", "metadata": {"name": "cluster-autoscaler-status", "namespace": "kube-system"}}
    found = verdicts([*BUSY, config_map | {"data": {"status": status}}], waiting("3"))
    assert (found["small"]["verdict"], found["small"]["atLimit"]) == ("FitsAtLimit", "size 1 of at most 1")


def test_a_volume_of_one_zone_fits_only_the_groups_of_that_zone() -> None:
    term = {"matchExpressions": [isin(ZONE, "b")]}
    volume: Json = {
        "kind": "PersistentVolume",
        "metadata": {"name": "pv"},
        "spec": {
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            "claimRef": {"namespace": "shop", "name": "data", "uid": "u"},
            "capacity": {"storage": "1Gi"},
        },
        "status": {"phase": "Bound"},
    }
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data",
            "namespace": "shop",
            "uid": "u",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {"volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound"},
    }
    nodes = [grouped("n0", "only-a", zone="a"), grouped("n1", "both", zone="a"), grouped("n2", "both", zone="b")]
    pools = [node_pool("pool-a", isin(ZONE, "a")), node_pool("anywhere")]
    pod = waiting("3", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    found = verdicts([*nodes, *pools, volume, claim], pod)
    assert (found["both"]["verdict"], found["both"]["zones"]) == ("Fits", ["b"])
    message = ["node(s) didn't match PersistentVolume's node affinity"]
    for name in ("only-a", "pool-a"):
        assert (found[name]["verdict"], rejections(found[name])) == ("DoesNotFit", [("VolumeBinding", message)])
    assert found["anywhere"]["verdict"] == "ShapeUnknown"


def spread(minimum: int | None = None, key: str = ZONE) -> Json:
    constraint: Json = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    constraint["labelSelector"] = {"matchLabels": {"app": "db"}}
    return constraint | ({"minDomains": minimum} if minimum else {})


def test_each_template_is_spread_over_as_if_it_were_the_only_new_node() -> None:
    """A node in zone c would be a third domain; it must not count for the nodes of other groups."""
    nodes = [grouped("n0", "a", zone="a"), grouped("n1", "b", zone="b"), a_pod("x", "n0", labels={"app": "db"})]
    md = machine_deployment("c", annotations=FULL, zone="c")
    pod = waiting("3", labels={"app": "db"}, topologySpreadConstraints=[spread(3)])
    found = verdicts([*nodes, md], pod)
    assert {name: verdict["verdict"] for name, verdict in found.items()} == {
        "a": "DoesNotFit",
        "b": "Fits",
        "c": "Fits",
    }
    assert rejections(found["a"]) == [("PodTopologySpread", ["node(s) didn't match pod topology spread constraints"])]
    pod = waiting("3", labels={"app": "db"}, topologySpreadConstraints=[spread(key=HOST)])
    assert {v["verdict"] for v in verdicts([*nodes, a_pod("y", "n1", labels={"app": "db"}), md], pod).values()} == {
        "Fits"
    }


def test_anti_affinity_by_zone_and_by_host() -> None:
    nodes = [grouped("n0", "a", zone="a"), grouped("n1", "b", zone="b"), a_pod("x", "n0", labels={"app": "db"})]

    def away_from(key: str) -> Json:
        term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "db"}}}
        return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    found = verdicts(nodes, waiting("3", affinity=away_from(ZONE)))
    assert {name: verdict["verdict"] for name, verdict in found.items()} == {"a": "DoesNotFit", "b": "Fits"}
    assert rejections(found["a"]) == [("InterPodAffinity", ["node(s) didn't match pod anti-affinity rules"])]
    assert {v["verdict"] for v in verdicts(nodes, waiting("3", affinity=away_from(HOST))).values()} == {"Fits"}


def test_affinity_to_a_daemon_pod_is_met_by_the_one_on_the_new_node() -> None:
    nodes = [grouped("n0", "with", labels={"log": "yes"}), grouped("n1", "without")]
    agent = daemon_set("log", nodeSelector={"log": "yes"})
    term = {
        "topologyKey": HOST,
        "labelSelector": {"matchLabels": {"app": "log"}},
        "namespaces": ["kube-system"],
    }
    pod = waiting("1", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    found = verdicts([*nodes, agent], pod)
    assert {name: verdict["verdict"] for name, verdict in found.items()} == {"with": "Fits", "without": "DoesNotFit"}


@pytest.mark.parametrize(
    ("spec", "verdict", "plugins"),
    [
        ({}, "ShapeUnknown", []),
        ({"tolerations": []}, "DoesNotFit", ["TaintToleration"]),
        ({"nodeSelector": {ZONE: "b"}}, "ShapeUnknown", []),
        ({"nodeSelector": {ZONE: "c"}}, "DoesNotFit", ["NodeAffinity"]),
        ({"nodeSelector": {"kubernetes.io/arch": "arm64"}}, "DoesNotFit", ["NodeAffinity"]),
        ({"nodeSelector": {"kubernetes.io/arch": "amd64"}}, "ShapeUnknown", []),
        ({"nodeSelector": {TYPE: "any"}}, "ShapeUnknown", []),
        ({"nodeSelector": {"team": "ml"}}, "ShapeUnknown", []),
        ({"nodeSelector": {"team": "web"}}, "DoesNotFit", ["NodeAffinity"]),
        ({"nodeSelector": {"unknown": "label"}}, "DoesNotFit", ["NodeAffinity"]),
    ],
)
def test_of_an_empty_node_pool_taints_and_labels_alone_decide(spec: Json, verdict: str, plugins: list[str]) -> None:
    taint = {"key": "spot", "effect": "NoSchedule"}
    requirements = (isin(ZONE, "a", "b"), {"key": "kubernetes.io/arch", "operator": "NotIn", "values": ["arm64"]})
    pool = node_pool("spot", *requirements, taints=[taint], labels={"team": "ml"})
    tolerant = {"tolerations": [{"key": "spot", "operator": "Exists"}]}
    found = verdicts([a_node("n0", cpu="1"), pool], waiting("300", **(tolerant | spec)))["spot"]
    assert (found["verdict"], [rejection["plugin"] for rejection in found["rejections"]]) == (verdict, plugins)


def affinity(*requirements: Json) -> Json:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(requirements)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(
    ("requirement", "verdict"),
    [
        ({"key": "kubernetes.io/arch", "operator": "NotIn", "values": ["amd64"]}, "ShapeUnknown"),
        ({"key": "kubernetes.io/arch", "operator": "NotIn", "values": ["amd64", "arm64"]}, "DoesNotFit"),
        ({"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["4"]}, "ShapeUnknown"),
        ({"key": "example.com/none", "operator": "Exists"}, "DoesNotFit"),
        ({"key": "example.com/none", "operator": "DoesNotExist"}, "ShapeUnknown"),
    ],
)
def test_expressions_are_met_by_any_value_that_a_node_pool_allows(requirement: Json, verdict: str) -> None:
    pool = node_pool("pool", isin("kubernetes.io/arch", "amd64", "arm64"))
    found = verdicts([a_node("n0", cpu="1"), pool], waiting("300", affinity=affinity(requirement)))
    assert found["pool"]["verdict"] == verdict


def test_a_node_pool_that_may_have_larger_nodes_does_not_reject_by_the_nodes_it_has() -> None:
    small = {TYPE: "s", ZONE: "a"}
    node = grouped("n0", "spot", key=POOL, labels=small)
    (one,) = verdicts([node, node_pool("spot")], waiting("6")).values()
    assert (one["verdict"], rejections(one)) == ("ShapeUnknown", [("NodeResourcesFit", ["Insufficient cpu"])])
    assert one["unknown"] == "its requirements allow nodes that the NodePool has not had"
    (pinned,) = verdicts([node, node_pool("spot", isin(TYPE, "s"))], waiting("6")).values()
    assert pinned["verdict"] == "DoesNotFit"
    (fits,) = verdicts([node, node_pool("spot")], waiting("3")).values()
    assert fits["verdict"] == "Fits"


def test_a_group_of_which_nothing_is_known() -> None:
    (verdict,) = verdicts([a_node("n0"), machine_deployment("md")], waiting("9")).values()
    assert (verdict["verdict"], verdict["unknown"]) == ("ShapeUnknown", "the amounts of its nodes are not known")
    tainted = machine_deployment("md", annotations={"taints": "a=b:NoSchedule"})
    (verdict,) = verdicts([a_node("n0"), tainted], waiting("9")).values()
    assert (verdict["verdict"], verdict["rejections"][0]["plugin"]) == ("DoesNotFit", "TaintToleration")


def test_a_pod_that_does_not_exist_is_judged_by_its_manifest() -> None:
    review = ask(BUSY, object=waiting("3") | {"status": {}}, namespace="shop")
    assert [(pod["name"], pod["groups"][0]["verdict"]) for pod in review["pods"]] == [("waits", "Fits")]


def test_a_pod_with_a_node_is_an_error() -> None:
    with pytest.raises(ClusterReviewError, match='"shop/web-0" is not a pod without a node'):
        ask(BUSY, pods=["shop/web-0"])


def test_the_cluster_is_as_before_and_a_second_question_has_the_same_answer() -> None:
    csi = {"kind": "CSINode", "metadata": {"name": "n0"}, "spec": {"drivers": [{"name": "d", "nodeID": "n0"}]}}
    pod = waiting("3", labels={"app": "db"}, topologySpreadConstraints=[spread()])
    state = a_state([*BUSY, csi, daemon_set("agent"), pod])
    before = ([n and n.metadata.name for n in state.nodes.nodes if n], [dict(p) for p in state.nodes.pods if p])
    first = ask(state, pods=["shop/waits"], estimate=True)
    after = ([n and n.metadata.name for n in state.nodes.nodes if n], [dict(p) for p in state.nodes.pods if p])
    assert after == before
    assert [node for node in state.nodes.index if "-new-" in node] == []
    assert ask(state, pods=["shop/waits"], estimate=True) == first


def test_events_of_autoscalers_stand_beside_the_verdicts() -> None:
    def event(reason: str, component: str, at: str, name: str = "waits") -> Json:
        return {
            "kind": "Event",
            "metadata": {"name": f"{name}.{reason}.{component}", "namespace": "shop"},
            "involvedObject": {"kind": "Pod", "namespace": "shop", "name": name},
            "reason": reason,
            "message": f"{component} says {reason}",
            "count": 3,
            "lastTimestamp": at,
            "source": {"component": component},
        }

    events = [
        event("NotTriggerScaleUp", "cluster-autoscaler", "2026-01-01T00:01:00Z"),
        event("FailedScheduling", "default-scheduler", "2026-01-01T00:02:00Z"),
        event("FailedScheduling", "karpenter", "2026-01-01T00:03:00Z"),
        event("Nominated", "karpenter", "2026-01-01T00:04:00Z", name="other"),
    ]
    review = ask([*BUSY, *events, waiting("3")], pods=["shop/waits"])
    assert [(r["component"], r["reason"], r["count"]) for r in review["pods"][0]["reports"]] == [
        ("karpenter", "FailedScheduling", 3),
        ("cluster-autoscaler", "NotTriggerScaleUp", 3),
    ]


def test_volume_limits_of_the_group_hold_on_the_new_node() -> None:
    annotations = FULL | {"csi-driver": "csi.example=1", "labels": f"{EKS}=vols"}
    objects: list[Json] = [a_node("n0", cpu="1"), machine_deployment("vols", annotations=annotations)]
    for name in ("one", "two"):
        objects += [
            {
                "kind": "PersistentVolume",
                "metadata": {"name": name},
                "spec": {
                    "csi": {"driver": "csi.example", "volumeHandle": name},
                    "claimRef": {"namespace": "shop", "name": name, "uid": name},
                    "capacity": {"storage": "1Gi"},
                },
                "status": {"phase": "Bound"},
            },
            {
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": name,
                    "namespace": "shop",
                    "uid": name,
                    "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                },
                "spec": {"volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
                "status": {"phase": "Bound"},
            },
        ]
    volumes = [{"name": n, "persistentVolumeClaim": {"claimName": n}} for n in ("one", "two")]
    found = verdicts(objects, waiting("3", volumes=volumes))["vols"]
    assert rejections(found) == [("NodeVolumeLimits", ["node(s) exceed max volume count"])]
    assert verdicts(objects, waiting("3", volumes=volumes[:1]))["vols"]["verdict"] == "Fits"
