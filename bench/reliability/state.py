"""The model of the cluster: nodes and pods as the API server has shown them, one change after the other.

Owns: what was seen, its order (by resource version), what follows from it about room and fit. Does not own: where it
comes from (`journal`). The driver asks the model as of now; the invariants build it anew and stop at every change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

Json = dict[str, Any]

FINISHED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Seen:
    """One change. `at`: wall clock, seconds."""

    at: float
    version: int
    kind: str
    type: str
    object: Json

    @property
    def uid(self) -> str:
        """The object's UID."""
        return str(self.object["metadata"]["uid"])

    @property
    def name(self) -> str:
        """The object's name."""
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
        }
        said = " ".join(f"{k}={v}" for k, v in shown.items() if v)
        return f"{self.at:.3f} v{self.version} {self.type} {self.kind} {self.name} {said}"


@dataclass
class State:
    """Nodes by name and pods by UID."""

    nodes: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    on_node: dict[str, set[str]] = field(default_factory=dict)  # UIDs of pods that count, by node

    def apply(self, seen: Seen) -> None:
        """What is true after this change. Kinds other than nodes and pods are not modelled."""
        if seen.kind == "Node":
            self._node(seen)
        elif seen.kind == "Pod":
            self._pod(seen)

    def _node(self, seen: Seen) -> None:
        if seen.type == "DELETED":
            self.nodes.pop(seen.name, None)
        else:
            self.nodes[seen.name] = seen.object

    def _pod(self, seen: Seen) -> None:
        before = self.pods.pop(seen.uid, None)
        if before is not None and node_of(before):
            self.on_node[node_of(before)].discard(seen.uid)
        if seen.type != "DELETED":
            self.pods[seen.uid] = seen.object
            if node_of(seen.object) and not finished(seen.object):
                self.on_node.setdefault(node_of(seen.object), set()).add(seen.uid)

    def used_milli(self, node: str) -> int:
        """The cpu that pods on the node request."""
        return sum(request_milli(self.pods[uid]) for uid in self.on_node.get(node, ()))

    def pending(self) -> Iterator[Json]:
        """Pods that nothing but a scheduler keeps from running."""
        for pod in self.pods.values():
            terminating = pod["metadata"].get("deletionTimestamp")
            if not (node_of(pod) or finished(pod) or terminating or pod["spec"].get("schedulingGates")):
                yield pod

    def bound(self) -> Iterator[Json]:
        """Pods on a node, finished ones too."""
        return (pod for pod in self.pods.values() if node_of(pod))


def after(history: Iterable[Seen]) -> Iterator[tuple[Seen, State]]:
    """Every change with the state after it. The state is one object that goes on changing."""
    state = State()
    for seen in history:
        state.apply(seen)
        yield seen, state


def node_of(pod: Json) -> str:
    """Where the pod is bound to; "" where it is not."""
    return pod["spec"].get("nodeName") or ""


def finished(pod: Json) -> bool:
    """Whether the pod needs no room any more."""
    return (pod.get("status") or {}).get("phase") in FINISHED


def evicted(pod: Json) -> bool:
    """Whether a scheduler has taken the pod's room for another one."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "DisruptionTarget" and c["status"] == "True" for c in conditions)


def request_milli(pod: Json) -> int:
    """The cpu that the pod requests."""
    return sum(milli(c.get("resources", {}).get("requests", {}).get("cpu", "0")) for c in pod["spec"]["containers"])


def allocatable_milli(node: Json) -> int:
    """The cpu that the node offers."""
    return milli(node["status"]["allocatable"]["cpu"])


def milli(amount: str) -> int:
    """A quantity of cpu as this package writes it."""
    return int(amount[:-1]) if amount.endswith("m") else int(amount) * 1000


def admits(node: Json, pod: Json) -> bool:
    """Whether the node takes the pod, room apart: cordon, taints, node selector."""
    spec = node.get("spec") or {}
    tolerated = {t["key"] for t in pod["spec"].get("tolerations") or ()}
    if spec.get("unschedulable") and "node.kubernetes.io/unschedulable" not in tolerated:
        return False
    if any(t["effect"] != "PreferNoSchedule" and t["key"] not in tolerated for t in spec.get("taints") or ()):
        return False
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(k) == v for k, v in (pod["spec"].get("nodeSelector") or {}).items())
