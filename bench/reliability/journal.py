"""The observed history: every change of pods, nodes, claims, devices and the Lease, and the model after each change.

Owns: its own watches, which share no code with the scheduler's; the changes in order of resource versions; capacity and
fit derived from them. The driver queries the current model; the invariants replay it and stop at every change.

Invariant: each change is recorded once, in order of its kind. A change that an expired watch skipped is found by
listing and recorded at the version of the object (a deletion: at the last known version).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

Json = dict[str, Any]

FINISHED: Final = ("Succeeded", "Failed")
CLAIM: Final = "ResourceClaim"
GANG_SIZE: Final = "gang-size"  # the label of a pod of a group with how many of them must be placed at once
DEVICE_KINDS: Final = (CLAIM, "ResourceSlice", "DeviceClass")
WATCHED = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "Lease": "/apis/coordination.k8s.io/v1/leases",
    **{kind: f"/apis/resource.k8s.io/v1/{kind.lower()}{'e' * kind.endswith('s')}s" for kind in DEVICE_KINDS},
}


@dataclass(frozen=True)
class ObservedChange:
    """One change. `at` is the wall clock in seconds since 1970."""

    at: float
    version: int
    kind: str
    type: str
    object: Json

    @property
    def uid(self) -> str:
        """The UID of the object."""
        return str(self.object["metadata"]["uid"])

    @property
    def name(self) -> str:
        """The name of the object."""
        return str(self.object["metadata"]["name"])

    def __str__(self) -> str:
        spec, status = self.object.get("spec") or {}, self.object.get("status") or {}
        shown = {
            "node": spec.get("nodeName"),
            "gates": [g["name"] for g in spec.get("schedulingGates") or ()],
            "phase": status.get("phase"),
            "nominated": status.get("nominatedNodeName"),
            "taints": spec.get("taints"),
            "unschedulable": spec.get("unschedulable"),
            "allocatable": status.get("allocatable"),
            "devices": allocated_devices(self.object) if self.kind == CLAIM else None,
            "reserved": reserving_pods(self.object) if self.kind == CLAIM else None,
        }
        fields = " ".join(f"{k}={v}" for k, v in shown.items() if v)
        return f"{self.at:.3f} v{self.version} {self.type} {self.kind} {self.name} {fields}"


@dataclass
class ClusterModel:
    """Nodes by name, pods by UID, and what is about devices by kind and UID."""

    nodes: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    devices: dict[str, dict[str, Json]] = field(default_factory=lambda: {kind: {} for kind in DEVICE_KINDS})
    on_node: dict[str, set[str]] = field(default_factory=dict)  # UIDs of pods that use capacity, by node name

    def apply(self, seen: ObservedChange) -> None:
        """Apply a change to the model. Changes of other kinds, such as the Lease, are ignored."""
        if seen.kind == "Node":
            self._node(seen)
        elif seen.kind == "Pod":
            self._pod(seen)
        elif seen.kind in self.devices:
            of_kind = self.devices[seen.kind]
            if seen.type == "DELETED":
                of_kind.pop(seen.uid, None)
            else:
                of_kind[seen.uid] = seen.object

    @property
    def claims(self) -> Iterable[Json]:
        """The present resource claims of the cluster."""
        return self.devices[CLAIM].values()

    def _node(self, seen: ObservedChange) -> None:
        if seen.type == "DELETED":
            self.nodes.pop(seen.name, None)
        else:
            self.nodes[seen.name] = seen.object

    def _pod(self, seen: ObservedChange) -> None:
        before = self.pods.pop(seen.uid, None)
        if before is not None and node_of(before):
            self.on_node[node_of(before)].discard(seen.uid)
        if seen.type != "DELETED":
            self.pods[seen.uid] = seen.object
            if node_of(seen.object) and not is_finished(seen.object):
                self.on_node.setdefault(node_of(seen.object), set()).add(seen.uid)

    def used_milli(self, node: str) -> int:
        """Return the cpu that the pods on the node request, in thousandths of a core."""
        return sum(request_milli(self.pods[uid]) for uid in self.on_node.get(node, ()))

    def pending(self) -> Iterator[Json]:
        """Yield the pods that a scheduler could bind alone: of no group, and as in `unbound`."""
        return (pod for pod in self.unbound() if not group_of(pod))

    def unbound(self) -> Iterator[Json]:
        """Yield the pods that wait for a node: without a node, not finished, not being deleted, not gated."""
        for pod in self.pods.values():
            terminating = pod["metadata"].get("deletionTimestamp")
            if not (node_of(pod) or is_finished(pod) or terminating or pod["spec"].get("schedulingGates")):
                yield pod

    def gangs(self) -> dict[str, list[Json]]:
        """Return the pods of each group that needs several at once, without those that are finished or terminating."""
        gangs: dict[str, list[Json]] = {}
        for pod in self.pods.values():
            if gang_size(pod) and not is_finished(pod) and not pod["metadata"].get("deletionTimestamp"):
                gangs.setdefault(group_of(pod), []).append(pod)
        return gangs

    def bound(self) -> Iterator[Json]:
        """Yield pods with a node, including finished ones."""
        return (pod for pod in self.pods.values() if node_of(pod))


@dataclass
class ClusterHistory:
    """The model after the changes so far, and what was before: states of nodes, nodes of pods, deleted pods."""

    state: ClusterModel = field(default_factory=ClusterModel)
    node_states: dict[str, list[ObservedChange]] = field(default_factory=dict)
    nodes_of_pods: dict[str, list[str]] = field(default_factory=dict)
    deleted_pods: list[ObservedChange] = field(default_factory=list)

    def apply(self, seen: ObservedChange) -> bool:
        """Apply a change, and return whether it gave a pod a node that the pod was not on before."""
        self.state.apply(seen)
        if seen.kind == "Node":
            self.node_states.setdefault(seen.name, []).append(seen)
        if seen.kind == "Pod" and seen.type == "DELETED":
            self.deleted_pods.append(seen)
        if seen.kind != "Pod" or not node_of(seen.object) or seen.type == "DELETED":
            return False
        nodes = self.nodes_of_pods.setdefault(seen.uid, [])
        if node_of(seen.object) in nodes:
            return False
        nodes.append(node_of(seen.object))
        return True


def replay_history(history: Iterable[ObservedChange]) -> Iterator[tuple[ObservedChange, ClusterModel]]:
    """Yield every change with the model after it. It is always the same model object."""
    state = ClusterModel()
    for seen in history:
        state.apply(seen)
        yield seen, state


def node_of(pod: Json) -> str:
    """Return the pod's node, "" if it has none."""
    return pod["spec"].get("nodeName") or ""


