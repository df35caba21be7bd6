"""PodTopologySpread: keeps alike pods evenly spread over zones, nodes or any other topology.

Source: pkg/scheduler/framework/plugins/podtopologyspread v1.36 (filtering.go, scoring.go, plugin.go).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from herodotus_record.lru import Lru
from herodotus_record.model import SUCCESS, Reason, Verdict
from herodotus_record.units import natural_sort_key
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.equivalence_cache import union_rows
from scheduler.engine.framework.events import QUEUE, QUEUE_SKIP, ActionType, ClusterEventWithHint, EventResource
from scheduler.engine.framework.interface import MAX_NODE_SCORE, Mask, Scores
from scheduler.engine.framework.plugin import BasePlugin, DependsOn, Handle, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.update_events import occupies_node
from scheduler.engine.framework.verdicts import SKIP, SKIPPED, PreFilterResult, Verdicts, unresolvable, unschedulable
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.selectors import InvalidSelectorError
from scheduler.engine.objects.types import Node, TopologySpreadConstraint
from scheduler.engine.plugins.pod_topology_spread import constraints as spread
from scheduler.engine.plugins.pod_topology_spread.constraints import (
    HARD,
    SOFT,
    SYSTEM,
    Constraint,
    Constraints,
    Keys,
    PodTopologySpreadArgs,
)
from scheduler.engine.plugins.topology import (
    Counts,
    DomainCounts,
    DomainEntries,
    FirstRejections,
    has_label,
)

Slots = NDArray[np.intp]

__all__ = ["PodTopologySpread", "PodTopologySpreadArgs"]

HOSTNAME: Final = "kubernetes.io/hostname"
SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key="topology.kubernetes.io/zone", when_unsatisfiable=SOFT),
)
MAX_CONSTRAINTS: Final = 2048  # of parsed pods, about a kilobyte each; users write them, and a pod may have 8,000
_MAX_DOMAINS: Final = 6  # domains that a reason names, and nodes of the emptiest ones
_OPEN: Final = np.iinfo(np.int64).min  # stands for a domain that the pod may join; no number of pods


@dataclass
class _PreFilterState:
    """The state that PreFilter writes: the hard constraints, and for each the number of matching pods by domain.

    `matches_itself` tells for each constraint whether its selector matches the pod that is being scheduled.
    """

    constraints: Constraints
    keys: Keys
    matches_itself: list[bool]
    domains: list[DomainCounts]

    def clone(self) -> _PreFilterState:
        return _PreFilterState(self.constraints, self.keys, self.matches_itself, [d.clone() for d in self.domains])

    def update_counts(self, pod: PodInfo, changed: PodInfo, nodes: NodeColumns, slot: int, by: int) -> None:
        """Add `by` (1 or -1) to the counts of the node's domains, for each constraint that selects the pod `changed`.

        As in kube-scheduler, these updates also count terminating pods, and pods for constraints with an empty
        selector.
        """
        if changed.namespace != pod.namespace or not spread.find_nodes_with_keys(self.keys, nodes)[slot]:
            return
        for constraint, domains in zip(self.constraints, self.domains, strict=True):
            if constraint.selects(changed) and spread.find_included_nodes(constraint, pod, nodes)[slot]:
                domains.add(nodes, slot, by)

    def find_closed_domains(self, i: int) -> tuple[int, Counts]:
        """Return the number of pods in the smallest domain of constraint `i`, and which domains the pod must not join.

        The latter is an array with an entry for each value of the topology key: the number of pods including this one
        for a domain that the pod must not join, and `_OPEN` for any other.
        """
        constraint, domains = self.constraints[i], self.domains[i]
        fewest, with_pod = spread.count_smallest_domain(constraint, domains), domains.by_value + self.matches_itself[i]
        return fewest, np.where(with_pod - fewest > constraint.max_skew, with_pod, _OPEN)

    def changed_slots(self, before: _PreFilterState, nodes: NodeColumns) -> Slots | None:
        """Return the slots of the nodes whose verdict may differ from that in the state `before`; None if all may."""
        if (self.constraints, self.matches_itself) != (before.constraints, before.matches_itself):
            return None
        return union_rows(self._changed_slots(i, before, nodes) for i in range(len(self.constraints)))

    def _changed_slots(self, i: int, before: _PreFilterState, nodes: NodeColumns) -> Slots | None:
        fewest, closed = self.find_closed_domains(i)
        fewest_before, closed_before = before.find_closed_domains(i)
        if fewest != fewest_before and not (_all_open(closed) and _all_open(closed_before)):
            return None
        return self.domains[i].entries(closed).changed_slots(before.domains[i].entries(closed_before), nodes)


@dataclass(frozen=True, eq=False)
class _ScoreTerm:
    """The points that one soft constraint adds to the score, by topology domain.

    For the key kubernetes.io/hostname, `points` has an entry for each node slot instead. A matching pod gives `weight`
    points.
    """

    constraint: Constraint
    points: DomainEntries
    weight: float

    def score_slots(self, nodes: NodeColumns) -> NDArray[np.floating]:
        """Return the constraint's points for each node slot."""
        if self.constraint.key == HOSTNAME:  # every node is its own domain, regardless of its label
            return self.points.entries[nodes.slot_numbers]
        return self.points.per_slot(nodes)

    def explain(self, nodes: NodeColumns, slot: int) -> Reason:
        """Return a reason with the number of matching pods in the domain of the node in `slot`.

        A node without the topology key gets a reason that says so.
        """
        key, column = self.constraint.key, nodes.label(self.constraint.key)
        number = column.ids(nodes.slots)[slot]
        if column.values[number] is None:
            return Reason("spread-no-label", {"key": key})
        is_own = key == HOSTNAME
        points = self.points.entries[slot if is_own else number] - (self.constraint.max_skew - 1)
        domain = nodes.names[slot] if is_own else str(column.values[number])
        return Reason("spread-pods", {"key": key, "domain": domain, "pods": str(round(points / self.weight))})

    def changed_slots(self, before: _ScoreTerm, nodes: NodeColumns) -> Slots | None:
        if self.constraint != before.constraint:
            return None
        if self.constraint.key == HOSTNAME:
            now, then = self.points.entries, before.points.entries
            return np.flatnonzero(now != then) if len(now) == len(then) else None
        return self.points.changed_slots(before.points, nodes)


