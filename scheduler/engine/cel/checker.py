"""Type checks a tree: finds the type of each node and the overloads that each call may use.

Source: the CEL language definition and cel-go v0.26 (checker/checker.go, cel/validator.go).
"""

from __future__ import annotations

from scheduler.engine.cel import types
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
from scheduler.engine.cel.environment import DEVICE_FIELDS, FUNCTIONS, NAMED_TYPES, VARIABLES
from scheduler.engine.cel.errors import Problems
from scheduler.engine.cel.library.declaration import Overload
from scheduler.engine.cel.types import Kind, Substitutions, Type
from scheduler.engine.cel.validators import validate
from scheduler.engine.cel.values import Uint

_LITERALS = {
    bool: types.BOOL,
    bytes: types.BYTES,
    float: types.DOUBLE,
    int: types.INT,
    type(None): types.NULL,
    str: types.STRING,
    Uint: types.UINT,
}


def check(root: Expression, source: str) -> None:
    """Set the type and the overloads of each node of a tree, in place.

    Raise CelError, with the API server's messages, if types do not match or `validate` finds a problem.
    """
    problems = Problems(source)
    checker = _Checker(problems)
    checker.check(root)
    checker.finish(root)
    problems.raise_if_any()
    validate(root, problems)
    problems.raise_if_any()


