"""Expands macros: calls that stand for a loop, a local variable or a presence test.

Source: cel-go v0.26 (parser/macro.go, cel/library.go, ext/bindings.go, ext/comprehensions.go, ext/lists.go).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.engine.cel.ast import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Expression,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    copy_tree,
)


class MacroError(Exception):
    """A macro whose arguments have the wrong form."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message


_Macro = Callable[[int, Expression, list[Expression]], Expression | None]
_UNUSED: Final = "#unused"
_SORTED: Final = "@__sortBy_input__"


def expand(offset: int, function: str, target: Expression | None, arguments: list[Expression]) -> Expression | None:
    """Return the expression to which a macro call expands, or None for a call that is no macro.

    Raise MacroError if the arguments are malformed.
    """
    if target is None:
        return _has(offset, arguments[0]) if function == "has" and len(arguments) == 1 else None
    macro = _RECEIVER_MACROS.get((function, len(arguments)))
    return None if macro is None else macro(offset, target, arguments)


def _has(offset: int, argument: Expression) -> Expression:
    if not isinstance(argument, Select):
        raise MacroError(argument.offset, "invalid argument to has() macro")
    return Select(offset, argument.operand, argument.name, test_only=True)


def _loop_variable(argument: Expression, message: str) -> str:
    if not isinstance(argument, Ident):
        raise MacroError(argument.offset, message)
    if argument.name == ACCUMULATOR:
        raise MacroError(argument.offset, "iteration variable overwrites accumulator variable")
    return argument.name


def _variables(arguments: list[Expression], count: int, message: str) -> tuple[str, str]:
    """Return the names of the loop's two variables, which are the first `count` (1 or 2) arguments.

    The second name is "" if `count` is 1. Raise MacroError with `message` if an argument is no simple name.
    """
    if count == 1:
        return _loop_variable(arguments[0], message), ""
    for argument in arguments[:2]:
        if not isinstance(argument, Ident):
            raise MacroError(argument.offset, message)
    first, second = arguments[0], arguments[1]
    assert isinstance(first, Ident)
    assert isinstance(second, Ident)
    if first.name == second.name:
        raise MacroError(second.offset, f"duplicate variable name: {first.name}")
    return _loop_variable(first, message), _loop_variable(second, message)


_SIMPLE_NAME: Final = "argument must be a simple name"
_IDENTIFIER: Final = "argument is not an identifier"


def _quantifier(kind: str, count: int) -> _Macro:
    """Return a function that expands `all`, `exists` or `exists_one` (`kind`) with `count` iteration variables."""

    def build(offset: int, target: Expression, arguments: list[Expression]) -> Expression:
        first, second = _variables(arguments, count, _SIMPLE_NAME)
        predicate = arguments[count]

        def total() -> Expression:
            return Ident(offset, ACCUMULATOR)

        def call(function: str, *operands: Expression) -> Expression:
            return Call(offset, function, None, list(operands))

        result = total()
        if kind == "all":
            initial: Expression = Literal(offset, True)
            condition = call("@not_strictly_false", total())
            step = call("_&&_", total(), predicate)
        elif kind == "exists":
            initial = Literal(offset, False)
            condition = call("@not_strictly_false", call("!_", total()))
            step = call("_||_", total(), predicate)
        else:
            initial = Literal(offset, 0)
            condition = Literal(offset, True)
            step = call("_?_:_", predicate, call("_+_", total(), Literal(offset, 1)), total())
            result = call("_==_", total(), Literal(offset, 1))
        return Comprehension(offset, target, first, second, ACCUMULATOR, initial, condition, step, result)

    return build


def _filtered(offset: int, predicate: Expression | None, step: Expression) -> Expression:
    return step if predicate is None else Call(offset, "_?_:_", None, [predicate, step, Ident(offset, ACCUMULATOR)])


def _collect(
    offset: int, target: Expression, names: tuple[str, str], predicate: Expression | None, element: Expression
) -> Expression:
    """Return a loop whose result is the list of the values of `element`, for the elements where `predicate` holds.

    If `predicate` is None, it holds for all elements.
    """
    step: Expression = Call(offset, "_+_", None, [Ident(offset, ACCUMULATOR), ListLiteral(offset, [element])])
    step = _filtered(offset, predicate, step)
    start, always = ListLiteral(offset, []), Literal(offset, True)
    return Comprehension(offset, target, *names, ACCUMULATOR, start, always, step, Ident(offset, ACCUMULATOR))


