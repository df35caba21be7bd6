"""Selectors: compiled expressions that decide whether a device matches.

Owns: the limits of a selector, and the memory of results. Does not own: devices, or which selectors a claim has.
Invariant: `Selector.matches` depends only on the values that the expression reads.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from herodotus_record.lru import Lru
from scheduler.engine.cel import types
from scheduler.engine.cel.ast import Expression
from scheduler.engine.cel.checker import check
from scheduler.engine.cel.closures import Closure
from scheduler.engine.cel.cost import estimate_cost
from scheduler.engine.cel.device import CelDevice, Reference
from scheduler.engine.cel.errors import CelError, CelRuntimeError, EvaluationPanicError
from scheduler.engine.cel.evaluator import compile_tree, new_frame, result_as_bool
from scheduler.engine.cel.parser import parse
from scheduler.engine.cel.references import find_references
from scheduler.engine.cel.values import replace_surrogates

MAX_LENGTH: Final = 10 * 1024  # bytes of an expression, resourceapi.CELSelectorExpressionMaxLength
MAX_COST: Final = 1_000_000  # resourceapi.CELSelectorExpressionMaxCost
_MEMORIZED: Final = 4096  # results of one selector; devices that differ in what it reads are rarely more
# Characters of the compiled expressions that are kept. One of 10 KiB takes up to 1.3 MiB, so these take up to 65 MiB;
# each counts 1,000 more for its results. A cluster has as many as its device classes and claim templates.
_KEPT_CHARACTERS: Final = 512 * 1024
_DEEP: Final = 20_000  # frames of the deepest expression that the grammar's limits allow

_Result = TypeVar("_Result")


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
        """Return a hashable key that is equal for devices for which the expression has the same result."""
        if device.problem is not None:
            return device.problem
        return tuple([device.key(reference) for reference in self.references])

    def matches(self, device: CelDevice) -> bool:
        """Return whether the device matches. Raise CelRuntimeError, with kube-scheduler's message, if that fails."""
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
        """Evaluate the expression for the device, without the cache of `matches`, and return whether it is true.

        Raise CelRuntimeError if evaluation fails.
        """
        if device.problem is not None:
            raise CelRuntimeError(device.problem)
        try:
            return _nestable(lambda: result_as_bool(self._closure(new_frame(device, self._slots))))
        except EvaluationPanicError as error:
            raise CelRuntimeError(str(error)) from None
        except RecursionError:
            raise CelRuntimeError("the expression is nested too deeply") from None


_selectors: Final[Lru[str, Selector]] = Lru(_KEPT_CHARACTERS, lambda selector: len(selector.expression) + 1000)
_lock: Final = threading.Lock()  # a review may be decided in another thread


def compile_selector(expression: str) -> Selector:
    """Return the compiled expression. Raise CelError, with the API server's message, if the API server refuses it."""
    expression = replace_surrogates(expression)
    with _lock:
        selector = _selectors.get(expression)
    if selector is None:
        selector = compile_anew(expression)
        with _lock:
            _selectors.put(expression, selector)
    return selector


def compile_anew(expression: str) -> Selector:
    """Compile an expression as `compile_selector` does, but without its cache."""
    if len(expression.encode()) > MAX_LENGTH:
        raise CelError(f"Too long: may not be more than {MAX_LENGTH} bytes")
    try:
        return _nestable(lambda: _compile(expression))
    except RecursionError:
        raise CelError("compilation failed: the expression is nested too deeply") from None


def _compile(expression: str) -> Selector:
    root = parse(expression)
    check(root, expression)
    _check_result(root)
    closure, slots = compile_tree(root)
    if estimate_cost(root) > MAX_COST:
        raise CelError("too complex, exceeds cost limit")
    return Selector(expression, closure, slots, find_references(root))


def _check_result(root: Expression) -> None:
    if root.type != types.BOOL and root.type != types.ANY:
        raise CelError(f"must evaluate to bool or the unknown type, not {root.type.declared}")


def _nestable(work: Callable[[], _Result]) -> _Result:
    """Call `work` and return its result; if the recursion limit is exceeded, call it again with a higher limit.

    An expression may be nested 250 levels deep, with several frames for each level.
    """
    try:
        return work()
    except RecursionError:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _DEEP))
        try:
            return work()
        finally:
            sys.setrecursionlimit(limit)
