"""Seeded random pods with every field that kube-scheduler reads.

Owns: the fields of a random pod, all valid for the API server. Does not own: the cluster (`random_cluster`), claims and
their volumes (`random_volumes`).
Invariant: the same random.Random gives the same pods.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

Json = dict[str, Any]

NAMESPACES = {"parity-a": {"team": "red"}, "parity-b": {"team": "blue", "env": "dev"}, "parity-c": {"env": "prod"}}
ZONE, HOST, REGION = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "topology.kubernetes.io/region"
ZONES = ("z1", "z2", "z3", "z4")
DISKS = ("ssd", "hdd", "nvme")
APPS, TIERS, VERSIONS = ("a", "b", "c"), ("front", "back"), ("1", "2")
IMAGES = {  # name -> size: were it another on each node, it would depend on which node kube-scheduler saw first
    "web:1": 5_000_000,
    "registry.example/team/db:9": 60_000_000,
    "docker.io/library/ml:2": 1_900_000_000,
    "quay.io/x/tiny": 700_000_000,
    "h.example:5000/y:3": 12_000_000_000,
}
PRIORITIES = {"parity-low": -5, "parity-mid": 100, "parity-high": 1000, "parity-never": 2000}
RUNTIME_CLASSES = {"parity-heavy": {"cpu": "250m", "memory": "120Mi"}, "parity-plain": {}}
GPU, HUGE = "example.com/gpu", "hugepages-2Mi"
IGNORED = "example.com/foo"  # no node has it; one profile does not mind
CPU = ("50m", "100m", "250m", "0.5", "1", "1500m", "2", "1m", "3")
MEMORY = ("64Mi", "128Mi", "1Gi", "500M", "2Gi", "1e9", "100000Ki", "3Gi")
ISCSI = {"lun": 0, "targetPortal": "10.0.0.9"}
RESTART_ALL = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
TAINTS = (
    {"key": "dedicated", "value": "ml", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "web", "effect": "PreferNoSchedule"},
    {"key": "spot", "effect": "NoExecute"},
    {"key": "old", "value": "yes", "effect": "PreferNoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
)


def random_pod(rng: random.Random, name: str, claims: Sequence[str], often: float = 1.0) -> Json:
    """Return a pod manifest; `claims` are names of existing claims, `often` scales how many fields are set."""

    def maybe(share: float) -> bool:
        return rng.random() < share * often

    labels = _some_labels(rng)
    spec: Json = {
        "terminationGracePeriodSeconds": 0,
        "enableServiceLinks": False,
        "containers": [_container(rng, f"c{i}", maybe) for i in range(rng.choice((1, 1, 1, 2, 3)))],
    }
    if maybe(0.2):
        rng.choice(spec["containers"])["ports"] = [_port(rng, (8080, 8080, 9090))]
    if maybe(0.15):
        spec["initContainers"] = [_init_container(rng, f"i{i}", maybe) for i in range(rng.choice((1, 2, 3)))]
    if maybe(0.08):
        spec["resources"] = _pod_level_resources(rng)
    if maybe(0.06):
        spec["runtimeClassName"] = rng.choice(tuple(RUNTIME_CLASSES))
    if rng.random() < 0.5:
        spec["priorityClassName"] = rng.choice(tuple(PRIORITIES))
    if maybe(0.12):
        spec["nodeSelector"] = rng.choice(({"disk": rng.choice(DISKS)}, {ZONE: rng.choice(ZONES)}, {"gpu": "true"}))
    if maybe(0.35):
        spec["tolerations"] = [_toleration(rng) for _ in range(rng.choice((1, 2)))]
    affinity = {
        kind: made
        for kind, share, make in (
            ("nodeAffinity", 0.25, _node_affinity),
            ("podAffinity", 0.2, _pod_affinity),
            ("podAntiAffinity", 0.22, _pod_affinity),
        )
        if maybe(share) and (made := make(rng))
    }
    if affinity:
        spec["affinity"] = affinity
    if maybe(0.25):
        spec["topologySpreadConstraints"] = _spread(rng)
    volumes = _volumes(rng, claims, maybe)
    if volumes:
        spec["volumes"] = volumes
    metadata: Json = {"name": name, "namespace": rng.choice(tuple(NAMESPACES)), "labels": labels}
    if rng.random() < 0.3:
        metadata["ownerReferences"] = [_owner(rng)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _some_labels(rng: random.Random) -> dict[str, str]:
    labels = {"app": rng.choice(APPS)}
    if rng.random() < 0.6:
        labels["tier"] = rng.choice(TIERS)
    if rng.random() < 0.5:
        labels["version"] = rng.choice(VERSIONS)
    return labels


def _owner(rng: random.Random) -> Json:
    kind, version = rng.choice(
        (("ReplicaSet", "apps/v1"), ("StatefulSet", "apps/v1"), ("ReplicationController", "v1"), ("Job", "batch/v1"))
    )
    owner = {"apiVersion": version, "kind": kind, "name": f"owner-{rng.choice(APPS)}", "uid": f"u-{rng.choice(APPS)}"}
    return owner | {"controller": rng.random() < 0.9}


# --- resources ----------------------------------------------------------------------------------------------------


def _container(rng: random.Random, name: str, maybe: Callable[[float], bool]) -> Json:
    container: Json = {"name": name, "image": rng.choice((*IMAGES, "busybox", "registry.example/team/db@sha256:1"))}
    requests: Json = {}
    if rng.random() < 0.75:
        requests["cpu"] = rng.choice(CPU)
    if rng.random() < 0.7:
        requests["memory"] = rng.choice(MEMORY)
    if rng.random() < 0.1:
        requests["ephemeral-storage"] = rng.choice(("1Gi", "3G", "10Gi"))
    resources: Json = {"requests": requests}
    if maybe(0.12):
        requests[GPU] = rng.choice((0, 1, 1, 2))
        resources.setdefault("limits", {})[GPU] = requests[GPU]
    if maybe(0.03):
        requests[IGNORED] = resources.setdefault("limits", {})[IGNORED] = 1
    if maybe(0.05) and "memory" in requests:
        requests[HUGE] = "64Mi"
        resources.setdefault("limits", {})[HUGE] = "64Mi"
    if not requests and rng.random() < 0.5:
        resources = {"limits": {"cpu": rng.choice(CPU), "memory": rng.choice(MEMORY)}}
    container["resources"] = resources
    if maybe(0.03):
        container |= {"restartPolicy": "Never", "restartPolicyRules": [RESTART_ALL]}
    return container


def _port(rng: random.Random, numbers: Sequence[int]) -> Json:
    port: Json = {"containerPort": 80, "hostPort": rng.choice(numbers)}
    if rng.random() < 0.5:
        port["hostIP"] = rng.choice(("0.0.0.0", "10.0.0.1", "10.0.0.2"))
    if rng.random() < 0.5:
        port["protocol"] = rng.choice(("TCP", "UDP", "SCTP"))
    return port


def _init_container(rng: random.Random, name: str, maybe: Callable[[float], bool]) -> Json:
    container = _container(rng, name, maybe)
    if maybe(0.1):
        container["ports"] = [_port(rng, (int(name[1:]) + 7000, 8080 + int(name[1:]) % 2))]
    if rng.random() < 0.5:
        container["restartPolicy"] = "Always"
        container.pop("restartPolicyRules", None)
    return container


def _pod_level_resources(rng: random.Random) -> Json:
    """Return pod-level requests above the sum of its containers', as the API server demands."""
    requests = {"cpu": rng.choice(("20", "21500m")), "memory": rng.choice(("20Gi", "30Gi"))}
    wanted = {key: requests[key] for key in rng.choice((("cpu",), ("memory",), ("cpu", "memory")))}
    return {rng.choice(("requests", "limits")): wanted}