@dataclass(frozen=True, eq=False)
class _PreScoreState:
    """The state that PreScore writes: the points of each soft constraint, and a mask of the ignored nodes.

    Nodes that lack a required topology key are ignored.
    """

    terms: tuple[_ScoreTerm, ...]
    ignored: Mask  # follows from the constraints and the Node objects

    def changed_slots(self, before: _PreScoreState, nodes: NodeColumns) -> Slots | None:
        """Return the slots of the nodes whose points differ from those in the state `before`; None if all may."""
        if len(self.terms) != len(before.terms) or self.ignored is not before.ignored:
            return None
        return union_rows(now.changed_slots(then, nodes) for now, then in zip(self.terms, before.terms, strict=True))


class PodTopologySpread(BasePlugin):
    """The plugin for topology spread constraints: filters by hard ones and scores by soft ones.

    It matches pods once per constraint, and keeps sums by node and by topology domain.
    """

    name = "PodTopologySpread"
    args_type = PodTopologySpreadArgs
    reads = frozenset({PluginInput.NODE, PluginInput.ALL_NODES, PluginInput.PODS, PluginInput.OBJECTS})
    fails_without: ClassVar = {
        "filter": ("preFilter", 'reading "PreFilterPodTopologySpread" from cycleState: not found'),
        "score": ("preScore", 'error reading "PreScorePodTopologySpread" from cycleState: not found'),
    }
    depends_on = DependsOn.ROW
    filter_state = _PreFilterState
    score_state = _PreScoreState

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        pods = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION | ActionType.DELETE
        yield ClusterEventWithHint(EventResource.POD, pods, self._is_schedulable_after_pod_change)
        nodes = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        yield ClusterEventWithHint(EventResource.NODE, nodes, self._is_schedulable_after_node_change)

    def _is_schedulable_after_pod_change(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> bool:
        return _is_schedulable_after_pod_change(pod, self._constraints(pod, HARD, "hard"), old, new)

    def _is_schedulable_after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> bool:
        return _is_schedulable_after_node_change(self._constraints(pod, HARD, "hard"), old, new)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._parsed: Lru[Hashable, Constraints] = Lru(
            MAX_CONSTRAINTS, size=lambda constraints: max(len(constraints), 8)
        )
        self._system = args.defaulting_type == SYSTEM
        self._defaults = SYSTEM_DEFAULTS if self._system else args.default_constraints or ()

    @property
    def has_default_constraints(self) -> bool:
        """Whether the profile has default constraints, for pods without constraints."""
        return bool(self._defaults)

    @property
    def has_hard_default_constraints(self) -> bool:
        """Whether a default constraint can reject a node."""
        return any(each.when_unsatisfiable == HARD for each in self._defaults)

    def prepare(self, nodes: NodeColumns) -> None:
        """Build the table of running pods, so that the first cycle need not."""
        _ = nodes.pod_rows

    # --- hard constraints -----------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Count the matching pods by topology domain for each hard constraint; skip the filter if there is none.

        Only nodes count that have every topology key and that the constraint's inclusion policies include.
        """
        constraints = self._constraints(pod, HARD, "hard")
        if not constraints:
            return SKIPPED
        keys = spread.collect_keys(constraints)
        domains = [spread.count_domains(c, keys, pod, nodes) for c in constraints]
        state.write(_PreFilterState(constraints, keys, [c.selects(pod) for c in constraints], domains))
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Reject each node by the first hard constraint that the pod would violate there.

        The reason of the rejection has the numbers of pods.
        """
        note, rejections = state.read(_PreFilterState), FirstRejections(nodes.slots)
        for i, (constraint, domains) in enumerate(zip(note.constraints, note.domains, strict=True)):
            if not rejections.undecided.any():
                break
            missing = unresolvable(Reason("spread-label", {"key": constraint.key}))
            rejections.reject(~has_label(constraint.key, nodes), missing)
            fewest, closed = note.find_closed_domains(i)
            if not _all_open(closed):
                counts = np.union1d(_OPEN, closed)
                words = [_rejection(constraint, count, fewest) for count in counts[1:].tolist()]
                rejections.reject_by_number(words, domains.map_to_slots(np.searchsorted(counts, closed), nodes))
        return rejections.verdicts()

    def explain_rejections(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, verdicts: Verdicts) -> Verdicts:
        """Return the verdicts with, in their reasons, the constraint's domains and whether the pod matches itself.

        `_describe_domains` lists the parameters for the domains.
        """
        note, known = state.read(_PreFilterState), dict[str, dict[str, str]]()
        for constraint, domains, matches in zip(note.constraints, note.domains, note.matches_itself, strict=True):
            known[constraint.key] = _describe_domains(constraint, domains, note.keys, pod, nodes)
            known[constraint.key]["matches"] = "true" if matches else "false"
        return verdicts.with_parameters(
            lambda reason: known.get(reason.params["key"], {}) if reason.code == "spread" else {}
        )

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, nodes: NodeColumns, slot: int) -> None:
        state.read(_PreFilterState).update_counts(pod, added, nodes, slot, +1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, nodes: NodeColumns, slot: int) -> None:
        state.read(_PreFilterState).update_counts(pod, removed, nodes, slot, -1)

    # --- soft constraints -----------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        """Compute the points of each topology domain for every soft constraint; skip Score if there is none.

        The points are the number of matching pods, weighted by the number of domains of feasible nodes.
        """
        constraints = self._constraints(pod, SOFT, "soft")
        if not constraints:
            return SKIP
        # kube-scheduler's own constraints are lenient, so that nodes without a zone still spread by name
        lenient = self._system and not pod.pod.spec.topology_spread_constraints
        keys = spread.collect_keys(()) if lenient else spread.collect_keys(constraints)
        scored = feasible & spread.find_nodes_with_keys(keys, nodes)
        on_nodes = [c for c in constraints if c.key in nodes.label_keys]  # others give no points
        terms = tuple(_build_term(c, keys, pod, nodes, scored) for c in on_nodes)
        state.write(_PreScoreState(terms, spread.find_nodes_without_keys(keys, nodes)))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return, for each node slot, the weighted number of matching pods in the node's domains.

        Fewer is better. Ignored nodes get 0.
        """
        note, total = state.read(_PreScoreState), np.zeros(nodes.slots)
        for term in note.terms:
            total += term.score_slots(nodes)
        return np.where(note.ignored[nodes.slot_numbers], 0, _round_half_up(total))

    def explain_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, slot: int) -> list[Reason]:
        """Return, for each soft constraint, the number of matching pods in the node's domain."""
        return [term.explain(nodes, slot) for term in state.read(_PreScoreState).terms]

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """Scale the scores so that the fewest pods give 100 and more pods give less; ignored nodes get 0."""
        ignored = state.read(_PreScoreState).ignored
        scored = raw[feasible & ~ignored]
        most = int(scored.max(initial=0))
        if most == 0:
            return np.where(ignored, 0, MAX_NODE_SCORE)
        return np.where(ignored, 0, MAX_NODE_SCORE * (most + int(scored.min()) - raw) // most)

    def _constraints(self, pod: PodInfo, action: str, kind: str) -> Constraints:
        if pod.pod.spec.topology_spread_constraints:
            key = (pod.spec_digest, action, frozenset(pod.labels.items()))
            return self._parsed.get_or_create(
                key,
                lambda: _wrap_selector_error(
                    lambda: spread.parse_constraints(pod, action, self.rules),
                    f"obtaining pod's {kind} topology spread constraints",
                ),
            )
        if not self._defaults:
            return ()
        return spread.build_default_constraints(pod, action, self._defaults, self.handle.objects, self.rules)


def _wrap_selector_error(constraints: Callable[[], Constraints], what: str) -> Constraints:
    try:
        return constraints()
    except InvalidSelectorError as e:
        raise InvalidSelectorError(f"{what}: {e}") from e


def _all_open(closed: Counts) -> bool:
    return bool((closed == _OPEN).all())


def _rejection(constraint: Constraint, with_pod: int, fewest: int) -> Verdict:
    numbers = {"pods": str(with_pod), "fewest": str(fewest), "maxSkew": str(constraint.max_skew)}
    return unschedulable(Reason("spread", {"key": constraint.key, **numbers}))


def _describe_domains(
    constraint: Constraint, domains: DomainCounts, keys: Keys, pod: PodInfo, nodes: NodeColumns
) -> dict[str, str]:
    """Return parameters for a reason: the constraint's domains with their pod counts, and the nodes of the emptiest.

    At most `_MAX_DOMAINS` domains, those with the fewest pods, and as many nodes are listed, so that the record stays
    small.
    """
    present = domains.list_present()
    first = heapq.nsmallest(_MAX_DOMAINS, present, key=lambda domain: (domain[1], domain[0]))
    named = [f"{value}={count}" for value, count in sorted(first, key=lambda d: (d[1], natural_sort_key(d[0])))]
    if len(present) > len(named):
        named.append(f"{len(present) - len(named)} more up to {max(count for _, count in present)}")
    fewest = min((count for _, count in present), default=0)
    emptiest = {value for value, count in present if count == fewest}
    counted = spread.find_counted_nodes(constraint, keys, pod, nodes)
    slots = np.flatnonzero(counted & nodes.label(constraint.key).among(nodes.slots, tuple(emptiest)))
    names = sorted(heapq.nsmallest(_MAX_DOMAINS, (nodes.names[s] for s in slots.tolist())), key=natural_sort_key)
    described = {
        "domains": ", ".join(named),
        "emptiest": ", ".join(names),
        "nodeTaintsPolicy": spread.HONOR if constraint.honor_taints else "Ignore",
    }
    if not constraint.honor_affinity:
        described["nodeAffinityPolicy"] = "Ignore"
    if len(present) < constraint.min_domains:
        described["minDomains"] = str(constraint.min_domains)
    return described


def _build_term(constraint: Constraint, keys: Keys, pod: PodInfo, nodes: NodeColumns, scored: Mask) -> _ScoreTerm:
    """Return the points of one soft constraint by domain; `scored` is a mask of the feasible nodes with every key."""
    tally, column = spread.count_pods_to_spread(constraint, pod, nodes), nodes.label(constraint.key)
    spare = float(constraint.max_skew - 1)
    if constraint.key == HOSTNAME:
        weight = _weight(scored)
        points = np.where(has_label(constraint.key, nodes), tally.counts * weight + spare, 0.0)
        return _ScoreTerm(constraint, DomainEntries(constraint.key, column.values, points), weight)
    pods = tally.by_value(column, spread.find_counted_nodes(constraint, keys, pod, nodes)).copy()
    seen = np.zeros(len(column.values), np.bool_)
    seen[column.ids(nodes.slots)[scored]] = True
    if "" in column.values:  # a missing label counts as the empty one
        empty = column.values.index("")
        pods[empty] += pods[0]
        seen[empty] |= seen[0]
        seen[0] = False
    weight = _weight(seen)
    points = pods * weight + spare
    points[0] = 0.0  # index 0 stands for nodes that lack the key
    return _ScoreTerm(constraint, DomainEntries(constraint.key, column.values, points), weight)


def _weight(domains: Mask) -> float:
    """Return the points that one matching pod adds: the logarithm of the number of domains in the mask plus 2."""
    return math.log(np.count_nonzero(domains) + 2)


def _round_half_up(amounts: NDArray[np.float64]) -> Scores:
    """Return non-negative amounts rounded like Go's math.Round, with halves up."""
    whole = np.floor(amounts)
    return (whole + (amounts - whole >= 0.5)).astype(np.int64)


def _is_schedulable_after_pod_change(
    pod: PodInfo, constraints: Constraints, old: PodInfo | None, new: PodInfo | None
) -> bool:
    """Return whether a pod event may help `pod`: other pods match differently, or `pod` tolerates other taints.

    Another pod counts if it was added or deleted while it matches, or if it starts or stops to match.
    """
    if any(not _counts(other, pod) for other in (old, new) if other is not None):
        return QUEUE_SKIP
    if old is None or new is None:
        other = old or new
        return other is not None and any(c.selects(other) for c in constraints)
    tolerates_more = new.uid == pod.uid and old.pod.spec.tolerations != new.pod.spec.tolerations
    if tolerates_more and any(c.honor_taints for c in constraints):
        return QUEUE
    return any(c.selects(old) != c.selects(new) for c in constraints)


def _is_schedulable_after_node_change(constraints: Constraints, old: Node | None, new: Node | None) -> bool:
    """Return whether a node with every topology key was added or deleted, or changed its domains or taints.

    A node that gains or loses a topology key counts too.
    """
    had, has = _has_keys(constraints, old), _has_keys(constraints, new)
    if old is None or new is None or had != has:
        return had or has
    moved = any(_labels(old).get(c.key) != _labels(new).get(c.key) for c in constraints)
    return has and (moved or old.spec.taints != new.spec.taints)


def _counts(other: PodInfo, pod: PodInfo) -> bool:
    return other.uid == pod.uid or (occupies_node(other) and other.namespace == pod.namespace)


def _has_keys(constraints: Constraints, node: Node | None) -> bool:
    return node is not None and all(c.key in _labels(node) for c in constraints)


def _labels(node: Node) -> Mapping[str, str]:
    return node.metadata.labels or {}
