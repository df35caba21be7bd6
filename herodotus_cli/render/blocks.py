"""What a screen is made of: lines, facts and tables, before anyone decides how they are drawn.

Owns: the vocabulary between screens and writers. Does not own: what a screen says, colours, alignment.

Invariant: a block's text holds no control characters, whatever the record says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

Style = Literal["", "strong", "good", "bad", "dim"]
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class View:
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


@dataclass(frozen=True)
class Cell:
    """A text and what its colour repeats."""

    text: str
    style: Style = ""


@dataclass(frozen=True)
class Line:
    """A sentence. `exact`: never broken, so that it can be copied whole."""

    text: str
    style: Style = ""
    exact: bool = False


@dataclass(frozen=True)
class Sides:
    """A line with a left and a right half; two lines where the width does not hold both."""

    left: str
    right: str
    style: Style = ""


@dataclass(frozen=True)
class Table:
    """Aligned columns; only the last may be folded. `right`: columns of numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    right: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Blank:
    """An empty line."""


Block = Line | Sides | Table | Blank


def table(header: Sequence[str], rows: Iterable[Sequence[Cell | str]], right: Iterable[int] = ()) -> Table:
    """A table of texts and cells."""
    cells = tuple(tuple(c if isinstance(c, Cell) else Cell(c) for c in row) for row in rows)
    return Table(tuple(header), cells, frozenset(right))


def spaced(sections: Iterable[Sequence[Block]]) -> list[Block]:
    """The sections that say something, with an empty line between them."""
    blocks: list[Block] = []
    for section in sections:
        blocks += [Blank(), *section] if blocks and section else section
    return blocks


def facts(rows: Iterable[tuple[str, str]]) -> Table:
    """Labels, each with a sentence beside it; those without a sentence are left out."""
    return table((), [(Cell(label, "strong"), text) for label, text in rows if text])


def clean(text: str) -> str:
    """A text that cannot move a terminal's cursor."""
    return _CONTROL.sub(" ", text)
