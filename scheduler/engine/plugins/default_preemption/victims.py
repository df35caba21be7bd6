"""The selection of victims on a node: the fewest and least important pods, without budget violations if possible.

Source: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go v1.36, SelectVictimsOnNode and
filterPodsWithPDBViolation.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import Reason, Verdict
from scheduler.engine.columns import NodeColumns, RowCopy
from scheduler.engine.framework.extender import PreemptionCandidate
from scheduler.engine.framework.interface import DryRun
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import unresolvable
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.selectors import label_selector_matches
from scheduler.engine.objects.workloads import PodDisruptionBudget

NO_VICTIMS: Final = unresolvable(Reason("no-victims"))

Budgets = Mapping[str, Sequence[PodDisruptionBudget]]  # by namespace


class PreemptionAttempt(NamedTuple):
    """A pod for which preemption is tried: its cycle state, all nodes, and the dry run of its filters."""

    state: CycleState
    pod: PodInfo
    nodes: NodeColumns
    dry_run: DryRun


def select_victims(
    attempt: PreemptionAttempt, slots: NDArray[np.intp], budgets: Budgets
) -> list[PreemptionCandidate | Verdict]:
    """Return for each node slot a preemption candidate with its victims, or the verdict why evicting does not help.

    All nodes are tried together on one copy of their rows, so that filters run as often as for a single node.
    """
    _, pod, whole, dry_run = attempt
    lower = [[p for p in whole.pods[slot].values() if p.priority < pod.priority] for slot in slots.tolist()]
    if not any(lower):
        return [NO_VICTIMS] * len(lower)
    nodes, state = RowCopy(whole, slots), attempt.state.clone()
    dry_run.remove_pods(state, pod, [(slot, p) for slot, pods in enumerate(lower) for p in pods], nodes)
    without_all = dry_run.find_first_failures(state, pod, nodes)
    tries = [
        _Candidate(slot, sort_by_importance(lower[slot]), budgets)
        for slot in np.flatnonzero(without_all.codes(nodes.slots) == 0).tolist()
        if lower[slot]
    ]
    reprieving = tries
    while reprieving := [one for one in reprieving if one.to_reprieve]:
        added = [(one.slot, one.to_reprieve.popleft()) for one in reprieving]
        dry_run.add_pods(state, pod, added, nodes)
        fits = (dry_run.find_first_failures(state, pod, nodes).codes(nodes.slots) == 0).tolist()
        dry_run.remove_pods(state, pod, [(slot, p) for slot, p in added if not fits[slot]], nodes)
        for one, (slot, p) in zip(reprieving, added, strict=True):
            if not fits[slot]:  # the incoming pod does not fit beside it, so it is a victim
                one.victims.append(p)
    candidates = {one.slot: one.to_candidate(nodes.names[one.slot]) for one in tries}
    return [
        candidates[slot] if slot in candidates else without_all.verdict_at(slot) if pods else NO_VICTIMS
        for slot, pods in enumerate(lower)
    ]


class _Candidate:
    """A node in a preemption dry run: all less important pods are removed, then added back one by one if they fit.

    The pods that cannot be added back are the victims.
    """

    def __init__(self, slot: int, pods: Sequence[PodInfo], budgets: Budgets) -> None:
        """Store the node's `pods` that are less important than the preemptor, the most important first.

        Pods whose eviction would violate a disruption budget are added back before the others.
        """
        self.slot = slot
        self.victims: list[PodInfo] = []
        self._violating = _find_violating(pods, budgets) if budgets else []
        self._is_mixed = 0 < len(self._violating) < len(pods)
        self.to_reprieve = deque(pods)
        if self._violating:
            self.to_reprieve = deque([*self._violating, *(p for p in pods if p not in self._violating)])

    def to_candidate(self, node: str) -> PreemptionCandidate:
        """Return the preemption candidate for the node named `node`; its victims start with the most important one."""
        violations = sum(p in self._violating for p in self.victims)
        victims = sort_by_importance(self.victims) if self._is_mixed else self.victims
        return PreemptionCandidate(node, tuple(victims), violations)


def sort_by_importance(pods: Sequence[PodInfo]) -> list[PodInfo]:
    """Return pods of a node, which are in the order in which they came to it, with the most important one first.

    Higher priority comes first, then earlier start. Of pods that have not started, the last one comes first:
    kube-scheduler takes the present time for their start at each comparison, so each counts as earlier than the one
    that it is compared with, and its sort of up to 12 pods turns them round.
    """
    ranked = sorted(enumerate(pods), key=lambda each: (-each[1].priority, each[1].started, _rank(*each)))
    return [pod for _, pod in ranked]


def _rank(number: int, pod: PodInfo) -> int:
    return number if pod.pod.status.start_time else -number


def group_by_namespace(budgets: Iterable[PodDisruptionBudget]) -> Budgets:
    """Return the disruption budgets by namespace."""
    budgets_by_namespace: defaultdict[str, list[PodDisruptionBudget]] = defaultdict(list)
    for budget in budgets:
        budgets_by_namespace[budget.metadata.namespace].append(budget)
    return budgets_by_namespace


class BudgetUse:
    """The disruptions that are left of each disruption budget while pods are evicted one after the other."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets
        self._left: dict[int, int] = {}

    def violates(self, p: PodInfo) -> bool:
        """Count the eviction of a pod, and return whether a budget that selects it allowed no more disruptions."""
        left, forbidden = self._left, False
        for budget in self._budgets.get(p.namespace, ()):
            if _selects(budget, p):
                left[id(budget)] = left.get(id(budget), budget.status.disruptions_allowed) - 1
                forbidden = forbidden or left[id(budget)] < 0
        return forbidden


def _find_violating(pods: Iterable[PodInfo], budgets: Budgets) -> list[PodInfo]:
    """Return the pods whose eviction violates a disruption budget if all `pods` are evicted in the given order."""
    use = BudgetUse(budgets)
    return [p for p in pods if use.violates(p)]


def _selects(budget: PodDisruptionBudget, p: PodInfo) -> bool:
    """Return whether a disruption budget of the pod's namespace applies to the pod.

    An absent or empty selector selects nothing, as in kube-scheduler. A budget does not apply to a pod without labels,
    nor to one that the budget's status lists in `disruptedPods`.
    """
    selector = budget.spec.selector
    if not p.labels or selector is None:
        return False
    if not selector.match_labels and not selector.match_expressions:
        return False
    return label_selector_matches(selector, p.labels) and p.name not in (budget.status.disrupted_pods or {})
