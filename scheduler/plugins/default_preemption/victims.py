"""Which pods would have to go from a node: the fewest and least important, budgets spared where possible.

Source: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go v1.36, SelectVictimsOnNode and
filterPodsWithPDBViolation.
"""

from __future__ import annotations

from collections import deque
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
    nodes: NodeColumns, state: CycleState, pod: PodInfo, budgets: Sequence[PodDisruptionBudget], dry_run: DryRun
) -> list[Victims | Verdict]:
    """Of each node of `nodes`, the victims there, or why evicting does not help.

    All nodes are tried in step, so that filters are asked as often as for one. `nodes` and `state` are copies made for
    the question; both are changed.
    """
    lower = [[p for p in pods.values() if p.priority < pod.priority] for pods in nodes.pods]
    for slot, pods in enumerate(lower):
        for p in pods:
            dry_run.remove_pod(state, pod, p, nodes, slot)
    without_all = dry_run.first_failures(state, pod, nodes)
    tries = [
        _Try(slot, *_by_budget(sorted(pods, key=importance), budgets))
        for slot, pods in enumerate(lower)
        if pods and without_all[slot].code is Code.SUCCESS
    ]
    while putting_back := [one for one in tries if one.waiting]:
        for one in putting_back:
            dry_run.add_pod(state, pod, one.waiting[0], nodes, one.slot)
        said = dry_run.first_failures(state, pod, nodes)
        for one in putting_back:
            p = one.waiting.popleft()
            if said[one.slot].code is not Code.SUCCESS:  # the pod does not fit then: it has to go after all
                dry_run.remove_pod(state, pod, p, nodes, one.slot)
                one.gone.append(p)
    found = {one.slot: one.victims(nodes.names[one.slot]) for one in tries}
    refused = [without_all[slot] if pods else NO_VICTIMS for slot, pods in enumerate(lower)]
    return [found.get(slot, verdict) for slot, verdict in enumerate(refused)]


class _Try:
    """A node that the pod fits when all less important pods are gone, while they are put back one by one."""

    def __init__(self, slot: int, violating: list[PodInfo], others: list[PodInfo]) -> None:
        self.slot = slot
        self.waiting = deque([*violating, *others])
        self.gone: list[PodInfo] = []
        self._violating = {p.uid for p in violating}

    def victims(self, node: str) -> Victims:
        """Those that could not be put back."""
        violations = sum(p.uid in self._violating for p in self.gone)
        return Victims(node, tuple(sorted(self.gone, key=importance)), violations)


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
