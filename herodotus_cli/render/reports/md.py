"""Draws a report as Markdown with tables (GitHub Flavored Markdown), for tickets and chats.

Owns: the syntax. Does not own: what the report says.

Invariant: no text is read as markup: what means something in Markdown or HTML is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from herodotus_cli.render.reports import ABOUT, AnswerReport
from herodotus_cli.render.screen_elements import (
    Blank,
    Block,
    Cell,
    Plot,
    SplitLine,
    Table,
    TextLine,
    build_plot_table,
    escape_block,
)
from herodotus_record.escaping import escape

_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>|~&])")
_FIRST: Final = re.compile(r"^([#+=-]|\d+(?=[.)]))")  # means something at the beginning of a line


def draw(report: AnswerReport) -> str:
    """Return the report as the text of a Markdown file."""
    parts = [f"# {_text(escape(report.title))}"]
    for section in report.sections:
        if section.title:
            parts.append(f"## {_text(section.title)}")
        parts += [drawn for block in section.blocks if (drawn := _draw(escape_block(block)))]
    facts = "\n".join(f"- **{_text(label)}**: {_text(escape(text))}" for label, text in report.facts)
    return "\n\n".join([*parts, f"## {ABOUT}", facts]) + "\n"


def _draw(block: Block) -> str:
    match block:
        case Blank():
            return ""
        case TextLine(command=True):
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", block.text)), default=0))
            return f"{fence}sh\n{block.text.strip()}\n{fence}"
        case TextLine():
            return _emphasize(Cell(block.text.strip(), block.style))
        case SplitLine():
            return " · ".join(_text(part) for part in (block.left, block.right) if part)
        case Table(header=()):
            return "\n\n".join(" ".join(map(_emphasize, filter(any, row))) for row in block.rows)
        case Table():
            return "\n".join(_rows(block))
        case Plot():
            return "\n".join(_rows(build_plot_table(block)))


def _rows(block: Table) -> Iterator[str]:
    """Yield the lines of a table; none if it has no rows."""
    if not block.rows:
        return
    yield _row([_text(title) for title in block.header])
    yield _row(["--:" if i in block.right else "---" for i in range(len(block.header))])
    for row in block.rows:
        yield _row([_emphasize(cell) for cell in row])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _emphasize(cell: Cell) -> str:
    text = _text(cell.text)
    return f"**{text}**" if text and cell.style in ("strong", "good", "bad") else text


def _text(text: str) -> str:
    escaped = _SPECIAL.sub(r"\\\1", text.strip())
    return _FIRST.sub(lambda first: f"{first[0]}\\" if first[0].isdigit() else f"\\{first[0]}", escaped)
