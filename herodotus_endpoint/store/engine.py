"""Opening a database: the file and its permissions, connections, the schema's migration.

Owns: SQLite's pragmas and transaction modes, Alembic's start, the store's two exceptions. Does not own: statements.

Invariant: a transaction of the writing engine holds SQLite's one write lock from its first statement, so that it never
fails half-way because another writer came between; reading engines cannot write.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util import CommandError

BUSY_TIMEOUT_S: Final = 5.0  # a writer waits this long for another process; then the shipper is told to come again
PAGE_BYTES: Final = 16384  # decisions are blobs of 0.5 to 20 kB: a third faster than pages of 4 kB
WAL_LIMIT: Final = f"journal_size_limit={64 << 20}"  # what a burst leaves of the write-ahead log on disk
READERS: Final = 16  # connections kept for queries; one a thread
MIGRATIONS: Final = Path(__file__).parent / "migrations"


class StoreError(Exception):
    """The database cannot be opened as it is: wrong path, wrong permissions, a newer schema. The message says why."""


class StoreUnavailableError(Exception):
    """The database could not do it now (locked, disk full, gone); nothing of the transaction was stored."""


def sqlite_url(file: Path) -> str:
    """The database URL of a SQLite file."""
    return f"sqlite:///{file}"


def prepare(url: str) -> Path:
    """Create the database file (0600, in a directory of 0700) unless it is there, and bring its schema up to date.

    StoreError when that is not possible. Answers with the file's path.
    """
    file = _file_of(url)
    if file.parent.exists() and not file.parent.is_dir():
        raise StoreError(f"cannot use {file.parent}: it is not a directory")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as e:
        raise StoreError(f"cannot use {file}: {e.strerror}") from e
    engine = writing_engine(url)
    try:
        with guarded(), engine.begin() as connection:
            _migrate(connection)
    except (StoreUnavailableError, CommandError) as e:
        raise StoreError(f"cannot use {file}: {e}") from e
    finally:
        engine.dispose()
    return file


def writing_engine(url: str) -> sa.Engine:
    """One connection that writes. FULL: an acknowledged batch survives power loss too, at one fsync a batch."""
    pragmas = (f"page_size={PAGE_BYTES}", "auto_vacuum=INCREMENTAL", "journal_mode=WAL", "synchronous=FULL", WAL_LIMIT)
    return _engine(url, pragmas, begin="BEGIN IMMEDIATE", connections=1)


def reading_engine(url: str) -> sa.Engine:
    """Connections that only read, each request in one snapshot."""
    return _engine(url, ("query_only=ON",), begin="BEGIN", connections=READERS)


@contextmanager
def guarded() -> Iterator[None]:
    """Turns the database's refusals into StoreUnavailableError; a statement that is wrong stays an error of ours."""
    try:
        yield
    except (sa.exc.IntegrityError, sa.exc.ProgrammingError, sa.exc.DataError):
        raise
    except sa.exc.DBAPIError as e:
        raise StoreUnavailableError(str(e.orig)) from e
    except sa.exc.TimeoutError as e:
        raise StoreUnavailableError("every database connection is in use") from e


def live_bytes(connection: sa.Connection) -> int:
    """Bytes of pages in use, whatever the file's size."""
    pages = [connection.exec_driver_sql(f"PRAGMA {p}").scalar_one() for p in ("page_count", "freelist_count")]
    size: int = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
    return (int(pages[0]) - int(pages[1])) * size


def give_back_pages(connection: sa.Connection, most: int) -> None:
    """Cut free pages off the file. One a statement: Python's driver steps the pragma once, whatever its number."""
    free: int = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
    for _ in range(min(free, most)):
        connection.exec_driver_sql("PRAGMA incremental_vacuum(1)")


def file_bytes(file: Path) -> int:
    """Bytes of the database's files on disk, write-ahead log included."""
    found = (file.with_name(file.name + suffix) for suffix in ("", "-wal", "-shm"))
    return sum(f.stat().st_size for f in found if f.exists())


def _file_of(url: str) -> Path:
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError as e:
        raise StoreError(f"{url!r} is no database URL") from e
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:":
        raise StoreError(f"database URL {url!r}: only sqlite:///FILE is supported")
    return Path(parsed.database)


def _engine(url: str, pragmas: tuple[str, ...], begin: str, connections: int) -> sa.Engine:
    engine = sa.create_engine(
        url,
        poolclass=sa.QueuePool,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=BUSY_TIMEOUT_S,
        connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False},
    )

    def connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # transactions begin where `begun` says, not where the driver guesses
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}").close()

    def begun(connection: sa.Connection) -> None:
        connection.exec_driver_sql(begin)

    sa.event.listen(engine, "connect", connected)
    sa.event.listen(engine, "begin", begun)
    return engine


def _migrate(connection: sa.Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
