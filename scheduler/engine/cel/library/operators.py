"""Arithmetic, comparison, membership and size: functions with one implementation for all overloads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from scheduler.engine.cel.errors import CelRuntimeError, no_such_overload
from scheduler.engine.cel.library.declaration import Overload, declare
from scheduler.engine.cel.library.times import add_times, subtract_times
from scheduler.engine.cel.values import (
    COMPARABLE,
    INT64_MAX,
    INT64_MIN,
    UINT64_MAX,
    DefaultMap,
    DurationValue,
    TimestampValue,
    Uint,
    Value,
    compare,
    find,
    is_equal,
    is_map,
)

_RECEIVERS: Final = frozenset(
    {str, DurationValue, TimestampValue}
)  # types whose missing methods have a shorter message


def missing_method(function: str, first: Value) -> CelRuntimeError:
    """Return the error of a call whose first argument is of a type that the function does not accept."""
    return no_such_overload() if type(first) in _RECEIVERS else no_such_overload(function)


def checked_int(number: int) -> int:
    """Return the number. Raise CelRuntimeError if it does not fit an int64."""
    if INT64_MIN <= number <= INT64_MAX:
        return number
    raise CelRuntimeError("integer overflow")


def checked_uint(number: int) -> Uint:
    """Return the number as a `Uint`. Raise CelRuntimeError if it does not fit 64 bits."""
    if 0 <= number <= UINT64_MAX:
        return Uint(number)
    raise CelRuntimeError("unsigned integer overflow")


def _same_type(one: Value, two: Value) -> None:
    if type(one) is not type(two):
        raise no_such_overload()


def add(one: Value, two: Value) -> Value:
    """Add numbers, times or lists, or join texts. Raise CelRuntimeError for other values and overflows."""
    kind = type(one)
    if kind is DurationValue or kind is TimestampValue:
        return add_times(one, two)
    if kind not in (int, Uint, float, str, bytes, list):
        raise missing_method("_+_", one)
    _same_type(one, two)
    if kind is int:
        return checked_int(one + two)
    return checked_uint(int(one) + int(two)) if kind is Uint else one + two


def _subtract(one: Value, two: Value) -> Value:
    kind = type(one)
    if kind is DurationValue or kind is TimestampValue:
        return subtract_times(one, two)
    if kind not in (int, Uint, float):
        raise missing_method("_-_", one)
    _same_type(one, two)
    if kind is int:
        return checked_int(one - two)
    return checked_uint(int(one) - int(two)) if kind is Uint else one - two


def _multiply(one: Value, two: Value) -> Value:
    kind = type(one)
    if kind not in (int, Uint, float):
        raise missing_method("_*_", one)
    _same_type(one, two)
    if kind is int:
        return checked_int(one * two)
    return checked_uint(int(one) * int(two)) if kind is Uint else one * two


def _divide(one: Value, two: Value) -> Value:
    kind = type(one)
    if kind not in (int, Uint, float):
        raise missing_method("_/_", one)
    _same_type(one, two)
    if kind is float:
        return _divide_doubles(one, two)
    if two == 0:
        raise CelRuntimeError("division by zero")
    if kind is Uint:
        return Uint(int(one) // int(two))
    quotient = abs(one) // abs(two)
    return checked_int(quotient if (one < 0) == (two < 0) else -quotient)


def _divide_doubles(one: float, two: float) -> float:
    if two != 0:
        return one / two
    if one == 0 or math.isnan(one) or math.isnan(two):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1.0, two)


def _modulo(one: Value, two: Value) -> Value:
    kind = type(one)
    if kind not in (int, Uint):
        raise missing_method("_%_", one)
    _same_type(one, two)
    if two == 0:
        raise CelRuntimeError("modulus by zero")
    if kind is Uint:
        return Uint(int(one) % int(two))
    if one == INT64_MIN and two == -1:
        raise CelRuntimeError("integer overflow")
    remainder = abs(one) % abs(two)
    return -remainder if one < 0 else remainder


def _negate(value: Value) -> Value:
    kind = type(value)
    if kind is bool:
        raise no_such_overload()
    if kind is int:
        return checked_int(-value)
    if kind is float:
        return -value
    if kind is DurationValue:
        return DurationValue(checked_int(-value.nanos))
    raise missing_method("-_", value)


def _logical_not(value: Value) -> bool:
    if type(value) is bool:
        return not value
    raise no_such_overload()


def _size(value: Value) -> int:
    if type(value) in (str, bytes, list, dict, DefaultMap):
        return len(value)
    raise missing_method("size", value)


def contains(element: Value, container: Value) -> bool:
    """Return whether a list contains an equal element, or a map the key `element`."""
    if type(container) is list:
        return any(is_equal(element, other) for other in container)
    if is_map(container):
        return find(container, element)[1] if type(container) is dict else type(element) is str and element in container
    raise no_such_overload()


def _ordered(function: str, holds: Callable[[int], bool]) -> Callable[[Value, Value], bool]:
    def check(one: Value, two: Value) -> bool:
        if type(one) not in COMPARABLE:
            raise missing_method(function, one)
        return holds(compare(one, two))

    return check


_less = _ordered("_<_", lambda order: order < 0)
_less_equals = _ordered("_<=_", lambda order: order <= 0)
_greater = _ordered("_>_", lambda order: order > 0)
_greater_equals = _ordered("_>=_", lambda order: order >= 0)

SINGLETONS: Final[dict[str, Callable[..., Value]]] = {
    "_+_": add,
    "_-_": _subtract,
    "_*_": _multiply,
    "_/_": _divide,
    "_%_": _modulo,
    "-_": _negate,
    "!_": _logical_not,
    "_<_": _less,
    "_<=_": _less_equals,
    "_>_": _greater,
    "_>=_": _greater_equals,
    "@in": contains,
    "size": _size,
}

_NUMBERS: Final = ("double", "double"), ("int64", "int"), ("uint64", "uint")
_ORDERED: Final = (
    ("bool", "bool", "bool"),
    ("int64", "int", "int"),
    ("int64_double", "int", "double"),
    ("int64_uint64", "int", "uint"),
    ("uint64", "uint", "uint"),
    ("uint64_double", "uint", "double"),
    ("uint64_int64", "uint", "int"),
    ("double", "double", "double"),
    ("double_int64", "double", "int"),
    ("double_uint64", "double", "uint"),
    ("string", "string", "string"),
    ("bytes", "bytes", "bytes"),
    ("timestamp", "timestamp", "timestamp"),
    ("duration", "duration", "duration"),
)


def _arithmetic(function: str, prefix: str, kinds: tuple[tuple[str, str], ...]) -> list[Overload]:
    return [declare(function, f"{prefix}_{suffix}", f"({kind},{kind}) -> {kind}") for suffix, kind in kinds]


OVERLOADS: Final = (
    declare("_?_:_", "conditional", "(bool,A,A) -> A"),
    declare("_&&_", "logical_and", "(bool,bool) -> bool"),
    declare("_||_", "logical_or", "(bool,bool) -> bool"),
    declare("!_", "logical_not", "(bool) -> bool"),
    declare("@not_strictly_false", "not_strictly_false", "(bool) -> bool"),
    declare("_==_", "equals", "(A,A) -> bool"),
    declare("_!=_", "not_equals", "(A,A) -> bool"),
    declare("_+_", "add_bytes", "(bytes,bytes) -> bytes"),
    declare("_+_", "add_double", "(double,double) -> double"),
    declare("_+_", "add_duration_duration", "(duration,duration) -> duration"),
    declare("_+_", "add_duration_timestamp", "(duration,timestamp) -> timestamp"),
    declare("_+_", "add_timestamp_duration", "(timestamp,duration) -> timestamp"),
    declare("_+_", "add_int64", "(int,int) -> int"),
    declare("_+_", "add_list", "(list(A),list(A)) -> list(A)"),
    declare("_+_", "add_string", "(string,string) -> string"),
    declare("_+_", "add_uint64", "(uint,uint) -> uint"),
    *_arithmetic("_/_", "divide", _NUMBERS),
    *_arithmetic("_%_", "modulo", _NUMBERS[1:]),
    *_arithmetic("_*_", "multiply", _NUMBERS),
    declare("-_", "negate_double", "(double) -> double"),
    declare("-_", "negate_int64", "(int) -> int"),
    declare("_-_", "subtract_double", "(double,double) -> double"),
    declare("_-_", "subtract_duration_duration", "(duration,duration) -> duration"),
    declare("_-_", "subtract_int64", "(int,int) -> int"),
    declare("_-_", "subtract_timestamp_duration", "(timestamp,duration) -> timestamp"),
    declare("_-_", "subtract_timestamp_timestamp", "(timestamp,timestamp) -> duration"),
    declare("_-_", "subtract_uint64", "(uint,uint) -> uint"),
    *(
        declare(function, f"{prefix}_{suffix}", f"({left},{right}) -> bool")
        for function, prefix in (
            ("_<_", "less"),
            ("_<=_", "less_equals"),
            ("_>_", "greater"),
            ("_>=_", "greater_equals"),
        )
        for suffix, left, right in _ORDERED
    ),
    declare("_[_]", "index_list", "(list(A),int) -> A"),
    declare("_[_]", "index_map", "(map(A,B),A) -> B"),
    declare("@in", "in_list", "(A,list(A)) -> bool"),
    declare("@in", "in_map", "(A,map(A,B)) -> bool"),
    declare("size", "size_bytes", "(bytes) -> int"),
    declare("size", "bytes_size", "bytes.() -> int"),
    declare("size", "size_list", "(list(A)) -> int"),
    declare("size", "list_size", "list(A).() -> int"),
    declare("size", "size_map", "(map(A,B)) -> int"),
    declare("size", "map_size", "map(A,B).() -> int"),
    declare("size", "size_string", "(string) -> int"),
    declare("size", "string_size", "string.() -> int"),
)
