"""Reports: answers as one self-contained file for a ticket, a chat or a postmortem.

Owns: what a report consists of. Does not own: the content of screens (the modules beside this package), the questions
(`commands.report`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, NamedTuple

from herodotus_cli.render.screen_elements import Block

ABOUT: Final = "About this report"  # the title of its facts, which come last
FORMATS: Final = {"html": ".html", "md": ".md", "svg": ".svg"}  # with the ends of file names


class Section(NamedTuple):
    """A part of a report: the blocks of a screen. Without a title it follows the report's own."""

    title: str
    blocks: Sequence[Block]


class AnswerReport(NamedTuple):
    """A report. `facts` are label and text of lines about its making: the question, versions, times, the source."""

    title: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]


def draw(report: AnswerReport, format_: str) -> str:
    """Return the report as the text of a file; `format_` is one of FORMATS."""
    writer: Callable[[AnswerReport], str] = import_module(f"{__name__}.{format_}").draw
    return writer(report)
