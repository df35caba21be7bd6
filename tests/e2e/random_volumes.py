"""Seeded random storage: classes, volumes, claims, drivers with limits and capacity.

Owns: every state of a claim: bound, waiting for its node (static, dynamic), unbound, lost. Does not own: pods.
Invariant: no two free volumes of a class have one size, so that the volume of a claim does not depend on chance.
"""

from __future__ import annotations

import random
from typing import Any

from tests.e2e.random_pods import DISKS, HOST, NAMESPACES, REGION, ZONE, ZONES

Json = dict[str, Any]

DRIVER, CAPACITY_DRIVER = "disk.csi.example", "capacity.csi.example"
LOCAL, DYNAMIC, CAPPED, IMMEDIATE = "parity-local", "parity-dynamic", "parity-capped", "parity-immediate"
STORAGE = "/apis/storage.k8s.io/v1"
LOST, DELETED = "claim-lost", "claim-deleted"  # to be made so by whoever creates them
WAITS = "WaitForFirstConsumer"
BOUND = "pv.kubernetes.io/bind-completed"


def claim_names() -> list[str]:
    """Return the names of the claims in every namespace, and of one that does not exist."""
    return [f"claim-{i:02}" for i in range(20)] + ["claim-immediate", LOST, DELETED, "claim-missing"]


def storage(rng: random.Random, node_names: list[str]) -> list[tuple[str, Json]]:
    """Return (collection path, object) of all storage objects in the order of creation."""
    made: list[tuple[str, Json]] = _classes(rng)
    for name in (DRIVER, CAPACITY_DRIVER):
        spec = {"attachRequired": True, "storageCapacity": name == CAPACITY_DRIVER}
        made.append((f"{STORAGE}/csidrivers", {"metadata": {"name": name}, "spec": spec}))
    made += [(f"{STORAGE}/csinodes", _csi_node(rng, name)) for name in node_names if rng.random() < 0.7]
    for i in range(len(node_names) // 3):
        source = {"persistentVolumeName": f"pv-{rng.choice(tuple(NAMESPACES))}-{rng.choice(claim_names())}"}
        attached: Json = {"attacher": DRIVER, "nodeName": rng.choice(node_names), "source": source}
        made.append((f"{STORAGE}/volumeattachments", {"metadata": {"name": f"va-{i}"}, "spec": attached}))
    capacities = f"{STORAGE}/namespaces/parity-a/csistoragecapacities"
    made += [(capacities, _capacity(rng, zone)) for zone in ZONES if rng.random() < 0.7]
    sizes = rng.sample(range(1, 400), 200)
    for namespace in NAMESPACES:
        for claim in claim_names():
            made += _claim(rng, namespace, claim, node_names, sizes)
    return made


def _classes(rng: random.Random) -> list[tuple[str, Json]]:
    path = f"{STORAGE}/storageclasses"
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": rng.sample(ZONES, 2)}]}]
    dynamic: Json = {"allowedTopologies": allowed} if rng.random() < 0.5 else {}
    return [
        (path, _class(LOCAL, "kubernetes.io/no-provisioner", WAITS)),
        (path, _class(DYNAMIC, DRIVER, WAITS) | dynamic),
        (path, _class(CAPPED, CAPACITY_DRIVER, WAITS)),
        (path, _class(IMMEDIATE, DRIVER, "Immediate")),
    ]


def _class(name: str, provisioner: str, mode: str) -> Json:
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}


