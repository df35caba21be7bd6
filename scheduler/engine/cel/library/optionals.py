"""Optional values. `or` and `orValue` are part of the evaluator, because they evaluate an argument only if needed."""

from __future__ import annotations

from typing import Final

from scheduler.engine.cel.errors import CelRuntimeError
from scheduler.engine.cel.library.declaration import Overload, declare
from scheduler.engine.cel.values import NOTHING, DurationValue, OptionalValue, TimestampValue, Value, display

_ZERO_TIME: Final = TimestampValue(-62135596800 * 10**9)


def _of(value: Value) -> OptionalValue:
    return OptionalValue(value, present=True)


def _is_zero(value: Value) -> bool:
    if type(value) is DurationValue:
        return value.nanos == 0
    if type(value) is TimestampValue:
        return bool(value == _ZERO_TIME)
    return value is None or (isinstance(value, (bool, int, float, str, bytes, list, dict)) and not value)


def _of_non_zero(value: Value) -> OptionalValue:
    return NOTHING if _is_zero(value) else _of(value)


def _none() -> OptionalValue:
    return NOTHING


def value_of(optional: OptionalValue) -> Value:
    """Return the value of an optional. Raise CelRuntimeError if it is absent."""
    if not optional.present:
        raise CelRuntimeError("optional.none() dereference")
    return optional.value


def _unwrap(values: list[Value]) -> list[Value]:
    for value in values:
        if type(value) is not OptionalValue:
            raise CelRuntimeError(f"value {display(value)} is not optional")
    return [value.value for value in values if value.present]


def _last(values: list[Value]) -> OptionalValue:
    return _of(values[-1]) if values else NOTHING


def _first(values: list[Value]) -> OptionalValue:
    return _of(values[0]) if values else NOTHING


OVERLOADS: Final[tuple[Overload, ...]] = (
    declare("optional.of", "optional_of", "(V) -> optional(V)", _of),
    declare("optional.ofNonZeroValue", "optional_ofNonZeroValue", "(V) -> optional(V)", _of_non_zero),
    declare("optional.none", "optional_none", "() -> optional(V)", _none),
    declare("value", "optional_value", "optional(V).() -> V", value_of),
    declare("hasValue", "optional_hasValue", "optional(V).() -> bool", lambda optional: optional.present),
    declare("or", "optional_or_optional", "optional(V).(optional(V)) -> optional(V)"),
    declare("orValue", "optional_orValue_value", "optional(V).(V) -> V"),
    declare("_?._", "select_optional_field", "(dyn,string) -> optional(V)"),
    declare("_[?_]", "list_optindex_optional_int", "(list(V),int) -> optional(V)"),
    declare("_[?_]", "optional_list_optindex_optional_int", "(optional(list(V)),int) -> optional(V)"),
    declare("_[?_]", "map_optindex_optional_value", "(map(K,V),K) -> optional(V)"),
    declare("_[?_]", "optional_map_optindex_optional_value", "(optional(map(K,V)),K) -> optional(V)"),
    declare("_[_]", "optional_list_index_int", "(optional(list(V)),int) -> optional(V)"),
    declare("_[_]", "optional_map_index_value", "(optional(map(K,V)),K) -> optional(V)"),
    declare("last", "list_last", "list(V).() -> optional(V)", _last),
    declare("first", "list_first", "list(V).() -> optional(V)", _first),
    declare("optional.unwrap", "optional_unwrap", "(list(optional(V))) -> list(V)", _unwrap),
    declare("unwrapOpt", "optional_unwrapOpt", "list(optional(V)).() -> list(V)", _unwrap),
)
