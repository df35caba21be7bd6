"""An open store, and the database behind a URL.

Owns: connections from opening to closing, and the clock, writer and readers that share them. Does not own: statements,
which replica is read (`replicas`).

Invariant: nothing is acknowledged before it is committed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from herodotus_endpoint.store.database import Database, StoreError, read_identity, translate_errors
from herodotus_endpoint.store.listing import Listing
from herodotus_endpoint.store.reader import Reader
from herodotus_endpoint.store.record_loader import RecordLoader
from herodotus_endpoint.store.retention_clock import RetentionClock
from herodotus_endpoint.store.reviews import ReviewStore
from herodotus_endpoint.store.sqlite import Sqlite
from herodotus_endpoint.store.watched_listing import WatchedListing
from herodotus_endpoint.store.writer import Writer

if TYPE_CHECKING:
    from herodotus_endpoint.store.postgresql import Postgresql
    from herodotus_endpoint.store.replicas import Replicas

_POSTGRESQL: Final = re.compile(r"postgres(ql)?(\+psycopg)?:|\s*[a-z_]+\s*=")  # a URI, or libpq's keyword form


def database_from_url(url: str) -> Database:
    """Return the database that a URL names, without opening it.

    Raises StoreError if the text is not a URL or names an unsupported kind of database.
    """
    if _POSTGRESQL.match(url):
        return _postgresql(url)
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError as e:
        raise StoreError(f"{url!r} is no database URL") from e
    match parsed.get_backend_name():
        case "sqlite" if parsed.database and parsed.database != ":memory:":
            return Sqlite(Path(parsed.database))
        case _:
            shown = parsed.render_as_string(hide_password=True)
            raise StoreError(f"database URL {shown!r}: sqlite:///FILE and postgresql://HOST/DATABASE are supported")


def _postgresql(url: str) -> Postgresql:
    from herodotus_endpoint.store.connection_string import ConnectionString
    from herodotus_endpoint.store.postgresql import Postgresql

    return Postgresql(ConnectionString.parse(url))


def check_read_url(url: str) -> None:
    """Raise StoreError if the value of --read-database-url is not a connection string of PostgreSQL."""
    if not _POSTGRESQL.match(url):
        raise StoreError("--read-database-url: postgresql://HOST,HOST/DATABASE is supported")
    _postgresql(url)


def prepare_database(url: str) -> Database:
    """Create the database of a URL if it does not exist, migrate its schema, and return it.

    Raises StoreError if the database cannot be used.
    """
    database = database_from_url(url)
    database.prepare()
    return database


class Store:
    """An open database with its writer, its readers and the clock of retention.

    Open it after a fork: connections do not survive one.
    """

    def __init__(
        self,
        database: str | Database,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        read_url: str = "",
    ) -> None:
        """Open a database, given by its URL or prepared already. Raises StoreError if it cannot be used.

        `clock` returns the wall clock's time and `monotonic` the monotonic clock's, both in seconds. `read_url` names
        replicas of a PostgreSQL database, from which `replica_reader` and `replica_listing` read.
        """
        self.database = prepare_database(database) if isinstance(database, str) else database
        self._engines = self.database.writing_engine(), self.database.reading_engine()
        self.clock = RetentionClock(clock, monotonic)
        self.writer = Writer(self.database, self._engines[0], self.clock)
        with self.writer.transaction() as connection:
            self.clock.start(connection)
        self.records = RecordLoader()
        with self.snapshot() as connection:
            identity = read_identity(connection)
        self.reader = self.replica_reader = Reader(self.database, self.snapshot, self.records, identity)
        self.listing = self.replica_listing = Listing(self.snapshot, self.clock)
        self.watched_listing = WatchedListing(self.snapshot, self.clock)
        # a server that took over may lack commits, if replication is asynchronous, and use their row ids again
        for forget in (self.records.clear, self.watched_listing.forget_rows):
            sa.event.listen(self._engines[0], "connect", lambda *_, forget=forget: forget())
        self.reviews = ReviewStore(self.writer, self._engines[1], clock)
        self.replicas = self._open_replicas(read_url, identity) if read_url else None

    def _open_replicas(self, url: str, identity: str) -> Replicas:
        """Begin to read from replicas. Raises StoreError if the URL or the database is not of PostgreSQL."""
        from herodotus_endpoint.store.connection_string import ConnectionString
        from herodotus_endpoint.store.postgresql import Postgresql
        from herodotus_endpoint.store.replicas import Replicas

        if not isinstance(self.database, Postgresql):
            raise StoreError("replicas can only be read of a PostgreSQL database")
        records = RecordLoader()
        replicas = Replicas(self.database, ConnectionString.parse(url), self.snapshot, records.clear)
        self.replica_reader = Reader(self.database, replicas.snapshot, records, identity)
        self.replica_listing = Listing(replicas.snapshot, self.clock)
        replicas.start()
        return replicas

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """Yield a connection that reads one snapshot of the store. Raises StoreUnavailableError."""
        with translate_errors(), self._engines[1].connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def try_prune_lock(self) -> Iterator[bool]:
        """Yield whether this process got the lock for running retention, and hold the lock until the block ends.

        Only one process at a time can hold it. Raises StoreUnavailableError.
        """
        with (
            translate_errors(),
            self._engines[1].connect() as connection,
            self.database.try_prune_lock(connection) as locked,
        ):
            yield locked

    def file_bytes(self) -> int | None:
        """Return the bytes of the database's files, or None if they are on another machine."""
        return self.database.file_bytes()

    def close(self) -> None:
        """Close every connection to the database."""
        if self.replicas:
            self.replicas.close()
        for engine in self._engines:
            engine.dispose()
