"""Which node groups a cluster has, and what is known of their nodes, by each source."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.cluster_questions import NodeGroupShape
from herodotus_answers.node_groups import NodeGroup
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
)
from tests.scheduler.engine.whatif.clusters import a_node, a_pod

Json = dict[str, Any]
FULL = {"cpu": "8", "memory": "32Gi", "max-size": "3", "min-size": "0"}
OWNED_BY_SET = {"cluster.x-k8s.io/owner-kind": "MachineSet", "cluster.x-k8s.io/owner-name": "md-0-abc"}


def groups(objects: list[Json], **question: Any) -> dict[str, NodeGroup]:
    return {group["name"]: group for group in ask(objects, **question)["groups"]}


@pytest.mark.parametrize(
    "key",
    [
        "cloud.google.com/gke-nodepool",
        "eks.amazonaws.com/nodegroup",
        "alpha.eksctl.io/nodegroup-name",
        "kubernetes.azure.com/agentpool",
        "agentpool",
        "karpenter.sh/nodepool",
        "kops.k8s.io/instancegroup",
    ],
)
def test_nodes_are_grouped_by_well_known_labels(key: str) -> None:
    found = ask([grouped("n0", "pool", key=key), grouped("n1", "pool", key=key), a_node("n2")])
    (group,) = found["groups"]
    assert (group["name"], group["source"], group["nodes"], group["size"], group["shape"]) == (
        "pool",
        f"label {key}",
        2,
        2,
        "Known",
    )
    assert found["ungrouped"] == 1


def test_a_label_key_of_the_question_comes_first() -> None:
    nodes = [grouped("n0", "eks", labels={"example.com/pool": "mine"}), grouped("n1", "eks")]
    found = groups(nodes, label_keys=["example.com/pool"])
    assert {name: group["source"] for name, group in found.items()} == {
        "mine": "label example.com/pool",
        "eks": f"label {EKS}",
    }


def test_zones_and_instance_types_are_templates_of_their_own() -> None:
    kind = "node.kubernetes.io/instance-type"
    nodes = [
        grouped("n0", "pool", zone="a", labels={kind: "m"}),
        grouped("n1", "pool", zone="b", labels={kind: "m"}),
        grouped("n2", "pool", zone="b", labels={kind: "l"}, cpu="8"),
    ]
    (group,) = ask(nodes)["groups"]
    assert [(t["zone"], t["instanceType"], t["allocatable"]["cpu"]) for t in group["templates"]] == [
        ("a", "m", "4000m"),
        ("b", "l", "8000m"),
        ("b", "m", "4000m"),
    ]


def test_a_template_has_what_most_nodes_have() -> None:
    gpu, hot = {"key": "gpu", "value": "", "effect": "NoSchedule"}, {"key": "hot", "effect": "NoExecute"}
    going = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}
    down = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    nodes = [
        grouped("n0", "pool", labels={"rack": "1", "disk": "ssd"}, taints=[gpu, hot, going, down]),
        grouped("n1", "pool", labels={"rack": "2", "disk": "ssd"}, taints=[gpu, down], cpu="3900m"),
        grouped("n2", "pool", labels={"rack": "3"}, taints=[gpu, down], allocatable={"memory": "7Gi"}),
    ]
    (template,) = ask(nodes)["groups"][0]["templates"]
    assert template["taints"] == ["gpu:NoSchedule"]
    assert {key: value for key, value in template["labels"].items() if key in ("rack", "disk")} == {"disk": "ssd"}
    assert (template["allocatable"]["cpu"], template["allocatable"]["memory"]) == ("3900m", str(7 << 30))
    assert template["labels"]["kubernetes.io/hostname"] not in ("n0", "n1", "n2")


def test_one_node_without_its_devices_does_not_count_for_the_group() -> None:
    nodes = [grouped(f"n{i}", "gpu", allocatable={"nvidia.com/gpu": "4"} if i else {}) for i in range(3)]
    assert ask(nodes)["groups"][0]["templates"][0]["allocatable"]["nvidia.com/gpu"] == "4"


def test_an_empty_machine_deployment_has_the_shape_of_its_annotations() -> None:
    annotations = FULL | {
        "gpu-count": "2",
        "gpu-type": "nvidia.com/gpu",
        "maxPods": "30",
        "ephemeral-disk": "100Gi",
        "labels": "disk=ssd,team=ml",
        "taints": "dedicated=ml:NoSchedule",
        "csi-driver": "ebs.csi.aws.com=25",
    }
    labels = {"node-role.kubernetes.io/ml": "", "node.cluster.x-k8s.io/pool": "p", "not-for-nodes": "x"}
    md = machine_deployment("md-0", annotations=annotations, labels=labels, zone="a")
    (group,) = ask([a_node("n0"), md])["groups"]
    assert (group["name"], group["source"]) == ("md-0", "MachineDeployment capi/md-0")
    assert (group["nodes"], group["size"], group["minSize"], group["maxSize"]) == (0, 0, 0, 3)
    (template,) = group["templates"]
    assert (template["zone"], template["source"], template["taints"]) == (
        "a",
        "Annotations",
        ["dedicated=ml:NoSchedule"],
    )
    assert template["allocatable"] == {
        "cpu": "8",
        "memory": "32Gi",
        "pods": "30",
        "ephemeral-storage": "100Gi",
        "nvidia.com/gpu": "2",
    }
    assert template["volumeLimits"] == {"ebs.csi.aws.com": 25}
    assert {"disk", "team", "node-role.kubernetes.io/ml", "node.cluster.x-k8s.io/pool", ZONE} <= template[
        "labels"
    ].keys()
    assert "not-for-nodes" not in template["labels"]


def test_a_machine_set_below_a_deployment_is_no_group_and_its_nodes_are_the_deployments() -> None:
    owner = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineDeployment", "name": "md-0", "controller": True}
    md = machine_deployment("md-0", 1, annotations=FULL)
    machine_set = machine_deployment("md-0-abc", 1, "MachineSet", owners=[owner])
    alone = machine_deployment("alone", 0, "MachineSet", annotations=FULL)
    node = a_node("n0")
    node["metadata"]["annotations"] = OWNED_BY_SET
    found = groups([node, md, machine_set, alone])
    assert {name: (group["source"], group["nodes"]) for name, group in found.items()} == {
        "md-0": ("MachineDeployment capi/md-0", 1),
        "alone": ("MachineSet capi/alone", 0),
    }
    assert [template["source"] for template in found["md-0"]["templates"]] == ["Nodes"]


def test_without_annotations_of_cpu_and_memory_the_shape_is_unknown() -> None:
    (group,) = ask([a_node("n0"), machine_deployment("md-0", annotations={"cpu": "8"})])["groups"]
    assert (group["shape"], group["templates"]) == ("Unknown", [])


def test_an_invalid_annotation_is_named_and_the_group_stays() -> None:
    bad = machine_deployment("md-0", annotations=FULL | {"taints": "nonsense"})
    review = ask([a_node("n0"), bad])
    assert [group["name"] for group in review["groups"]] == ["md-0"]


def test_a_node_pool_has_limits_weight_budgets_and_conditions() -> None:
    pool = node_pool(
        "spot",
        isin(ZONE, "a", "b"),
        limits={"cpu": "100", "memory": "1Ti"},
        weight=7,
        startupTaints=[{"key": "cilium", "effect": "NoExecute"}],
        disruption={"budgets": [{"nodes": "0", "reasons": ["Drifted"]}]},
        status={
            "resources": {"cpu": "36", "memory": "100Gi", "pods": "50"},
            "conditions": [{"type": "Ready", "status": "False", "reason": "NodeClassNotReady", "message": "no class"}],
        },
    )
    failed = {"type": "Launched", "status": "False", "reason": "InsufficientCapacity", "message": "none left"}
    claim = node_claim("spot-1", "spot", {}, {}, conditions=[failed, {"type": "Drifted", "status": "False"}])
    (group,) = ask([a_node("n0"), pool, claim])["groups"]
    assert (group["source"], group["shape"], group["weight"], group["templates"]) == ("NodePool", "PartlyKnown", 7, [])
    assert (group["limits"], group["used"]) == ({"cpu": "100", "memory": "1Ti"}, {"cpu": "36", "memory": "100Gi"})
    assert group["startupTaints"] == ["cilium:NoExecute"]
    assert group["disruptionBudgets"] == ["0 nodes for Drifted"]
    assert [(c["object"], c["type"], c["reason"]) for c in group["conditions"]] == [
        ("NodePool/spot", "Ready", "NodeClassNotReady"),
        ("NodeClaim/spot-1", "Launched", "InsufficientCapacity"),
    ]


def test_a_node_claim_without_a_node_gives_a_shape_and_one_with_a_node_does_not_count_twice() -> None:
    kind = {"node.kubernetes.io/instance-type": "xl", ZONE: "a"}
    claims = [
        node_claim("c0", "spot", kind, {"cpu": "16", "memory": "64Gi", "pods": "58"}),
        node_claim("c1", "spot", kind | {ZONE: "b"}, {"cpu": "16", "memory": "64Gi", "pods": "58"}, nodeName="n0"),
    ]
    node = grouped("n0", "spot", key=POOL, zone="b", labels={"node.kubernetes.io/instance-type": "xl"}, cpu="15900m")
    (group,) = ask([node, node_pool("spot"), *claims])["groups"]
    assert [(t["zone"], t["source"], t["allocatable"]["cpu"]) for t in group["templates"]] == [
        ("b", "Nodes", "15900m"),
        ("a", "NodeClaims", "16"),
    ]


def test_startup_taints_of_a_node_pool_are_not_in_the_template() -> None:
    starts, stays = {"key": "cilium", "effect": "NoExecute"}, {"key": "spot", "effect": "NoSchedule"}
    node = grouped("n0", "spot", key=POOL, taints=[starts, stays])
    (group,) = ask([node, node_pool("spot", startupTaints=[starts])])["groups"]
    assert group["templates"][0]["taints"] == ["spot:NoSchedule"]


def test_a_file_adds_groups_and_what_the_cluster_does_not_say() -> None:
    shapes = [
        NodeGroupShape(name="eks", max_size=5, allocatable={"cpu": "64"}),
        NodeGroupShape(
            name="gpu",
            zones=["a", "b"],
            labels={"team": "ml"},
            taints=["gpu=yes:NoSchedule"],
            allocatable={"cpu": "32", "memory": "128Gi", "pods": 110, "nvidia.com/gpu": 8},
            volume_limits={"pd.csi.storage.gke.io": 15},
        ),
        NodeGroupShape(name="metal", selector={"metal": "yes"}, max_size=9),
    ]
    found = groups([grouped("n0", "eks"), grouped("n1", "eks", labels={"metal": "yes"})], shapes=shapes)
    assert (found["eks"]["nodes"], found["eks"]["maxSize"], found["eks"]["templates"][0]["allocatable"]["cpu"]) == (
        1,
        5,
        "4000m",
    )
    assert [(t["zone"], t["source"], t["taints"]) for t in found["gpu"]["templates"]] == [
        ("a", "File", ["gpu=yes:NoSchedule"]),
        ("b", "File", ["gpu=yes:NoSchedule"]),
    ]
    assert found["gpu"]["templates"][0]["volumeLimits"] == {"pd.csi.storage.gke.io": 15}
    assert (found["metal"]["nodes"], found["metal"]["maxSize"], found["metal"]["source"]) == (1, 9, "file")


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"taints": ["gpu"]}, "node group x: 'gpu': expected KEY[=VALUE]:EFFECT"),
        ({"allocatable": {"cpu": "much"}}, "node group x:"),
    ],
)
def test_an_invalid_shape_is_an_error(shape: Json, message: str) -> None:
    with pytest.raises(ClusterReviewError) as raised:
        ask([a_node("n0")], shapes=[NodeGroupShape(name="x", **shape)])
    assert str(raised.value).startswith(f"nodeGroups: {message}")


def test_two_groups_of_one_name_are_told_apart() -> None:
    found = groups([grouped("n0", "default"), node_pool("default")])
    assert sorted(found) == ["default", f"label {EKS}/default"]


def test_daemon_sets_that_select_the_node_and_static_pods_are_its_overhead() -> None:
    tolerant = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
    objects = [
        grouped("n0", "gpu", taints=[{"key": "gpu", "effect": "NoSchedule"}]),
        grouped("n1", "plain"),
        a_pod("kube-proxy-n0", "n0", "Node/n0", cpu="100m"),
        daemon_set("everywhere", "200m", tolerations=[{"operator": "Exists"}]),
        daemon_set("gpu-only", "300m", nodeSelector={EKS: "gpu"}, **tolerant),
        daemon_set("intolerant", "400m"),
        daemon_set("elsewhere", "500m", nodeSelector={"no": "node"}),
    ]
    found = groups(objects)
    assert [
        (found[name]["templates"][0]["daemonPods"], found[name]["templates"][0]["daemonRequests"]) for name in found
    ] == [
        (3, {"cpu": "600m"}),
        (2, {"cpu": "600m"}),
    ]


def test_daemon_sets_are_known_by_their_pods_if_they_were_not_read() -> None:
    pinned = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]},
                ]
            }
        }
    }
    daemon = a_pod("agent-n0", "n0", "DaemonSet/agent", cpu="250m", affinity=pinned)
    md = machine_deployment("md-0", annotations=FULL)
    found = groups([grouped("n0", "pool"), daemon, md])
    assert {name: g["templates"][0]["daemonRequests"] for name, g in found.items()} == {
        "md-0": {"cpu": "250m"},
        "pool": {"cpu": "250m"},
    }
