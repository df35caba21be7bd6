"""Persistent volumes that exist already, for claims that wait: which volume each claim finds on which nodes.

Source: k8s.io/component-helpers/storage/volume/pv_helpers.go v1.36 (FindMatchingVolume). Among volumes of one size,
upstream chooses by the order of a Go map; this module chooses by name.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.framework.interface import Mask
from scheduler.engine.objects import quantity, selectors
from scheduler.engine.objects.cluster import ClusterObjects, Index
from scheduler.engine.objects.selectors import InvalidSelectorError
from scheduler.engine.objects.storage import STORAGE, PersistentVolume, PersistentVolumeClaim
from scheduler.engine.objects.types import Amounts, NodeSelector
from scheduler.engine.plugins.volume_binding.selector_matcher import SelectorMatcher, Slots

FILESYSTEM = "Filesystem"


class VolumeIndex:
    """An index of the cluster's persistent volumes by storage class and by the claim that they refer to."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._index: Index[tuple[str, str], PersistentVolume] = Index(objects, PersistentVolume, _class_and_claim)

    def update(self) -> None:
        """Bring the index up to date with the cluster's objects."""
        self._index.catch_up()

    def find_reserved(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """Return the suitable volumes that are bound to or reserved for the claim, sorted by name."""
        reserved = self._index.get((claim.storage_class, claim.full_name))
        return sorted((v for v in reserved if _is_for(v, claim) and _suits(v, claim)), key=lambda v: v.metadata.name)

    def find_available(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """Return the unclaimed volumes that suit the claim, sorted by size and then by name.

        Raise InvalidSelectorError if the claim's selector is malformed.
        """
        try:
            selectors.validate_selector(claim.spec.selector)
        except InvalidSelectorError as e:
            raise InvalidSelectorError(f"{claim.full_name}: {e}") from e
        free = [
            v for v in self._index.get((claim.storage_class, "")) if _suits(v, claim) and _is_available_for(v, claim)
        ]
        return sorted(free, key=lambda v: (parse_size(v.spec.capacity), v.metadata.name))


class VolumeMatch:
    """The existing volume that one claim gets on each node.

    `volume_numbers` has an index into `volumes` for each node slot, or -1 for no volume.
    """

    def __init__(self, claim: PersistentVolumeClaim, slots: int) -> None:
        self.claim = claim
        self.volumes: list[PersistentVolume] = []
        self.volume_numbers: NDArray[np.int32] = np.full(slots, -1, np.int32)

    @property
    def found(self) -> Mask:
        """A mask of the node slots where the claim gets a volume."""
        has_volume: Mask = self.volume_numbers >= 0
        return has_volume

    def volume_at(self, slot: int) -> PersistentVolume | None:
        """Return the volume that the claim gets on the node in a slot, or None if it gets none there."""
        return None if self.volume_numbers[slot] < 0 else self.volumes[int(self.volume_numbers[slot])]

    def assign(self, volume: PersistentVolume, slots: Slots) -> None:
        """Record that the claim gets this volume on the nodes in these slots."""
        self.volume_numbers[slots] = len(self.volumes)
        self.volumes.append(volume)


def match_volumes(
    claims: Iterable[PersistentVolumeClaim], volumes: VolumeIndex, matcher: SelectorMatcher, where: Mask
) -> list[VolumeMatch]:
    """Return, for each claim in order, the existing volume that it gets on each node in the mask `where`.

    A volume that one claim gets on a node is not available to the next. Raise InvalidSelectorError for a malformed
    selector.
    """
    taken: dict[str, Slots] = {}
    return [_match_claim(claim, volumes, matcher, where, taken) for claim in claims]


def parse_size(amounts: Amounts | None) -> int:
    """Return the storage in a claim's requests or a volume's capacity in units of 10^-9 bytes, 0 if absent."""
    return quantity.parse((amounts or {}).get(STORAGE, 0))


def _match_claim(
    claim: PersistentVolumeClaim, volumes: VolumeIndex, matcher: SelectorMatcher, where: Mask, taken: dict[str, Slots]
) -> VolumeMatch:
    remaining, match = where.copy(), VolumeMatch(claim, len(where))

    def take(volume: PersistentVolume) -> None:
        slots = matcher.match_affinity(_required(volume))
        slots = slots[remaining[slots]]
        if volume.metadata.name in taken:
            slots = np.setdiff1d(slots, taken[volume.metadata.name], assume_unique=True)
        if len(slots):
            match.assign(volume, slots)
            remaining[slots] = False
            taken[volume.metadata.name] = np.concatenate([taken.get(volume.metadata.name, slots[:0]), slots])

    for volume in volumes.find_reserved(claim):
        taken_slots = taken.get(volume.metadata.name, np.zeros(0, np.intp))
        take(volume)
        remaining &= matcher.to_mask(taken_slots)  # try others only where an earlier claim took this one
    for volume in volumes.find_available(claim):
        if not remaining.any():
            break
        take(volume)
    return match


def _class_and_claim(volume: PersistentVolume) -> tuple[str, str]:
    claim = volume.spec.claim_ref
    return volume.storage_class, "" if claim is None else f"{claim.namespace}/{claim.name}"


def _is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether the volume's claim reference has the claim's UID or none.

    A reference with another UID means an earlier claim of the same name.
    """
    uid = volume.spec.claim_ref.uid if volume.spec.claim_ref else ""
    return not uid or uid == claim.metadata.uid


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (
        parse_size(volume.spec.capacity) >= parse_size(claim.spec.resources.requests)
        and (volume.spec.volume_mode or FILESYSTEM) == (claim.spec.volume_mode or FILESYSTEM)
        and (volume.spec.volume_attributes_class_name or "") == (claim.spec.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def _is_available_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (
        volume.status.phase == "Available"
        and (
            claim.spec.selector is None
            or selectors.label_selector_matches(claim.spec.selector, volume.metadata.labels or {})
        )
        and set(claim.spec.access_modes or ()) <= set(volume.spec.access_modes or ())
    )


def _required(volume: PersistentVolume) -> NodeSelector | None:
    return volume.spec.node_affinity.required if volume.spec.node_affinity else None
