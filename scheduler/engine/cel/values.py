"""Values at run time, their types, equality and order.

| CEL | Python |
|---|---|
| null, bool, int, double, string, bytes | None, bool, int, float, str, bytes |
| uint | `Uint` |
| list, map | list, dict whose keys are made by `map_key` |
| duration, timestamp, optional, type | `DurationValue`, `TimestampValue`, `OptionalValue`, `TypeValue` |
| kubernetes.Quantity | `scheduler.engine.objects.quantity.Quantity` |
| the other types of Kubernetes | subclasses of `OpaqueValue` in `library` |

No string has surrogates, because UTF-8 has none (`replace_surrogates`). No value is changed after it is made, except
the result of a loop while the loop runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from scheduler.engine.cel.errors import CelRuntimeError, no_such_overload
from scheduler.engine.objects.quantity import Quantity

Value: TypeAlias = Any

INT64_MAX: Final = (1 << 63) - 1
INT64_MIN: Final = -(1 << 63)
UINT64_MAX: Final = (1 << 64) - 1
NANOS_PER_S: Final = 1_000_000_000


class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


def replace_surrogates(text: str) -> str:
    """Return a text as Go decodes it from JSON: surrogate pairs are joined, lone surrogates become U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(frozen=True, slots=True)
class DurationValue:
    """A length of time in nanoseconds, which fits an int64."""

    nanos: int


@dataclass(frozen=True, slots=True)
class TimestampValue:
    """A moment in nanoseconds since 1970, and the offset from UTC with which it is written."""

    nanos: int
    offset_s: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimestampValue) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)


@dataclass(frozen=True, slots=True)
class OptionalValue:
    """A value that may be absent."""

    value: Value = None
    present: bool = False


NOTHING: Final = OptionalValue()


@dataclass(frozen=True, slots=True)
class TypeValue:
    """The type of a value, which an expression may compare."""

    name: str


class DefaultMap(dict[str, Value]):
    """The attributes or capacities of a device by domain. Each domain that it does not have is an empty map."""

    __slots__ = ()


class OpaqueValue:
    """A value of a Kubernetes type: equal only to values of this type, and an error when compared with others."""

    __slots__ = ()
    type_name = ""


_TYPE_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    DefaultMap: "map",
    DurationValue: "google.protobuf.Duration",
    TimestampValue: "google.protobuf.Timestamp",
    OptionalValue: "optional_type",
    TypeValue: "type",
    Quantity: "kubernetes.Quantity",
}
_OF_ONE_KIND: Final = frozenset(
    {bool, int, Uint, float, str, bytes, type(None), DurationValue, TimestampValue, TypeValue}
)
_NUMBERS: Final = frozenset({int, Uint, float})
_MAPS: Final[frozenset[type]] = frozenset((dict, DefaultMap))


def type_name(value: Value) -> str:
    """Return the name of a value's CEL type."""
    return _TYPE_NAMES.get(type(value)) or str(value.type_name)


def is_map(value: Value) -> bool:
    """Return whether a value is a map."""
    return type(value) in _MAPS


def map_key(value: Value) -> Value:
    """Return a key for a Python dict that keeps CEL's `1`, `1.0` and `true` apart, which are equal in Python."""
    kind = type(value)
    if kind is bool or kind is float:
        return (kind, value)
    if kind in (list, dict, OptionalValue):
        return (kind, id(value))
    return value


def from_map_key(key: Value) -> Value:
    """Return the CEL key for a key of a Python dict that `map_key` returned."""
    return key[1] if type(key) is tuple else key


def find(mapping: dict[Value, Value], key: Value) -> tuple[Value, bool]:
    """Return the value of a key and True, or None and False if the map lacks the key.

    Equal numbers of different types are one key. A `DefaultMap` has an empty map for a missing key.
    """
    if type(key) is not str:
        key = map_key(key)
    value = mapping.get(key, _ABSENT)
    if value is not _ABSENT:
        return value, True
    if type(mapping) is DefaultMap:
        return {}, True
    if type(key) is tuple and key[0] is float and key[1].is_integer() and int(key[1]) in mapping:
        return mapping[int(key[1])], True
    return None, False


_ABSENT: Final = object()


def equal(one: Value, two: Value) -> bool:
    """Return whether two values are equal; values of most different types are not.

    Raise CelRuntimeError for a value of a Kubernetes type and one of another type.
    """
    first, second = type(one), type(two)
    if first is second and first in _OF_ONE_KIND:
        return bool(one == two)
    if one is None or two is None:
        return False
    if first in _NUMBERS:
        return second in _NUMBERS and _equal_numbers(one, two)
    if first is Quantity:
        if second is not Quantity:
            raise no_such_overload()
        return not (one > two or two > one)
    if issubclass(first, OpaqueValue):
        if first is not second:
            raise no_such_overload()
        return bool(one == two)
    if first is list:
        return second is list and len(one) == len(two) and all(map(_not_unequal, one, two))
    if first in _MAPS:
        return second in _MAPS and len(one) == len(two) and all(_entry_matches(two, *entry) for entry in one.items())
    if first is OptionalValue:
        if second is not OptionalValue or one.present is not two.present:
            return False
        return not one.present or equal(one.value, two.value)
    return False


