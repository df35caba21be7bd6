"""A random cluster on a real API server, with stand-ins for kubelet and volume controller.

Owns: every object between two decisions. Does not own: which objects there are (`random_cluster`), decisions
(`parity`).
Invariant: `objects` is what kube-scheduler's caches hold once it is idle.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from scheduler.engine.objects.watched_kinds import KINDS
from tests.e2e.cluster import Cluster
from tests.e2e.random_cluster import RandomCluster
from tests.e2e.random_pods import NAMESPACES, ZONE
from tests.e2e.random_volumes import BOUND, DELETED, DRIVER, LOST

Json = dict[str, Any]

SELECTED = "volume.kubernetes.io/selected-node"
SETTLE_EVERY_S = 0.03
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
VOLUMES, CLAIMS = "/api/v1/persistentvolumes", "/api/v1/persistentvolumeclaims"
COLLECTIONS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    **{kind.decode_as.__name__: kind.path for kind in KINDS},
}
_IN_NAMESPACES = (
    *("/api/v1/{}/pods", "/apis/events.k8s.io/v1/{}/events", "/api/v1/{}/services"),
    *("/api/v1/{}/replicationcontrollers", "/apis/apps/v1/{}/replicasets", "/apis/apps/v1/{}/statefulsets"),
    *("/apis/policy/v1/{}/poddisruptionbudgets", "/api/v1/{}/persistentvolumeclaims"),
    "/apis/storage.k8s.io/v1/{}/csistoragecapacities",
)
_EVERYTHING = (
    *(path.format(f"namespaces/{namespace}") for path in _IN_NAMESPACES for namespace in NAMESPACES),
    *(VOLUMES, "/api/v1/nodes", "/apis/node.k8s.io/v1/runtimeclasses"),
    *(f"/apis/storage.k8s.io/v1/{k}" for k in ("storageclasses", "csinodes", "csidrivers", "volumeattachments")),
)


class ParityCluster:
    """The objects of one seed. The constructor deletes those of an earlier seed and creates these."""

    def __init__(self, api: Cluster, random: RandomCluster) -> None:
        self._api = api
        self._objects: dict[tuple[str, str, str], Json] = {}
        self._settled_s = 0.0
        for claim in api.items(CLAIMS):
            if claim["metadata"].get("finalizers"):
                api.patch(path_of("PersistentVolumeClaim", claim), {"metadata": {"finalizers": None}})
        for path in _EVERYTHING:
            api.delete_all(path)
        self._create(random)
        for kind in COLLECTIONS:
            self.reread(kind)

    def objects(self) -> list[Json]:
        """Return every object as read from the API server."""
        return list(self._objects.values())

    def has(self, pod: str) -> bool:
        """Return whether a pod (`namespace/name`) exists."""
        return ("Pod", *pod.split("/")) in self._objects

    def reread(self, kind: str) -> None:
        """Read every object of a kind again."""
        for key in [key for key in self._objects if key[0] == kind]:
            del self._objects[key]
        for item in self._api.items(COLLECTIONS[kind]):
            metadata = item["metadata"]
            self._objects[kind, metadata.get("namespace", ""), metadata["name"]] = {**item, "kind": kind}

    def reread_pod(self, pod: str) -> None:
        """Read one pod (`namespace/name`) again."""
        namespace, name = pod.split("/")
        self._objects.pop(("Pod", namespace, name), None)
        found = self._api.find(f"/api/v1/namespaces/{namespace}/pods/{name}")
        if found:
            self._objects["Pod", namespace, name] = {**found, "kind": "Pod"}

    def _create(self, random: RandomCluster) -> None:
        api = self._api
        there = {n["metadata"]["name"] for n in api.items(COLLECTIONS["Namespace"])}
        there |= {c["metadata"]["name"] for c in api.items(PRIORITY_CLASSES)}
        for name, labels in NAMESPACES.items():
            if name not in there:
                api.create(COLLECTIONS["Namespace"], {"metadata": {"name": name, "labels": labels}})
        first = [made for made in random.first() if made[1]["metadata"]["name"] not in there]
        api.create_all(COLLECTIONS["Node"], random.nodes())
        running = random.running()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda made: api.create(*made), first))
            list(pool.map(self.start, pool.map(lambda pod: api.create(pods_of(pod), pod), running)))
        for number, budget in enumerate(api.items(COLLECTIONS["PodDisruptionBudget"])):
            disrupted = running[number]["metadata"]["name"] if number % 4 == 0 else None
            api.patch(f"{path_of('PodDisruptionBudget', budget)}/status", _budget_status(number % 3, disrupted))
        for volume in api.items(VOLUMES):
            if "claimRef" not in volume["spec"]:
                api.patch(f"{path_of('PersistentVolume', volume)}/status", {"status": {"phase": "Available"}})
        for claim in api.items(CLAIMS):
            path = path_of("PersistentVolumeClaim", claim)
            if claim["metadata"]["name"] == LOST:
                api.patch(f"{path}/status", {"status": {"phase": "Lost"}})
            elif claim["metadata"]["name"] == DELETED:
                api.delete(path)

    # --- the kubelet ------------------------------------------------------------------------------------------------

    def start(self, pod: Json) -> None:
        """Write the status of a started pod as a kubelet would; some pods are being resized in place."""
        kind, _, digits = pod["metadata"]["name"].partition("-")
        number = int(digits) + 50_000 * (kind == "new")
        seconds = (number * 7919) % 86400  # all different, in no order
        time_of_day = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        phase = "Succeeded" if kind == "old" and number % 23 == 0 else "Running"
        status: Json = {"phase": phase, "startTime": f"2026-01-01T{time_of_day}Z"}
        if number % 6 == 0:
            amounts = ({"cpu": "700m"}, {"cpu": "10m", "memory": "900Mi"})
            status["containerStatuses"] = [
                {"name": c["name"], "image": "x", "imageID": "x", "ready": True, "restartCount": 0}
                | {"resources": {"requests": amounts[number % 2]}, "allocatedResources": amounts[i % 2]}
                for i, c in enumerate(pod["spec"]["containers"])
            ]
        if "resources" in pod["spec"] and number % 2:
            whole = ({"cpu": "7", "memory": "25Gi"}, {"cpu": "25", "memory": "1Gi"})[number % 4 // 2]
            given = {key: whole[key] for key in pod["spec"]["resources"].get("requests", ()) if key in whole}
            status |= {"resources": {"requests": given}, "allocatedResources": given}
        if number % 18 == 0:
            status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
        self._api.patch(f"{path_of('Pod', pod)}/status", {"status": status})

    # --- the volume controller --------------------------------------------------------------------------------------

    def settle_volumes(self) -> None:
        """Bind claims to the volumes that kube-scheduler chose, and provision the volumes that it requested."""
        if time.monotonic() - self._settled_s < SETTLE_EVERY_S:
            return
        self._settled_s = time.monotonic()
        chosen = {
            (ref["namespace"], ref["name"]): v["metadata"]["name"]
            for v in self._api.items(VOLUMES)
            if (ref := v["spec"].get("claimRef")) and ref.get("uid")
        }
        for claim in self._api.items(CLAIMS):
            metadata = claim["metadata"]
            if claim["spec"].get("volumeName"):
                continue
            volume = chosen.get((metadata["namespace"], metadata["name"]))
            if volume is None and SELECTED in (metadata.get("annotations") or {}):
                volume = self._provision(claim)
            if volume is not None:
                path = path_of("PersistentVolumeClaim", claim)
                bound = {"metadata": {"annotations": {BOUND: "yes"}}, "spec": {"volumeName": volume}}
                self._api.patch(path, bound)
                self._api.patch(f"{path}/status", {"status": {"phase": "Bound"}})

    def _provision(self, claim: Json) -> str:
        metadata, spec = claim["metadata"], claim["spec"]
        name = f"made-{metadata['uid']}"
        made: Json = {
            "accessModes": spec["accessModes"],
            "capacity": spec["resources"]["requests"],
            "storageClassName": spec["storageClassName"],
            "claimRef": {"kind": "PersistentVolumeClaim", **{k: metadata[k] for k in ("namespace", "name", "uid")}},
            "csi": {"driver": DRIVER, "volumeHandle": name},
        }
        node = self._objects["Node", "", metadata["annotations"][SELECTED]]
        zone = node["metadata"]["labels"].get(ZONE)
        if zone:
            terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
            made["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        self._api.create(VOLUMES, {"metadata": {"name": name}, "spec": made})
        return name


def path_of(kind: str, body: Json) -> str:
    """Return the path of an object."""
    group, _, plural = COLLECTIONS[kind].rpartition("/")
    namespace = body["metadata"].get("namespace")
    return f"{group}/{f'namespaces/{namespace}/' if namespace else ''}{plural}/{body['metadata']['name']}"


def pods_of(pod: Json) -> str:
    """Return the path of the pods in a pod's namespace."""
    return path_of("Pod", pod).rpartition("/")[0]


def _budget_status(allowed: int, disrupted: str | None) -> Json:
    status: Json = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    if disrupted:
        status["disruptedPods"] = {disrupted: "2026-01-01T00:00:00Z"}
    return {"status": status}
