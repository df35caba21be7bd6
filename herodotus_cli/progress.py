"""The line on stderr that shows how far a long answer is."""

from __future__ import annotations

import sys
import threading
import time

_AFTER_S = 0.5
_EVERY_S = 0.1


class ProgressLine:
    """Shows on stderr, if it is a terminal, how much was read or decided, once that takes longer than half a second."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()
        self._written, self._shown = 0.0, False

    def report(self, plural: str, count: int) -> None:
        with self._lock:
            self._counts[plural] = count
            if sys.stderr.isatty() and time.monotonic() - self._began > _AFTER_S:
                read = ", ".join(f"{self._counts[kind]:,} {kind}" for kind in ("nodes", "pods") if kind in self._counts)
                self._write(f"reading the cluster: {read}")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
        self._written, self._shown = time.monotonic(), True

    def report_decided(self, done: int, total: int) -> None:
        now = time.monotonic()
        if sys.stderr.isatty() and now - self._began > _AFTER_S and now - self._written > _EVERY_S:
            self._write(f"deciding pods: {done:,} of {total:,}")

    def clear(self) -> None:
        """Remove the progress line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            self._shown = False
