"""Blocks on a terminal, drawn by Rich: folded to its width and never cut, with colour where it is wanted.

Owns: folding, colours. Does not own: what blocks say; `plain` draws what is piped.

Invariant: colour repeats what a word or a sign already says; without it nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from herodotus_cli.render.blocks import Blank, Block, Line, Sides, Style, Table, View, clean

_COLOURS: dict[Style, str] = {"": "", "strong": "bold", "good": "green", "bad": "red", "dim": "dim"}
_GAP = 2
_NO_LIMIT = 1_000_000  # Rich's console cuts what is wider than itself; the width to fold to is given a block
_FOLDED = 16  # a last column that is narrower than this reads worse than a broken line


def text(blocks: Sequence[Block], view: View, *, color: bool) -> str:
    """The screen, with escape sequences only where `color` is wanted."""
    out = StringIO()
    console = Console(
        file=out,
        width=_NO_LIMIT,
        force_terminal=True,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
        _environ={},
    )
    assert view.width is not None
    for block in blocks:
        _draw(console, block, view, view.width)
    lines = out.getvalue().split("\n")
    return "\n".join(line.rstrip() for line in lines)


def _draw(console: Console, block: Block, view: View, width: int) -> None:
    match block:
        case Blank():
            console.print()
        case Line():
            console.print(_text(block.text, block.style), width=width, soft_wrap=block.exact)
        case Sides():
            for part in _sides(block, width):
                console.print(part, width=width)
        case Table():
            console.print(_grid(block, view), width=max(width, _least_width(block)))


def _sides(block: Sides, width: int) -> list[Text]:
    left, right = _text(block.left, block.style), _text(block.right)
    room = width - left.cell_len - right.cell_len
    if room < _GAP:
        return [left, right]
    return [left + Text(" " * min(room, _GAP * 2)) + right]


def _grid(block: Table, view: View) -> Grid:
    columns = len(block.header) or len(block.rows[0])
    grid = Grid(
        box=None,
        pad_edge=False,
        padding=(0, _GAP, 0, 0),
        show_header=bool(block.header) and view.headers,
        header_style="bold",
    )
    for i in range(columns):
        grid.add_column(
            Text(block.header[i]) if block.header else "",
            justify="right" if i in block.right else "left",
            no_wrap=i < columns - 1,
            overflow="fold",
        )
    for row in block.rows:
        grid.add_row(*(_text(cell.text, cell.style) for cell in row))
    return grid


def _least_width(block: Table) -> int:
    """What a table needs for nothing to be cut: a narrower terminal breaks its lines, but loses none of them."""
    rows = [[_text(cell.text).cell_len for cell in row[:-1]] for row in block.rows]
    rows.append([len(title) for title in block.header[:-1]] or rows[0])
    words = [len(word) for row in block.rows for word in row[-1].text.split()]
    last = min(_FOLDED, max([*words, *map(len, block.header[-1:])], default=0))
    widths: list[int] = [max(column) for column in zip(*rows, strict=True)]
    return sum(widths) + _GAP * len(widths) + last


def _text(words: str, style: Style = "") -> Text:
    return Text(clean(words), style=_COLOURS[style])
