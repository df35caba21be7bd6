"""The parts of Dynamic Resource Allocation that feature gates switch, as the allocator takes them.

Source: k8s.io/dynamic-resource-allocation/structured/internal/types.go (Features) v1.36.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class AllocatorFeatures:
    """Which features and rules the allocator has. The defaults are those of v1.36.

    With `explains_selector_errors`, the error of a selector names the device.
    With `unselective_taint_rules`, a DeviceTaintRule without a selector taints every device.
    `tolerates_invalid_pools` means that devices of other pools can be allocated, and `completes_pools` that slices for
    other nodes count as slices of a pool. Without `keeps_alternative`, a request with alternatives goes on with the
    first of them after each device of an alternative that takes all devices; and if the first two take all devices, the
    second one takes those that the first one selects.
    """

    prioritized_list: bool = True
    consumable_capacity: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    device_taint_rules: bool = False
    unselective_taint_rules: bool = False
    fractional_capacity: bool = False
    binding_conditions: bool = True
    tolerates_invalid_pools: bool = True
    completes_pools: bool = True
    keeps_alternative: bool = True
    explains_selector_errors: bool = False

    @property
    def is_stable(self) -> bool:
        """Whether upstream would run its stable allocator, as none of the enabled features needs a newer one.

        It supports neither distinct attributes nor devices that bind to a node, and ignores requests for capacity.
        """
        return not self.consumable_capacity and not self.binding_conditions


DEFAULT_FEATURES: Final = AllocatorFeatures()
