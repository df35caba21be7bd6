"""What a request consumes of the capacities of a device that several claims may share.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go v1.36,
with fractions as of v1.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from scheduler.engine.objects import quantity
from scheduler.engine.objects.resource_api import (
    CapacityRange,
    CapacityRequirements,
    Device,
    DeviceCapacity,
)

Text = str | int | float  # a quantity as written
_ONE, _MILLI = 10**9, 10**6  # units in which ranges count, as multiples of 10^-9


def fits(requested: CapacityRequirements | None, device: Device, used: Mapping[str, int], *, fractions: bool) -> bool:
    """Return whether a request, None for none, fits into what is left of each of the device's capacities.

    False if an amount violates the capacity's policy, or if the device lacks a requested capacity. `used` is what other
    claims and earlier requests consume, in 10^-9 units. With `fractions`, policies may have fractions of units;
    otherwise amounts are rounded up to whole units.
    """
    return find_shortfall(requested, device, used, fractions=fractions) is None


class Shortfall(NamedTuple):
    """A capacity of a device that a request does not fit into, with the amount that it would consume.

    `left` is in 10^-9 units, or None if the capacity's policy does not allow the amount. A device without the capacity
    has no `total`.
    """

    name: str
    asked: Text = ""
    total: Text | None = None
    left: int | None = None

    def describe(self) -> str:
        """Return the shortfall in words."""
        if self.total is None:
            return f"has no capacity {self.name}"
        if self.left is None:
            return f"its policy does not allow {self.asked} {self.name}"
        return f"{format_binary(self.left // _ONE)} of {self.total} {self.name} left, {self.asked} wanted"


def find_shortfall(
    requested: CapacityRequirements | None, device: Device, used: Mapping[str, int], *, fractions: bool
) -> Shortfall | None:
    """Return the first capacity that a request does not fit into, or None. The arguments are those of `fits`."""
    wanted = (requested.requests if requested is not None else None) or {}
    capacities = device.capacity or {}
    if not wanted.keys() <= capacities.keys():
        return Shortfall(min(wanted.keys() - capacities.keys()))
    for name, capacity in capacities.items():
        asked = _consume(wanted.get(name), capacity, fractions)
        amount, left = quantity.parse(asked), quantity.parse(capacity.value) - used.get(name, 0)
        if _violates_policy(amount, capacity, fractions):
            return Shortfall(name, asked, capacity.value)
        if amount > left:
            return Shortfall(name, asked, capacity.value, left)
    return None


def consume(requested: CapacityRequirements | None, device: Device, *, fractions: bool) -> dict[str, Text]:
    """Return the amount that a request consumes of each capacity of a shared device, as text for an allocation."""
    wanted = (requested.requests if requested is not None else None) or {}
    return {name: _consume(wanted.get(name), capacity, fractions) for name, capacity in (device.capacity or {}).items()}


def _consume(wanted: Text | None, capacity: DeviceCapacity, fractions: bool) -> Text:
    policy = capacity.request_policy
    if wanted is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return wanted
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _round_up_to_range(wanted, policy.valid_range, fractions)
    at_least = quantity.parse(wanted)
    return next((value for value in policy.valid_values or () if at_least <= quantity.parse(value)), wanted)


def _round_up_to_range(wanted: Text, valid: CapacityRange, fractions: bool) -> Text:
    assert valid.min is not None
    if quantity.parse(wanted) < quantity.parse(valid.min):
        return valid.min
    if valid.step is None:
        return wanted
    unit = _find_unit(valid, fractions)
    least, step = _count(valid.min, unit), _count(valid.step, unit)
    if unit == _MILLI and quantity.parse(wanted) % _MILLI:
        return wanted  # finer than the range, which its policy refuses
    rounded = min(least + step * -(-(_count(wanted, unit) - least) // step), quantity.INT64_MAX)
    return format_binary(rounded) if unit == _ONE else _format_milli(rounded)


def _find_unit(valid: CapacityRange, fractions: bool) -> int:
    """Return the unit in which to compute with a range: 10^6 for a thousandth, or 10^9 for one.

    It is a thousandth if `fractions` is set and all amounts of the range are whole thousandths.
    """
    amounts = [quantity.parse(each) for each in (valid.min, valid.max, valid.step) if each is not None]
    is_milli = fractions and all(a % _MILLI == 0 and quantity.fits_int64(a // _MILLI) for a in amounts)
    return _MILLI if is_milli and quantity.parse(valid.step or 1) > 0 else _ONE


def _violates_policy(amount: int, capacity: DeviceCapacity, fractions: bool) -> bool:
    policy = capacity.request_policy
    if policy is None or (policy.default is not None and amount == quantity.parse(policy.default)):
        return False
    valid = policy.valid_range
    if valid is not None:
        if valid.max is not None and amount > quantity.parse(valid.max):
            return True
        if valid.step is None:
            return False
        unit = _find_unit(valid, fractions)
        if unit == _MILLI and amount % _MILLI:
            return True
        least = 0 if valid.min is None else _count(valid.min, unit)
        return (-(-amount // unit) - least) % _count(valid.step, unit) != 0
    return bool(policy.valid_values) and all(amount != quantity.parse(value) for value in policy.valid_values or ())


def format_binary(amount: int) -> str:
    """Return whole units as Go writes a quantity with binary suffixes: `3Gi`, `1500`."""
    suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
    power = 0
    while amount and amount % 1024 == 0 and power < len(suffixes) - 1:
        amount //= 1024
        power += 1
    return f"{amount}{suffixes[power]}"


def _format_milli(thousandths: int) -> str:
    """Return thousandths as Go writes a quantity: `1500m`, or whole units without fractions."""
    return f"{thousandths}m" if thousandths % 1000 else format_binary(thousandths // 1000)


def _count(text: Text, unit: int) -> int:
    """Return the amount as a number of units, rounded up; `unit` is the unit in 10^-9."""
    return -(-quantity.parse(text) // unit)
