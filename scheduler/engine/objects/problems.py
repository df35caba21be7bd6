"""Field errors in the form of the API machinery: `PATH: Invalid value: VALUE: DETAIL`.

Strings are quoted as Go's %q does, other values are printed as JSON. Source:
k8s.io/apimachinery/pkg/util/validation/field (Error) and util/errors (aggregate) v1.36.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import msgspec


class ProblemType(Enum):
    """The type of a field error; the value is the API machinery's term for it."""

    INVALID = "Invalid value"
    REQUIRED = "Required value"
    FORBIDDEN = "Forbidden"
    DUPLICATE = "Duplicate value"
    NOT_SUPPORTED = "Unsupported value"


_WITHOUT_VALUE = frozenset({ProblemType.REQUIRED, ProblemType.FORBIDDEN})


@dataclass(frozen=True)
class Problem:
    """A validation error of one field: the type of error, the field's path and value, and the reason."""

    kind: ProblemType
    path: str
    value: object = ""
    detail: str = ""

    def below(self, parent: str) -> Problem:
        """Return the same problem with `parent` prepended to its path."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        return replace(self, path=f"{parent}{joint}{self.path}")

    def __str__(self) -> str:
        parts = [self.path, self.kind.value]
        if self.kind not in _WITHOUT_VALUE:
            value = self.value
            parts.append(quote_for_go(value) if isinstance(value, str) else msgspec.json.encode(value).decode())
        return ": ".join([*parts, self.detail] if self.detail else parts)


def invalid(path: str, value: object, detail: str) -> Problem:
    """Return the problem of a field whose value is malformed or out of range."""
    return Problem(ProblemType.INVALID, path, value, detail)


def required(path: str, detail: str = "") -> Problem:
    """Return the problem of a field whose value is missing."""
    return Problem(ProblemType.REQUIRED, path, detail=detail)


def forbidden(path: str, detail: str) -> Problem:
    """Return the problem of a field whose value is well-formed but not allowed there."""
    return Problem(ProblemType.FORBIDDEN, path, detail=detail)


def duplicate(path: str, value: object) -> Problem:
    """Return the problem of a field whose value may occur only once in a list."""
    return Problem(ProblemType.DUPLICATE, path, value)


def not_supported(path: str, value: object, supported: Sequence[str]) -> Problem:
    """Return the problem of a field whose value is not one of the `supported` values."""
    listed = ", ".join(f'"{each}"' for each in supported)
    return Problem(ProblemType.NOT_SUPPORTED, path, value, f"supported values: {listed}")


_ESCAPES: Final = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


def quote_for_go(text: str) -> str:
    """Return a string as Go's strconv.Quote writes it."""
    return f'"{"".join(map(_go_escaped, text))}"'


def _go_escaped(character: str) -> str:
    number = ord(character)
    if number in _ESCAPES:
        return _ESCAPES[number]
    if character.isprintable():
        return character
    return f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def aggregate(problems: Iterable[Problem]) -> str:
    """Return the problems as one line without repetitions: `[FIRST, SECOND]`, or `FIRST` if there is only one."""
    texts = list(dict.fromkeys(str(problem) for problem in problems))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def format_decode_error(message: str) -> str:
    """Return a decode error of msgspec in the API machinery's form and words: `PATH: DETAIL`.

    msgspec's own form is `DETAIL - at `$.PATH``.
    """
    match = re.fullmatch(r"(?s)(.*) - at `(?:key in )?\$\.?(.*)`", message)
    detail, path = (match[1], match[2]) if match else (message, "")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", detail)
    if unknown:
        return f'unknown field "{path + "." if path else ""}{unknown[1]}"'
    missing = re.fullmatch(r"Object missing required field `(.*)`", detail)
    if missing:
        return str(required(f"{path + '.' if path else ''}{missing[1]}"))
    return f"{path}: {detail}" if path else detail
