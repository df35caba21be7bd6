"""Plans with more nodes: cordoned nodes are uncordoned, or else copies of present nodes are added, the fewest first.

The nodes that a cluster has are grouped by shape. All shapes are tried that a target fits on, the most frequent first,
until enough plans hold or the time is over.

Owns: the shapes, the steps and the bound of new nodes. Does not own: adding a node to a copy (`world`), the search for
nodes to uncordon (`search`), node groups of autoscalers (`engine.nodegroups`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, islice
from typing import Final

import msgspec

from scheduler.engine.columns import NodeColumns
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.resource_api import ResourceSlice
from scheduler.engine.objects.types import Node
from scheduler.engine.plans.movable import helped_only_by_room
from scheduler.engine.plans.search import (
    EXHAUSTIVE,
    MAX_PLANS,
    NOT_PROVEN,
    Bound,
    FoundPlan,
    PlanSearch,
    SearchResult,
)
from scheduler.engine.plans.time_limit import TimeOverError
from scheduler.engine.plans.verification import ADD_NODES, CREATE, PlannedStep, UnprovenError, Verification
from scheduler.engine.plans.world import World
from scheduler.engine.whatif.nodes import HOSTNAME, copy_node

_UNCORDONING: Final = 0.5  # of the time, before new nodes are tried


class NodesSearch:
    """The search for the fewest nodes after which the targets fit."""

    def __init__(
        self,
        world: World,
        targets: Sequence[PodInfo],
        verification: Verification,
        uncordoning: PlanSearch,
        max_nodes: int,
        *,
        exist: bool,
    ) -> None:
        """`uncordoning` searches the cordoned nodes. At most `max_nodes` are added.

        `exist` says that the targets wait already; otherwise they are created after the nodes.
        """
        self._world, self._targets, self._verification = world, targets, verification
        self._uncordoning, self._max_nodes, self._exist = uncordoning, max_nodes, exist
        self.result = uncordoning.result
        self._is_unfinished = False  # because the time was over

    def find(self) -> None:
        """Look for nodes to uncordon, and without a plan for new nodes."""
        with self._world.limit.share(_UNCORDONING):
            self._uncordoning.find()
            if not self.result.plans:
                self._uncordoning.improve()
        if not self.result.plans:
            self._find_new_nodes()

    def improve(self) -> None:
        """Look for fewer nodes to uncordon, or for new nodes again if the time was over: those that hold are fewest."""
        if self._uncordoning.result.plans:
            self._uncordoning.improve()
        elif self._is_unfinished and not self.result.plans:
            self._find_new_nodes()

    def _find_new_nodes(self) -> None:
        before = self._uncordoning.result
        self.result = SearchResult(bound=before.bound, failures=before.failures.copy())
        reason, self._is_unfinished = "only copies of the present nodes were tried", False
        try:
            self._add_nodes()
        except TimeOverError as e:
            reason, self._is_unfinished = str(e), True
        size, tried = self.result.size, before.bound.sets
        if not self.result.plans:
            self.result.bound = Bound(NOT_PROVEN, self._max_nodes, tried, reason)
        elif size > 1 and (self.result.failures or before.bound.kind == NOT_PROVEN):
            self.result.bound = Bound(NOT_PROVEN, size, tried, "fewer nodes did not hold for every draw")
        else:
            self.result.bound = Bound(EXHAUSTIVE, size, tried)

    def _add_nodes(self) -> None:
        """Add the plans of the smallest number of new nodes to the result, and what went wrong with others."""
        result, shapes = self.result, self._list_helpful(list_shapes(self._world.nodes, self._world.objects))
        for size in range(1, self._max_nodes + 1):
            for shape in shapes:
                steps = [PlannedStep(ADD_NODES, tuple(self._name_copies(shape, size)), None, shape)]
                steps += [] if self._exist else [PlannedStep(CREATE)]
                try:
                    proof = self._verification.run(steps)
                except UnprovenError as e:
                    result.failures[str(e)] += 1
                    continue
                if proof.failure is not None:
                    result.failures[proof.failure.kind] += 1
                    continue
                result.plans.append(FoundPlan([], steps, proof))
                result.size = size
                self._world.limit.note_plan(size)
                if len(result.plans) == MAX_PLANS:
                    return
            if result.plans:
                return

    def _list_helpful(self, shapes: Sequence[str]) -> list[str]:
        """Return the nodes of which a copy may make targets fit: a target fits on it, or needs pods elsewhere."""
        kinds = {target.spec_digest: target for target in self._targets}.values()
        if not all(map(helped_only_by_room, kinds)):
            return [*shapes]
        copies = {shape: next(self._name_copies(shape, 1)) for shape in shapes}
        with self._world.tried():
            for shape, name in copies.items():
                self._world.limit.check()
                self._world.add_node(shape, name)
            masks = [self._world.find_feasible(target)[0] for target in kinds]
            index = self._world.nodes.index
            return [shape for shape, name in copies.items() if any(mask[index[name]] for mask in masks)]

    def _name_copies(self, shape: str, size: int) -> islice[str]:
        """Return an iterator over names for so many copies of a node, which no node has."""
        names = (f"{shape}-new-{number}" for number in count(1))
        return islice((name for name in names if name not in self._world.nodes.index), size)


def list_shapes(nodes: NodeColumns, objects: ClusterObjects) -> list[str]:
    """Return one node of each shape by name: nodes with equal labels, taints, amounts and devices have one shape.

    The shapes of the most nodes come first.
    """
    devices: dict[str, list[bytes]] = {}
    for each in objects.all(ResourceSlice):
        node_devices = devices.setdefault(each.spec.node_name or "", [])
        node_devices.append(msgspec.json.encode((each.spec.driver, each.spec.devices)))
    by_shape: dict[object, list[str]] = {}
    for node in nodes.nodes:
        if node is not None:
            name = node.metadata.name
            by_shape.setdefault((_describe(node), *sorted(devices.get(name, ()))), []).append(name)
    return [min(names) for names in sorted(by_shape.values(), key=lambda names: (-len(names), min(names)))]


def _describe(node: Node) -> object:
    empty = copy_node(node, "")
    labels = {key: value for key, value in (empty.metadata.labels or {}).items() if key != HOSTNAME}
    return _freeze(labels), tuple(empty.spec.taints or ()), _freeze(empty.status.allocatable or {})


def _freeze(values: Mapping[str, object]) -> frozenset[tuple[str, str]]:
    return frozenset((key, str(value)) for key, value in values.items())
