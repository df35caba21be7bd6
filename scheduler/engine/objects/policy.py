"""The PodDisruptionBudget of policy/v1, with the fields that preemption reads."""

from __future__ import annotations

from scheduler.engine.objects.types import Int32, LabelSelector, Object, Struct


class BudgetSpec(Struct, frozen=True):
    """The spec of a PodDisruptionBudget."""

    selector: LabelSelector | None = None


class BudgetStatus(Struct, frozen=True):
    """The status of a PodDisruptionBudget: the disruptions that its controller allows now."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str] | None = None


class PodDisruptionBudget(Object, frozen=True):
    """A PodDisruptionBudget of policy/v1."""

    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()
