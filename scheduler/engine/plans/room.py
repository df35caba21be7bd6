"""Counts for how many pods nodes have room, by the resources that they request alone.

Owns: bounds that need no filter. Does not own: decisions (`world`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plans.changes import Change
from scheduler.engine.plans.movable import IMPOSSIBLE, count_leaving, read_amount
from scheduler.engine.plans.world import World


class Room:
    """The room that nodes have for pods like a target, as they are and after changes."""

    def __init__(self, world: World, target: PodInfo, changes: Sequence[Change], needed: int, most: int) -> None:
        """Prepare without counting. `needed` pods like the target have to fit; there are at most `most` of them."""
        self._world, self._target, self._changes = world, target, changes
        self._needed, self._most = needed, most
        self._resources = world.list_counted_resources(target)

    @cached_property
    def _missing(self) -> NDArray[np.int64]:
        """What each node lacks for a target; it is computed once, because the copy is as before between tries."""
        return self._world.compute_missing(self._target, self._resources)

    def suffices(self, chosen: Sequence[Change]) -> bool:
        """Return whether the nodes have enough for the targets without the pods of these changes."""
        if not self._resources:
            return True
        index, missing = self._world.nodes.index, dict[int, NDArray[np.int64]]()
        opened = {index[change.node] for change in chosen if change.pod is None}
        for change in chosen:
            column = missing.setdefault(index[change.node], self._missing[:, index[change.node]].copy())
            if change.pod is not None:
                column -= [read_amount(change.pod, name) for name in self._resources]
        room = int(self._room_now.sum())
        for slot, column in missing.items():
            if slot in opened or self._open_now[slot]:
                room += int(self._count_room(column)) * bool(self._admitting[slot]) - int(self._room_now[slot])
        return room >= self._needed

    def _count_room(self, missing: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for how many targets, at most all, a node has room that lacks this for one, along the first axis."""
        amounts = np.array([read_amount(self._target, name) for name in self._resources], np.int64)
        amounts = amounts.reshape(-1, *[1] * (missing.ndim - 1))
        room: NDArray[np.int64] = np.clip(((amounts - missing) // amounts).min(axis=0), 0, self._most)
        return room

    @cached_property
    def _open_now(self) -> NDArray[np.bool_]:
        """The nodes that are suitable for a target by their Node object alone, without any change."""
        return self._world.find_admitting(self._target)

    @cached_property
    def _room_now(self) -> NDArray[np.int64]:
        """For how many targets each node has room, without any change."""
        return self._count_room(self._missing) * self._open_now

    @cached_property
    def _admitting(self) -> NDArray[np.bool_]:
        """The nodes that no change leaves as unsuitable for a target as they are, such as those with another taint."""
        with self._world.tried():
            for change in self._changes:
                if change.pod is None:
                    change.make(self._world)
            return self._world.find_admitting(self._target)

    @cached_property
    def _nodes_with_room(self) -> NDArray[np.bool_]:
        """The nodes that have enough for a target as they are; they reject it for a reason that a change may lift."""
        return np.logical_and(np.all(self._missing <= 0, axis=0), self._admitting)

    def _count_leaving(self, changes: Sequence[Change]) -> dict[str, int]:
        """Return for each node how many pods at least must leave it until it has room for a target."""
        on_node: dict[str, list[PodInfo]] = {}
        cordoned = {change.node for change in changes if change.pod is None}
        for change in changes:
            if change.pod is not None:
                on_node.setdefault(change.node, []).append(change.pod)
        missing, counts = self._missing, dict[str, int]()
        for name in {*on_node, *cordoned}:
            slot = self._world.nodes.index[name]
            if not self._admitting[slot]:
                continue
            column = missing[:, slot].tolist()
            needs = (
                count_leaving(on_node.get(name, ()), resource, lacking)
                for resource, lacking in zip(self._resources, column, strict=True)
            )
            counts[name] = max(needs, default=0) + (name in cordoned)
        return counts

    def count_least_changes(self) -> int:
        """Return how many changes there must be at least, by the resources alone."""
        if not self._resources:
            return 1
        counts = self._count_leaving(self._changes)
        untouched = np.flatnonzero(self._nodes_with_room)
        rejected_otherwise = any(self._world.nodes.names[slot] not in counts for slot in untouched)
        smallest = min(counts.values(), default=IMPOSSIBLE)
        return 1 if rejected_otherwise else max(1, smallest)
