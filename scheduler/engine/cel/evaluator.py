"""Turns a checked tree into Python closures that evaluate it.

Source: the CEL language definition and cel-go v0.26 (interpreter). An evaluation error is a `CelRuntimeError`. The
operators && and || ignore an error on one side if the other side decides; `all` and `exists` do the same because they
are built from these operators.

A closure takes a frame: a list with the device first and then one slot for each variable.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

from scheduler.engine.cel.ast import (
    Call,
    Comprehension,
    Expression,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    StructLiteral,
)
from scheduler.engine.cel.device import CelDevice
from scheduler.engine.cel.environment import FUNCTIONS, SINGLETONS
from scheduler.engine.cel.errors import CelError, CelRuntimeError, EvaluationPanicError, no_such_overload
from scheduler.engine.cel.library import conversions, regex
from scheduler.engine.cel.library.declaration import Overload
from scheduler.engine.cel.library.formats import Format
from scheduler.engine.cel.library.kubernetes import Version
from scheduler.engine.cel.library.network import CidrValue, IpValue, UrlValue
from scheduler.engine.cel.library.operators import contains
from scheduler.engine.cel.types import Kind, Type
from scheduler.engine.cel.values import (
    INT64_MAX,
    INT64_MIN,
    NOTHING,
    DefaultMap,
    DurationValue,
    OptionalValue,
    TimestampValue,
    TypeValue,
    Uint,
    Value,
    display,
    equal,
    find,
    from_map_key,
    is_map,
    iterate,
    map_key,
    type_name,
)
from scheduler.engine.objects.quantity import Quantity

Frame: TypeAlias = list[Any]
Closure: TypeAlias = Callable[[Frame], Value]
_UNSET: Final = object()


def compile_tree(root: Expression) -> tuple[Closure, int]:
    """Return a closure that evaluates a checked tree, and the size of the frame that it takes.

    Raise CelError for a constant that cannot be converted, as the API server does.
    """
    compiler = _Compiler()
    return compiler.compile(root), compiler.slots


class _Constant:
    """A closure that always returns one value."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __call__(self, _: Frame) -> Value:
        return self.value


class _Parsed(_Constant):
    """A constant that upstream computes in each evaluation, so that rules about constants do not apply to it."""

    __slots__ = ()


def _is_constant(closure: Closure) -> bool:
    return type(closure) is _Constant


