"""Compilation errors with their places, in the form in which the API server shows them."""

from __future__ import annotations

from typing import Final

from scheduler.engine.cel.errors import CelError

_REPORTED: Final = 100  # errors of one expression, as upstream
_WIDE: Final = 0x80  # a character from here on is marked with full-width signs


class Problems:
    """Collects the errors of one expression, each with the offset of the character that it is about."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._found: list[tuple[int, str]] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, offset: int, message: str) -> None:
        self._found.append((offset, message))

    def raise_if_any(self) -> None:
        """Raise CelError with all errors in the order of their places, if there are any."""
        if not self._found:
            return
        lines = [self._line(*problem) for problem in sorted(self._found[:_REPORTED], key=lambda found: found[0])]
        if len(self._found) > _REPORTED:
            lines.append(f"{len(self._found) - _REPORTED} more errors were truncated")
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
