"""The blocks about the state that a pod or a workload is really in: a LiveState -> headline, causes, fixes, timeline.

Owns: their layout. Does not own: states, causes and remedies (`herodotus_answers.live`).
"""

from __future__ import annotations

from typing import Any

from herodotus_cli.render.formatting import format_age_or_time, format_count, title_of_times
from herodotus_cli.render.screen_elements import (
    Blank,
    Block,
    Cell,
    TextLine,
    ViewOptions,
    build_table,
    labelled_rows,
)

Json = dict[str, Any]
_INDENT = " " * 5  # less than a label, because commands are long
_MAX_CAUSES = 3
_MAX_REMEDIES = 3
_NOT_CHECKED = "not checked"


def build_blocks(state: Json, view: ViewOptions) -> list[Block]:
    """Return the headline of a state, its causes with their objects and sources, and the fixes for them."""
    is_well = state["actor"] is None
    sign = "" if view.piped else "✓ " if is_well else "✗ "
    blocks: list[Block] = [TextLine(sign + state["headline"], "good" if is_well else "bad")]
    causes = state["causes"][:_MAX_CAUSES]
    rows = [row for cause in causes for row in _describe(cause, state["headline"])]
    if omitted := len(state["causes"]) - len(causes):
        rows.append(("", f"… {format_count(omitted, 'other cause')}: -o json"))
    if state["unread"]:
        rows.append(("UNREAD", f"you may not read, or could not: {', '.join(state['unread'])}"))
    blocks += [labelled_rows(rows)] if rows else []
    return [*blocks, *_build_remedies(causes)]


def build_timeline(state: Json, view: ViewOptions) -> list[Block]:
    """Return the table of what happened to the pod, oldest first; [] if the timeline was not asked for."""
    entries = state.get("timeline")
    if not entries:
        return []
    rows = [(format_age_or_time(each["at"], view), each["source"], each["text"]) for each in entries]
    return [build_table((title_of_times(view), "SOURCE", "TIMELINE"), rows)]


def _describe(cause: Json, headline: str) -> list[tuple[str, str]]:
    """Return the rows of a cause. Only the source and the object are left of what the headline says already."""
    of = cause["object"] or ""
    is_named = not of or of.partition("/")[2] in cause["text"]
    source = cause["source"] + ("" if is_named else f", about {of}")
    is_said = cause["text"].lower() in headline.lower()
    rows = [("SOURCE", source)] if is_said else [("CAUSE", f"{cause['text']} [{source}]")]
    return [*rows, *([("SEE", cause["inspect"])] if "inspect" in cause else [])]


def _build_remedies(causes: list[Json]) -> list[Block]:
    blocks: list[Block] = []
    for number, remedy in enumerate([remedy for cause in causes for remedy in cause["remedies"]][:_MAX_REMEDIES]):
        label, text = "or" if number else "FIX", remedy["text"]
        text += "" if remedy.get("checked") else f" ({_NOT_CHECKED})"
        blocks.append(build_table((), [(Cell(label, "strong"), Cell(text, "strong"))]))
        if remedy["command"]:
            blocks.append(TextLine(f"{_INDENT}{remedy['command']}", command=True))
    return [Blank(), *blocks] if blocks else []
