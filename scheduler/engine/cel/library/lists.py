"""Functions of lists and sets, and of maps that macros build."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from scheduler.engine.cel.errors import CelRuntimeError, no_such_overload
from scheduler.engine.cel.library.declaration import Overload, declare
from scheduler.engine.cel.library.operators import add, missing_method
from scheduler.engine.cel.values import (
    COMPARABLE,
    DurationValue,
    Uint,
    Value,
    compare,
    display,
    find,
    is_equal,
    iterate,
    map_key,
    type_name,
)

_COMPARABLE: Final = ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"]
_COMPARABLE_NAMES: Final = (
    ("int", "int"),
    ("uint", "uint"),
    ("double", "double"),
    ("bool", "bool"),
    ("google.protobuf.Duration", "duration"),
    ("google.protobuf.Timestamp", "timestamp"),
    ("string", "string"),
    ("bytes", "bytes"),
)
_LONGEST_RANGE: Final = 1_000_000  # elements; a longer range is above the cost limit of a selector


def _is_sorted(values: list[Value]) -> bool:
    _need_comparable(values)
    return not any(_is_order(before, after, 1) for before, after in pairwise(values))


def _need_comparable(values: list[Value]) -> None:
    if any(type(value) not in COMPARABLE for value in values):
        raise no_such_overload()


def _is_order(one: Value, two: Value, order: int) -> bool:
    """Return whether `compare` gives `order` for the two values; False if they cannot be compared."""
    try:
        return compare(one, two) == order
    except CelRuntimeError:
        return False


def _sum_from(zero: Value) -> Callable[[list[Value]], Value]:
    return lambda values: functools.reduce(add, values, zero)


def _extreme(name: str, sign: int) -> Callable[[list[Value]], Value]:
    def choose(values: list[Value]) -> Value:
        if not values:
            raise CelRuntimeError(f"{name} called on empty list")
        _need_comparable(values)
        chosen = values[0]
        for value in values[1:]:
            if _is_order(chosen, value, sign):
                chosen = value
        return chosen

    return choose


def _index_of(values: list[Value], item: Value) -> int:
    return next((i for i, value in enumerate(values) if is_equal(value, item)), -1)


def _last_index_of(values: list[Value], item: Value) -> int:
    return next((i for i in reversed(range(len(values))) if is_equal(values[i], item)), -1)


def _slice(values: list[Value], start: int, end: int) -> list[Value]:
    call = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise CelRuntimeError(f"{call}, negative indexes not supported")
    if start > end:
        raise CelRuntimeError(f"{call}, start index must be less than or equal to end index")
    if len(values) < end:
        raise CelRuntimeError(f"{call}, list is length {len(values)}")
    return values[start:end]


def _flatten(values: Value, depth: Value = 1) -> list[Value]:
    if type(values) is not list or type(depth) is not int:
        raise CelRuntimeError(f"no such overload: {type_name(values)}.flatten()")
    if depth < 0:
        raise CelRuntimeError("level must be non-negative")
    flat: list[Value] = []
    for value in values:
        if type(value) is not list or depth == 0:
            flat.append(value)
        else:
            flat.extend(_flatten(value, depth - 1))
    return flat


def _sort_by_keys(values: list[Value], keys: list[Value]) -> list[Value]:
    if len(values) != len(keys):
        raise CelRuntimeError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got "
            f"{len(values)} and {len(keys)} elements respectively"
        )
    if not values:
        return values
    if type(keys[0]) not in COMPARABLE:
        raise CelRuntimeError("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise CelRuntimeError("list elements must have the same type")
    by_key: Callable[[int], Any] = functools.cmp_to_key(lambda i, j: compare(keys[i], keys[j]))
    order = sorted(range(len(keys)), key=by_key)
    return [values[position] for position in order]


def _sort(values: Value) -> list[Value]:
    if type(values) is not list:
        raise missing_method("sort", values)
    return _sort_by_keys(values, values)


def _sort_by(values: Value, keys: Value) -> list[Value]:
    if type(values) is not list or type(keys) is not list:
        raise missing_method("@sortByAssociatedKeys", values)
    return _sort_by_keys(values, keys)


def _range(count: int) -> list[int]:
    if count > _LONGEST_RANGE:
        raise CelRuntimeError("operation cancelled: actual cost limit exceeded")
    return list(range(count))


def _distinct(values: list[Value]) -> list[Value]:
    unique: list[Value] = []
    for value in values:
        if not any(is_equal(value, other) for other in unique):
            unique.append(value)
    return unique


def _sets_contain(values: list[Value], part: list[Value]) -> bool:
    return all(any(is_equal(item, value) for value in values) for item in part)


def _sets_intersect(one: list[Value], two: list[Value]) -> bool:
    return any(is_equal(value, other) for value in one for other in two)


def _sets_equivalent(one: list[Value], two: list[Value]) -> bool:
    return _sets_contain(one, two) and _sets_contain(two, one)


def _insert(mapping: dict[Value, Value], key: Value, value: Value) -> dict[Value, Value]:
    if find(mapping, key)[1]:
        raise CelRuntimeError(f"insert failed: key {display(key)} already exists")
    return {**mapping, map_key(key): value}


def _insert_all(mapping: dict[Value, Value], added: dict[Value, Value]) -> dict[Value, Value]:
    for key in iterate(added):
        mapping = _insert(mapping, key, find(added, key)[0])
    return mapping


SINGLETONS: Final[dict[str, Callable[..., Value]]] = {"sort": _sort, "@sortByAssociatedKeys": _sort_by}
KUBERNETES: Final[tuple[Overload, ...]] = (
    *(declare("isSorted", f"list_{t}_is_sorted_bool", f"list({t}).() -> bool", _is_sorted) for t in _COMPARABLE),
    declare("sum", "list_int_sum_int", "list(int).() -> int", _sum_from(0)),
    declare("sum", "list_uint_sum_uint", "list(uint).() -> uint", _sum_from(Uint(0))),
    declare("sum", "list_double_sum_double", "list(double).() -> double", _sum_from(0.0)),
    declare("sum", "list_duration_sum_duration", "list(duration).() -> duration", _sum_from(DurationValue(0))),
    *(declare("max", f"list_{t}_max_{t}", f"list({t}).() -> {t}", _extreme("max", -1)) for t in _COMPARABLE),
    *(declare("min", f"list_{t}_min_{t}", f"list({t}).() -> {t}", _extreme("min", 1)) for t in _COMPARABLE),
    declare("indexOf", "list_a_index_of_int", "list(A).(A) -> int", _index_of),
    declare("lastIndexOf", "list_a_last_index_of_int", "list(A).(A) -> int", _last_index_of),
)
SETS: Final[tuple[Overload, ...]] = (
    declare("sets.contains", "list_sets_contains_list", "(list(T),list(T)) -> bool", _sets_contain),
    declare("sets.equivalent", "list_sets_equivalent_list", "(list(T),list(T)) -> bool", _sets_equivalent),
    declare("sets.intersects", "list_sets_intersects_list", "(list(T),list(T)) -> bool", _sets_intersect),
)
MAPS: Final[tuple[Overload, ...]] = (
    declare("cel.@mapInsert", "@mapInsert_map_key_value", "(map(K,V),K,V) -> map(K,V)", _insert),
    declare("cel.@mapInsert", "@mapInsert_map_map", "(map(K,V),map(K,V)) -> map(K,V)", _insert_all),
)
OVERLOADS: Final[tuple[Overload, ...]] = (
    declare("slice", "list_slice", "list(T).(int,int) -> list(T)", _slice),
    declare("flatten", "list_flatten", "list(list(T)).() -> list(T)", _flatten, accepts_all=True),
    declare("flatten", "list_flatten_int", "list(dyn).(int) -> list(dyn)", _flatten, accepts_all=True),
    *(declare("sort", f"list_{name}_sort", f"list({t}).() -> list({t})") for name, t in _COMPARABLE_NAMES),
    *(
        declare("@sortByAssociatedKeys", f"list_{name}_sortByAssociatedKeys", f"list(T).(list({t})) -> list(T)")
        for name, t in _COMPARABLE_NAMES
    ),
    declare("lists.range", "lists_range", "(int) -> list(int)", _range),
    declare("reverse", "list_reverse", "list(T).() -> list(T)", lambda values: values[::-1]),
    declare("distinct", "list_distinct", "list(T).() -> list(T)", _distinct),
)
