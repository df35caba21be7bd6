"""The screen of `kubectl herodotus pod NAME --attempts`: PodHistory -> blocks.

Owns: what the screen says. Does not own: what is different between two attempts (`herodotus_record.changes`), drawing.
"""

from __future__ import annotations

from typing import Any

from herodotus_cli.render.formatting import format_age_or_time, format_count, format_feasible, format_time_between
from herodotus_cli.render.screen_elements import (
    Block,
    Cell,
    SplitLine,
    Style,
    TextLine,
    ViewOptions,
    build_table,
    join_sections,
)

Json = dict[str, Any]
STYLES: dict[str, Style] = {"Bound": "good", "Unschedulable": "bad", "Error": "bad", "Failed": "bad"}
SAME = "the same nodes, the same verdicts"


def build_screen(answer: Json, view: ViewOptions) -> list[Block]:
    """A row for each attempt, the last one below; on a terminal a line for each change."""
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
        [SplitLine(name, tried), TextLine(last["headline"], "strong")],
        [_table(attempts, view)],
        [TextLine(f"… {format_count(left_out, 'earlier attempt')}: --attempt N shows one", "dim")] if left_out else [],
        [TextLine("more: --attempt N all of one attempt", "dim")] if not view.piped and not left_out else [],
    ]
    return join_sections(sections)


def _table(attempts: list[Json], view: ViewOptions) -> Block:
    rows: list[list[Cell | str]] = []
    for i, a in enumerate(attempts):
        said = _said(a, first=i == 0)
        fits = format_feasible(a["nodes"])
        state = Cell(a["state"], STYLES.get(a["state"], ""))
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


def _said(attempt: Json, *, first: bool) -> list[str]:
    """What woke the pod and what was different; of the first attempt that is shown, who turned nodes away."""
    woken = attempt["wokenBy"]
    said = [f"woken by {woken['event']}{' for ' + woken['plugin'] if woken['plugin'] else ''}"] if woken else []
    if first:
        rejected = [f"{plugin} {n}" for plugin, n in attempt["rejectedBy"].items()]
        return [*said, f"rejected by {', '.join(rejected)}"] if rejected else said or ["–"]
    return [*said, *(change["text"] for change in attempt["changes"])] if attempt["changes"] else [*said, SAME]
