"""Widgets of `top`: rows, of which only those on the screen are drawn, the text of answers, the line of the keys.

Owns: the cursor, scrolling, drawing of rows and of the text of answers. Does not own: the content of rows (`rows`).

Invariant: a change of rows or of the cursor sends only those lines to the terminal that differ, for slow connections.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from herodotus_cli.top.rows import Part

_CURSOR, _REST = Style(reverse=True), Style(bold=True)  # of the row of the cursor with the focus, and without
Line = tuple[tuple[Part, ...], Style | None]  # the parts of a row, and the style of the cursor if it is on the row
_KEYS: list[BindingType] = [
    Binding("up,k", "move(-1)", show=False),
    Binding("down,j", "move(1)", show=False),
    Binding("pageup", "page(-1)", show=False),
    Binding("pagedown,space", "page(1)", show=False),
    Binding("home", "end(False)", show=False),
    Binding("end", "end(True)", show=False),
]


class RowList(ScrollView, can_focus=True):
    """A list of rows with a cursor, which stays on its row while rows come and go."""

    BINDINGS: ClassVar[list[BindingType]] = [*_KEYS, Binding("enter", "choose", show=False)]

    class Chosen(Message):
        """Enter was pressed on a row."""

        def __init__(self, rows: RowList, row: Any) -> None:
            super().__init__()
            self.rows, self.row = rows, row

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, rows: RowList) -> None:
            super().__init__()
            self.rows = rows

    def __init__(self, key: Callable[[Any], object], **options: Any) -> None:
        """Create an empty list. `key` returns the identity of a row.

        By that the cursor stays on its row after an update. `options` are those of Textual's ScrollView.
        """
        super().__init__(**options)
        self._key = key
        self._rows: Sequence[Any] = ()
        self._write: Callable[[Any], list[Part]] = lambda _row: []
        self._drawn: dict[int, Line] = {}  # by line of the widget
        self.cursor = 0

    @property
    def row(self) -> Any | None:
        """The row under the cursor, or None if there are no rows."""
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    @property
    def rows(self) -> Sequence[Any]:
        """All rows, also those that the list has no lines for."""
        return self._rows

    def show_rows(self, rows: Sequence[Any], write: Callable[[Any], list[Part]]) -> None:
        """Replace the rows, and keep the cursor on its row if that still exists. `write` returns the parts of a row."""
        present = self.row
        self._rows, self._write = rows, write
        if present is not None:
            key = self._key(present)
            same = next((i for i, row in enumerate(rows) if self._key(row) == key), self.cursor)
            self.cursor = max(0, min(same, len(rows) - 1))
        self.virtual_size = Size(self.size.width, len(rows))
        if self.cursor:
            self._show_cursor()
        self._refresh_changed_lines()
        if (None if self.row is None else self._key(self.row)) != (None if present is None else self._key(present)):
            self.post_message(self.Moved(self))

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        line = self._drawn[y] = self._build_line(y)
        parts, cursor = line
        if not parts:
            return Strip.blank(width)
        strip = Strip([Segment(text, Style.parse(style)) for text, style in parts if text]).adjust_cell_length(width)
        return strip.apply_style(cursor) if cursor else strip

    def _build_line(self, y: int) -> Line:
        """Return the parts of the row on line `y` of the widget, and the cursor's style if the cursor is on the row.

        Below the last row there are no parts. Without the cursor the style is None.
        """
        index = self.scroll_offset.y + y
        if index >= len(self._rows):
            return (), None
        style = _CURSOR if self.has_focus else _REST
        return tuple(self._write(self._rows[index])), style if index == self.cursor else None

    def _refresh_changed_lines(self) -> None:
        for y in range(self.size.height):
            if self._drawn.get(y) != self._build_line(y):
                self.refresh(Region(0, y, self.size.width, 1))

    def action_move(self, rows: int) -> None:
        """Move the cursor by a number of rows."""
        self._move_to(self.cursor + rows)

    def action_page(self, pages: int) -> None:
        """Move the cursor by a number of pages."""
        self._move_to(self.cursor + pages * max(1, self.size.height - 1))

    def action_end(self, last: bool) -> None:
        """Move the cursor to the last row if `last` is true, otherwise to the first."""
        self._move_to(len(self._rows) if last else 0)

    def action_choose(self) -> None:
        """Post the message `Chosen` for the row under the cursor, if there is one."""
        if self.row is not None:
            self.post_message(self.Chosen(self, self.row))

    def _move_to(self, index: int) -> None:
        index = max(0, min(index, len(self._rows) - 1))
        if index != self.cursor:
            self.cursor = index
            self._show_cursor()
            self._refresh_changed_lines()
            self.post_message(self.Moved(self))

    def _show_cursor(self) -> None:
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True)


class KeysLine(Static):
    """The last line of a screen: what its keys do. A narrow terminal shows fewer of them."""

    def __init__(self, *keys: str, always: Sequence[str] = ("? help", "q quit"), **options: Any) -> None:
        """Create a line of `keys`, the most used ones first. Those in `always` are at its end, however narrow it is."""
        super().__init__("", classes="keys", markup=False, **options)
        self._keys, self._always = keys, always

    def show_keys(self, *keys: str) -> None:
        """Replace the keys before those that are always there."""
        self._keys = keys
        self.on_resize()

    def on_resize(self) -> None:
        """Show as many keys as fit the present width."""
        shown = list(self._keys)
        while shown and len(self._join(shown)) > self.size.width:
            shown.pop()
        self.update(self._join(shown), layout=False)

    def _join(self, keys: Sequence[str]) -> str:
        return " " + "  ".join((*keys, *self._always))


class AnswerText(ScrollView, can_focus=True):
    """The text of an answer, with the colours in which a command prints it."""

    BINDINGS: ClassVar[list[BindingType]] = _KEYS

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._lines: list[Text] = []

    def show_text(self, text: str) -> None:
        """Replace the text, which may have colour escape sequences."""
        self._lines = [Text.from_ansi(line) for line in text.rstrip("\n").split("\n")]
        self.virtual_size = Size(max((line.cell_len for line in self._lines), default=0), len(self._lines))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        offset, width = self.scroll_offset, self.scrollable_content_region.width
        if offset.y + y >= len(self._lines):
            return Strip.blank(width)
        strip = Strip(self._lines[offset.y + y].render(self.app.console))
        return strip.crop(offset.x, offset.x + width).adjust_cell_length(width)

    def action_move(self, rows: int) -> None:
        """Scroll by a number of lines."""
        self.scroll_relative(y=rows, animate=False)

    def action_page(self, pages: int) -> None:
        """Scroll by a number of pages."""
        self.scroll_relative(y=pages * max(1, self.size.height - 1), animate=False)

    def action_end(self, last: bool) -> None:
        """Scroll to the end if `last` is true, otherwise to the beginning."""
        self.scroll_to(y=self.max_scroll_y if last else 0, animate=False)
