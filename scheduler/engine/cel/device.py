"""A device as selectors see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scheduler.engine.cel.errors import CelRuntimeError
from scheduler.engine.cel.library.kubernetes import Version, parse_quantity, parse_version
from scheduler.engine.cel.values import DefaultMap, Value, replace_surrogates
from scheduler.engine.objects.quantity import Quantity

Reference = tuple[str, ...]
_MISSING: Final = object()


class CelDevice:
    """The values of one device that an expression may read. It does not change.

    Attributes and capacities are grouped by domain; a name without a domain belongs to the domain of the driver. A
    value that cannot be read, such as a malformed version, makes every evaluation for the device fail.
    """

    __slots__ = ("allow_multiple_allocations", "attributes", "capacity", "driver", "problem")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, Mapping[str, Any]],
        capacity: Mapping[str, Mapping[str, Any]],
        allow_multiple_allocations: bool = False,
    ) -> None:
        """Convert a device of a ResourceSlice; `attributes` and `capacity` are the device's fields as JSON, by name.

        A value that cannot be converted is reported by later evaluations (`problem`).
        """
        self.driver = driver = replace_surrogates(driver)
        self.allow_multiple_allocations = allow_multiple_allocations
        self.problem: str | None = None
        self.attributes = DefaultMap()
        self.capacity = DefaultMap()
        for name, attribute in attributes.items():
            domain, identifier = _split(name, driver)
            try:
                self.attributes.setdefault(domain, {})[identifier] = _attribute(attribute)
            except CelRuntimeError as error:
                self.problem = self.problem or f"attribute {name}: {error}"
        for name, amount in capacity.items():
            domain, identifier = _split(name, driver)
            self.capacity.setdefault(domain, {})[identifier] = _amount(amount)

    def as_map(self) -> dict[str, Value]:
        """Return the device as the value of the variable `device`."""
        return {
            "driver": self.driver,
            "allowMultipleAllocations": self.allow_multiple_allocations,
            "attributes": self.attributes,
            "capacity": self.capacity,
        }

    def key(self, reference: Reference) -> Any:
        """Return a hashable key of the part of the device to which the reference leads; equal parts have equal keys.

        A reference is a field of the device, then a domain, then a name; a shorter one leads to everything below it.
        """
        field = reference[0] if reference else ""
        if field == "driver":
            return self.driver
        if field == "allowMultipleAllocations":
            return self.allow_multiple_allocations
        if not field:
            return (self.driver, self.allow_multiple_allocations, _all(self.attributes), _all(self.capacity))
        table = self.attributes if field == "attributes" else self.capacity
        if len(reference) == 1:
            return _all(table)
        entries = table.get(reference[1])
        if len(reference) == 2:
            return None if entries is None else _entries(entries)
        return _hashable(_MISSING if entries is None else entries.get(reference[2], _MISSING))


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = replace_surrogates(name).partition("/")
    return (domain, identifier) if slash else (driver, name)


def _attribute(attribute: Mapping[str, Any]) -> Value:
    for kind in ("int", "bool", "string"):
        value = attribute.get(kind)
        if value is not None:
            return replace_surrogates(value) if kind == "string" else value
    version = attribute.get("version")
    if version is None:
        raise CelRuntimeError("unsupported attribute value")
    try:
        return parse_version(version)
    except CelRuntimeError as error:
        raise CelRuntimeError(f"parse semantic version: {error}") from None


def _amount(amount: Mapping[str, Any]) -> Quantity:
    return parse_quantity(str(amount["value"]))


def _hashable(value: Value) -> Any:
    """Return a key of the value that differs for values of different types, and for versions with different text.

    In Python, True equals 1, and two versions of equal precedence are equal.
    """
    return (type(value), value.text if isinstance(value, Version) else value)


def _entries(entries: dict[str, Value]) -> frozenset[Any]:
    return frozenset((name, _hashable(value)) for name, value in entries.items())


def _all(table: dict[str, dict[str, Value]]) -> frozenset[Any]:
    return frozenset((domain, _entries(entries)) for domain, entries in table.items())
