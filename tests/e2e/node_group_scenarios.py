"""The scenarios in which verdicts on node groups are compared with a real kube-scheduler.

Each has the objects of a cluster, a pod that fits on no present node, and the expected verdict of each group. Where a
group's shape is not known, `stand_in` has a node that the group may add.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.scheduler.engine.nodegroups.objects import (
    EKS,
    POOL,
    ZONE,
    daemon_set,
    grouped,
    isin,
    machine_deployment,
    node_claim,
    node_pool,
)
from tests.scheduler.engine.whatif.clusters import a_node, a_pod

Json = dict[str, Any]

HOST, TYPE = "kubernetes.io/hostname", "node.kubernetes.io/instance-type"
GPU, CSI = "nvidia.com/gpu", "csi.example.com"
FITS, AT_LIMIT, NOT, UNKNOWN = "Fits", "FitsAtLimit", "DoesNotFit", "ShapeUnknown"
FULL = {"cpu": "8", "memory": "32Gi", "max-size": "3"}


@dataclass(frozen=True)
class Scenario:
    """A cluster with a pending pod, and what each group's verdict must be: the verdict and the rejecting filters."""

    name: str
    objects: list[Json]
    pod: Json
    verdicts: dict[str, tuple[str, list[str]]]
    stand_ins: dict[str, Json] = field(default_factory=dict)


def waiting(cpu: str = "3", **spec: Any) -> Json:
    """A pod without an owner, so that nothing but the scheduler acts on it."""
    return a_pod("waits", owner="", cpu=cpu, labels=spec.pop("labels", {"app": "waits"}), **spec)


def full(name: str, group: str, cpu: str = "4", **more: Any) -> list[Json]:
    """A node of a group, with a pod that takes all of its CPU."""
    return [grouped(name, group, cpu, **more), a_pod(f"on-{name}", name, owner="", cpu=cpu)]


def volume(name: str, zone: str = "") -> list[Json]:
    """A volume that is bound to a claim of the same name, in one zone or everywhere."""
    spec: Json = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "NAMESPACE", "name": name},
        "csi": {"driver": CSI, "volumeHandle": name},
        "storageClassName": "",
    }
    if zone:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [isin(ZONE, zone)]}]}}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": name,
        "storageClassName": "",
    }
    bound = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
    return [
        {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec},
        {"kind": "PersistentVolumeClaim", "metadata": {"name": name, "annotations": bound}, "spec": claim},
    ]


def mounts(*claims: str) -> list[Json]:
    return [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]


def spread(key: str, minimum: int | None = None) -> Json:
    constraint: Json = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    constraint["labelSelector"] = {"matchLabels": {"app": "db"}}
    return constraint | ({"minDomains": minimum} if minimum else {})


def away(key: str) -> Json:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "db"}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def tolerate(key: str) -> list[Json]:
    return [{"key": key, "operator": "Exists"}]


def taint(key: str) -> Json:
    return {"key": key, "effect": "NoSchedule"}


def db(name: str, node: str) -> Json:
    return a_pod(name, node, owner="", cpu="10m", labels={"app": "db"})


HOST_PORT = [{"containerPort": 9100, "hostPort": 9100}]
CONTAINER = {"name": "main", "image": "web", "ports": HOST_PORT, "resources": {"requests": {"cpu": "1"}}}
EIGHT = {"gpu-count": "8", "gpu-type": GPU, "taints": "g:NoSchedule"}
XL = {TYPE: "xl", ZONE: "a"}

