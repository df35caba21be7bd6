"""Draws blocks on a terminal with Rich: wrapped to its width, never cut, with colour if wanted.

A table that is too wide is stacked: the columns that fit stay beside each other, and the others go below them,
indented, each with its title.

Owns: wrapping, stacking, colours. Does not own: the content of blocks; `plain_text` draws piped output.

Invariant: colour only repeats what a word or a sign says.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from io import StringIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from herodotus_cli.render.screen_elements import (
    Blank,
    Block,
    Cell,
    Plot,
    SplitLine,
    Style,
    Table,
    TextLine,
    ViewOptions,
    build_plot_table,
    display_width,
    escape_block,
)
from herodotus_cli.render.shell_lines import break_command

_COLOURS: dict[Style, str] = {"": "", "strong": "bold", "good": "green", "bad": "red", "dim": "dim"}
_GAP = 2
_NO_LIMIT = 1_000_000  # Rich cuts lines at the console's width; each block gets the width for wrapping
_MIN_LAST_COLUMN = 16  # a narrower last column is harder to read than one below the others


def draw(blocks: Sequence[Block], view: ViewOptions, *, color: bool) -> str:
    """Return the blocks as text for a terminal of width `view.width`. If `color`, it has colour escape sequences."""
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
    draw_on(console, blocks, view.width, headers=view.headers)
    lines = out.getvalue().split("\n")
    return "\n".join(line.rstrip() for line in lines)


def fit_terminal(build: Callable[[int], list[Block]], most: int, least: int, view: ViewOptions) -> list[Block]:
    """Return the blocks that `build` makes of the largest number of rows that fits the terminal.

    The number is at most `most`, and `least` if none fits.
    """
    numbers = range(least + 1, min(most, view.lines) + 1)  # each row takes a line
    fitting = bisect_right(numbers, view.lines, key=lambda rows: count_lines(build(rows), view))
    return build(min(least + fitting, most))


def count_lines(blocks: Sequence[Block], view: ViewOptions) -> int:
    """Return how many lines of a terminal the blocks take."""
    return draw(blocks, view, color=False).count("\n")


def draw_on(console: Console, blocks: Sequence[Block], width: int, *, headers: bool = True) -> None:
    """Print the blocks on a console of Rich, wrapped to `width` columns; `headers` false omits headers of tables."""
    for block in blocks:
        _draw(console, escape_block(block), width, headers)


def _draw(console: Console, block: Block, width: int, headers: bool) -> None:
    match block:
        case Blank():
            console.print()
        case TextLine(command=True):
            for line in break_command(block.text, width):
                console.print(_text(line, block.style), soft_wrap=True)
        case TextLine():
            console.print(_text(block.text, block.style), width=width)
        case SplitLine():
            for part in _sides(block, width):
                console.print(part, width=width)
        case Plot():
            _draw(console, build_plot_table(block), width, headers)
        case Table() if _least_width(block, width - _GAP) > width:
            _stack(console, block, width, headers)
        case Table():
            console.print(_grid(block, headers), width=width)


def _sides(block: SplitLine, width: int) -> list[Text]:
    left = _text(block.left, block.style)
    for right in map(_text, (block.right, block.short)):
        room = width - left.cell_len - right.cell_len
        if right and room >= _GAP:
            return [left + Text(" " * min(room, _GAP * 2)) + right]
    return [left, _text(block.right)]


def _grid(block: Table, headers: bool) -> Grid:
    columns = len(block.header) or len(block.rows[0])
    grid = Grid(
        box=None,
        pad_edge=False,
        padding=(0, _GAP, 0, 0),
        show_header=bool(block.header) and headers,
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


def _least_width(block: Table, most: int) -> int:
    """Return the least width in columns at which the table is not stacked, because its last column has room.

    The last column needs room for _MIN_LAST_COLUMN columns, or fewer if its cells are shorter, and for its longest
    word, of which at most `most` columns count.
    """
    *widths, last = _widths(block)
    words = [_text(word).cell_len for row in block.rows for word in row[-1].text.split()]
    return sum(widths) + _GAP * len(widths) + max(min(_MIN_LAST_COLUMN, last), min(most, max(words, default=0)))


def _widths(block: Table) -> list[int]:
    rows = [[max(map(display_width, cell.text.split("\n"))) for cell in row] for row in block.rows]
    rows += [[len(title) for title in block.header]] if block.header else []
    return [max(column) for column in zip(*rows, strict=True)]


def _stack(console: Console, block: Table, width: int, with_header: bool) -> None:
    """Print each table row as one line with the columns that fit, and the remaining columns below it.

    A single remaining column stays on the line if it is short enough. Where the header line has no room for its title,
    the title is put before each cell.
    """
    broken = tuple(tuple(_break_names(cell, width - _GAP) for cell in row) for row in block.rows)
    block = block._replace(rows=broken)
    widths = _widths(block)
    beside = next(n for n in range(len(widths) - 1, 0, -1) if n == 1 or sum(widths[:n]) + _GAP * (n - 1) <= width)
    headers = block.header if with_header else ()
    header_width = sum(widths[:beside]) + _GAP * beside + len(headers[-1]) if headers else 0
    titles = headers[beside:] if len(widths) > beside + 1 or header_width > width else ()
    rows = ([tuple(Cell(title, "strong") for title in headers)] if headers else []) + list(block.rows)
    for i, row in enumerate(rows):
        upper = Text(" " * _GAP).join(_aligned(row[n], widths[n], n in block.right) for n in range(beside))
        lower = Text() if titles and headers and i == 0 else _below(row[beside:], titles)
        if not titles and upper.cell_len + _GAP + lower.cell_len <= width:
            upper, lower = upper + Text(" " * _GAP) + lower, Text()
        if upper.plain.strip():
            console.print(upper, width=max(width, upper.cell_len))
        if lower:
            words = max(map(display_width, lower.plain.split()), default=0)  # a name that is wider than all stays whole
            console.print(Padding(lower, (0, 0, 0, _GAP)), width=max(width, words + _GAP))


def _break_names(cell: Cell, width: int) -> Cell:
    """Return the cell with line breaks in names that are wider than the terminal.

    One with a namespace, or of an image, is broken after a slash or an @, where no part of it is cut.
    """
    if display_width(cell.text) <= width:
        return cell
    return cell._replace(text=" ".join(_break_name(word, width) for word in cell.text.split(" ")))


def _break_name(name: str, width: int) -> str:
    lines = [""]
    for part in re.split(r"(?<=[/@])", name):
        if lines[-1] and display_width(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _aligned(cell: Cell, width: int, right: bool) -> Text:
    text = _text(cell.text, cell.style)
    space = Text(" " * (width - text.cell_len))
    return space + text if right else text + space


def _below(row: Sequence[Cell], titles: Sequence[str]) -> Text:
    """Return the cells as one text, each after its title. If `titles` is empty, there are no titles."""
    parts = [_text(cell.text, cell.style) for cell in row]
    if titles:
        parts = [Text(f"{title} ") + part for title, part in zip(titles, parts, strict=True) if part]
    return Text(" " * _GAP).join(part for part in parts if part)


def _text(words: str, style: Style = "") -> Text:
    return Text(words, style=_COLOURS[style])
