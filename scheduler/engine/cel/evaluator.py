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
from typing import Final

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
from scheduler.engine.cel.calls import NEEDS_LIST, PARSERS, invocation, membership, plain_call, require_list
from scheduler.engine.cel.closures import Closure, Constant, Frame, ParsedConstant, is_constant
from scheduler.engine.cel.device import CelDevice
from scheduler.engine.cel.environment import SINGLETONS, UNDEFINED_TYPES
from scheduler.engine.cel.errors import CelError, CelRuntimeError, EvaluationPanicError, no_such_overload
from scheduler.engine.cel.indexing import check_hashable, check_key, index, look_up, optional_index, pairs
from scheduler.engine.cel.library import conversions, regex
from scheduler.engine.cel.values import (
    NOTHING,
    DefaultMap,
    OptionalValue,
    TypeValue,
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

_UNSET: Final = object()


def compile_tree(root: Expression) -> tuple[Closure, int]:
    """Return a closure that evaluates a checked tree, and the number of entries of the frames that it takes.

    Raise CelError for a constant that cannot be converted, as the API server does.
    """
    compiler = _Compiler()
    return compiler.compile(root), compiler.slots


class _Compiler:
    """Compiles nodes from the leaves up, and gives each variable its slot."""

    def __init__(self) -> None:
        self.slots = 1
        self._scopes: list[dict[str, Closure]] = []
        self._growing: set[Closure] = set()  # these read a list or map that a loop builds
        self._panicking = 0  # closures so far that may panic

    def compile(self, node: Expression) -> Closure:
        if isinstance(node, Literal):
            return Constant(node.value)
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

    def operands(self, node: Call) -> list[Closure]:
        """Compile the operands of a call.

        Where upstream evaluates both of two operands even if the first fails, so does the compiled first one if the
        second may panic.
        """
        closures = []
        for operand in node.operands:
            before = self._panicking
            closures.append(self.compile(operand))
        evaluates_both = node.function in SINGLETONS or len(node.overloads) == 1
        if len(closures) == 2 and evaluates_both and self._panicking > before:
            closures[0] = _before_panic(*closures)
        return closures

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _ident(self, node: Ident) -> Closure:
        if node.instance is not None:
            if node.name in UNDEFINED_TYPES:
                raise CelError(f"program instantiation failed: reference to undefined type: {node.name}")
            return Constant(TypeValue(node.instance.name))
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
                    return bool(value.present and look_up(value.value, name)[1])
                return look_up(value, name)[1]

            return test
        return lambda frame: index(operand(frame), name)

    def _device_value(self, operand: Expression, key: Value) -> Closure | None:
        """Return a fast closure for `device.FIELD`, or for an attribute or capacity with constant names.

        `operand` is indexed by `key`. Returns None for any other operand.
        """
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
                of_domain = frame[0].attributes.get(domain_name)
                if of_domain is None or key not in of_domain:
                    raise CelRuntimeError(f"no such key: {key}")
                return of_domain[key]

            return attribute

        def capacity(frame: Frame) -> Value:
            of_domain = frame[0].capacity.get(domain_name)
            if of_domain is None or key not in of_domain:
                raise CelRuntimeError(f"no such key: {key}")
            return of_domain[key]

        return capacity if table.name == "capacity" else None

    def _is_local(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)

    def _call(self, node: Call) -> Closure:
        special = _SPECIAL.get(node.function)
        if special is not None:
            return special(self, node)
        arguments = self.operands(node)
        closure = self._growth(node, arguments) or invocation(node, arguments)
        return self._folded(node, arguments, closure)

    def _folded(self, node: Call, arguments: list[Closure], closure: Closure) -> Closure:
        """Return a closure for the call that does part of the work now, or `closure` if nothing can be done in advance.

        Conversions of constants are evaluated, and constant patterns compiled. Raises CelError if that fails.
        """
        if len(arguments) == 1 and node.function in conversions.FUNCTIONS and is_constant(arguments[0]):
            try:
                return Constant(closure([]))
            except CelRuntimeError as error:
                raise CelError(f"program instantiation failed: {error}") from None
        if node.function in PARSERS and all(isinstance(argument, Constant) for argument in arguments):
            with suppress(CelRuntimeError):  # the evaluation fails then
                return ParsedConstant(closure([]))
        if node.function in regex.FUNCTIONS and len(arguments) > 1 and is_constant(arguments[1]):
            pattern = arguments[1]([])
            if type(pattern) is str:
                try:
                    regex.compile_pattern(pattern)
                except CelRuntimeError as error:
                    raise CelError(f"program instantiation failed: {error}") from None
                return plain_call(partial(regex.with_constant_pattern, node.function), arguments)
        if node.overloads == ("in_list",) and is_constant(arguments[1]):
            self._panicking += 1
            return membership(arguments[0], arguments[1]([]))
        if len(node.overloads) == 1 and node.overloads[0] in NEEDS_LIST:
            self._panicking += 1
            return require_list(closure, arguments[NEEDS_LIST[node.overloads[0]]])
        return closure

    def _growth(self, node: Call, arguments: list[Closure]) -> Closure | None:
        """Return a closure that extends the total of the surrounding loop in place, or None if the call does not."""
        if not arguments or arguments[0] not in self._growing:
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
            if all(map(is_constant, elements)):
                return Constant([element([]) for element in elements])
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
        self._panicking += not all(isinstance(e.key, Literal) for e in node.entries)

        def build(frame: Frame) -> dict[Value, Value]:
            mapping: dict[Value, Value] = {}
            for key_of, value_of, optional in entries:
                key, value = key_of(frame), value_of(frame)
                check_hashable(key)
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

        if all(is_constant(key) and is_constant(value) for key, value, _ in entries):
            if any(optional for *_, optional in entries):
                return build
            try:
                return Constant(build([]))
            except EvaluationPanicError as error:  # upstream's API server panics, so that no such object exists
                raise CelError(f"program instantiation failed: {error}") from None
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
            self._growing.add(read_total)
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
            entries = pairs(elements) if has_second else None
            start = initial(frame)
            frame[total] = type(start)() if grows else start
            for element in iterate(elements) if entries is None else entries:
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

        return run


def _before_panic(left: Closure, right: Closure) -> Closure:
    """Return a closure for `left` that, if `left` fails, also evaluates `right`.

    If `right` then panics, its panic replaces the error of `left`.
    """

    def run(frame: Frame) -> Value:
        try:
            return left(frame)
        except CelRuntimeError:
            with suppress(CelRuntimeError):
                right(frame)
            raise

    return run


def _stop_value(node: Comprehension) -> Value:
    """Return the total at which a loop may stop: False for `all`, True for `exists`, `_UNSET` for other loops."""
    condition = node.condition
    if not isinstance(condition, Call):
        return _UNSET
    return isinstance(condition.arguments[0], Call)


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


def _compile_index(compiler: _Compiler, node: Call) -> Closure:
    target_node, key_node = node.arguments
    if isinstance(key_node, Literal):
        special = compiler._device_value(target_node, key_node.value) if isinstance(target_node, Call) else None
        if special is not None:
            return special
    target, key = compiler.compile(target_node), _compile_key(compiler, key_node)
    return _lazy_key(index, target, key)


def _lazy_key(look_up: Callable[[Value, Value], Value], target: Closure, key: Closure) -> Closure:
    """Return a closure that looks up the value of `key` in that of `target`, or returns `NOTHING` if that is `NOTHING`.

    In the latter case `key` is not evaluated.
    """

    def run(frame: Frame) -> Value:
        value = target(frame)
        return NOTHING if value is NOTHING else look_up(value, key(frame))

    return run


def _compile_key(compiler: _Compiler, node: Expression) -> Closure:
    key = compiler.compile(node)
    if is_constant(key):
        try:
            check_key(key([]))
        except CelRuntimeError as error:
            raise CelError(f"program instantiation failed: {error}") from None
    return key


def _compile_optional_index(compiler: _Compiler, node: Call) -> Closure:
    target, key = compiler.compile(node.arguments[0]), _compile_key(compiler, node.arguments[1])
    return _lazy_key(optional_index, target, key)


def _compile_logical(decides: bool) -> Callable[[_Compiler, Call], Closure]:
    """Return the function that compiles calls of && (`decides` is False) or || (`decides` is True).

    `decides` is the value of an operand that determines the result alone.
    """
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
    left, right = compiler.operands(node)
    return lambda frame: equal(left(frame), right(frame))


def _compile_not_equal(compiler: _Compiler, node: Call) -> Closure:
    left, right = compiler.operands(node)

    def run(frame: Frame) -> bool:
        one, two = left(frame), right(frame)
        try:
            return not equal(one, two)
        except CelRuntimeError:
            return True  # values that cannot be compared are unequal, as upstream

    return run


def _compile_or(compiler: _Compiler, node: Call) -> Closure:
    """Compile `or` and `orValue`, which evaluate the argument only if the optional has no value."""
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


def result_as_bool(value: Value) -> bool:
    """Return the value of an expression if it is a bool. Otherwise raise CelRuntimeError."""
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
    """Return a frame of `slots` entries, with the device in the first one."""
    frame: Frame = [None] * slots
    frame[0] = device
    return frame
