"""The line on stderr that shows how far a long answer is.

Invariant: one line at most is shown in a process, and `errors.print_to_stderr` removes it before it prints.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from herodotus_cli import errors
from herodotus_record.units import pluralize

NOTE_DELAY_S = 1.0  # most answers take a tenth of that
_AFTER_S = 0.5
_EVERY_S = 0.1
_DECIDING = "deciding pods: {done:,} of {total:,}"
_PLANNING = "searching for plans: {done} of at most {total} s"
_FOUND = "; best: {changes}"  # with the rest of the line in 80 columns
_SHOW = " (Ctrl-C shows it)"
_ACTIVITIES = {  # by the first of these keys that the question has
    "plan": _PLANNING,
    "deschedule": _PLANNING,
    "trials": "searching for a configuration: {done} of at most {total} %",
    "traces": "simulating the trace: {done} of {total} %",
}


class ProgressLine:
    """Shows on stderr, if it is a terminal, how much was read or decided, once that takes longer than half a second.

    With `is_shown` false it shows nothing.
    """

    def __init__(self, *, is_shown: bool = True) -> None:
        self._is_shown = is_shown
        self._began = time.monotonic()
        self._counts: dict[str, int] = {}
        self._is_over = False  # threads may read on after the answer
        self._lock = threading.Lock()
        self._written = 0.0
        self._decided = _DECIDING
        self._has_decided = self._is_interruptible = self._is_interrupted = False

    def report(self, plural: str, count: int) -> None:
        with self._lock:
            self._counts[plural] = count
            if not self._is_over and self._is_shown and _can_erase() and time.monotonic() - self._began > _AFTER_S:
                read = ", ".join(f"{self._counts[kind]:,} {kind}" for kind in ("nodes", "pods") if kind in self._counts)
                self._write(f"reading the cluster: {read}")

    def _write(self, text: str) -> None:
        """Replace the line, cut where a terminal would break it: only its last row could be replaced then."""
        width = errors.read_terminal_width()
        with errors.stderr_lock:
            sys.stderr.write(f"\r\x1b[K{text[: width - 1] if width else text}")
            sys.stderr.flush()
            errors.progress_shown = True
        self._written = time.monotonic()

    def report_decided(self, done: int, total: int, smallest: int = 0) -> None:
        """Show how far the answer is: pods that were decided, seconds of a plan's search, or a simulation's share.

        `smallest` is the number of changes of the smallest plan that was found, 0 without one.
        Raises KeyboardInterrupt if Ctrl-C was pressed within `interruptible`.
        """
        self._has_decided = True
        if self._is_interrupted:
            raise KeyboardInterrupt
        now = time.monotonic()
        if self._is_shown and _can_erase() and now - self._began > _AFTER_S and now - self._written > _EVERY_S:
            found = _FOUND.format(changes=pluralize(smallest, "change")) if smallest else ""
            found += _SHOW if smallest and self._is_interruptible else ""
            self._write(self._decided.format(done=done, total=total) + found)

    def expect(self, spec: Mapping[str, object]) -> None:
        """Take the question whose progress is reported."""
        self._decided = next((text for key, text in _ACTIVITIES.items() if key in spec), _DECIDING)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let Ctrl-C end the evaluation in the block at its next report, so that it answers with what it has.

        A second Ctrl-C, or one before the first report, raises KeyboardInterrupt at once.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(_signal: int, _frame: FrameType | None) -> None:
            if self._is_interrupted or not self._has_decided:
                raise KeyboardInterrupt
            self._is_interrupted = True

        before = signal.signal(signal.SIGINT, interrupt)
        self._is_interruptible = True
        try:
            yield
        finally:
            self._is_interruptible = False
            signal.signal(signal.SIGINT, before)

    def clear(self) -> None:
        """Remove the progress line. Later reports on what was read show nothing."""
        with self._lock:
            self._is_over = True
        with errors.stderr_lock:
            errors.remove_progress()


def _can_erase() -> bool:
    """Return whether stderr is a terminal on which a line can be replaced."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def note_after_delay(note: str) -> Iterator[None]:
    """Print a note on stderr if the block takes longer than NOTE_DELAY_S."""
    timer = threading.Timer(NOTE_DELAY_S, lambda: errors.print_to_stderr(note))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
