"""The devices of a pod's resource claims, as the record names them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from herodotus_record.model import AllocatedDevice
from scheduler.engine.dra.extended_resources import may_be_backed
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.resource_api import AllocationResult, ResourceClaim
from scheduler.engine.plugins.dynamic_resources.claims import UnusableDeviceClaimError, find_claims, find_extended_claim

MAX_USERS: Final = 8  # pods that a reason names as users of devices


def name_in_pod(pod: PodInfo, claim: ResourceClaim) -> str:
    """Return the name that the pod's spec gives a claim (spec.resourceClaims), or else the claim's own name."""
    names = {each.resource_claim_name: each.name for each in pod.pod.status.resource_claim_statuses or ()}
    names |= {each.resource_claim_name: each.name for each in pod.pod.spec.resource_claims or ()}
    return names.get(claim.metadata.name, claim.metadata.name)


def name_shared(pod: PodInfo, claim: ResourceClaim) -> str:
    """Return a name of the claim that is the same for all pods of one template.

    That is the claim's own name if the pod's spec refers to it, else the name that the spec gives it (`name_in_pod`).
    """
    named = {each.resource_claim_name for each in pod.pod.spec.resource_claims or ()}
    return claim.metadata.name if claim.metadata.name in named else name_in_pod(pod, claim)


def list_users(objects: ClusterObjects, claims: Iterable[str]) -> list[str]:
    """Return the first MAX_USERS pods, as NAMESPACE/NAME, that claims (NAMESPACE/NAME) are reserved for."""
    users = dict[str, None]()
    for full_name in claims:
        namespace, _, name = full_name.partition("/")
        claim = objects.get(ResourceClaim, name, namespace)
        reserved = (claim.status.reserved_for if claim is not None else None) or ()
        users |= dict.fromkeys(f"{namespace}/{user.name}" for user in reserved if user.resource == "pods")
    return list(users)[:MAX_USERS]


def build_devices(
    pod: PodInfo, allocations: Iterable[tuple[ResourceClaim, AllocationResult | None]]
) -> tuple[AllocatedDevice, ...]:
    """Return the allocated devices of a pod for the record, from pairs of a claim and its allocation or None."""
    return tuple(
        AllocatedDevice(
            claim=name_in_pod(pod, claim),
            request=result.request,
            driver=result.driver,
            pool=result.pool,
            device=result.device,
            admin_access=bool(result.admin_access),
            consumed_capacity={name: str(amount) for name, amount in (result.consumed_capacity or {}).items()},
        )
        for claim, allocation in allocations
        if allocation is not None
        for result in allocation.devices.results or ()
    )


def list_present_devices(pod: PodInfo, objects: ClusterObjects) -> tuple[AllocatedDevice, ...]:
    """Return the devices that are now allocated to the claims of a placed pod; none if a claim is unusable."""
    try:
        claims = find_claims(pod, objects, of_groups=True)
    except UnusableDeviceClaimError:
        return ()
    extended = find_extended_claim(pod, objects) if any(map(may_be_backed, pod.requests)) else None
    return build_devices(
        pod, [(claim, claim.status.allocation) for claim in (*claims, *([extended] if extended is not None else ()))]
    )
