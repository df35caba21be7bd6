"""Conversions between types: `int(x)`, `string(x)` and so on, `type(x)` and `dyn(x)`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

from scheduler.engine.cel.errors import CelRuntimeError
from scheduler.engine.cel.library.declaration import Overload, declare
from scheduler.engine.cel.library.gotext import parse_int, parse_uint
from scheduler.engine.cel.library.operators import checked_int, checked_uint
from scheduler.engine.cel.library.times import (
    checked_timestamp,
    format_duration,
    format_timestamp,
    parse_duration,
    parse_timestamp,
)
from scheduler.engine.cel.values import (
    INT64_MAX,
    INT64_MIN,
    NANOS_PER_S,
    UINT64_MAX,
    DurationValue,
    TimestampValue,
    TypeValue,
    Uint,
    Value,
    format_double,
    type_name,
)

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_DOUBLE: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan"
    r"|0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)",
    re.ASCII | re.IGNORECASE,
)


def _failed(source: str, target: str) -> CelRuntimeError:
    return CelRuntimeError(f"type conversion error from '{source}' to '{target}'")


def _identity(value: Value) -> Value:
    return value


def _double_to_int(value: float) -> int:
    if not math.isfinite(value) or value <= INT64_MIN or value >= float(INT64_MAX):
        raise CelRuntimeError("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> Uint:
    if not math.isfinite(value) or value < 0 or value >= float(UINT64_MAX):
        raise CelRuntimeError("unsigned integer overflow")
    return Uint(int(value))


def _string_to_int(text: str) -> int:
    number = parse_int(text)
    if number is None:
        raise _failed("string", "int")
    return number


def _string_to_uint(text: str) -> Uint:
    number = parse_uint(text)
    if number is None:
        raise _failed("string", "uint")
    return Uint(number)


def string_to_double(text: str) -> float:
    """Return the double that Go's strconv.ParseFloat reads. Raise CelRuntimeError for other text."""
    if not _DOUBLE.fullmatch(text):
        raise _failed("string", "double")
    try:
        number = float.fromhex(text) if "x" in text.lower() else float(text)
    except (OverflowError, ValueError):
        raise _failed("string", "double") from None
    if math.isinf(number) and "inf" not in text.lower():
        raise _failed("string", "double")
    return number


def _string_to_bool(text: str) -> bool:
    if text not in _TRUE and text not in _FALSE:
        raise _failed("string", "bool")
    return text in _TRUE


def string_to_duration(text: str) -> DurationValue:
    """Return the duration that a text such as `1h30m` means. Raise CelRuntimeError if the text is no duration."""
    duration = parse_duration(text)
    if duration is None:
        raise _failed("string", "google.protobuf.Duration")
    return duration


def string_to_timestamp(text: str) -> TimestampValue:
    """Return the timestamp that a text in RFC 3339 format means. Raise CelRuntimeError if the text is no time."""
    moment = parse_timestamp(text)
    if moment is None:
        raise _failed("string", "google.protobuf.Timestamp")
    return moment


def _bytes_to_string(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelRuntimeError("invalid UTF-8 in bytes, cannot convert to string") from None


def _int_to_duration(value: int) -> DurationValue:
    raise _failed("int", "google.protobuf.Duration")


def _string_to_bytes(text: str) -> bytes:
    return text.encode()


def _type_of(value: Value) -> TypeValue:
    return TypeValue(type_name(value))


SINGLETONS: Final[dict[str, Callable[..., Value]]] = {"type": _type_of, "dyn": _identity}

OVERLOADS: Final[tuple[Overload, ...]] = (
    declare("type", "type", "(A) -> type(A)"),
    declare("bool", "bool_to_bool", "(bool) -> bool", _identity),
    declare("bool", "string_to_bool", "(string) -> bool", _string_to_bool),
    declare("bytes", "bytes_to_bytes", "(bytes) -> bytes", _identity),
    declare("bytes", "string_to_bytes", "(string) -> bytes", _string_to_bytes),
    declare("double", "double_to_double", "(double) -> double", _identity),
    declare("double", "int64_to_double", "(int) -> double", float),
    declare("double", "string_to_double", "(string) -> double", string_to_double),
    declare("double", "uint64_to_double", "(uint) -> double", float),
    declare("duration", "duration_to_duration", "(duration) -> duration", _identity),
    declare("duration", "int64_to_duration", "(int) -> duration", _int_to_duration),
    declare("duration", "string_to_duration", "(string) -> duration", string_to_duration),
    declare("dyn", "to_dyn", "(A) -> dyn"),
    declare("int", "int64_to_int64", "(int) -> int", _identity),
    declare("int", "double_to_int64", "(double) -> int", _double_to_int),
    declare("int", "duration_to_int64", "(duration) -> int", lambda value: value.nanos),
    declare("int", "string_to_int64", "(string) -> int", _string_to_int),
    declare("int", "timestamp_to_int64", "(timestamp) -> int", lambda value: value.nanos // NANOS_PER_S),
    declare("int", "uint64_to_int64", "(uint) -> int", lambda value: checked_int(int(value))),
    declare("string", "string_to_string", "(string) -> string", _identity),
    declare("string", "bool_to_string", "(bool) -> string", lambda value: "true" if value else "false"),
    declare("string", "bytes_to_string", "(bytes) -> string", _bytes_to_string),
    declare("string", "double_to_string", "(double) -> string", format_double),
    declare("string", "duration_to_string", "(duration) -> string", format_duration),
    declare("string", "int64_to_string", "(int) -> string", str),
    declare("string", "timestamp_to_string", "(timestamp) -> string", format_timestamp),
    declare("string", "uint64_to_string", "(uint) -> string", str),
    declare("timestamp", "timestamp_to_timestamp", "(timestamp) -> timestamp", _identity),
    declare("timestamp", "int64_to_timestamp", "(int) -> timestamp", lambda s: checked_timestamp(s * NANOS_PER_S)),
    declare("timestamp", "string_to_timestamp", "(string) -> timestamp", string_to_timestamp),
    declare("uint", "uint64_to_uint64", "(uint) -> uint", _identity),
    declare("uint", "double_to_uint64", "(double) -> uint", _double_to_uint),
    declare("uint", "int64_to_uint64", "(int) -> uint", checked_uint),
    declare("uint", "string_to_uint64", "(string) -> uint", _string_to_uint),
)
FUNCTIONS: Final = frozenset(overload.function for overload in OVERLOADS)
