"""Reads contexts from a kubeconfig in the form that kubectl and most tools write, without a YAML parser.

Importing a YAML parser takes 15 ms, half of kubectl's time for an answer, and only one namespace is needed.

Owns: that form. Does not own: every other form (YAML, `kubeconfig`), files.

Invariant: the result is what a YAML parser would return for a file that it can read. Where that is not certain, the
result is None. Imports nothing, because it runs before kubectl is started.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz")
_LETTERS = _LOWER | frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_ENDS = _LETTERS | frozenset("0123456789_/")  # characters that can end a plain scalar
_WITHIN = _ENDS | frozenset(".@:-")
# plain scalars that YAML does not read as strings
_NO_STRINGS = frozenset({"true", "false", "yes", "no", "on", "off", "null"})
_KEY = _LETTERS | {"-"}
_ENTRY_PREFIXES = ("- ", "  ")  # before the first key of an entry, and before the others
_EXTENSIONS = "    extensions:"  # written by minikube, not needed, and always deeper than the settings
_PAIRS = (("{", "}"), ("[", "]"))


def parse(text: str) -> dict[str, Any] | None:
    """Return `current-context` and `contexts` of a kubeconfig, or None if the text needs a YAML parser."""
    if not text.isascii() or any(map(_continues, text.split("\n"))):
        return None
    blocks = _blocks(text)
    if blocks is None or "contexts" not in blocks:
        return None
    (current, *continuation), listed = blocks.get("current-context", [""]), blocks["contexts"]
    entries = _entries(listed[1:])
    if listed[0] or continuation or entries is None or not (current in ("", '""') or _is_plain_string(current)):
        return None
    return {"current-context": current.strip('"'), "contexts": entries}


def _continues(line: str) -> bool:
    """Return whether the line may end within a quoted string or a flow collection, which a YAML parser must read."""
    return bool(line.count('"') % 2 or line.count("'") % 2 or any(line.count(a) != line.count(b) for a, b in _PAIRS))


def _blocks(text: str) -> dict[str, list[str]] | None:
    """Return for each top-level key a list of its value and the indented lines below it.

    Return None if the text needs a YAML parser.
    """
    blocks: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.split("\n"):
        key, value = _parse_top_level(line)
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


def _parse_top_level(line: str) -> tuple[str, str]:
    """Return key and value of an unindented line `key:` or `key: value`, or two empty strings for any other line."""
    key, colon, rest = line.partition(":")
    value = rest.lstrip(" ")
    separated = not rest or (rest != value and value and not value[0].isspace())
    return (key, value) if key and colon and separated and _KEY.issuperset(key) else ("", "")


def _entries(lines: list[str]) -> list[dict[str, Any]] | None:
    entries: list[dict[str, Any]] = []
    inside = ""  # the mapping that deeper lines belong to
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
    """Return the name in a list entry's line `name: NAME`, or "" for any other line."""
    key, word = line[2:8], line[8:]
    return word if line.startswith(_ENTRY_PREFIXES) and key == "name: " and _is_plain_string(word) else ""


def _setting(line: str) -> tuple[str, str]:
    """Return key and value of an indented line `key: value` of a context, or two empty strings for any other line."""
    key, _, word = line[4:].partition(": ")
    found = line.startswith("    ") and key and _LOWER.issuperset(key) and _is_plain_string(word)
    return (key, word) if found else ("", "")


def _is_plain_string(word: str) -> bool:
    plain = word[:1] in _LETTERS and word[-1:] in _ENDS and _WITHIN.issuperset(word)
    return plain and word.lower() not in _NO_STRINGS
