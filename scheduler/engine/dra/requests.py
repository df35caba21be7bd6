"""The requests of the claims that are allocated for one node, validated and with what they may take.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go v1.36
(validateDeviceRequest, isSelectable).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from scheduler.engine.dra import capacity
from scheduler.engine.dra.allocated import AllocatedDevices
from scheduler.engine.dra.features import AllocatorFeatures
from scheduler.engine.dra.pools import DeviceId, Pool, SlicedDevice, is_device_for
from scheduler.engine.objects.resource_api import (
    ALL,
    EXACT_COUNT,
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaim,
)
from scheduler.engine.objects.types import Node

# Return whether an expression selects a device. Raises SelectorError if it cannot be compiled or evaluated.
Matcher = Callable[[str, SlicedDevice], bool]
Classes = Mapping[str, DeviceClass]


class AllocationInputs(Protocol):
    """What the validation of requests and the selection of devices read, which is the same on every node."""

    features: AllocatorFeatures
    allocated: AllocatedDevices
    classes: Classes
    matches: Matcher


RUNTIME_ERROR: Final = "CEL runtime error"
_ABSENT_KEY: Final = "no such key:"
_HINT: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional"
    " fields"
)


class AllocationError(Exception):
    """The error that ends the scheduling attempt, with kube-scheduler's message."""


class SelectorError(Exception):
    """The error of a CEL selector, beginning with `CEL compile error` or `CEL runtime error`."""

    @property
    def is_of_device(self) -> bool:
        """Whether the expression failed for one device only, so that it may succeed for another one."""
        return str(self).startswith(RUNTIME_ERROR)


class AllocatableRequest:
    """A request, or one of the subrequests of `parent`, that devices are allocated for.

    `count` is the number of devices that it needs. With allocation mode All, `every` holds these devices.
    """

    def __init__(self, claim: ResourceClaim, parent: DeviceRequest | None, name: str, spec: ExactDeviceRequest) -> None:
        self.claim = claim
        self.parent = parent.name if parent is not None else ""
        self.name = name
        self.spec = spec
        self.device_class: DeviceClass | None = None
        self.count = 0
        self.every: list[tuple[Pool, SlicedDevice]] = []
        self.admin_access = bool(spec.admin_access)
        self._selectable: dict[DeviceId, bool] = {}

    @property
    def full_name(self) -> str:
        """The name that the allocation's results have for it: REQUEST, or REQUEST/SUBREQUEST."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def base_name(self) -> str:
        """The name of the request or, for a subrequest, of the request that contains it."""
        return self.parent or self.name

    @property
    def subrequest(self) -> str:
        """The name if this is a subrequest, else ""."""
        return self.name if self.parent else ""

    @property
    def takes_all(self) -> bool:
        """Whether the allocation mode is All."""
        return self.spec.allocation_mode == ALL

    def describe(self) -> str:
        """Return the names of claim and request as text for error messages."""
        return f"claim {self.claim.full_name}, request {self.name}"

    def share_selection(self, other: AllocatableRequest) -> None:
        """Use, and extend, the cached results of `selects` of another request instead of evaluating own selectors."""
        self._selectable = other._selectable

    def prepare(self, node: Node, pools: Iterable[Pool], inputs: AllocationInputs) -> None:
        """Look up the device class, and set `count` and, for mode All, `every`.

        Raises AllocationError if the request is invalid, its class does not exist, or a pool for mode All is not
        usable.
        """
        spec = self.spec
        for i, selector in enumerate(spec.selectors or ()):
            if selector.cel is None:
                raise AllocationError(
                    f"{self.describe()}, selector #{i}: CEL expression empty (unsupported selector type?)"
                )
        if not spec.device_class_name:
            raise AllocationError(f"{self.describe()}: missing device class name (unsupported request type?)")
        self.device_class = inputs.classes.get(spec.device_class_name)
        if self.device_class is None:
            missing = f'deviceclass.resource.k8s.io "{spec.device_class_name}" not found'
            raise AllocationError(
                f"{self.describe()}: could not retrieve device class {spec.device_class_name}: {missing}"
            )
        if spec.allocation_mode == EXACT_COUNT:
            self.count = spec.count
        elif spec.allocation_mode == ALL:
            self.every = list(self._find_all(node, pools, inputs))
            self.count = len(self.every)
        else:
            raise AllocationError(f"{self.describe()}: unsupported count mode {spec.allocation_mode}")

    def _find_all(
        self, node: Node, pools: Iterable[Pool], inputs: AllocationInputs
    ) -> Iterator[tuple[Pool, SlicedDevice]]:
        for pool in pools:
            state = "being updated" if pool.is_incomplete else "invalid" if pool.is_invalid else ""
            if state:
                asks = f"{self.describe()}: asks for all devices"
                raise AllocationError(f"{asks}, but resource pool {pool} is currently {state}")
            for device in pool.devices:
                if self.selects(device, node, inputs) and self._has_capacity(device, inputs):
                    yield pool, device

    def _has_capacity(self, device: SlicedDevice, inputs: AllocationInputs) -> bool:
        features = inputs.features
        if not features.consumable_capacity:
            return True
        used = inputs.allocated.consumed.get(device.id, {})
        return capacity.fits(self.spec.capacity, device.device, used, fractions=features.fractional_capacity)

    def selects(self, device: SlicedDevice, node: Node, inputs: AllocationInputs) -> bool:
        """Return whether the class and the request select the device, and the device can be used on the node.

        A device with binding conditions is not selected if that feature is off. Raises AllocationError if a selector
        fails.
        """
        if device.device.binding_conditions and not inputs.features.binding_conditions:
            return False
        selectable = self._selectable.get(device.id)
        if selectable is None:
            selectable = self._selectable[device.id] = self.is_selected(device, inputs) and (
                not device.slice.spec.per_device_node_selection or is_device_for(device.device, node)
            )
        return selectable

    def is_selected(self, device: SlicedDevice, inputs: AllocationInputs) -> bool:
        """Return whether the selectors of the class and of the request are true for the device.

        Raises AllocationError if one fails.
        """
        assert self.device_class is not None
        class_selectors = self.device_class.spec.selectors
        return _all_match(f"class {self.device_class.metadata.name}", class_selectors, device, inputs) and _all_match(
            f"claim {self.claim.full_name}", self.spec.selectors, device, inputs
        )


def list_alternatives(claim: ResourceClaim, request: DeviceRequest) -> list[AllocatableRequest]:
    """Return the subrequests of `firstAvailable` in order or, if there are none, only the request itself."""
    if request.first_available:
        return [AllocatableRequest(claim, request, sub.name, sub) for sub in request.first_available]
    return [AllocatableRequest(claim, None, request.name, request.exactly or ExactDeviceRequest())]


def _all_match(
    owner: str, selectors: Sequence[DeviceSelector] | None, device: SlicedDevice, inputs: AllocationInputs
) -> bool:
    for i, selector in enumerate(selectors or ()):
        expression = selector.cel.expression if selector.cel is not None else ""
        try:
            if not inputs.matches(expression, device):
                return False
        except SelectorError as e:
            if not (e.is_of_device and inputs.features.explains_selector_errors):
                raise AllocationError(f"{owner}: selector #{i}: {e}") from e
            hint = _HINT if _ABSENT_KEY in str(e) else ""
            raise AllocationError(f"{owner}: selector #{i} on device {'/'.join(device.id)}: {e}{hint}") from e
    return True
