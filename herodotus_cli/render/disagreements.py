"""The screen of `kubectl herodotus disagreements`: Agreements -> blocks.

Owns: the content of the screen. Does not own: sums (`herodotus_answers.agreements`), drawing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herodotus_cli.render.formatting import format_age, format_age_or_time, title_of_times
from herodotus_cli.render.screen_elements import (
    Block,
    Cell,
    SplitLine,
    TextLine,
    ViewOptions,
    build_table,
    join_sections,
)
from herodotus_record.units import format_percent, pluralize

if TYPE_CHECKING:
    from herodotus_answers.agreements import Agreements, Disagreement, SchedulerAgreement

_SHOWN = 20  # on a terminal; all when piped
_ROOMY = 140  # columns of a terminal that hold a sentence too


def build_screen(answer: Agreements, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen: the observer's agreement with each scheduler, then unexplained outcomes.

    The outcomes are in order of time, newest first. Piped output has only their table.
    """
    whole = view.piped or view.wide
    disagreements = answer["disagreements"]
    shown = disagreements if whole else disagreements[:_SHOWN]
    left_out = len(disagreements) - len(shown) + answer["disagreementsOmitted"]
    outcomes = sum(s["outcomes"] for s in answer["schedulers"])
    over = "all" if answer["complete"] else "the newest"
    title = f"{over} {pluralize(outcomes, 'outcome')} of the last {format_age(answer['since'], view.now)}"
    sections: list[list[Block]] = [
        [] if view.piped else [SplitLine("disagreements", title)],
        [] if view.piped else [_schedulers(answer["schedulers"])],
        [_outcomes(shown, view)] if shown else [],
        [TextLine(f"… {pluralize(left_out, 'more disagreement')}{'' if whole else ': -o wide'}", "dim")]
        if left_out
        else [],
        [] if view.piped or not shown else [TextLine("more: kubectl herodotus pod NAME (its evaluation)", "dim")],
    ]
    return join_sections(sections)


def _schedulers(schedulers: list[SchedulerAgreement]) -> Block:
    rows = []
    for s in schedulers:
        causes = ", ".join(f"{cause} {n}" for cause, n in s["causes"].items())
        shares = [format_percent(s[name] / s["outcomes"]) for name in ("agree", "agreeInWindow", "disagree", "unknown")]
        rows.append((s["scheduler"], str(s["outcomes"]), *shares, causes or "–"))
    header = ("SCHEDULER", "OUTCOMES", "AGREE", "IN FLIGHT", "DISAGREE", "UNKNOWN", "CAUSES")
    return build_table(header, rows, right=range(1, 6))


def _outcomes(outcomes: list[Disagreement], view: ViewOptions) -> Block:
    roomy = view.piped or view.wide or (view.width or 0) >= _ROOMY
    rows: list[list[Cell | str]] = []
    for o in outcomes:
        row: list[Cell | str] = [
            f"{o['namespace']}/{o['pod']}",
            format_age_or_time(o["at"], view),
            o["node"] or "–",
            o["cause"] or "–",
        ]
        rows.append([*row, o["headline"] or "not kept"] if roomy else row)
    return build_table(("POD", title_of_times(view), "NODE", "CAUSE", *(("EVALUATION",) if roomy else ())), rows)
