"""A least-recently-used (LRU) cache, the only one of this project.

Owns: the order of use, the total size, eviction. Does not own: what is cached, and locks: callers with several threads
hold one of theirs.

Invariant: the total size of the entries is at most `limit`, unless a single entry is larger.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lru(Generic[K, V]):
    """A cache that evicts the least recently used entries when their total size exceeds a limit.

    It always keeps the entry that was put last, even if that one alone exceeds the limit. Values must not be None.
    """

    def __init__(self, limit: int, size: Callable[[V], int] | None = None) -> None:
        """Create an empty cache for values with a total size of at most `limit`.

        `size` returns the size of a value, which must not change while it is cached. Without it, each value counts 1.
        """
        self._limit = limit
        self._size = size
        self._entries: OrderedDict[K, V] = OrderedDict()  # least recently used first
        self._total = 0

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the cached value of a key and mark it as used, or return None if the key is not cached."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def get_or_create(self, key: K, create: Callable[[], V]) -> V:
        """Return the value of a key and mark it as used; if it is not cached, create and cache it."""
        value = self.get(key)
        return self.put(key, create()) if value is None else value

    def peek(self, key: K) -> V | None:
        """Return the cached value of a key without marking it as used, or None if the key is not cached."""
        return self._entries.get(key)

    def put(self, key: K, value: V) -> V:
        """Cache a value as the most recently used one, evict what exceeds the limit, and return the value."""
        self.discard(key)
        self._entries[key] = value
        self._total += self._size(value) if self._size else 1
        self._evict()
        return value

    def discard(self, key: K) -> None:
        """Remove a key and its value, if it is cached."""
        removed = self._entries.pop(key, None)
        if removed is not None:
            self._total -= self._size(removed) if self._size else 1

    def __iter__(self) -> Iterator[K]:
        """Iterate over the cached keys, the least recently used one first."""
        return iter(self._entries)

    def set_limit(self, limit: int) -> None:
        """Change the limit and evict what exceeds it."""
        self._limit = limit
        self._evict()

    def clear(self) -> None:
        self._entries.clear()
        self._total = 0

    def _evict(self) -> None:
        while self._total > self._limit and len(self._entries) > 1:
            _, evicted = self._entries.popitem(last=False)
            self._total -= self._size(evicted) if self._size else 1
