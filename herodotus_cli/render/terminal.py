"""Blocks on a terminal: folded to its width and never cut, with colour where it is wanted.

Owns: folding, colours. Does not own: what blocks say; `plain` draws what is piped. A library of terminal widgets would
cost every answer more time than kubectl needs for its own.

Invariant: colour repeats what a word or a sign already says; without it nothing is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from herodotus_cli.render.blocks import Blank, Block, Cell, Line, Sides, Style, Table, View, clean
from herodotus_cli.render.blocks import cells as width_of

_COLOURS: Final[dict[Style, str]] = {
    "strong": "\x1b[1m",
    "good": "\x1b[32m",
    "bad": "\x1b[31m",
    "dim": "\x1b[2m",
}
_PLAIN: Final = "\x1b[0m"
_GAP: Final = 2
_FOLDED: Final = 16  # a last column that is narrower than this reads worse than a broken line
_WORD: Final = re.compile(r"\s*\S+\s*")

Paint = Callable[[str, Style], str]


def text(blocks: Sequence[Block], view: View, *, color: bool) -> str:
    """The screen, with escape sequences only where `color` is wanted."""
    paint = _painted if color else _bare
    return "".join(f"{line}\n" for block in blocks for line in _lines(block, view, paint))


def _lines(block: Block, view: View, paint: Paint) -> list[str]:
    assert view.width is not None
    match block:
        case Blank():
            return [""]
        case Line():
            said = clean(block.text)
            return [paint(line, block.style) for line in ([said] if block.exact else _folded(said, view.width))]
        case Sides():
            return _sides(block, view.width, paint)
        case Table():
            return _table(block, view, view.width, paint)


def _sides(block: Sides, width: int, paint: Paint) -> list[str]:
    left, right = clean(block.left), clean(block.right)
    room = width - width_of(left) - width_of(right)
    if room < _GAP:
        return [*(paint(line, block.style) for line in _folded(left, width)), *_folded(right, width)]
    return [(paint(left, block.style) + " " * min(room, _GAP * 2) + right).rstrip()]


def _table(block: Table, view: View, width: int, paint: Paint) -> list[str]:
    rows = [[Cell(clean(cell.text), cell.style) for cell in row] for row in block.rows]
    if block.header and view.headers:
        rows.insert(0, [Cell(title, "strong") for title in block.header])
    if not rows:
        return []
    widths = [max(width_of(cell.text) for cell in column) for column in zip(*rows, strict=True)]
    others = sum(widths[:-1]) + _GAP * (len(widths) - 1)
    widths[-1] = max(min(widths[-1], width - others), _least(rows))
    return [line for row in rows for line in _row(row, widths, block.right, paint)]


def _least(rows: Sequence[Sequence[Cell]]) -> int:
    """What a last column needs: a narrower terminal breaks its lines, but loses none of them."""
    return min(_FOLDED, max((width_of(word) for row in rows for word in row[-1].text.split()), default=0))


def _row(row: Sequence[Cell], widths: Sequence[int], right: frozenset[int], paint: Paint) -> list[str]:
    """A row's lines: the last column is folded, the others stand in the first line."""
    *others, last = row
    folded = _folded(last.text, widths[-1])
    lines = []
    for i, part in enumerate(folded):
        line = [_cell(cell if i == 0 else Cell(""), widths[j], j in right, paint) for j, cell in enumerate(others)]
        line.append(_cell(Cell(part, last.style), widths[-1], len(others) in right, paint))
        lines.append((" " * _GAP).join(line).rstrip())
    return lines


def _cell(cell: Cell, width: int, right: bool, paint: Paint) -> str:
    blank = " " * (width - width_of(cell.text))
    said = paint(cell.text, cell.style)
    return blank + said if right else said + blank


def _folded(said: str, width: int) -> list[str]:
    """A text in lines of at most that width: between words, and within one that is longer than a line."""
    lines, line = [], ""
    for word in _WORD.findall(said):
        room = width - width_of(line)
        if width_of(word.rstrip()) <= room:
            line += word
            continue
        if line:
            lines.append(line.rstrip())
        line = word
        while width_of(line.rstrip()) > width:
            start = _start(line, width)
            lines.append(start)
            line = line[len(start) :]
    return [*lines, line.rstrip()]


def _start(word: str, width: int) -> str:
    """As much of a word as a line holds, one letter at least."""
    end = 1
    while end < len(word) and width_of(word[: end + 1]) <= width:
        end += 1
    return word[:end]


def _painted(said: str, style: Style) -> str:
    return f"{_COLOURS[style]}{said}{_PLAIN}" if style and said else said


def _bare(said: str, _style: Style) -> str:
    return said
