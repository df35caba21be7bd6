"""A limit on the memory of the requests that are processed at the same time.

Owns: waiting for memory in order of arrival. Does not own: the estimate of how much a request needs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class MemoryGate:
    """A semaphore that counts bytes, to limit the memory of requests that are processed at the same time.

    Requests wait in order of arrival, so that small ones do not starve a large one.
    """

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self._free = maximum
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()

    @contextmanager
    def hold(self, size: int, timeout_s: float) -> Iterator[bool]:
        """Reserve `size` bytes during a `with` block.

        Yield True, or False if the bytes do not become free within `timeout_s` seconds.
        """
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            entered = self._changed.wait_for(lambda: self._waiting[0] is ticket and size <= self._free, timeout_s)
            self._waiting.remove(ticket)
            self._free -= size if entered else 0
            self._changed.notify_all()
        try:
            yield entered
        finally:
            with self._changed:
                self._free += size if entered else 0
                self._changed.notify_all()
