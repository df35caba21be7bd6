"""The lines that say what would make a pending pod fit, with the commands to paste.

Owns: their layout. Does not own: sentences and commands (`herodotus_record.suggestions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herodotus_cli.render.screen_elements import Block, Cell, TextLine, build_table

Json = dict[str, Any]
_INDENT = " " * 5  # less than the label SUGGESTION, because commands are long
_NOT_CHECKED = "not checked"


def build_blocks(answer: Json, *, with_commands: bool = True) -> list[Block]:
    """Return the suggestions, the smallest first, each with its command, which can be copied into a shell.

    Without `with_commands`, neither the commands nor what they delete are named: the pod does not exist.

    Without any, return what the record says of the nearest node; [] if that is nothing too.
    """
    found = answer.get("suggestions") or []
    if not found:
        steps = " and ".join(answer["possibleChanges"])
        return _sentence("SUGGESTION", f"{steps} ({_NOT_CHECKED})") if steps else []
    blocks: list[Block] = []
    for number, suggestion in enumerate(found):
        blocks += _sentence("or" if number else "SUGGESTION", _describe(suggestion, with_commands=with_commands))
        if with_commands and suggestion["command"]:
            blocks.append(TextLine(f"{_INDENT}{suggestion['command']}", command=True))
    return blocks


def build_missing_rights(missing: Sequence[Json]) -> list[Block]:
    """Return a line that names the rights for the commands that the reader lacks; [] if none is missing."""
    said = dict.fromkeys(
        f"{right['verb']} {right['resource']}" + (f" in {right['namespace']}" if right["namespace"] else "")
        for right in missing
    )
    return [TextLine(f"{_INDENT}You may not {', '.join(said)}.", "bad")] if said else []


def _sentence(label: str, text: str) -> list[Block]:
    return [build_table((), [(Cell(label, "strong"), Cell(text, "strong"))])]


def _describe(suggestion: Json, *, with_commands: bool) -> str:
    """Return the changes as a sentence, the node on which the pod then fits, and what the reader must know of them."""
    known = [_format_deletions(suggestion["deletes"])] if suggestion["deletes"] and with_commands else []
    if with_commands and not suggestion["command"]:
        known.append(f"no command known for {suggestion['object']}")
    known += [] if suggestion["checked"] else [_NOT_CHECKED]
    notes = f" ({'; '.join(known)})" if known else ""
    fits = "" if suggestion["object"] == f"Node/{suggestion['node']}" else f": fits {suggestion['node']}"
    return f"{suggestion['text']}{fits}{notes}"


def _format_deletions(deleted: Sequence[str]) -> str:
    return f"deletes {', '.join(deleted)}"
