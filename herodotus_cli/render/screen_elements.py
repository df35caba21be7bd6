"""What a screen is made of: lines, facts and tables, before anyone decides how they are drawn.

Owns: the vocabulary between screens and writers. Does not own: what a screen says, colours, alignment.

Invariant: a block's text cannot move a cursor or turn the direction of writing, whatever the record says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from unicodedata import combining, east_asian_width

from herodotus_record.escaping import escape

Style = Literal["", "strong", "good", "bad", "dim"]


class ViewOptions(NamedTuple):
    """For whom a screen is drawn. `width` None: not a terminal, so lines have no limit."""

    now: datetime
    width: int | None = None
    wide: bool = False
    headers: bool = True
    utc: bool = False

    @property
    def piped(self) -> bool:
        """Whether a program may read the text: one record a line, nothing left blank, no hints."""
        return self.width is None


class Cell(NamedTuple):
    """A text and what its colour repeats."""

    text: str
    style: Style = ""


class TextLine(NamedTuple):
    """A sentence. `exact`: never broken, so that it can be copied whole."""

    text: str
    style: Style = ""
    exact: bool = False


class SplitLine(NamedTuple):
    """A line with a left and a right half; two lines where the width does not hold both."""

    left: str
    right: str
    style: Style = ""


class Table(NamedTuple):
    """Aligned columns; only the last may be folded. `right`: columns of numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    right: frozenset[int] = frozenset()


class Blank(NamedTuple):
    """An empty line."""


Block = TextLine | SplitLine | Table | Blank


def build_table(header: Sequence[str], rows: Iterable[Sequence[Cell | str]], right: Iterable[int] = ()) -> Table:
    """A table of texts and cells."""
    cells = tuple(tuple(c if isinstance(c, Cell) else Cell(c) for c in row) for row in rows)
    return Table(tuple(header), cells, frozenset(right))


def join_sections(sections: Iterable[Sequence[Block]]) -> list[Block]:
    """The sections that say something, with an empty line between them."""
    blocks: list[Block] = []
    for section in sections:
        blocks += [Blank(), *section] if blocks and section else section
    return blocks


def labelled_rows(rows: Iterable[tuple[str, str]]) -> Table:
    """Labels, each with a sentence beside it; those without a sentence are left out."""
    return build_table((), [(Cell(label, "strong"), text) for label, text in rows if text])


def escape_block(block: Block) -> Block:
    """Return the block with every text of it on one line and safe to print."""
    match block:
        case TextLine():
            return block._replace(text=escape(block.text))
        case SplitLine():
            return block._replace(left=escape(block.left), right=escape(block.right))
        case Table():
            header = tuple(escape(title) for title in block.header)
            rows = tuple(tuple(cell._replace(text=escape(cell.text)) for cell in row) for row in block.rows)
            return block._replace(header=header, rows=rows)
        case Blank():
            return block


def display_width(text: str) -> int:
    """How many of a terminal's columns a text takes: wide letters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(c) in "WF" else not combining(c) for c in text)
