"""The state of all nodes as columns.

Owns: slots (stable indexes, reused after a node is removed), taints, labels, ports, images, the pods on each node, and
which rows changed. Does not own: amounts of resources (`resources`), whether a pod is assumed or confirmed
(`scheduler.backend.cache`).

Invariant: after any sequence of changes the columns equal those built from scratch from the same nodes and pods.
A slot without a node (`live` False) holds zeros; pods may sit in it before their node appears (kube-scheduler's
"ghost" node), and they count as soon as it does.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.columns.declared import ArrayColumn, EncodedColumn, NodeColumn
from scheduler.engine.columns.dictionary import DictionaryColumn
from scheduler.engine.columns.images import Images
from scheduler.engine.columns.keyed import KeyedColumns
from scheduler.engine.columns.order import VisitOrder
from scheduler.engine.columns.pods import PodRows
from scheduler.engine.columns.resources import AmountKind, Amounts, ResourceColumns
from scheduler.engine.columns.volumes import VolumeColumns
from scheduler.engine.objects import requests
from scheduler.engine.objects.pod import HostPort, PodCounting, PodInfo
from scheduler.engine.objects.types import Node, NodeMetadata, Taint

Mask = NDArray[np.bool_]

T = TypeVar("T")

_FIRST_CAPACITY: Final = 64  # slots; doubles when full
MAX_RECENT_CHANGES: Final = (
    1024  # the last row changes, kept as a list; a reader that is further behind compares generations
)
_MAX_CACHED: Final = 512  # cached values, a few bytes a slot each: some megabytes at 5,000 nodes
_FEW_SLOTS: Final = 4


class UndeclaredAnnotationError(LookupError):
    """A plugin reads a node annotation that it does not declare, so that nodes do not keep it."""


class StaleSnapshotError(RuntimeError):
    """The error of reading a snapshot after the node columns have changed."""


class NodeColumns:
    """The state of all nodes and the pods on them, as arrays with one entry for each node slot (a node's stable index).

    One thread changes them; readers use a `Snapshot`. A column of the Node objects is declared here and nowhere else.
    """

    live = ArrayColumn(np.bool_, "The mask of the slots (row indices) that hold a node.", read=lambda _node: True)
    unschedulable = ArrayColumn(
        np.bool_,
        "The mask of the slots (row indices) that hold a cordoned node (spec.unschedulable).",
        read=lambda node: node.spec.unschedulable,
    )
    taints: EncodedColumn[tuple[Taint, ...]] = EncodedColumn(
        "Each node's taints (spec.taints).", read=lambda node: tuple(node.spec.taints or ()), default=()
    )
    declared_features: EncodedColumn[frozenset[str]] = EncodedColumn(
        "Each node's declared features (status.declaredFeatures).",
        read=lambda node: frozenset(node.status.declared_features or ()),
        default=frozenset(),
    )
    since = ArrayColumn(
        np.int64, "The generation (count of changes) at which the node in each slot, or its pods, last changed."
    )
    revised = ArrayColumn(
        np.int64,
        "The revision at which the node in each slot, or its pods, last changed. In contrast to `since`, replacing a "
        "pod by one with equal requests, ports and volumes counts as a change.",
    )

    def __init__(self) -> None:
        self.generation = 0  # increases when a row changes
        self.revision = 0  # increases when anything changes
        self.node_generation = 0  # increases when a Node object is added, changed or removed
        self.membership = 0  # increases when a node is added, removed or replaced by another of its name
        self.slots = 0  # the high-water mark: columns are this long
        self.names: list[str] = []
        self.uids: list[str] = []
        self.nodes: list[Node | None] = []
        self.pods: list[dict[str, PodInfo]] = []
        self.index: dict[str, int] = {}
        self.images = Images()
        self.volumes = VolumeColumns()
        self.order = VisitOrder()
        self.kept_annotations: frozenset[str] | None = None  # the only annotations that nodes keep; None: all
        self._counting = PodCounting()
        self._capacity = _FIRST_CAPACITY
        self._free: list[int] = []
        self._resources = ResourceColumns(self._capacity)
        self._labels = KeyedColumns(self._capacity)
        self._annotations = KeyedColumns(self._capacity)
        self._ports: dict[tuple[str, int], dict[int, list[HostPort]]] = {}
        self._pod_rows: PodRows | None = None
        self._touched: set[int] = set()
        self._latest: deque[int] = deque(maxlen=MAX_RECENT_CHANGES)  # the changed slot of each of the last generations
        self._cache: dict[Hashable, Any] = {}
        self._cache_generation = (0, 0)  # node generation and number of slots for which the cache is valid
        self._fit_columns()

    def rebuilt(self) -> NodeColumns:
        """Return new columns with the same nodes and pods in the same slots, and without cached data."""
        fresh = NodeColumns()
        fresh.kept_annotations, fresh._counting = self.kept_annotations, self._counting
        for slot, node in enumerate(self.nodes):
            name = self.names[slot] or f"(free slot {slot})"
            fresh.set_node(node or Node(metadata=NodeMetadata(name=name)))
            for pod in self.pods[slot].values():
                fresh.add_pod(pod, name)
        for slot, node in enumerate(self.nodes):
            if node is None:
                fresh.remove_node(fresh.names[slot])
        return fresh

    # --- reading --------------------------------------------------------------------------------------------------

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of cpu, memory, ephemeral-storage, pods and of resources in the allocatable of some node.

        At most `resources.MAX_ROWS` names are returned; methods such as `allocatable` accept any other resource too.
        """
        return self._resources.names

    def list_resources(self) -> list[str]:
        """Return the names of all resources that a node has or a pod on a node requests, `resources` first."""
        return self._resources.list_names()

    def list_unknown_resources(self, resources: Iterable[str]) -> list[str]:
        """Return those of `resources` that no node has and no pod on a node requests.

        The amounts of such a resource are 0 on every node.
        """
        return self._resources.list_unknown(resources)

    def allocatable(self, resource: str) -> Amounts:
        """Return each node's status.allocatable of a resource in base units: milli-CPUs, bytes, counts.

        For the resource `pods`, this is the number of pods allowed.
        """
        return self._resources.read(AmountKind.ALLOCATABLE, resource, self.slots)

    def requested(self, resource: str) -> Amounts:
        """Return the sum of the requests of each node's pods for a resource, in base units: milli-CPUs, bytes, counts.

        For the resource `pods`, this is the number of pods.
        """
        return self._resources.read(AmountKind.REQUESTED, resource, self.slots)

    def scoring_requested(self, resource: str) -> Amounts:
        """Return `requested` with kube-scheduler's default cpu and memory counted for containers without requests."""
        return self._resources.read(AmountKind.SCORING, resource, self.slots)

    def allocatable_of(self, resources: Iterable[str]) -> Amounts:
        """Return `allocatable` of several resources as an array of the shape [resource, node slot]."""
        return self._resources.read_all(AmountKind.ALLOCATABLE, [*resources], self.slots)

    def requested_of(self, resources: Iterable[str]) -> Amounts:
        """Return `requested` of several resources as an array of the shape [resource, node slot]."""
        return self._resources.read_all(AmountKind.REQUESTED, [*resources], self.slots)

    def scoring_requested_of(self, resources: Iterable[str]) -> Amounts:
        """Return `scoring_requested` of several resources as an array of the shape [resource, node slot]."""
        return self._resources.read_all(AmountKind.SCORING, [*resources], self.slots)

    def amounts_of(self, slot: int) -> tuple[dict[str, int], dict[str, int]]:
        """Return the allocatable and the requested amounts of one node by resource, without those of 0."""
        return self._resources.amounts_of(slot)

    def label(self, key: str) -> DictionaryColumn[str | None]:
        """Return each node's value of the label `key`, or None for a node without the label."""
        return self._labels.column(key)

    @property
    def label_keys(self) -> Set[str]:
        """The keys of labels that some node has."""
        return self._labels.keys

    def annotation(self, key: str) -> DictionaryColumn[str | None]:
        """Return each node's value of the annotation `key`, or None for a node without the annotation.

        A plugin must declare the keys that it reads.
        """
        if self.kept_annotations is not None and key not in self.kept_annotations:
            raise UndeclaredAnnotationError(f"no plugin of a profile declares that it reads node annotation {key}")
        return self._annotations.column(key)

    def slots_with_port(self, wanted: HostPort) -> Iterable[int]:
        """Return the slots of the nodes where a pod uses a host port that conflicts with `wanted`."""
        holders = self._ports.get((wanted.protocol, wanted.port), {})
        return (slot for slot, ports in holders.items() if any(p.conflicts(wanted) for p in ports))

    @property
    def pod_rows(self) -> PodRows:
        """The pods on all nodes as a table with one row for each pod, on which selectors are evaluated.

        The table is built at the first use and then kept current.
        """
        if self._pod_rows is None:
            self._pod_rows = PodRows(self.pods)
        return self._pod_rows

    def changed_since(self, generation: int) -> NDArray[np.intp]:
        """Return the slots of the nodes that changed, or whose pods changed, after `generation`, ascending."""
        behind = self.generation - generation
        if behind > len(self._latest):
            return np.flatnonzero(self.since > generation)
        return np.array(sorted(set(islice(reversed(self._latest), behind))), np.intp)

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the value of `compute`, cached under `key` until a Node object changes.

        The value must depend on the Node objects alone.
        """
        generation = (self.node_generation, self.slots)
        if self._cache_generation != generation or len(self._cache) > _MAX_CACHED:
            self._cache, self._cache_generation = {}, generation
        if key not in self._cache:
            self._cache[key] = compute()
        value: T = self._cache[key]
        return value

    @property
    def slot_numbers(self) -> NDArray[np.intp]:
        """The numbers of the node slots: 0, 1, 2 and so on. In a `RowSubset`, the numbers in the full columns."""
        return np.arange(self.slots)

    def amounts(self, slots: Sequence[int]) -> tuple[list[int], list[list[int]], list[list[int]]]:
        """Return three lists for these node slots: generations of last change, allocatable and requested amounts.

        Each of the last two has one list for each of `resources`, with one entry for each slot, 0 for a slot without a
        node.
        """
        if 0 < len(slots) <= _FEW_SLOTS:  # an array as an index takes several times as long as a slot or two
            nothing = [[0] * len(self.resources)] * 2
            by_slot = [self._resources.amounts_at(n).tolist() if self.live.item(n) else nothing for n in slots]
            allocatable, requested = (
                [list(row) for row in zip(*rows, strict=True)] for rows in zip(*by_slot, strict=True)
            )
            return [self.since.item(slot) for slot in slots], allocatable, requested
        indices = np.array(slots, np.intp)
        allocatable, requested = (self._resources.amounts_at(indices) * self.live.take(indices)).tolist()
        return self.since.take(indices).tolist(), allocatable, requested

    # --- changing -------------------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> int:
        """Add or replace a node; return its slot (the node's index in all columns)."""
        slot = self._slot(node.metadata.name)
        self.membership += self.nodes[slot] is None or self.uids[slot] != node.metadata.uid
        self.uids[slot] = node.metadata.uid
        self.nodes[slot] = node
        for declared, read in _FROM_NODE:
            declared.set(self.__dict__[declared.name], slot, read(node))
        self._resources.set_allocatable(slot, requests.compute_allocatable(node.status.allocatable))
        self._labels.set(slot, node.metadata.labels)
        self._annotations.set(slot, node.metadata.annotations)
        self.images.set(slot, node)
        self.order.set(slot, node)
        self.node_generation += 1
        self._touch(slot)
        return slot

    def refresh_node(self, node: Node) -> None:
        """Replace a Node object that differs from the present one only in annotations and fields that no column holds.

        The node does not count as changed.
        """
        slot = self.index[node.metadata.name]
        self.nodes[slot] = node
        if self._annotations.set(slot, node.metadata.annotations):
            self.revision += 1

    def remove_node(self, name: str) -> None:
        """Remove a node. Its slot (row index) is not reused until all pods on the node are removed too."""
        slot = self.index.get(name)
        if slot is None or self.nodes[slot] is None:
            return
        self.membership += 1
        self.uids[slot] = ""
        self.nodes[slot] = None
        for declared, _ in _FROM_NODE:
            declared.set(self.__dict__[declared.name], slot, declared.default)
        self._resources.set_allocatable(slot, {})
        self._labels.set(slot, None)
        self._annotations.set(slot, None)
        self.images.set(slot, None)
        self.order.remove(slot)
        self.node_generation += 1
        self._touch(slot)
        self._release_if_empty(slot)

    def add_pod(self, pod: PodInfo, node_name: str) -> None:
        """Add a pod to a node, even if the Node object is not known yet."""
        slot = self._slot(node_name)
        self._put(slot, pod)
        self._count(slot, pod, +1)
        self._register_volumes_and_ports(slot, pod)

    def remove_pod(self, uid: str, node_name: str) -> None:
        """Remove the pod with this UID from a node. Raises KeyError if it is not there."""
        slot = self.index[node_name]
        self._count(slot, self._take(slot, uid), -1)
        self._release_if_empty(slot)

    def replace_pod(self, pod: PodInfo, node_name: str) -> None:
        """Replace a pod on this node by a newer version.

        The node counts as changed only if the pod's requests, host ports or volumes differ.
        """
        slot = self.index[node_name]
        if self._counted(self.pods[slot][pod.uid]) == self._counted(pod):
            self._put(slot, pod)
            self.revision += 1
            self.revised[slot] = self.revision
        else:
            self.remove_pod(pod.uid, node_name)
            self.add_pod(pod, node_name)

    def count_pods_as(self, counting: PodCounting) -> None:
        """Set the rules by which pods count on nodes, and count the pods that are on nodes again."""
        if counting == self._counting:
            return
        on_nodes = [(pod, name) for name, slot in self.index.items() for pod in self.pods[slot].values()]
        for pod, name in on_nodes:
            self._count(self.index[name], self._take(self.index[name], pod.uid), -1)
        self._counting = counting
        for pod, name in on_nodes:
            self.add_pod(pod, name)

    def find_differences(self, other: NodeColumns) -> dict[str, Mask]:
        """Return the mask of the slots that differ from `other`, by the name of the column, where any slot differs.

        Columns of Node objects and amounts of resources are compared. Both must have the same nodes in the same slots.
        """
        differences = {}
        for declared, _ in _FROM_NODE:
            mine, others = (declared.to_list(getattr(c, declared.name), self.slots) for c in (self, other))
            differences[declared.name] = np.array([one != two for one, two in zip(mine, others, strict=True)], np.bool_)
        resources = {*self.list_resources(), *other.list_resources()}
        for name in ("allocatable", "requested", "scoring_requested"):
            read_mine, read_others = (getattr(columns, name) for columns in (self, other))
            differences[name] = np.zeros(self.slots, np.bool_)
            for resource in resources:  # one at a time: pods may request thousands
                differences[name] |= read_mine(resource) != read_others(resource)
        return {name: differs for name, differs in differences.items() if differs.any()}

    def take_changed_slots(self) -> list[int]:
        """Return the slots of the nodes that changed, or whose pods changed, since the last call, ascending."""
        touched, self._touched = sorted(self._touched), set()
        return touched

    # --- slots and rows -------------------------------------------------------------------------------------------

    def _slot(self, name: str) -> int:
        slot = self.index.get(name)
        if slot is not None:
            return slot
        if self._free:
            slot = heapq.heappop(self._free)
            self.names[slot] = name
        else:
            slot = self.slots
            self.slots += 1
            self.names.append(name)
            self.uids.append("")
            self.nodes.append(None)
            self.pods.append({})
            if self.slots > self._capacity:
                self._grow()
            self._fit_columns()
        self.index[name] = slot
        return slot

    def _release_if_empty(self, slot: int) -> None:
        if self.nodes[slot] is None and not self.pods[slot]:
            del self.index[self.names[slot]]
            self.names[slot] = ""
            heapq.heappush(self._free, slot)

    def _grow(self) -> None:
        more = self._capacity
        self._capacity *= 2
        self._resources.grow(more)
        self._labels.grow(self._capacity)
        self._annotations.grow(self._capacity)

    def _fit_columns(self) -> None:
        for declared in DECLARED:
            declared.fit(self, self.slots, self._capacity)

    def _register_volumes_and_ports(self, slot: int, pod: PodInfo) -> None:
        """Count the pod's volumes and host ports as used on the node in `slot`."""
        self.volumes.add(slot, pod)
        for port in self._counting.host_ports(pod):
            self._ports.setdefault((port.protocol, port.port), {}).setdefault(slot, []).append(port)

    def _put(self, slot: int, pod: PodInfo) -> None:
        self.pods[slot][pod.uid] = pod
        if self._pod_rows is not None:
            self._pod_rows.set(slot, pod)

    def _take(self, slot: int, uid: str) -> PodInfo:
        pod = self.pods[slot].pop(uid)
        if self._pod_rows is not None:
            self._pod_rows.remove(slot, uid)
        self.volumes.remove(slot, pod)
        for port in self._counting.host_ports(pod):
            holders = self._ports[port.protocol, port.port]
            holders[slot].remove(port)
            if not holders[slot]:
                del holders[slot]
            if not holders:
                del self._ports[port.protocol, port.port]
        return pod

    def _counted(self, pod: PodInfo) -> tuple[object, ...]:
        """Return the requests, scoring requests, host ports and volumes with which the pod counts on its node."""
        counting = self._counting
        return counting.requests(pod), counting.scoring_requests(pod), counting.host_ports(pod), pod.pod.spec.volumes

    def _count(self, slot: int, pod: PodInfo, sign: int) -> None:
        counting = self._counting
        self._resources.count(slot, counting.requests(pod), counting.scoring_requests(pod), sign)
        self._touch(slot)

    def _touch(self, slot: int) -> None:
        self.generation += 1
        self.revision += 1
        self.since[slot], self.revised[slot] = self.generation, self.revision
        self._touched.add(slot)
        self._latest.append(slot)


DECLARED: Final = tuple(column for column in vars(NodeColumns).values() if isinstance(column, NodeColumn))
_FROM_NODE: Final = tuple((column, column.read) for column in DECLARED if column.read)


def columns_differ(old: Node, new: Node) -> bool:
    """Return whether two versions of a node differ in a value that the columns hold, annotations apart."""
    return any(read(old) != read(new) for _, read in _FROM_NODE) or (
        old.metadata.uid,
        old.metadata.labels,
        old.status.allocatable,
        old.status.images,
    ) != (new.metadata.uid, new.metadata.labels, new.status.allocatable, new.status.images)


@dataclass(frozen=True)
class Snapshot:
    """A view of the node columns at one revision, without a copy.

    Reading it after the columns have changed raises `StaleSnapshotError`.
    """

    columns: NodeColumns
    generation: int
    revision: int
    placement: Mask | None = None  # the nodes among which a pod group is placed, by slot; None: all

    @classmethod
    def from_columns(cls, columns: NodeColumns, placement: Mask | None = None) -> Snapshot:
        """Return a snapshot of the columns as they are now; `placement` masks the nodes that a pod may get.

        It is None if a pod may get every node.
        """
        return cls(columns, columns.generation, columns.revision, placement)

    @property
    def nodes(self) -> NodeColumns:
        """The node columns. Raises StaleSnapshotError if they have changed since the snapshot was taken."""
        if self.columns.revision != self.revision:
            raise StaleSnapshotError(f"revision {self.revision} is over, the columns are at {self.columns.revision}")
        return self.columns
