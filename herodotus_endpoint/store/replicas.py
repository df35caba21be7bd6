"""Reading from replicas of a PostgreSQL server that are at most MAX_STALENESS_S seconds behind it.

Each process increments a counter in the database once in BEAT_INTERVAL_S, a heartbeat, and keeps the time at which it
began to. A replica whose snapshot contains a heartbeat contains everything that was committed before that time, because
a replica applies commits in order. The staleness of a snapshot is therefore at most the age of its newest heartbeat, by
this process' monotonic clock alone: the clocks of the servers do not count, nor does an idle primary look like a lag,
nor a replica that follows a former primary like a current one.

Owns: heartbeats, which replicas are used, and what a request has read. Does not own: connections (`postgresql`), the
header of the response (`app`).

Invariant: a snapshot from a replica is verified before it is used. Within a request, a later snapshot is never older
than an earlier one. Without a usable replica the primary is read.
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from herodotus_endpoint.store.database import Snapshot, StoreUnavailableError, translate_errors
from herodotus_endpoint.store.schema import HEARTBEAT

if TYPE_CHECKING:
    from herodotus_endpoint.store.connection_string import ConnectionString
    from herodotus_endpoint.store.postgresql import Postgresql

MAX_STALENESS_S: Final = 5.0  # of an answer from a replica
BEAT_INTERVAL_S: Final = 1.0  # a replica without any lag therefore counts as up to a second behind
KEPT_BEATS: Final = 60  # beyond MAX_STALENESS_S for the metric alone
ROW: Final = 1

_log: Final = logging.getLogger(__name__)


class Heartbeats:
    """The latest heartbeats of this process, which bound the staleness of a snapshot. Thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._beats: deque[tuple[int, float]] = deque(maxlen=KEPT_BEATS)  # number, when it began; oldest first

    def add(self, beat: int, began_s: float) -> None:
        """Add a committed heartbeat that began at `began_s` of the monotonic clock.

        If its number is not higher than the last one's, a failover has lost commits, and earlier heartbeats are
        forgotten.
        """
        if self._beats and beat <= self._beats[-1][0]:  # a failover has lost commits
            self._beats.clear()
        self._beats.append((beat, began_s))

    def clear(self) -> None:
        """Forget every heartbeat: until the next one no replica is current."""
        self._beats.clear()

    def staleness_s(self, beat: int) -> float:
        """Return by how many seconds a snapshot may be behind whose newest heartbeat is `beat`; infinity if unknown."""
        began = next((began_s for number, began_s in reversed(tuple(self._beats)) if number <= beat), None)
        return math.inf if began is None else self._monotonic() - began


@dataclass(eq=False)
class _Replica:
    name: str
    engine: sa.Engine
    usable: bool = False
    staleness_s: float = math.inf


