"""Results of the search for devices by node, kept from one attempt to the next of pods with equal claims.

What a node gives for a set of claims changes only with the node, with the slices that reach it, and with the
allocations of their devices. After an allocation, usually one node is searched again.

Invariant: a kept result equals that of a new search. Where pools of two drivers share a name and have counters, the
allocator's result on a node depends on earlier nodes, and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from herodotus_record.lru import Lru
from herodotus_record.model import NOT_RUN, SUCCESS, Code, Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.interface import Mask
from scheduler.engine.framework.verdicts import Verdicts
from scheduler.engine.objects.types import Node
from scheduler.engine.plugins.dynamic_resources.attempt import NodeAllocation
from scheduler.engine.plugins.dynamic_resources.devices import ClusterDevices

MAX_EXPLAINED: Final = 64  # distinct verdicts of one column; further ones leave out what stops the devices
MAX_ENTRIES: Final = 64  # sets of claims that are remembered: about 1 kB for each node and set

# Returns the verdict on a node, and what the pod gets there if the verdict is Success.
Search = Callable[[Node], tuple[Verdict, NodeAllocation | None]]


class NodeResults:
    """The latest verdict on each node for one set of claims, with the allocations of the nodes that fit.

    `allocations` is replaced when it changes, so that an attempt can keep it.
    """

    def __init__(self) -> None:
        self.allocations: dict[str, NodeAllocation] = {}
        self._nodes: list[Node | None] = []
        self._known: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._ids: NDArray[np.uint16] = np.zeros(0, np.uint16)
        self._table = _VerdictTable()
        self._revision = -1
        self._searched = 0  # nodes since the table was compacted

    def refresh(self, nodes: NodeColumns, remaining: Mask, devices: ClusterDevices | None, search: Search) -> Verdicts:
        """Search for devices on the nodes of the mask `remaining` whose result is unknown or outdated.

        Returns the verdicts on all nodes of the mask, and NOT_RUN on others. `devices` determines which nodes changed
        since the last call; with None, every node is searched.
        """
        self._forget_changed(nodes, devices)
        missing = np.flatnonzero(remaining & ~self._known).tolist()
        if missing:
            allocations = dict(self.allocations)
            self._searched += len(missing)
            if len(self._table) > MAX_EXPLAINED and self._searched >= MAX_EXPLAINED:
                self._compact()
            for slot in missing:
                node = self._nodes[slot]
                assert node is not None
                verdict, allocation = search(node)
                self._ids[slot] = self._table.add(verdict)
                self._known[slot] = verdict.code is not Code.ERROR
                if allocation is not None:
                    allocations[node.metadata.name] = allocation
                else:
                    allocations.pop(node.metadata.name, None)
            self.allocations = allocations
        return Verdicts(self._table.verdicts, np.where(remaining, self._ids, 1).astype(np.uint16))

    def _forget_changed(self, nodes: NodeColumns, devices: ClusterDevices | None) -> None:
        """Mark the results of nodes that changed since the last call as unknown; of all nodes if `devices` is None."""
        if self._nodes != nodes.nodes:  # compares the identity of each element first
            before, self._nodes = self._nodes, list(nodes.nodes)
            unchanged = np.zeros(len(self._nodes), np.bool_)
            ids = np.zeros(len(self._nodes), np.uint16)
            for slot, (old, new) in enumerate(zip(before, self._nodes, strict=False)):
                if old is new and slot < len(self._known):
                    unchanged[slot], ids[slot] = self._known[slot], self._ids[slot]
            self._known, self._ids = unchanged, ids
        changed = None if devices is None else devices.list_changed_nodes(self._revision)
        self._revision = -1 if devices is None else devices.revision
        if changed is None:
            self._known[:] = False
            return
        for name in changed:
            changed_slot = nodes.index.get(name)
            if changed_slot is not None:
                self._known[changed_slot] = False

    def _compact(self) -> None:
        """Remove from the table the verdicts that are no node's result any more."""
        table = _VerdictTable()
        for slot in np.flatnonzero(self._known).tolist():
            self._ids[slot] = table.add(self._table.verdicts[self._ids[slot]])
        self._table, self._searched = table, 0


class _VerdictTable:
    """Distinct verdicts by number, in the order in which they were added."""

    def __init__(self) -> None:
        self.verdicts: tuple[Verdict, ...] = (SUCCESS, NOT_RUN)
        self._numbers = {SUCCESS: 0, NOT_RUN: 1}

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, verdict: Verdict) -> int:
        """Return the index of a verdict in `verdicts`, adding it if it is missing.

        Once the table has `MAX_EXPLAINED` verdicts, a new rejection is added without the parameters of its reasons.
        """
        if len(self) >= MAX_EXPLAINED and verdict not in self._numbers and verdict.code is not Code.ERROR:
            verdict = replace(verdict, reasons=tuple(Reason(reason.code, {}) for reason in verdict.reasons))
        number = self._numbers.get(verdict)
        if number is None:
            number = self._numbers[verdict] = len(self._numbers)
            self.verdicts = (*self.verdicts, verdict)
        return number


class ResultsByClaims:
    """An LRU cache of `NodeResults` by key. Sets of claims whose results may differ have different keys."""

    def __init__(self) -> None:
        self._entries: Lru[Hashable, NodeResults] = Lru(MAX_ENTRIES)

    def get(self, key: Hashable) -> NodeResults:
        """Return the results for the key; if there are none, create and store empty ones."""
        return self._entries.get(key) or self._entries.put(key, NodeResults())
