"""The screen of `kubectl herodotus pod NAME --attempts`: PodHistory -> blocks.

Owns: what the screen says. Does not own: what is different between two attempts (`herodotus_record.changes`), drawing.
"""

from __future__ import annotations

from typing import Any

from herodotus_cli.render.blocks import Block, Cell, Line, Sides, Style, View, spaced, table
from herodotus_cli.render.words import count, fit, span, when

Json = dict[str, Any]
STYLES: dict[str, Style] = {"Bound": "good", "Unschedulable": "bad", "Error": "bad", "Failed": "bad"}
SAME = "the same nodes, the same verdicts"


def screen(answer: Json, view: View) -> list[Block]:
    """A row for each attempt, the last one below; on a terminal a line for each change."""
    attempts = answer["attempts"]
    last = attempts[-1]
    meta = answer["metadata"]
    name = "  ".join(p for p in (meta["name"], f"namespace {meta['namespace']}", answer["owner"] or "") if p)
    within = span(attempts[0]["startedAt"], last["startedAt"])
    total = len(attempts) + answer["attemptsOmitted"]
    tried = f"{count(total, 'attempt')}{f' within {within}' if total > 1 and not answer['attemptsOmitted'] else ''}"
    left_out = answer["attemptsOmitted"]
    sections: list[list[Block]] = [
        [Sides(name, tried), Line(last["headline"], "strong")],
        [_table(attempts, view)],
        [Line(f"… {count(left_out, 'earlier attempt')}: --attempt N shows one", "dim")] if left_out else [],
        [Line("more: --attempt N all of one attempt", "dim")] if not view.piped and not left_out else [],
    ]
    return spaced(sections)


def _table(attempts: list[Json], view: View) -> Block:
    rows: list[list[Cell | str]] = []
    for i, a in enumerate(attempts):
        said = _said(a, first=i == 0)
        fits = fit(a["nodes"])
        state = Cell(a["state"], STYLES.get(a["state"], ""))
        facts: list[Cell | str] = [str(a["ordinal"]), when(a["startedAt"], view), state, a["node"] or "–", fits]
        lines = ["; ".join(said)] if view.piped else said
        rows += [[*(facts if j == 0 else [""] * len(facts)), line] for j, line in enumerate(lines)]
    header = ("ATTEMPT", "AGE", "RESULT", "NODE", "FIT", "WHAT CHANGED")
    return table(header, rows, right=(0, 4))


def _said(attempt: Json, *, first: bool) -> list[str]:
    """What woke the pod and what was different; of the first attempt that is shown, who turned nodes away."""
    woken = attempt["wokenBy"]
    said = [f"woken by {woken['event']}{' for ' + woken['plugin'] if woken['plugin'] else ''}"] if woken else []
    if first:
        rejected = [f"{plugin} {n}" for plugin, n in attempt["rejectedBy"].items()]
        return [*said, f"rejected by {', '.join(rejected)}"] if rejected else said or ["–"]
    return [*said, *(change["text"] for change in attempt["changes"])] if attempt["changes"] else [*said, SAME]