def _map(offset: int, target: Expression, arguments: list[Expression]) -> Expression:
    names = _variables(arguments, 1, _IDENTIFIER)
    return _collect(offset, target, names, arguments[1] if len(arguments) == 3 else None, arguments[-1])


def _filter(offset: int, target: Expression, arguments: list[Expression]) -> Expression:
    names = _variables(arguments, 1, _IDENTIFIER)
    return _collect(offset, target, names, arguments[1], arguments[0])


def _transform_list(offset: int, target: Expression, arguments: list[Expression]) -> Expression:
    names = _variables(arguments, 2, _SIMPLE_NAME)
    return _collect(offset, target, names, arguments[2] if len(arguments) == 4 else None, arguments[-1])


def _transform_map(with_key: bool) -> _Macro:
    """Return the function that expands transformMap (`with_key`: each value keeps its key) or transformMapEntry."""

    def build(offset: int, target: Expression, arguments: list[Expression]) -> Expression:
        first, second = _variables(arguments, 2, _SIMPLE_NAME)
        inserted = [Ident(offset, first), arguments[-1]] if with_key else [arguments[-1]]
        step: Expression = Call(offset, "cel.@mapInsert", None, [Ident(offset, ACCUMULATOR), *inserted])
        step = _filtered(offset, arguments[2] if len(arguments) == 4 else None, step)
        start, always = MapLiteral(offset, []), Literal(offset, True)
        total = Ident(offset, ACCUMULATOR)
        return Comprehension(offset, target, first, second, ACCUMULATOR, start, always, step, total)

    return build


def _bind(offset: int, name: str, value: Expression, result: Expression) -> Expression:
    """Return an expression with the value of `result`, in which the variable `name` has the value of `value`."""
    nothing, never = ListLiteral(offset, []), Literal(offset, False)
    return Comprehension(offset, nothing, _UNUSED, "", name, value, never, Ident(offset, name), result)


def _cel_bind(offset: int, target: Expression, arguments: list[Expression]) -> Expression | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    if not isinstance(arguments[0], Ident):
        raise MacroError(arguments[0].offset, "cel.bind() variable names must be simple identifiers")
    return _bind(offset, arguments[0].name, arguments[1], arguments[2])


def _optional_map(function: str) -> _Macro:
    """Return the function that expands optMap or optFlatMap."""

    def build(offset: int, target: Expression, arguments: list[Expression]) -> Expression:
        if not isinstance(arguments[0], Ident):
            message = f"{function}() variable name must be a simple identifier"
            raise MacroError(arguments[0].offset, message)
        value = Call(offset, "value", copy_tree(target), [])
        mapped = _bind(offset, arguments[0].name, value, arguments[1])
        if function == "optMap":
            mapped = Call(offset, "optional.of", None, [mapped])
        present = Call(offset, "hasValue", target, [])
        return Call(offset, "_?_:_", None, [present, mapped, Call(offset, "optional.none", None, [])])

    return build


def _sort_by(offset: int, target: Expression, arguments: list[Expression]) -> Expression:
    if not isinstance(target, (ListLiteral, Select, Ident, Comprehension, Call)):
        message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise MacroError(target.offset, message)
    keys = _map(offset, Ident(offset, _SORTED), arguments)
    return _bind(offset, _SORTED, target, Call(offset, "@sortByAssociatedKeys", Ident(offset, _SORTED), [keys]))


_RECEIVER_MACROS: Final[dict[tuple[str, int], _Macro]] = {
    **{(name, 2): _quantifier(name, 1) for name in ("all", "exists", "exists_one")},
    **{(name, 3): _quantifier(name, 2) for name in ("all", "exists", "exists_one", "existsOne")},
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map(with_key=True),
    ("transformMap", 4): _transform_map(with_key=True),
    ("transformMapEntry", 3): _transform_map(with_key=False),
    ("transformMapEntry", 4): _transform_map(with_key=False),
    ("bind", 3): _cel_bind,
    ("optMap", 2): _optional_map("optMap"),
    ("optFlatMap", 2): _optional_map("optFlatMap"),
    ("sortBy", 2): _sort_by,
}
