"""The sections that say what would make a pending pod fit: suggestions, with commands to paste, and who holds what.

Owns: their layout. Does not own: sentences and commands (`herodotus_answers.suggestions`), finding the pods that hold
what a pending pod lacks (`herodotus_answers.live.pods.holders`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from herodotus_cli.render.formatting import format_ago
from herodotus_cli.render.screen_elements import Block, Cell, TextLine, ViewOptions, build_table, labelled_rows
from herodotus_record.units import format_requested, pluralize

if TYPE_CHECKING:
    from herodotus_answers.live.pods.holders import HeldObject, Holders

Json = dict[str, Any]
_INDENT = " " * 5  # less than the label of a fix, because commands are long
NOT_CHECKED = "not checked"
_COSTS = {"application": "changes the application", "node": "changes a node", "capacity": "needs capacity"}


class Fix(NamedTuple):
    """What ends a problem, as a sentence, with notes on it, and the shell command that does it; None if none is known.

    `is_checked` says that it was tried on a copy of the cluster.
    """

    text: str
    command: str | None
    notes: tuple[str, ...] = ()
    is_checked: bool = False


def build_blocks(answer: Json, view: ViewOptions, *, with_commands: bool = True, is_short: bool = False) -> list[Block]:
    """Return the suggestions of an answer, the smallest change first, each with its shell command.

    `with_commands` is false for a pod that does not exist: its commands, and the objects that they delete, are left
    out. An answer without suggestions gives its unchecked `possibleChanges`, or [] if there are none either.
    """
    return build_fixes(list_fixes(answer, view, with_commands=with_commands), is_short=is_short)


def list_fixes(answer: Json, view: ViewOptions, *, with_commands: bool = True) -> list[Fix]:
    """Return the suggestions of an answer as `build_blocks` shows them."""
    steps = " and ".join(answer["possibleChanges"])
    suggested = answer.get("suggestions") or ()
    fixes = [_describe(each, with_commands=with_commands) for each in suggested]
    fixes = fixes or ([Fix(steps, None)] if steps else [])
    attempt = answer.get("attempt") or {}  # a pod group's suggestions are of several attempts
    if with_commands and attempt.get("startedAt") and attempt.get("source") != "evaluated":
        is_of_attempt = [_is_of_attempt(each) for each in suggested] or [True] * len(fixes)
        if True in is_of_attempt:
            first = is_of_attempt.index(True)
            of = "checked" if fixes[first].is_checked else "by the attempt"
            notes = (f"{of} {format_ago(attempt['startedAt'], view)}", *fixes[first].notes)
            fixes[first] = fixes[first]._replace(notes=notes)
    return fixes


def _is_of_attempt(suggestion: Json) -> bool:
    from herodotus_answers.suggestions import UNDO  # here, because most pods are placed

    return bool(suggestion["kind"] != UNDO)


def build_fixes(fixes: Sequence[Fix], *, is_short: bool = False) -> list[Block]:
    """Return the one list of fixes of a screen, of which the first is the best.

    If `is_short`, only the first has its notes and its command.
    """
    blocks: list[Block] = []
    for number, fix in enumerate(fixes):
        is_whole = not (is_short and number)
        notes = [*(fix.notes if is_whole else ()), *([] if fix.is_checked else [NOT_CHECKED])]
        text = fix.text + (f" ({'; '.join(notes)})" if notes else "")
        blocks.append(build_table((), [(Cell("or" if number else "FIX", "strong"), Cell(text, "strong"))]))
        if fix.command and is_whole:
            blocks.append(TextLine(f"{_INDENT}{fix.command}", command=True))
    return blocks


def build_missing_rights(missing: Sequence[Json]) -> list[Block]:
    """Return a line that names the rights for the commands that the reader lacks; [] if none is missing."""
    rights = dict.fromkeys(
        f"{right['verb']} {right['resource']}" + (f" in {right['namespace']}" if right["namespace"] else "")
        for right in missing
    )
    return [TextLine(f"{_INDENT}You may not {', '.join(rights)}.", "bad")] if rights else []


def _describe(suggestion: Json, *, with_commands: bool) -> Fix:
    """Return the changes, the node on which the pod then fits, and what the reader must know of them."""
    from herodotus_answers.suggestions import describe_effect  # here, because most pods are placed

    is_of_node = suggestion["object"].partition("/")[0] == "Node"
    is_rollout = with_commands and suggestion["costs"] == ["application"] and suggestion["rollsOut"]
    notes = [] if is_rollout else [_COSTS[cost] for cost in suggestion["costs"]]  # a rollout says as much
    if with_commands:
        notes += [f"rolls out {', '.join(suggestion['rollsOut'])}"] if suggestion["rollsOut"] else []
        notes += [f"deletes {', '.join(suggestion['deletes'])}"] if suggestion["deletes"] else []
        if not is_of_node and not suggestion["command"]:
            notes.append(f"no command known for {suggestion['object']}")
    others = suggestion.get("helps") or 0  # a service of an earlier version does not say
    notes += [f"also helps {pluralize(others, 'other pod')}{', each alone' if others > 1 else ''}"] if others else []
    command = suggestion["command"] if with_commands else None
    return Fix(describe_effect(suggestion), command, tuple(notes), bool(suggestion["checked"]))


def build_holders_document(holders: Holders | HeldObject) -> Json | None:
    """Return what is held as JSON for the web pages, with a text and the largest holders; None without holders.

    If the holders may not be listed, that is the text, and there is no list.
    """
    from herodotus_answers.live.pods.holders import MAX_NAMED, Holders, describe_holders

    if not isinstance(holders, Holders):
        return {"what": _describe_held(holders), "node": holders.node, "text": describe_unread_holders(holders)}
    if not holders.pods:
        return None
    held = holders.held
    pods = [
        dict(zip(("namespace", "name"), each.pod.split("/"), strict=True))
        | {"amount": format_requested(held.names[0], each.amount) if held.has_amounts else ""}
        | {"priority": each.priority, "owner": each.owner}
        for each in holders.pods[:MAX_NAMED]
    ]
    text = " ".join(describe_holders(holders))
    omitted = len(holders.pods) - len(pods)
    return {"what": _describe_held(held), "node": held.node, "text": text, "pods": pods, "omitted": omitted}


def describe_unread_holders(held: HeldObject) -> str:
    """Return a sentence that says why the holders of an object are not shown."""
    return f"Who holds {', '.join(held.names)} on {held.node} is not shown: you may not list pods in all namespaces."


def _describe_held(held: HeldObject) -> str:
    return ", ".join(held.names) if held.kind != "pod" else "its place"


def build_holders(holders: Holders, *, is_short: bool = False) -> list[Block]:
    """Return the table of the holders, largest first, and a line on which of them would be enough and their state.

    If `is_short`, return one row with their number in place of the table.
    """
    from herodotus_answers.live.pods.holders import MAX_NAMED, describe_holders  # here, because most pods are placed

    held = holders.held
    if not holders.pods:
        return []
    what = _describe_held(held)
    if is_short:
        text = f"{what} on {held.node}: {pluralize(len(holders.pods), 'pod')}. {' '.join(describe_holders(holders))}"
        return [labelled_rows([("HOLDERS", text)])]
    has_amount = held.has_amounts
    title = f"HOLDS {what.upper() if has_amount else what} ON {held.node}"
    rows = [
        (
            holder.pod,
            *([format_requested(held.names[0], holder.amount)] if has_amount else []),
            str(holder.priority),
            holder.owner or "–",
        )
        for holder in holders.pods[:MAX_NAMED]
    ]
    header = (title, *(["REQUEST"] if has_amount else []), "PRIORITY", "OWNER")
    omitted = len(holders.pods) - len(rows)
    table = build_table(header, rows, right=range(1, len(header) - 1))
    more = f"… and {pluralize(omitted, 'other pod')}. " if omitted else ""
    return [table, TextLine(more + " ".join(describe_holders(holders)), "dim")]
