"""Nodes and pods of the API server as the rows that `top` shows.

Owns: requests against allocatable of each node, zones, node groups, marks of nodes, order and filters of rows. Does not
own: reading (`reader`), changing rows for a simulation (`simulation`), drawing (`rows`). Pure.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from herodotus_answers.live.node_rules import describe_taint, read_labels, read_zone
from herodotus_answers.live.objects import has_ended, read_owner, read_workload
from herodotus_answers.live.pods.holders import read_request
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
GROUPINGS = ("none", "zone", "group")  # beside any label of nodes
CHANGED = "changed"  # the name of the row above the nodes that a simulation changes
_NO_LABELS: Mapping[str, str] = MappingProxyType({})
_MAX_LABEL_VALUES = 0.5  # of the nodes: a label with more values, such as the host name, makes no groups


class Amount(NamedTuple):
    """How much of a resource is requested, and how much is allocatable: millicores, bytes or pods.

    `before` is the request without the simulation that is shown; None if none changes the node.
    """

    requested: int
    allocatable: int
    before: int | None = None

    @property
    def share(self) -> float:
        """The requested share; 0 if nothing is requested, and 1 if nothing is allocatable but something requested."""
        return self._divide(self.requested)

    @property
    def share_before(self) -> float:
        """The share without the simulation that is shown."""
        return self._divide(self.requested if self.before is None else self.before)

    def _divide(self, requested: int) -> float:
        return requested / self.allocatable if self.allocatable else float(requested > 0)


class NodeRow(NamedTuple):
    """A node with its requests. With several nodes as members, it is the sum of a zone or group."""

    name: str
    zone: str
    group: str
    cpu: Amount
    memory: Amount
    pods: Amount
    marks: tuple[str, ...]
    labels: Mapping[str, str] = _NO_LABELS
    members: int = 0

    @property
    def is_changed(self) -> bool:
        """Whether the simulation that is shown changes the node."""
        return self.pods.before is not None


class PodRow(NamedTuple):
    """A pod that has not ended. `placed_at` is the time at which it got its node, or "" if it has none.

    `owner` and `workload` are KIND/NAME or "". For a pod of a Deployment's ReplicaSet the workload is the Deployment.
    """

    namespace: str
    name: str
    node: str
    owner: str
    workload: str
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
    owner = read_owner(pod) or ""
    return PodRow(
        namespace=metadata["namespace"],
        name=metadata["name"],
        node=node,
        owner=owner,
        workload=read_workload(pod),
        cpu=read_request(spec, "cpu"),
        memory=read_request(spec, "memory"),
        created_at=str(metadata.get("creationTimestamp") or ""),
        placed_at=str(placed[0].get("lastTransitionTime") or "") if node and placed else "",
    )


def read_node(node: Json) -> NodeRow:
    """Return the row of a node without requests."""
    labels = read_labels(node)
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return NodeRow(
        name=node["metadata"]["name"],
        zone=read_zone(node),
        group=str(next((labels[name] for name in _GROUP_LABELS if labels.get(name)), "")),
        cpu=Amount(0, int(read_quantity(allocatable.get("cpu", 0)) * 1000)),
        memory=Amount(0, int(read_quantity(allocatable.get("memory", 0)))),
        pods=Amount(0, int(read_quantity(allocatable.get("pods", 0)))),
        marks=tuple(_list_marks(node)),
        labels={sys.intern(key): sys.intern(str(value)) for key, value in labels.items()},  # most nodes share them
    )


def build_state(nodes: Iterable[NodeRow], pods: Sequence[PodRow], *, has_all_pods: bool) -> NodesAndPods:
    """Return the nodes, sorted by name, with the sums of the requests of the pods on them, and the pods.

    `has_all_pods` says whether `pods` has those of all namespaces.
    """
    on_node: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for pod in pods:
        if pod.node:
            sums = on_node[pod.node]
            sums[0] += pod.cpu
            sums[1] += pod.memory
            sums[2] += 1
    rows = []
    for row in nodes:
        cpu, memory, count = on_node.get(row.name, (0, 0, 0))
        rows.append(
            row._replace(
                cpu=Amount(cpu, row.cpu.allocatable),
                memory=Amount(memory, row.memory.allocatable),
                pods=Amount(count, row.pods.allocatable),
            )
        )
    rows.sort(key=lambda row: natural_sort_key(row.name))
    return NodesAndPods(rows, list(pods), has_all_pods)


def _list_marks(node: Json) -> Iterable[str]:
    """Yield what keeps pods away from a node: cordoned, not ready, and its taints.

    Taints of Kubernetes itself, which only repeat the first two, are left out.
    """
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        yield "cordoned"
    conditions = (node.get("status") or {}).get("conditions") or ()
    if any(c.get("type") == "Ready" and c.get("status") != "True" for c in conditions):
        yield "NotReady"
    for taint in spec.get("taints") or ():
        if not str(taint.get("key", "")).startswith("node.kubernetes.io/"):  # these repeat the marks above
            yield describe_taint(taint)


_SORT_KEYS: Mapping[str, Callable[[NodeRow], float]] = {
    "name": lambda _row: 0,
    "cpu": lambda row: -row.cpu.share,
    "memory": lambda row: -row.memory.share,
    "pods": lambda row: -row.pods.share,
}


def arrange_nodes(
    nodes: Sequence[NodeRow], *, sort: str, grouping: str, search: str, reverse: bool = False
) -> list[NodeRow]:
    """Return the nodes that match `search`, sorted, each group below a row with its sums.

    `nodes` are sorted by name. `sort` is one of SORTS; amounts are sorted from the largest, and `reverse` reverses the
    order. `grouping` is one of GROUPINGS or the key of a label. If a simulation changes nodes, there are no groups:
    these nodes come first, below a row with their sums.
    """
    shown = [row for row in nodes if _matches(search, row)]
    if sort == "name":
        shown = shown[::-1] if reverse else shown
    else:
        by = _SORT_KEYS[sort]
        shown.sort(key=(lambda row: -by(row)) if reverse else by)
    changed = [row for row in shown if row.is_changed]
    if changed:
        return [_add_up(CHANGED, changed), *changed, *(row for row in shown if not row.is_changed)]
    if grouping == "none":
        return shown
    members: dict[str, list[NodeRow]] = defaultdict(list)
    for row in shown:
        members[_read_group(row, grouping)].append(row)
    return [
        row for name in sorted(members, key=natural_sort_key) for row in (_add_up(name, members[name]), *members[name])
    ]


def _read_group(row: NodeRow, grouping: str) -> str:
    if grouping == "zone":
        return row.zone
    return row.group if grouping == "group" else row.labels.get(grouping, "")


def _matches(search: str, row: NodeRow) -> bool:
    """Return whether a node's name, zone, group or a mark contains `search` in any case.

    If `search` has a `=`, it may also be in a label, written KEY=VALUE.
    """
    if _contains(search, row.name, row.zone, row.group, *row.marks):
        return True
    return "=" in search and _contains(search, *(f"{key}={value}" for key, value in row.labels.items()))


def list_groupings(nodes: Iterable[NodeRow]) -> list[str]:
    """Return what nodes can be grouped by: GROUPINGS, then the sorted keys of labels with few distinct values.

    The number of values may be at most the share _MAX_LABEL_VALUES of the nodes that have the label.
    """
    values: dict[str, set[str]] = defaultdict(set)
    counts: Counter[str] = Counter()
    for row in nodes:
        counts.update(row.labels.keys())
        for key, value in row.labels.items():
            values[key].add(value)
    most = {key: max(1.0, count * _MAX_LABEL_VALUES) for key, count in counts.items()}
    return [*GROUPINGS, *sorted(key for key, distinct in values.items() if len(distinct) <= most[key])]


def _add_up(name: str, rows: Sequence[NodeRow]) -> NodeRow:
    def add(amounts: Iterable[Amount]) -> Amount:
        listed = list(amounts)
        before = [a.requested if a.before is None else a.before for a in listed]
        changed = any(a.before is not None for a in listed)
        return Amount(
            sum(a.requested for a in listed), sum(a.allocatable for a in listed), sum(before) if changed else None
        )

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
    """Return the pods of a namespace ("": all) whose NAMESPACE/NAME, node or owner contains `search` in any case."""
    return [
        pod
        for pod in pods
        if namespace in ("", pod.namespace) and _contains(search, f"{pod.namespace}/{pod.name}", pod.node, pod.owner)
    ]


def list_placements(pods: Iterable[PodRow], limit: int) -> list[PodRow]:
    """Return the `limit` pods that got their node last, the newest first."""
    placed = sorted((pod for pod in pods if pod.placed_at), key=lambda pod: pod.placed_at, reverse=True)
    return placed[:limit]


def select_waiting(pods: Iterable[Mapping[str, Any]], *, namespace: str, search: str) -> list[Mapping[str, Any]]:
    """Return the pending pods of a namespace ("": all) whose NAMESPACE/NAME or reason contains `search` in any case."""
    return [
        pod
        for pod in pods
        if namespace in ("", pod["namespace"])
        and _contains(search, f"{pod['namespace']}/{pod['pod']}", str(pod["reason"]))
    ]


def _contains(search: str, *texts: str) -> bool:
    return not search or any(search.lower() in text.lower() for text in texts)
