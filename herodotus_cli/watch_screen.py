"""Draws an answer on a terminal again and again, in place, for --watch.

Owns: the terminal while an answer is watched, what is marked as changed, what fits. Does not own: when the answer is
requested again (`decision_watch`), its content.

Invariant: after any end of the watch, Ctrl-C and SIGTERM included, the terminal is left as it was, with the last answer
below what was there before.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from difflib import SequenceMatcher
from io import StringIO
from typing import TYPE_CHECKING, Any

from herodotus_cli.environment import Environment, Screen, build_blocks, draw_blocks
from herodotus_cli.errors import ServerError
from herodotus_cli.option_values import OutputOptions

if TYPE_CHECKING:
    from types import TracebackType

    from herodotus_cli.render.screen_elements import ViewOptions

_ENTER = "\x1b[?1049h\x1b[?25l"  # the alternate screen, without a cursor (xterm's control sequences)
_LEAVE = "\x1b[?25h\x1b[?1049l"
_TOP, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_MARK, _PLAIN = "\x1b[7m", "\x1b[0m"  # reverse video is no colour, so NO_COLOR allows it
_HEIGHT = 24  # where the terminal does not tell it


class WatchScreen:
    """The terminal of a watched answer: a context that draws each answer over the one before.

    Lines that an answer has and the one before lacks are marked. Both are drawn for the same time, so that an age that
    grew is no change.
    """

    def __init__(self, environment: Environment, output: OutputOptions) -> None:
        self._environment = environment
        self._output = output
        self._screens: list[Screen] = []
        self._notes: list[str] = []
        self._is_first = True
        self._is_open = False
        self._handler_before: Any = None

    def __enter__(self) -> WatchScreen:
        self._handler_before = signal.signal(signal.SIGTERM, self._terminate)
        self._is_open = True
        self._environment.out.write(_ENTER)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._restore()
        signal.signal(signal.SIGTERM, self._handler_before)

    def draw_next(self, ask: Callable[[Environment], None]) -> None:
        """Call `ask` with an environment that collects the answer instead of printing it, and draw that answer.

        If the object is not found, the error is drawn as part of the answer, unless this is the first call. Raises any
        other error of `ask`.
        """
        screens: list[Screen] = []
        notes = StringIO()
        try:
            with redirect_stderr(notes):
                ask(self._environment._replace(collect=lambda _, screen: screens.append(screen)))
        except ServerError as e:
            if e.reason != "NotFound" or self._is_first:
                raise
            notes.write("\n".join(e.lines))
        self._draw(screens, notes.getvalue().splitlines())

    def _draw(self, screens: list[Screen], notes: list[str]) -> None:
        view = self._view()
        lines = self._list_lines(screens, notes, view, color=self._environment.uses_color(self._output))
        plain = self._list_lines(screens, notes, view, color=False)
        before = plain if self._is_first else self._list_lines(self._screens, self._notes, view, color=False)
        changed, gone = find_changes(before, plain)
        self._screens, self._notes, self._is_first = screens, notes, False  # Ctrl-C may end the drawing below
        room = (self._environment.height() or _HEIGHT) - 1  # the last line says until when this is true
        shown = lines if len(lines) <= room else lines[: room - 1]
        text = [
            f"{_MARK}{line.replace(_PLAIN, _PLAIN + _MARK)}{_PLAIN}" if i in changed else line
            for i, line in enumerate(shown)
        ]
        if len(shown) < len(lines):
            text.append(f"… {len(lines) - len(shown)} more lines, which Ctrl-C prints")
        text.append(self._describe(len(changed), gone))
        self._environment.out.write(_TOP + f"{_REST_OF_LINE}\n".join(text) + _REST_OF_LINE + _REST_OF_SCREEN)
        self._environment.out.flush()

    def _describe(self, changed: int, gone: int) -> str:
        """Return the last line of the screen: the answer's time, and the numbers of changed and removed lines."""
        counts = [f"{changed} new or changed"] * bool(changed) + [f"{gone} gone"] * bool(gone)
        news = f"; lines: {', '.join(counts)}" if counts else ""
        return f"as of {self._environment.now():%H:%M:%S}{news}; Ctrl-C ends it"

    def _list_lines(self, screens: Sequence[Screen], notes: list[str], view: ViewOptions, *, color: bool) -> list[str]:
        drawn = [draw_blocks(build_blocks(screen, view), view, color=color) for screen in screens]
        return [*notes, *(line for text in drawn for line in text.rstrip("\n").split("\n"))]

    def _view(self) -> ViewOptions:
        return self._environment.view_options(self._output)

    def _restore(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        lines = self._list_lines(
            self._screens, self._notes, self._view(), color=self._environment.uses_color(self._output)
        )
        self._environment.out.write(_LEAVE + "".join(f"{line}\n" for line in lines))
        self._environment.out.flush()

    def _terminate(self, number: int, _frame: object) -> None:
        self._restore()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _mark(line: str) -> str:
    return f"{_MARK}{line.replace(_PLAIN, _PLAIN + _MARK)}{_PLAIN}"


def find_changes(before: Sequence[str], after: Sequence[str]) -> tuple[set[int], int]:
    """Return the indexes of the lines of `after` that `before` lacks, and how many lines of `before` are gone.

    Spaces do not count, because a new row may widen the columns of a table.
    """
    old, new = ([" ".join(line.split()) for line in lines] for lines in (before, after))
    changed, gone = set[int](), 0
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            changed.update(j for j in range(j1, j2) if new[j])
            gone += max(0, (i2 - i1) - (j2 - j1))
    return changed, gone
