"""Per-node plugins: Filter and Score as functions of one node, run in a Python loop over the nodes.

    class NotOnMondays(PerNodePlugin):
        name = "NotOnMondays"

        def filter(self, state, pod, node):
            if node.labels.get("shift") == "monday":
                return unschedulable(Reason("text", {"text": "node(s) rest today"}))

Such a plugin may extend every other point too, in the same form as a vectorized one (`interface`). When its profile is
built, adapters wrap its Filter and Score into columns, so that they run, fail and are recorded like those of others.

Invariant: a Filter runs on the nodes that no earlier filter rejected, as in kube-scheduler. A `pure` Filter runs on all
nodes; otherwise its column, and the record, hold NOT_RUN for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import NOT_RUN, SUCCESS, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.formulas.inputs import NodeInputColumn, NodeInputs
from scheduler.engine.framework.interface import Filter, InputReporter, Mask, NormalizeScore, Score, Scores
from scheduler.engine.framework.plugin import BasePlugin
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Verdicts, error
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node


class NodeInfo:
    """One node as a per-node plugin sees it, valid until the cycle ends."""

    def __init__(self, columns: NodeColumns, slot: int) -> None:
        self._columns = columns
        self._slot = slot

    @property
    def name(self) -> str:
        return self._columns.names[self._slot]

    @property
    def node(self) -> Node:
        """The Node object, with only the fields that the scheduler decodes."""
        return cast(Node, self._columns.nodes[self._slot])

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.metadata.labels or {}

    @property
    def pods(self) -> list[PodInfo]:
        """The pods on the node, assumed pods included."""
        return list(self._columns.pods[self._slot].values())

    def allocatable(self, resource: str) -> int:
        """Return the node's status.allocatable of the resource in base units: milli-CPUs, bytes or counts."""
        return int(self._columns.allocatable(resource)[self._slot])

    def requested(self, resource: str) -> int:
        """Return the sum of the requests of the node's pods in base units: milli-CPUs, bytes or counts."""
        return int(self._columns.requested(resource)[self._slot])


@dataclass(frozen=True)
class Input:
    """One measurement of one node that a per-node plugin used, such as its load, for the record.

    `value` is None if the source has none. `measured_s` is in seconds since 1970. `stale` means that the value was too
    old and therefore ignored. The record keeps `digits` decimals.
    """

    name: str
    value: float | None
    unit: str = ""
    source: str = ""
    digits: int = 2
    measured_s: float | None = None
    stale: bool = False


class PerNodePlugin(BasePlugin):
    """Base class of plugins whose Filter and Score are functions of one node.

    A subclass defines the methods of the extension points that it extends; all are optional.

    `filter(state, pod, node) -> Verdict | None`: None means Success.
    `score(state, pod, node) -> int`: the raw score; from 0 to 100 if there is no `normalize`.
    `inputs(state, pod, node) -> Iterable[Input]`: the measurements that Filter and Score used, for the record.
    """

    pure: ClassVar[bool] = False  # Filter has no side effects: it may run on nodes that another filter rejected


@runtime_checkable
class PartialFilter(Filter, Protocol):
    """A filter that runs only on the nodes that no earlier filter rejected, for its cost or its side effects."""

    def filter_remaining(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, remaining: Mask) -> Verdicts:
        """Return a verdict on each node of the mask `remaining`, and NOT_RUN for all other rows of `nodes`."""


class PerNodeFilter:
    """An adapter that runs a per-node filter on many nodes and returns its verdicts as a column."""

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self.annotations = plugin.annotations
        self.plugin = plugin

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        return self.filter_remaining(state, pod, nodes, nodes.live)

    def filter_remaining(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, remaining: Mask) -> Verdicts:
        """Run the plugin on the nodes of the mask `remaining`, or on all nodes if its Filter is pure.

        Returns the verdicts, which are NOT_RUN where the plugin did not run.
        """
        evaluated = nodes.live if self.plugin.pure else remaining
        numbers: dict[Verdict, int] = {SUCCESS: 0, NOT_RUN: 1}
        ids = np.where(evaluated, 0, 1).astype(np.uint16)
        for slot in np.flatnonzero(evaluated).tolist():
            ids[slot] = numbers.setdefault(self._verdict(state, pod, nodes, slot), len(numbers))
        return Verdicts(tuple(numbers), ids)

    def _verdict(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, slot: int) -> Verdict:
        """Return the plugin's verdict on the node in `slot`, or an error verdict on this node if the plugin raises."""
        try:
            verdict = self.plugin.filter(state, pod, NodeInfo(nodes, slot))
        except (Exception, SystemExit) as e:
            return error(str(e))
        if verdict is None:
            return SUCCESS
        if not isinstance(verdict, Verdict):
            return error(f"returned {verdict!r} for node {nodes.names[slot]}, which is no Verdict")
        return verdict


