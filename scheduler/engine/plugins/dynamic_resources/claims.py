"""The resource claims of a pod.

Source: k8s.io/dynamic-resource-allocation/resourceclaim and foreachPodResourceClaim of
pkg/scheduler/framework/plugins/dynamicresources v1.36.
"""

from __future__ import annotations

from herodotus_record.model import Reason
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.resource_api import ResourceClaim
from scheduler.engine.objects.types import PodResourceClaim


class UnusableDeviceClaimError(Exception):
    """The reason why a pod cannot use one of its resource claims."""

    def __init__(self, code: str, **params: str) -> None:
        super().__init__(code)
        self.reason = Reason(code, params)


def find_claims(pod: PodInfo, objects: ClusterObjects, *, check_owner: bool = True) -> list[ResourceClaim]:
    """Return the claims of a pod in its order, without those that it does not need.

    Raises UnusableDeviceClaimError if a claim does not exist, is being deleted or was created for another pod.
    Without `check_owner`, which pod a claim was created for does not count.
    """
    found = []
    for wanted in pod.pod.spec.resource_claims or ():
        name = _find_name(pod, wanted)
        if name is None:
            continue
        claim = objects.get(ResourceClaim, name, pod.namespace)
        if claim is None:
            raise UnusableDeviceClaimError("device-claim-not-found", claim=f"{pod.namespace}/{name}")
        if claim.metadata.deletion_timestamp is not None:
            raise UnusableDeviceClaimError("device-claim-deleted", claim=name)
        if check_owner and wanted.resource_claim_name is None and not claim.is_controlled_by(pod.uid):
            raise UnusableDeviceClaimError("device-claim-not-owned", claim=claim.full_name, pod=pod.full_name)
        found.append(claim)
    return found


def _find_name(pod: PodInfo, wanted: PodResourceClaim) -> str | None:
    """Return the name of a claim of the pod, or None if no claim is needed."""
    if wanted.resource_claim_name is not None:
        return wanted.resource_claim_name
    if wanted.resource_claim_template_name is None:
        raise UnusableDeviceClaimError("device-claim-unsupported", pod=pod.full_name, claim=wanted.name)
    for created in pod.pod.status.resource_claim_statuses or ():
        if created.name == wanted.name:
            return created.resource_claim_name
    raise UnusableDeviceClaimError("device-claim-not-made", pod=pod.full_name)


def find_extended_claim(pod: PodInfo, objects: ClusterObjects) -> ResourceClaim | None:
    """Return the claim that an earlier attempt made for the pod's extended resources, if there is one."""
    for claim in objects.in_namespace(ResourceClaim, pod.namespace):
        if claim.is_for_extended_resources and any(
            owner.controller and owner.uid == pod.uid and owner.name == pod.name
            for owner in claim.metadata.owner_references or ()
        ):
            return claim
    return None
