"""The selection of victims for a pod group: single pods, and whole groups that are evicted together.

Source: pkg/scheduler/framework/preemption/podgrouppreemption.go and types.go v1.36. Upstream's order of victims that
are equally important is random; here it is that of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from scheduler.engine.columns import NodeColumns
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import EVICTED_TOGETHER, PodGroup, find_pod_group
from scheduler.engine.plugins.default_preemption.victims import Budgets, BudgetUse


@dataclass(eq=False)
class PreemptionUnit:
    """Pods that are evicted together: one pod, or those of a group with the disruption mode PodGroup.

    `pods` holds each pod with the name of its node.
    """

    priority: int
    pods: list[tuple[PodInfo, str]] = field(default_factory=list)

    @property
    def importance_key(self) -> tuple[int, bool, int, str]:
        """A sort key that puts the more important unit first.

        Higher priority comes first, then pods of groups before other pods, larger groups, and earlier start. As
        upstream, the start of a unit is that of the first of its `pods`.
        """
        first = self.pods[0][0]
        in_group = first.pod_group is not None
        return -self.priority, not in_group, -len(self.pods) if in_group else 0, first.started


def list_units(nodes: NodeColumns, objects: ClusterObjects) -> list[PreemptionUnit]:
    """Return the preemption units of all pods on nodes, in the order of the nodes."""
    units: list[PreemptionUnit] = []
    groups: dict[str, PreemptionUnit] = {}
    for slot in nodes.order.slots().tolist():
        name = nodes.names[slot]
        for pod in nodes.pods[slot].values():
            group = _find_evicted_together(pod, objects)
            if group is None:
                units.append(PreemptionUnit(pod.priority, [(pod, name)]))
                continue
            uid = group.metadata.uid
            if uid not in groups:
                groups[uid] = PreemptionUnit(group.spec.priority or 0)
                units.append(groups[uid])
            groups[uid].pods.append((pod, name))
    return units


def select_group_victims(
    units: Sequence[PreemptionUnit],
    budgets: Budgets,
    add: Callable[[PreemptionUnit], None],
    remove: Callable[[PreemptionUnit], None],
    fits: Callable[[], bool],
) -> list[PodInfo]:
    """Return the pods that must be evicted so that a pod group fits, those of the most important unit first.

    The caller has removed all `units`, so that the group fits (`fits()` is True). Each unit is added again (`add`), and
    removed (`remove`) if the group then no longer fits. Units whose eviction violates a disruption budget are added
    first.
    """
    ordered = sorted(units, key=lambda unit: unit.importance_key)
    violating = set(_find_violating_units(ordered, budgets))
    victims = []
    for unit in sorted(ordered, key=lambda unit: unit not in violating):
        add(unit)
        if not fits():
            remove(unit)
            victims.append(unit)
    return [pod for unit in sorted(victims, key=lambda unit: unit.importance_key) for pod, _ in unit.pods]


def _find_evicted_together(pod: PodInfo, objects: ClusterObjects) -> PodGroup | None:
    """Return the pod's PodGroup if its disruption mode is to evict the group as a whole, else None."""
    group = find_pod_group(objects, pod.pod_group)
    return group if group is not None and group.spec.disruption_mode == EVICTED_TOGETHER else None


def _find_violating_units(units: Iterable[PreemptionUnit], budgets: Budgets) -> list[PreemptionUnit]:
    """Return the units with a pod whose eviction violates a disruption budget, in the given order.

    Evictions are counted in this order. In each unit, counting stops at the first pod that violates a budget.
    """
    use = BudgetUse(budgets)
    return [unit for unit in units if any(use.violates(pod) for pod, _ in unit.pods)]