def _equal_numbers(one: float, two: float) -> bool:
    if type(one) is float or type(two) is float:
        # cel-go compares an integer with a double after a conversion to double
        return not (math.isnan(one) or math.isnan(two)) and _compare_with_double(one, two) == 0
    return one == two


def _not_unequal(one: Value, two: Value) -> bool:
    """Return whether two elements are equal or, as upstream, cannot be compared."""
    try:
        return equal(one, two)
    except CelRuntimeError:
        return True


def _entry_matches(mapping: dict[Value, Value], key: Value, value: Value) -> bool:
    other, has_key = find(mapping, from_map_key(key))
    return has_key and _not_unequal(value, other)


def is_equal(one: Value, two: Value) -> bool:
    """Return whether `equal` returns True for two values; False if it raises CelRuntimeError."""
    try:
        return equal(one, two)
    except CelRuntimeError:
        return False


def _compare_with_double(one: float, two: float) -> int:
    """Return -1, 0 or 1 for two numbers of which at least one is a double."""
    if type(one) is not float:
        return -_compare_with_double(two, one)
    if type(two) is not float:
        low, high = (0, UINT64_MAX) if type(two) is Uint else (INT64_MIN, INT64_MAX)
        if one < low:
            return -1
        if one > float(high):
            return 1
        two = float(two)
    return (one > two) - (one < two)


def compare(one: Value, two: Value) -> int:
    """Return -1, 0 or 1 for two values that have an order, or raise CelRuntimeError.

    All numbers except NaN can be compared; other values only with their own type.
    """
    first, second = type(one), type(two)
    if first is second and first in (int, str, Uint):
        return _order(one, two)
    if first in _NUMBERS and second in _NUMBERS:
        if (first is float and math.isnan(one)) or (second is float and math.isnan(two)):
            raise CelRuntimeError("NaN values cannot be ordered")
        if first is float or second is float:
            return _compare_with_double(one, two)
        return _order(one, two)
    if first is not second:
        raise no_such_overload()
    if first in (bool, bytes):
        return _order(one, two)
    if first in (DurationValue, TimestampValue):
        return _order(one.nanos, two.nanos)
    raise no_such_overload()


def _order(one: Value, two: Value) -> int:
    return int(one > two) - int(one < two)


COMPARABLE: Final = frozenset({bool, int, Uint, float, str, bytes, DurationValue, TimestampValue})


def iterate(value: Value) -> list[Value]:
    """Return the elements of a list or the keys of a map. Raise CelRuntimeError for other values."""
    if type(value) is list:
        return list(value)
    if type(value) in _MAPS:
        return [from_map_key(key) for key in value]
    raise CelRuntimeError(f"got '{type_name(value)}', expected iterable type")


def display(value: Value) -> str:
    """Return a value as text for error messages."""
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return format_double(value)
    if kind is list:
        return f"[{', '.join(map(display, value))}]"
    if kind is bytes:
        return f"[{' '.join(str(byte) for byte in value)}]"
    if kind is OptionalValue:
        return f"optional({display(value.value)})" if value.present else "optional.none()"
    if kind is TypeValue:
        return str(value.name)
    return "null" if value is None else str(value)


_EXPONENT_FROM: Final = 6  # Go's %g with the shortest precision
_EXPONENT_BELOW: Final = -4


def format_double(number: float) -> str:
    """Return a double in the format of Go's `%g`."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    mantissa, _, exponent_text = f"{number!r}".partition("e")
    digits = repr(number) if not exponent_text else mantissa
    sign = "-" if digits.startswith("-") else ""
    whole, _, fraction = digits.lstrip("-").partition(".")
    point = len(whole) + int(exponent_text or 0)
    significant = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(significant)
    significant = significant.rstrip("0")
    if not significant:
        return f"{sign}0"
    exponent = point - 1
    if exponent < _EXPONENT_BELOW or exponent >= _EXPONENT_FROM:
        tail = f".{significant[1:]}" if len(significant) > 1 else ""
        return f"{sign}{significant[0]}{tail}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{significant}"
    if len(significant) <= point:
        return sign + significant + "0" * (point - len(significant))
    return f"{sign}{significant[:point]}.{significant[point:]}"