def group_of(pod: Json) -> str:
    """Return the name of the pod's group, "" if it has none."""
    return (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") or ""


def gang_size(pod: Json) -> int:
    """Return how many pods its group must have at once, 0 if it has no group."""
    return int((pod["metadata"].get("labels") or {}).get(GANG_SIZE) or 0) if group_of(pod) else 0


def allocated_devices(claim: Json) -> list[tuple[str, str, str]]:
    """Return (driver, pool, device) of each device that is allocated to a claim."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return [(r["driver"], r["pool"], r["device"]) for r in (allocation.get("devices") or {}).get("results") or ()]


def reserving_pods(claim: Json) -> list[str]:
    """Return the UIDs of the pods for which a claim is reserved."""
    return [user["uid"] for user in (claim.get("status") or {}).get("reservedFor") or ()]


def is_finished(pod: Json) -> bool:
    """Return whether the pod needs no capacity any more."""
    return (pod.get("status") or {}).get("phase") in FINISHED


def is_evicted(pod: Json) -> bool:
    """Return whether a scheduler preempted the pod."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "DisruptionTarget" and c["status"] == "True" for c in conditions)


def request_milli(pod: Json) -> int:
    """Return the pod's cpu request, in thousandths of a core."""
    return sum(
        parse_milli(c.get("resources", {}).get("requests", {}).get("cpu", "0")) for c in pod["spec"]["containers"]
    )


def allocatable_milli(node: Json) -> int:
    """Return the node's allocatable cpu, in thousandths of a core."""
    return parse_milli(node["status"]["allocatable"]["cpu"])


def parse_milli(amount: str) -> int:
    """Return an amount of cpu in thousandths of a core. `amount` is written as `2` or `1500m`."""
    return int(amount[:-1]) if amount.endswith("m") else int(amount) * 1000


def admits(node: Json, pod: Json) -> bool:
    """Return whether a pod may be on a node, judged by unschedulable, taints and node selector, and not by capacity."""
    spec = node.get("spec") or {}
    tolerated = {t["key"] for t in pod["spec"].get("tolerations") or ()}
    if spec.get("unschedulable") and "node.kubernetes.io/unschedulable" not in tolerated:
        return False
    if any(t["effect"] != "PreferNoSchedule" and t["key"] not in tolerated for t in spec.get("taints") or ()):
        return False
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(k) == v for k, v in (pod["spec"].get("nodeSelector") or {}).items())


