"""The pods and nodes of a cluster, reduced to what following a plan needs.

Owns: reading the objects, and what a node has left at most. Does not own: watching (`object_watch`), plans.

Invariant: free amounts are upper bounds and requests lower bounds (init containers do not count), so that "no room" is
certain and "room" is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from herodotus_answers.live.objects import find_controller, is_of_daemon_set, is_static, read_owner
from herodotus_answers.quantities import format_available_amount, format_requested_amount, read_quantity
from herodotus_cli.object_watch import LISTED, ObjectChange

Json = dict[str, Any]
PODS, NODES = "v1/pods", "v1/nodes"
Amounts = Mapping[str, Fraction]


class PodState(NamedTuple):
    """A pod as the API server has it. `owner` is the UID of its controller, `node` and `owner` may be empty.

    `rejected` is kube-scheduler's message if no node fits. `is_over` means that it ended and needs no node.
    `outlives_drains` means that `kubectl drain` leaves it alone: a DaemonSet's pod, or a static one.
    """

    namespace: str
    name: str
    uid: str
    owner: str
    node: str
    requests: Amounts
    is_ready: bool
    is_leaving: bool
    is_over: bool
    rejected: str
    awaits_resize: bool
    outlives_drains: bool

    @property
    def full_name(self) -> str:
        """The pod as NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"


class NodeState(NamedTuple):
    """A node as the API server has it."""

    name: str
    is_cordoned: bool
    is_ready: bool
    allocatable: Amounts


class ClusterView:
    """The pods by UID and the nodes by name, kept up to date by the changes of a watch."""

    def __init__(self) -> None:
        self.pods: dict[str, PodState] = {}
        self.nodes: dict[str, NodeState] = {}
        self._by_node: defaultdict[str, dict[str, PodState]] = defaultdict(dict)

    def apply(self, change: ObjectChange) -> None:
        """Take over a change."""
        if change.resource == PODS:
            if change.type == LISTED:
                self.pods.clear()
                self._by_node.clear()
            for pod in map(read_pod, change.objects):
                before = self.pods.pop(pod.uid, None)
                if before is not None:
                    self._by_node[before.node].pop(pod.uid, None)
                if change.type != "DELETED":
                    self.pods[pod.uid] = self._by_node[pod.node][pod.uid] = pod
            return
        if change.type == LISTED:
            self.nodes.clear()
        for node in map(_read_node, change.objects):
            if change.type == "DELETED":
                self.nodes.pop(node.name, None)
            else:
                self.nodes[node.name] = node

    def find_pod(self, namespace: str, name: str) -> PodState | None:
        """Return the pod that has this name now, or None."""
        return next((each for each in self.pods.values() if (each.namespace, each.name) == (namespace, name)), None)

    def list_pods_on(self, node: str) -> list[PodState]:
        """Return the pods of a node, those that ended included."""
        return [*self._by_node.get(node, {}).values()]

    def find_shortage(self, needed: Amounts, nodes: Iterable[str], leaving: Collection[str]) -> str:
        """Return why no node of `nodes` has room for the requests `needed`, or "" if one may have.

        Pods whose UID is in `leaving` do not count.
        """
        reasons = []
        for name in nodes:
            node = self.nodes.get(name)
            if node is None:
                reasons.append(f"{name} does not exist")
                continue
            free = self._measure_free(node, leaving)
            lacking = [each for each in needed if needed[each] > free.get(each, 0)]
            if not lacking:
                return ""
            short = lacking[0]
            left = format_available_amount(short, max(free.get(short, Fraction(0)), Fraction(0)))
            reasons.append(f"{name} has {left} of {format_requested_amount(short, needed[short])} {short}")
        return ", ".join(reasons)

    def _measure_free(self, node: NodeState, leaving: Collection[str]) -> dict[str, Fraction]:
        free = dict(node.allocatable)
        for pod in self.list_pods_on(node.name):
            if not (pod.is_over or pod.is_leaving or pod.uid in leaving):
                for resource, amount in pod.requests.items():
                    free[resource] = free.get(resource, Fraction(0)) - amount
        return free


def add_amounts(each: Iterable[Amounts]) -> dict[str, Fraction]:
    """Return the sum of amounts by resource."""
    total: dict[str, Fraction] = {}
    for amounts in each:
        for resource, amount in amounts.items():
            total[resource] = total.get(resource, Fraction(0)) + amount
    return total


def read_pod(pod: Json) -> PodState:
    """Return the state of a Pod object."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    owner = find_controller(pod)
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled") or {}
    return PodState(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        owner["uid"] if owner else "",
        spec.get("nodeName") or "",
        _sum_requests(spec),
        (conditions.get("Ready") or {}).get("status") == "True",
        bool(metadata.get("deletionTimestamp")),
        status.get("phase") in ("Succeeded", "Failed"),
        str(scheduled.get("message") or "") if scheduled.get("reason") == "Unschedulable" else "",
        (conditions.get("PodResizePending") or {}).get("status") == "True",
        is_static(pod) or is_of_daemon_set(read_owner(pod)),
    )


def _sum_requests(spec: Json) -> Amounts:
    """Return what the containers and sidecars of a pod request together, the overhead, and one pod."""
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    requests = [(each.get("resources") or {}).get("requests") or {} for each in (*spec["containers"], *sidecars)]
    amounts = [
        {name: read_quantity(text) for name, text in one.items()} for one in (*requests, spec.get("overhead") or {})
    ]
    return add_amounts([*amounts, {"pods": Fraction(1)}])


def _read_node(node: Json) -> NodeState:
    status = node.get("status") or {}
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ())
    allocatable = {name: read_quantity(text) for name, text in (status.get("allocatable") or {}).items()}
    return NodeState(node["metadata"]["name"], bool(node["spec"].get("unschedulable")), ready, allocatable)
