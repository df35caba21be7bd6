"""Scores of nodes by the capacity of the storage that the pod's delayed claims would use there.

Source: pkg/scheduler/framework/plugins/volumebinding v1.36 (scorer.go, and Score in volume_binding.go), which v1.37
enables by default; the design is KEP-4049.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.formulas.allocation import MAX_SCORE, Amounts, broken_linear, utilization
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.objects import quantity
from scheduler.engine.objects.storage import STORAGE, PersistentVolumeClaim
from scheduler.engine.objects.types import Amounts as Quantities
from scheduler.engine.plugins.volume_binding.matching import VolumeMatch

UNKNOWN_CAPACITY = -1


@dataclass(frozen=True)
class StorageOffer:
    """The nodes on which a claim could get a provisioned volume, and the capacity that its driver reports there.

    `capacities` has the bytes of one CSIStorageCapacity for each node slot, or UNKNOWN_CAPACITY where the driver
    reports none.
    """

    claim: PersistentVolumeClaim
    where: Mask
    capacities: Amounts


def score_storage(
    matches: Sequence[VolumeMatch], provisions: Sequence[StorageOffer], shape: Sequence[tuple[int, int]], slots: int
) -> Scores:
    """Return the score of each node slot: the mean, over storage classes, of the score of the storage's utilization.

    Where a claim gets an existing volume, only existing volumes count; elsewhere, the capacities from which volumes are
    provisioned. A node without either scores 0. `shape` maps percentages to scores from 0 to 100.
    """
    has_volume = np.zeros(slots, np.bool_)
    for match in matches:
        has_volume |= match.found
    totals, classes = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
    for use in (*_existing(matches, slots), *_provisioned(provisions, ~has_volume, slots)):
        percent = np.where(use.capacity == 0, MAX_SCORE, utilization(use.capacity, use.requested))
        totals += np.where(use.counts, broken_linear(shape, percent), 0)
        classes += use.counts
    mean: NDArray[np.float64] = np.floor(totals / np.maximum(classes, 1) + 0.5)
    return mean.astype(np.int64)


class _ClassUse:
    """What the pod requests of a storage class on each node slot, and the capacity there; `counts` masks the nodes."""

    def __init__(self, slots: int) -> None:
        self.requested, self.capacity = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
        self.counts = np.zeros(slots, np.bool_)


def _existing(matches: Sequence[VolumeMatch], slots: int) -> Iterator[_ClassUse]:
    """Yield, by storage class, the requests of claims that get existing volumes, and the sizes of these volumes."""
    uses: dict[str, _ClassUse] = {}
    for match in matches:
        for number, volume in enumerate(match.volumes):
            mask = match.volume_numbers == number
            use = uses.setdefault(volume.spec.storage_class_name, _ClassUse(slots))
            use.requested[mask] += _parse_bytes(match.claim.spec.resources.requests)
            use.capacity[mask] += _parse_bytes(volume.spec.capacity)
            use.counts |= mask
    yield from uses.values()


def _provisioned(provisions: Sequence[StorageOffer], where: Mask, slots: int) -> Iterator[_ClassUse]:
    """Yield, by storage class, the requests of claims to provision, and the reported capacity, where one is reported.

    `where` masks the nodes that count.
    """
    uses: dict[str, _ClassUse] = {}
    for provision in provisions:
        measured = where & provision.where & (provision.capacities != UNKNOWN_CAPACITY)
        use = uses.setdefault(provision.claim.storage_class, _ClassUse(slots))
        use.requested[measured] += _parse_bytes(provision.claim.spec.resources.requests)
        use.capacity[measured] = provision.capacities[measured]
        use.counts |= measured
    yield from uses.values()


def _parse_bytes(amounts: Quantities | None) -> int:
    return quantity.scaled_value((amounts or {}).get(STORAGE, 0), quantity.WHOLE)
