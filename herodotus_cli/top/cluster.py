"""Nodes and pods of the API server as the rows that `top` shows.

Owns: requests against allocatable of each node, zones, node groups, marks of nodes, order and filters of rows. Does not
own: reading (`reader`), drawing (`rows`). Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from herodotus_answers.holders import read_request
from herodotus_answers.live_objects import has_ended
from herodotus_answers.node_rules import describe_taint, read_labels, read_zone
from herodotus_answers.quantities import read_quantity
from herodotus_record.units import natural_sort_key

Json = dict[str, Any]

# Labels that name the group of a node, as the usual node provisioners set them; the first that a node has counts.
_GROUP_LABELS = (
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
)
SORTS = ("name", "cpu", "memory", "pods")
GROUPINGS = ("none", "zone", "group")


class Amount(NamedTuple):
    """How much of a resource is requested, and how much is allocatable: millicores, bytes or pods."""

    requested: int
    allocatable: int

    @property
    def share(self) -> float:
        """The requested share; 0 if nothing is requested, and 1 if nothing is allocatable but something requested."""
        if self.allocatable:
            return self.requested / self.allocatable
        return float(self.requested > 0)


class NodeRow(NamedTuple):
    """A node with its requests. With several nodes as members, it is the sum of a zone or group."""

    name: str
    zone: str
    group: str
    cpu: Amount
    memory: Amount
    pods: Amount
    marks: tuple[str, ...]
    members: int = 0


class PodRow(NamedTuple):
    """A pod that has not ended. `placed_at` is the time at which it got its node, or "" if it has none."""

    namespace: str
    name: str
    node: str
    owner: str
    cpu: int
    memory: int
    created_at: str
    placed_at: str


class NodesAndPods(NamedTuple):
    """The nodes and pods that were read. Unless `has_all_pods`, requests of nodes are not known."""

    nodes: list[NodeRow]
    pods: list[PodRow]
    has_all_pods: bool


def read_pod(pod: Json) -> PodRow | None:
    """Return the row of a pod, or None if it has ended."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    if has_ended(pod):
        return None
    conditions = status.get("conditions") or ()
    placed = [c for c in conditions if c.get("type") == "PodScheduled" and c.get("status") == "True"]
    node = str(spec.get("nodeName") or "")
    owner = next((f"{o['kind']}/{o['name']}" for o in metadata.get("ownerReferences") or () if o.get("controller")), "")
    return PodRow(
        namespace=metadata["namespace"],
        name=metadata["name"],
        node=node,
        owner=owner,
        cpu=read_request(spec, "cpu"),
        memory=read_request(spec, "memory"),
        created_at=str(metadata.get("creationTimestamp") or ""),
        placed_at=str(placed[0].get("lastTransitionTime") or "") if node and placed else "",
    )


def build_state(nodes: Iterable[Json], pods: Sequence[PodRow], *, has_all_pods: bool) -> NodesAndPods:
    """Return nodes with the requests of the pods on them."""
    on_node: dict[str, list[PodRow]] = defaultdict(list)
    for pod in pods:
        on_node[pod.node].append(pod)
    rows = [_read_node(node, on_node[node["metadata"]["name"]]) for node in nodes]
    return NodesAndPods(rows, list(pods), has_all_pods)


def _read_node(node: Json, pods: Sequence[PodRow]) -> NodeRow:
    labels = read_labels(node)
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return NodeRow(
        name=node["metadata"]["name"],
        zone=read_zone(node),
        group=str(next((labels[name] for name in _GROUP_LABELS if labels.get(name)), "")),
        cpu=Amount(sum(pod.cpu for pod in pods), int(read_quantity(allocatable.get("cpu", 0)) * 1000)),
        memory=Amount(sum(pod.memory for pod in pods), int(read_quantity(allocatable.get("memory", 0)))),
        pods=Amount(len(pods), int(read_quantity(allocatable.get("pods", 0)))),
        marks=tuple(_list_marks(node)),
    )


def _list_marks(node: Json) -> Iterable[str]:
    """Yield what keeps pods away from a node: cordoned, not ready, and its taints."""
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        yield "cordoned"
    conditions = (node.get("status") or {}).get("conditions") or ()
    if any(c.get("type") == "Ready" and c.get("status") != "True" for c in conditions):
        yield "NotReady"
    for taint in spec.get("taints") or ():
        if not str(taint.get("key", "")).startswith("node.kubernetes.io/"):  # these repeat the marks above
            yield describe_taint(taint)


_SORT_KEYS: Mapping[str, Callable[[NodeRow], Any]] = {
    "name": lambda row: natural_sort_key(row.name),
    "cpu": lambda row: (-row.cpu.share, natural_sort_key(row.name)),
    "memory": lambda row: (-row.memory.share, natural_sort_key(row.name)),
    "pods": lambda row: (-row.pods.share, natural_sort_key(row.name)),
}


def arrange_nodes(nodes: Sequence[NodeRow], *, sort: str, grouping: str, search: str) -> list[NodeRow]:
    """Return the nodes that contain the searched text, sorted, below a row with the sum of each zone or group."""
    shown = [row for row in nodes if _contains(search, row.name, row.zone, row.group, *row.marks)]
    shown.sort(key=_SORT_KEYS[sort])
    if grouping == "none":
        return shown
    members: dict[str, list[NodeRow]] = defaultdict(list)
    for row in shown:
        members[row.zone if grouping == "zone" else row.group].append(row)
    return [
        row for name in sorted(members, key=natural_sort_key) for row in (_add_up(name, members[name]), *members[name])
    ]


def _add_up(name: str, rows: Sequence[NodeRow]) -> NodeRow:
    def add(amounts: Iterable[Amount]) -> Amount:
        listed = list(amounts)
        return Amount(sum(a.requested for a in listed), sum(a.allocatable for a in listed))

    cordoned = sum("cordoned" in row.marks for row in rows)
    return NodeRow(
        name=name or "(none)",
        zone="",
        group="",
        cpu=add(row.cpu for row in rows),
        memory=add(row.memory for row in rows),
        pods=add(row.pods for row in rows),
        marks=(f"{cordoned} cordoned",) if cordoned else (),
        members=len(rows),
    )


def select_pods(pods: Iterable[PodRow], *, namespace: str, search: str) -> list[PodRow]:
    """Return the pods of a namespace, or of all if it is "", that contain the searched text."""
    return [
        pod
        for pod in pods
        if namespace in ("", pod.namespace) and _contains(search, f"{pod.namespace}/{pod.name}", pod.node, pod.owner)
    ]


def list_placements(pods: Iterable[PodRow], limit: int) -> list[PodRow]:
    """Return the pods that got their node last, the newest first."""
    placed = sorted((pod for pod in pods if pod.placed_at), key=lambda pod: pod.placed_at, reverse=True)
    return placed[:limit]


def select_waiting(pods: Iterable[Mapping[str, Any]], *, namespace: str, search: str) -> list[Mapping[str, Any]]:
    """Return the listed pending pods of a namespace, or of all if it is "", that contain the searched text."""
    return [
        pod
        for pod in pods
        if namespace in ("", pod["namespace"])
        and _contains(search, f"{pod['namespace']}/{pod['pod']}", str(pod["reason"]))
    ]


def _contains(search: str, *texts: str) -> bool:
    return not search or any(search.lower() in text.lower() for text in texts)
