"""Binding conditions of allocated devices: whether drivers have made them ready.

Source: pkg/scheduler/framework/plugins/dynamicresources v1.36 (isClaimReadyForBinding, isClaimTimeout).
"""

from __future__ import annotations

from scheduler.engine.objects.resource_api import AllocatedDeviceStatus, DeviceResult, ResourceClaim
from scheduler.engine.objects.times import parse_microseconds
from scheduler.engine.objects.types import Condition


class DeviceBindingError(Exception):
    """The error of a device whose driver reports that binding failed."""


def is_ready(claim: ResourceClaim) -> bool:
    """Return whether all binding conditions of the claim's devices are true; False if the claim is not allocated.

    Raises DeviceBindingError if a failure condition is true.
    """
    allocation = claim.status.allocation
    if allocation is None:
        return False
    for result in allocation.devices.results or ():
        if not result.binding_conditions:
            continue
        status = _find_status(claim, result)
        if status is None:
            return False
        for name in result.binding_failure_conditions or ():
            failed = _find_condition(status, name)
            if failed is not None and failed.status == "True":
                raise DeviceBindingError(
                    f"device binding failed: claim={claim.metadata.name}, reason={failed.reason}, "
                    f'message="{failed.message}"'
                )
        for name in result.binding_conditions:
            condition = _find_condition(status, name)
            if condition is None or condition.status != "True":
                return False
    return True


def is_late(claim: ResourceClaim, timeout_s: float, now_s: float) -> bool:
    """Return whether the claim's devices have been waiting for binding conditions longer than `timeout_s` seconds.

    `now_s` is in seconds since 1970.
    """
    allocation = claim.status.allocation
    if allocation is None or not allocation.allocation_timestamp:
        return False
    waits = any(result.binding_conditions is not None for result in allocation.devices.results or ())
    return waits and parse_microseconds(allocation.allocation_timestamp) / 10**6 + timeout_s < now_s


def _find_status(claim: ResourceClaim, result: DeviceResult) -> AllocatedDeviceStatus | None:
    for status in claim.status.devices or ():
        if (status.driver, status.pool, status.device) == (result.driver, result.pool, result.device):
            return status
    return None


def _find_condition(status: AllocatedDeviceStatus, name: str) -> Condition | None:
    return next((condition for condition in status.conditions or () if condition.type == name), None)
