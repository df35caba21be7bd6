"""Allocations that a scheduler counts before the API server shows them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.resource_api import AllocationResult, ResourceClaim
from scheduler.engine.plugins.dynamic_resources.devices import ClusterDevices, PendingAllocation
from tests.scheduler.engine.dra.builders import DRIVER, allocated, claim, exactly

DEVICE = (DRIVER, "a", "gpu-0")
CHOSEN = msgspec.convert(allocated("c", "a", "gpu-0")["status"]["allocation"], AllocationResult)


def build(content: dict[str, Any], uid: str, version: int) -> ResourceClaim:
    content["metadata"] |= {"uid": uid, "resourceVersion": str(version)}
    return msgspec.convert(content, ResourceClaim)


def free(version: int, uid: str = "1") -> ResourceClaim:
    return build(claim("c", exactly("r")), uid, version)


def taken(version: int) -> ResourceClaim:
    return build(allocated("c", "a", "gpu-0"), "1", version)


@pytest.fixture
def objects() -> ClusterObjects:
    return ClusterObjects()


@pytest.fixture
def devices(objects: ClusterObjects) -> ClusterDevices:
    return ClusterDevices(objects)


def is_counted(devices: ClusterDevices) -> bool:
    devices.update()
    users = devices.allocated.whole.get(DEVICE, [])
    assert len(users) <= 1, "counted twice"
    return bool(users)


@pytest.fixture
def pending(objects: ClusterObjects, devices: ClusterDevices) -> PendingAllocation:
    """Return the allocation of a claim whose version 5 the API server has shown."""
    objects.set(free(5))
    return devices.add_pending(free(5), CHOSEN)


def test_a_pending_allocation_counts_until_it_is_removed(devices: ClusterDevices, pending: PendingAllocation) -> None:
    assert is_counted(devices)
    assert devices.find_pending(free(5)) is not None
    devices.remove_pending(pending)
    assert not is_counted(devices)
    devices.remove_pending(pending)
    assert devices.find_pending(free(5)) is None


def test_a_shown_allocation_counts_once(
    objects: ClusterObjects, devices: ClusterDevices, pending: PendingAllocation
) -> None:
    objects.set(taken(7))
    assert is_counted(devices)
    assert devices.find_pending(free(5)) is None
    objects.set(free(8))
    assert not is_counted(devices)


def test_an_allocation_that_was_removed_before_the_next_attempt_is_free(
    objects: ClusterObjects, devices: ClusterDevices, pending: PendingAllocation
) -> None:
    pending.written = taken(7)
    objects.set(free(6))  # the finalizer
    assert is_counted(devices), "the API server has not shown the allocation yet"
    objects.set(taken(7))
    objects.set(free(8))
    assert not is_counted(devices)


def test_an_allocation_written_after_the_last_change_was_seen_is_free(
    objects: ClusterObjects, devices: ClusterDevices, pending: PendingAllocation
) -> None:
    objects.set(free(8))
    assert is_counted(devices), "the response to the write is not known"
    pending.written = taken(7)
    assert not is_counted(devices)


def test_the_allocation_of_a_deleted_claim_is_free(
    objects: ClusterObjects, devices: ClusterDevices, pending: PendingAllocation
) -> None:
    objects.remove(taken(7))
    assert not is_counted(devices)


def test_the_allocation_of_a_replaced_claim_is_free(
    objects: ClusterObjects, devices: ClusterDevices, pending: PendingAllocation
) -> None:
    objects.remove(taken(7))
    objects.set(free(9, uid="2"))
    assert not is_counted(devices)


def test_a_claim_that_is_created_for_a_pod_counts_until_it_is_shown_or_deleted(
    objects: ClusterObjects, devices: ClusterDevices
) -> None:
    pending = devices.add_pending(build(claim("<extended-resources>", exactly("r")), "", 0), CHOSEN)
    objects.set(free(4, uid="another"))
    assert is_counted(devices)
    pending.claim = build(claim("made", exactly("r")), "3", 6)
    assert is_counted(devices), "created, not shown yet"
    pending.written = build(allocated("made", "a", "gpu-0"), "3", 7)
    assert is_counted(devices)
    objects.set(pending.written)
    objects.remove(pending.written)
    assert not is_counted(devices)


def test_pending_allocations_count_after_a_new_list(
    objects: ClusterObjects, devices: ClusterDevices, pending: PendingAllocation
) -> None:
    objects.replace_all(ResourceClaim, [free(5)])
    assert is_counted(devices)
    pending.written = taken(7)
    objects.replace_all(ResourceClaim, [])
    assert not is_counted(devices)
