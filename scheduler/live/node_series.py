"""Metrics of filters and scores for single nodes, off by default (`--node-series`).

Owns: names and labels, the limit of nodes. Does not own: when a cycle is counted (`loop`).

Invariant: at most `limit` nodes have series, those in the first slots of the node columns. Each has one series for each
filter that rejected it, one for each score plugin, and one for the cycles that scored it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scheduler.engine.framework.trace import Trace

Totals = NDArray[np.int64]  # by slot


class NodeSeries(Collector):
    """Counts rejections and adds up scores by node. Any thread may call `collect`, only the loop's thread the rest."""

    def __init__(self, limit: int) -> None:
        """Prepare counters for the nodes in the first `limit` slots."""
        self._limit = limit
        self._names: list[str] = []  # of each slot; "" if it holds no node
        self._nodes = 0
        self._scored = np.zeros(limit, np.int64)
        self._rejections: dict[str, Totals] = {}  # by plugin
        self._points: dict[str, Totals] = {}

    def add(self, names: Sequence[str], trace: Trace) -> None:
        """Count the rejections and scores of one scheduling cycle.

        `names` holds the node's name in each slot, as in `update_nodes`.
        """
        self.update_nodes(names)
        first, evaluated = trace.first[: self._limit], trace.evaluated[: self._limit]
        for position, run in enumerate(trace.filters):
            _add(self._rejections, run.plugin, self._limit, (first == position) & evaluated)
        if not trace.scores:
            return
        feasible = trace.feasible[: self._limit]
        self._scored[: len(feasible)] += feasible
        for scores in trace.scores:
            if scores.normalized is not None:
                points = np.where(feasible, scores.normalized[: self._limit] * scores.weight, 0)
                _add(self._points, scores.plugin, self._limit, points)

    def update_nodes(self, names: Sequence[str]) -> None:
        """Replace the nodes by those in `names`, and reset the totals of each slot that holds another node than before.

        `names` holds the name of the node in each slot, "" if there is none. The loop calls this also without cycles,
        so that a removed node does not keep its series until the next pod.
        """
        if self._names != names:
            self._reset_changed(names)

    def collect(self) -> Iterator[Metric]:
        """Yield the counters of the nodes of the latest update, without those that are zero."""
        rejections = "Cycles in which this filter was the first to reject the node."
        yield self._build_counter("herodotus_node_rejections", rejections, self._rejections)
        points = "Points that this plugin gave the node: normalized scores times weight."
        yield self._build_counter("herodotus_node_points", points, self._points)
        scored = CounterMetricFamily("herodotus_node_scored", "Cycles that scored the node.", labels=("node",))
        for name, cycles in zip(self._names, self._scored.tolist(), strict=False):
            if name and cycles:
                scored.add_metric((name,), cycles)
        yield scored
        yield GaugeMetricFamily(
            "herodotus_node_series_omitted_nodes",
            "Nodes without series, because there are more than --node-series.",
            max(0, self._nodes - sum(map(bool, self._names[: self._limit]))),
        )

    def _build_counter(self, name: str, help: str, totals: dict[str, Totals]) -> CounterMetricFamily:
        family = CounterMetricFamily(name, help, labels=("node", "plugin"))
        for plugin, by_slot in sorted(totals.items()):
            for node, total in zip(self._names, by_slot.tolist(), strict=False):
                if node and total:
                    family.add_metric((node, plugin), total)
        return family

    def _reset_changed(self, names: Sequence[str]) -> None:
        """Store `names`, and reset the totals of the slots that hold another node than before."""
        before = self._names[: self._limit]
        changed = [slot for slot, name in enumerate(names[: self._limit]) if name not in before[slot : slot + 1]]
        for totals in (self._scored, *self._rejections.values(), *self._points.values()):
            totals[changed] = 0
        self._names, self._nodes = list(names), sum(map(bool, names))


def _add(totals: dict[str, Totals], plugin: str, limit: int, amounts: NDArray[np.generic]) -> None:
    """Add `amounts`, one per node slot from slot 0 on, to the totals of a plugin.

    If the plugin has no totals, `limit` zeros are added to `totals` first.
    """
    total = totals.get(plugin)
    if total is None:
        total = totals[plugin] = np.zeros(limit, np.int64)
    total[: len(amounts)] += amounts.astype(np.int64)
