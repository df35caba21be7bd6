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
from scheduler.objects.pod import PodInfo
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
    """Some nodes and their pods on their own, to try pods on and off. Nodes neither come nor go."""

    def __init__(self, whole: NodeColumns, slots: Sequence[int]) -> None:
        chosen = np.array(slots, np.intp)
        super().__init__(whole, chosen)
        self.pods = [dict(whole.pods[slot]) for slot in chosen.tolist()]
        self._held = whole._held.of(chosen)
        self._since = whole.since[chosen]
        self._touched, self._latest = set(), deque(maxlen=LATEST)
        self._pod_rows = None
        self.volumes, self._ports = Volumes(), {}
        for slot, pods in enumerate(self.pods):
            for pod in pods.values():
                self._occupy(slot, pod)

    @property
    def since(self) -> Amounts:
        return self._since

    def _release_if_empty(self, slot: int) -> None:
        """Every slot stays: its node does."""
