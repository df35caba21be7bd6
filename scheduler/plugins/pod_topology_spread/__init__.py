"""PodTopologySpread: keeps alike pods evenly spread over zones, nodes or any other topology.

Owns: the plugin's extension points. Does not own: which constraints a pod has (`constraints`), the arguments (`args`).
Source: pkg/scheduler/framework/plugins/podtopologyspread v1.36 (filtering.go, scoring.go).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.columns import NodeColumns
from scheduler.framework.events import Action, ClusterEventWithHint, Resource
from scheduler.framework.interface import MAX_NODE_SCORE, Mask, Scores
from scheduler.framework.plugin import BasePlugin, Handle
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import SKIP, SKIPPED, PreFilterResult, Verdicts, unresolvable, unschedulable
from scheduler.objects.pod import PodInfo
from scheduler.objects.selectors import InvalidSelectorError
from scheduler.objects.types import Node, TopologySpreadConstraint
from scheduler.plugins.pod_topology_spread import constraints as spread
from scheduler.plugins.pod_topology_spread import hints
from scheduler.plugins.pod_topology_spread.args import SYSTEM, PodTopologySpreadArgs
from scheduler.plugins.pod_topology_spread.constraints import HARD, SOFT, Constraint, Constraints
from scheduler.plugins.topology import Counts, Domains, FirstRejections, has_label

__all__ = ["PodTopologySpread", "PodTopologySpreadArgs"]

HOSTNAME: Final = "kubernetes.io/hostname"
SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key="topology.kubernetes.io/zone", when_unsatisfiable=SOFT),
)
_NO_DOMAINS: Final = (1 << 31) - 1  # the fewest pods of no domain at all


@dataclass
class _Hard:
    """PreFilter's note: the hard constraints and, of each, the pods by domain."""

    constraints: Constraints
    domains: list[Domains]

    def clone(self) -> _Hard:
        return _Hard(self.constraints, [d.clone() for d in self.domains])


@dataclass(frozen=True)
class _Term:
    """A soft constraint's part of the score: pods that count for each slot, on the nodes that have its key."""

    constraint: Constraint
    pods: Counts
    has_key: Mask
    weight: float


@dataclass(frozen=True)
class _Soft:
    """PreScore's note, of the node columns that are scored. Ignored: nodes that lack a key which all must have."""

    terms: tuple[_Term, ...]
    ignored: Mask


