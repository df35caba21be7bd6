"""`string.format(list)`: the clauses of a format, checked in advance for constants and carried out at run time.

Source: cel-go v0.26 (ext/formatting.go) with the locale en_US.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Final

from scheduler.engine.cel.errors import CelRuntimeError
from scheduler.engine.cel.library.gotext import quote, require_atoi
from scheduler.engine.cel.library.times import format_duration, format_timestamp
from scheduler.engine.cel.values import (
    DurationValue,
    TimestampValue,
    Uint,
    Value,
    find,
    format_double,
    is_map,
    iterate,
    type_name,
)

DEFAULT_PRECISION: Final = 6
_MOST_DIGITS: Final = 10_000  # no more digits after the point than an expression has characters
_CLAUSE: Final = re.compile(r"%(?:\.([0-9]*))?(.)?", re.DOTALL)
_NAMES_OF_DOUBLES: Final = frozenset({"NaN", "Infinity", "-Infinity"})

STRING_ERROR: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps, was given {}"
)
ERRORS: Final = {
    "s": STRING_ERROR,
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "X": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
}


class FormatError(Exception):
    """A format that cannot be carried out."""


def clauses(text: str, count: int) -> Iterator[tuple[str, str, int]]:
    """Yield (literal text before, clause letter, precision) for each clause of a format.

    The last item has the text after the last clause and an empty letter. `count` is the number of arguments. Raise
    FormatError for a malformed clause or one without an argument.
    """
    literal: list[str] = []
    position = used = 0
    while (percent := text.find("%", position)) >= 0:
        literal.append(text[position:percent])
        if text.startswith("%%", percent):
            literal.append("%")
            position = percent + 2
            continue
        if used >= count:
            raise FormatError(f"index {used} out of range")
        if percent + 1 >= len(text):
            raise FormatError("unexpected end of string")
        match = _CLAUSE.match(text, percent)
        assert match is not None
        precision = _precision(match)
        letter = match[2]
        if letter not in ERRORS:
            shown = letter if ord(letter) < 0x80 else letter.encode()[:1].decode("latin-1")
            raise FormatError(f'could not parse formatting clause: unrecognized formatting clause "{shown}"')
        yield "".join(literal), letter, precision
        literal.clear()
        used += 1
        position = match.end()
    yield "".join(literal) + text[position:], "", 0


def _precision(match: re.Match[str]) -> int:
    failed = "could not parse formatting clause: error while parsing precision: "
    if match[1] is None:
        return DEFAULT_PRECISION
    if match[2] is None:
        raise FormatError(failed + "could not find end of precision specifier")
    try:
        return require_atoi(match[1])
    except CelRuntimeError as error:
        raise FormatError(f"{failed}error while converting precision to integer: {error}") from None


def format_string(text: str, arguments: list[Value]) -> str:
    """Return the formatted text. Raise CelRuntimeError if the format is malformed or does not fit the arguments."""
    parts = []
    position = 0
    try:
        for before, letter, precision in clauses(text, len(arguments)):
            parts.append(before)
            if letter:
                parts.append(_format_one(letter, precision, arguments[position]))
                position += 1
    except FormatError as error:
        raise CelRuntimeError(str(error)) from None
    return "".join(parts)


def _format_one(letter: str, precision: int, value: Value) -> str:
    formatted: str | None
    if letter in "fe":
        formatted = _double_clause(letter, precision, value)
    else:
        formatted = _FORMATS[letter.lower()](value)
    if formatted is None:
        raise FormatError("error during formatting: " + ERRORS[letter].format(type_name(value)))
    return formatted.upper() if letter == "X" else formatted


def _double_clause(letter: str, precision: int, value: Value) -> str | None:
    if type(value) is str and value in _NAMES_OF_DOUBLES:
        value = float(value)
    if type(value) is not float:
        return None
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    digits = min(precision, _MOST_DIGITS)
    if letter == "f":
        return f"{value:,.{digits}f}"
    mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
    raised = "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(c)] if c.isdigit() else "⁻" for c in f"{int(exponent):03d}".removeprefix("+"))
    return f"{mantissa}\u202f×\u202f10{raised if exponent.startswith('-') else raised[1:]}"


def _decimal(value: Value) -> str | None:
    return str(int(value)) if type(value) in (int, Uint) else None


def _binary(value: Value) -> str | None:
    return f"{value:b}" if type(value) in (int, Uint, bool) else None


def _octal(value: Value) -> str | None:
    return f"{value:o}" if type(value) in (int, Uint) else None


def _hex(value: Value) -> str | None:
    if type(value) is str:
        return value.encode().hex()
    if type(value) is bytes:
        return value.hex()
    return f"{value:x}" if type(value) in (int, Uint) else None


def _text(value: Value) -> str | None:
    """Return a value as the clause `%s` shows it, or None for a type that the clause does not accept.

    Raise FormatError for bytes that are not UTF-8, or for such a type within a list or map.
    """
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if kind in (int, Uint):
        return str(int(value))
    if kind is float:
        return format_double(value)
    if kind is bytes:
        try:
            return str(value.decode())
        except UnicodeDecodeError:
            raise FormatError(
                'error during formatting: could not convert argument "invalid UTF-8 in bytes, cannot convert to '
                'string" to string'
            ) from None
    if kind is str:
        return str(value)
    if value is None:
        return "null"
    if kind is DurationValue:
        return format_duration(value)
    if kind is TimestampValue:
        return format_timestamp(value)
    if kind is list or is_map(value):
        return _element(value)
    name = getattr(value, "name", None)
    return name if type_name(value) == "type" else None


def _element(value: Value) -> str:
    """Return a value as text in the form for elements of a list or map. Raise FormatError for a type without one."""
    kind = type(value)
    if kind is list:
        return f"[{', '.join(map(_element, value))}]"
    if is_map(value):
        entries = sorted((_element_key(key), _element(find(value, key)[0])) for key in iterate(value))
        return "{" + ", ".join(f"{key}:{element}" for key, element in entries) + "}"
    if kind is str:
        return quote(value)
    if kind is bytes:
        return "b" + quote(_text(value) or "")
    if kind is float:
        return f"{value:.{DEFAULT_PRECISION}f}" if math.isfinite(value) else quote(format_double(value))
    if kind is DurationValue:
        return f"duration({quote(format_duration(value))})"
    if kind is TimestampValue:
        return f"timestamp({quote(format_timestamp(value))})"
    text = _text(value)
    if text is None:
        raise FormatError(f"error during formatting: no formatting function for {type_name(value)}")
    return text


def _element_key(key: Value) -> str:
    if type(key) not in (str, bool, int, Uint):
        raise FormatError(f"error during formatting: no formatting function for map key of type {type_name(key)}")
    return _element(key)


_FORMATS: Final[dict[str, Callable[[Value], str | None]]] = {
    "s": _text,
    "d": _decimal,
    "b": _binary,
    "o": _octal,
    "x": _hex,
}
