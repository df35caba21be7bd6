"""Selectors: compiled expressions that tell whether a device matches.

Owns: the limits of a selector, and the memory of results. Does not own: devices, or which selectors a claim has.
Invariant: `Selector.matches` depends only on the values that the expression reads.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, Final

from scheduler.engine.cel import types
from scheduler.engine.cel.ast import Expression
from scheduler.engine.cel.checker import check
from scheduler.engine.cel.device import CelDevice, Reference
from scheduler.engine.cel.errors import CelError, CelRuntimeError
from scheduler.engine.cel.evaluator import Closure, compile_tree, new_frame, result_as_bool
from scheduler.engine.cel.parser import parse
from scheduler.engine.cel.references import find_references

MAX_LENGTH: Final = 10 * 1024  # bytes of an expression, resourceapi.CELSelectorExpressionMaxLength
_MEMORIZED: Final = 4096  # results of one selector; devices that differ in what it reads are rarely more
_SELECTORS: Final = 1024  # compiled expressions; a cluster has as many as its device classes and claim templates
_DEEP: Final = 20_000  # frames of the deepest expression that the grammar's limits allow


class Selector:
    """A compiled expression. Devices that are alike in what it reads are evaluated once."""

    __slots__ = ("_closure", "_results", "_slots", "expression", "references")

    def __init__(self, expression: str, closure: Closure, slots: int, references: tuple[Reference, ...]) -> None:
        self.expression = expression
        self.references = references
        self._closure = closure
        self._slots = slots
        self._results: dict[Any, bool | str] = {}

    def key(self, device: CelDevice) -> Any:
        """Return a hashable value that is the same for devices that the expression cannot tell apart."""
        if device.problem is not None:
            return device.problem
        return tuple(map(device.key, self.references))

    def matches(self, device: CelDevice) -> bool:
        """Return whether the device matches. Raise CelRuntimeError with kube-scheduler's words if that fails."""
        key = self.key(device)
        result = self._results.get(key)
        if result is None:
            if len(self._results) >= _MEMORIZED:
                self._results.clear()
            try:
                result = self.evaluate(device)
            except CelRuntimeError as error:
                result = str(error)
            self._results[key] = result
        if isinstance(result, str):
            raise CelRuntimeError(result)
        return result

    def evaluate(self, device: CelDevice) -> bool:
        """Return whether the device matches without looking at earlier results."""
        if device.problem is not None:
            raise CelRuntimeError(device.problem)
        try:
            return result_as_bool(self._closure(new_frame(device, self._slots)))
        except RecursionError:
            _allow_deep_recursion()
            return result_as_bool(self._closure(new_frame(device, self._slots)))


@lru_cache(maxsize=_SELECTORS)
def compile_selector(expression: str) -> Selector:
    """Compile an expression. Raise CelError, with the API server's words, for one that the API server refuses."""
    if len(expression.encode("utf-8", "surrogatepass")) > MAX_LENGTH:
        raise CelError(f"Too long: may not be more than {MAX_LENGTH} bytes")
    try:
        return _compile(expression)
    except RecursionError:
        _allow_deep_recursion()
        return _compile(expression)


def _compile(expression: str) -> Selector:
    root = parse(expression)
    check(root, expression)
    _check_result(root)
    closure, slots = compile_tree(root)
    return Selector(expression, closure, slots, find_references(root))


def _check_result(root: Expression) -> None:
    if root.type != types.BOOL and root.type != types.ANY:
        raise CelError(f"must evaluate to bool or the unknown type, not {root.type.declared}")


def _allow_deep_recursion() -> None:
    """Raise Python's recursion limit: an expression may be nested 250 levels deep, with several frames for each."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEEP))
