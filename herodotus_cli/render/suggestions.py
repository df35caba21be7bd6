"""The sections that say what would make a pending pod fit: suggestions, with commands to paste, and who holds what.

Owns: their layout. Does not own: sentences and commands (`herodotus_answers.suggestions`), finding the pods that hold
what a pending pod lacks (`herodotus_answers.holders`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from herodotus_cli.render.formatting import format_count
from herodotus_cli.render.screen_elements import Block, Cell, TextLine, build_table
from herodotus_record.units import format_quantity

if TYPE_CHECKING:
    from herodotus_answers.holders import Holders

Json = dict[str, Any]
_INDENT = " " * 5  # less than the label of a fix, because commands are long
NOT_CHECKED = "not checked"
_COSTS = {"application": "changes the application", "node": "changes a node", "capacity": "needs capacity"}


class Fix(NamedTuple):
    """What ends a problem, as a sentence, and the shell command that does it; None if none is known."""

    text: str
    command: str | None


def build_blocks(answer: Json, *, with_commands: bool = True) -> list[Block]:
    """Return the suggestions of an answer, the smallest change first, each with its shell command.

    `with_commands` is false for a pod that does not exist: its commands, and the objects that they delete, are left
    out. An answer without suggestions gives its unchecked `possibleChanges`, or [] if there are none either.
    """
    return build_fixes(list_fixes(answer, with_commands=with_commands))


def list_fixes(answer: Json, *, with_commands: bool = True) -> list[Fix]:
    """Return the fixes that `build_blocks` shows for the same arguments; see there for `with_commands`."""
    suggestions = answer.get("suggestions") or []
    if not suggestions:
        steps = " and ".join(answer["possibleChanges"])
        return [Fix(f"{steps} ({NOT_CHECKED})", None)] if steps else []
    return [
        Fix(_describe(each, with_commands=with_commands), each["command"] if with_commands else None)
        for each in suggestions
    ]


def build_fixes(fixes: Sequence[Fix]) -> list[Block]:
    """Return the fixes as lines with their commands: the best, which is the first, under FIX, the others under `or`."""
    blocks: list[Block] = []
    for number, fix in enumerate(fixes):
        blocks.append(build_table((), [(Cell("or" if number else "FIX", "strong"), Cell(fix.text, "strong"))]))
        if fix.command:
            blocks.append(TextLine(f"{_INDENT}{fix.command}", command=True))
    return blocks


def build_missing_rights(missing: Sequence[Json]) -> list[Block]:
    """Return a line that names the rights for the commands that the reader lacks; [] if none is missing."""
    rights = dict.fromkeys(
        f"{right['verb']} {right['resource']}" + (f" in {right['namespace']}" if right["namespace"] else "")
        for right in missing
    )
    return [TextLine(f"{_INDENT}You may not {', '.join(rights)}.", "bad")] if rights else []


def _describe(suggestion: Json, *, with_commands: bool) -> str:
    """Return a suggestion as a sentence, with notes in parentheses.

    The sentence has the changes and the node on which the pod then fits; the notes have the costs and side effects, and
    that the suggestion is unchecked.
    """
    from herodotus_answers.suggestions import describe_effect  # here, because most pods are placed

    is_of_node = suggestion["object"].partition("/")[0] == "Node"
    notes = [_COSTS[cost] for cost in suggestion["costs"]]
    if with_commands:
        notes += [f"rolls out {', '.join(suggestion['rollsOut'])}"] if suggestion["rollsOut"] else []
        notes += [f"deletes {', '.join(suggestion['deletes'])}"] if suggestion["deletes"] else []
        if not is_of_node and not suggestion["command"]:
            notes.append(f"no command known for {suggestion['object']}")
    others = suggestion.get("helps") or 0  # a service of an earlier version does not say
    notes += [f"also helps {format_count(others, 'other pod')}{', each alone' if others > 1 else ''}"] if others else []
    notes += [] if suggestion["checked"] else [NOT_CHECKED]
    return describe_effect(suggestion) + (f" ({'; '.join(notes)})" if notes else "")


def build_holders(holders: Holders) -> list[Block]:
    """Return a table of the pods that hold what a pending pod lacks, largest first, and a line that sums them up.

    The line says which of the pods would be enough, and their state. Without such pods the result is [].
    """
    from herodotus_answers.holders import MAX_NAMED, describe_holders  # here, because most pods are placed

    held = holders.held
    if not holders.pods:
        return []
    what = ", ".join(held.names) if held.kind != "pod" else "its place"
    has_amount = held.kind == "resource" and held.names != ("pods",)
    title = f"HOLDS {what.upper() if has_amount else what} ON {held.node}"
    rows = [
        (
            holder.pod,
            *([format_quantity(held.names[0], holder.amount)] if has_amount else []),
            str(holder.priority),
            holder.owner or "–",
        )
        for holder in holders.pods[:MAX_NAMED]
    ]
    header = (title, *(["REQUEST"] if has_amount else []), "PRIORITY", "OWNER")
    omitted = len(holders.pods) - len(rows)
    table = build_table(header, rows, right=range(1, len(header) - 1))
    more = f"… and {format_count(omitted, 'other pod')}. " if omitted else ""
    return [table, TextLine(more + " ".join(describe_holders(holders)), "dim")]