class _Compiler:
    """Compiles nodes from the leaves up, and gives each variable its slot."""

    def __init__(self) -> None:
        self.slots = 1
        self._scopes: list[dict[str, Closure]] = []
        self._growing: set[int] = set()  # closures that read a list or map that a loop builds

    def compile(self, node: Expression) -> Closure:
        if isinstance(node, Literal):
            return _Constant(node.value)
        if isinstance(node, Ident):
            return self._ident(node)
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, ListLiteral):
            return self._list(node)
        if isinstance(node, MapLiteral):
            return self._map(node)
        if isinstance(node, Comprehension):
            return self._binding(node) if node.is_binding else self._loop(node)
        assert isinstance(node, StructLiteral)
        raise CelError("compilation failed: objects cannot be created in a device selector")

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _ident(self, node: Ident) -> Closure:
        if node.instance is not None:
            return _Constant(TypeValue(node.instance.name))
        for scope in reversed(self._scopes):
            if node.name in scope:
                return scope[node.name]
        return _whole_device

    def _select(self, node: Select) -> Closure:
        if isinstance(node.operand, Ident) and node.operand.instance is not None:
            return self._ident(node.operand)
        special = None if node.test_only else self._device_value(node.operand, node.name)
        if special is not None:
            return special
        operand, name = self.compile(node.operand), node.name
        if node.test_only:

            def test(frame: Frame) -> bool:
                value = operand(frame)
                if type(value) is OptionalValue:
                    return bool(value.present and _lookup(value.value, name)[1])
                return _lookup(value, name)[1]

            return test
        return lambda frame: _index(operand(frame), name)

    def _device_value(self, operand: Expression, key: Value) -> Closure | None:
        """Return a fast closure for `device.x` and for an attribute or capacity with constant names, or None."""
        if isinstance(operand, Ident) and operand.name == "device" and not self._is_local("device"):
            return _DEVICE_FIELDS[key]
        if type(key) is not str or not isinstance(operand, Call) or operand.function != "_[_]":
            return None
        table, domain = operand.arguments
        if not isinstance(table, Select) or not isinstance(domain, Literal) or type(domain.value) is not str:
            return None
        if not isinstance(table.operand, Ident) or table.operand.name != "device" or self._is_local("device"):
            return None
        domain_name = domain.value
        if table.name == "attributes":

            def attribute(frame: Frame) -> Value:
                found = frame[0].attributes.get(domain_name)
                if found is None or key not in found:
                    raise CelRuntimeError(f"no such key: {key}")
                return found[key]

            return attribute

        def capacity(frame: Frame) -> Value:
            found = frame[0].capacity.get(domain_name)
            if found is None or key not in found:
                raise CelRuntimeError(f"no such key: {key}")
            return found[key]

        return capacity if table.name == "capacity" else None

    def _is_local(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)

    def _call(self, node: Call) -> Closure:
        special = _SPECIAL.get(node.function)
        if special is not None:
            return special(self, node)
        arguments = [self.compile(operand) for operand in node.operands]
        closure = self._growth(node, arguments) or _invocation(node, arguments)
        return self._folded(node, arguments, closure)

    def _folded(self, node: Call, arguments: list[Closure], closure: Closure) -> Closure:
        """Convert constants and compile constant patterns now."""
        if len(arguments) == 1 and node.function in conversions.FUNCTIONS and _is_constant(arguments[0]):
            try:
                return _Constant(closure([]))
            except CelRuntimeError as error:
                raise CelError(f"program instantiation failed: {error}") from None
        if node.function in _PARSERS and all(isinstance(argument, _Constant) for argument in arguments):
            with suppress(CelRuntimeError):  # the evaluation fails then
                return _Parsed(closure([]))
        if node.function in regex.FUNCTIONS and len(arguments) > 1 and _is_constant(arguments[1]):
            pattern = arguments[1]([])
            if type(pattern) is str:
                try:
                    regex.compile_pattern(pattern)
                except CelRuntimeError as error:
                    raise CelError(f"program instantiation failed: {error}") from None
                return _plain_call(partial(regex.with_constant_pattern, node.function), arguments)
        if node.overloads == ("in_list",) and _is_constant(arguments[1]):
            return _membership(arguments[0], arguments[1]([]))
        if len(node.overloads) == 1 and node.overloads[0] in _NEEDS_LIST:
            return _needing_list(closure, arguments[_NEEDS_LIST[node.overloads[0]]])
        return closure

    def _growth(self, node: Call, arguments: list[Closure]) -> Closure | None:
        """Return a closure that extends the result of the surrounding loop in place, or None for another call."""
        if not arguments or id(arguments[0]) not in self._growing:
            return None
        total = arguments[0]
        if node.function == "_+_" and node.overloads == ("add_list",):
            added = arguments[1]

            def extend(frame: Frame) -> Value:
                values = total(frame)
                more = added(frame)
                if type(more) is not list:
                    raise no_such_overload()
                values.extend(more)
                return values

            return extend
        if node.function != "cel.@mapInsert":
            return None

        def insert(frame: Frame) -> Value:
            mapping = total(frame)
            if len(arguments) == 3:
                entries = [(arguments[1](frame), arguments[2](frame))]
            else:
                more = arguments[1](frame)
                if not is_map(more):
                    raise no_such_overload(node.function, "map", type_name(more))
                entries = [(from_map_key(key), value) for key, value in more.items()]
            for key, value in entries:
                if find(mapping, key)[1]:
                    raise CelRuntimeError(f"insert failed: key {display(key)} already exists")
                mapping[map_key(key)] = value
            return mapping

        return insert

    def _list(self, node: ListLiteral) -> Closure:
        elements = [self.compile(element) for element in node.elements]
        if not node.optional:
            if all(map(_is_constant, elements)):
                return _Constant([element([]) for element in elements])
            return lambda frame: [element(frame) for element in elements]
        optional = node.optional

        def build(frame: Frame) -> list[Value]:
            values = []
            for i, element in enumerate(elements):
                value = element(frame)
                if i in optional:
                    if type(value) is not OptionalValue:
                        message = f"cannot initialize optional list element from non-optional value {display(value)}"
                        raise CelRuntimeError(message)
                    if not value.present:
                        continue
                    value = value.value
                values.append(value)
            return values

        return build

    def _map(self, node: MapLiteral) -> Closure:
        entries = [(self.compile(e.key), self.compile(e.value), e.optional) for e in node.entries]

        def build(frame: Frame) -> dict[Value, Value]:
            mapping: dict[Value, Value] = {}
            for key_of, value_of, optional in entries:
                key, value = key_of(frame), value_of(frame)
                _check_hashable(key)
                if optional:
                    if type(value) is not OptionalValue:
                        message = "cannot initialize optional entry "
                        message += f"'{display(key)}' from non-optional value {display(value)}"
                        raise CelRuntimeError(message)
                    if not value.present:
                        mapping.pop(map_key(key), None)
                        continue
                    value = value.value
                mapping[map_key(key)] = value
            return mapping

        if all(_is_constant(key) and _is_constant(value) for key, value, _ in entries):
            return _Constant(build([])) if not any(optional for *_, optional in entries) else build
        return build

    def _binding(self, node: Comprehension) -> Closure:
        initial = self.compile(node.initial)
        slot = self._new_slot()

        def read(frame: Frame) -> Value:
            value = frame[slot]
            if value is _UNSET:
                try:
                    value = initial(frame)
                except CelRuntimeError as error:
                    frame[slot] = error
                    raise
                if type(value) is DefaultMap and not value:
                    value = {}  # upstream replaces an empty map by one of its own, without the default
                frame[slot] = value
            elif isinstance(value, CelRuntimeError):
                raise value
            return value

        self._scopes.append({node.accumulator: read})
        result = self.compile(node.result)
        self._scopes.pop()

        def bind(frame: Frame) -> Value:
            frame[slot] = _UNSET
            return result(frame)

        return bind

    def _loop(self, node: Comprehension) -> Closure:
        over = self.compile(node.range)
        grows = isinstance(node.initial, (ListLiteral, MapLiteral))
        initial = self.compile(node.initial)
        total, first, second = self._new_slot(), self._new_slot(), self._new_slot()
        read_total = _slot_reader(total)
        if grows:
            self._growing.add(id(read_total))
        self._scopes.append({node.accumulator: read_total})
        self._scopes.append({node.variable: _slot(first)} | ({node.second: _slot(second)} if node.second else {}))
        stops_at = _stop_value(node)
        step = self.compile(node.step)
        self._scopes.pop()
        result = self.compile(node.result)
        self._scopes.pop()
        has_second = bool(node.second)

        def run(frame: Frame) -> Value:
            elements = over(frame)
            pairs = _pairs(elements) if has_second else None
            start = initial(frame)
            frame[total] = type(start)() if grows else start
            for element in iterate(elements) if pairs is None else pairs:
                if has_second:
                    frame[first], frame[second] = element
                else:
                    frame[first] = element
                try:
                    value = frame[total] = step(frame)
                except CelRuntimeError as error:
                    frame[total] = error
                else:
                    if value is stops_at:
                        break
            return result(frame)

        self._growing.discard(id(read_total))
        self._kept = [*getattr(self, "_kept", []), read_total]  # keeps ids unique while the tree is compiled
        return run


