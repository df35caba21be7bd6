"""The descheduler's plugin RemovePodsViolatingTopologySpreadConstraint: pods of domains that have too many.

Source: sigs.k8s.io/descheduler v0.36.0, pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from scheduler.engine.descheduler.cluster import SeenNode, group_by_namespace, matches_node, tolerates_all
from scheduler.engine.descheduler.eviction import Result
from scheduler.engine.descheduler.plugin_run import PluginRun
from scheduler.engine.descheduler.policy import TopologySpreadArgs
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.selectors import label_selector_matches
from scheduler.engine.objects.taints import HARD_EFFECTS
from scheduler.engine.objects.types import LabelSelector, Requirement, TopologySpreadConstraint

_HONOR = "Honor"


class _Constraint(NamedTuple):
    """A constraint of the pods of a namespace, as of the pod that was first seen with it."""

    max_skew: int
    key: str
    selector: LabelSelector
    pod: PodInfo
    honors_affinity: bool
    honors_taints: bool

    def includes(self, node: SeenNode) -> bool:
        """Return whether the node's domain counts, by the constraint's policies for affinity and taints."""
        pod = self.pod.pod
        if self.honors_affinity and not matches_node(pod, node.node):
            return False
        return not self.honors_taints or tolerates_all(pod, node.taints, lambda taint: taint.effect in HARD_EFFECTS)


@dataclass
class _Domain:
    """The pods of a domain; those that are evicted first come last."""

    value: str
    pods: list[PodInfo]


def balance_domains(plugin: PluginRun, args: TopologySpreadArgs) -> None:
    """Evict pods so that no constraint's skew is above its maxSkew, if their successors land where they should."""
    actions = args.constraints or ("DoNotSchedule",)
    pods = [
        pod
        for node in plugin.nodes
        for pod in plugin.run.arrange(node.pods)
        if plugin.is_in_scope(pod, args.namespaces, args.label_selector) and plugin.passes_filter(pod)
    ]
    nodes = {node.name: node for node in plugin.nodes}
    chosen: dict[str, tuple[PodInfo, str]] = {}  # by UID, with the reason
    groups = group_by_namespace(pods)
    for namespace in plugin.run.arrange(groups):
        for constraint in _list_constraints(groups[namespace], actions):
            _choose_pods(plugin, args, constraint, groups[namespace], nodes, chosen)
    for pod in pods:
        if pod.uid not in chosen:
            plugin.explain(pod, "the constraints that select it need no eviction of it")
    full: set[str] = set()
    for pod, reason in plugin.run.arrange(chosen.values()):
        node = pod.pod.spec.node_name
        if node in full or not (plugin.passes_filter(pod) and plugin.passes_late_filter(pod)):
            continue
        result = plugin.evict(pod, node, reason)
        if result is Result.NODE_LIMIT:
            full.add(node)
        elif result is Result.TOTAL_LIMIT:
            return


def _list_constraints(pods: Sequence[PodInfo], actions: Sequence[str]) -> list[_Constraint]:
    """Return the different constraints of pods whose `whenUnsatisfiable` is one of the actions."""
    found: dict[bytes, _Constraint] = {}
    for pod in pods:
        for each in pod.pod.spec.topology_spread_constraints or ():
            if each.when_unsatisfiable in actions:
                constraint = _read_constraint(each, pod)
                found.setdefault(_identify(constraint), constraint)
    return list(found.values())


def _read_constraint(each: TopologySpreadConstraint, pod: PodInfo) -> _Constraint:
    selector = each.label_selector
    keys = [key for key in each.match_label_keys or () if key in pod.labels]
    if selector is not None and keys:
        more = [Requirement(key=key, operator="In", values=[pod.labels[key]]) for key in keys]
        selector = msgspec.structs.replace(selector, match_expressions=[*(selector.match_expressions or ()), *more])
    return _Constraint(
        each.max_skew,
        each.topology_key,
        selector or LabelSelector(match_expressions=[Requirement(key="-", operator="In", values=[])]),  # nothing
        pod,
        (each.node_affinity_policy or _HONOR) == _HONOR,
        each.node_taints_policy == _HONOR,
    )


