"""Looks up elements of lists and maps, and says what cannot be a key."""

from __future__ import annotations

from typing import Final

from scheduler.engine.cel.errors import CelRuntimeError, EvaluationPanicError
from scheduler.engine.cel.library.formats import Format
from scheduler.engine.cel.library.kubernetes import Version
from scheduler.engine.cel.library.network import CidrValue, IpValue, UrlValue
from scheduler.engine.cel.values import (
    INT64_MAX,
    INT64_MIN,
    NOTHING,
    DurationValue,
    OptionalValue,
    TimestampValue,
    TypeValue,
    Uint,
    Value,
    display,
    find,
    from_map_key,
    is_map,
    type_name,
)
from scheduler.engine.objects.quantity import Quantity


def pairs(elements: Value) -> list[tuple[Value, Value]]:
    """Return (position, element) of a list, or (key, value) of a map. Raise CelRuntimeError for other values."""
    if type(elements) is list:
        return list(enumerate(elements))
    if is_map(elements):
        return [(from_map_key(key), value) for key, value in elements.items()]
    raise CelRuntimeError(f"unsupported comprehension range type: {type_name(elements)}")


def _position(key: Value) -> int:
    """Return an index value as an int. Raise CelRuntimeError if it is no whole number or too large."""
    kind = type(key)
    if kind is int or kind is Uint:
        if key > INT64_MAX:
            raise CelRuntimeError(f"unsupported index value {display(key)} in list")
        return int(key)
    if kind is float:
        if not INT64_MIN < key < INT64_MAX or not key.is_integer():
            raise CelRuntimeError(f"unsupported index value {display(key)} in list")
        return int(key)
    raise CelRuntimeError(f"unsupported index type '{type_name(key)}' in list")


_KEY_TYPES: Final = frozenset({str, int, Uint, bool, float})


def check_key(key: Value) -> None:
    """Raise CelRuntimeError if the key's type is not one of those that keys of maps may have."""
    if type(key) not in _KEY_TYPES:
        raise CelRuntimeError(f"invalid qualifier type: {go_type(key)}")


def look_up(value: Value, key: Value) -> tuple[Value, bool]:
    """Return the element of a list or map and True, or None and False if there is none.

    Raise CelRuntimeError for a key of a wrong type.
    """
    check_key(key)
    if is_map(value):
        return find(value, key)
    if type(value) is list:
        position = _position(key)
        return (value[position], True) if 0 <= position < len(value) else (None, False)
    return None, False


def index(value: Value, key: Value) -> Value:
    """Return `value[key]`; for an optional, an optional. Raise CelRuntimeError if there is no such element."""
    if type(value) is OptionalValue:
        return optional_index(value, key)
    element, present = look_up(value, key)
    if present:
        return element
    raise CelRuntimeError(
        f"index out of bounds: {display(key)}" if type(value) is list else f"no such key: {display(key)}"
    )


def optional_index(value: Value, key: Value) -> OptionalValue:
    """Return `value[?key]`: an optional with the element, or `NOTHING` if there is none.

    If `value` is an optional, its content is indexed; an empty one gives `NOTHING`. Raises CelRuntimeError for a key
    of a wrong type.
    """
    if type(value) is OptionalValue:
        if not value.present:
            return NOTHING
        value = value.value
    element, present = look_up(value, key)
    return OptionalValue(element, present=True) if present else NOTHING


_GO_TYPES: Final[dict[type, str]] = {  # the names of upstream's types, which some messages have
    CelRuntimeError: "*types.Err",
    bool: "types.Bool",
    bytes: "types.Bytes",
    dict: "*types.baseMap",
    float: "types.Double",
    int: "types.Int",
    list: "*types.baseList",
    str: "types.String",
    type(None): "types.Null",
    CidrValue: "cel.CIDR",
    DurationValue: "types.Duration",
    Format: "cel.Format",
    IpValue: "cel.IP",
    OptionalValue: "*types.Optional",
    Quantity: "cel.Quantity",
    TimestampValue: "types.Timestamp",
    TypeValue: "*types.Type",
    Uint: "types.Uint",
    UrlValue: "cel.URL",
    Version: "cel.Semver",
}


def go_type(value: Value) -> str:
    """Return the name of the Go type with which cel-go represents the value."""
    return _GO_TYPES.get(type(value), "types.mapper")


_UNHASHABLE: Final = frozenset({Version, Format, bytes})


def check_hashable(value: Value) -> None:
    """Raise EvaluationPanicError if Go cannot use the value as a key of a map."""
    if type(value) in _UNHASHABLE:
        raise EvaluationPanicError(f"internal error: runtime error: hash of unhashable type {go_type(value)}")