def _stop_value(node: Comprehension) -> Value:
    """Return the total at which a loop may stop: False for `all`, True for `exists`, nothing for the others."""
    condition = node.condition
    if not isinstance(condition, Call):
        return _UNSET
    return isinstance(condition.arguments[0], Call)


def _pairs(elements: Value) -> list[tuple[Value, Value]]:
    if type(elements) is list:
        return list(enumerate(elements))
    if is_map(elements):
        return [(from_map_key(key), value) for key, value in elements.items()]
    raise CelRuntimeError(f"unsupported comprehension range type: {type_name(elements)}")


def _slot(slot: int) -> Closure:
    return lambda frame: frame[slot]


def _slot_reader(slot: int) -> Closure:
    def read(frame: Frame) -> Value:
        value = frame[slot]
        if isinstance(value, CelRuntimeError):
            raise value
        return value

    return read


def _whole_device(frame: Frame) -> Value:
    return frame[0].as_map()


_DEVICE_FIELDS: Final[dict[str, Closure]] = {
    "driver": lambda frame: frame[0].driver,
    "allowMultipleAllocations": lambda frame: frame[0].allow_multiple_allocations,
    "attributes": lambda frame: frame[0].attributes,
    "capacity": lambda frame: frame[0].capacity,
}


def _position(key: Value) -> int:
    """Return the position in a list that a key stands for. Raise CelRuntimeError for a key that is no whole number."""
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


def _check_key(key: Value) -> None:
    """Raise CelRuntimeError for a key of a type that no map has."""
    if type(key) not in _KEY_TYPES:
        raise CelRuntimeError(f"invalid qualifier type: {_go_type(key)}")


