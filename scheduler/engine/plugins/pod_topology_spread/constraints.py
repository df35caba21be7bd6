"""A pod's spread constraints: its own, or the profile's with a selector from the pod's workloads; their arguments.

Source: pkg/scheduler/framework/plugins/podtopologyspread/common.go and plugins/helper/spread.go v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.engine.columns import NodeColumns
from scheduler.engine.columns.tallies import Tally
from scheduler.engine.framework.interface import Mask
from scheduler.engine.framework.plugin import Args
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.names import validate_label_key
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.problems import Problem, duplicate, forbidden, invalid, not_supported, required
from scheduler.engine.objects.selectors import label_selector_matches, validate_selector
from scheduler.engine.objects.taints import HARD_EFFECTS, is_tolerated
from scheduler.engine.objects.types import LabelSelector, OwnerReference, Requirement, TopologySpreadConstraint
from scheduler.engine.objects.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from scheduler.engine.plugins.node_affinity import match_required_affinity
from scheduler.engine.plugins.topology import DomainCounts, find_present_values, has_label
from scheduler.engine.rules import DEFAULT_RULES, Rules
from scheduler.engine.rules.feature_gates import COMPARISON_OPERATORS, MATCH_LABEL_KEYS

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
SYSTEM, LIST = "System", "List"  # where the default constraints of a profile come from
HONOR = "Honor"
_NO_DOMAINS: Final = (1 << 31) - 1  # the smallest count if there are no domains


class DefaultConstraint(TopologySpreadConstraint, frozen=True, forbid_unknown_fields=True):
    """An element of the argument defaultConstraints in a configuration file."""


class PodTopologySpreadArgs(Args, frozen=True):
    """Arguments of PodTopologySpread: the default constraints for pods without their own.

    The defaulting type System selects kube-scheduler's soft constraints, and List selects `default_constraints`.
    """

    default_constraints: tuple[DefaultConstraint, ...] | None = None
    defaulting_type: str = SYSTEM

    def problems(self) -> Iterator[Problem]:
        """Yield a problem for an invalid defaulting type, then for each invalid or duplicate default constraint."""
        constraints = self.default_constraints or ()
        if self.defaulting_type not in (SYSTEM, LIST):
            yield not_supported("defaultingType", self.defaulting_type, (SYSTEM, LIST))
        elif self.defaulting_type == SYSTEM and constraints:
            yield invalid("defaultingType", SYSTEM, "when .defaultConstraints are not empty")
        for i, constraint in enumerate(constraints):
            path = f"defaultConstraints[{i}]"
            yield from _problems(constraint, path)
            pair = (constraint.topology_key, constraint.when_unsatisfiable)
            if pair in [(c.topology_key, c.when_unsatisfiable) for c in constraints[:i]]:
                yield duplicate(path, f"{{{', '.join(pair)}}}")


@dataclass(frozen=True)
class Constraint:
    """A topology spread constraint with the defaults of its fields applied."""

    key: str
    max_skew: int
    selector: LabelSelector | None
    min_domains: int
    honor_affinity: bool
    honor_taints: bool
    comparison_operators: bool  # whether tolerations with Lt and Gt count

    def selects(self, pod: PodInfo) -> bool:
        """Return whether the constraint's selector matches the pod's labels; the namespace is not checked."""
        return label_selector_matches(self.selector, pod.labels)


Constraints = tuple[Constraint, ...]
Keys = frozenset[str]


def parse_constraints(pod: PodInfo, action: str, rules: Rules = DEFAULT_RULES) -> Constraints:
    """Return the pod's own constraints whose whenUnsatisfiable is `action`."""
    return tuple(
        _constraint(c, _build_selector(c, pod, rules), rules)
        for c in pod.pod.spec.topology_spread_constraints or ()
        if c.when_unsatisfiable == action
    )


def build_default_constraints(
    pod: PodInfo,
    action: str,
    constraints: Iterable[TopologySpreadConstraint],
    objects: ClusterObjects,
    rules: Rules = DEFAULT_RULES,
) -> Constraints:
    """Return the profile's default constraints whose whenUnsatisfiable is `action`, with a selector for the pod.

    `deduce_selector` gives the selector. If there is none, the result is empty.
    """
    applicable = [c for c in constraints if c.when_unsatisfiable == action]
    selector = deduce_selector(pod, objects) if applicable else None
    return tuple(_constraint(c, selector, rules) for c in applicable) if selector is not None else ()


