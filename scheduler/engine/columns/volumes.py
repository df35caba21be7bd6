"""The claims and inline disks that the pods on each node use.

Each volume that names a claim counts once, except generic ephemeral volumes, as in kube-scheduler's cache
(framework/types.go updatePVCRefCounts).
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.engine.objects.disks import Disk
from scheduler.engine.objects.pod import PodInfo


class VolumeColumns:
    """The persistent volume claims and inline disks that pods use, by node slot."""

    def __init__(self) -> None:
        self._claims: dict[str, dict[int, int]] = {}
        self._disks: dict[tuple[str, str], dict[int, list[Disk]]] = {}

    def add(self, slot: int, pod: PodInfo) -> None:
        """Add a pod's claims and disks to those in use on the node in `slot`."""
        for claim in pod.claims:
            users = self._claims.setdefault(claim, {})
            users[slot] = users.get(slot, 0) + 1
        for disk in pod.disks:
            self._disks.setdefault((disk.kind, disk.name), {}).setdefault(slot, []).append(disk)

    def remove(self, slot: int, pod: PodInfo) -> None:
        """Remove a pod's claims and disks from those in use on the node in `slot`."""
        for claim in pod.claims:
            users = self._claims[claim]
            users[slot] -= 1
            if not users[slot]:
                del users[slot]
            if not users:
                del self._claims[claim]
        for disk in pod.disks:
            mounted = self._disks[disk.kind, disk.name]
            mounted[slot].remove(disk)
            if not mounted[slot]:
                del mounted[slot]
            if not mounted:
                del self._disks[disk.kind, disk.name]

    def in_use(self, claim: str) -> bool:
        """Return whether a pod on any node uses the claim (NAMESPACE/NAME)."""
        return claim in self._claims

    def slots_in_use(self, claim: str) -> Iterable[int]:
        """Return the slots of the nodes where a pod uses the claim (NAMESPACE/NAME)."""
        return self._claims.get(claim, {}).keys()

    def slots_with_conflicting_disk(self, wanted: Disk) -> Iterable[int]:
        """Return the slots of the nodes where a pod mounts a disk that conflicts with `wanted`."""
        mounted = self._disks.get((wanted.kind, wanted.name), {})
        return (slot for slot, disks in mounted.items() if any(disk.conflicts(wanted) for disk in disks))
