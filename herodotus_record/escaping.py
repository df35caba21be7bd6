"""Escape characters that could deceive a person who reads a text on a terminal or in a log.

Anyone who may create objects controls names, annotations and error messages. A control character in them moves the
cursor, a line separator forges a log line, a bidirectional override reorders the surrounding text, and a zero-width
character makes two names look alike. Every output for people passes through one of these functions once, where the text
is written.

Owns: which characters are escaped, and how. Does not own: where text is written.
"""

from __future__ import annotations

import re
from typing import Final

# Control characters (tab and line feed are added below), line and paragraph separators, surrogates, interlinear
# annotations, and what Unicode calls Default_Ignorable_Code_Point: bidirectional controls, zero-width characters,
# fillers, variation selectors, tags.
_UNSAFE: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_UNSAFE_CHARACTER: Final = re.compile(f"[\t\n{_UNSAFE}]")
_UNSAFE_IN_JSON: Final = re.compile(f"[\t{_UNSAFE}]")
_UNSAFE_IN_LINES: Final = re.compile(f"[{_UNSAFE}]")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape(text: str) -> str:
    r"""Return `text` on one line, with every unsafe character in a visible form such as `\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE_CHARACTER.sub(_escaped, text)


def escape_lines(text: str) -> str:
    """Return `text` with unsafe characters in a visible form, except line feeds and tabs.

    It is for texts of several lines whose layout the caller made.
    """
    return _UNSAFE_IN_LINES.sub(_escaped, text)


def escape_json(text: str) -> str:
    """Return the JSON document with unsafe characters as JSON escapes; line feeds between tokens stay."""
    return _UNSAFE_IN_JSON.sub(_escaped_in_json, text)


def is_safe(text: str) -> bool:
    """Return whether `text` has no character that `escape_lines` would escape."""
    return not _UNSAFE_IN_LINES.search(text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return _SHORT.get(character) or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")


def _escaped_in_json(match: re.Match[str]) -> str:
    """Return the matched character as JSON escapes of its one or two UTF-16 code units."""
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
