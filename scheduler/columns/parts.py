"""Some nodes of the columns as columns of their own.

Owns: rows to read, which plugins are asked about where only these changed; copies to try pods on and off. Does not own:
the columns (`nodes`). What is known of the cluster as a whole (the order of visits, images) is not in either.

Invariant: both show what the whole shows, rows as long as that does not change.
"""

# ruff: noqa: D102 - what is said here is what NodeColumns says, of fewer nodes

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.columns.dictionary import DictionaryColumn
from scheduler.columns.nodes import LATEST, Mask, NodeColumns
from scheduler.columns.resources import Amounts, Resources
from scheduler.columns.volumes import Volumes
from scheduler.objects.lazy import lazy
from scheduler.objects.pod import HostPort, PodInfo
from scheduler.objects.types import Node, Taint


class Rows(NodeColumns):
    """Some slots' rows, to read only: amounts, taints, features, labels and pods."""

    def __init__(self, whole: NodeColumns, chosen: NDArray[np.intp]) -> None:
        self.generation, self.revision, self.node_generation = whole.generation, whole.revision, whole.node_generation
        self.slots = len(chosen)
        self._whole = whole
        self._chosen = chosen
        self._kept, self._kept_of = {}, (self.node_generation, self.slots)

    @property
    def numbers(self) -> NDArray[np.intp]:
        return self._chosen

    # worked out when they are asked for: a plugin reads a few of them, of a few rows

    @lazy
    def names(self) -> list[str]:
        """As of the whole."""
        return [self._whole.names[slot] for slot in self._chosen.tolist()]

    @lazy
    def uids(self) -> list[str]:
        """As of the whole."""
        return [self._whole.uids[slot] for slot in self._chosen.tolist()]

    @lazy
    def nodes(self) -> list[Node | None]:
        """As of the whole."""
        return [self._whole.nodes[slot] for slot in self._chosen.tolist()]

    @lazy
    def pods(self) -> list[dict[str, PodInfo]]:
        """As of the whole."""
        return [self._whole.pods[slot] for slot in self._chosen.tolist()]

    @lazy
    def _held(self) -> Resources:
        return self._whole._held.of(self._chosen)

    @lazy
    def index(self) -> dict[str, int]:
        """Of the names that are here."""
        return {name: i for i, name in enumerate(self.names)}

    @lazy
    def content(self) -> bytes:
        """Equal for as many rows that are alike in all amounts, and in whether there is a node."""
        return self._held.content() + self.live.tobytes()

    @lazy
    def live(self) -> Mask:
        """As of the whole."""
        return self._whole.live[self._chosen]

    @property
    def unschedulable(self) -> Mask:
        return self._whole.unschedulable[self._chosen]

    @property
    def since(self) -> Amounts:
        return self._whole.since[self._chosen]

    @property
    def revised(self) -> Amounts:
        return self._whole.revised[self._chosen]

    @property
    def taints(self) -> DictionaryColumn[tuple[Taint, ...]]:
        return self._whole.taints.rows(self._chosen)

    @property
    def declared_features(self) -> DictionaryColumn[frozenset[str]]:
        return self._whole.declared_features.rows(self._chosen)

    def label(self, key: str) -> DictionaryColumn[str | None]:
        return self._whole.label(key).rows(self._chosen)

    def annotation(self, key: str) -> DictionaryColumn[str | None]:
        return self._whole.annotation(key).rows(self._chosen)


class Copy(Rows):
    """Some nodes and their pods on their own, to try pods on and off, many at once. Nodes neither come nor go.

    Amounts are always up to date. Pods, volumes and ports are copied when they are first asked for, and then take part
    in every change: of most pods no filter asks for them. Up to then the whole must not change.
    """

    def __init__(self, whole: NodeColumns, slots: Sequence[int] | NDArray[np.intp]) -> None:
        chosen = np.array(slots, np.intp)
        super().__init__(whole, chosen)
        self._held = whole._held.of(chosen)
        self._since, self._revised = whole.since[chosen], whole.revised[chosen]
        self._touched, self._latest = set(), deque(maxlen=LATEST)
        self._pod_rows = None
        self._owed: list[tuple[Sequence[tuple[int, PodInfo]], int]] | None = []  # +1 came, -1 went; None: nothing is

    @property
    def since(self) -> Amounts:
        return self._since

    @property
    def revised(self) -> Amounts:
        return self._revised

    @lazy
    def pods(self) -> list[dict[str, PodInfo]]:
        """As they are here."""
        self._copy_pods()
        return self.pods

    @lazy
    def volumes(self) -> Volumes:
        """Of these pods."""
        self._copy_pods()
        return self.volumes

    @lazy
    def _ports(self) -> dict[tuple[str, int], dict[int, list[HostPort]]]:
        self._copy_pods()
        return self._ports

    def add_pods(self, pods: Sequence[tuple[int, PodInfo]]) -> None:
        """Count pods on slots."""
        self._change(pods, +1)

    def remove_pods(self, pods: Sequence[tuple[int, PodInfo]]) -> None:
        """Stop counting pods where they are counted."""
        self._change(pods, -1)

    def _change(self, pods: Sequence[tuple[int, PodInfo]], sign: int) -> None:
        if self._owed is not None:
            self._owed.append((pods, sign))
        elif sign > 0:
            for slot, pod in pods:
                self._put(slot, pod)
                self._occupy(slot, pod)
        else:
            for slot, pod in pods:
                self._take(slot, pod.uid)
        slots = [slot for slot, _ in pods]
        self._held.count_all(slots, [pod.counted for _, pod in pods], sign)
        one_by_one = np.arange(1, len(slots) + 1)
        self._since[slots], self._revised[slots] = self.generation + one_by_one, self.revision + one_by_one
        self.generation += len(slots)
        self.revision += len(slots)
        self._touched.update(slots)
        self._latest.extend(slots)

    def _copy_pods(self) -> None:
        owed, self._owed = self._owed, None
        self.pods = [dict(self._whole.pods[slot]) for slot in self._chosen.tolist()]
        self.volumes, self._ports = Volumes(), {}
        for changed, sign in owed or ():
            for slot, pod in changed:
                if sign > 0:
                    self.pods[slot][pod.uid] = pod
                else:
                    del self.pods[slot][pod.uid]
        for slot, pods in enumerate(self.pods):
            for pod in pods.values():
                self._occupy(slot, pod)

    def _release_if_empty(self, slot: int) -> None:
        """Every slot stays: its node does."""
