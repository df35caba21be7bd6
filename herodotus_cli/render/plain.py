"""Blocks as plain text: aligned columns, one record a line, no limit on width.

Owns: alignment. Does not own: terminals (`terminal`), what blocks say.

Invariant: no line is cut or broken, no colour, no trailing spaces.
"""

from __future__ import annotations

from collections.abc import Sequence

from herodotus_cli.render.blocks import Blank, Block, Line, Sides, Table, View, cells, escaped

GAP = "  "


def text(blocks: Sequence[Block], view: View) -> str:
    """The screen."""
    return "".join(f"{line.rstrip()}\n" for block in blocks for line in _lines(escaped(block), view))


def _lines(block: Block, view: View) -> list[str]:
    match block:
        case Blank():
            return [""]
        case Line():
            return [block.text]
        case Sides():
            return [GAP.join(part for part in (block.left, block.right) if part)]
        case Table():
            return _table(block, view)


def _table(block: Table, view: View) -> list[str]:
    rows = [[cell.text for cell in row] for row in block.rows]
    if block.header and view.headers:
        rows.insert(0, list(block.header))
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    return [GAP.join(_pad(row[i], widths[i], i in block.right) for i in range(len(row))) for row in rows]


def _pad(cell: str, width: int, right: bool) -> str:
    space = " " * (width - cells(cell))
    return space + cell if right else cell + space
