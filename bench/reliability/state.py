"""The model of the cluster: nodes and pods after each observed change.

Owns: the changes, their order (by resource version), and capacity and fit derived from them. Does not own: the watches
(`journal`). The driver queries the current model; the invariants replay it and stop at every change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

Json = dict[str, Any]

FINISHED: Final = ("Succeeded", "Failed")
CLAIM: Final = "ResourceClaim"
DEVICE_KINDS: Final = (CLAIM, "ResourceSlice", "DeviceClass")


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
        """Apply a change. The Lease is ignored."""
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
        """Return the cpu that pods on the node request."""
        return sum(request_milli(self.pods[uid]) for uid in self.on_node.get(node, ()))

    def pending(self) -> Iterator[Json]:
        """Yield pods that wait only for a scheduler."""
        for pod in self.pods.values():
            terminating = pod["metadata"].get("deletionTimestamp")
            if not (node_of(pod) or is_finished(pod) or terminating or pod["spec"].get("schedulingGates")):
                yield pod

    def bound(self) -> Iterator[Json]:
        """Yield pods with a node, including finished ones."""
        return (pod for pod in self.pods.values() if node_of(pod))


def replay_history(history: Iterable[ObservedChange]) -> Iterator[tuple[ObservedChange, ClusterModel]]:
    """Yield every change with the model after it. It is always the same model object."""
    state = ClusterModel()
    for seen in history:
        state.apply(seen)
        yield seen, state


def node_of(pod: Json) -> str:
    """Return the pod's node, "" if it has none."""
    return pod["spec"].get("nodeName") or ""


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
    """Return the pod's cpu request."""
    return sum(
        parse_milli(c.get("resources", {}).get("requests", {}).get("cpu", "0")) for c in pod["spec"]["containers"]
    )


def allocatable_milli(node: Json) -> int:
    """Return the node's allocatable cpu."""
    return parse_milli(node["status"]["allocatable"]["cpu"])


def parse_milli(amount: str) -> int:
    """Return an amount of cpu in thousandths of a core. `amount` is written as `2` or `1500m`."""
    return int(amount[:-1]) if amount.endswith("m") else int(amount) * 1000


def admits(node: Json, pod: Json) -> bool:
    """Return whether the node admits the pod apart from capacity: cordon, taints, node selector."""
    spec = node.get("spec") or {}
    tolerated = {t["key"] for t in pod["spec"].get("tolerations") or ()}
    if spec.get("unschedulable") and "node.kubernetes.io/unschedulable" not in tolerated:
        return False
    if any(t["effect"] != "PreferNoSchedule" and t["key"] not in tolerated for t in spec.get("taints") or ()):
        return False
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(k) == v for k, v in (pod["spec"].get("nodeSelector") or {}).items())