def _identify(constraint: _Constraint) -> bytes:
    """Return what equal constraints have in common: where they honor affinity, also the affinity of their pods."""
    spec = constraint.pod.pod.spec
    affinity = spec.affinity and spec.affinity.node_affinity
    parts = (
        constraint._replace(pod=None, selector=None),  # type: ignore[arg-type]
        sorted((constraint.selector.match_labels or {}).items()),
        constraint.selector.match_expressions or [],
        (spec.node_selector, affinity and affinity.required) if constraint.honors_affinity else None,
        spec.tolerations if constraint.honors_taints else None,
    )
    return msgspec.msgpack.encode(parts, order="deterministic")


def _choose_pods(
    plugin: PluginRun,
    args: TopologySpreadArgs,
    constraint: _Constraint,
    pods: Sequence[PodInfo],
    nodes: dict[str, SeenNode],
    chosen: dict[str, tuple[PodInfo, str]],
) -> None:
    """Add the pods whose eviction balances the domains of one constraint to `chosen`."""
    key = constraint.key
    members: dict[str, list[PodInfo]] = {}
    for node in plugin.nodes:
        if key in node.labels and constraint.includes(node):
            members.setdefault(node.labels[key], [])
    for pod in pods:
        labels = nodes[pod.pod.spec.node_name].labels
        if not pod.terminating and key in labels and label_selector_matches(constraint.selector, pod.labels):
            members.setdefault(labels[key], []).append(pod)
    sizes = {value: len(each) for value, each in members.items()}
    if not sizes or max(sizes.values()) - min(sizes.values()) <= constraint.max_skew:
        return
    average = sum(sizes.values()) / len(sizes)
    domains = [_Domain(value, sorted(members[value], key=_rank_pod)) for value in plugin.run.arrange(members)]
    domains.sort(key=lambda domain: len(domain.pods))
    below = {domain.value for domain in domains if len(domain.pods) < average}
    takers = [node for node in plugin.nodes if node.labels.get(key) in below and constraint.includes(node)]
    low, high = 0, len(domains) - 1
    while low < high:
        if len(domains[high].pods) <= average:
            high -= 1
        few, many = domains[low], domains[high]
        skew = len(many.pods) - len(few.pods)
        count = _count_moves(len(few.pods), len(many.pods), average, constraint.max_skew)
        if skew <= constraint.max_skew or count <= 0:
            low += 1
            continue
        fitting = {pod.uid: plugin.cluster.find_fitting(pod, takers) for pod in many.pods}
        many.pods.sort(key=lambda pod: fitting[pod.uid])
        moved = many.pods[len(many.pods) - count :]
        for pod in moved:
            if args.topology_balance_node_fit and not fitting[pod.uid]:
                plugin.explain(pod, f"it fits on no node of the domains of {key} with few pods")
                continue
            counts = f"its domain has {sizes[many.value]} pods and another one {min(sizes.values())}"
            reason = f"{key}: {counts}, maxSkew is {constraint.max_skew}"
            chosen.setdefault(pod.uid, (pod, reason))
        del many.pods[len(many.pods) - count :]
        few.pods += moved


def _count_moves(few: int, many: int, average: float, max_skew: int) -> int:
    """Return how many pods the descheduler moves from a domain with many pods to one with few."""
    half = math.ceil((many - few - max_skew) / 2)
    return min(math.ceil(many - average), math.ceil(average - few), half)


def _rank_pod(pod: PodInfo) -> tuple[bool, bool, int]:
    """Return the rank by which pods of a domain are sorted; the last ones are evicted first."""
    spec = pod.pod.spec
    is_bound_to_nodes = spec.node_selector is not None or bool(spec.affinity and spec.affinity.node_affinity)
    return not is_bound_to_nodes, spec.priority is not None, pod.priority
