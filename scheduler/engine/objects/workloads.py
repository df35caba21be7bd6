"""Services, controllers and disruption budgets, whose selectors determine which pods belong together."""

from __future__ import annotations

from scheduler.engine.objects.types import Condition, Int32, Int64, Labels, LabelSelector, Metadata, Object, Struct


class MapSelectorSpec(Struct, frozen=True):
    """The spec of a Service or ReplicationController: labels that must all match; null selects nothing."""

    selector: Labels | None = None


class LabelSelectorSpec(Struct, frozen=True):
    """The spec of a ReplicaSet or StatefulSet, with the label selector of its pods."""

    selector: LabelSelector | None = None


class Service(Object, frozen=True):
    """A Service of v1."""

    spec: MapSelectorSpec = MapSelectorSpec()


class ReplicationController(Object, frozen=True):
    """A ReplicationController of v1."""

    spec: MapSelectorSpec = MapSelectorSpec()


class ReplicaSet(Object, frozen=True):
    """A ReplicaSet of apps/v1."""

    spec: LabelSelectorSpec = LabelSelectorSpec()


class StatefulSet(Object, frozen=True):
    """A StatefulSet of apps/v1."""

    spec: LabelSelectorSpec = LabelSelectorSpec()


class BudgetSpec(Struct, frozen=True):
    """The spec of a PodDisruptionBudget; the two amounts are numbers or percentages."""

    selector: LabelSelector | None = None
    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetStatus(Struct, frozen=True):
    """The status of a PodDisruptionBudget, from which its controller's decision follows."""

    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0
    disrupted_pods: dict[str, str] | None = None
    observed_generation: Int64 = 0
    conditions: list[Condition] | None = None


class BudgetMetadata(Metadata, frozen=True):
    """The ObjectMeta of a PodDisruptionBudget, with the generation of its spec."""

    generation: Int64 = 0


class PodDisruptionBudget(Object, frozen=True):
    """A PodDisruptionBudget of policy/v1."""

    metadata: BudgetMetadata = BudgetMetadata()
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()
