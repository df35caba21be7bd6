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
    """Return the name of a claim in the pod's spec, which pods of one template share; else the claim's own name."""
    names = {each.resource_claim_name: each.name for each in pod.pod.status.resource_claim_statuses or ()}
    names |= {each.resource_claim_name: each.name for each in pod.pod.spec.resource_claims or ()}
    return names.get(claim.metadata.name, claim.metadata.name)


def name_shared(pod: PodInfo, claim: ResourceClaim) -> str:
    """Return the name of a claim that pods of one template share: its own if their spec names it, else its alias."""
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
    """Return the devices of allocations of the pod's claims."""
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
    """Return the devices that the claims of a placed pod have now; none if a claim does not exist."""
    try:
        claims = find_claims(pod, objects, of_groups=True)
    except UnusableDeviceClaimError:
        return ()
    extended = find_extended_claim(pod, objects) if any(map(may_be_backed, pod.requests)) else None
    return build_devices(
        pod, [(claim, claim.status.allocation) for claim in (*claims, *([extended] if extended is not None else ()))]
    )