# --- where it may go ----------------------------------------------------------------------------------------------


def _toleration(rng: random.Random) -> Json:
    if rng.random() < 0.1:
        return {"operator": "Exists"}
    taint = rng.choice(TAINTS)
    toleration: Json = {"key": taint["key"]}
    if rng.random() < 0.5:
        toleration["operator"] = "Exists"
    else:
        toleration |= {"value": rng.choice((taint.get("value", ""), "other"))}
    if rng.random() < 0.7:
        toleration["effect"] = taint["effect"]
        if taint["effect"] == "NoExecute" and rng.random() < 0.5:
            toleration["tolerationSeconds"] = 60
    return toleration


def _node_requirement(rng: random.Random) -> Json:
    return rng.choice(
        (
            {"key": "disk", "operator": "In", "values": rng.sample(DISKS, 2)},
            {"key": "disk", "operator": "NotIn", "values": [rng.choice(DISKS)]},
            {"key": ZONE, "operator": "In", "values": rng.sample(ZONES, 2)},
            {"key": "gpu", "operator": rng.choice(("Exists", "DoesNotExist"))},
            {"key": "rank", "operator": rng.choice(("Gt", "Lt")), "values": [str(rng.randrange(8))]},
            {"key": HOST, "operator": "NotIn", "values": ["n-000", "n-001"]},
        )
    )


def _node_term(rng: random.Random, fields: float) -> Json:
    term: Json = {"matchExpressions": [_node_requirement(rng) for _ in range(rng.choice((1, 1, 2)))]}
    if rng.random() < fields:
        operator = rng.choice(("In", "In", "NotIn"))
        field = {"key": "metadata.name", "operator": operator, "values": [f"n-{rng.randrange(12):03}"]}
        term = {"matchFields": [field]} | (term if rng.random() < 0.3 else {})
    return term


