"""The plain form of a plugin: one node at a time. Written in minutes, run in a Python loop over the nodes.

    class NotOnMondays(PerNodePlugin):
        name = "NotOnMondays"

        def filter(self, state, pod, node):
            if node.labels.get("shift") == "monday":
                return unschedulable(Reason("text", {"text": "node(s) rest today"}))

Such a plugin may extend every other point too, in the same form as a vectorised one (`interface`). Its Filter and Score
are wrapped into columns where its profile is built, so that they run, fail and are recorded like all others.

Invariant: a Filter is asked about nodes that no earlier filter rejected, as kube-scheduler asks it. One that says it is
`pure` is asked about all of them; otherwise its column says NOT_RUN for the rest, and so does the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import NOT_RUN, SUCCESS, Verdict
from scheduler.columns import NodeColumns
from scheduler.formulas.inputs import Inputs, Number
from scheduler.framework.interface import Filter, Mask, NormalizeScore, Score, Scores, TellsInputs
from scheduler.framework.plugin import BasePlugin
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import Verdicts
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Node


class NodeInfo:
    """One node as a per-node plugin sees it: a view of its slot, valid until the cycle ends."""

    def __init__(self, columns: NodeColumns, slot: int) -> None:
        self._columns = columns
        self._slot = slot

    @property
    def name(self) -> str:
        """metadata.name."""
        return self._columns.names[self._slot]

    @property
    def node(self) -> Node:
        """The Node object, as far as scheduling decodes it."""
        return cast(Node, self._columns.nodes[self._slot])

    @property
    def labels(self) -> Mapping[str, str]:
        """metadata.labels."""
        return self.node.metadata.labels or {}

    @property
    def pods(self) -> list[PodInfo]:
        """The pods that count on the node, assumed ones among them."""
        return list(self._columns.pods[self._slot].values())

    def allocatable(self, resource: str) -> int:
        """status.allocatable in base units: milli-CPUs, bytes, pieces."""
        return int(self._columns.allocatable(resource)[self._slot])

    def requested(self, resource: str) -> int:
        """What its pods request, in base units."""
        return int(self._columns.requested(resource)[self._slot])


@dataclass(frozen=True)
class Input:
    """One number of one node that a plain plugin went by; `value` None: the source says none. As `formulas.inputs`."""

    name: str
    value: float | None
    unit: str = ""
    source: str = ""
    digits: int = 2
    measured_s: float | None = None
    stale: bool = False


class PerNodePlugin(BasePlugin):
    """Base of plugins in the plain form. Methods are looked up by name; define those of the points you extend.

    `filter(state, pod, node) -> Verdict | None`: None is Success.
    `score(state, pod, node) -> int`: raw points; without `normalize` from 0 to 100.
    `inputs(state, pod, node) -> Iterable[Input]`: by which numbers; asked after both, changes nothing.
    """

    pure: ClassVar[bool] = False  # filter only reads: it may be asked about nodes that are rejected already


@runtime_checkable
class PartialFilter(Filter, Protocol):
    """A filter that is told which nodes are left, because asking about the others costs or changes something."""

    def filter_left(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, left: Mask) -> Verdicts:
        """Verdicts for the slots of `left`, NOT_RUN for the others."""


class PerNodeFilter:
    """A plain filter as a column."""

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self.annotations = plugin.annotations
        self.plain = plugin

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Asks about every node."""
        return self.filter_left(state, pod, nodes, nodes.live)

    def filter_left(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, left: Mask) -> Verdicts:
        """Asks about the nodes that are left, or about all where the plugin is pure."""
        asked = nodes.live if self.plain.pure else left
        numbers: dict[Verdict, int] = {SUCCESS: 0, NOT_RUN: 1}
        ids = np.where(asked, 0, 1).astype(np.uint16)
        for slot in np.flatnonzero(asked).tolist():
            said = self.plain.filter(state, pod, NodeInfo(nodes, slot))
            verdict = SUCCESS if said is None else said
            if not isinstance(verdict, Verdict):
                raise TypeError(f"returned {verdict!r} for node {nodes.names[slot]}, which is no Verdict")
            ids[slot] = numbers.setdefault(verdict, len(numbers))
        return Verdicts(tuple(numbers), ids)


class PerNodeScore:
    """A plain score as a column."""

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self.annotations = plugin.annotations
        self.plain = plugin

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Asks about every feasible node."""
        points = np.zeros(nodes.slots, np.int64)
        for slot in np.flatnonzero(feasible).tolist():
            said = self.plain.score(state, pod, NodeInfo(nodes, slot))
            if type(said) is not int:
                raise TypeError(f"returned {said!r} for node {nodes.names[slot]}, which is no int")
            points[slot] = said
        return points


class NormalizedPerNodeScore(PerNodeScore):
    """One that brings its points to 0..100 itself, all nodes at once."""

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> NDArray[np.int64]:
        """As `interface.NormalizeScore`."""
        return cast(NormalizeScore, self.plain).normalize(state, pod, raw, feasible)


class PerNodeInputs:
    """What a plain plugin went by, as columns."""

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self._plugin = plugin

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterator[Inputs]:
        """Asks about every node."""
        told: dict[str, dict[str, dict[int, Input]]] = {}  # source -> name -> slot
        for slot in np.flatnonzero(nodes.live).tolist():
            for one in self._plugin.inputs(state, pod, NodeInfo(nodes, slot)):
                told.setdefault(one.source, {}).setdefault(one.name, {})[slot] = one
        for source, numbers in told.items():
            yield _gathered(source, numbers, nodes.slots)


def _gathered(source: str, told: Mapping[str, Mapping[int, Input]], slots: int) -> Inputs:
    """What was told of one source, node by node."""
    measured, stale, numbers = np.full(slots, np.nan), np.zeros(slots, np.bool_), []
    for name, by_slot in told.items():
        values = np.full(slots, np.nan)
        for slot, one in by_slot.items():
            values[slot] = np.nan if one.value is None else one.value
            measured[slot] = measured[slot] if one.measured_s is None else one.measured_s
            stale[slot] |= one.stale
        last = list(by_slot.values())[-1]
        numbers.append(Number(name, values, last.unit, last.digits))
    return Inputs(source, tuple(numbers), measured, stale)


def as_teller(plugin: Any) -> TellsInputs | None:
    """The plugin as the runtime asks it what it went by; None where it does not say."""
    if isinstance(plugin, PerNodeFilter | PerNodeScore):
        return PerNodeInputs(plugin.plain) if hasattr(plugin.plain, "inputs") else None
    return plugin if isinstance(plugin, TellsInputs) else None


def as_filter(plugin: Any) -> Filter:
    """The plugin as the runtime runs it at Filter."""
    return PerNodeFilter(plugin) if isinstance(plugin, PerNodePlugin) else plugin


def as_score(plugin: Any) -> Score:
    """The plugin as the runtime runs it at Score."""
    if not isinstance(plugin, PerNodePlugin):
        return cast(Score, plugin)
    return NormalizedPerNodeScore(plugin) if isinstance(plugin, NormalizeScore) else PerNodeScore(plugin)
