"""What watches poll: new decisions and the results of earlier ones, read once for all watches of a process.

Owns: the rows that were read lately. Does not own: the statements (`listing`), the state of a watch
(`kubeapi.watches`).

Invariant: a read returns every row that the database had SHARED_S before the caller asked. A row, with the state that
it had when it was read, is kept for about KEPT_S, so that retention and purges take effect soon; `list_settled` returns
the states that changed.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Collection
from threading import Lock
from typing import Any, Final

import sqlalchemy as sa

from herodotus_endpoint.store.database import Snapshot, StoreUnavailableError
from herodotus_endpoint.store.listing import UNSETTLED, Listing
from herodotus_endpoint.store.retention_clock import RetentionClock

SHARED_S: Final = 0.25  # half of the time between two polls of a watch
KEPT_S: Final = 5.0
MAX_ROWS: Final = 2_000  # new decisions that one read returns, a few megabytes
MAX_FOLLOWED: Final = 10_000  # decisions without a result that are read again; the oldest are dropped


class WatchedListing(Listing):
    """A listing of which watches share the reads, so that work does not grow with their number. Thread-safe.

    A watch that is further behind than the rows that are kept reads for itself.
    """

    def __init__(
        self, snapshot: Snapshot, clock: RetentionClock, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Create a listing. `snapshot` opens a connection, `monotonic` returns the monotonic clock's seconds."""
        super().__init__(snapshot, clock)
        self._monotonic = monotonic
        self._lock = Lock()
        self._read_at = float("-inf")
        self._after = 0  # _newest has every row above this id, up to its last one
        self._newest: list[sa.Row[Any]] = []
        self._newest_since = 0.0
        self._followed: dict[int, None] = {}  # ids of decisions without a result, oldest first
        self._settled: dict[int, tuple[float, sa.Row[Any]]] = {}  # by id: when it was read, and the row
        self._is_outdated = False
        self._failure: tuple[float, StoreUnavailableError] | None = None  # of the last read: its end, and the error

    def forget_rows(self) -> None:
        """Make the next read discard all cached rows, because another server may use their ids for other decisions."""
        self._is_outdated = True

    def list_after(self, after: int, limit: int) -> list[sa.Row[Any]]:
        """Return at most `limit` rows of `decisions` with ids above `after`, oldest first."""
        asked_at = self._monotonic()
        with self._lock:
            self._read(asked_at)
            if after >= self._after:
                first = bisect_right(self._newest, after, key=lambda row: int(row.id))
                return self._newest[first : first + limit]
        return super().list_after(after, limit)

    def list_settled(self, ids: Collection[int]) -> list[sa.Row[Any]]:
        """Return the rows of `decisions` that have one of these ids and a result, oldest first."""
        asked_at = self._monotonic()
        with self._lock:
            self._read(asked_at)
            if unknown := [i for i in ids if i not in self._followed and i not in self._settled]:
                self._follow(unknown)
                self._settle(unknown)
            return [self._settled[i][1] for i in sorted(self._settled.keys() & set(ids))]

    def _read(self, asked_at: float) -> None:
        """Read new rows and new results, unless the latest read began at most SHARED_S before `asked_at`.

        If a read failed after `asked_at`, while the caller waited for the lock, its error is raised again. Raises
        StoreUnavailableError.
        """
        if self._failure is not None and asked_at <= self._failure[0]:
            raise self._failure[1]
        if self._read_at > asked_at - SHARED_S:
            return
        try:
            self._read_new_rows()
            self._failure = None
        except StoreUnavailableError as e:
            self._failure = self._monotonic(), e
            self._is_outdated = True
            raise

    def _read_new_rows(self) -> None:
        now = self._monotonic()
        if self._is_outdated or now - self._read_at > KEPT_S:  # in that time no watch polled
            self._is_outdated = False
            self._after = self.id_range()[1]
            self._newest, self._followed, self._settled = [], {}, {}
        elif len(self._newest) > MAX_ROWS or (self._newest and now - self._newest_since > KEPT_S):
            self._after, self._newest = int(self._newest[-1].id), []
        rows = super().list_after(int(self._newest[-1].id) if self._newest else self._after, MAX_ROWS)
        if not self._newest:
            self._newest_since = now
        self._newest += rows
        self._follow([row.id for row in rows if row.state == UNSETTLED])
        recent = [(i, read) for i, read in self._settled.items() if now - read[0] <= KEPT_S]
        self._settled = dict(recent[-MAX_ROWS:])
        self._settle(list(self._followed))
        self._read_at = now

    def _follow(self, ids: Collection[int]) -> None:
        self._followed |= dict.fromkeys(ids)
        while len(self._followed) > MAX_FOLLOWED:
            del self._followed[next(iter(self._followed))]

    def _settle(self, ids: Collection[int]) -> None:
        """Read the rows of those decisions in `ids` that have a result, and cache the rows."""
        for row in super().list_settled(ids) if ids else []:
            self._followed.pop(row.id, None)
            self._settled[row.id] = self._monotonic(), row
