"""Breaks a long shell command into lines that a shell joins again, so that the copied lines run.

Owns: the places where a command may be broken. Does not own: commands (`herodotus_answers.suggestions`), drawing.

Invariant: a POSIX shell reads the same words from the lines as from the command.
"""

from __future__ import annotations

from herodotus_cli.render.screen_elements import display_width

_CONTINUED = " \\"
_INDENT = "  "  # of a line that goes on with another word
_PARTS = ",[{"  # a JSON document may be broken after these


def break_command(command: str, width: int) -> list[str]:
    """Return the lines of a command, each at most `width` columns where the command has places to break it.

    It is broken at unquoted blanks. A word in single quotes that is longer than a line is broken between the parts of
    its JSON document: its quotes are closed before the break and opened again at the start of the next line. All other
    lines have the indentation of the command.
    """
    words = _split_words(command)
    if display_width(command) <= width or any(word.startswith("#") for word in words):  # a comment ends with its line
        return [command]
    indent = command[: len(command) - len(command.lstrip(" "))]
    room = width - len(_CONTINUED)
    lines, line = [], indent + words[0]
    for word in words[1:]:
        alone = f"{indent}{_INDENT}{word}"
        if display_width(f"{line} {word}") <= room:
            line += f" {word}"
        elif display_width(alone) <= room or not _is_quoted(word):
            lines.append(line + _CONTINUED)
            line = alone
        else:
            *before, line = _break_quoted(line, word[1:-1], room)
            lines += before
    return [*lines, line]


def _split_words(command: str) -> list[str]:
    """Return the words of a command as they are written: the texts between its unquoted blanks."""
    words, quote, escaped = [""], "", False
    for c in command:
        if c == " " and not quote and not escaped:
            words.append("")
            continue
        words[-1] += c
        if escaped:
            escaped = False
        elif c == "\\" and quote != "'":
            escaped = True
        elif c in "'\"" and quote in ("", c):
            quote = "" if quote else c
    return [word for word in words if word]


def _is_quoted(word: str) -> bool:
    return len(word) > 2 and word[0] == word[-1] == "'" and "'" not in word[1:-1]


def _break_quoted(line: str, content: str, room: int) -> list[str]:
    """Return `line`, continued by a word in single quotes, as lines of at most `room` columns.

    `content` is the word without its quotes.
    """
    lines, line = [], f"{line} '"
    parts = _split_parts(content)
    for i, part in enumerate(parts):
        if i and display_width(f"{line}{part}'") > room:
            lines.append(f"{line}'\\")
            line = "'"
        line += part
    return [*lines, f"{line}'"]


def _split_parts(content: str) -> list[str]:
    """Return the text in pieces. Each but the last ends with one of _PARTS, after which a line may be broken."""
    parts = [""]
    for c in content:
        if parts[-1] and parts[-1][-1] in _PARTS and c not in _PARTS:
            parts.append("")
        parts[-1] += c
    return parts