def _lookup(value: Value, key: Value) -> tuple[Value, bool]:
    """Return the element with a key or position, and whether there is one."""
    _check_key(key)
    if is_map(value):
        return find(value, key)
    if type(value) is list:
        position = _position(key)
        return (value[position], True) if 0 <= position < len(value) else (None, False)
    return None, False


def _index(value: Value, key: Value) -> Value:
    if type(value) is OptionalValue:
        return _optional_index(value, key)
    found, present = _lookup(value, key)
    if present:
        return found
    raise CelRuntimeError(
        f"index out of bounds: {display(key)}" if type(value) is list else f"no such key: {display(key)}"
    )


def _optional_index(value: Value, key: Value) -> OptionalValue:
    if type(value) is OptionalValue:
        if not value.present:
            return NOTHING
        value = value.value
    found, present = _lookup(value, key)
    return OptionalValue(found, present=True) if present else NOTHING


def _compile_index(compiler: _Compiler, node: Call) -> Closure:
    target_node, key_node = node.arguments
    if isinstance(key_node, Literal):
        special = compiler._device_value(target_node, key_node.value) if isinstance(target_node, Call) else None
        if special is not None:
            return special
    target, key = compiler.compile(target_node), _compile_key(compiler, key_node)
    return _lazy_key(_index, target, key)


def _lazy_key(look_up: Callable[[Value, Value], Value], target: Closure, key: Closure) -> Closure:
    """Return a closure that evaluates the key only if there is something to look it up in."""

    def run(frame: Frame) -> Value:
        value = target(frame)
        return NOTHING if value is NOTHING else look_up(value, key(frame))

    return run


def _compile_key(compiler: _Compiler, node: Expression) -> Closure:
    key = compiler.compile(node)
    if _is_constant(key):
        try:
            _check_key(key([]))
        except CelRuntimeError as error:
            raise CelError(f"program instantiation failed: {error}") from None
    return key


def _compile_optional_index(compiler: _Compiler, node: Call) -> Closure:
    target, key = compiler.compile(node.arguments[0]), _compile_key(compiler, node.arguments[1])
    return _lazy_key(_optional_index, target, key)


def _compile_logical(decides: bool) -> Callable[[_Compiler, Call], Closure]:
    """Return the compilation of && (`decides` is False) or || (`decides` is True)."""
    otherwise = not decides

    def build(compiler: _Compiler, node: Call) -> Closure:
        left, right = (compiler.compile(argument) for argument in node.arguments)

        def run(frame: Frame) -> Value:
            try:
                value = left(frame)
            except CelRuntimeError as error:
                failure = error
            else:
                if value is decides:
                    return decides
                if value is otherwise:
                    value = right(frame)
                    if type(value) is bool:
                        return value
                    raise no_such_overload()
                failure = no_such_overload()
            try:
                if right(frame) is decides:
                    return decides
            except CelRuntimeError:
                pass
            raise failure

        return run

    return build


def _compile_conditional(compiler: _Compiler, node: Call) -> Closure:
    condition, chosen, otherwise = (compiler.compile(argument) for argument in node.arguments)

    def run(frame: Frame) -> Value:
        value = condition(frame)
        if value is True:
            return chosen(frame)
        if value is False:
            return otherwise(frame)
        raise no_such_overload()

    return run


def _compile_equal(compiler: _Compiler, node: Call) -> Closure:
    left, right = (compiler.compile(argument) for argument in node.arguments)
    return lambda frame: equal(left(frame), right(frame))


def _compile_not_equal(compiler: _Compiler, node: Call) -> Closure:
    left, right = (compiler.compile(argument) for argument in node.arguments)

    def run(frame: Frame) -> bool:
        one, two = left(frame), right(frame)
        try:
            return not equal(one, two)
        except CelRuntimeError:
            return True  # values that cannot be compared are unequal, as upstream

    return run


def _compile_or(compiler: _Compiler, node: Call) -> Closure:
    """Compile `or` and `orValue`, which evaluate the argument only if the optional is absent."""
    assert node.target is not None
    target, argument = compiler.compile(node.target), compiler.compile(node.arguments[0])
    unwraps = node.function == "orValue"

    def run(frame: Frame) -> Value:
        value = target(frame)
        if type(value) is not OptionalValue:
            return value  # as upstream
        if value.present:
            return value.value if unwraps else value
        return argument(frame)

    return run


