"""Closures: a compiled expression is a tree of functions, which compute values from the values of variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from scheduler.engine.cel.values import Value

Frame: TypeAlias = list[Any]
Closure: TypeAlias = Callable[[Frame], Value]


class Constant:
    """A closure that always returns one value."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __call__(self, _: Frame) -> Value:
        return self.value


class ParsedConstant(Constant):
    """A constant that upstream computes in each evaluation, so that rules about constants do not apply to it."""

    __slots__ = ()


def is_constant(closure: Closure) -> bool:
    """Return whether upstream also treats the closure as a constant, which a `ParsedConstant` is not."""
    return type(closure) is Constant
