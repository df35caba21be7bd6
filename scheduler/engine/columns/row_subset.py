"""Columns of a subset of the nodes.

Owns: `RowSubset`, a read-only view on which plugins run when only these rows changed, and `RowCopy`, to which dry runs
add pods and from which they remove pods. Does not own: the columns (`nodes`). Neither has data about the cluster as a
whole (visiting order, images).

Invariant: both hold the values of the full columns; a `RowSubset` only until these change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Set

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.columns.dictionary import DictionaryColumn
from scheduler.engine.columns.nodes import MAX_RECENT_CHANGES, NodeColumns
from scheduler.engine.columns.resources import ResourceColumns
from scheduler.engine.columns.volumes import VolumeColumns
from scheduler.engine.objects.lazy import lazy
from scheduler.engine.objects.pod import HostPort, PodInfo
from scheduler.engine.objects.types import Node


class RowSubset(NodeColumns):
    """A read-only view of the node columns for a few nodes: amounts, taints, features, labels and pods.

    Index i of the view is the node slot `chosen[i]` of the full columns. Attributes are computed at the first access,
    because a plugin reads only a few of them.
    """

    def __init__(self, columns: NodeColumns, chosen: NDArray[np.intp]) -> None:
        self.generation, self.revision, self.node_generation = (
            columns.generation,
            columns.revision,
            columns.node_generation,
        )
        self.slots = len(chosen)
        self.full = columns
        self._chosen = chosen
        self._cache, self._cache_generation = {}, (self.node_generation, self.slots)

    @property
    def slot_numbers(self) -> NDArray[np.intp]:
        return self._chosen

    @lazy
    def names(self) -> list[str]:
        return [self.full.names[slot] for slot in self._chosen.tolist()]

    @lazy
    def uids(self) -> list[str]:
        return [self.full.uids[slot] for slot in self._chosen.tolist()]

    @lazy
    def nodes(self) -> list[Node | None]:
        return [self.full.nodes[slot] for slot in self._chosen.tolist()]

    @lazy
    def pods(self) -> list[dict[str, PodInfo]]:
        return [self.full.pods[slot] for slot in self._chosen.tolist()]

    @lazy
    def _resources(self) -> ResourceColumns:
        return self.full._resources.select(self._chosen)

    @lazy
    def index(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    @lazy
    def content(self) -> bytes:
        """Return a key that is equal for subsets with equal resource amounts in every row and the same `live` mask."""
        return self._resources.content() + self.live.tobytes()

    def label(self, key: str) -> DictionaryColumn[str | None]:
        return self.full.label(key).rows(self._chosen)

    @property
    def label_keys(self) -> Set[str]:
        return self.full.label_keys

    def annotation(self, key: str) -> DictionaryColumn[str | None]:
        return self.full.annotation(key).rows(self._chosen)


class RowCopy(RowSubset):
    """A copy of the columns for a few nodes and their pods, to which dry runs add pods and from which they remove pods.

    The set of nodes is fixed. Amounts are copied at once. Pods, volumes and ports are copied at the first access,
    because most filters do not read them; until then the full columns must not change.
    """

    def __init__(self, columns: NodeColumns, slots: Sequence[int] | NDArray[np.intp]) -> None:
        chosen = np.array(slots, np.intp)
        super().__init__(columns, chosen)
        self._resources, self._counting = columns._resources.select(chosen), columns._counting
        self.since, self.revised = columns.since[chosen], columns.revised[chosen]
        self._touched, self._latest = set(), deque(maxlen=MAX_RECENT_CHANGES)
        self._pod_rows = None
        self._pending: (
            list[tuple[Sequence[tuple[int, PodInfo]], int]] | None
        ) = []  # +1 added, -1 removed; None after the copy

    @lazy
    def pods(self) -> list[dict[str, PodInfo]]:
        self._copy_pods()
        return self.pods

    @lazy
    def volumes(self) -> VolumeColumns:
        self._copy_pods()
        return self.volumes

    @lazy
    def _ports(self) -> dict[tuple[str, int], dict[int, list[HostPort]]]:
        self._copy_pods()
        return self._ports

    def add_pods(self, pods: Sequence[tuple[int, PodInfo]]) -> None:
        """Add pods to nodes of this copy, given as pairs (index of the node in the copy, pod)."""
        self._change(pods, +1)

    def remove_pods(self, pods: Sequence[tuple[int, PodInfo]]) -> None:
        """Remove pods from nodes of this copy, given as pairs (index of the node in the copy, pod)."""
        self._change(pods, -1)

    def _change(self, pods: Sequence[tuple[int, PodInfo]], sign: int) -> None:
        if self._pending is not None:
            self._pending.append((pods, sign))
        elif sign > 0:
            for slot, pod in pods:
                self._put(slot, pod)
                self._register_volumes_and_ports(slot, pod)
        else:
            for slot, pod in pods:
                self._take(slot, pod.uid)
        slots = [slot for slot, _ in pods]
        self._resources.count_all(slots, [self._counting.amounts(pod) for _, pod in pods], sign)
        increments = np.arange(1, len(slots) + 1)
        self.since[slots], self.revised[slots] = self.generation + increments, self.revision + increments
        self.generation += len(slots)
        self.revision += len(slots)
        self._touched.update(slots)
        self._latest.extend(slots)

    def _copy_pods(self) -> None:
        pending, self._pending = self._pending, None
        self.pods = [dict(self.full.pods[slot]) for slot in self._chosen.tolist()]
        self.volumes, self._ports = VolumeColumns(), {}
        for changed, sign in pending or ():
            for slot, pod in changed:
                if sign > 0:
                    self.pods[slot][pod.uid] = pod
                else:
                    del self.pods[slot][pod.uid]
        for slot, pods in enumerate(self.pods):
            for pod in pods.values():
                self._register_volumes_and_ports(slot, pod)

    def _release_if_empty(self, slot: int) -> None:
        """Do nothing: the copy keeps the slot, because its set of nodes is fixed."""
