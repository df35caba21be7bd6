"""A gate that bounds the memory of requests that are worked on.

Owns: waiting for memory, in order of arrival. Does not own: how much a request needs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class MemoryGate:
    """A semaphore of bytes: the first that waits is served first, so that large requests are not passed over."""

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self._free = maximum
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()

    @contextmanager
    def hold(self, size: int, timeout_s: float) -> Iterator[bool]:
        """Wait for `size` bytes and hold them for the block; yield False if they are not free in time."""
        turn = object()
        with self._changed:
            self._waiting.append(turn)
            entered = self._changed.wait_for(lambda: self._waiting[0] is turn and size <= self._free, timeout_s)
            self._waiting.remove(turn)
            self._free -= size if entered else 0
            self._changed.notify_all()
        try:
            yield entered
        finally:
            with self._changed:
                self._free += size if entered else 0
                self._changed.notify_all()