class PodTopologySpread(BasePlugin):
    """Pods are matched once a constraint, and summed by node and by domain."""

    name = "PodTopologySpread"
    args_type = PodTopologySpreadArgs

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        """Pods to spread, nodes that make up domains, and this pod's tolerations where taints count."""
        pods = Action.ADD | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION | Action.DELETE
        yield ClusterEventWithHint(Resource.POD, pods, self._after_pod)
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        yield ClusterEventWithHint(Resource.NODE, nodes, self._after_node)

    def _after_pod(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> bool:
        return hints.after_pod(pod, self._constraints(pod, HARD, "hard"), old, new)

    def _after_node(self, pod: PodInfo, old: Node | None, new: Node | None) -> bool:
        return hints.after_node(self._constraints(pod, HARD, "hard"), old, new)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._system = args.defaulting_type == SYSTEM
        self._defaults = SYSTEM_DEFAULTS if self._system else args.default_constraints or ()

    def prepare(self, nodes: NodeColumns) -> None:
        """The rows of the running pods."""
        _ = nodes.pod_rows

    # --- hard constraints -----------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Count pods by domain, over the nodes that have every key and that the constraint includes."""
        constraints = self._constraints(pod, HARD, "hard")
        if not constraints:
            return SKIPPED
        have_all = spread.have_all_keys(constraints, nodes)
        domains = [
            Domains.of(c.key, nodes, have_all & spread.included(c, pod, nodes), spread.pods_on_nodes(c, pod, nodes))
            for c in constraints
        ]
        state.write(_Hard(constraints, domains))
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """The first constraint that the pod would violate; the reason says by how much."""
        note, said = state.read(_Hard), FirstRejections(nodes.slots)
        for constraint, domains in zip(note.constraints, note.domains, strict=True):
            missing = unresolvable(Reason("spread-label", {"key": constraint.key}))
            said.reject(~has_label(constraint.key, nodes), missing)
            fewest = _fewest(constraint, domains)
            with_pod = domains.on(nodes) + constraint.selects(pod)
            exceeded = said.undecided & (with_pod - fewest > constraint.max_skew)
            for count in np.unique(with_pod[exceeded]).tolist():
                said.reject(exceeded & (with_pod == count), _rejection(constraint, count, fewest))
        return said.verdicts()

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, nodes: NodeColumns, slot: int) -> None:
        """One more in its node's domains."""
        _change(state.read(_Hard), pod, added, nodes, slot, +1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, nodes: NodeColumns, slot: int) -> None:
        """One fewer."""
        _change(state.read(_Hard), pod, removed, nodes, slot, -1)

    # --- soft constraints -----------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        """Count pods for every constraint; the more domains the feasible nodes have, the more it weighs."""
        constraints = self._constraints(pod, SOFT, "soft")
        if not constraints:
            return SKIP
        # kube-scheduler's own constraints are lenient, so that nodes without a zone still spread by name
        lenient = self._system and not pod.pod.spec.topology_spread_constraints
        have_all = nodes.live if lenient else spread.have_all_keys(constraints, nodes)
        terms = tuple(_term(c, pod, nodes, feasible & have_all, have_all) for c in constraints)
        state.write(_Soft(terms, ~have_all))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """The pods in the node's domains, weighed: fewer is better."""
        note = state.read(_Soft)
        total = np.zeros(nodes.slots)
        for term in note.terms:
            total += np.where(term.has_key, term.pods * term.weight + (term.constraint.max_skew - 1), 0.0)
        return np.where(note.ignored, 0, _rounded(total))

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """The fewest is best; ignored nodes get nothing."""
        ignored = state.read(_Soft).ignored
        counted = raw[feasible & ~ignored]
        most = int(counted.max(initial=0))
        if most == 0:
            return np.where(ignored, 0, MAX_NODE_SCORE)
        return np.where(ignored, 0, MAX_NODE_SCORE * (most + int(counted.min()) - raw) // most)

    def _constraints(self, pod: PodInfo, action: str, kind: str) -> Constraints:
        if pod.pod.spec.topology_spread_constraints:
            return _parsed(lambda: spread.own(pod, action), f"obtaining pod's {kind} topology spread constraints")
        objects = self.handle.objects
        return spread.default(pod, action, self._defaults, objects) if self._defaults else ()


def _parsed(constraints: Callable[[], Constraints], what: str) -> Constraints:
    try:
        return constraints()
    except InvalidSelectorError as e:
        raise InvalidSelectorError(f"{what}: {e}") from e


def _fewest(constraint: Constraint, domains: Domains) -> int:
    """The pods of the emptiest domain; 0 where there are fewer domains than there should be."""
    if len(domains) < constraint.min_domains:
        return 0
    return int(domains.counts.min(initial=_NO_DOMAINS))


def _rejection(constraint: Constraint, with_pod: int, fewest: int) -> Verdict:
    params = {
        "key": constraint.key,
        "pods": str(with_pod),
        "fewest": str(fewest),
        "maxSkew": str(constraint.max_skew),
    }
    return unschedulable(Reason("spread", params))


def _change(note: _Hard, pod: PodInfo, changed: PodInfo, nodes: NodeColumns, slot: int, by: int) -> None:
    """As upstream: a terminating pod counts here, and so does every pod where the selector is empty."""
    if changed.namespace != pod.namespace or not spread.have_all_keys(note.constraints, nodes)[slot]:
        return
    for constraint, domains in zip(note.constraints, note.domains, strict=True):
        if constraint.selects(changed) and spread.included(constraint, pod, nodes)[slot]:
            domains.add(nodes, slot, by)


def _term(constraint: Constraint, pod: PodInfo, nodes: NodeColumns, scored: Mask, counted: Mask) -> _Term:
    """`scored`: the feasible nodes that are not ignored. `counted`: the nodes whose pods count."""
    pods, has_key = spread.pods_on_nodes(constraint, pod, nodes), has_label(constraint.key, nodes)
    if constraint.key == HOSTNAME:  # every node is a domain of its own, whatever its label says
        return _Term(constraint, pods, has_key, math.log(int(scored.sum()) + 2))
    column = nodes.label(constraint.key)
    ids = column.ids(nodes.slots)
    if "" in column.values:  # a missing label counts as the empty one
        ids = np.where(has_key, ids, column.values.index(""))
    counted = counted & spread.included(constraint, pod, nodes)
    sums = np.bincount(ids[counted], pods[counted], minlength=len(column.values)).astype(np.int64)
    size = int(np.count_nonzero(np.bincount(ids[scored])))
    return _Term(constraint, sums.take(ids), has_key, math.log(size + 2))


def _rounded(amounts: NDArray[np.float64]) -> Scores:
    """Go's math.Round of amounts that are not negative: half goes up."""
    whole = np.floor(amounts)
    return (whole + (amounts - whole >= 0.5)).astype(np.int64)
