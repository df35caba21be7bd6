"""Which pods would have to go from one node: the fewest and least important, budgets spared where possible.

Source: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go v1.36, SelectVictimsOnNode and
filterPodsWithPDBViolation.
"""

from __future__ import annotations

from collections.abc import Sequence

from herodotus_record.model import Code, Reason, Verdict
from scheduler.columns import NodeColumns
from scheduler.framework.extender import Victims
from scheduler.framework.interface import DryRun
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import unresolvable
from scheduler.objects.pod import PodInfo
from scheduler.objects.policy import PodDisruptionBudget
from scheduler.objects.selectors import label_selector_matches

NO_VICTIMS = unresolvable(Reason("no-victims"))


def select(
    node: NodeColumns, state: CycleState, pod: PodInfo, budgets: Sequence[PodDisruptionBudget], dry_run: DryRun
) -> Victims | Verdict:
    """The victims on the one node of `node`, or why evicting does not help there.

    `node` and `state` are copies made for the question; both are changed.
    """
    (name,) = node.names
    (slot,) = range(node.slots)
    lower = [p for p in node.pods[slot].values() if p.priority < pod.priority]
    if not lower:
        return NO_VICTIMS
    for p in lower:
        dry_run.remove_pod(state, pod, p, node, slot)
    (without_all,) = dry_run.first_failures(state, pod, node)
    if without_all.code is not Code.SUCCESS:
        return without_all

    def must_go(p: PodInfo) -> bool:
        """Put a pod back; whether the pod no longer fits then, so that it has to go after all."""
        dry_run.add_pod(state, pod, p, node, slot)
        (verdict,) = dry_run.first_failures(state, pod, node)
        if verdict.code is Code.SUCCESS:
            return False
        dry_run.remove_pod(state, pod, p, node, slot)
        return True

    violating, others = _by_budget(sorted(lower, key=importance), budgets)
    gone_violating = [p for p in violating if must_go(p)]
    gone = gone_violating + [p for p in others if must_go(p)]
    return Victims(name, tuple(sorted(gone, key=importance)), len(gone_violating))


def importance(p: PodInfo) -> tuple[int, str]:
    """A sort key, the most important first: higher priority, then the one that has run longer."""
    return -p.priority, started(p)


def started(p: PodInfo) -> str:
    """status.startTime, which sorts as text; a pod that has not started sorts as starting now."""
    return p.pod.status.start_time or "9999"


def _by_budget(pods: Sequence[PodInfo], budgets: Sequence[PodDisruptionBudget]) -> tuple[list[PodInfo], list[PodInfo]]:
    """The pods whose eviction some budget forbids, and the others, each in the given order.

    Every budget pays for the pods it selects one by one; a pod is forbidden where any of its budgets is used up.
    """
    left = [budget.status.disruptions_allowed for budget in budgets]
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for p in pods:
        forbidden = False
        for i, budget in enumerate(budgets):
            if _selects(budget, p):
                left[i] -= 1
                forbidden = forbidden or left[i] < 0
        (violating if forbidden else others).append(p)
    return violating, others


def _selects(budget: PodDisruptionBudget, p: PodInfo) -> bool:
    """An absent or empty selector selects nothing here, nor does any select a pod without labels."""
    selector = budget.spec.selector
    if budget.metadata.namespace != p.namespace or not p.labels or selector is None:
        return False
    if not selector.match_labels and not selector.match_expressions:
        return False
    return label_selector_matches(selector, p.labels) and p.name not in (budget.status.disrupted_pods or {})
