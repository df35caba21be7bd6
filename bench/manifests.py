"""Manifests that workloads consist of: nodes, pods and parts of a pod's spec, volumes with their claims.

Owns: the shapes, which are those of kube-scheduler's scheduler_perf (test/integration/scheduler_perf/templates, v1.36).
Does not own: which of them make a workload (`workloads`). The manifests depend only on the arguments, not on chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

Json = dict[str, Any]

SCHEDULER: Final = "bench"
HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
DRIVER: Final = "ebs.csi.aws.com"
DRIVER_VOLUMES: Final = 39  # volumes per node
URGENT: Final = "urgent"  # the priority class that preempts; PRIORITY is the value that scheduler_perf sets
PRIORITY: Final = 10
DRA: Final = "resource.k8s.io/v1"
TEST_DRIVER: Final = "test-driver.cdi.k8s.io"
DEVICE_CLASS: Final = "test-class"
DEFAULT_REQUESTS: Final = {"cpu": "100m", "memory": "500Mi"}


def node(i: int, zones: Sequence[str] = ("zone-0", "zone-1", "zone-2"), pods: int = 110) -> Json:
    """Return node i like scheduler_perf's node-default, with 4 cpu, 32Gi and room for `pods` pods.

    The nodes have the zone labels `zones` in turn, or none if `zones` is empty.
    """
    labels = {HOST: f"node-{i:05}"} | ({ZONE: zones[i % len(zones)]} if zones else {})
    amounts = {"cpu": "4", "memory": "32Gi", "pods": str(pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{i:05}", "uid": f"00000000-0000-4000-8000-{i:012}", "labels": labels},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(name: str, namespace: str, labels: Mapping[str, str], requests: Mapping[str, str], spec: Json) -> Json:
    """Return a pod like scheduler_perf's pod-default; the fields in `spec` are added to its spec.

    The container's limits equal `requests`, which may be empty.
    """
    container: Json = {"name": "pause", "image": "registry.k8s.io/pause:3.10.2", "ports": [{"containerPort": 80}]}
    if requests:
        container["resources"] = {"requests": requests, "limits": requests}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", "labels": dict(labels)},
        "spec": {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 0,  # No kubelet terminates a victim.
            "containers": [container],
            **spec,
        },
    }


def device_class(extended_resource: str = "") -> Json:
    """Return the class of the test driver's devices; it may back an extended resource."""
    spec: Json = {"selectors": [{"cel": {"expression": f'device.driver == "{TEST_DRIVER}"'}}]}
    if extended_resource:
        spec["extendedResourceName"] = extended_resource
    return {"apiVersion": DRA, "kind": "DeviceClass", "metadata": {"name": DEVICE_CLASS}, "spec": spec}


def resource_slices(i: int, devices: Sequence[Json], counters: Json | None = None) -> Iterator[Json]:
    """Yield the slice with the devices of node i and, with `counters`, a slice with the counters that they share."""
    name = f"node-{i:05}"
    pool = {"name": name, "generation": 1, "resourceSliceCount": 2 if counters else 1}
    spec = {"driver": TEST_DRIVER, "pool": pool, "nodeName": name}
    kind = {"apiVersion": DRA, "kind": "ResourceSlice"}
    yield {**kind, "metadata": {"name": f"{name}-devices"}, "spec": {**spec, "devices": list(devices)}}
    if counters:
        yield {**kind, "metadata": {"name": f"{name}-counters"}, "spec": {**spec, "sharedCounters": [counters]}}


def resource_claim(name: str, namespace: str, requests: Sequence[Json]) -> Json:
    """Return a ResourceClaim as the controller creates it from a template for the pod called `name`."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"{namespace}/{name}", "controller": True}
    metadata = {"name": name, "namespace": namespace, "uid": f"claim/{namespace}/{name}", "ownerReferences": [owner]}
    made: Json = {"apiVersion": DRA, "kind": "ResourceClaim", "metadata": metadata}
    made["spec"] = {"devices": {"requests": list(requests)}}
    return made


def pod_affinity(kind: str, key: str, labels: Mapping[str, str], *, required: bool, **term: Any) -> Json:
    """Return the part of a pod's spec with one affinity term over the topology `key` for pods with these labels.

    `kind` is podAffinity or podAntiAffinity. `term` has further fields of the term, which select namespaces.
    """
    term_spec = {"topologyKey": key, "labelSelector": {"matchLabels": dict(labels)}, **term}
    if required:
        return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term_spec]}}}
    weighted = {"weight": 1, "podAffinityTerm": term_spec}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}}


def node_affinity(*, field: str = "", **expression: Any) -> Json:
    """Return the part of a pod's spec with a required node affinity of one expression.

    The expression is about the node field `field` or, if that is "", about a label with the `key` in `expression`. Its
    operator is In unless `expression` states one.
    """
    term = {"matchFields" if field else "matchExpressions": [{"operator": "In", "key": field, **expression}]}
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def spread(when: str, labels: Mapping[str, str]) -> Json:
    """Return the part of a pod's spec with a topology spread constraint over zones; `when` is its whenUnsatisfiable.

    The constraint counts pods with these labels.
    """
    constraint = {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": when}
    return {"topologySpreadConstraints": [{**constraint, "labelSelector": {"matchLabels": dict(labels)}}]}


def claim_volume(claim: str) -> Json:
    """Return the volume of a pod's spec that refers to a claim."""
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


def bound_claim(name: str, namespace: str) -> list[tuple[str, Json]]:
    """Return a CSI volume and the claim that is bound to it, as pairs of the path to create it at and its manifest."""
    common: Json = {"accessModes": ["ReadOnlyMany"]}
    claim: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "annotations": {"pv.kubernetes.io/bind-completed": "true"}},
        "spec": {**common, "storageClassName": "", "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
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
    return [("/api/v1/persistentvolumes", volume), (f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", claim)]


def csi_node(i: int) -> Json:
    """Return the CSINode with the volume limit of a node."""
    driver = {"name": DRIVER, "nodeID": f"node-{i:05}", "allocatable": {"count": DRIVER_VOLUMES}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": f"node-{i:05}"},
        "spec": {"drivers": [driver]},
    }


def namespace(name: str, labels: Mapping[str, str]) -> Json:
    """Return the manifest of a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels)}}


def priority_class() -> Json:
    """Return the PriorityClass of the pods that preempt others."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": URGENT},
        "value": PRIORITY,
    }


def service(name: str, namespace: str) -> Json:
    """Return a service whose selector matches nothing."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": "nothing"}, "ports": [{"port": 80}]},
    }
