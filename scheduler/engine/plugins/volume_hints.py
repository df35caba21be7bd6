"""Queueing hints that plugins about volumes share: is a claim that appeared or changed one of the pod's?"""

from __future__ import annotations

from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.storage import PersistentVolumeClaim, find_claim_name


def is_named_claim(pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> bool:
    """A volume of the pod names the claim."""
    return new.full_name in pod.claims


def is_claim_of_pod(pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> bool:
    """A volume of the pod names the claim, or the claim is made for an ephemeral one."""
    if new.metadata.namespace != pod.namespace:
        return False
    return any(find_claim_name(pod.pod, volume) == new.metadata.name for volume in pod.pod.spec.volumes or ())
