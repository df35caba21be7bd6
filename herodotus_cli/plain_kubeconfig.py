"""The contexts of a kubeconfig in the form that kubectl and most other tools give it, without a YAML parser.

Importing one costs 15 ms, half of what kubectl needs for an answer, and all that is asked is one namespace.

Owns: that form. Does not own: every other form (YAML, `kubeconfig`), files.

Invariant: what is returned is what a YAML parser would find, if it can read the file at all; where that is not certain,
nothing is returned.
"""

from __future__ import annotations

import re
from typing import Any, Final

_WORD: Final = r"[A-Za-z](?:[\w.@:/-]*[\w/])?"  # YAML takes it for a text, unless it is one of these:
_NO_TEXT: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null"})
_TOP: Final = re.compile(r"([A-Za-z-]+):(?: +(\S.*))?")
_NAME: Final = re.compile(rf"(?:- |  )name: ({_WORD})")
_CONTEXT: Final = re.compile(r"(?:- |  )context:")
_SETTING: Final = re.compile(rf"    ([a-z]+): ({_WORD})")
_EXTENSIONS: Final = "    extensions:"  # minikube's: nobody's business, and always deeper than the settings
_PAIRS: Final = ("{}", "[]")


def read(text: str) -> dict[str, Any] | None:
    """`current-context` and `contexts` of a kubeconfig; None where the text has another form."""
    if not text.isascii() or any(map(_goes_on, text.split("\n"))):
        return None
    blocks = _blocks(text)
    if blocks is None or "contexts" not in blocks:
        return None
    (current, *goes_on), listed = blocks.get("current-context", [""]), blocks["contexts"]
    entries = _entries(listed[1:])
    if listed[0] or goes_on or entries is None or not (current in ("", '""') or _is_text(current)):
        return None
    return {"current-context": current.strip('"'), "contexts": entries}


def _goes_on(line: str) -> bool:
    """Whether a quoted text or a collection may be open at a line's end."""
    return bool(line.count('"') % 2 or line.count("'") % 2 or any(line.count(a) != line.count(b) for a, b in _PAIRS))


def _blocks(text: str) -> dict[str, list[str]] | None:
    """Each key at the left margin: what stands behind it, then the lines below it."""
    blocks: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.split("\n"):
        if top := _TOP.fullmatch(line):
            lines = [top[2] or ""]
            if top[1] in blocks:
                return None
            blocks[top[1]] = lines
        elif line.startswith((" ", "- ")) and lines:
            lines.append(line)
        elif line:
            return None
    return blocks


def _entries(lines: list[str]) -> list[dict[str, Any]] | None:
    entries: list[dict[str, Any]] = []
    inside = ""  # what deeper lines belong to
    for line in lines:
        if line.startswith("- "):
            entries.append({})
        if not entries:
            return None
        if (name := _NAME.fullmatch(line)) and _is_text(name[1]) and "name" not in entries[-1]:
            entries[-1]["name"], inside = name[1], ""
        elif _CONTEXT.fullmatch(line) and "context" not in entries[-1]:
            entries[-1]["context"], inside = {}, "context"
        elif inside and (setting := _SETTING.fullmatch(line)) and _is_text(setting[2]):
            entries[-1]["context"][setting[1]], inside = setting[2], "context"
        elif inside and line == _EXTENSIONS:
            inside = "extensions"
        elif not (inside == "extensions" and line.startswith(("     ", "    - "))):
            return None
    return entries


def _is_text(word: str) -> bool:
    return bool(re.fullmatch(_WORD, word)) and word.lower() not in _NO_TEXT
