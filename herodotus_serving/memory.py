"""Memory of requests: a limit for those that are processed at the same time, and its return to the system.

Owns: waiting for memory in order of arrival, the estimate for JSON, the setting of malloc. Does not own: the estimate
for frames of records (`herodotus_record.codec.decoded_size`).
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# JSON has at most one value per comma. Measured: 55 bytes per comma for nodes, 294 for victims of preemption.
_BYTES_PER_JSON_VALUE: Final = 256
_M_MMAP_THRESHOLD: Final = -3  # of mallopt(3)
_MAPPED_BYTES: Final = 256 << 10


def return_large_blocks() -> None:
    """Make glibc's malloc return freed blocks of at least 256 KiB to the system at once.

    By default glibc raises this threshold to the size of the largest block that was freed, at most 32 MiB, and keeps
    smaller ones in an arena for each thread: after bodies of 31 MiB the extender service had 575 MiB, and has 320 MiB
    with this. Other C libraries have no such setting.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)


def estimate_json_bytes(body: bytes) -> int:
    """Return an estimate of the memory in bytes that a JSON document takes when it is decoded."""
    return _BYTES_PER_JSON_VALUE * body.count(b",")


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
