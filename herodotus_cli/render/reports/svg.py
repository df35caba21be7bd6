"""Draws a report as an SVG picture of a terminal, for slides and chats that show pictures alone.

Owns: the width of the picture. Does not own: layout and colours of a terminal (`render.terminal`).
"""

from __future__ import annotations

import re
from io import StringIO
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI

from herodotus_cli.render import terminal
from herodotus_cli.render.reports import ABOUT, AnswerReport, Section
from herodotus_cli.render.screen_elements import TextLine, join_sections, labelled_rows
from herodotus_record.escaping import escape

WIDTH: Final = 120  # columns


# Rich's picture loads its fonts from the web; any monospaced font of the reader's serves.
_FONTS: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def draw(report: AnswerReport) -> str:
    """Return the report as the text of an SVG file."""
    sections = [*report.sections, Section(ABOUT, [labelled_rows(report.facts)])]
    blocks = join_sections(
        [*([TextLine(section.title, "strong")] if section.title else []), *section.blocks] for section in sections
    )
    console = Console(file=StringIO(), width=WIDTH, record=True, force_terminal=True, legacy_windows=False)
    terminal.draw_on(console, blocks, WIDTH)
    return _FONTS.sub("", console.export_svg(title=escape(report.title), theme=MONOKAI))
