"""Every node's state as columns.

Owns: slots (stable numbers with tombstones), taints, labels, ports, images, the pods on each node, and which rows
changed. Does not own: amounts (`resources`), the life of a pod between assumed and confirmed (`scheduler.cache`).

Invariant: after any sequence of changes the columns equal those built from scratch from the same nodes and pods.
A slot without a node (`live` False) holds zeros; pods may sit in it before their node appears (kube-scheduler's
"ghost" node), and they count as soon as it does.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.columns.dictionary import DictionaryColumn
from scheduler.columns.images import Images
from scheduler.columns.order import VisitOrder
from scheduler.columns.pods import PodRows
from scheduler.columns.resources import Amounts, Resources
from scheduler.columns.volumes import Volumes
from scheduler.objects import requests
from scheduler.objects.pod import HostPort, PodInfo
from scheduler.objects.types import Node, Taint

Mask = NDArray[np.bool_]

T = TypeVar("T")

_FIRST_CAPACITY: Final = 64  # slots; doubles when full
LATEST: Final = 1024  # changes of rows that are told one by one; whoever is further behind compares generations
_KEPT: Final = 512  # values that follow from the Node objects, a few bytes a slot each: some megabytes at 5,000 nodes


class StaleSnapshotError(RuntimeError):
    """A snapshot was read after the columns had changed."""


class NodeColumns:
    """Nodes and the pods on them, by slot. Changed by one thread only; read through a `Snapshot`."""

    def __init__(self) -> None:
        self.generation = 0  # goes up when a row changes
        self.revision = 0  # goes up when anything changes
        self.node_generation = 0  # goes up when a node appears, changes or goes
        self.slots = 0  # the high-water mark: columns are this long
        self.names: list[str] = []
        self.uids: list[str] = []
        self.nodes: list[Node | None] = []
        self.pods: list[dict[str, PodInfo]] = []
        self.index: dict[str, int] = {}
        self.images = Images()
        self.volumes = Volumes()
        self.order = VisitOrder()
        self._capacity = _FIRST_CAPACITY
        self._free: list[int] = []
        self._held = Resources(self._capacity)
        self._since, self._revised = np.zeros((2, self._capacity), np.int64)
        self._live = np.zeros(self._capacity, np.bool_)
        self._unschedulable = np.zeros(self._capacity, np.bool_)
        self._taints: DictionaryColumn[tuple[Taint, ...]] = DictionaryColumn((), self._capacity)
        self._features: DictionaryColumn[frozenset[str]] = DictionaryColumn(frozenset(), self._capacity)
        self._labels: dict[str, DictionaryColumn[str | None]] = {}
        self._annotations: dict[str, DictionaryColumn[str | None]] = {}
        self._ports: dict[tuple[str, int], dict[int, list[HostPort]]] = {}
        self._pod_rows: PodRows | None = None
        self._touched: set[int] = set()
        self._latest: deque[int] = deque(maxlen=LATEST)  # slots that changed, one for each generation
        self._kept: dict[Hashable, Any] = {}
        self._kept_of = (0, 0)  # the node generation and the number of slots of these

    # --- reading --------------------------------------------------------------------------------------------------

    @property
    def live(self) -> Mask:
        """Which slots hold a node."""
        return self._live[: self.slots]

    @property
    def unschedulable(self) -> Mask:
        """spec.unschedulable: cordoned."""
        return self._unschedulable[: self.slots]

    @property
    def resources(self) -> tuple[str, ...]:
        """Every resource that some node has or some pod requests."""
        return self._held.names

    def allocatable(self, resource: str) -> Amounts:
        """status.allocatable in base units; `pods` is the number of pods allowed."""
        return self._held.allocatable[self._held.row(resource), : self.slots]

    def requested(self, resource: str) -> Amounts:
        """What the pods on each node request, in base units; `pods` is their number."""
        return self._held.requested[self._held.row(resource), : self.slots]

    def scoring_requested(self, resource: str) -> Amounts:
        """As `requested`, for cpu and memory with kube-scheduler's defaults for containers that name none."""
        return self._held.scoring[self._held.row(resource), : self.slots]

    def allocatable_of(self, resources: Iterable[str]) -> Amounts:
        """Of several resources, as `[resource, slot]`; a copy."""
        return self._held.allocatable[:, : self.slots].take(self._held.rows(resources), axis=0)

    def requested_of(self, resources: Iterable[str]) -> Amounts:
        """Likewise."""
        return self._held.requested[:, : self.slots].take(self._held.rows(resources), axis=0)

    def scoring_requested_of(self, resources: Iterable[str]) -> Amounts:
        """Likewise."""
        return self._held.scoring[:, : self.slots].take(self._held.rows(resources), axis=0)

    @property
    def taints(self) -> DictionaryColumn[tuple[Taint, ...]]:
        """spec.taints, each distinct list once."""
        return self._taints

    @property
    def declared_features(self) -> DictionaryColumn[frozenset[str]]:
        """status.declaredFeatures, each distinct set once."""
        return self._features

    def label(self, key: str) -> DictionaryColumn[str | None]:
        """The values of a node label; None where a node does not have it. Kept up to date once it was asked for."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = DictionaryColumn(None, self._capacity)
            for slot, node in enumerate(self.nodes):
                if node is not None:
                    column.set(slot, (node.metadata.labels or {}).get(key))
        return column

    def annotation(self, key: str) -> DictionaryColumn[str | None]:
        """The values of a node annotation that a plugin says it reads, likewise."""
        column = self._annotations.get(key)
        if column is None:
            column = self._annotations[key] = DictionaryColumn(None, self._capacity)
            for slot, node in enumerate(self.nodes):
                if node is not None:
                    column.set(slot, (node.metadata.annotations or {}).get(key))
        return column

    def ports_taken(self, wanted: HostPort) -> Iterable[int]:
        """The slots where a host port is taken."""
        holders = self._ports.get((wanted.protocol, wanted.port), {})
        return (slot for slot, ports in holders.items() if any(p.conflicts(wanted) for p in ports))

    @property
    def pod_rows(self) -> PodRows:
        """The pods on all slots, to match selectors with. Kept up to date once they were asked for."""
        if self._pod_rows is None:
            self._pod_rows = PodRows(self.pods)
        return self._pod_rows

    @property
    def since(self) -> Amounts:
        """The generation at which each slot last changed."""
        return self._since[: self.slots]

    @property
    def revised(self) -> Amounts:
        """The revision at which each slot last changed, or a pod on it was replaced by one that asks for the same."""
        return self._revised[: self.slots]

    def changed_since(self, generation: int) -> NDArray[np.intp]:
        """The slots that changed after a generation, ascending."""
        behind = self.generation - generation
        if behind > len(self._latest):
            return np.flatnonzero(self.since > generation)
        return np.array(sorted(set(islice(reversed(self._latest), behind))), np.intp)

    def kept(self, what: Hashable, compute: Callable[[], T]) -> T:
        """What follows from the Node objects alone: computed when first asked for, kept until one of them changes."""
        of = (self.node_generation, self.slots)
        if self._kept_of != of or len(self._kept) > _KEPT:
            self._kept, self._kept_of = {}, of
        if what not in self._kept:
            self._kept[what] = compute()
        value: T = self._kept[what]
        return value

    @property
    def numbers(self) -> NDArray[np.intp]:
        """The slots themselves; of `Rows`, those of the whole."""
        return np.arange(self.slots)

    def amounts(self, slots: Sequence[int]) -> tuple[list[int], list[list[int]], list[list[int]]]:
        """Of slots: since when, and for each of `resources` what is allocatable and requested, 0 without a node."""
        here, known, held = [(slot, self._live.item(slot)) for slot in slots], len(self.resources), self._held

        def of(matrix: Amounts) -> list[list[int]]:  # slot by slot: mostly there are one or two
            rows = [matrix[:known, slot].tolist() if live else [0] * known for slot, live in here]
            return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(known)]

        return [self._since.item(slot) for slot in slots], of(held.allocatable), of(held.requested)

    # --- changing -------------------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> int:
        """Add or replace a node; its slot."""
        slot = self._slot(node.metadata.name)
        self.uids[slot] = node.metadata.uid
        self.nodes[slot] = node
        self._live[slot] = True
        self._unschedulable[slot] = node.spec.unschedulable
        self._held.set_allocatable(slot, requests.base_units(node.status.allocatable))
        self._taints.set(slot, tuple(node.spec.taints or ()))
        self._features.set(slot, frozenset(node.status.declared_features or ()))
        labels = node.metadata.labels or {}
        for key, column in self._labels.items():
            column.set(slot, labels.get(key))
        self._annotate(slot, node)
        self.images.set(slot, node)
        self.order.set(slot, node)
        self.node_generation += 1
        self._touch(slot)
        return slot

    def refresh_node(self, node: Node) -> None:
        """A newer version of a known node that differs in nothing that columns hold but annotations. No row changes."""
        slot = self.index[node.metadata.name]
        self.nodes[slot] = node
        if self._annotations:
            self._annotate(slot, node)
            self.revision += 1

    def remove_node(self, name: str) -> None:
        """Forget a node. Its slot stays while pods are still counted on it."""
        slot = self.index.get(name)
        if slot is None or self.nodes[slot] is None:
            return
        self.uids[slot] = ""
        self.nodes[slot] = None
        self._live[slot] = self._unschedulable[slot] = False
        self._held.set_allocatable(slot, {})
        self._taints.set(slot, ())
        self._features.set(slot, frozenset())
        for column in (*self._labels.values(), *self._annotations.values()):
            column.set(slot, None)
        self.images.set(slot, None)
        self.order.remove(slot)
        self.node_generation += 1
        self._touch(slot)
        self._release_if_empty(slot)

    def add_pod(self, pod: PodInfo, node_name: str) -> None:
        """Count a pod on a node, which need not be known yet."""
        slot = self._slot(node_name)
        self._put(slot, pod)
        self._count(slot, pod, +1)
        self._occupy(slot, pod)

    def remove_pod(self, uid: str, node_name: str) -> None:
        """Stop counting a pod on a node. KeyError when it is not counted there."""
        slot = self.index[node_name]
        self._count(slot, self._take(slot, uid), -1)
        self._release_if_empty(slot)

    def replace_pod(self, pod: PodInfo, node_name: str) -> None:
        """Count a newer version of a pod that is counted on this node. No row changes where it asks for the same."""
        slot = self.index[node_name]
        old = self.pods[slot][pod.uid]
        same = (old.requests, old.scoring_requests, old.host_ports, old.pod.spec.volumes) == (
            pod.requests,
            pod.scoring_requests,
            pod.host_ports,
            pod.pod.spec.volumes,
        )
        if same:
            self._put(slot, pod)
            self.revision += 1
            self._revised[slot] = self.revision
        else:
            self.remove_pod(pod.uid, node_name)
            self.add_pod(pod, node_name)

    def take_touched(self) -> list[int]:
        """The slots that changed since the last call, ascending."""
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
        self._held.grow(more)
        self._since, self._revised = (np.pad(of, (0, more)) for of in (self._since, self._revised))
        self._live, self._unschedulable = (np.pad(m, (0, more)) for m in (self._live, self._unschedulable))
        self._taints.grow(self._capacity)
        self._features.grow(self._capacity)
        for column in (*self._labels.values(), *self._annotations.values()):
            column.grow(self._capacity)

    def _annotate(self, slot: int, node: Node) -> None:
        annotations = node.metadata.annotations or {}
        for key, column in self._annotations.items():
            column.set(slot, annotations.get(key))

    def _occupy(self, slot: int, pod: PodInfo) -> None:
        """Volumes and ports that others may want."""
        self.volumes.add(slot, pod)
        for port in pod.host_ports:
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
        for port in pod.host_ports:
            holders = self._ports[port.protocol, port.port]
            holders[slot].remove(port)
            if not holders[slot]:
                del holders[slot]
        return pod

    def _count(self, slot: int, pod: PodInfo, sign: int) -> None:
        self._held.count(slot, pod.requests, pod.scoring_requests, sign)
        self._touch(slot)

    def _touch(self, slot: int) -> None:
        self.generation += 1
        self.revision += 1
        self._since[slot], self._revised[slot] = self.generation, self.revision
        self._touched.add(slot)
        self._latest.append(slot)


@dataclass(frozen=True)
class Snapshot:
    """The columns as of a revision, without a copy; reading it after a change raises `StaleSnapshotError`."""

    columns: NodeColumns
    generation: int
    revision: int

    @classmethod
    def of(cls, columns: NodeColumns) -> Snapshot:
        """The columns as they are now."""
        return cls(columns, columns.generation, columns.revision)

    @property
    def nodes(self) -> NodeColumns:
        """The columns, if they have not changed since."""
        if self.columns.revision != self.revision:
            raise StaleSnapshotError(f"revision {self.revision} is over, the columns are at {self.columns.revision}")
        return self.columns
