"""What users and nodes do to a cluster, as a table: name, weight, and the requests that it makes.

Owns: the operations and the objects in them. Does not own: when they come (`driver`), what they lead to (`state`).
An operation that finds nothing to work on does nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from bench.reliability.client import Client
from bench.reliability.state import State, finished, node_of

Json = dict[str, Any]
T = TypeVar("T")

NAMESPACE: Final = "reliability"
PROFILE: Final = "herodotus-scheduler"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
NODES: Final = "/api/v1/nodes"
CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
GATE: Final = {"name": "example.com/wait"}
TAINT: Final = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
ZONES: Final = ("zone-a", "zone-b", "zone-c")
MOST_NODES, FEWEST_NODES, MOST_PODS = 16, 6, 250


@dataclass(frozen=True)
class World:
    """What an operation may use: the cluster's door, the model as of now, chance, and names that are new."""

    api: Client
    state: State
    draw: random.Random
    fresh: Callable[[str], str]


@dataclass(frozen=True)
class Operation:
    """One kind of change. `weight`: how often it comes, against the others."""

    name: str
    weight: int
    run: Callable[[World], None]


def node(name: str, zone: str, cpu: str = "4") -> Json:
    """A node with room for forty small pods."""
    amounts = {"cpu": cpu, "memory": "64Gi", "pods": "60"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    metadata = {"name": name, "labels": labels}
    return {"metadata": metadata, "status": {"allocatable": amounts, "capacity": amounts}}


def pod(name: str, draw: random.Random, **spec: Any) -> Json:
    """A pod of a random size, some of them with a wish about their node."""
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


def create_pods(world: World) -> None:
    """A few at once, as a controller does."""
    if len(world.state.pods) < MOST_PODS:
        for _ in range(world.draw.randint(1, 6)):
            world.api.create(PODS, pod(world.fresh("pod"), world.draw))


def create_gated_pod(world: World) -> None:
    """It waits for somebody to lift its gate."""
    world.api.create(PODS, pod(world.fresh("gated"), world.draw, schedulingGates=[GATE]))


def create_important_pod(world: World) -> None:
    """It may preempt others."""
    world.api.create(PODS, pod(world.fresh("vip"), world.draw, priorityClassName="important"))


def lift_gate(world: World) -> None:
    """The pod may be scheduled now."""
    gated = _one(world, lambda p: bool(p["spec"].get("schedulingGates")))
    if gated:
        world.api.patch(_path(gated), {"spec": {"schedulingGates": None}})


def delete_pod(world: World) -> None:
    """Any pod, wherever it is."""
    if len(world.state.pods) > MOST_PODS // 4 and (found := _one(world, lambda p: True)):
        world.api.delete(_path(found))


def delete_pending_pod(world: World) -> None:
    """One that waits, or is just being placed."""
    if found := _one(world, lambda p: not node_of(p)):
        world.api.delete(_path(found))


def recreate_pod(world: World) -> None:
    """The same name, another pod, at once."""
    if found := _one(world, lambda p: True):
        world.api.delete(_path(found))
        world.api.create(PODS, pod(found["metadata"]["name"], world.draw))


def finish_pod(world: World) -> None:
    """It ran to its end and needs no room any more."""
    if found := _one(world, lambda p: bool(node_of(p)) and not finished(p)):
        world.api.patch(f"{_path(found)}/status", {"status": {"phase": world.draw.choice(("Succeeded", "Failed"))}})


def relabel_pod(world: World) -> None:
    """What others' terms about it say may change."""
    if found := _one(world, lambda p: True):
        world.api.patch(_path(found), {"metadata": {"labels": {"app": world.draw.choice(("spread", "other"))}}})


def add_node(world: World) -> None:
    """An empty node."""
    if len(world.state.nodes) < MOST_NODES:
        world.api.create(NODES, node(world.fresh("node"), world.draw.choice(ZONES)))


def remove_node(world: World) -> None:
    """A node goes, and the pods on it, as the pod garbage collector sees to it."""
    if len(world.state.nodes) > FEWEST_NODES and (name := _some(world, sorted(world.state.nodes))):
        world.api.delete(f"{NODES}/{name}")
        for found in [p for p in world.state.bound() if node_of(p) == name]:
            world.api.delete(_path(found))


def taint_node(world: World) -> None:
    """New pods must tolerate it."""
    _change_node(world, {"spec": {"taints": [TAINT]}})


def lift_taint(world: World) -> None:
    """Anybody may come again."""
    _change_node(world, {"spec": {"taints": None}}, lambda n: bool((n.get("spec") or {}).get("taints")))


def cordon(world: World) -> None:
    """No new pods."""
    _change_node(world, {"spec": {"unschedulable": True}})


def uncordon(world: World) -> None:
    """New pods again."""
    _change_node(world, {"spec": {"unschedulable": None}}, lambda n: bool((n.get("spec") or {}).get("unschedulable")))


def shrink_node(world: World) -> None:
    """The node offers less, perhaps less than is on it."""
    _resize(world, world.draw.choice(("1", "2", "3")))


def grow_node(world: World) -> None:
    """The node offers all it has again."""
    _resize(world, "4")


OPERATIONS: Final = (
    Operation("create pods", 30, create_pods),
    Operation("create a gated pod", 5, create_gated_pod),
    Operation("create an important pod", 4, create_important_pod),
    Operation("lift a gate", 5, lift_gate),
    Operation("delete a pod", 55, delete_pod),
    Operation("delete a pending pod", 4, delete_pending_pod),
    Operation("recreate a pod", 4, recreate_pod),
    Operation("finish a pod", 10, finish_pod),
    Operation("relabel a pod", 6, relabel_pod),
    Operation("add a node", 3, add_node),
    Operation("remove a node", 2, remove_node),
    Operation("taint a node", 2, taint_node),
    Operation("lift a taint", 3, lift_taint),
    Operation("cordon a node", 2, cordon),
    Operation("uncordon a node", 3, uncordon),
    Operation("shrink a node", 3, shrink_node),
    Operation("grow a node", 4, grow_node),
)


def prepare(api: Client) -> None:
    """The cluster before the first operation."""
    api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    api.create(CLASSES, {"metadata": {"name": "important"}, "value": 1000})
    for number in range(MOST_NODES // 2):
        api.create(NODES, node(f"first-{number}", ZONES[number % len(ZONES)]))


def settle(world: World) -> None:
    """Room for most: every node is open and whole."""
    for name in sorted(world.state.nodes):
        world.api.patch(f"{NODES}/{name}", {"spec": {"taints": None, "unschedulable": None}})
        world.api.patch(f"{NODES}/{name}/status", {"status": {"allocatable": {"cpu": "4"}}})


def settled(state: State) -> bool:
    """Whether the journal has seen that `settle` did so, and the end of every pod that was asked to end."""
    whole = all(
        not (n.get("spec") or {}).keys() & {"taints", "unschedulable"} and n["status"]["allocatable"]["cpu"] == "4"
        for n in state.nodes.values()
    )
    return whole and not any(p["metadata"].get("deletionTimestamp") for p in state.pods.values())


def reap(world: World) -> None:
    """What a kubelet does: pods that were asked to end, end."""
    for found in [p for p in world.state.pods.values() if p["metadata"].get("deletionTimestamp")]:
        world.api.delete(_path(found))


def _path(found: Json) -> str:
    return f"{PODS}/{found['metadata']['name']}"


def _one(world: World, wanted: Callable[[Json], bool]) -> Json | None:
    return _some(world, [p for _, p in sorted(world.state.pods.items()) if wanted(p)])


def _some(world: World, choices: Sequence[T]) -> T | None:
    return world.draw.choice(choices) if choices else None


def _change_node(world: World, patch: Json, wanted: Callable[[Json], bool] = lambda n: True) -> None:
    if name := _some(world, sorted(n for n, obj in world.state.nodes.items() if wanted(obj))):
        world.api.patch(f"{NODES}/{name}", patch)


def _resize(world: World, cpu: str) -> None:
    if name := _some(world, sorted(world.state.nodes)):
        world.api.patch(f"{NODES}/{name}/status", {"status": {"allocatable": {"cpu": cpu}}})