def _node_affinity(rng: random.Random) -> Json:
    affinity: Json = {}
    if rng.random() < 0.5:
        terms = [_node_term(rng, 0.2) for _ in range(rng.choice((1, 1, 2)))]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if rng.random() < 0.7:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": rng.randrange(1, 101), "preference": _node_term(rng, 0.1)} for _ in range(rng.choice((1, 2, 3)))
        ]
    return affinity


# --- beside whom --------------------------------------------------------------------------------------------------


def _pod_selector(rng: random.Random) -> Json:
    return rng.choice(
        (
            {"matchLabels": {"app": rng.choice(APPS)}},
            {"matchLabels": {"app": rng.choice(APPS), "tier": rng.choice(TIERS)}},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": rng.sample(APPS, 2)}]},
            {"matchExpressions": [{"key": "tier", "operator": rng.choice(("Exists", "DoesNotExist"))}]},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [rng.choice(APPS)]}]},
            {},
        )
    )


def _pod_term(rng: random.Random) -> Json:
    term: Json = {"topologyKey": rng.choice((ZONE, ZONE, HOST, "rack"))}
    if rng.random() < 0.95:
        term["labelSelector"] = _pod_selector(rng)
    if rng.random() < 0.2:
        term["namespaces"] = rng.sample(tuple(NAMESPACES), rng.choice((1, 2)))
    if rng.random() < 0.2:
        term["namespaceSelector"] = rng.choice(({}, {"matchLabels": {"team": "red"}}, {"matchLabels": {"env": "dev"}}))
    if "labelSelector" in term and "version" not in str(term["labelSelector"]) and rng.random() < 0.15:
        term[rng.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["version"]
    return term


def _pod_affinity(rng: random.Random) -> Json:
    affinity: Json = {}
    if rng.random() < 0.45:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = [
            _pod_term(rng) for _ in range(rng.choice((1, 1, 2)))
        ]
    if rng.random() < 0.6:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": rng.randrange(1, 101), "podAffinityTerm": _pod_term(rng)} for _ in range(rng.choice((1, 2)))
        ]
    return affinity


def _spread(rng: random.Random) -> list[Json]:
    constraints: dict[tuple[str, str], Json] = {}
    for _ in range(rng.choice((1, 1, 2, 3))):
        key, when = rng.choice((ZONE, HOST, "rack")), rng.choice(("DoNotSchedule", "ScheduleAnyway"))
        constraint: Json = {"topologyKey": key, "whenUnsatisfiable": when, "maxSkew": rng.choice((1, 1, 2, 4))}
        if rng.random() < 0.95:
            constraint["labelSelector"] = _pod_selector(rng)
            if rng.random() < 0.25:
                constraint["matchLabelKeys"] = ["version", "absent"]
        if when == "DoNotSchedule" and rng.random() < 0.3:
            constraint["minDomains"] = rng.choice((1, 2, 3, 5))
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if rng.random() < 0.3:
                constraint[policy] = rng.choice(("Honor", "Ignore"))
        constraints[key, when] = constraint
    return list(constraints.values())


# --- volumes ------------------------------------------------------------------------------------------------------


def _volumes(rng: random.Random, claims: Sequence[str], maybe: Callable[[float], bool]) -> list[Json]:
    sources: list[Json] = []
    if claims and maybe(0.25):
        chosen = rng.sample(claims, rng.choice((1, 1, 2)))
        sources += [{"persistentVolumeClaim": {"claimName": claim}} for claim in chosen]
    if maybe(0.06):
        read_only = rng.random() < 0.5
        disk = rng.choice(("d1", "d2"))
        sources.append(
            rng.choice(
                (
                    {"gcePersistentDisk": {"pdName": disk, "readOnly": read_only}},
                    {"awsElasticBlockStore": {"volumeID": disk}},
                    {
                        "iscsi": {
                            "iqn": f"iqn.2001-04.example:{disk}",
                            "lun": 0,
                            "targetPortal": "10.0.0.9",
                            "readOnly": read_only,
                        }
                    },
                    {"rbd": {"monitors": ["m1", disk], "image": "i", "pool": "p", "readOnly": read_only}},
                    {"csi": {"driver": "inline.csi.example"}},
                    {"ephemeral": {"volumeClaimTemplate": {"spec": _claim_template()}}},
                    {"image": {"reference": rng.choice(tuple(IMAGES))}},
                    {"emptyDir": {}},
                )
            )
        )
    return [{"name": f"v{i}", **source} for i, source in enumerate(sources)]


def _claim_template() -> Json:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
