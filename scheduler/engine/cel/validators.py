"""Checks of a typed tree: constants of conversions and patterns, equal types in literals, and formats.

Source: cel-go v0.26 (cel/validator.go, ext/formatting.go).
"""

from __future__ import annotations

from typing import Final

from scheduler.engine.cel import types
from scheduler.engine.cel.ast import Call, Expression, ListLiteral, Literal, MapLiteral, children
from scheduler.engine.cel.errors import CelRuntimeError, Problems
from scheduler.engine.cel.library.conversions import string_to_duration, string_to_timestamp
from scheduler.engine.cel.library.formatting import ERRORS, STRING_ERROR, FormatError, clauses
from scheduler.engine.cel.library.regex import compile_pattern
from scheduler.engine.cel.library.times import MAX_UNIX_S, MIN_UNIX_S
from scheduler.engine.cel.types import Kind, Type

_TEXT_KINDS: Final = frozenset(
    {
        Kind.LIST,
        Kind.MAP,
        Kind.INT,
        Kind.UINT,
        Kind.DOUBLE,
        Kind.BOOL,
        Kind.STRING,
        Kind.TIMESTAMP,
        Kind.BYTES,
        Kind.DURATION,
        Kind.TYPE,
        Kind.NULL,
    }
)
_CLAUSE_KINDS: Final = {
    "d": frozenset({Kind.INT, Kind.UINT}),
    "f": frozenset({Kind.DOUBLE, Kind.STRING}),
    "e": frozenset({Kind.DOUBLE, Kind.STRING}),
    "b": frozenset({Kind.INT, Kind.UINT, Kind.BOOL}),
    "x": frozenset({Kind.INT, Kind.UINT, Kind.STRING, Kind.BYTES}),
    "o": frozenset({Kind.INT, Kind.UINT}),
}


def validate(root: Expression, problems: Problems) -> None:
    """Add to `problems` what the checks of this module find in a typed tree."""
    _visit(root, problems, in_format=False)


def _visit(node: Expression, problems: Problems, in_format: bool) -> None:
    if isinstance(node, Call):
        _check_constant(node, problems)
        if node.function == "format":
            in_format = True
            _check_format(node, problems)
    elif isinstance(node, ListLiteral) and not in_format:
        _check_list(node, problems)
    elif isinstance(node, MapLiteral) and not in_format:
        _check_map(node, problems)
    for child in children(node):
        _visit(child, problems, in_format)


def _check_constant(node: Call, problems: Problems) -> None:
    """Report a problem if the first argument of `duration`, `timestamp` or `matches` is a constant that is invalid."""
    if node.function not in ("duration", "timestamp", "matches") or not node.arguments:
        return
    argument = node.arguments[0]
    if isinstance(argument, Literal) and not _is_valid(node.function, argument.value):
        problems.add(argument.offset, f"invalid {node.function} argument")


def _is_valid(function: str, value: object) -> bool:
    try:
        if function == "timestamp" and isinstance(value, int):
            return MIN_UNIX_S <= value <= MAX_UNIX_S
        if not isinstance(value, str):
            return False
        if function == "matches":
            compile_pattern(value)
        elif function == "duration":
            string_to_duration(value)
        else:
            string_to_timestamp(value)
    except CelRuntimeError:
        return False
    return True


def _report(node: Expression, expected: Type, actual: Type, problems: Problems) -> None:
    problems.add(node.offset, f"expected type '{expected}' but found '{actual}'")


def _inner(node: Expression, optional: bool) -> Type:
    return node.type.parameters[0] if optional and node.type.parameters else node.type


def _check_list(node: ListLiteral, problems: Problems) -> None:
    first: Type | None = None
    for i, element in enumerate(node.elements):
        current = _inner(element, i in node.optional)
        if first is None:
            first = current
        elif not first.is_equivalent(current):
            _report(element, first, current, problems)
            return


def _check_map(node: MapLiteral, problems: Problems) -> None:
    if not node.entries:
        return
    first_key = node.entries[0].key.type
    first_value = _inner(node.entries[0].value, node.entries[0].optional)
    for entry in node.entries[1:]:
        if not first_key.is_equivalent(entry.key.type):
            _report(entry.key, first_key, entry.key.type, problems)
        value = _inner(entry.value, entry.optional)
        if not first_value.is_equivalent(value):
            _report(entry.value, first_value, value, problems)


def _check_format(node: Call, problems: Problems) -> None:
    """Report problems of a `format` call whose format is a constant and whose arguments are a list literal."""
    text = node.target
    arguments = node.arguments[0] if len(node.arguments) == 1 else None
    if not isinstance(text, Literal) or type(text.value) is not str or not isinstance(arguments, ListLiteral):
        return
    elements = arguments.elements
    used = 0
    try:
        for _, letter, _ in clauses(text.value, len(elements)):
            if letter:
                used += 1
                wrong = _wrong_argument(letter, elements[used - 1])
                if wrong is not None:
                    template = STRING_ERROR if letter == "s" else ERRORS[letter]
                    problems.add(wrong.offset, "error during formatting: " + template.format(wrong.type.name))
                    return
    except FormatError as error:
        problems.add(node.offset, str(error))
        return
    if len(elements) > used:
        message = f"too many arguments supplied to string.format (expected {used}, got {len(elements)})"
        problems.add(node.offset, message)


def _wrong_argument(letter: str, node: Expression) -> Expression | None:
    """Return the node whose type the clause with this letter does not accept, or None if it accepts the argument.

    The node is the argument or, for the clause `s`, an element of it.
    """
    if letter != "s":
        return None if node.type == types.DYN or node.type.kind in _CLAUSE_KINDS[letter.lower()] else node
    if node.type != types.DYN and node.type.kind not in _TEXT_KINDS:
        return node
    if isinstance(node, (ListLiteral, MapLiteral)):
        for child in children(node):
            wrong = _wrong_argument("s", child)
            if wrong is not None:
                return wrong
    return None