class Replicas:
    """The replicas of a PostgreSQL server, of which those that are current enough answer readers.

    Call `start` once. Each new connection to the primary calls `on_new_primary`, because after a failover row ids may
    have been used again.
    """

    def __init__(
        self, database: Postgresql, address: ConnectionString, primary: Snapshot, on_new_primary: Callable[[], None]
    ) -> None:
        """Create the engines of the replicas that `address` names. `primary` opens a snapshot on the primary."""
        self._primary = primary
        self._on_new_primary = on_new_primary
        self._engine = database.heartbeat_engine()
        self._replicas = [_Replica(each.name, database.replica_engine(each)) for each in address.split_hosts()]
        self._turns = itertools.count()
        self._beats = Heartbeats()
        self._connections = 0  # to the primary, made so far
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        sa.event.listen(self._engine, "connect", self._connected)

    def start(self) -> None:
        """Start the threads that send heartbeats and measure the replicas."""
        tasks: list[Callable[[], None]] = [self.beat, *(lambda r=r: self.measure(r) for r in self._replicas)]
        self._threads = [threading.Thread(target=self._repeat, args=(t,), name="replicas", daemon=True) for t in tasks]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop the threads and close every connection."""
        self._ended.set()
        for thread in self._threads:
            thread.join()  # a server that hangs is given up within seconds
        for engine in (self._engine, *(replica.engine for replica in self._replicas)):
            engine.dispose()

    def staleness_s(self) -> dict[str, float]:
        """Return by how many seconds each replica is behind at most, by its address; infinity if it is unknown."""
        return {replica.name: replica.staleness_s for replica in self._replicas}

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """Yield a connection that reads one snapshot, of a replica that is current enough or else of the primary.

        Raises StoreUnavailableError.
        """
        connections, reads = self._connections, current_reads()
        try:
            with ExitStack() as opened:
                replica = None if reads.primary else self._open(reads, opened)
                if replica is None:
                    reads.primary = True  # for the rest of the request: no replica may be as current
                    replica = opened.enter_context(self._primary())
                yield replica
        finally:
            if connections != self._connections:  # what was read may be of the former primary
                self._on_new_primary()

    def beat(self) -> None:
        """Increment the heartbeat on the primary, and remember when that began. Raises StoreUnavailableError."""
        began_s = time.monotonic()
        first = insert(HEARTBEAT).values(id=ROW, beat=1)
        following = first.on_conflict_do_update(index_elements=[HEARTBEAT.c.id], set_={"beat": HEARTBEAT.c.beat + 1})
        with translate_errors(), self._engine.begin() as connection:
            beat = connection.execute(following.returning(HEARTBEAT.c.beat)).scalar_one()
        self._beats.add(beat, began_s)

    def measure(self, replica: _Replica) -> None:
        """Update how many seconds a replica is behind, and whether readers use it. Raises StoreUnavailableError."""
        staleness_s = math.inf
        try:
            with _snapshot(replica.engine) as connection:
                staleness_s = self._beats.staleness_s(_read_beat(connection))
                if staleness_s > MAX_STALENESS_S:
                    connection.invalidate()  # the next one may lead to another server of the same name
        finally:
            replica.staleness_s, usable = staleness_s, staleness_s <= MAX_STALENESS_S
            if usable != replica.usable:
                replica.usable = usable
                _log.info("replica %s is %s", replica.name, "used" if usable else "not used: not current enough")

    def _open(self, reads: RequestReads, opened: ExitStack) -> sa.Connection | None:
        """Open a snapshot of a usable replica and return its connection, or None if no replica can be used.

        A replica that is too stale, or behind what this request has read before, is not used. `reads` gets the
        snapshot's heartbeat and staleness. Closing `opened` closes the connection.
        """
        usable = [replica for replica in self._replicas if replica.usable]
        first = next(self._turns) % len(usable) if usable else 0
        for replica in usable[first:] + usable[:first]:
            try:
                with ExitStack() as attempt:
                    connection = attempt.enter_context(_snapshot(replica.engine))
                    beat = _read_beat(connection)
                    staleness_s = self._beats.staleness_s(beat)
                    if staleness_s > MAX_STALENESS_S or beat < reads.beat:
                        connection.invalidate()
                        continue
                    opened.enter_context(attempt.pop_all())
            except StoreUnavailableError as e:
                replica.usable = False  # until the next measurement
                _log.warning("replica %s: %s", replica.name, e)
                continue
            reads.beat = beat
            reads.staleness_s = max(staleness_s, reads.staleness_s or 0.0)
            return connection
        return None

    def _repeat(self, task: Callable[[], None]) -> None:
        logged = ""
        while not self._ended.wait(BEAT_INTERVAL_S):
            try:
                task()
                logged = ""
            except (StoreUnavailableError, sa.exc.SQLAlchemyError) as e:  # also a right that is missing
                if str(e) != logged and not self._ended.is_set():
                    logged = str(e)
                    _log.warning("cannot measure the replicas: %s", e)

    def _connected(self, *_: object) -> None:
        """Forget the heartbeats and call `on_new_primary`, because a new connection may lead to another primary."""
        self._connections += 1
        self._beats.clear()
        self._on_new_primary()


@contextmanager
def _snapshot(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Yield a connection whose first statement takes its snapshot. Raises StoreUnavailableError."""
    with translate_errors(), engine.connect() as connection:
        yield connection


def _read_beat(connection: sa.Connection) -> int:
    """Return the newest heartbeat in a snapshot, or 0 if it has none."""
    return connection.scalar(sa.select(HEARTBEAT.c.beat).where(HEARTBEAT.c.id == ROW)) or 0


@dataclass
class RequestReads:
    """The snapshots that one HTTP request has read: the newest heartbeat in them, and where they came from.

    `staleness_s` is the largest staleness of a snapshot of a replica in seconds, or None if there was none. `primary`
    is whether the request has read the primary because no replica was usable.
    """

    beat: int = 0
    staleness_s: float | None = None
    primary: bool = False


_request: ContextVar[RequestReads | None] = ContextVar("reads", default=None)


def track_reads() -> RequestReads:
    """Start to note the reads of the current HTTP request, and return the object that will contain them."""
    reads = RequestReads()
    _request.set(reads)
    return reads


def current_reads() -> RequestReads:
    """Return the object of `track_reads` for the current HTTP request, or a new one outside of a request."""
    return _request.get() or RequestReads()
