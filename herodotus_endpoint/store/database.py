"""The interface of a database, and its errors.

Owns: the protocol that `sqlite` and `postgresql` implement, the store's exceptions. Does not own: migrations of the
schema (`schema_migration`), statements that are the same for both databases.

Invariant: one transaction writes at a time across all processes, from its first statement to its commit. It therefore
never conflicts with another writer, and ids are in the order of commits. A reading connection cannot write and sees one
snapshot per transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol

import sqlalchemy as sa

from herodotus_endpoint.store.query_results import TierSize
from herodotus_endpoint.store.schema import IDENTITY, METADATA

BUSY_TIMEOUT_S: Final = 5.0  # how long a writer waits for another process before the shipper must retry
READERS: Final = 16  # pooled connections for queries, one per thread
DISK_FULL: Final = "53100"  # SQLSTATE of PostgreSQL: disk_full
UNDEFINED: Final = ("42P01", "42703")  # undefined_table, undefined_column

Row = dict[str, Any]
Snapshot = Callable[[], AbstractContextManager[sa.Connection]]


class StoreError(Exception):
    """A database that cannot be opened, for example a wrong path or a newer schema. The message says why."""


class StoreUnavailableError(Exception):
    """A temporary failure of the database (locked, disk full, unreachable); the transaction was rolled back."""


class StoreFullError(StoreUnavailableError):
    """A write failed because the disk or the database is full."""


class Database(Protocol):
    """The interface through which the store uses a database; `Sqlite` and `Postgresql` implement it."""

    name: str
    """A path or an address for messages, never with a password."""

    def prepare(self) -> None:
        """Create the database if needed and migrate its schema. Raises StoreError if that is not possible."""

    def writing_engine(self, *, bounded: bool = True) -> sa.Engine:
        """Return an engine with one connection that writes. A committed transaction survives a power loss.

        `bounded` limits how long a transaction may wait for a database server that does not answer.
        """

    def reading_engine(self) -> sa.Engine:
        """Return an engine whose connections only read; each transaction sees one snapshot."""

    partitioned: bool
    """Whether retention drops whole partitions instead of deleting rows."""

    def ensure_partition(self, connection: sa.Connection, ingested_us: int, tier: int) -> None:
        """Create the table partition for rows of this ingest time and tier if it does not exist.

        `ingested_us` is in microseconds since the epoch. `tier` is FULL, KEPT_LONGER or SUMMARY of `schema`.
        """

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
        """Insert new rows into a table; all rows have the same columns."""

    def insert_missing(self, connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
        """Insert those rows whose primary key is not in the table yet; all rows have the same columns."""

    def check_writable(self, connection: sa.Connection) -> None:
        """Check with trial writes that the database can be written. Raises the driver's error if it cannot."""

    def try_prune_lock(self, connection: sa.Connection) -> AbstractContextManager[bool]:
        """Yield whether this process got the lock for running retention, and hold the lock until the block ends.

        `connection` must not be in a transaction.
        """

    def prunable_before_us(self, now_us: int) -> int:
        """Return the ingest time, in microseconds, before which the deletion of decisions frees space.

        When the database exceeds its size limit, retention deletes only decisions that are older. PostgreSQL frees
        space only by dropping partitions, and the current partition cannot be dropped.
        """

    def drop_oldest_partition(self, connection: sa.Connection, tiers: Sequence[int], before_us: int, most: int) -> int:
        """Drop the oldest partition of these tiers that ended before `before_us`; return how many decisions it had.

        A partition covers a range of ingest times. Empty partitions before it are dropped too, and partitions with more
        than `most` decisions are skipped. Returns 0 if no partition with decisions was dropped.
        """

    def drop_empty_partitions(self, connection: sa.Connection) -> None:
        """Drop the oldest partitions of full records, up to the first partition that contains a decision."""

    def find_damaged_pages(self, connection: sa.Connection) -> list[str]:
        """Run the database's own check of its pages and return a message for each damage that it finds."""

    def live_bytes(self, connection: sa.Connection) -> int:
        """Return the bytes of pages in use by tables and indexes."""

    def measure_tiers(self, connection: sa.Connection) -> dict[str, TierSize]:
        """Return the number of decisions and the bytes used for each of the tiers "full" and "summary"."""

    def file_bytes(self) -> int | None:
        """Return the bytes of the database's files, or None if they are on another machine."""

    def release_space(self, connection: sa.Connection) -> None:
        """Return the space of deleted rows to the file system."""


@contextmanager
def translate_errors() -> Iterator[None]:
    """Replace errors of the database driver in the block by StoreUnavailableError or StoreFullError.

    An error about an invalid statement or row is not replaced, because it is a bug of this program. An error about a
    missing table or column is replaced: a test compares all statements with the schema, so the database is at fault.
    """
    try:
        yield
    except (sa.exc.IntegrityError, sa.exc.ProgrammingError, sa.exc.DataError) as e:
        if getattr(e.orig, "sqlstate", "") not in UNDEFINED:
            raise
        raise StoreUnavailableError(str(e.orig)) from e
    except sa.exc.DBAPIError as e:
        raise (StoreFullError if _full(e.orig) else StoreUnavailableError)(str(e.orig)) from e
    except sa.exc.TimeoutError as e:
        raise StoreUnavailableError("every database connection is in use") from e
    except UnicodeDecodeError as e:  # SQLite's message about a damaged schema may not be UTF-8
        raise StoreUnavailableError(f"the database is damaged: {e}") from e


def _full(error: BaseException | None) -> bool:
    """Return whether a driver's error says that the disk or the database is full."""
    return getattr(error, "sqlite_errorname", "") == "SQLITE_FULL" or getattr(error, "sqlstate", "") == DISK_FULL


def verify_schema(connection: sa.Connection) -> None:
    """Raise StoreUnavailableError if the database lacks a table, or a column of a table, that `schema` defines."""
    for table in METADATA.sorted_tables:
        try:
            with translate_errors():
                connection.execute(sa.select(table).limit(0))
        except StoreUnavailableError as e:
            raise StoreUnavailableError(f"table {table.name} cannot be read: {e}") from e


def read_identity(connection: sa.Connection) -> str:
    """Return the id that the database got when it was created, or an empty string if it has none.

    The id shows when another database has replaced this one.
    """
    return connection.scalar(sa.select(IDENTITY.c.id).limit(1)) or ""
