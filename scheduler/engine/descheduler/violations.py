"""The descheduler's plugins for pods that violate taints, node affinity or anti-affinity of their present node.

Source: sigs.k8s.io/descheduler v0.36.0, pkg/framework/plugins/removepodsviolatingnodetaints,
removepodsviolatingnodeaffinity and removepodsviolatinginterpodantiaffinity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.engine.descheduler.cluster import (
    SeenNode,
    excludes,
    find_untolerated,
    group_by_namespace,
    list_anti_affinity_terms,
    list_term_namespaces,
    matches_node,
    weigh_node,
)
from scheduler.engine.descheduler.eviction import Result, sort_low_to_high
from scheduler.engine.descheduler.plugin_run import PluginRun
from scheduler.engine.descheduler.policy import (
    HARD,
    SOFT,
    AffinityViolationArgs,
    InterPodAntiAffinityArgs,
    NodeTaintsArgs,
)
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.taints import format_taint
from scheduler.engine.objects.types import Taint


def remove_taint_violations(plugin: PluginRun, args: NodeTaintsArgs) -> None:
    """Evict pods that do not tolerate the taints of their node (RemovePodsViolatingNodeTaints)."""
    effects = ("NoSchedule", "PreferNoSchedule") if args.include_prefer_no_schedule else ("NoSchedule",)

    def counts(taint: Taint) -> bool:
        included = args.included_taints is None or _names(args.included_taints, taint)
        return taint.effect in effects and included and not _names(args.excluded_taints, taint)

    for node in plugin.nodes:
        for pod in [*plugin.list_evictable(node, args.namespaces, args.label_selector)]:
            taint = find_untolerated(pod.pod, node.taints, counts)
            if taint is None:
                plugin.explain(pod, "it tolerates the taints of its node that the plugin looks at")
                continue
            result = plugin.evict(pod, node.name, f"it does not tolerate the taint {format_taint(taint)} of its node")
            if result is Result.NODE_LIMIT:
                break
            if result is Result.TOTAL_LIMIT:
                return


def _names(texts: Sequence[str], taint: Taint) -> bool:
    """Return whether one of the texts is the taint's key, or its KEY=VALUE."""
    return taint.key in texts or (taint.value != "" and f"{taint.key}={taint.value}" in texts)


def remove_affinity_violations(plugin: PluginRun, args: AffinityViolationArgs) -> None:
    """Evict pods whose node affinity their node does not satisfy, or another one better.

    The plugin's name is RemovePodsViolatingNodeAffinity.
    """
    best = _BestWeights(plugin.nodes)
    for kind in args.node_affinity_type:
        for node in plugin.nodes:
            violating = [
                (pod, reason)
                for pod in plugin.list_evictable(node, args.namespaces, args.label_selector)
                if (reason := _find_affinity_violation(plugin, pod, node, kind, best))
            ]
            for pod, reason in violating:
                result = plugin.evict(pod, node.name, reason)
                if result is Result.NODE_LIMIT:
                    break
                if result is Result.TOTAL_LIMIT:
                    return


class _BestWeights:
    """The largest weight that a pod's preferred node affinity gives to a node, computed once for equal terms."""

    def __init__(self, nodes: Sequence[SeenNode]) -> None:
        self._nodes = nodes
        self._weights: list[tuple[object, int]] = []

    def find(self, pod: PodInfo) -> int:
        affinity = pod.pod.spec.affinity and pod.pod.spec.affinity.node_affinity
        terms = affinity.preferred if affinity else None
        for known, weight in self._weights:
            if known == terms:
                return weight
        weight = max(0, *(weigh_node(pod.pod, node.node) for node in self._nodes), 0)
        self._weights.append((terms, weight))
        return weight


def _find_affinity_violation(plugin: PluginRun, pod: PodInfo, node: SeenNode, kind: str, best: _BestWeights) -> str:
    """Return why the pod should leave its node, or ""."""
    affinity = pod.pod.spec.affinity.node_affinity if pod.pod.spec.affinity else None
    if kind == HARD:
        if affinity is None or affinity.required is None:
            plugin.explain(pod, "it has no required node affinity")
            return ""
        if matches_node(pod.pod, node.node):
            plugin.explain(pod, "its node matches its node selector and required node affinity")
            return ""
        reason = "its node does not match its node selector and required node affinity"
    elif kind == SOFT:
        if affinity is None or not affinity.preferred:
            plugin.explain(pod, "it has no preferred node affinity")
            return ""
        here, most = weigh_node(pod.pod, node.node), best.find(pod)
        if most <= here:
            plugin.explain(pod, "no node matches its preferred node affinity better")
            return ""
        reason = f"its preferred node affinity gives its node the weight {here}, and another one {most}"
    else:
        return ""
    if not plugin.cluster.find_fitting(pod, plugin.nodes, with_own=True):
        plugin.explain(pod, "it fits on no node")
        return ""
    return reason


def remove_anti_affinity_violations(plugin: PluginRun, args: InterPodAntiAffinityArgs) -> None:
    """Evict pods whose required anti-affinity excludes a pod near them (RemovePodsViolatingInterPodAntiAffinity)."""
    by_node = {
        node.name: [
            pod
            for pod in plugin.run.arrange(node.pods)
            if plugin.is_in_scope(pod, args.namespaces, args.label_selector)
        ]
        for node in plugin.nodes
    }
    nodes = {node.name: node for node in plugin.nodes}
    present = group_by_namespace(pod for pods in by_node.values() for pod in pods)
    for node in plugin.nodes:
        for pod in sort_low_to_high(by_node[node.name]):
            reason = _find_anti_affinity_violation(pod, node, present, nodes)
            if not reason:
                plugin.explain(pod, "no pod near it is excluded by its required anti-affinity")
                continue
            if not (plugin.passes_filter(pod) and plugin.passes_late_filter(pod)):
                continue
            result = plugin.evict(pod, node.name, reason)
            if result is Result.EVICTED:
                present[pod.namespace].remove(pod)
            elif result is Result.NODE_LIMIT:
                break
            elif result is Result.TOTAL_LIMIT:
                return


def _find_anti_affinity_violation(
    pod: PodInfo, node: SeenNode, present: Mapping[str, Sequence[PodInfo]], nodes: Mapping[str, SeenNode]
) -> str:
    """Return which term of the pod's required anti-affinity excludes a present pod, or ""."""
    for term in list_anti_affinity_terms(pod.pod):
        key = term.topology_key
        for namespace in list_term_namespaces(pod, term):
            for other in present.get(namespace, ()):
                there = nodes[other.pod.spec.node_name]
                is_near = there is node or (key in node.labels and node.labels[key] == there.labels.get(key))
                if is_near and excludes(pod, term, other):
                    return f"its required anti-affinity excludes another pod with the same {key}"
    return ""
