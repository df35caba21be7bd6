"""The screen of `kubectl herodotus pod NAME --attempts`: PodHistory -> blocks.

Owns: the content of the screen. Does not own: changes between two attempts (`herodotus_record.changes`), drawing.
"""

from __future__ import annotations

from typing import Any

from herodotus_cli.render.formatting import format_age_or_time, format_count, format_feasible, format_time_between
from herodotus_cli.render.screen_elements import (
    Block,
    Cell,
    SplitLine,
    TextLine,
    ViewOptions,
    build_table,
    headline,
    join_sections,
)

Json = dict[str, Any]
NO_CHANGE = "no change"


def build_screen(answer: Json, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen: the pod, then a table with one row per scheduling attempt, oldest first.

    On a terminal, each change since the previous attempt has a line of its own.
    """
    attempts = answer["attempts"]
    last = attempts[-1]
    meta = answer["metadata"]
    name = "  ".join(p for p in (meta["name"], f"namespace {meta['namespace']}", answer["owner"] or "") if p)
    within = format_time_between(attempts[0]["startedAt"], last["startedAt"])
    total = len(attempts) + answer["attemptsOmitted"]
    tried = (
        f"{format_count(total, 'attempt')}{f' within {within}' if total > 1 and not answer['attemptsOmitted'] else ''}"
    )
    left_out = answer["attemptsOmitted"]
    sections: list[list[Block]] = [
        [SplitLine(name, tried), headline(last["headline"], last["node"])],
        [_table(attempts, view)],
        [TextLine(f"… {format_count(left_out, 'earlier attempt')}: --attempt N shows one", "dim")] if left_out else [],
        [TextLine("more: --attempt N (one attempt in full)", "dim")] if not view.piped and not left_out else [],
    ]
    return join_sections(sections)


def _table(attempts: list[Json], view: ViewOptions) -> Block:
    rows: list[list[Cell | str]] = []
    for i, a in enumerate(attempts):
        said = _describe_changes(a, first=i == 0)
        fits = format_feasible(a["nodes"])
        state = a["state"]
        facts: list[Cell | str] = [
            str(a["ordinal"]),
            format_age_or_time(a["startedAt"], view),
            state,
            a["node"] or "–",
            fits,
        ]
        lines = ["; ".join(said)] if view.piped else said
        rows += [[*(facts if j == 0 else [""] * len(facts)), line] for j, line in enumerate(lines)]
    header = ("ATTEMPT", "AGE", "RESULT", "NODE", "FIT", "WHAT CHANGED")
    return build_table(header, rows, right=(0, 4))


def _describe_changes(attempt: Json, *, first: bool) -> list[str]:
    """Return texts on which event requeued the pod and what changed since the previous attempt.

    With `first` there is no previous attempt; the texts then say which filters rejected nodes.
    """
    requeued = attempt["wokenBy"]
    said = (
        [f"requeued by {requeued['event']}{' for ' + requeued['plugin'] if requeued['plugin'] else ''}"]
        if requeued
        else []
    )
    if first:
        rejected = [f"{plugin} {n}" for plugin, n in attempt["rejectedBy"].items()]
        return [*said, f"rejected by {', '.join(rejected)}"] if rejected else said or ["–"]
    return [*said, *(change["text"] for change in attempt["changes"])] if attempt["changes"] else [*said, NO_CHANGE]
