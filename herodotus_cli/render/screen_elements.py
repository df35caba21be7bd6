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

Style = Literal["", "strong", "good", "bad", "dim"]


class ViewOptions(NamedTuple):
    """How a screen is drawn. A `width` of None means piped output without a limit on line length."""

    now: datetime
    width: int | None = None
    wide: bool = False
    headers: bool = True
    utc: bool = False

    @property
    def piped(self) -> bool:
        """Return whether a program may read the text: one record per line, no blank cells, no hints."""
        return self.width is None


class Cell(NamedTuple):
    """The text of a table cell and its style."""

    text: str
    style: Style = ""


class TextLine(NamedTuple):
    """A sentence. With `exact` it is never wrapped, so that it can be copied."""

    text: str
    style: Style = ""
    exact: bool = False


class SplitLine(NamedTuple):
    """A line with a left and a right half, drawn as two lines if the width does not hold both."""

    left: str
    right: str
    style: Style = ""


class Table(NamedTuple):
    """Aligned columns, of which only the last is wrapped. `right` holds the indexes of right-aligned columns."""

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    right: frozenset[int] = frozenset()


class Blank(NamedTuple):
    """An empty line between other elements."""


Block = TextLine | SplitLine | Table | Blank


def build_table(header: Sequence[str], rows: Iterable[Sequence[Cell | str]], right: Iterable[int] = ()) -> Table:
    """Return a table of texts and cells. `right` holds the indexes of right-aligned columns."""
    cells = tuple(tuple(c if isinstance(c, Cell) else Cell(c) for c in row) for row in rows)
    return Table(tuple(header), cells, frozenset(right))


def join_sections(sections: Iterable[Sequence[Block]]) -> list[Block]:
    """Return the blocks of the non-empty sections, with an empty line between sections."""
    blocks: list[Block] = []
    for section in sections:
        blocks += [Blank(), *section] if blocks and section else section
    return blocks


def headline(text: str, node: str | None) -> TextLine:
    """Return the answer as a line: green if the pod has a node, otherwise red."""
    return TextLine(text, "good" if node else "bad")


def labelled_rows(rows: Iterable[tuple[str, str]], bold: Collection[str] = ()) -> Table:
    """Return a table of labels and sentences without the rows that have no sentence.

    `bold` names the labels whose sentences are bold too.
    """
    return build_table(
        (), [(Cell(label, "strong"), Cell(text, "strong" if label in bold else "")) for label, text in rows if text]
    )


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
    """Return the terminal columns that a text occupies: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(c) in "WF" else not combining(c) for c in text)
