"""Manifests of what workloads are made of: nodes, pods and the parts of a pod's spec, volumes with their claims.

Owns: the shapes, which are those of kube-scheduler's scheduler_perf (test/integration/scheduler_perf/templates, v1.36).
Does not own: which of them make a workload (`workloads`). Everything follows from the arguments: no randomness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Json = dict[str, Any]

SCHEDULER: Final = "bench"
HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
DRIVER: Final = "ebs.csi.aws.com"
DRIVER_VOLUMES: Final = 39  # a node takes
URGENT: Final = "urgent"  # the priority class that preempts; PRIORITY is what scheduler_perf writes into its pods
PRIORITY: Final = 10
DEFAULT_REQUESTS: Final = {"cpu": "100m", "memory": "500Mi"}


def node(i: int, zones: Sequence[str] = ("zone-0", "zone-1", "zone-2"), pods: int = 110) -> Json:
    """node-default: 4 cpu, 32Gi."""
    labels = {HOST: f"node-{i:05}"} | ({ZONE: zones[i % len(zones)]} if zones else {})
    amounts = {"cpu": "4", "memory": "32Gi", "pods": str(pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{i:05}", "uid": f"00000000-0000-4000-8000-{i:012}", "labels": labels},
        "spec": {},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name: str, namespace: str, labels: Mapping[str, str], requests: Mapping[str, str], spec: Json) -> Json:
    """pod-default, with more in its spec. Requests are limits too, as there; none at all when empty."""
    container: Json = {"name": "pause", "image": "registry.k8s.io/pause:3.10.2", "ports": [{"containerPort": 80}]}
    if requests:
        container["resources"] = {"requests": requests, "limits": requests}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", "labels": dict(labels)},
        "spec": {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 0,  # no kubelet ends a victim
            "containers": [container],
            **spec,
        },
    }


def pod_affinity(kind: str, key: str, labels: Mapping[str, str], *, required: bool, **term: Any) -> Json:
    """`kind`: podAffinity or podAntiAffinity. `term`: the namespaces that it is about."""
    wanted = {"topologyKey": key, "labelSelector": {"matchLabels": dict(labels)}, **term}
    if required:
        return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [wanted]}}}
    weighted = {"weight": 1, "podAffinityTerm": wanted}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}}


def node_affinity(*, field: str = "", **expression: Any) -> Json:
    """Required: an expression about labels, or about the field `field`."""
    term = {"matchFields" if field else "matchExpressions": [{"operator": "In", "key": field, **expression}]}
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def spread(when: str, labels: Mapping[str, str]) -> Json:
    """Over zones."""
    constraint = {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": when}
    return {"topologySpreadConstraints": [{**constraint, "labelSelector": {"matchLabels": dict(labels)}}]}


def volume_of(claim: str) -> Json:
    """The part of a pod's spec that names a claim."""
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


def bound_claim(name: str, namespace: str) -> list[tuple[str, Json]]:
    """A CSI volume and its claim, bound to each other, each with the path that it is created at."""
    common: Json = {"accessModes": ["ReadOnlyMany"]}
    claim: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {"pv.kubernetes.io/bind-completed": "true"},
        },
        "spec": {
            **common,
            "storageClassName": "",
            "volumeName": name,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    volume: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            **common,
            "capacity": {"storage": "1Gi"},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name},
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    }
    return [
        ("/api/v1/persistentvolumes", volume),
        (f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", claim),
    ]


def csi_node(i: int) -> Json:
    """What a node's CSI driver takes."""
    driver = {"name": DRIVER, "nodeID": f"node-{i:05}", "allocatable": {"count": DRIVER_VOLUMES}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": f"node-{i:05}"},
        "spec": {"drivers": [driver]},
    }


def namespace(name: str, labels: Mapping[str, str]) -> Json:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels)}}


def priority_class() -> Json:
    """The class that preempts."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": URGENT},
        "value": PRIORITY,
    }


def service(name: str, namespace: str) -> Json:
    """A service that selects nothing."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": "nothing"}, "ports": [{"port": 80}]},
    }
