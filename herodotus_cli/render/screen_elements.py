"""The elements of a screen: lines, labelled rows and tables, independent of how they are drawn.

Owns: the interface between screens and writers. Does not own: the content of screens, colours, alignment.

Invariant: text from a record cannot move the cursor or change the writing direction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from unicodedata import combining, east_asian_width

from herodotus_record.escaping import escape

SCREEN_LINES = 22  # of a terminal of 24 with a prompt and a note; the least that a screen is built for

_BARS = "▁▂▃▄▅▆▇█"

Style = Literal["", "strong", "good", "bad", "dim"]


class ViewOptions(NamedTuple):
    """The options for drawing a screen.

    A `width` of None means piped output without a limit on line length. `lines` is how many lines a screen may take on
    the terminal. `now` is the time to which ages refer. A `report` is for people, and whole as piped output is.
    """

    now: datetime
    width: int | None = None
    wide: bool = False
    headers: bool = True
    utc: bool = False
    lines: int = SCREEN_LINES
    report: bool = False

    @property
    def piped(self) -> bool:
        """Whether the output is piped, so that a program may read it: one record per line, no blank cells, no hints."""
        return self.width is None


class Cell(NamedTuple):
    """The text of a table cell and its style."""

    text: str
    style: Style = ""


class TextLine(NamedTuple):
    """A screen element: a sentence, or a shell command, which is broken only where a shell joins the lines."""

    text: str
    style: Style = ""
    command: bool = False


class SplitLine(NamedTuple):
    """A screen element: a line with a left and a right half, drawn as two lines if the width is too small.

    On a terminal `short` replaces the right half if only `short` fits beside the left half.
    """

    left: str
    right: str
    style: Style = ""
    short: str = ""


class Table(NamedTuple):
    """A screen element: aligned columns, of which only the last is wrapped.

    `right` holds the indexes of right-aligned columns.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    right: frozenset[int] = frozenset()


class PlotLine(NamedTuple):
    """A line of a plot: its name, and its values at times that are spread evenly."""

    name: str
    values: tuple[float, ...]


class Plot(NamedTuple):
    """A screen element: lines over a time from `start` to `end`, which are texts. The title names the unit.

    Writers of text draw the table of `build_plot_table`. Values are not negative.
    """

    title: str
    start: str
    end: str
    lines: tuple[PlotLine, ...]

    @property
    def highest(self) -> float:
        """The value at the top of the plot, which all lines share; the bottom is 0."""
        return max(max(line.values) for line in self.lines) or 1.0


class Blank(NamedTuple):
    """A screen element: an empty line between other elements."""


Block = TextLine | SplitLine | Table | Plot | Blank


def build_table(header: Sequence[str], rows: Iterable[Sequence[Cell | str]], right: Iterable[int] = ()) -> Table:
    """Return a table whose rows consist of texts or cells. `right` holds the indexes of right-aligned columns."""
    cells = tuple(tuple(c if isinstance(c, Cell) else Cell(c) for c in row) for row in rows)
    return Table(tuple(header), cells, frozenset(right))


def build_plot_table(plot: Plot) -> Table:
    """Return a table with a row for each line of a plot: its values as bars of a character each, lowest and highest."""
    rows = [
        (
            line.name,
            "".join(_BARS[round(value / plot.highest * (len(_BARS) - 1))] for value in line.values),
            format_plotted(min(line.values)),
            format_plotted(max(line.values)),
        )
        for line in plot.lines
    ]
    return build_table((plot.title, f"{plot.start} to {plot.end}", "LOWEST", "HIGHEST"), rows, right=(2, 3))


def format_plotted(value: float) -> str:
    """Return a value of a plot with at most one digit behind the point."""
    return f"{value:,.1f}".removesuffix(".0")


def join_sections(sections: Iterable[Sequence[Block]]) -> list[Block]:
    """Return the blocks of all sections, with an empty line between sections. Empty sections are left out."""
    blocks: list[Block] = []
    for section in sections:
        blocks += [Blank(), *section] if blocks and section else section
    return blocks


def headline(text: str, node: str | None) -> TextLine:
    """Return the screen's main sentence as a line: green if the pod has a node, otherwise red."""
    return TextLine(text, "good" if node else "bad")


def labelled_rows(rows: Iterable[tuple[str, str]], bold: Collection[str] = ()) -> Table:
    """Return a table without a header from (label, sentence) pairs. Pairs with an empty sentence are left out.

    `bold` names the labels whose sentences are bold.
    """
    return build_table(
        (), [(Cell(label, "strong"), Cell(text, "strong" if label in bold else "")) for label, text in rows if text]
    )


def is_labelled(block: Block, section: Sequence[Block]) -> bool:
    """Return whether a block is a table of labelled rows, and its section consists of such tables alone."""
    return all(isinstance(each, Table) and not each.header for each in section) and isinstance(block, Table)


def merge_rows(tables: Iterable[Block]) -> Table:
    """Return one table of the rows of several tables of labelled rows, so that their sentences are aligned."""
    return Table((), tuple(row for table in tables if isinstance(table, Table) for row in table.rows))


def escape_block(block: Block) -> Block:
    """Return a copy of the block whose texts are on one line each, with unsafe characters escaped."""
    match block:
        case TextLine():
            return block._replace(text=escape(block.text))
        case SplitLine():
            return block._replace(left=escape(block.left), right=escape(block.right), short=escape(block.short))
        case Table():
            header = tuple(escape(title) for title in block.header)
            rows = tuple(tuple(cell._replace(text=escape(cell.text)) for cell in row) for row in block.rows)
            return block._replace(header=header, rows=rows)
        case Plot():
            lines = tuple(line._replace(name=escape(line.name)) for line in block.lines)
            return block._replace(title=escape(block.title), lines=lines)
        case Blank():
            return block


def display_width(text: str) -> int:
    """Return how many terminal columns a text occupies: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(c) in "WF" else not combining(c) for c in text)
