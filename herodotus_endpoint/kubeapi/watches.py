"""Watches: new and changed decisions since a resource version, in the order of ingest.

Owns: the state of a watch, versions, bookmarks, timeouts, and the number of watches. Does not own: routes, the encoding
of an event (`routes`).

A version is the highest row ID whose events were sent. A decision changes once, when its result arrives; a watch
remembers decisions without a result and reads them again. A watch that starts at a version repeats results that arrived
shortly before, since the client's list may lack them.

Invariant: each selected decision after the version is sent once as ADDED, in the order of IDs. A version after which
decisions were pruned is Expired (410), so that no client overlooks the loss.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from herodotus_endpoint.api.masked_reader import MaskedListing
from herodotus_endpoint.errors import StatusError, retry_later
from herodotus_endpoint.metrics import EndpointMetrics
from herodotus_endpoint.parameters import RESOURCE_VERSION
from herodotus_endpoint.store.listing import UNSETTLED, AnyCondition

POLL_S: Final = 0.5  # the delay of an event; a poll reads an index twice
BOOKMARK_S: Final = 30.0
BATCH: Final = 500  # decisions read at once
LOOK_BACK_DECISIONS: Final = 1_000  # decisions before a version that may still wait for their result
RESEND_WITHIN_S: Final = 5.0  # an upper bound of the time between a client's list and its watch
MAX_UNSETTLED: Final = 5_000  # decisions without a result; the oldest are dropped, since their scheduler is gone
DEFAULT_TIMEOUT_S: Final = 1_800
MAX_TIMEOUT_S: Final = 3_600  # rights are checked when a watch starts, so a revoked right ends it this late

Change = tuple[str, Any]  # ADDED, MODIFIED or DELETED, and a row
Event = tuple[str, Any, int]  # a change, or BOOKMARK and None, and the version of the watch when it was found


class WatchLimiter:
    """A thread-safe limit on the number of running watches, per reader and in total.

    A user may run `per_user` watches. An address may run half of all, since readers whose names are unknown share the
    API server's address behind its service proxy.
    """

    def __init__(self, total: int, per_user: int, metrics: EndpointMetrics) -> None:
        self._total, self._per_user, self._metrics = total, per_user, metrics
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, user: str, address: str) -> Callable[[], None]:
        """Count a new watch and return the function to call when the watch ends. `user` is "" if it is unknown.

        Raises StatusError 429 if the limit of the user, or of the address of an unknown user, or the total is reached.
        """
        reader = user or f"address {address}"
        limit = self._per_user if user else max(self._per_user, self._total // 2)
        with self._lock:
            full = self._held.total() >= self._total
            if full or self._held[reader] >= limit:
                self._metrics.watches_refused.inc()
                kind = "user" if user else "address"
                running = f"{self._total} watches run" if full else f"{limit} watches of this {kind} run"
                raise retry_later(429, f"{running}, and no more are served at the same time")
            self._held[reader] += 1
            self._metrics.watches.inc()
        given_back = threading.Event()

        def give_back() -> None:
            with self._lock:
                if not given_back.is_set():
                    given_back.set()
                    self._metrics.watches.dec()
                    self._held[reader] -= 1
                    self._held += Counter()  # readers without a watch are forgotten

        return give_back


@dataclass
class Watch:
    """The state of one watch of decisions, which polls the store.

    `version` is the highest row ID that the watch has processed. `unsettled` holds the row IDs of decisions that had no
    result yet. `is_behind` says whether the last poll read as many decisions as it may, so that more are likely stored.
    """

    listing: MaskedListing
    conditions: Sequence[AnyCondition]
    version: int
    unsettled: dict[int, None] = field(default_factory=dict)  # ids, oldest first
    is_behind: bool = False

    def begin(self) -> Iterator[Change]:
        """Yield the changes that are due to results which were stored shortly before the watch began.

        The client's preceding list may lack these results. Earlier decisions that still have no result are remembered
        for `poll`.
        """
        rows = self.listing.list_unsettled(self.version - LOOK_BACK_DECISIONS, self.version, RESEND_WITHIN_S)
        yield from (change for row in rows if row.state != UNSETTLED for change in self._settled(row))
        self._remember(rows)

    def poll(self) -> Iterator[Change]:
        """Yield selected decisions that were stored, or whose result was stored, since the last poll."""
        for row in self.listing.list_settled(self.unsettled) if self.unsettled else []:
            del self.unsettled[row.id]
            yield from self._settled(row)
        rows = self.listing.list_after(self.version, BATCH)
        self.is_behind = len(rows) == BATCH
        yield from self.add(rows)

    def add(self, rows: Iterable[Any]) -> Iterator[Change]:
        """Set `version` to the ID of each row in turn, and yield an ADDED change for the rows that the watch selects.

        `rows` are rows of decisions, oldest first. Decisions without a result are remembered for `poll`.
        """
        for row in rows:
            self.version = row.id
            self._remember([row])
            if self._selects(row, row.state):
                yield "ADDED", row

    def _settled(self, row: Any) -> Iterator[Change]:
        """Yield the change of a decision whose result has arrived: ADDED, MODIFIED, DELETED or none.

        The result changes the decision's state, so that the selector may start or stop matching it.
        """
        match self._selects(row, UNSETTLED), self._selects(row, row.state):
            case True, True:
                yield "MODIFIED", row
            case False, True:
                yield "ADDED", row
            case True, False:
                yield "DELETED", row

    def _remember(self, rows: Sequence[Any]) -> None:
        self.unsettled |= {row.id: None for row in rows if row.state == UNSETTLED}
        while len(self.unsettled) > MAX_UNSETTLED:
            del self.unsettled[next(iter(self.unsettled))]

    def _selects(self, row: Any, state: str) -> bool:
        """Return whether the watch's conditions would match the decision in `row` if its state were `state`."""
        return all(c.selects(row, state) for c in self.conditions)


def parse_start_version(listing: MaskedListing, version: str) -> int:
    """Return the row ID that a resourceVersion contains, after which a watch begins.

    Raises StatusError 400 if it is not a number, and 410 if later decisions are pruned or the database has no such row.
    """
    lowest, highest = listing.id_range()
    if not version.isdecimal() or len(version) > RESOURCE_VERSION.max_length:
        raise StatusError(400, f"resourceVersion {version[:64]!r} was not issued by this service")
    if not lowest - 1 <= int(version) <= highest:
        message = f"too old resource version: {version} ({lowest - 1})"
        raise StatusError(410, message, reason="Expired")
    return int(version)


def add_version(watch: Watch, changes: Iterator[Change]) -> list[Event]:
    """Return the changes as events: each with the watch's `version` after it, at which a client can continue."""
    return [(kind, row, watch.version) for kind, row in changes]


def iterate_polls(
    watch: Watch, timeout_s: float, bookmarks: bool, clock: Callable[[], float], sleep: Callable[[float], Any]
) -> Iterator[list[Event]]:
    """Poll a watch for `timeout_s` seconds, and yield the events of each poll.

    If `bookmarks` is true, a BOOKMARK without a row follows every BOOKMARK_S seconds. `clock` returns monotonic
    seconds. `sleep` waits for some seconds and returns True to end the watch.
    """
    deadline, bookmark_at = clock() + timeout_s, clock() + BOOKMARK_S
    while True:
        yield add_version(watch, watch.poll())
        if clock() >= deadline:
            return
        if bookmarks and clock() >= bookmark_at:
            bookmark_at = clock() + BOOKMARK_S
            yield [("BOOKMARK", None, watch.version)]
        if not watch.is_behind and sleep(min(POLL_S, max(0.0, deadline - clock()))):
            return