_SPECIAL: Final[dict[str, Callable[[_Compiler, Call], Closure]]] = {
    "_[_]": _compile_index,
    "_[?_]": _compile_optional_index,
    "_?._": _compile_optional_index,
    "_&&_": _compile_logical(decides=False),
    "_||_": _compile_logical(decides=True),
    "_?_:_": _compile_conditional,
    "_==_": _compile_equal,
    "_!=_": _compile_not_equal,
    "or": _compile_or,
    "orValue": _compile_or,
}
_Predicate: TypeAlias = Callable[[Value], bool]
_CONCRETE: Final = frozenset(
    {Kind.BOOL, Kind.BYTES, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.STRING, Kind.STRUCT, Kind.TIMESTAMP, Kind.UINT}
)


_PARSERS: Final = frozenset({"quantity", "semver", "ip", "cidr"})  # functions whose result for a constant is kept
_NEEDS_LIST: Final = {  # the overloads whose cost upstream takes from an argument that must be a list, and which one
    "list_distinct": 0,
    **{overload.id: 0 for overload in FUNCTIONS["sort"]},
    **{overload.id: 1 for overload in FUNCTIONS["@sortByAssociatedKeys"]},
}
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
_ADDABLE: Final = frozenset({bytes, float, int, str, Uint, DurationValue, TimestampValue})


def _go_type(value: Value) -> str:
    return _GO_TYPES.get(type(value), "types.mapper")


def _needing_list(closure: Closure, argument: Closure) -> Closure:
    """Return a closure that panics if an argument is not a list, as upstream's accounting of costs does."""

    def run(frame: Frame) -> Value:
        try:
            value = argument(frame)
        except CelRuntimeError as error:
            value = error
        if type(value) is not list:
            missing = "Contains" if type(value) in _ADDABLE else "Add"
            message = f"interface conversion: {_go_type(value)} is not traits.Lister: missing method {missing}"
            raise EvaluationPanicError(f"internal error: {message}")
        return closure(frame)

    return run


_UNHASHABLE: Final = frozenset({Version, Format, bytes})


def _check_hashable(value: Value) -> None:
    """Raise EvaluationPanicError for a value that Go's maps cannot have as a key."""
    if type(value) in _UNHASHABLE:
        raise EvaluationPanicError(f"internal error: runtime error: hash of unhashable type {_go_type(value)}")


def _membership(element: Closure, values: list[Value]) -> Closure:
    """Return a closure for `element in values` with constant values, which upstream looks up in a hash table."""
    if not values:
        return _Constant(False)
    if not all(type(value) in (bool, int, Uint, float, str) for value in values):
        return lambda frame: contains(element(frame), values)

    def run(frame: Frame) -> bool:
        value = element(frame)
        _check_hashable(value)
        return contains(value, values)

    return run


def _invocation(node: Call, arguments: list[Closure]) -> Closure:
    """Return a closure that calls the function with the overload that fits the values."""
    singleton = SINGLETONS.get(node.function)
    if singleton is not None:
        return _plain_call(singleton, arguments)
    overloads = FUNCTIONS[node.function]
    chosen = [overload for overload in overloads if overload.id in node.overloads]
    if len(chosen) == 1:
        overload = chosen[0]
        checks = [
            (i, _predicate(wanted))
            for i, (wanted, operand) in enumerate(zip(overload.arguments, node.operands, strict=True))
            if not (operand.type == wanted and wanted.kind in _CONCRETE)
        ]
        if overload.implementation is not None and (overload.accepts_all or not checks):
            return _plain_call(overload.implementation, arguments)
        return _guarded_call(overload, checks, arguments)
    return _dispatching_call(node.function, overloads, arguments)


def _plain_call(function: Callable[..., Value], arguments: list[Closure]) -> Closure:
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
    """Return whether a value belongs to a type; of a list or map only the first element counts, as upstream."""
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


def result_as_bool(value: Value) -> bool:
    """Return the result of an expression. Raise CelRuntimeError if it is not a bool."""
    if type(value) is bool:
        return value
    name = type_name(value)
    raise CelRuntimeError(f"CEL result of type {name} could not be converted to bool: {_not_a_bool(name)}")


def _not_a_bool(name: str) -> str:
    if name == "string":
        return "unsupported native conversion from string to 'bool'"
    if name in ("int", "uint"):
        return f"unsupported type conversion from '{name}' to bool"
    if name == "double":
        return "type conversion error from Double to 'bool'"
    return f"type conversion error from '{name.rpartition('.')[2]}' to 'bool'"


def new_frame(device: CelDevice, slots: int) -> Frame:
    """Return a frame of the given size for the evaluation on one device."""
    frame: Frame = [None] * slots
    frame[0] = device
    return frame
