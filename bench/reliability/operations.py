"""What users and nodes do to a cluster, as a table: name, weight, and the requests that it makes.

Owns: the operations, the objects in them, and the client that repeats requests until they are answered. Does not own:
when they come (`driver`), what they lead to (`journal`). An operation that finds nothing to work on does nothing.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import httpx

from bench.reliability.journal import ClusterModel, is_finished, node_of, reserving_pods

Json = dict[str, Any]
T = TypeVar("T")

NAMESPACE: Final = "reliability"
PROFILE: Final = "herodotus-scheduler"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
NODES: Final = "/api/v1/nodes"
CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
DEVICE_CLASSES: Final = "/apis/resource.k8s.io/v1/deviceclasses"
CLAIMS: Final = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
DEVICE_CLASS: Final = "device"
DELETE_SHARE: Final = 0.2  # of claims without a pod at each look: its pod may not have been seen yet
DEVICES: Final = 3  # of a node
GATE: Final = {"name": "example.com/wait"}
TAINT: Final = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
ZONES: Final = ("zone-a", "zone-b", "zone-c")
MOST_NODES, FEWEST_NODES, MOST_PODS = 16, 6, 250
PATIENCE_S: Final = 60.0  # three times the longest stall
MERGE_PATCH: Final = {"Content-Type": "application/merge-patch+json"}
AT_ONCE: Final = {"gracePeriodSeconds": 0}


class RetryingClient:
    """An administrator's client with one connection, for one thread.

    It ignores conflicts with concurrent changes: an existing name, a deleted or modified object.
    """

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self._http = httpx.Client(base_url=url, headers=headers, verify=False, timeout=10.0)

    def create(self, path: str, body: Json) -> None:
        """Send a POST with an object."""
        self._send("POST", path, (409, 403), json=body)  # 403: the namespace is terminating, or a quota is exceeded.

    def patch(self, path: str, body: Json) -> None:
        """Send a merge patch."""
        self._send("PATCH", path, (404, 409, 422), content=json.dumps(body), headers=MERGE_PATCH)

    def delete(self, path: str) -> None:
        """Send a DELETE without a grace period."""
        self._send("DELETE", path, (404, 409), json=AT_ONCE)

    def put(self, path: str, body: Json) -> None:
        """Send a PUT with an object."""
        self._send("PUT", path, (), json=body)

    def post(self, path: str) -> None:
        """Send a POST without a body."""
        self._send("POST", path, ())

    def close(self) -> None:
        """Close the connection to the API server."""
        self._http.close()

    def _send(self, method: str, path: str, accepted: tuple[int, ...], **request: Any) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                response = self._http.request(method, path, **request)
                if response.status_code < 400 or response.status_code in accepted:
                    return
                if response.status_code not in (429, 500, 503, 504) or time.monotonic() > deadline:
                    raise RuntimeError(f"{method} {path}: {response.status_code} {response.text}")
            except httpx.TransportError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)


class UserClient(Protocol):
    """The requests of an operation. Conflicts with concurrent changes are ignored."""

    def create(self, path: str, body: Json) -> None:
        """Send a POST with an object."""

    def patch(self, path: str, body: Json) -> None:
        """Send a merge patch."""

    def delete(self, path: str) -> None:
        """Send a DELETE without a grace period."""


@dataclass(frozen=True)
class OperationContext:
    """The client, the current model, the random generator and a source of new names for operations."""

    api: UserClient
    state: ClusterModel
    draw: random.Random
    fresh: Callable[[str], str]
    fewest_pods: int = MOST_PODS // 4
    """`delete_pod` deletes nothing while there are at most this many pods."""


@dataclass(frozen=True)
class ClusterOperation:
    """One kind of change; `weight` is its relative frequency."""

    name: str
    weight: int
    run: Callable[[OperationContext], None]


def node(name: str, zone: str, cpu: str = "4") -> Json:
    """Return the manifest of a node; with the default `cpu` it has room for forty small pods."""
    amounts = {"cpu": cpu, "memory": "64Gi", "pods": "60"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    metadata = {"name": name, "labels": labels}
    return {"metadata": metadata, "status": {"allocatable": amounts, "capacity": amounts}}


def resource_slice(node_name: str) -> Json:
    """Return the slice with the devices of a node."""
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"device-{i}"} for i in range(DEVICES)]
    spec = {"driver": "device.example.com", "pool": pool, "nodeName": node_name, "devices": devices}
    return {"metadata": {"name": node_name}, "spec": spec}


def pod(name: str, draw: random.Random, **spec: Any) -> Json:
    """Return a pod of a random size, sometimes with node constraints."""
    requests = {"cpu": f"{draw.choice((50, 100, 200, 300, 700, 1500))}m"}
    if draw.random() < 0.15:
        spec["nodeSelector"] = {"topology.kubernetes.io/zone": draw.choice(ZONES)}
    if draw.random() < 0.2:
        spec["tolerations"] = [{"key": TAINT["key"], "operator": "Exists"}]
    if draw.random() < 0.15:
        selector = {"matchLabels": {"app": "spread"}}
        constraint = {"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
        spec["topologySpreadConstraints"] = [{**constraint, "labelSelector": selector}]
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}
    metadata = {"name": name, "labels": {"app": draw.choice(("spread", "other"))}}
    return {"metadata": metadata, "spec": {"schedulerName": PROFILE, "containers": [container], **spec}}


def small_pod(name: str) -> Json:
    """Return a pod that fits on any node."""
    requests = {"cpu": "50m"}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}
    return {"metadata": {"name": name}, "spec": {"schedulerName": PROFILE, "containers": [container]}}


def create_pods(world: OperationContext) -> None:
    """Create a few pods at once, as a controller does."""
    if len(world.state.pods) < MOST_PODS:
        for _ in range(world.draw.randint(1, 6)):
            world.api.create(PODS, pod(world.fresh("pod"), world.draw))


def create_gated_pod(world: OperationContext) -> None:
    """Create a pod with a scheduling gate."""
    world.api.create(PODS, pod(world.fresh("gated"), world.draw, schedulingGates=[GATE]))


def create_important_pod(world: OperationContext) -> None:
    """Create a pod that may preempt others."""
    world.api.create(PODS, pod(world.fresh("vip"), world.draw, priorityClassName="important"))


def create_claiming_pods(world: OperationContext) -> None:
    """Create pods with a resource claim each, for one or two devices."""
    for _ in range(world.draw.randint(1, 3)):
        name = world.fresh("claiming")
        exactly = {"deviceClassName": DEVICE_CLASS, "count": world.draw.choice((1, 1, 2))}
        requests = [{"name": "device", "exactly": exactly}]
        world.api.create(CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}})
        claims = [{"name": "device", "resourceClaimName": name}]
        world.api.create(PODS, pod(name, world.draw, resourceClaims=claims))


def lift_gate(world: OperationContext) -> None:
    """Remove a pod's scheduling gate."""
    gated = _pick_object(world, lambda p: bool(p["spec"].get("schedulingGates")))
    if gated:
        world.api.patch(_path(gated), {"spec": {"schedulingGates": None}})


