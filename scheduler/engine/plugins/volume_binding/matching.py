"""VolumeIndex that exist already, for claims that wait: on which nodes each claim finds one.

Source: k8s.io/component-helpers/storage/volume/pv_helpers.go v1.36 (FindMatchingVolume). Upstream's choice among
volumes of one size is that of a Go map; ours is by name.
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
    """The cluster's volumes by class, with and without a claim."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._index: Index[tuple[str, str], PersistentVolume] = Index(objects, PersistentVolume, _class_and_claim)

    def update(self) -> None:
        """Update the index from the changed objects."""
        self._index.catch_up()

    def find_reserved(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """Return the volumes that are bound to or reserved for the claim and suit it, by name."""
        reserved = self._index.get((claim.storage_class, claim.full_name))
        return sorted((v for v in reserved if _is_for(v, claim) and _suits(v, claim)), key=lambda v: v.metadata.name)

    def find_available(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """Return the unclaimed volumes that suit the claim, the smallest first, then by name."""
        try:
            selectors.validate_selector(claim.spec.selector)
        except InvalidSelectorError as e:
            raise InvalidSelectorError(f"{claim.full_name}: {e}") from e
        free = [
            v for v in self._index.get((claim.storage_class, "")) if _suits(v, claim) and _is_available_for(v, claim)
        ]
        return sorted(free, key=lambda v: (parse_size(v.spec.capacity), v.metadata.name))


class VolumeMatch:
    """The volume of one claim on each node: an index into `volumes` by slot, or -1."""

    def __init__(self, claim: PersistentVolumeClaim, slots: int) -> None:
        self.claim = claim
        self.volumes: list[PersistentVolume] = []
        self.volume_numbers: NDArray[np.int32] = np.full(slots, -1, np.int32)

    @property
    def found(self) -> Mask:
        """The slots with a volume."""
        found: Mask = self.volume_numbers >= 0
        return found

    def volume_at(self, slot: int) -> PersistentVolume | None:
        """Return the volume for one node, or None."""
        return None if self.volume_numbers[slot] < 0 else self.volumes[int(self.volume_numbers[slot])]

    def assign(self, volume: PersistentVolume, slots: Slots) -> None:
        """Assign a volume to these slots."""
        self.volume_numbers[slots] = len(self.volumes)
        self.volumes.append(volume)


def match_volumes(
    claims: Iterable[PersistentVolumeClaim], volumes: VolumeIndex, matcher: SelectorMatcher, where: Mask
) -> list[VolumeMatch]:
    """Return, for each claim in order, its existing volume on each node of the mask.

    A volume that one claim gets on a node is not available to the next. Raises InvalidSelectorError for a malformed
    selector.
    """
    taken: dict[str, Slots] = {}
    return [_match_claim(claim, volumes, matcher, where, taken) for claim in claims]


def parse_size(amounts: Amounts | None) -> int:
    """Return the storage of a claim's requests or a volume's capacity in units of 10^-9 bytes, or 0."""
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
        remaining &= matcher.to_mask(taken_slots)  # where it cannot be reached, nothing else will do
    for volume in volumes.find_available(claim):
        if not remaining.any():
            break
        take(volume)
    return match


def _class_and_claim(volume: PersistentVolume) -> tuple[str, str]:
    claim = volume.spec.claim_ref
    return volume.storage_class, "" if claim is None else f"{claim.namespace}/{claim.name}"


def _is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether the volume refers to this claim, and not to an earlier one of the same name."""
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
