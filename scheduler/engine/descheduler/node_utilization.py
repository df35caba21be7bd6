"""The descheduler's plugins LowNodeUtilization and HighNodeUtilization, by requests.

The first moves pods from nodes above its target thresholds to nodes below its thresholds. The second empties nodes
below its thresholds. Both stop when the room on the nodes that shall take the pods is used up.

Source: sigs.k8s.io/descheduler v0.36.0, pkg/framework/plugins/nodeutilization.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.engine.descheduler.cluster import SeenNode, read_requests, tolerates_all
from scheduler.engine.descheduler.eviction import Result, sort_low_to_high
from scheduler.engine.descheduler.plugin_run import PluginRun
from scheduler.engine.descheduler.policy import (
    ONLY_THRESHOLDING,
    HighNodeUtilizationArgs,
    LowNodeUtilizationArgs,
    NamespaceFilter,
)
from scheduler.engine.objects import requests
from scheduler.engine.objects.pod import PodInfo

UNDERUTILIZED, OVERUTILIZED, APPROPRIATE = "Underutilized", "Overutilized", "Appropriate"
_BASIC: Final = (requests.CPU, requests.MEMORY, requests.PODS)
Amounts = dict[str, int]
Percentages = Mapping[str, float]


@dataclass(eq=False)
class _Usage:
    """A node with the requests on it and the most that it should have, by resource; evictions reduce the requests."""

    node: SeenNode
    used: Amounts
    most: Amounts


def balance_low(plugin: PluginRun, args: LowNodeUtilizationArgs) -> None:
    """Evict pods from overutilized nodes while underutilized ones have room (LowNodeUtilization)."""
    resources = list(dict.fromkeys((*args.thresholds, *_BASIC)))
    usage = {node.name: _read_percentages(node, resources) for node in plugin.nodes}
    low, high = args.thresholds, args.target_thresholds
    if args.use_deviation_thresholds:
        low, high = _find_relative_thresholds(usage, args)
    under, over = list[SeenNode](), list[SeenNode]()
    for node in plugin.nodes:
        percentages = usage[node.name]
        if not node.node.spec.unschedulable and _is_below(percentages, low):
            under.append(node)
        elif _is_above(percentages, high):
            over.append(node)
    _report_utilization(plugin, usage, args.thresholds, under, over)
    plugin.summary = _find_reason_to_stop(plugin, under, args.number_of_nodes, over, "no node is overutilized")
    if plugin.summary:
        return

    def should_continue(node: _Usage, room: Amounts) -> bool:
        above = any(node.most[name] < amount for name, amount in node.used.items())
        return above and all(amount > 0 for amount in room.values())

    def describe(node: SeenNode) -> str:
        above = [name for name in high if usage[node.name].get(name, 0.0) > high[name]]
        shares = ", ".join(f"{name} {usage[node.name][name]:.0f}% > {high[name]:.0f}%" for name in above)
        return f"its node is overutilized: {shares}"

    transfer = _Transfer(plugin, resources, args.evictable_namespaces, args.eviction_limits.node)
    transfer.run([_measure(node, resources, high) for node in over], under, high, should_continue, describe, False)


def _find_reason_to_stop(
    plugin: PluginRun, under: Sequence[SeenNode], least: int, others: Sequence[SeenNode], without: str
) -> str:
    """Return why the plugin does nothing, or "".

    More than `least` nodes must be underutilized. `without` is the reason where there are no `others`.
    """
    if not under:
        return "no node is underutilized"
    if len(under) <= least:
        return f"{len(under)} underutilized nodes are not more than numberOfNodes, {least}"
    if len(under) == len(plugin.nodes):
        return "all nodes are underutilized"
    return "" if others else without


def balance_high(plugin: PluginRun, args: HighNodeUtilizationArgs) -> None:
    """Evict the pods of underutilized nodes while the other nodes have room (HighNodeUtilization)."""
    resources = list(dict.fromkeys((*args.thresholds, *_BASIC)))
    usage = {node.name: _read_percentages(node, resources) for node in plugin.nodes}
    under = [node for node in plugin.nodes if _is_below(usage[node.name], args.thresholds)]
    others = [node for node in plugin.nodes if node not in under and not node.node.spec.unschedulable]
    _report_utilization(plugin, usage, args.thresholds, under, ())
    plugin.summary = _find_reason_to_stop(plugin, under, args.number_of_nodes, others, "no other node is schedulable")
    if plugin.summary:
        return
    full = dict.fromkeys(args.thresholds, 100.0)

    def describe(node: SeenNode) -> str:
        shares = ", ".join(
            f"{name} {usage[node.name].get(name, 0.0):.0f}% ≤ {percent:.0f}%"
            for name, percent in args.thresholds.items()
        )
        return f"its node is underutilized: {shares}"

    needed = args.thresholds if ONLY_THRESHOLDING in args.eviction_modes else None
    transfer = _Transfer(plugin, resources, args.evictable_namespaces, None, needed)
    sources = [_measure(node, resources, full) for node in under]
    transfer.run(sources, others, full, lambda _node, room: all(amount > 0 for amount in room.values()), describe, True)


class _Transfer:
    """The eviction of pods from nodes, in view of the room on others."""

    def __init__(
        self,
        plugin: PluginRun,
        resources: Sequence[str],
        namespaces: NamespaceFilter,
        limit: int | None,
        needed: Collection[str] | None = None,
    ) -> None:
        """`limit` is the number of evictions per node. A pod must request one of the resources `needed`."""
        self._plugin, self._resources, self._namespaces = plugin, resources, namespaces
        self._limit, self._needed = limit, needed

    def run(
        self,
        sources: Sequence[_Usage],
        destinations: Sequence[SeenNode],
        most: Percentages,
        should_continue: Callable[[_Usage, Amounts], bool],
        describe: Callable[[SeenNode], str],
        ascending: bool,
    ) -> None:
        """Evict pods from the sources, by use, until `should_continue` is False for a node."""
        plugin = self._plugin
        room = dict.fromkeys(self._resources, 0)
        for node in destinations:
            usage = _measure(node, self._resources, most)
            for name in self._resources:
                room[name] += usage.most[name] - usage.used[name]
        sign = 1 if ascending else -1
        for source in sorted(sources, key=lambda each: sign * sum(each.used.values())):
            removable = [pod for pod in plugin.run.arrange(source.node.pods) if self._is_removable(pod)]
            pods = sort_low_to_high(removable)
            if self._evict(pods, source, destinations, room, should_continue, describe) is Result.TOTAL_LIMIT:
                return

    def _is_removable(self, pod: PodInfo) -> bool:
        if not self._plugin.passes_filter(pod):
            return False
        if self._needed is not None and not _requests_any(pod, self._needed):
            self._plugin.explain(pod, f"it requests none of {', '.join(self._needed)}")
            return False
        return True

    def _evict(
        self,
        pods: Iterable[PodInfo],
        source: _Usage,
        destinations: Sequence[SeenNode],
        room: Amounts,
        should_continue: Callable[[_Usage, Amounts], bool],
        describe: Callable[[SeenNode], str],
    ) -> Result:
        plugin, evicted, goes_on = self._plugin, 0, should_continue(source, room)
        for pod in pods:
            if not goes_on:
                plugin.explain(
                    pod, "the plugin stops before it: its node or the room elsewhere needs no more evictions"
                )
                continue
            if self._limit is not None and evicted >= self._limit:
                plugin.explain(pod, f"evictionLimits.node is {self._limit}")
                break
            if not any(_tolerates_node(pod, node) for node in destinations):
                plugin.explain(pod, "it does not tolerate the taints of a node with room")
                continue
            if not self._namespaces.contain(pod.namespace):
                plugin.explain(pod, "its namespace is left out (evictableNamespaces)")
                continue
            if not plugin.passes_late_filter(pod):
                continue
            result = plugin.evict(pod, source.node.name, describe(source.node))
            if result in (Result.NODE_LIMIT, Result.TOTAL_LIMIT):
                return result
            if result is not Result.EVICTED:
                continue
            evicted += 1
            wanted = read_requests(pod)
            for name in room:
                amount = 1 if name == requests.PODS else wanted.get(name, 0)
                source.used[name] -= amount
                room[name] -= amount
            goes_on = should_continue(source, room)
        return Result.EVICTED


def _tolerates_node(pod: PodInfo, node: SeenNode) -> bool:
    """Return whether the pod tolerates all taints of a node, with at least as many tolerations as it has taints."""
    return len(pod.pod.spec.tolerations or ()) >= len(node.taints) and tolerates_all(pod.pod, node.taints)


def _requests_any(pod: PodInfo, resources: Collection[str]) -> bool:
    every = (container.resources.requests for container in pod.containers if container.resources)
    return any(name in (requested or ()) for requested in every for name in resources)


def _measure(node: SeenNode, resources: Iterable[str], most: Percentages) -> _Usage:
    """Return a node's requests, and the most that it should have: `most` percent, and else all that it has."""
    used, limits = dict[str, int](), dict[str, int]()
    for name in resources:
        used[name] = node.used[name]
        amount = node.allocatable.get(name, 0)
        limits[name] = int(most[name] * 0.01 * amount) if name in most else amount
    return _Usage(node, used, limits)