def delete_pod(world: OperationContext) -> None:
    """Delete a pod that is chosen at random."""
    if len(world.state.pods) > world.fewest_pods and (target := _pick_object(world, lambda p: True)):
        world.api.delete(_path(target))


def delete_pending_pod(world: OperationContext) -> None:
    """Delete a random pod that has no node yet."""
    if target := _pick_object(world, lambda p: not node_of(p)):
        world.api.delete(_path(target))


def recreate_pod(world: OperationContext) -> None:
    """Delete a pod and create another one with the same name at once."""
    if target := _pick_object(world, lambda p: True):
        world.api.delete(_path(target))
        world.api.create(PODS, pod(target["metadata"]["name"], world.draw))


def finish_pod(world: OperationContext) -> None:
    """Set a pod to Succeeded, so that it needs no capacity."""
    if target := _pick_object(world, lambda p: bool(node_of(p)) and not is_finished(p)):
        world.api.patch(f"{_path(target)}/status", {"status": {"phase": world.draw.choice(("Succeeded", "Failed"))}})


def relabel_pod(world: OperationContext) -> None:
    """Change a pod's labels, to which other pods' affinity terms may refer."""
    if target := _pick_object(world, lambda p: True):
        world.api.patch(_path(target), {"metadata": {"labels": {"app": world.draw.choice(("spread", "other"))}}})


def add_node(world: OperationContext) -> None:
    """Add an empty node."""
    if len(world.state.nodes) < MOST_NODES:
        name = world.fresh("node")
        world.api.create(NODES, node(name, world.draw.choice(ZONES)))
        world.api.create(SLICES, resource_slice(name))


def remove_node(world: OperationContext) -> None:
    """Delete a node and its pods, as the pod garbage collector does."""
    if len(world.state.nodes) > FEWEST_NODES and (name := _pick(world, sorted(world.state.nodes))):
        world.api.delete(f"{NODES}/{name}")
        world.api.delete(f"{SLICES}/{name}")
        for bound in [p for p in world.state.bound() if node_of(p) == name]:
            world.api.delete(_path(bound))


def taint_node(world: OperationContext) -> None:
    """Add a taint to a node."""
    _change_node(world, {"spec": {"taints": [TAINT]}})


def lift_taint(world: OperationContext) -> None:
    """Remove a node's taint."""
    _change_node(world, {"spec": {"taints": None}}, lambda n: bool((n.get("spec") or {}).get("taints")))


def cordon(world: OperationContext) -> None:
    """Make a node unschedulable."""
    _change_node(world, {"spec": {"unschedulable": True}})


def uncordon(world: OperationContext) -> None:
    """Make a node schedulable again."""
    _change_node(world, {"spec": {"unschedulable": None}}, lambda n: bool((n.get("spec") or {}).get("unschedulable")))


def shrink_node(world: OperationContext) -> None:
    """Reduce a node's allocatable cpu, possibly below the requests of its pods."""
    _resize(world, world.draw.choice(("1", "2", "3")))


