"""Devices of nodes, claims of pods, and their moves with claims, for random clusters as manifests."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from scheduler.engine.columns import Snapshot
from scheduler.engine.cycle import schedule_regardless_of_group
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import PodStatus
from scheduler.engine.whatif.claims import SimulatedClaims
from scheduler.engine.whatif.simulation import WhatIfState

Json = dict[str, Any]
API: Final = "resource.k8s.io/v1"
DRIVER, CLASS = "card.example.com", "card"
MODELS: Final = ("small", "large")
ALL: Final = "all"  # the name of the claim request


class DeviceWorkload:
    """The claims of one workload: `count` devices for each pod, or one claim that its pods share."""

    def __init__(self, rng: random.Random, name: str, count: int, *, shared: bool) -> None:
        self.name, self.count, self.shared = name, count, shared
        self._model = rng.choice(MODELS) if count <= 2 and rng.random() < 0.3 else ""
        self.node = ""  # of the claim that the pods share
        self._users: list[Json] = []
        self._devices: list[str] = []

    def request_devices(self) -> Json:
        """Return the spec of the claim."""
        exactly: Json = {"deviceClassName": CLASS, "count": self.count}
        if self._model:
            expression = f'device.attributes["{DRIVER}"].model == "{self._model}"'
            exactly["selectors"] = [{"cel": {"expression": expression}}]
        return {"devices": {"requests": [{"name": ALL, "exactly": exactly}]}}

    def find_devices(self, node: str, free: dict[str, list[str]]) -> list[str] | None:
        """Return the devices of a node that a further pod there needs, or None if they are not free."""
        if self.shared and self.node:
            return [] if self.node == node else None
        matching = [each for each in free.get(node, ()) if not self._model or self._model in each]
        return matching[: self.count] if len(matching) >= self.count else None

    def attach(self, pod: Json, node: str, devices: list[str]) -> list[Json]:
        """Give a pod its claim, with these devices if the pod is on a node; return the claim unless it is shared."""
        source = "resourceClaimName" if self.shared else "resourceClaimTemplateName"
        pod["spec"]["resourceClaims"] = [{"name": "d", source: self.name}]
        metadata = pod["metadata"]
        user = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
        if self.shared:
            self._users += [user] if node else []
            self.node, self._devices = node, self._devices or devices
            return []
        name = f"{metadata['name']}-d"
        pod["status"] = pod["status"] | {"resourceClaimStatuses": [{"name": "d", "resourceClaimName": name}]}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        return [self._make_claim(name, node, devices, [user], ownerReferences=[owner | {"controller": True}])]

    def list_objects(self) -> list[Json]:
        """Return the template, or the claim that pods share."""
        if self.shared:
            return [self._make_claim(self.name, self.node, self._devices, self._users)]
        metadata = {"name": self.name, "namespace": "shop"}
        spec = {"spec": self.request_devices()}
        return [{"apiVersion": API, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}]

    def _make_claim(self, name: str, node: str, devices: list[str], users: list[Json], **metadata: Any) -> Json:
        claim: Json = {"apiVersion": API, "kind": "ResourceClaim", "spec": self.request_devices()}
        claim["metadata"] = {"name": name, "namespace": "shop", "uid": f"uid-{name}", **metadata}
        if node:
            results = [{"request": ALL, "driver": DRIVER, "pool": node, "device": each} for each in devices]
            terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
            allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": terms}}
            claim["status"] = {"allocation": allocation, "reservedFor": users}
            claim["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
        return claim


def make_devices(rng: random.Random, nodes: Sequence[str]) -> tuple[list[Json], dict[str, list[str]]]:
    """Return a class and slices, and the names of the devices of each node."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    objects: list[Json] = [
        {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": CLASS}, "spec": {"selectors": [selector]}}
    ]
    free = {}
    for node in nodes:
        free[node] = [f"{rng.choice(MODELS)}-{i}" for i in range(rng.choice((0, 2, 3)))]
        devices = [{"name": each, "attributes": {"model": {"string": each.split("-")[0]}}} for each in free[node]]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": devices}
        objects.append({"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec})
    return objects, free


def place_with_claims(state: WhatIfState, pod: PodInfo, node: str) -> Callable[[], None]:
    """Put a pod that waits on a node, with devices for its claims as its binding allocates them; return the undoing."""
    claims = SimulatedClaims(state.objects)
    if pod.pod.spec.resource_claims:
        framework = state.framework(pod.pod.spec.scheduler_name)
        assert framework is not None
        claims.allocate(
            pod, node, schedule_regardless_of_group(framework, pod, Snapshot.from_columns(state.nodes), 0).state
        )
    state.nodes.add_pod(pod, node)

    def undo() -> None:
        state.nodes.remove_pod(pod.uid, node)
        claims.undo(0)

    return undo


def take_off_with_claims(state: WhatIfState, pod: PodInfo, node: str) -> tuple[PodInfo, Callable[[], None]]:
    """Remove a pod from its node; return the pod that its controller creates, with new claims, and the undoing."""
    claims = SimulatedClaims(state.objects)
    state.nodes.remove_pod(pod.uid, node)
    claims.release(pod)
    spec = msgspec.structs.replace(pod.pod.spec, node_name="")
    again = claims.generate(PodInfo(msgspec.structs.replace(pod.pod, spec=spec, status=PodStatus())))

    def undo() -> None:
        claims.undo(0)
        state.nodes.add_pod(pod, node)

    return again, undo
