"""The screen of `simulate tune`: SimulationTuning -> blocks.

Owns: the figure on both halves, the changes and the configuration. Does not own: the figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from herodotus_cli.render.screen_elements import Block, SplitLine, TextLine, ViewOptions, build_table, join_sections

Json = dict[str, Any]


def build_screen(answer: Json, _view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen: headline, the halves, what changes, the configuration, and notes."""
    gain, check = answer["gain"], answer["check"]
    rows = [_build_row("searched", answer["training"])]
    if check is not None:
        rows.append(_build_row("unseen", check))
    changes = [(each["setting"], str(each["present"]), str(each["tuned"])) for each in answer["changes"]]
    sections: list[list[Block]] = [
        [SplitLine(f"simulate tune {answer['trace']}", "what-if: nothing is changed")],
        [TextLine(answer["headline"])],
        [
            build_table(
                ["HALF", "ARRIVALS", f"PRESENT {answer['figure']}", "TUNED", "DIFFERENCE"], rows, right=range(1, 5)
            )
        ],
    ]
    if changes:
        sections.append([build_table(["SETTING", "PRESENT", "TUNED"], changes)])
        sections.append([TextLine(line) for line in answer["tunedConfiguration"].splitlines()])
    notes = [*_list_notes(answer, gain), *answer["missing"]]
    return join_sections([*sections, [TextLine(f"note: {each}", "dim") for each in notes]])


def _build_row(half: str, part: Json) -> list[str]:
    present, tuned = part["present"], part["tuned"]
    difference = f"{tuned - present:+.4g}" if tuned != present else "0"
    return [half, f"{part['arrivals']}", f"{present:.4g}", f"{tuned:.4g}", difference]


def _list_notes(answer: Json, gain: Json | None) -> Iterator[str]:
    tried = f"{answer['tried']} configurations were tried" + ("" if answer["isComplete"] else ", until the time limit")
    yield f"{tried}. What is found keeps {', '.join(answer['limits'])}." if answer["limits"] else f"{tried}."
    if gain is not None:
        yield f"The interval has the gain with 95 % confidence, by {gain['samples']} samples of the unseen arrivals."
