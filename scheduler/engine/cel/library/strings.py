"""Functions of strings."""

from __future__ import annotations

from typing import Final

from scheduler.engine.cel.errors import CelRuntimeError, no_such_overload
from scheduler.engine.cel.library.declaration import Overload, declare
from scheduler.engine.cel.library.formatting import format_string
from scheduler.engine.cel.values import Value, display

_SPACE: Final = (
    " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004"
    "\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_QUOTED: Final = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


def _out_of_range(index: int) -> CelRuntimeError:
    return CelRuntimeError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if not part:
        return len(text) if start is None else start
    if start is None:
        return text.rfind(part)
    if start < 0:
        raise _out_of_range(start)
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


def _lower_ascii(text: str) -> str:
    return "".join(c.lower() if "A" <= c <= "Z" else c for c in text)


def _upper_ascii(text: str) -> str:
    return "".join(c.upper() if "a" <= c <= "z" else c for c in text)


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    return text.replace(old, new, min(count, len(text) + 1))


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    limit = min(count, len(text) + 1) - 1 if count > 0 else -1
    if separator:
        return text.split(separator, limit)
    return list(text) if limit < 0 or limit >= len(text) else [*text[:limit], text[limit:]]


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        if not 0 <= start <= len(text):
            raise _out_of_range(start)
        return text[start:]
    if start > end:
        raise CelRuntimeError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


def _trim(text: str) -> str:
    return text.strip(_SPACE)


def _join(parts: list[Value], separator: str = "") -> str:
    for part in parts:
        if type(part) is not str:
            raise CelRuntimeError(f"join: invalid input: {display(part)}")
    return separator.join(parts)


def _quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


def _need_strings(one: Value, two: Value) -> None:
    if type(one) is not str or type(two) is not str:
        raise no_such_overload()


def _contains(text: Value, part: Value) -> bool:
    _need_strings(text, part)
    return part in text


def _ends_with(text: Value, end: Value) -> bool:
    _need_strings(text, end)
    return bool(text.endswith(end))


def _starts_with(text: Value, start: Value) -> bool:
    _need_strings(text, start)
    return bool(text.startswith(start))


STANDARD: Final[tuple[Overload, ...]] = (
    declare("contains", "contains_string", "string.(string) -> bool", _contains, accepts_all=True),
    declare("endsWith", "ends_with_string", "string.(string) -> bool", _ends_with, accepts_all=True),
    declare("startsWith", "starts_with_string", "string.(string) -> bool", _starts_with, accepts_all=True),
)
OVERLOADS: Final[tuple[Overload, ...]] = (
    declare("charAt", "string_char_at_int", "string.(int) -> string", _char_at),
    declare("indexOf", "string_index_of_string", "string.(string) -> int", _index_of),
    declare("indexOf", "string_index_of_string_int", "string.(string,int) -> int", _index_of),
    declare("lastIndexOf", "string_last_index_of_string", "string.(string) -> int", _last_index_of),
    declare("lastIndexOf", "string_last_index_of_string_int", "string.(string,int) -> int", _last_index_of),
    declare("lowerAscii", "string_lower_ascii", "string.() -> string", _lower_ascii),
    declare("replace", "string_replace_string_string", "string.(string,string) -> string", _replace),
    declare("replace", "string_replace_string_string_int", "string.(string,string,int) -> string", _replace),
    declare("split", "string_split_string", "string.(string) -> list(string)", _split),
    declare("split", "string_split_string_int", "string.(string,int) -> list(string)", _split),
    declare("substring", "string_substring_int", "string.(int) -> string", _substring),
    declare("substring", "string_substring_int_int", "string.(int,int) -> string", _substring),
    declare("trim", "string_trim", "string.() -> string", _trim),
    declare("upperAscii", "string_upper_ascii", "string.() -> string", _upper_ascii),
    declare("format", "string_format", "string.(list(dyn)) -> string", format_string),
    declare("strings.quote", "strings_quote", "(string) -> string", _quote),
    declare("join", "list_join", "list(string).() -> string", _join),
    declare("join", "list_join_string", "list(string).(string) -> string", _join),
)
