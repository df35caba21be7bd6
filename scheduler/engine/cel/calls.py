"""Calls functions: chooses the overload by the types of the arguments, and checks them where the type is not known.

Source: cel-go v0.26 (common/decls, interpreter/planner.go, interpreter/decorators.go).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from scheduler.engine.cel.ast import Call
from scheduler.engine.cel.closures import Closure, Constant, Frame
from scheduler.engine.cel.environment import FUNCTIONS, SINGLETONS
from scheduler.engine.cel.errors import CelRuntimeError, EvaluationPanicError, no_such_overload
from scheduler.engine.cel.indexing import check_hashable, go_type
from scheduler.engine.cel.library.declaration import Overload
from scheduler.engine.cel.library.operators import contains
from scheduler.engine.cel.types import Kind, Type
from scheduler.engine.cel.values import (
    DurationValue,
    TimestampValue,
    Uint,
    Value,
    from_map_key,
    is_map,
    type_name,
)

_Predicate: TypeAlias = Callable[[Value], bool]
PARSERS: Final = frozenset({"quantity", "semver", "ip", "cidr"})  # functions whose result for a constant is kept
NEEDS_LIST: Final = {  # the overloads whose cost upstream takes from an argument that must be a list, and which one
    "list_distinct": 0,
    **{overload.id: 0 for overload in FUNCTIONS["sort"]},
    **{overload.id: 1 for overload in FUNCTIONS["@sortByAssociatedKeys"]},
}
_ADDABLE: Final = frozenset({bytes, float, int, str, Uint, DurationValue, TimestampValue})


def require_list(closure: Closure, argument: Closure) -> Closure:
    """Return a closure that evaluates `closure`, or raises EvaluationPanicError if the value of `argument` is no list.

    Upstream's accounting of costs panics there.
    """

    def run(frame: Frame) -> Value:
        try:
            value = argument(frame)
        except CelRuntimeError as error:
            value = error
        if type(value) is not list:
            missing = "Contains" if type(value) in _ADDABLE else "Add"
            message = f"interface conversion: {go_type(value)} is not traits.Lister: missing method {missing}"
            raise EvaluationPanicError(f"internal error: {message}")
        return closure(frame)

    return run


def membership(element: Closure, values: list[Value]) -> Closure:
    """Return a closure for `element in values`, where the values are constants.

    Like upstream's look-up in a hash table, it raises EvaluationPanicError for an element that cannot be a key.
    """
    if not values:
        return Constant(False)
    if not all(type(value) in (bool, int, Uint, float, str) for value in values):
        return lambda frame: contains(element(frame), values)

    def run(frame: Frame) -> bool:
        value = element(frame)
        check_hashable(value)
        return contains(value, values)

    return run


def invocation(node: Call, arguments: list[Closure]) -> Closure:
    """Return a closure that calls the function with the overload that fits the types of the arguments' values."""
    singleton = SINGLETONS.get(node.function)
    if singleton is not None:
        return plain_call(singleton, arguments)
    overloads = FUNCTIONS[node.function]
    chosen = [overload for overload in overloads if overload.id in node.overloads]
    if len(chosen) == 1:
        overload = chosen[0]
        if overload.implementation is not None and overload.accepts_all:
            return plain_call(overload.implementation, arguments)
        # A value may have another type than its expression: `orValue` returns what is no optional as it is.
        return _guarded_call(overload, list(enumerate(map(_predicate, overload.arguments))), arguments)
    return _dispatching_call(node.function, overloads, arguments)


def plain_call(function: Callable[..., Value], arguments: list[Closure]) -> Closure:
    """Return a closure that calls `function` with the values of the arguments, without checking their types."""
    if len(arguments) == 1:
        (only,) = arguments
        return lambda frame: function(only(frame))
    if len(arguments) == 2:
        left, right = arguments
        return lambda frame: function(left(frame), right(frame))
    return lambda frame: function(*[argument(frame) for argument in arguments])


def _guarded_call(overload: Overload, checks: list[tuple[int, _Predicate]], arguments: list[Closure]) -> Closure:
    implementation = overload.implementation

    def call(frame: Frame) -> Value:
        values = [argument(frame) for argument in arguments]
        for i, accepts in checks:
            if not accepts(values[i]):
                raise no_such_overload(overload.function, *map(type_name, values))
        if implementation is None:
            raise no_such_overload(overload.function, *map(type_name, values))
        return implementation(*values)

    return call


def _dispatching_call(function: str, overloads: list[Overload], arguments: list[Closure]) -> Closure:
    candidates = [
        (tuple(map(_predicate, overload.arguments)), overload.implementation)
        for overload in overloads
        if overload.implementation is not None and len(overload.arguments) == len(arguments)
    ]

    def call(frame: Frame) -> Value:
        values = [argument(frame) for argument in arguments]
        for predicates, implementation in candidates:
            if all(accepts(value) for accepts, value in zip(predicates, values, strict=True)):
                return implementation(*values)
        raise no_such_overload(function, *map(type_name, values))

    return call


def _anything(_: Value) -> bool:
    return True


def _predicate(wanted: Type) -> _Predicate:
    """Return a function that says whether a value belongs to the type.

    As upstream, only the first element of a list or map is checked.
    """
    if wanted.is_dynamic or wanted.kind is Kind.PARAMETER:
        return _anything
    if wanted.kind is Kind.LIST:
        element = _predicate(wanted.parameters[0])
        return lambda value: type(value) is list and (not value or element(value[0]))
    if wanted.kind is Kind.MAP:
        key_fits, value_fits = map(_predicate, wanted.parameters)

        def fits(value: Value) -> bool:
            if not is_map(value):
                return False
            for key, element in value.items():
                return key_fits(from_map_key(key)) and value_fits(element)
            return True

        return fits
    name = wanted.name
    return lambda value: type_name(value) == name
