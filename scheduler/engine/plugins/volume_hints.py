"""Queueing hints for volume plugins: whether a new or changed claim belongs to the pod."""

from __future__ import annotations

from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.storage import PersistentVolumeClaim, find_claim_name


def is_named_claim(pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> bool:
    """Return whether a volume of the pod names the claim `new`; claims of ephemeral volumes do not count."""
    return new.full_name in pod.claims


def is_claim_of_pod(pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> bool:
    """Return whether a volume of the pod uses the claim `new`, by name or as a generic ephemeral volume."""
    if new.metadata.namespace != pod.namespace:
        return False
    return any(find_claim_name(pod.pod, volume) == new.metadata.name for volume in pod.pod.spec.volumes or ())
