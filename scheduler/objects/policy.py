"""policy/v1: PodDisruptionBudget, as preemption reads it."""

from __future__ import annotations

from scheduler.objects.types import Int32, LabelSelector, Object, Struct


class BudgetSpec(Struct, frozen=True):
    """spec of a PodDisruptionBudget."""

    selector: LabelSelector | None = None


class BudgetStatus(Struct, frozen=True):
    """status of a PodDisruptionBudget: what its controller allows now."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str] | None = None


class PodDisruptionBudget(Object, frozen=True):
    """policy/v1 PodDisruptionBudget."""

    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()
