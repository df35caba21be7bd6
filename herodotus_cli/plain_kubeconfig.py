"""The contexts of a kubeconfig in the form that kubectl and most other tools give it, without a YAML parser.

Importing one costs 15 ms, half of what kubectl needs for an answer, and all that is asked is one namespace.

Owns: that form. Does not own: every other form (YAML, `kubeconfig`), files.

Invariant: what is returned is what a YAML parser would find, if it can read the file at all; where that is not certain,
nothing is returned. Imports nothing: it is asked before kubectl is started.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz")
_LETTERS = _LOWER | frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_ENDS = _LETTERS | frozenset("0123456789_/")  # a word's last character
_WITHIN = _ENDS | frozenset(".@:-")
_NO_TEXT = frozenset({"true", "false", "yes", "no", "on", "off", "null"})  # words that YAML takes for something else
_KEY = _LETTERS | {"-"}
_ITEM = ("- ", "  ")  # what stands before a key of an entry: the first one, or another
_EXTENSIONS = "    extensions:"  # minikube's: nobody's business, and always deeper than the settings
_PAIRS = (("{", "}"), ("[", "]"))


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
        key, value = _top(line)
        if key:
            lines = [value]
            if key in blocks:
                return None
            blocks[key] = lines
        elif line.startswith((" ", "- ")) and lines:
            lines.append(line)
        elif line:
            return None
    return blocks


def _top(line: str) -> tuple[str, str]:
    """`key:` or `key: value` at the left margin; two empty texts where it is neither."""
    key, colon, rest = line.partition(":")
    value = rest.lstrip(" ")
    separated = not rest or (rest != value and value and not value[0].isspace())
    return (key, value) if key and colon and separated and _KEY.issuperset(key) else ("", "")


def _entries(lines: list[str]) -> list[dict[str, Any]] | None:
    entries: list[dict[str, Any]] = []
    inside = ""  # what deeper lines belong to
    for line in lines:
        if line.startswith("- "):
            entries.append({})
        if not entries:
            return None
        name = _name(line)
        key, value = _setting(line)
        if name and "name" not in entries[-1]:
            entries[-1]["name"], inside = name, ""
        elif line in ("- context:", "  context:") and "context" not in entries[-1]:
            entries[-1]["context"], inside = {}, "context"
        elif inside and key:
            entries[-1]["context"][key], inside = value, "context"
        elif inside and line == _EXTENSIONS:
            inside = "extensions"
        elif not (inside == "extensions" and line.startswith(("     ", "    - "))):
            return None
    return entries


def _name(line: str) -> str:
    """An entry's name; empty on another line."""
    key, word = line[2:8], line[8:]
    return word if line.startswith(_ITEM) and key == "name: " and _is_text(word) else ""


def _setting(line: str) -> tuple[str, str]:
    """A key of a context and its value; two empty texts on another line."""
    key, _, word = line[4:].partition(": ")
    found = line.startswith("    ") and key and _LOWER.issuperset(key) and _is_text(word)
    return (key, word) if found else ("", "")


def _is_text(word: str) -> bool:
    plain = word[:1] in _LETTERS and word[-1:] in _ENDS and _WITHIN.issuperset(word)
    return plain and word.lower() not in _NO_TEXT
