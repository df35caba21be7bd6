"""Constraints of a claim over the attributes of its devices.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating v1.36 (matchAttributeConstraint and
constraint.go).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from scheduler.engine.dra.pools import SlicedDevice
from scheduler.engine.objects.resource_api import DeviceAttribute, DeviceConstraint


class AttributeConstraint(ABC):
    """A constraint while devices are added to the claim and removed again.

    `request` is the name of a request, `subrequest` that of the chosen subrequest or "".
    """

    def __init__(self, constraint: DeviceConstraint, attribute: str) -> None:
        self._requests = frozenset(constraint.requests or ())
        self.attribute = attribute

    def add(self, request: str, subrequest: str, device: SlicedDevice) -> bool:
        """Add the device if the constraint permits it with the devices added before; return whether it does.

        A constraint that does not apply to the request permits every device and adds nothing.
        """
        if not self._applies_to(request, subrequest):
            return True
        attribute = find_attribute(device, self.attribute)
        return attribute is not None and self._add(request, attribute)

    def remove(self, request: str, subrequest: str) -> None:
        """Undo a successful `add` for a device of the same request."""
        if self._applies_to(request, subrequest):
            self._remove(request)

    def _applies_to(self, request: str, subrequest: str) -> bool:
        if not self._requests or request in self._requests:
            return True
        return bool(subrequest) and f"{request}/{subrequest}" in self._requests

    @abstractmethod
    def _add(self, request: str, attribute: DeviceAttribute) -> bool: ...

    @abstractmethod
    def _remove(self, request: str) -> None: ...


class MatchAttribute(AttributeConstraint):
    """All devices have the same value of the attribute."""

    _common: DeviceAttribute | None = None
    _devices = 0

    def _add(self, request: str, attribute: DeviceAttribute) -> bool:
        if self._devices == 0:
            self._common = attribute
        elif attribute != self._common or attribute == _NO_VALUE:
            return False
        self._devices += 1
        return True

    def _remove(self, request: str) -> None:
        self._devices -= 1


class DistinctAttribute(AttributeConstraint):
    """The devices of different requests have different values of the attribute.

    As upstream, only the latest device of each request is remembered.
    """

    def __init__(self, constraint: DeviceConstraint, attribute: str) -> None:
        super().__init__(constraint, attribute)
        self._values: dict[str, DeviceAttribute] = {}
        self._devices = 0

    def _add(self, request: str, attribute: DeviceAttribute) -> bool:
        if self._devices and ((attribute == _NO_VALUE and self._values) or attribute in self._values.values()):
            return False
        self._values[request] = attribute
        self._devices += 1
        return True

    def _remove(self, request: str) -> None:
        self._values.pop(request, None)
        self._devices -= 1


_NO_VALUE = DeviceAttribute()


def build_constraint(constraint: DeviceConstraint) -> AttributeConstraint | None:
    """Return an object that checks the constraint while devices are added, or None for an unknown kind."""
    if constraint.match_attribute is not None:
        return MatchAttribute(constraint, constraint.match_attribute)
    if constraint.distinct_attribute is not None:
        return DistinctAttribute(constraint, constraint.distinct_attribute)
    return None


def find_attribute(device: SlicedDevice, name: str) -> DeviceAttribute | None:
    """Return a device's attribute by its fully qualified name DOMAIN/NAME, or None.

    In the device, the domain may be missing for attributes in the driver's own domain.
    """
    attributes = device.device.attributes or {}
    attribute = attributes.get(name)
    if attribute is not None:
        return attribute
    domain, slash, rest = name.partition("/")
    return attributes.get(rest) if slash and domain == device.id[0] else None
