"""Watches: which decisions came and changed since a version, in the order of their ingest.

Owns: what a watch remembers, versions, bookmarks, its end; how many watches there may be. Does not own: routes, forms
of an object (`routes` passes how an event is written).

A version is a place in the store: the highest decision id of which events were sent. A decision changes once, when its
result comes; a watch remembers those that still wait for theirs and looks at them again. One that starts at a version
is told again of results that came shortly before, since the reader's list may not have had them.

Invariant: each decision behind the version that is selected is sent once as ADDED, in the order of ids. A version of
which something was pruned is Expired (410), so that nobody takes a hole for silence.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from herodotus_endpoint.errors import ApiError, busy
from herodotus_endpoint.metrics import Metrics
from herodotus_endpoint.store.listing import UNSETTLED, AnyCondition, Listing

POLL_S: Final = 0.5  # how late an event may be; a poll is two reads of an index
BOOKMARK_S: Final = 30.0
BATCH: Final = 500  # decisions read at once
LOOK_BACK: Final = 1_000  # decisions before a version that may still wait for their result
TOLD_AGAIN_S: Final = 5.0  # between a reader's list and its watch no more time passes
REMEMBERED: Final = 5_000  # decisions without a result; the oldest are given up: their scheduler is gone
DEFAULT_TIMEOUT_S: Final = 1_800
MAX_TIMEOUT_S: Final = 3_600  # rights are checked when a watch begins: what was taken back ends this late

Event = tuple[str, Any]  # ADDED, MODIFIED or DELETED and a row, BOOKMARK and None


class Places:
    """How many watches there are, of each user and in all. Thread-safe."""

    def __init__(self, total: int, per_user: int, metrics: Metrics) -> None:
        self._total, self._per_user, self._metrics = total, per_user, metrics
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, user: str) -> Callable[[], None]:
        """A place, to be given back by what is returned. 429 when there is none."""
        with self._lock:
            full, his = self._held.total() >= self._total, self._held[user] >= self._per_user
            if full or his:
                self._metrics.watches_refused.inc()
                whose = f"{self._total} watches run" if full else f"{self._per_user} watches of this user run"
                raise busy(429, f"{whose}, and no more are served at the same time")
            self._held[user] += 1
            self._metrics.watches.inc()
        given_back = threading.Event()

        def give_back() -> None:
            with self._lock:
                if not given_back.is_set():
                    given_back.set()
                    self._metrics.watches.dec()
                    self._held[user] -= 1
                    self._held += Counter()  # users without a watch are forgotten

        return give_back


@dataclass
class Watch:
    """One watch. `version`: up to which place its events were sent."""

    listing: Listing
    conditions: Sequence[AnyCondition]
    version: int
    unsettled: dict[int, None] = field(default_factory=dict)  # ids, oldest first

    def begin(self, now_us: int) -> Iterator[Event]:
        """What may have changed just before the version."""
        since_us = now_us - int(TOLD_AGAIN_S * 1e6)
        rows = self.listing.settling(self.version - LOOK_BACK, self.version, since_us)
        yield from (event for row in rows if row.state != UNSETTLED for event in self._settled(row))
        self._remember(rows)

    def poll(self) -> Iterator[Event]:
        """What came and changed since the last time."""
        waiting = self.listing.of_ids(self.unsettled) if self.unsettled else []
        for row in [row for row in waiting if row.state != UNSETTLED]:
            del self.unsettled[row.id]
            yield from self._settled(row)
        for row in self.listing.following(self.version, BATCH):
            self.version = row.id
            self._remember([row])
            if self._selects(row, row.state):
                yield "ADDED", row

    def _settled(self, row: Any) -> Iterator[Event]:
        """The event of a result: a selector may begin or cease to select the decision by it."""
        match self._selects(row, UNSETTLED), self._selects(row, row.state):
            case True, True:
                yield "MODIFIED", row
            case False, True:
                yield "ADDED", row
            case True, False:
                yield "DELETED", row

    def _remember(self, rows: Sequence[Any]) -> None:
        self.unsettled |= {row.id: None for row in rows if row.state == UNSETTLED}
        while len(self.unsettled) > REMEMBERED:
            del self.unsettled[next(iter(self.unsettled))]

    def _selects(self, row: Any, state: str) -> bool:
        """Whether the conditions hold for the decision while it is in a state."""
        return all(c.selects(row, state) for c in self.conditions)


def start_of(listing: Listing, version: str) -> int:
    """The place that a version names; 410 when something behind it was pruned, or when it is of another database."""
    lowest, highest = listing.bounds()
    if not version.isdecimal() or len(version) > 18:
        raise ApiError(400, f"resourceVersion {version[:64]!r} is none of ours")
    if not lowest - 1 <= int(version) <= highest:
        message = f"too old resource version: {version} ({lowest - 1})"
        raise ApiError(410, message, reason="Expired")
    return int(version)


def events(
    watch: Watch, timeout_s: float, bookmarks: bool, clock: Callable[[], float], sleep: Callable[[float], Any]
) -> Iterator[Event]:
    """The events of a watch until its time is over. `clock`: monotonic; `sleep` answers True to end it at once."""
    deadline, bookmark_at = clock() + timeout_s, clock() + BOOKMARK_S
    while True:
        found = False
        for event in watch.poll():
            found = True
            yield event
        if clock() >= deadline:
            return
        if bookmarks and clock() >= bookmark_at:
            bookmark_at = clock() + BOOKMARK_S
            yield "BOOKMARK", None
        if not found and sleep(min(POLL_S, max(0.0, deadline - clock()))):
            return
