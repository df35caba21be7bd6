"""The devices that claims use: whole devices, and the capacity that claims consume of shared devices.

Source: pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go and
k8s.io/dynamic-resource-allocation/structured/schedulerapi v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduler.engine.dra.pools import DeviceId
from scheduler.engine.objects import quantity
from scheduler.engine.objects.resource_api import AllocationResult, DeviceResult

ConsumedCapacity = dict[str, int]  # capacity -> amount in 10^-9 units


class AllocatedDevices:
    """The devices that allocated claims use.

    `whole` maps each device that is allocated as a whole to the claims (NAMESPACE/NAME) that use it; `shared` maps each
    shared device to its claims, `consumed` to what they consume of its capacities. Admin access uses nothing.
    """

    def __init__(self) -> None:
        self.whole: dict[DeviceId, list[str]] = {}
        self.shared: dict[DeviceId, list[str]] = {}
        self.consumed: dict[DeviceId, ConsumedCapacity] = {}

    def add(self, claim: str, allocation: AllocationResult | None) -> None:
        """Record that the claim (NAMESPACE/NAME) uses the devices of its allocation; do nothing if that is None."""
        for result in _results(allocation):
            device = (result.driver, result.pool, result.device)
            if result.share_id is None:
                self.whole.setdefault(device, []).append(claim)
                continue
            self.shared.setdefault(device, []).append(claim)
            if result.consumed_capacity is not None:
                add_capacity(self.consumed, device, _amounts(result.consumed_capacity))

    def remove(self, claim: str, allocation: AllocationResult | None) -> None:
        """Undo `add` for the same claim and allocation."""
        for result in _results(allocation):
            device = (result.driver, result.pool, result.device)
            users = self.whole if result.share_id is None else self.shared
            users[device].remove(claim)
            if not users[device]:
                del users[device]
            if result.share_id is not None and result.consumed_capacity is not None:
                remove_capacity(self.consumed, device, _amounts(result.consumed_capacity))

    def is_allocated(self, device: DeviceId) -> bool:
        """Return whether a claim uses the device, as a whole or shared."""
        return device in self.whole or device in self.shared or device in self.consumed


def add_capacity(consumed: dict[DeviceId, ConsumedCapacity], device: DeviceId, amounts: Mapping[str, int]) -> None:
    """Add `amounts`, by capacity in 10^-9 units, to those that are consumed of the device, in place."""
    totals = consumed.setdefault(device, {})
    for name, amount in amounts.items():
        totals[name] = totals.get(name, 0) + amount


def remove_capacity(consumed: dict[DeviceId, ConsumedCapacity], device: DeviceId, amounts: Mapping[str, int]) -> None:
    """Subtract `amounts` from those that are consumed of the device, in place; drop the device if all are then 0."""
    totals = consumed.get(device)
    if totals is None:
        return
    for name, amount in amounts.items():
        if name in totals:
            totals[name] -= amount
    if not any(totals.values()):
        del consumed[device]


def _results(allocation: AllocationResult | None) -> Iterable[DeviceResult]:
    return () if allocation is None else (r for r in allocation.devices.results or () if not r.admin_access)


def _amounts(capacity: Mapping[str, str | int | float]) -> ConsumedCapacity:
    return {name: quantity.parse(amount) for name, amount in capacity.items()}
