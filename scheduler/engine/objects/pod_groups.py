"""PodGroup objects of scheduling.k8s.io/v1alpha2, with the fields that scheduling reads.

Source: k8s.io/api/scheduling/v1alpha2 v1.36. The scheduler reads no Workload object, as upstream.
"""

from __future__ import annotations

from scheduler.engine.objects.types import Condition, Int32, Metadata, Object, Struct

SCHEDULED = "PodGroupScheduled"  # the type of the condition that the scheduler sets


class GangSchedulingPolicy(Struct, frozen=True):
    """The policy of a group of which at least `min_count` pods must be schedulable at the same time."""

    min_count: Int32 = 0


class PodGroupSchedulingPolicy(Struct, frozen=True):
    """The spec.schedulingPolicy of a PodGroup. Without `gang` its pods are scheduled independently."""

    gang: GangSchedulingPolicy | None = None


class PodGroupSpec(Struct, frozen=True):
    """The spec of a PodGroup."""

    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()


class PodGroupStatus(Struct, frozen=True):
    """The status of a PodGroup."""

    conditions: list[Condition] | None = None


class PodGroupMetadata(Metadata, frozen=True):
    """The metadata of a PodGroup."""

    generation: int = 0


class PodGroup(Object, frozen=True):
    """A group of pods that are scheduled in one cycle."""

    metadata: PodGroupMetadata = PodGroupMetadata()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    @property
    def min_count(self) -> int:
        """The number of pods that the group needs at least; 0 without the gang policy."""
        gang = self.spec.scheduling_policy.gang
        return 0 if gang is None else gang.min_count