SCENARIOS = (
    Scenario(
        "the taint of a GPU group",
        [*full("n0", "plain"), *full("n1", "gpu", taints=[taint("gpu")])],
        waiting(),
        {"plain": (FITS, []), "gpu": (NOT, ["TaintToleration"])},
    ),
    Scenario(
        "a volume that is bound to one zone",
        [*full("n0", "in-a", zone="a"), *full("n1", "in-b", zone="b"), *volume("data", "b")],
        waiting(volumes=mounts("data")),
        {"in-a": (NOT, ["VolumeBinding"]), "in-b": (FITS, [])},
    ),
    Scenario(
        "instances that are too small",
        [*full("n0", "small", "2"), *full("n1", "large", "8")],
        waiting("4"),
        {"small": (NOT, ["NodeResourcesFit"]), "large": (FITS, [])},
    ),
    Scenario(
        "the overhead of DaemonSets",
        [
            *full("n0", "bare", labels={"agents": "no"}),
            *full("n1", "agents", labels={"agents": "yes"}),
            daemon_set("agent", "500m", nodeSelector={"agents": "yes"}),
        ],
        waiting("3700m"),
        {"bare": (FITS, []), "agents": (NOT, ["NodeResourcesFit"])},
    ),
    Scenario(
        "a group at its maximum size",
        [a_node("n0", "1"), machine_deployment("md", 3, annotations=FULL, zone="a")],
        waiting(),
        {"md": (AT_LIMIT, [])},
    ),
    Scenario(
        "topology spreading with minDomains",
        [
            *full("n0", "in-a", zone="a"),
            *full("n1", "in-b", zone="b"),
            db("db-0", "n0"),
            machine_deployment("in-c", annotations=FULL, zone="c"),
        ],
        waiting(labels={"app": "db"}, topologySpreadConstraints=[spread(ZONE, 3)]),
        {"in-a": (NOT, ["PodTopologySpread"]), "in-b": (FITS, []), "in-c": (FITS, [])},
    ),
    Scenario(
        "anti-affinity by zone",
        [*full("n0", "in-a", zone="a"), *full("n1", "in-b", zone="b"), db("db-0", "n0")],
        waiting(affinity=away(ZONE)),
        {"in-a": (NOT, ["InterPodAffinity"]), "in-b": (FITS, [])},
    ),
    Scenario(
        "anti-affinity by host",
        [grouped("n0", "pool"), db("db-0", "n0")],
        waiting(affinity=away(HOST)),
        {"pool": (FITS, [])},
    ),
    Scenario(
        "an unknown shape",
        [a_node("n0", "1"), machine_deployment("md"), node_pool("pool")],
        waiting(),
        {"md": (UNKNOWN, []), "pool": (UNKNOWN, [])},
    ),
    Scenario(
        "taints and requirements of a NodePool without nodes",
        [a_node("n0", "1"), node_pool("spot", taints=[taint("spot")]), node_pool("elsewhere", isin(ZONE, "c"))],
        waiting(nodeSelector={ZONE: "b"}),
        {"spot": (NOT, ["TaintToleration"]), "elsewhere": (NOT, ["NodeAffinity"])},
        {
            "spot": grouped("new-spot", "spot", "64", zone="b", key=POOL, taints=[taint("spot")]),
            "elsewhere": grouped("new-elsewhere", "elsewhere", "64", zone="c", key=POOL),
        },
    ),
    Scenario(
        "the shape of a NodeClaim, and the limit of its NodePool",
        [
            a_node("n0", "1"),
            node_pool("free", limits={"cpu": "100"}, startupTaints=[taint("starting")]),
            node_pool("limited", limits={"cpu": "10"}, status={"resources": {"cpu": "8"}}),
            node_claim("free-1", "free", XL, {"cpu": "16", "memory": "64Gi", "pods": "58"}),
            node_claim("limited-1", "limited", XL, {"cpu": "16", "memory": "64Gi", "pods": "58"}),
        ],
        waiting("12"),
        {"free": (FITS, []), "limited": (AT_LIMIT, [])},
    ),
    Scenario(
        "devices that the annotations of a MachineDeployment count",
        [
            a_node("n0", "1"),
            machine_deployment("two", annotations=FULL | {"gpu-count": "2", "gpu-type": GPU}),
            machine_deployment(
                "eight", annotations=FULL | {"gpu-count": "8", "gpu-type": GPU, "taints": "g:NoSchedule"}
            ),
        ],
        waiting(
            tolerations=tolerate("g"),
            containers=[{"name": "main", "image": "ml", "resources": {"requests": {"cpu": "1"}, "limits": {GPU: "4"}}}],
        ),
        {"two": (NOT, ["NodeResourcesFit"]), "eight": (FITS, [])},
    ),
    Scenario(
        "a host port that a DaemonSet uses",
        [
            *full("n0", "exporters"),
            *full("n1", "none", labels={"agents": "no"}, taints=[taint("agents")]),
            daemon_set("exporter", "10m", ports=HOST_PORT),
        ],
        waiting(containers=[CONTAINER], tolerations=tolerate("agents")),
        {"exporters": (NOT, ["NodePorts"]), "none": (FITS, [])},
    ),
    Scenario(
        "the volume limit of a group's nodes",
        [
            a_node("n0", "1"),
            *volume("one"),
            *volume("two"),
            machine_deployment("one-volume", annotations=FULL | {"csi-driver": f"{CSI}=1"}),
            machine_deployment("many", annotations=FULL | {"csi-driver": f"{CSI}=20"}),
        ],
        waiting(volumes=mounts("one", "two")),
        {"one-volume": (NOT, ["NodeVolumeLimits"]), "many": (FITS, [])},
    ),
    Scenario(
        "a node selector for the label of a group, and several filters at once",
        [*full("n0", "blue"), *full("n1", "green", "2", taints=[taint("green")])],
        waiting(nodeSelector={EKS: "blue"}),
        {"blue": (FITS, []), "green": (NOT, ["TaintToleration", "NodeAffinity", "NodeResourcesFit"])},
    ),
)