class PerNodeScore:
    """An adapter that runs a per-node score plugin on many nodes and returns its scores as a column."""

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self.annotations = plugin.annotations
        self.plugin = plugin

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return the plugin's raw score of every feasible node, and 0 for the other rows of `nodes`.

        Raises TypeError if a score is not an int.
        """
        scores = np.zeros(nodes.slots, np.int64)
        for slot in np.flatnonzero(feasible).tolist():
            score = self.plugin.score(state, pod, NodeInfo(nodes, slot))
            if type(score) is not int:
                raise TypeError(f"returned {score!r} for node {nodes.names[slot]}, which is no int")
            scores[slot] = score
        return scores


class NormalizedPerNodeScore(PerNodeScore):
    """An adapter for a per-node score plugin with a method `normalize`, which gets the scores of all nodes at once."""

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> NDArray[np.int64]:
        return cast(NormalizeScore, self.plugin).normalize(state, pod, raw, feasible)


class PerNodeInputs:
    """An adapter that collects the measurements that a per-node plugin reports for each node into columns."""

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self._plugin = plugin

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterator[NodeInputs]:
        """Yield the measurements that the plugin reports for all nodes, as one `NodeInputs` per source."""
        by_source: dict[str, dict[str, dict[int, Input]]] = {}  # source -> name -> slot
        for slot in np.flatnonzero(nodes.live).tolist():
            for one in self._plugin.inputs(state, pod, NodeInfo(nodes, slot)):
                by_source.setdefault(one.source, {}).setdefault(one.name, {})[slot] = one
        for source, numbers in by_source.items():
            yield _build_inputs(source, numbers, nodes.slots)


def _build_inputs(source: str, by_name: Mapping[str, Mapping[int, Input]], slots: int) -> NodeInputs:
    """Return the measurements from one source as columns with `slots` entries.

    `by_name` maps the name of a measurement to its values by node slot.
    """
    measured, stale, numbers = np.full(slots, np.nan), np.zeros(slots, np.bool_), []
    for name, by_slot in by_name.items():
        values = np.full(slots, np.nan)
        for slot, one in by_slot.items():
            values[slot] = np.nan if one.value is None else one.value
            measured[slot] = measured[slot] if one.measured_s is None else one.measured_s
            stale[slot] |= one.stale
        last = list(by_slot.values())[-1]
        numbers.append(NodeInputColumn(name, values, last.unit, last.digits))
    return NodeInputs(source, tuple(numbers), measured, stale)


def adapt_input_reporter(plugin: Any) -> InputReporter | None:
    """Return the plugin as an `InputReporter`, in an adapter if it is per-node; None if it reports no inputs."""
    if isinstance(plugin, PerNodeFilter | PerNodeScore):
        return PerNodeInputs(plugin.plugin) if hasattr(plugin.plugin, "inputs") else None
    return plugin if isinstance(plugin, InputReporter) else None


def adapt_filter(plugin: Any) -> Filter:
    """Return the plugin as a `Filter`, wrapped in an adapter if it is a per-node plugin."""
    return PerNodeFilter(plugin) if isinstance(plugin, PerNodePlugin) else plugin


def adapt_score(plugin: Any) -> Score:
    """Return the plugin as a `Score`, wrapped in an adapter if it is a per-node plugin."""
    if not isinstance(plugin, PerNodePlugin):
        return cast(Score, plugin)
    return NormalizedPerNodeScore(plugin) if isinstance(plugin, NormalizeScore) else PerNodeScore(plugin)