def _read_percentages(node: SeenNode, resources: Iterable[str]) -> dict[str, float]:
    """Return the node's requests in percent of what it has, without resources that it does not have."""
    return {
        name: node.used[name] / node.allocatable[name] * 100 if node.allocatable[name] else 0.0
        for name in resources
        if name in node.allocatable
    }


def _find_relative_thresholds(
    usage: Mapping[str, Percentages], args: LowNodeUtilizationArgs
) -> tuple[Percentages, Percentages]:
    """Return both thresholds as deviations from the average use of the nodes."""
    sums, counts = dict[str, float](), Counter[str]()
    for percentages in usage.values():
        for name, percent in percentages.items():
            if name in args.thresholds:
                sums[name] = sums.get(name, 0.0) + percent
                counts[name] += 1
    average = {name: total / counts[name] for name, total in sums.items()}
    low = {name: _clamp(percent - args.thresholds[name]) for name, percent in average.items()}
    return low, {name: _clamp(percent + args.target_thresholds[name]) for name, percent in average.items()}


def _clamp(percent: float) -> float:
    return min(max(percent, 0.0), 100.0)


def _is_below(usage: Percentages, thresholds: Percentages) -> bool:
    return all(usage.get(name, 0.0) <= percent for name, percent in thresholds.items())


def _is_above(usage: Percentages, thresholds: Percentages) -> bool:
    return any(usage.get(name, 0.0) > percent for name, percent in thresholds.items())


def _report_utilization(
    plugin: PluginRun,
    usage: Mapping[str, Percentages],
    resources: Iterable[str],
    under: Collection[SeenNode],
    over: Collection[SeenNode],
) -> None:
    classes = {node.name: UNDERUTILIZED for node in under} | {node.name: OVERUTILIZED for node in over}
    shown = list(resources)
    for node in sorted(plugin.nodes, key=lambda each: each.number):
        percentages = {name: round(usage[node.name].get(name, 0.0), 1) for name in shown}
        class_ = classes.get(node.name, APPROPRIATE)
        plugin.utilization.append({"node": node.name, "class": class_, "percentages": percentages})
        if class_ == APPROPRIATE or (over and class_ == UNDERUTILIZED):
            words = "appropriately utilized" if class_ == APPROPRIATE else "underutilized"
            for pod in node.pods:
                plugin.explain(pod, f"its node is {words}")
