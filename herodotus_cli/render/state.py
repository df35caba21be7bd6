"""The blocks that say what state a pod or a workload is really in, why, and what to do: LiveState -> blocks.

Owns: their content and order. Does not own: the state (`herodotus_answers`), the rest of the screen.
"""

from __future__ import annotations

from typing import Any, Final

from herodotus_cli.render.formatting import format_age_or_time, format_ago
from herodotus_cli.render.screen_elements import (
    Block,
    Cell,
    SplitLine,
    TextLine,
    ViewOptions,
    build_table,
    headline,
    join_sections,
    labelled_rows,
)

Json = dict[str, Any]
GOOD: Final = ("running", "succeeded", "available", "complete")
_INDENT: Final = " " * 5
_CAUSES_NAMED: Final = 4
_REMEDIES_NAMED: Final = 2


def build_blocks(state: Json, view: ViewOptions, *, with_remedies: bool = True) -> list[Block]:
    """Return the headline, what to do about the first cause, and the causes with their sources.

    Without `with_remedies`, suggestions that the engine has checked follow, and these are left out.
    """
    is_good = state["code"] in GOOD
    sign = "" if view.piped else "✓ " if is_good else "✗ "
    blocks: list[Block] = [headline(sign + state["headline"], "there" if is_good else None)]
    causes = state["causes"]
    blocks += _remedies(causes[0]) if causes and with_remedies else []
    rows = [_describe(cause, state["headline"], view) for cause in causes[:_CAUSES_NAMED]]
    blocks += [labelled_rows(rows)] if rows else []
    if state["unread"] and not is_good:
        blocks.append(TextLine(f"You may not read {', '.join(state['unread'])}, so a cause may be missing.", "dim"))
    return blocks


def build_timeline_screen(answer: Json, state: Json, view: ViewOptions) -> list[Block]:
    """Return the blocks of `pod NAME --timeline`: the state, and a table of what happened, oldest first."""
    meta = answer["metadata"]
    head = [SplitLine(f"{meta['name']} ({meta['namespace']})", "timeline"), *build_blocks(state, view)]
    rows = [(format_age_or_time(e["at"], view), e["text"], e["source"]) for e in state["timeline"]]
    return join_sections([head, [build_table(("AGE", "EVENT", "SOURCE"), rows)] if rows else []])


def _describe(cause: Json, above: str, view: ViewOptions) -> tuple[str, str]:
    """Return the label and the text of a cause: only its source if the headline `above` has said it."""
    source = ", ".join(part for part in (cause["object"], cause["source"], _ago(cause, view)) if part)
    return ("SOURCE", source) if cause["text"] in above else ("CAUSE", f"{cause['text']} ({source})")


def _ago(cause: Json, view: ViewOptions) -> str:
    return format_ago(cause["at"], view) if cause["at"] else ""


def _remedies(cause: Json) -> list[Block]:
    blocks: list[Block] = []
    for number, remedy in enumerate(cause["remedies"][:_REMEDIES_NAMED]):
        label = Cell("or" if number else "FIX", "strong")
        blocks.append(build_table((), [(label, Cell(f"{remedy['text']} (not checked)", "strong"))]))
        if remedy["command"]:
            blocks.append(TextLine(f"{_INDENT}{remedy['command']}", command=True))
    return blocks