class _Checker:
    """Walks the tree once. Types hold type parameters until `finish` replaces them."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._types = Substitutions()
        self._scopes: list[dict[str, Type]] = []
        self._checked: list[Expression] = []

    def check(self, node: Expression) -> None:
        self._checked.append(node)
        if isinstance(node, Literal):
            node.type = _LITERALS[type(node.value)]
        elif isinstance(node, Ident):
            self._check_ident(node)
        elif isinstance(node, Select):
            self._check_select(node)
        elif isinstance(node, Call):
            self._check_call(node)
        elif isinstance(node, ListLiteral):
            self._check_list(node)
        elif isinstance(node, MapLiteral):
            self._check_map(node)
        elif isinstance(node, Comprehension):
            self._check_comprehension(node)
        else:
            assert isinstance(node, StructLiteral)
            self._check_struct(node)

    def finish(self, root: Expression) -> None:
        """Replace, in all checked nodes, type parameters by the types that unification found, and free ones by dyn."""
        for node in self._checked:
            node.type = self._types.resolve(node.type, free_as_dyn=True)

    def _lookup(self, name: str) -> tuple[Type | None, Type | None]:
        """Return the type of a variable and None, or for the name of a type the types of the name and of its instances.

        Returns (None, None) if the name is unknown.
        """
        name = name.removeprefix(".")
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name], None
        if name in VARIABLES:
            return VARIABLES[name], None
        instance = NAMED_TYPES.get(name)
        return (None, None) if instance is None else (types.type_of(instance), instance)

    def _undeclared(self, node: Expression, name: str) -> None:
        node.type = types.ERROR
        self._problems.add(node.offset, f"undeclared reference to '{name}' (in container '')")

    def _check_ident(self, node: Ident) -> None:
        declared, instance = self._lookup(node.name)
        if declared is None:
            self._undeclared(node, node.name)
            return
        node.name = node.name.removeprefix(".")
        node.type, node.instance = declared, instance

    def _check_select(self, node: Select) -> None:
        name = None if node.test_only else qualified_name(node)
        if name is not None:
            declared, instance = self._lookup(name)
            if declared is not None and instance is not None:
                # The name of a type: the evaluator reads it from the operand, which it never evaluates.
                node.operand = Ident(node.offset, name.removeprefix("."))
                node.operand.instance = instance
                node.type = declared
                return
        result = self._field_type(node, node.operand, node.name, optional=False)
        node.type = types.BOOL if node.test_only else self._types.resolve(result)

    def _field_type(self, node: Expression, operand: Expression, name: str, optional: bool) -> Type:
        self.check(operand)
        target, was_optional = types.unwrap_optional(self._types.resolve(operand.type))
        result = types.ERROR
        if target.kind is Kind.MAP:
            result = target.parameters[1]
        elif target.kind is Kind.STRUCT:
            result = self._struct_field(node, target, name)
        elif target.kind is Kind.PARAMETER:
            self._types.unify([types.DYN], [target])
            result = types.DYN
        else:
            if not target.is_dynamic and target.kind is not Kind.ERROR:
                self._problems.add(node.offset, f"type '{target}' does not support field selection")
            result = types.DYN
        return types.optional_of(result) if optional or was_optional else result

    def _struct_field(self, node: Expression, target: Type, name: str) -> Type:
        if target != types.DEVICE:
            self._problems.add(node.offset, f"unexpected failed resolution of '{target.name}'")
            return types.ERROR
        field_type = DEVICE_FIELDS.get(name)
        if field_type is None:
            self._problems.add(node.offset, f"undefined field '{name}'")
            return types.ERROR
        return field_type

    def _check_call(self, node: Call) -> None:
        if node.function == "_?._":
            operand, field = node.arguments
            assert isinstance(field, Literal)
            result = self._field_type(node, operand, str(field.value), optional=True)
            field.type = types.STRING
            node.type = self._types.resolve(result)
            node.overloads = ("select_optional_field",)
            return
        for argument in node.arguments:
            self.check(argument)
        if node.target is not None:
            prefix = qualified_name(node.target)
            name = None if prefix is None else f"{prefix}.{node.function}".removeprefix(".")
            if name in FUNCTIONS:
                node.function, node.target = name, None
            else:
                self.check(node.target)
        name = node.function.removeprefix(".")
        overloads = FUNCTIONS.get(name)
        if overloads is None:
            self._undeclared(node, node.function)
            return
        node.function = name
        self._resolve_overloads(node, overloads)

    def _resolve_overloads(self, node: Call, overloads: list[Overload]) -> None:
        argument_types = [operand.type for operand in node.operands]
        if node.function in ("_&&_", "_||_"):
            self._check_logical(node, overloads[0])
            return
        matching: list[str] = []
        result: Type | None = None
        for overload in overloads:
            if overload.is_member is (node.target is None):
                continue
            wanted, returned = self._instantiate(overload)
            if self._types.unify(argument_types, wanted):
                matching.append(overload.id)
                result_type = self._types.resolve(returned)
                if result is None:
                    result = result_type
                elif not result.is_dynamic and result_type != result:
                    result = types.DYN
        if result is None:
            self._no_matching_overload(node, argument_types)
            return
        node.type = result
        node.overloads = tuple(matching)

    def _check_logical(self, node: Call, overload: Overload) -> None:
        node.type = types.BOOL
        node.overloads = (overload.id,)
        for argument in node.arguments:
            if not self._types.unify([argument.type], [types.BOOL]):
                self._mismatch(argument, types.BOOL, argument.type)
                node.type = types.ERROR

    def _instantiate(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        """Return the argument types and result type of an overload, with new type parameters in place of its own."""
        fresh = {parameter: self._types.fresh() for parameter in overload.parameters}
        if not fresh:
            return overload.arguments, overload.result
        return tuple(_replace(a, fresh) for a in overload.arguments), _replace(overload.result, fresh)

    def _no_matching_overload(self, node: Call, argument_types: list[Type]) -> None:
        shown = [str(self._types.resolve(one, free_as_dyn=True)) for one in argument_types]
        target = f"{shown.pop(0)}." if node.target is not None else ""
        signature = f"{target}({', '.join(shown)})"
        message = f"found no matching overload for '{node.function}' applied to '{signature}'"
        self._problems.add(node.offset, message)
        node.type = types.ERROR

    def _mismatch(self, node: Expression, expected: Type, actual: Type) -> None:
        self._problems.add(node.offset, f"expected type '{expected}' but found '{actual}'")

    def _join(self, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        if self._types.unify([previous], [current]):
            return types.most_general(previous, current)
        return types.DYN  # the validators report elements of different types

    def _element_type(self, node: Expression, optional: bool) -> Type:
        if not optional:
            return node.type
        inner, is_optional = types.unwrap_optional(node.type)
        if not is_optional and not inner.is_dynamic:
            self._mismatch(node, types.optional_of(inner), inner)
        return inner

    def _check_list(self, node: ListLiteral) -> None:
        joined: Type | None = None
        for i, element in enumerate(node.elements):
            self.check(element)
            joined = self._join(joined, self._element_type(element, i in node.optional))
        node.type = types.list_of(self._types.fresh() if joined is None else joined)

    def _check_map(self, node: MapLiteral) -> None:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            self.check(entry.key)
            key = self._join(key, entry.key.type)
            self.check(entry.value)
            value = self._join(value, self._element_type(entry.value, entry.optional))
        node.type = types.map_of(key or self._types.fresh(), value or self._types.fresh())

    def _check_struct(self, node: StructLiteral) -> None:
        declared, instance = self._lookup(node.name)
        if declared is None:
            self._undeclared(node, node.name)
            return
        node.type = types.ERROR
        if instance is None:
            self._problems.add(node.offset, f"'{declared.name}' is not a type")
        elif instance == types.DEVICE:
            node.type = instance
        else:
            self._problems.add(node.offset, f"'{instance.name}' is not a message type")
        for value in node.values:
            self.check(value)

    def _check_comprehension(self, node: Comprehension) -> None:
        self.check(node.range)
        self.check(node.initial)
        total = node.initial.type
        self._scopes.append({node.accumulator: total})
        first, second = self._iteration_types(node)
        scope = {node.variable: first}
        if node.second:
            scope[node.second] = second
        self._scopes.append(scope)
        self.check(node.condition)
        self._assert(node.condition, types.BOOL)
        self.check(node.step)
        self._assert(node.step, total)
        self._scopes.pop()
        self.check(node.result)
        self._scopes.pop()
        node.type = self._types.resolve(node.result.type)

    def _iteration_types(self, node: Comprehension) -> tuple[Type, Type]:
        over = self._types.resolve(node.range.type)
        if over.kind is Kind.LIST:
            element = over.parameters[0]
            return (types.INT, element) if node.second else (element, element)
        if over.kind is Kind.MAP:
            return over.parameters[0], over.parameters[1]
        if over.kind in (Kind.DYN, Kind.ERROR, Kind.PARAMETER):
            self._types.unify([types.DYN], [over])
            return types.DYN, types.DYN
        message = f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)"
        self._problems.add(node.range.offset, message)
        return types.ERROR, types.ERROR

    def _assert(self, node: Expression, expected: Type) -> None:
        if not self._types.unify([expected], [node.type]):
            self._mismatch(node, expected, node.type)


def qualified_name(node: Expression) -> str | None:
    """Return the dotted name `a.b.c` that nested selections form, or None if the node is no name or selection."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test_only:
        parts.append(node.name)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(parts)])


def _replace(original: Type, replacements: dict[Type, Type]) -> Type:
    replaced = replacements.get(original)
    if replaced is not None:
        return replaced
    if not original.parameters:
        return original
    return Type(original.kind, original.name, tuple(_replace(p, replacements) for p in original.parameters))
