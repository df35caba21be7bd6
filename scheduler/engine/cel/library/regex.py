"""Regular expressions: RE2, whose syntax is Go's and whose time is linear in the text."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import re2

from scheduler.engine.cel.errors import CelRuntimeError, no_such_overload
from scheduler.engine.cel.library.declaration import Overload, declare
from scheduler.engine.cel.library.operators import missing_method
from scheduler.engine.cel.values import Value

_QUIET: Final = re2.Options()
_QUIET.log_errors = False
_WORDS: Final = {  # RE2's words for an error, and Go's
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "bad repetition operator": "invalid nested repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "invalid named capture group": "invalid named capture",
    "invalid repetition size": "invalid repeat count",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}


# A pattern of 9 KiB with the states of its automaton takes 1.2 MiB, and RE2's limit is 8 MiB.
@lru_cache(maxsize=32)
def compile_pattern(pattern: str) -> Any:
    """Return the compiled pattern. Raise CelRuntimeError with Go's message if the text is no valid pattern."""
    if "\\C" in pattern.replace("\\\\", ""):
        raise CelRuntimeError("error parsing regexp: invalid escape sequence: `\\C`")
    try:
        return re2.compile(pattern, _QUIET)
    except re2.error as error:
        text = error.args[0]
        message = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        word, separator, rest = message.partition(": ")
        if not separator and message.startswith("trailing"):
            word, rest = message, ""
        raise CelRuntimeError(f"error parsing regexp: {_WORDS.get(word, word)}: `{rest}`") from None


def _matches(text: Value, pattern: Value) -> bool:
    if type(text) is not str:
        raise missing_method("matches", text)
    if type(pattern) is not str:
        raise no_such_overload()
    return compile_pattern(pattern).search(text) is not None


def _compile_argument(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except CelRuntimeError as error:
        raise CelRuntimeError(f"Illegal regex: {error}") from None


def _find(text: str, pattern: str) -> str:
    match = _compile_argument(pattern).search(text)
    return "" if match is None else str(match.group(0))


def _find_all(text: str, pattern: str, count: int = -1) -> list[str]:
    compiled = _compile_argument(pattern)
    matches: list[str] = []
    previous_end = -1
    for match in compiled.finditer(text):
        if 0 <= count <= len(matches):
            break
        if match.start() == match.end() == previous_end:
            continue  # Go finds no empty match right after a match
        previous_end = match.end()
        matches.append(match.group(0))
    return matches


def with_constant_pattern(function: str, text: Value, *more: Value) -> Value:
    """Call a function on `text` with a pattern, the first of `more`, that was checked during compilation.

    Raise CelRuntimeError if another argument has a wrong type.
    """
    if type(text) is not str or (len(more) > 1 and type(more[1]) is not int):
        raise no_such_overload()
    return _BY_NAME[function](text, *more)


_BY_NAME: Final[dict[str, Callable[..., Value]]] = {"matches": _matches, "find": _find, "findAll": _find_all}
SINGLETONS: Final[dict[str, Callable[..., Value]]] = {"matches": _matches}
FUNCTIONS: Final = frozenset(_BY_NAME)
STANDARD: Final[tuple[Overload, ...]] = (
    declare("matches", "matches", "(string,string) -> bool"),
    declare("matches", "matches_string", "string.(string) -> bool"),
)
OVERLOADS: Final[tuple[Overload, ...]] = (
    declare("find", "string_find_string", "string.(string) -> string", _find),
    declare("findAll", "string_find_all_string", "string.(string) -> list(string)", _find_all),
    declare("findAll", "string_find_all_string_int", "string.(string,int) -> list(string)", _find_all),
)