def grow_node(world: OperationContext) -> None:
    """Restore the original allocatable cpu of a node."""
    _resize(world, "4")


OPERATIONS: Final = (
    ClusterOperation("create pods", 30, create_pods),
    ClusterOperation("create a gated pod", 5, create_gated_pod),
    ClusterOperation("create an important pod", 4, create_important_pod),
    ClusterOperation("create pods with claims", 8, create_claiming_pods),
    ClusterOperation("lift a gate", 5, lift_gate),
    ClusterOperation("delete a pod", 55, delete_pod),
    ClusterOperation("delete a pending pod", 4, delete_pending_pod),
    ClusterOperation("recreate a pod", 4, recreate_pod),
    ClusterOperation("finish a pod", 10, finish_pod),
    ClusterOperation("relabel a pod", 6, relabel_pod),
    ClusterOperation("add a node", 3, add_node),
    ClusterOperation("remove a node", 2, remove_node),
    ClusterOperation("taint a node", 2, taint_node),
    ClusterOperation("lift a taint", 3, lift_taint),
    ClusterOperation("cordon a node", 2, cordon),
    ClusterOperation("uncordon a node", 3, uncordon),
    ClusterOperation("shrink a node", 3, shrink_node),
    ClusterOperation("grow a node", 4, grow_node),
)


def prepare(api: UserClient, nodes: int = MOST_NODES // 2) -> None:
    """Create the objects that exist before the first operation; `nodes` is the number of nodes."""
    api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    api.create(CLASSES, {"metadata": {"name": "important"}, "value": 1000})
    api.create(DEVICE_CLASSES, {"metadata": {"name": DEVICE_CLASS}, "spec": {}})
    for number in range(nodes):
        api.create(NODES, node(f"first-{number}", ZONES[number % len(ZONES)]))
        api.create(SLICES, resource_slice(f"first-{number}"))


def settle(world: OperationContext) -> None:
    """Make every node schedulable with full capacity, so that most pods fit."""
    for name in sorted(world.state.nodes):
        world.api.patch(f"{NODES}/{name}", {"spec": {"taints": None, "unschedulable": None}})
        world.api.patch(f"{NODES}/{name}/status", {"status": {"allocatable": {"cpu": "4"}}})


def is_settled(state: ClusterModel) -> bool:
    """Return whether the journal has seen all nodes schedulable with full capacity and all deleted pods removed.

    No claim is reserved for a removed pod either.
    """
    whole = all(
        not (n.get("spec") or {}).keys() & {"taints", "unschedulable"} and n["status"]["allocatable"]["cpu"] == "4"
        for n in state.nodes.values()
    )
    gone = [uid for claim in state.claims for uid in reserving_pods(claim) if uid not in state.pods]
    return whole and not gone and not any(p["metadata"].get("deletionTimestamp") for p in state.pods.values())


def reap(world: OperationContext) -> None:
    """Remove pods that are being deleted, as a kubelet does."""
    for terminating in [p for p in world.state.pods.values() if p["metadata"].get("deletionTimestamp")]:
        world.api.delete(_path(terminating))
    for claim in list(world.state.claims):
        _free_claim(world, claim)


def _free_claim(world: OperationContext, claim: Json) -> None:
    """Free or delete a claim whose pods are gone or finished, as kube-controller-manager does."""
    users, path = reserving_pods(claim), f"{CLAIMS}/{claim['metadata']['name']}"
    pods = world.state.pods
    if users and all(uid not in pods or is_finished(pods[uid]) for uid in users):
        version = claim["metadata"]["resourceVersion"]  # a reservation that was added meanwhile is a conflict
        free = {"allocation": None, "reservedFor": None, "devices": None}
        world.api.patch(f"{path}/status", {"metadata": {"resourceVersion": version}, "status": free})
    elif not users and claim["metadata"]["name"] not in {p["metadata"]["name"] for p in pods.values()}:
        if claim["metadata"].get("finalizers"):
            world.api.patch(path, {"metadata": {"finalizers": None}})
        elif world.draw.random() < DELETE_SHARE:
            world.api.delete(path)


def _path(target: Json) -> str:
    return f"{PODS}/{target['metadata']['name']}"


def _pick_object(world: OperationContext, is_eligible: Callable[[Json], bool]) -> Json | None:
    return _pick(world, [p for _, p in sorted(world.state.pods.items()) if is_eligible(p)])


def _pick(world: OperationContext, choices: Sequence[T]) -> T | None:
    return world.draw.choice(choices) if choices else None


def _change_node(world: OperationContext, patch: Json, is_eligible: Callable[[Json], bool] = lambda n: True) -> None:
    if name := _pick(world, sorted(n for n, obj in world.state.nodes.items() if is_eligible(obj))):
        world.api.patch(f"{NODES}/{name}", patch)


def _resize(world: OperationContext, cpu: str) -> None:
    if name := _pick(world, sorted(world.state.nodes)):
        world.api.patch(f"{NODES}/{name}/status", {"status": {"allocatable": {"cpu": cpu}}})
