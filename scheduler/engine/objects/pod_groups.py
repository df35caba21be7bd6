"""PodGroup objects of scheduling.k8s.io/v1alpha2, with the fields that scheduling reads.

Source: k8s.io/api/scheduling/v1alpha2 v1.36. The scheduler reads no Workload object, as upstream.
"""

from __future__ import annotations

from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodGroupKey
from scheduler.engine.objects.types import Condition, Int32, Metadata, Object, Struct

SCHEDULED = "PodGroupScheduled"  # the type of the condition that the scheduler sets
EVICTED_TOGETHER = "PodGroup"  # the disruption mode of a group that is evicted as a whole


class GangSchedulingPolicy(Struct, frozen=True):
    """The policy of a group of which at least `min_count` pods must be schedulable at the same time."""

    min_count: Int32 = 0


class PodGroupSchedulingPolicy(Struct, frozen=True):
    """The spec.schedulingPolicy of a PodGroup. Without `gang` its pods are scheduled independently."""

    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Struct, frozen=True):
    """A constraint that all pods of a group are on nodes with the same value of the label `key`."""

    key: str = ""


class PodGroupSchedulingConstraints(Struct, frozen=True):
    """The spec.schedulingConstraints of a PodGroup. v1.36 accepts at most one topology constraint."""

    topology: list[TopologyConstraint] | None = None


class PodGroupResourceClaim(Struct, frozen=True):
    """An element of a PodGroup's spec.resourceClaims: a claim, or a template, that the pods of the group share."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodGroupResourceClaimStatus(Struct, frozen=True):
    """The claim that was created for a template in spec.resourceClaims; None: no claim is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodGroupSpec(Struct, frozen=True):
    """The spec of a PodGroup."""

    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: str | None = None
    priority: Int32 | None = None
    resource_claims: list[PodGroupResourceClaim] | None = None


class PodGroupStatus(Struct, frozen=True):
    """The status of a PodGroup."""

    conditions: list[Condition] | None = None
    resource_claim_statuses: list[PodGroupResourceClaimStatus] | None = None


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

    @property
    def topology_key(self) -> str | None:
        """The node label whose values are the domains of the group's topology constraint, or None without one."""
        constraints = self.spec.scheduling_constraints
        return constraints.topology[0].key if constraints is not None and constraints.topology else None


def find_pod_group(objects: ClusterObjects, key: PodGroupKey | None) -> PodGroup | None:
    """Return the PodGroup with this key, or None if `key` is None or the object does not exist."""
    return None if key is None else objects.get(PodGroup, key.name, key.namespace)
