"""The store: decisions at rest in a SQL database. The only room that knows SQL.

Owns: opening and closing, and what the rest of the endpoint may see of it. Does not own: HTTP, documents.

Invariant: nothing is acknowledged before it is committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from herodotus_endpoint.store.ages import Limits
from herodotus_endpoint.store.clock import RetentionClock
from herodotus_endpoint.store.engine import (
    Database,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    guarded,
    read_identity,
)
from herodotus_endpoint.store.facts import Involved, KnownIncarnation, NodeFacts, Share, Sizes, Stored, Wait
from herodotus_endpoint.store.integrity import DamagedError
from herodotus_endpoint.store.listing import Listing
from herodotus_endpoint.store.noderows import NodeRowsMissingError
from herodotus_endpoint.store.postgresql import Postgresql
from herodotus_endpoint.store.reader import Reader
from herodotus_endpoint.store.retention import Pruned, Pruner, Pruning
from herodotus_endpoint.store.reviews import Reviews
from herodotus_endpoint.store.sqlite import Sqlite, sqlite_url
from herodotus_endpoint.store.wholes import Wholes
from herodotus_endpoint.store.writer import BatchError, ForeignClusterError, Receipt, Writer

__all__ = [
    "BatchError",
    "DamagedError",
    "Database",
    "ForeignClusterError",
    "Involved",
    "KnownIncarnation",
    "Limits",
    "NodeFacts",
    "NodeRowsMissingError",
    "Pruned",
    "Pruner",
    "Pruning",
    "Receipt",
    "Share",
    "Sizes",
    "Store",
    "StoreError",
    "StoreFullError",
    "StoreUnavailableError",
    "Stored",
    "Wait",
    "database",
    "prepare",
    "sqlite_url",
]


def database(url: str) -> Database:
    """The database behind a URL. StoreError when the URL is none, or of a kind that is not supported."""
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError as e:
        raise StoreError(f"{url!r} is no database URL") from e
    match parsed.get_backend_name():
        case "sqlite" if parsed.database and parsed.database != ":memory:":
            return Sqlite(Path(parsed.database))
        case "postgresql":
            return Postgresql(parsed)
        case _:
            shown = parsed.render_as_string(hide_password=True)
            raise StoreError(f"database URL {shown!r}: sqlite:///FILE and postgresql://HOST/DATABASE are supported")


def prepare(url: str) -> Database:
    """The database behind a URL, made and brought up to date. StoreError when it cannot be used."""
    found = database(url)
    found.prepare()
    return found


class Store:
    """An open database. Opened after a fork, never before: connections do not survive one."""

    def __init__(
        self,
        url: str,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """StoreError when the database cannot be used. `clock`: the wall clock."""
        self.database = prepare(url)
        self._engines = self.database.writing_engine(), self.database.reading_engine()
        self.clock = RetentionClock(clock, monotonic)
        self.writer = Writer(self.database, self._engines[0], self.clock)
        with self.writer.transaction() as connection:
            self.clock.start(connection)
        self.wholes = Wholes()
        with self.snapshot() as connection:
            identity = read_identity(connection)
        self.reader = Reader(self.database, self._engines[1], self.wholes, identity)
        self.listing = Listing(self._engines[1], self.clock)
        self.reviews = Reviews(self.writer, self._engines[1], clock)

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """A connection that reads the store as it is now, however long it takes. StoreUnavailableError as it says."""
        with guarded(), self._engines[1].connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether no other process prunes; nor does one until the block ends. StoreUnavailableError as it says."""
        with guarded(), self._engines[1].connect() as connection, self.database.alone(connection) as alone:
            yield alone

    def file_bytes(self) -> int | None:
        """Bytes of the database's files on disk; None where they are another machine's."""
        return self.database.file_bytes()

    def close(self) -> None:
        """Close every connection."""
        for engine in self._engines:
            engine.dispose()
