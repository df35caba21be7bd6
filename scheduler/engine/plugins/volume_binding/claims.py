"""A pod's claims: bound, waiting for their first consumer, or unusable.

Source: volume_binding.go (podHasPVCs) and binder.go (GetPodVolumeClaims) v1.36.
"""

from __future__ import annotations

from dataclasses import dataclass

from herodotus_record.model import Reason
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolumeClaim,
    StorageClass,
    find_claim_name,
    is_owned_by_pod,
)


@dataclass(frozen=True)
class PodClaims:
    """The state that PreFilter writes: the pod's bound claims, and its delayed claims.

    A delayed claim waits for its first consumer and is bound after the pod's node is chosen.
    """

    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[PersistentVolumeClaim, ...]


class UnusableClaimError(Exception):
    """An error for a claim that makes every node infeasible; `reason` is the reason of the rejection."""

    def __init__(self, code: str, **params: str) -> None:
        super().__init__(code)
        self.reason = Reason(code, params)


def find_claims(pod: PodInfo, objects: ClusterObjects) -> PodClaims | None:
    """Return the pod's claims, or None if it has none.

    Raise UnusableClaimError if a claim makes every node infeasible, and ValueError if a storage class has no
    volumeBindingMode.
    """
    claims = [_get_usable_claim(pod, name, is_ephemeral, objects) for name, is_ephemeral in _list_claim_names(pod)]
    if not claims:
        return None
    bound = tuple(claim for claim in claims if claim.fully_bound)
    unbound = [claim for claim in claims if not claim.fully_bound]
    delayed = [claim for claim in unbound if _waits_for_consumer(claim, objects) and not claim.spec.volume_name]
    if len(delayed) < len(unbound):
        immediate = ", ".join(claim.full_name for claim in unbound if claim not in delayed)
        raise UnusableClaimError("claims-unbound", claims=immediate)
    return PodClaims(bound, tuple(delayed))


def _list_claim_names(pod: PodInfo) -> list[tuple[str, bool]]:
    """Return (name of the claim, whether the volume is ephemeral) for each of the pod's volumes with a claim."""
    named = ((find_claim_name(pod.pod, v), v.persistent_volume_claim is None) for v in pod.pod.spec.volumes or ())
    return [(name, is_ephemeral) for name, is_ephemeral in named if name is not None]


def _get_usable_claim(pod: PodInfo, name: str, is_ephemeral: bool, objects: ClusterObjects) -> PersistentVolumeClaim:
    claim = objects.get(PersistentVolumeClaim, name, pod.namespace)
    if claim is None:
        raise UnusableClaimError("claim-not-made" if is_ephemeral else "claim-not-found", claim=name)
    if claim.status.phase == "Lost":
        raise UnusableClaimError("claim-lost", claim=name, volume=claim.spec.volume_name)
    if claim.metadata.deletion_timestamp is not None:
        raise UnusableClaimError("claim-deleted", claim=name)
    if is_ephemeral and not is_owned_by_pod(claim, pod.pod):
        raise UnusableClaimError("claim-not-owned", claim=claim.full_name, pod=pod.full_name)
    return claim


def _waits_for_consumer(claim: PersistentVolumeClaim, objects: ClusterObjects) -> bool:
    storage_class = objects.get(StorageClass, claim.storage_class) if claim.storage_class else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        raise ValueError(f'VolumeBindingMode not set for StorageClass "{claim.storage_class}"')
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
