"""The resource claims of a pod.

Source: k8s.io/dynamic-resource-allocation/resourceclaim and foreachPodResourceClaim of
pkg/scheduler/framework/plugins/dynamicresources v1.36.
"""

from __future__ import annotations

from dataclasses import dataclass

from herodotus_record.model import Reason
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import PodGroup, find_pod_group
from scheduler.engine.objects.resource_api import ConsumerReference, ResourceClaim
from scheduler.engine.objects.types import PodResourceClaim

GROUP_API = "scheduling.k8s.io"
GROUP_RESOURCE = "podgroups"


class UnusableDeviceClaimError(Exception):
    """The reason why a pod cannot use one of its resource claims."""

    def __init__(self, code: str, **params: str) -> None:
        super().__init__(code)
        self.reason = Reason(code, params)


@dataclass(frozen=True)
class PodClaim:
    """A claim of a pod, and the consumer that it is reserved for: the pod, or its group."""

    claim: ResourceClaim
    consumer: ConsumerReference


def name_consumer(pod: PodInfo) -> ConsumerReference:
    """Return the reference to the pod for a claim's status.reservedFor."""
    return ConsumerReference(resource="pods", name=pod.name, uid=pod.uid)


def find_claims(
    pod: PodInfo, objects: ClusterObjects, *, check_owner: bool = True, of_groups: bool = False
) -> list[ResourceClaim]:
    """Return the resource claims of a pod, in the order of its spec, without entries for which no claim is needed.

    Raises UnusableDeviceClaimError if a claim does not exist, is being deleted or was created for another pod. Without
    `check_owner`, a claim that was created for another pod is returned too. With `of_groups`, so are claims that were
    created for the pod's group.
    """
    return [each.claim for each in find_pod_claims(pod, objects, check_owner=check_owner, of_groups=of_groups)]


def find_pod_claims(
    pod: PodInfo, objects: ClusterObjects, *, check_owner: bool = True, of_groups: bool = False
) -> list[PodClaim]:
    """Return the claims that `find_claims` returns, each with the pod or pod group that it is reserved for.

    With `of_groups`, a claim that the pod's group lists in its spec is reserved for the group. Raises
    UnusableDeviceClaimError as `find_claims` does.
    """
    group = find_pod_group(objects, pod.pod_group) if of_groups else None
    own = consumer = name_consumer(pod)
    shared = set()
    if group is not None:
        shared = {
            (each.name, each.resource_claim_name, each.resource_claim_template_name)
            for each in group.spec.resource_claims or ()
        }
        metadata = group.metadata
        consumer = ConsumerReference(GROUP_API, GROUP_RESOURCE, metadata.name, metadata.uid)
    claims = []
    for wanted in pod.pod.spec.resource_claims or ():
        name = _find_name(pod, wanted)
        if name is None:
            continue
        claim = objects.get(ResourceClaim, name, pod.namespace)
        if claim is None:
            raise UnusableDeviceClaimError("device-claim-not-found", claim=f"{pod.namespace}/{name}")
        if claim.metadata.deletion_timestamp is not None:
            raise UnusableDeviceClaimError("device-claim-deleted", claim=name)
        if check_owner and wanted.resource_claim_name is None:
            _check_owner(pod, claim, of_groups=of_groups)
        identity = (wanted.name, wanted.resource_claim_name, wanted.resource_claim_template_name)
        claims.append(PodClaim(claim, consumer if identity in shared else own))
    return claims


def is_reserved_for_pod(pod: PodInfo, claim: ResourceClaim, *, of_groups: bool) -> bool:
    """Return whether a claim is reserved for the pod or, with `of_groups`, for a PodGroup named like its group."""
    if claim.is_reserved_for(pod.uid):
        return True
    return (
        of_groups
        and pod.pod_group is not None
        and any(
            (user.api_group, user.resource, user.name) == (GROUP_API, GROUP_RESOURCE, pod.pod_group.name)
            for user in claim.status.reserved_for or ()
        )
    )


def find_group_claims(group: PodGroup, objects: ClusterObjects) -> list[ResourceClaim]:
    """Return the existing claims that a pod group's spec lists, except generated ones that it does not control."""
    created = {each.name: each.resource_claim_name for each in group.status.resource_claim_statuses or ()}
    claims = []
    for wanted in group.spec.resource_claims or ():
        name = wanted.resource_claim_name or created.get(wanted.name)
        claim = objects.get(ResourceClaim, name, group.metadata.namespace) if name else None
        if claim is not None and (wanted.resource_claim_name or claim.is_controlled_by(group.metadata.uid)):
            claims.append(claim)
    return claims


def _check_owner(pod: PodInfo, claim: ResourceClaim, *, of_groups: bool) -> None:
    """Raise UnusableDeviceClaimError unless a generated claim is controlled by the pod.

    With `of_groups`, a PodGroup with the name of the pod's group may control it too.
    """
    if claim.is_controlled_by(pod.uid):
        return
    names = {"claim": claim.full_name, "pod": pod.full_name}
    key = pod.pod_group
    if not of_groups or key is None:
        raise UnusableDeviceClaimError("device-claim-not-owned", **names)
    owner = claim.metadata.controller
    is_group = owner is not None and (owner.kind, owner.name) == ("PodGroup", key.name)
    if owner is None or not is_group or not owner.api_version.startswith(f"{GROUP_API}/"):
        raise UnusableDeviceClaimError("device-claim-not-owned-by-group", group=key.name, **names)


def _find_name(pod: PodInfo, wanted: PodResourceClaim) -> str | None:
    """Return the name of the claim for an entry of the pod's spec.resourceClaims, or None if no claim is needed.

    Raises UnusableDeviceClaimError if the claim is not generated yet, or if the entry names no claim and no template.
    """
    if wanted.resource_claim_name is not None:
        return wanted.resource_claim_name
    if wanted.resource_claim_template_name is None:
        raise UnusableDeviceClaimError("device-claim-unsupported", pod=pod.full_name, claim=wanted.name)
    for created in pod.pod.status.resource_claim_statuses or ():
        if created.name == wanted.name:
            return created.resource_claim_name
    raise UnusableDeviceClaimError("device-claim-not-made", pod=pod.full_name)


def find_extended_claim(pod: PodInfo, objects: ClusterObjects) -> ResourceClaim | None:
    """Return the existing claim that an earlier attempt created for the pod's extended resources, or None."""
    for claim in objects.in_namespace(ResourceClaim, pod.namespace):
        if claim.is_for_extended_resources and any(
            owner.controller and owner.uid == pod.uid and owner.name == pod.name
            for owner in claim.metadata.owner_references or ()
        ):
            return claim
    return None
