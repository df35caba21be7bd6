"""The errors of an expression: it does not compile, or its evaluation fails.

Errors of compilation have their places, in the form in which the API server shows them.
"""

from __future__ import annotations

from typing import Final

_REPORTED: Final = 100  # errors of one expression, as upstream
_WIDE: Final = 0x80  # a character from here on is marked with full-width signs


class CelError(Exception):
    """An expression that the API server refuses. The text is the detail of the API server's validation error."""


class CelRuntimeError(Exception):
    """An evaluation that fails. The text is what kube-scheduler reports after "CEL runtime error:"."""


class EvaluationPanicError(Exception):
    """A failure that kube-scheduler's library reports as a panic: no operator ignores it, as it does other errors."""


def no_such_overload(function: str = "", *types: str) -> CelRuntimeError:
    """Return the error of a call whose arguments have types that the function does not accept."""
    if not function:
        return CelRuntimeError("no such overload")
    return CelRuntimeError(f"no such overload: {function}" + (f"({', '.join(types)})" if types else ""))


class Problems:
    """Collects the errors of one expression, each with the offset of the character that it is about."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._problems: list[tuple[int, str]] = []

    def __bool__(self) -> bool:
        return bool(self._problems)

    def add(self, offset: int, message: str) -> None:
        self._problems.append((offset, message))

    def raise_if_any(self) -> None:
        """Raise CelError with all errors, sorted by position in the expression; do nothing if there are none."""
        if not self._problems:
            return
        lines = [self._line(*problem) for problem in sorted(self._problems[:_REPORTED], key=lambda problem: problem[0])]
        if len(self._problems) > _REPORTED:
            lines.append(f"{len(self._problems) - _REPORTED} more errors were truncated")
        raise CelError("compilation failed: " + "\n".join(lines))

    def _line(self, offset: int, message: str) -> str:
        if offset < 0:  # an error about the whole expression
            return f"ERROR: <input>:-1:0: {message}"
        if not self._source:
            return f"ERROR: <input>:1:0: {message}"
        before = self._source[:offset]
        row = before.count("\n") + 1
        column = offset - (before.rfind("\n") + 1)
        text = self._source.split("\n")[row - 1].replace("\t", " ")
        dots = "".join(("．" if ord(c) >= _WIDE else ".") for c in text[:column])
        mark = "＾" if column < len(text) and ord(text[column]) >= _WIDE else "^"
        return f"ERROR: <input>:{row}:{column + 1}: {message}\n | {text}\n | {dots}{mark}"
