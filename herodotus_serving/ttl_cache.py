"""A cache whose entries expire after a few seconds.

Owns: the lifetime and the number of entries. Does not own: how a missing value is computed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

# Kubernetes' delegated authentication and authorization cache as long, so a revoked right ends at most this late.
TTL_S: Final = 10.0
MAX_ENTRIES: Final = 4096  # readers times namespaces; more entries mean that somebody guesses tokens

V = TypeVar("V")


class TTLCache(Generic[V]):
    """A thread-safe cache whose entries expire after TTL_S seconds.

    It evicts the oldest entry first if it is full, and it does not cache exceptions.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Create an empty cache; `clock` returns monotonic seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[object, tuple[float, V]] = {}

    def get(self, key: object, compute: Callable[[], V]) -> V:
        """Return the cached value of a key; if there is none or it has expired, cache the result of `compute`."""
        with self._lock:
            cached = self._entries.get(key)
        if cached is not None and self._clock() < cached[0]:
            return cached[1]
        value = compute()
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = (self._clock() + TTL_S, value)
            while len(self._entries) > MAX_ENTRIES:
                del self._entries[next(iter(self._entries))]
        return value