def deduce_selector(pod: PodInfo, objects: ClusterObjects) -> LabelSelector | None:
    """Return one selector of all conditions of the Services and the controller that select a pod, or None."""
    labels: dict[str, str] = {}
    for service in objects.in_namespace(Service, pod.namespace):
        selector = service.spec.selector
        if selector is not None and label_selector_matches(LabelSelector(match_labels=selector), pod.labels):
            labels |= selector
    requirements: list[Requirement] = []
    owner = pod.pod.metadata.controller
    if owner is not None:
        labels |= _replication_controller(owner, pod, objects)
        requirements = _requirements(_controller_selector(owner, pod, objects))
    if not labels and not requirements:
        return None
    return LabelSelector(match_labels=labels, match_expressions=requirements)


def find_included_nodes(constraint: Constraint, pod: PodInfo, nodes: NodeColumns) -> Mask:
    """Return a mask of the nodes that the constraint's nodeAffinityPolicy and nodeTaintsPolicy include.

    The mask is cached, and callers must not change it.
    """
    return nodes.cached(("included", *_policies(constraint, pod)), lambda: _evaluate_policies(constraint, pod, nodes))


def find_counted_nodes(constraint: Constraint, keys: Keys, pod: PodInfo, nodes: NodeColumns) -> Mask:
    """Return a mask of the nodes that have every key in `keys` and that the constraint's policies include.

    The mask is cached, and callers must not change it.
    """
    what = ("counted", keys, *_policies(constraint, pod))
    return nodes.cached(what, lambda: find_nodes_with_keys(keys, nodes) & find_included_nodes(constraint, pod, nodes))


def find_domains(constraint: Constraint, keys: Keys, pod: PodInfo, nodes: NodeColumns) -> Mask:
    """Return a mask of the values of the constraint's topology key that occur on counted nodes.

    It is indexed by the value's number in the label column. It is cached, and callers must not change it.
    """
    what = ("domains", constraint.key, keys, *_policies(constraint, pod))
    return nodes.cached(
        what, lambda: find_present_values(constraint.key, nodes, find_counted_nodes(constraint, keys, pod, nodes))
    )


def _policies(constraint: Constraint, pod: PodInfo) -> tuple[bytes, bool, bool, bool]:
    c = constraint
    return pod.spec_digest, c.honor_affinity, c.honor_taints, c.comparison_operators


def _evaluate_policies(constraint: Constraint, pod: PodInfo, nodes: NodeColumns) -> Mask:
    counts = nodes.live.copy()
    if constraint.honor_affinity:
        counts &= match_required_affinity(pod, nodes)
    if constraint.honor_taints:
        tolerations, compares = pod.pod.spec.tolerations or (), constraint.comparison_operators
        counts &= nodes.taints.where(
            nodes.slots,
            lambda taints: all(
                t.effect not in HARD_EFFECTS or is_tolerated(t, tolerations, comparison_operators=compares)
                for t in taints
            ),
        )
    return counts


def collect_keys(constraints: Constraints) -> Keys:
    """Return the topology keys of the constraints. A node counts only if it has all of them."""
    return frozenset(c.key for c in constraints)


def find_nodes_with_keys(keys: Keys, nodes: NodeColumns) -> Mask:
    """Return a mask of the nodes that have every key; it is cached, and callers must not change it."""
    return nodes.cached(
        ("labels", keys), lambda: np.logical_and.reduce([nodes.live, *(has_label(key, nodes) for key in keys)])
    )


def find_nodes_without_keys(keys: Keys, nodes: NodeColumns) -> Mask:
    """Return a mask of the nodes that lack a key; it is cached, and callers must not change it."""
    return nodes.cached(("lacking", keys), lambda: ~find_nodes_with_keys(keys, nodes))


def count_pods_to_spread(constraint: Constraint, pod: PodInfo, nodes: NodeColumns) -> Tally:
    """Return, for each node slot, the number of pods in the pod's namespace that the constraint selects.

    Terminating pods do not count. As in kube-scheduler, an empty selector counts no pods.
    """
    selector = constraint.selector
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return Tally(np.zeros(nodes.slots, np.int64))
    return nodes.pod_rows.tally(selector, frozenset({pod.namespace}), nodes.slots, staying=True)


