"""Go's text forms that appear in error messages: quoted strings and errors of number parsing."""

from __future__ import annotations

import re
from typing import Final

from scheduler.engine.cel.errors import CelRuntimeError
from scheduler.engine.cel.values import INT64_MAX, INT64_MIN, UINT64_MAX

_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
}
_LAST_BYTE: Final = 0x7F
_LAST_SHORT: Final = 0xFFFF
_SHOWN: Final = 20  # digits after which a number is certainly out of range
_INT: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UINT: Final = re.compile(r"[0-9]+", re.ASCII)


def quote(text: str) -> str:
    """Return a string as Go's `%q` writes it."""
    return '"' + "".join(map(_quote_character, text)) + '"'


def _quote_character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    if character.isprintable():
        return character
    if code <= _LAST_BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _LAST_SHORT else f"\\U{code:08x}"


def parse_int(text: str) -> int | None:
    """Return the int64 in a decimal text, or None if it is no such number."""
    number = _number(text) if _INT.fullmatch(text) else None
    return number if number is not None and INT64_MIN <= number <= INT64_MAX else None


def parse_uint(text: str) -> int | None:
    """Return the uint64 in a decimal text, or None if it is no such number."""
    number = _number(text) if _UINT.fullmatch(text) else None
    return number if number is not None and number <= UINT64_MAX else None


def _number(text: str) -> int | None:
    """Return the decimal integer in a text, or None if it has more digits than any number that matters.

    `int` refuses texts of more than 4,300 digits.
    """
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > _SHOWN:
        return None
    return -int(digits) if text.startswith("-") else int(digits)


def require_uint(text: str) -> int:
    """Return the uint64 in a decimal text. Raise CelRuntimeError, with the message of Go's strconv, otherwise."""
    number = parse_uint(text)
    if number is None:
        reason = "value out of range" if _UINT.fullmatch(text) else "invalid syntax"
        raise CelRuntimeError(f"strconv.ParseUint: parsing {quote(text)}: {reason}")
    return number


def require_atoi(text: str) -> int:
    """Return the int in a decimal text. Raise CelRuntimeError, with the message of Go's strconv.Atoi, otherwise."""
    number = parse_int(text)
    if number is None:
        reason = "value out of range" if _INT.fullmatch(text) else "invalid syntax"
        raise CelRuntimeError(f"strconv.Atoi: parsing {quote(text)}: {reason}")
    return number