class Journal:
    """Watches the API server, records every change, and applies it to a model of the cluster. Thread-safe."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.state = ClusterModel()
        self.lock = threading.RLock()
        self._noted: list[ObservedChange] = []
        self._versions: dict[str, dict[str, int]] = {kind: {} for kind in WATCHED}  # last version by UID
        self._last: dict[str, ObservedChange] = {}
        self._http = httpx.Client(base_url=url, headers=headers, verify=False, timeout=httpx.Timeout(10.0, read=300.0))
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._follow, args=each, daemon=True) for each in WATCHED.items()]
        for thread in self._threads:
            thread.start()

    def history(self) -> list[ObservedChange]:
        """Return every recorded change by version. All kinds share one version counter."""
        with self.lock:
            return sorted(self._noted, key=lambda seen: seen.version)

    def close(self) -> None:
        """Stop the watches; no further change is recorded."""
        self._over.set()
        self._http.close()

    def _follow(self, kind: str, path: str) -> None:
        version = ""
        while not self._over.is_set():
            try:
                version = version or self._list(kind, path)
                version = self._watch(kind, path, version)
            except (httpx.HTTPError, json.JSONDecodeError, RuntimeError):
                self._over.wait(0.02)

    def _list(self, kind: str, path: str) -> str:
        answer = self._http.get(path)
        answer.raise_for_status()
        document = answer.json()
        versions = self._versions[kind]
        listed = {item["metadata"]["uid"]: item for item in document["items"]}
        for uid in versions.keys() - listed.keys():
            self._note(ObservedChange(time.time(), versions[uid], kind, "DELETED", self._last[uid].object))
        for item in listed.values():
            self._note(_seen(kind, "ADDED" if item["metadata"]["uid"] not in versions else "MODIFIED", item))
        return str(document["metadata"]["resourceVersion"])

    def _watch(self, kind: str, path: str, version: str) -> str:
        """Watch until the stream ends; return the version to resume from, "" to list again."""
        params = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        with self._http.stream("GET", path, params=params) as response:
            if response.status_code == 410:
                return ""
            response.raise_for_status()
            try:
                for line in response.iter_lines():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return ""
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._note(_seen(kind, event["type"], event["object"]))
            except (httpx.HTTPError, json.JSONDecodeError):
                pass  # The stream was cut; the next watch resumes after the last complete line.
        return version

    def _note(self, seen: ObservedChange) -> None:
        versions = self._versions[seen.kind]
        with self.lock:
            if seen.type == "DELETED":
                versions.pop(seen.uid, None)
            elif versions.get(seen.uid, -1) >= seen.version:
                return
            else:
                versions[seen.uid] = seen.version
            self._noted.append(seen)
            self._last[seen.uid] = seen
            self.state.apply(seen)


def _seen(kind: str, type_: str, obj: Json) -> ObservedChange:
    return ObservedChange(time.time(), int(obj["metadata"]["resourceVersion"]), kind, type_, obj)