def count_smallest_domain(constraint: Constraint, domains: DomainCounts) -> int:
    """Return the number of matching pods in the smallest domain, or 0 if there are fewer domains than minDomains."""
    if len(domains) < constraint.min_domains:
        return 0
    return int(domains.counts.min(initial=_NO_DOMAINS))


def count_domains(constraint: Constraint, keys: Keys, pod: PodInfo, nodes: NodeColumns) -> DomainCounts:
    """Return the number of matching pods by topology domain of the constraint.

    Only nodes count that have every key in `keys` and that the constraint's inclusion policies include.
    """
    if constraint.key not in nodes.label_keys:
        return DomainCounts.empty(constraint.key, nodes.label(constraint.key).values)
    counted_nodes = find_counted_nodes(constraint, keys, pod, nodes)
    present = find_domains(constraint, keys, pod, nodes)
    return DomainCounts.from_nodes(
        constraint.key, nodes, counted_nodes, present, count_pods_to_spread(constraint, pod, nodes)
    )


def _constraint(c: TopologySpreadConstraint, selector: LabelSelector | None, rules: Rules) -> Constraint:
    return Constraint(
        key=c.topology_key,
        max_skew=c.max_skew,
        selector=selector,
        min_domains=1 if c.min_domains is None else c.min_domains,
        honor_affinity=c.node_affinity_policy in (None, HONOR),
        honor_taints=c.node_taints_policy == HONOR,
        comparison_operators=rules.enabled(COMPARISON_OPERATORS),
    )


def _build_selector(c: TopologySpreadConstraint, pod: PodInfo, rules: Rules) -> LabelSelector | None:
    """Return the selector extended by the pod's values of matchLabelKeys, or None if there is no selector."""
    selector = validate_selector(c.label_selector)
    if not rules.enabled(MATCH_LABEL_KEYS):
        return selector
    same = [
        Requirement(key=k, operator="In", values=[pod.labels[k]]) for k in c.match_label_keys or () if k in pod.labels
    ]
    if selector is None or not same:
        return selector
    return LabelSelector(
        match_labels=selector.match_labels, match_expressions=[*(selector.match_expressions or ()), *same]
    )


def _replication_controller(owner: OwnerReference, pod: PodInfo, objects: ClusterObjects) -> dict[str, str]:
    if (owner.api_version, owner.kind) != ("v1", "ReplicationController"):
        return {}
    controller = objects.get(ReplicationController, owner.name, pod.namespace)
    return (controller.spec.selector if controller else None) or {}


def _controller_selector(owner: OwnerReference, pod: PodInfo, objects: ClusterObjects) -> LabelSelector | None:
    controller: ReplicaSet | StatefulSet | None = None
    if (owner.api_version, owner.kind) == ("apps/v1", "ReplicaSet"):
        controller = objects.get(ReplicaSet, owner.name, pod.namespace)
    elif (owner.api_version, owner.kind) == ("apps/v1", "StatefulSet"):
        controller = objects.get(StatefulSet, owner.name, pod.namespace)
    return controller.spec.selector if controller else None


def _requirements(selector: LabelSelector | None) -> list[Requirement]:
    if selector is None:
        return []
    equal = [
        Requirement(key=key, operator="In", values=[value]) for key, value in (selector.match_labels or {}).items()
    ]
    return [*equal, *(selector.match_expressions or ())]


def _problems(constraint: DefaultConstraint, path: str) -> Iterator[Problem]:
    key, action = constraint.topology_key, constraint.when_unsatisfiable
    if constraint.max_skew <= 0:
        yield invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from (invalid(f"{path}.topologyKey", key, wrong) for wrong in validate_label_key(key))
    if not action:
        yield required(f"{path}.whenUnsatisfiable", "can not be empty")
    elif action not in (HARD, SOFT):
        yield not_supported(f"{path}.whenUnsatisfiable", action, (HARD, SOFT))
    if constraint.label_selector is not None:
        words = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(f"{path}.labelSelector", words)
