"""Draws blocks as plain text: aligned columns, one record per line, no limit on width.

Owns: alignment. Does not own: terminals (`terminal`), the content of blocks.

Invariant: no line is cut or wrapped; no colour, no trailing spaces.
"""

from __future__ import annotations

from collections.abc import Sequence

from herodotus_cli.render.screen_elements import (
    Blank,
    Block,
    Plot,
    SplitLine,
    Table,
    TextLine,
    ViewOptions,
    build_plot_table,
    display_width,
    escape_block,
)

GAP = "  "


def draw(blocks: Sequence[Block], view: ViewOptions) -> str:
    """Return the blocks as plain text for piped output: no colour, and no limit on the length of a line."""
    return "".join(f"{line.rstrip()}\n" for block in blocks for line in _lines(escape_block(block), view))


def _lines(block: Block, view: ViewOptions) -> list[str]:
    match block:
        case Blank():
            return [""]
        case TextLine():
            return [block.text]
        case SplitLine():
            return [GAP.join(part for part in (block.left, block.right) if part)]
        case Table():
            return _table(block, view)
        case Plot():
            return _table(build_plot_table(block), view)


def _table(block: Table, view: ViewOptions) -> list[str]:
    rows = [[cell.text for cell in row] for row in block.rows]
    if block.header and view.headers:
        rows.insert(0, list(block.header))
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    return [GAP.join(_pad(row[i], widths[i], i in block.right) for i in range(len(row))) for row in rows]


def _pad(cell: str, width: int, right: bool) -> str:
    space = " " * (width - display_width(cell))
    return space + cell if right else cell + space