def _csi_node(rng: random.Random, name: str) -> Json:
    drivers: list[Json] = [{"name": DRIVER, "nodeID": name, "topologyKeys": [ZONE]}]
    if rng.random() < 0.7:
        drivers[0]["allocatable"] = {"count": rng.choice((0, 1, 2, 3))}
    if rng.random() < 0.3:
        drivers.append(
            {"name": "pd.csi.storage.gke.io", "nodeID": name, "topologyKeys": [], "allocatable": {"count": 1}}
        )
    metadata: Json = {"name": name}
    if rng.random() < 0.5:
        migrated = "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"
        metadata["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    return {"metadata": metadata, "spec": {"drivers": drivers}}


def _capacity(rng: random.Random, zone: str) -> Json:
    topology: Json = {"nodeTopology": {"matchLabels": {ZONE: zone}}} if rng.random() < 0.9 else {}
    sizes = {"capacity": rng.choice(("1Gi", "20Gi", "500Gi"))}
    if rng.random() < 0.3:
        sizes["maximumVolumeSize"] = rng.choice(("5Gi", "100Gi"))
    return {"metadata": {"name": f"parity-{zone}"}, "storageClassName": CAPPED, **sizes, **topology}


def _claim(
    rng: random.Random, namespace: str, name: str, node_names: list[str], sizes: list[int]
) -> list[tuple[str, Json]]:
    """Return a claim with its volume, or with a free volume that it may be bound to."""
    if name == "claim-missing":
        return []
    modes = rng.choice((["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteOncePod"], ["ReadWriteMany"]))
    wanted = f"{rng.choice((1, 10, 50, 200))}Gi"
    spec: Json = {"accessModes": modes, "resources": {"requests": {"storage": wanted}}}
    claim: Json = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    kind = rng.choice(("bound", "bound", "bound", LOCAL, DYNAMIC, CAPPED))
    if name == "claim-immediate":
        spec["storageClassName"] = IMMEDIATE
        return [(path, claim)]
    if name == DELETED:
        claim["metadata"]["finalizers"] = ["example.com/keep"]
    if kind in (DYNAMIC, CAPPED):
        spec["storageClassName"] = kind
        return [(path, claim)]
    volume = _volume(rng, f"pv-{namespace}-{name}", modes, node_names)
    spec["storageClassName"] = volume["spec"]["storageClassName"] = LOCAL
    if kind == "bound" or name == LOST:
        volume["spec"]["capacity"] = {"storage": wanted}
        volume["spec"]["claimRef"] = {"namespace": namespace, "name": name}
        spec["volumeName"] = volume["metadata"]["name"]
        claim["metadata"]["annotations"] = {BOUND: "yes"}
        if name == LOST or rng.random() < 0.03:
            return [(path, claim)]
    else:
        volume["spec"]["capacity"] = {"storage": f"{sizes.pop()}Gi"}
        if rng.random() < 0.15:  # kept for this claim, or for another that may come
            kept_for = rng.choice((name, "claim-missing"))
            volume["spec"]["claimRef"] = {"namespace": namespace, "name": kept_for}
        if rng.random() < 0.3:
            volume["metadata"]["labels"] = {"disk": rng.choice(DISKS)}
            spec["selector"] = {"matchLabels": {"disk": rng.choice(DISKS)}}
    return [("/api/v1/persistentvolumes", volume), (path, claim)]


def _volume(rng: random.Random, name: str, modes: list[str], node_names: list[str]) -> Json:
    source: Json = rng.choice(
        (
            {"csi": {"driver": DRIVER, "volumeHandle": rng.choice((name, name, "shared"))}},
            {"csi": {"driver": "other.csi.example", "volumeHandle": name}},
            {"hostPath": {"path": "/data"}},
            {"gcePersistentDisk": {"pdName": rng.choice(("d1", name))}},
        )
    )
    spec: Json = {"accessModes": modes, **source}
    metadata: Json = {"name": name}
    if rng.random() < 0.5:
        key, values = rng.choice(
            ((ZONE, rng.sample(ZONES, 2)), (HOST, rng.sample(node_names, min(5, len(node_names)))))
        )
        terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    elif rng.random() < 0.3:
        zones = "__".join(rng.sample(ZONES, rng.choice((1, 2))))
        metadata["labels"] = rng.choice(
            ({ZONE: zones}, {"failure-domain.beta.kubernetes.io/zone": zones}, {REGION: "r1"})
        )
    return {"metadata": metadata, "spec": spec}
