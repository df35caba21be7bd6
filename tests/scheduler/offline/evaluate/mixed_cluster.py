"""A cluster with every feature: taints, affinity of all kinds, spread, host ports, claims with CSI limits.

The objects depend only on the sizes, so that two runs have the same cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

Json = dict[str, Any]

HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
APPS: Final = 100  # workloads, each with equal pods
ZONES: Final = 10
DRIVER: Final = "csi.example.com"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def objects(nodes: int, pods: int) -> Iterator[Json]:
    """Yield the cluster's objects. One pod in five has a claim; every second one has affinity terms or spreads."""
    for name in ("bench", "other"):
        yield {"kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}}
    for zone in range(ZONES):
        name = f"zone-{zone}"
        yield {
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": DRIVER,
            "volumeBindingMode": "Immediate",
        }
    for app in range(0, APPS, 10):
        selector = {"app": f"app-{app}"}
        yield {
            "kind": "Service",
            "metadata": {"name": f"app-{app}", "namespace": "bench"},
            "spec": {"selector": selector},
        }
    for i in range(nodes):
        yield _node(i)
        drivers = [{"name": DRIVER, "nodeID": f"node-{i:05}", "allocatable": {"count": 39}}]
        yield {"kind": "CSINode", "metadata": {"name": f"node-{i:05}"}, "spec": {"drivers": drivers}}
    for i in range(pods):
        if i % 5 == 0:
            yield from _bound_claim(i, zone=i % nodes % ZONES)
        yield _running(i, on=i % nodes)


def pods_to_evaluate() -> dict[str, Json]:
    """Return pods to evaluate, by their special feature."""
    label = {"matchLabels": {"app": "app-1"}}
    everything = {
        **_spread("DoNotSchedule", ZONE, HOST),
        **_port(8080),
        **_claims("claim-0"),
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {
            **_affinity("podAffinity", REQUIRED, ZONE, label)["affinity"],
            **_affinity("podAntiAffinity", PREFERRED, HOST, label)["affinity"],
        },
    }
    shapes = {
        "hard spread": _spread("DoNotSchedule", ZONE, HOST),
        "bound claim": _claims("claim-0"),
        "everything": everything,
    }
    return {shape: _pod(f"new-{n}", 1, spec) for n, (shape, spec) in enumerate(shapes.items())}


def _node(i: int) -> Json:
    taint = {"key": "dedicated", "value": f"team-{i % 3}", "effect": "NoSchedule"}
    preferred = {"key": "slow", "value": "", "effect": "PreferNoSchedule"}
    return {
        "kind": "Node",
        "metadata": {
            "name": f"node-{i:05}",
            "uid": f"node-uid-{i}",
            "labels": {HOST: f"node-{i:05}", ZONE: f"zone-{i % ZONES}", "disk": "ssd" if i % 3 else "hdd"},
        },
        "spec": {"taints": [t for t, tainted in ((taint, i % 10 == 0), (preferred, i % 7 == 0)) if tainted]},
        "status": {
            "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
            "images": [{"names": [f"registry.example.com/app-{i % APPS}:1"], "sizeBytes": 300 << 20}],
        },
    }


def _running(i: int, on: int) -> Json:
    app = i % APPS
    label = {"matchLabels": {"app": f"app-{app}"}}
    spec: Json = {}
    match i % 10:
        case 1:
            spec = _affinity("podAffinity", REQUIRED, ZONE, label)
        case 3:
            spec = _affinity("podAntiAffinity", REQUIRED, "example.com/rack", label)
        case 5:
            spec = _affinity("podAffinity", PREFERRED, HOST, label) | _claims(f"claim-{i}")
        case 6:
            spec = _affinity("podAntiAffinity", PREFERRED, ZONE, label)
        case 7:
            spec = _spread("DoNotSchedule", ZONE)
        case 8:
            spec = _port(9000 + i % 50)
        case 0:
            spec = _claims(f"claim-{i}")
    return _pod(f"pod-{i}", app, {"nodeName": f"node-{on:05}", **spec}) | {"status": {"phase": "Running"}}


def _pod(name: str, app: int, spec: Json) -> Json:
    metadata = {"name": name, "namespace": "bench", "uid": f"uid-{name}", "labels": {"app": f"app-{app}"}}
    container = _container({"cpu": "100m", "memory": "128Mi"})
    spec = {"schedulerName": "default-scheduler", "containers": [container], **spec}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def _container(requests: Json) -> Json:
    return {"name": "main", "image": "registry.example.com/app-1:1", "resources": {"requests": requests}}


def _port(number: int) -> Json:
    return {"containers": [_container({"cpu": "100m"}) | {"ports": [{"hostPort": number, "protocol": "TCP"}]}]}


def _spread(when: str, *keys: str) -> Json:
    selector = {"matchLabels": {"app": "app-1"}}
    constraint = {"maxSkew": 50, "whenUnsatisfiable": when, "labelSelector": selector}
    return {"topologySpreadConstraints": [{**constraint, "topologyKey": key} for key in keys]}


def _affinity(kind: str, strength: str, key: str, selector: Json) -> Json:
    term = {"topologyKey": key, "labelSelector": selector}
    weighted: Json = {"weight": 10, "podAffinityTerm": term}
    return {"affinity": {kind: {strength: [term if strength == REQUIRED else weighted]}}}


def _claims(*names: str) -> Json:
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]}


def _bound_claim(i: int, zone: int) -> Iterator[Json]:
    metadata = {"name": f"claim-{i}", "namespace": "bench", "uid": f"claim-uid-{i}"}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": f"zone-{zone}",
        "volumeName": f"volume-{i}",
        "resources": {"requests": {"storage": "10Gi"}},
    }
    yield {
        "kind": "PersistentVolumeClaim",
        "metadata": {**metadata, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": spec,
        "status": {"phase": "Bound"},
    }
    here = {"key": ZONE, "operator": "In", "values": [f"zone-{zone}"]}
    yield {
        "kind": "PersistentVolume",
        "metadata": {"name": f"volume-{i}", "labels": {ZONE: f"zone-{zone}"}},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "bench", "name": f"claim-{i}", "uid": f"claim-uid-{i}"},
            "storageClassName": f"zone-{zone}",
            "csi": {"driver": DRIVER, "volumeHandle": f"handle-{i}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }
