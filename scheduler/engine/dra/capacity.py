"""What a request consumes of the capacities of a device that several claims may share.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go v1.36.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.engine.objects import quantity
from scheduler.engine.objects.resource_api import (
    CapacityRange,
    CapacityRequirements,
    Device,
    DeviceCapacity,
)

Text = str | int | float  # a quantity as written


def fits(
    requested: CapacityRequirements | None,
    device: Device,
    allocated: Mapping[str, int],
    allocating: Mapping[str, int],
) -> bool:
    """Return whether a request fits into what is left of the device's capacities, within their policies.

    `allocated` and `allocating` are what other claims and earlier requests consume, in 10^-9 units.
    """
    wanted = (requested.requests if requested is not None else None) or {}
    capacities = device.capacity or {}
    if not wanted.keys() <= capacities.keys():
        return False
    for name, capacity in capacities.items():
        amount = quantity.parse(_consume(wanted.get(name), capacity))
        if _violates_policy(amount, capacity):
            return False
        if allocated.get(name, 0) + allocating.get(name, 0) + amount > quantity.parse(capacity.value):
            return False
    return True


def consume(requested: CapacityRequirements | None, device: Device) -> dict[str, Text]:
    """Return what a request consumes of each capacity of a shared device, as written in an allocation."""
    wanted = (requested.requests if requested is not None else None) or {}
    return {name: _consume(wanted.get(name), capacity) for name, capacity in (device.capacity or {}).items()}


def _consume(wanted: Text | None, capacity: DeviceCapacity) -> Text:
    policy = capacity.request_policy
    if wanted is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return wanted
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _round_up_to_range(wanted, policy.valid_range)
    at_least = quantity.parse(wanted)
    return next((value for value in policy.valid_values or () if at_least <= quantity.parse(value)), wanted)


def _round_up_to_range(wanted: Text, valid: CapacityRange) -> Text:
    assert valid.min is not None
    if quantity.parse(wanted) < quantity.parse(valid.min):
        return valid.min
    if valid.step is None:
        return wanted
    least, step = _whole(valid.min), _whole(valid.step)
    return format_binary(least + step * -(-(_whole(wanted) - least) // step))


def _violates_policy(amount: int, capacity: DeviceCapacity) -> bool:
    policy = capacity.request_policy
    if policy is None or (policy.default is not None and amount == quantity.parse(policy.default)):
        return False
    valid = policy.valid_range
    if valid is not None:
        if valid.max is not None and amount > quantity.parse(valid.max):
            return True
        least = 0 if valid.min is None else _whole(valid.min)
        return valid.step is not None and (quantity.value(amount) - least) % _whole(valid.step) != 0
    return bool(policy.valid_values) and all(amount != quantity.parse(value) for value in policy.valid_values or ())


def format_binary(amount: int) -> str:
    """Return whole units as Go writes a quantity with binary suffixes: `3Gi`, `1500`."""
    suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
    power = 0
    while amount and amount % 1024 == 0 and power < len(suffixes) - 1:
        amount //= 1024
        power += 1
    return f"{amount}{suffixes[power]}"


def _whole(text: Text) -> int:
    return quantity.value(quantity.parse(text))
