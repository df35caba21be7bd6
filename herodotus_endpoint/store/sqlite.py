"""The store in a SQLite file, for one process that writes.

Owns: the file and its permissions, pragmas and transaction modes. Does not own: statements that both databases share.

A marker file beside the database contains its identity (MARKER). It distinguishes a first start from a start whose
database has been lost: only a first start creates a database.

Invariant: no transaction begins or commits on a file that was deleted or replaced. SQLite itself would continue to use
a deleted file, and committed records would be lost when the process ends.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from sqlite3 import Connection, Cursor, DatabaseError
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from herodotus_endpoint.store.database import (
    BUSY_TIMEOUT_S,
    READERS,
    Row,
    StoreError,
    StoreUnavailableError,
    read_identity,
    translate_errors,
)
from herodotus_endpoint.store.query_results import TierSize
from herodotus_endpoint.store.read_budget import (
    SQLITE_STEPS,
    CountedFetches,
    QuestionEndedError,
    check_budget,
    enforce_budget,
)
from herodotus_endpoint.store.schema import DECISIONS, FULL, IDENTITY, METADATA, ROLLUPS, SUMMARY

PAGE_BYTES: Final = 16384  # decisions are blobs of 0.2 to 20 kB: a third faster than pages of 4 kB
WAL_LIMIT: Final = f"journal_size_limit={64 << 20}"  # largest write-ahead log that stays on disk after a burst
ROW_BYTES: Final = 700  # columns and indexes of a decision, without its frame
TRIAL_BYTES: Final = 4 << 20  # more than SQLite's cache of 2 MB, so that it reaches the disk; takes 5 ms
MARKER: Final = ".identity"  # suffix of the marker file
VACUUM_PAGES: Final = 2_000  # free pages released in one call: 32 MB
_WRITING: Final = (f"page_size={PAGE_BYTES}", "auto_vacuum=INCREMENTAL", "journal_mode=WAL", "synchronous=FULL")
_TRIAL_ROW: Final = {
    "bucket": -1,
    "cluster": "",
    "profile": "",
    "part": 0,
    "ingested_us": 0,
    "counters": sa.func.zeroblob(TRIAL_BYTES),
}
_TEXT: Final = partial(str, encoding="utf-8", errors="replace")  # decodes damaged text, which its checksum detects
_log: Final = logging.getLogger(__name__)


class Sqlite:
    """The store's database in a SQLite file.

    With synchronous=FULL a committed batch survives a power loss, at one fsync per batch.
    """

    partitioned = False

    def __init__(self, file: Path) -> None:
        self.file = file
        self.name = str(file)
        self._marker = file.with_name(file.name + MARKER)
        self._opened: tuple[int, int] | None = None  # device and inode of the prepared file
        self._is_lost = False

    def prepare(self) -> None:
        """Migrate the database file; at the first start, create it with mode 0600 in a directory with mode 0700.

        Raises StoreError if the file cannot be used, or if it is missing although a marker file shows that it existed.
        """
        if self.file.parent.exists() and not self.file.parent.is_dir():
            raise StoreError(f"cannot use {self.file.parent}: it is not a directory")
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self.file.exists():
                self._create()
            os.close(os.open(self.file, os.O_RDWR))
            empty = not self.file.stat().st_size
        except OSError as e:
            raise StoreError(f"cannot use {self.file}: {e.strerror}") from e
        if empty:
            raise StoreError(
                f"cannot use {self.file}: the file is empty (0 bytes) and its records are lost; restore a backup, or"
                f" delete it and {self._marker.name} to begin with an empty database"
            )
        _migrate_schema(self, new=False)
        self._compare_identity()
        self._opened = self._stat_file()

    def _create(self) -> None:
        """Create the database under a temporary name and then rename it, so that no incomplete file has its name.

        Raises StoreError if a marker file shows that a database existed.
        """
        if self._marker.exists():
            raise StoreError(
                f"cannot use {self.file}: there is no such file, but {self._marker} says that a database was there;"
                f" restore a backup, or delete {self._marker.name} to begin with an empty database"
            )
        partial_file = self.file.with_name(f"{self.file.name}.new")
        try:
            _remove(partial_file)
            os.close(os.open(partial_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            made = Sqlite(partial_file)
            made.name = self.name
            _migrate_schema(made, new=True)
            _publish(partial_file, self.file)
        finally:
            _remove(partial_file)

    def _compare_identity(self) -> None:
        """Raise StoreError if the marker file names another database; write the marker file if it is missing."""
        engine = self.reading_engine()
        try:
            with translate_errors(), engine.begin() as connection:
                identity = read_identity(connection)
            if not self._marker.exists():
                self._write_marker(identity)
            elif self._marker.read_text().strip() != identity:
                raise StoreError(
                    f"cannot use {self.file}: it is not the database that {self._marker.name} names; put that one back,"
                    f" or delete {self._marker} if this one is meant"
                )
        except OSError as e:
            raise StoreError(f"cannot use {self._marker}: {e.strerror}") from e
        except StoreUnavailableError as e:
            raise StoreError(f"cannot use {self.file}: {e}") from e
        finally:
            engine.dispose()

    def _write_marker(self, identity: str) -> None:
        partial_file = self._marker.with_name(f"{self._marker.name}.new")
        partial_file.unlink(missing_ok=True)
        with open(os.open(partial_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(f"{identity}\n")
        _publish(partial_file, self._marker)

    def _stat_file(self) -> tuple[int, int] | None:
        """Return the device and inode of the database file, or None if no file has its name."""
        try:
            status = os.stat(self.file)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _require_same_file(self) -> None:
        """Raise StoreUnavailableError if the file was deleted or replaced since it was prepared."""
        if self._opened is None:
            return
        status = self._stat_file()
        if status == self._opened:
            self._is_lost = False
            return
        what = "is gone" if status is None else "was replaced by another file"
        if not self._is_lost:
            _log.critical(
                "the database %s %s while the service runs: nothing is stored or answered until it is put back;"
                " to go on with another one, stop the service and restore a backup",
                self.file,
                what,
            )
        self._is_lost = True
        raise StoreUnavailableError(f"the database file {what}")

    def require_file(self) -> None:
        """Raise StoreError if the file does not exist, for commands that must not create a database."""
        if not self.file.exists():
            raise StoreError(f"cannot use {self.file}: there is no such file; --data says where the service keeps it")

    def writing_engine(self, *, bounded: bool = True) -> sa.Engine:
        """Return an engine whose transactions take SQLite's write lock at their start; `bounded` has no effect."""
        return self._engine((*_WRITING, WAL_LIMIT), begin="BEGIN IMMEDIATE", connections=1)

    def reading_engine(self) -> sa.Engine:
        """Return an engine for reading, whose statements end when the budget of their question is exceeded."""
        engine = self._engine(("query_only=ON",), begin="BEGIN", connections=READERS, factory=_CountedConnection)
        enforce_budget(engine)
        return engine

    def ensure_partition(self, connection: sa.Connection, ingested_us: int, tier: int) -> None:
        """Do nothing, because SQLite's tables have no partitions."""

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
        """Insert rows into a table with the driver's executemany, which is faster than SQLAlchemy's insert."""
        _insert_many(connection, table, sa.insert(table), rows)

    def insert_missing(self, connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
        """Insert the rows whose primary key is not in the table yet."""
        _insert_many(connection, table, insert(table).on_conflict_do_nothing(), rows)

    def check_writable(self, connection: sa.Connection) -> None:
        """Check that the database can be written: roll back a write larger than SQLite's cache, then commit one page.

        A small write alone may find space where a batch does not.
        """
        with connection.begin() as large:
            connection.execute(ROLLUPS.insert().values(_TRIAL_ROW))
            large.rollback()
        with connection.begin():
            connection.exec_driver_sql("PRAGMA user_version=0")  # unused otherwise: Alembic has its own table

    def try_prune_lock(self, connection: sa.Connection) -> AbstractContextManager[bool]:
        """Return a context manager that yields True, because only one process uses the file."""
        return nullcontext(True)

    def prunable_before_us(self, now_us: int) -> int:
        """Return a time after all decisions, because deleting any decision frees space.

        The writer closes open chains whose decisions were deleted.
        """
        return 1 << 62

    def drop_oldest_partition(self, connection: sa.Connection, tiers: Sequence[int], before_us: int, most: int) -> int:
        """Return 0, because SQLite's tables have no partitions."""
        return 0

    def drop_empty_partitions(self, connection: sa.Connection) -> None:
        """Do nothing, because SQLite's tables have no partitions."""

    def find_damaged_pages(self, connection: sa.Connection) -> list[str]:
        """Return the first hundred results of `PRAGMA integrity_check`, which compares each index with its table."""
        lines = connection.exec_driver_sql("PRAGMA integrity_check(100)").scalars().all()
        return [f"page check: {line}" for line in lines if line != "ok"]

    def live_bytes(self, connection: sa.Connection) -> int:
        """Return the bytes of pages in use, without the free pages of the file."""
        pages = [connection.exec_driver_sql(f"PRAGMA {p}").scalar_one() for p in ("page_count", "freelist_count")]
        size: int = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
        return (int(pages[0]) - int(pages[1])) * size

    def measure_tiers(self, connection: sa.Connection) -> dict[str, TierSize]:
        """Return the number of decisions and the bytes used for each of the tiers "full" and "summary".

        The bytes of frames are summed from an index; those of the other columns are an estimate.
        """
        row = DECISIONS.c
        statement = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(row.frame_bytes), 0))
        totals = {
            name: connection.execute(statement.where(row.tier == tier)).one()
            for name, tier in (("full", FULL), ("summary", SUMMARY))
        }
        return {name: TierSize(count, int(size) + count * ROW_BYTES) for name, (count, size) in totals.items()}

    def file_bytes(self) -> int:
        """Return the size of the database file in bytes, including the write-ahead log and its index."""
        files = (self.file.with_name(self.file.name + suffix) for suffix in ("", "-wal", "-shm"))
        return sum(f.stat().st_size for f in files if f.exists())

    def release_space(self, connection: sa.Connection) -> None:
        """Return up to VACUUM_PAGES free pages of the file to the file system.

        Each statement frees one page, because Python's driver steps the pragma only once.
        """
        free: int = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
        for _ in range(min(free, VACUUM_PAGES)):
            connection.exec_driver_sql("PRAGMA incremental_vacuum(1)")

    def back_up(self, to: Path) -> None:
        """Copy the committed state of the database to a new file; the database may be in use.

        Raises StoreError if the copy fails or the file exists.
        """
        self.require_file()
        self._copy(self.file, to)

    def restore(self, backup: Path) -> None:
        """Create the database from a backup, also of an earlier release.

        The copy gets its name when it is migrated and on disk, so that a failure leaves nothing behind. Raises
        StoreError if the backup is not a database of this service, or if the database exists.
        """
        if self.file.exists():
            raise StoreError(f"cannot use {self.file}: there is a database; move it away first, with its -wal and -shm")
        if not backup.exists():
            raise StoreError(f"cannot use {backup}: there is no such file")
        made = [p for p in (self.file.parent, *self.file.parent.parents) if not p.exists()]
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._copy(backup, self.file, partial(_migrate_copy, backup))
            self._marker.unlink(missing_ok=True)  # of the former database
        except BaseException:
            for folder in made:
                with suppress(OSError):
                    folder.rmdir()
            raise
        self.prepare()

    def _copy(self, source: Path, to: Path, finish: Callable[[Path], None] | None = None) -> None:
        """Copy a database file with VACUUM INTO, which reads one snapshot.

        The copy is made under a temporary name. `finish` is called with that path before the copy is renamed to `to`.
        """
        engine = Sqlite(source).reading_engine()
        partial_file = to.with_name(f"{to.name}.part")
        try:
            if to.exists():
                raise StoreError(f"cannot use {to}: the file is there already")
            _remove(partial_file)
            connection = engine.raw_connection()
            cursor = connection.cursor().execute("SELECT count(*) FROM sqlite_master WHERE name = 'alembic_version'")
            if cursor.fetchone() != (1,):
                raise StoreError(f"cannot use {source}: it is not a database of this service")
            connection.cursor().execute("PRAGMA query_only=OFF")  # query_only would also forbid the copy
            os.close(
                os.open(partial_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            )  # VACUUM INTO accepts an empty file
            connection.cursor().execute("VACUUM INTO ?", (str(partial_file),))
            if finish:
                finish(partial_file)
            _publish(partial_file, to)
        except (OSError, DatabaseError) as e:
            raise StoreError(f"cannot copy {source} to {to}: {e}") from e
        finally:
            _remove(partial_file)
            engine.dispose()

    def _engine(
        self, pragmas: tuple[str, ...], begin: str, connections: int, factory: type[Connection] = Connection
    ) -> sa.Engine:
        engine = sa.create_engine(
            sqlite_url(self.file),
            poolclass=sa.QueuePool,
            pool_size=connections,
            max_overflow=0,
            pool_timeout=BUSY_TIMEOUT_S,
            connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False, "factory": factory},
        )

        def connected(connection: Any, _record: object) -> None:
            connection.text_factory = _TEXT
            connection.isolation_level = None  # `begun` begins transactions, not the driver
            for pragma in pragmas:
                connection.execute(f"PRAGMA {pragma}").close()

        def begun(connection: sa.Connection) -> None:
            self._require_same_file()
            connection.exec_driver_sql(begin)

        def committing(_connection: sa.Connection) -> None:
            self._require_same_file()

        sa.event.listen(engine, "connect", connected)
        sa.event.listen(engine, "begin", begun)
        sa.event.listen(engine, "commit", committing)
        return engine


class _CountedCursor(CountedFetches, Cursor):
    """A cursor whose fetched rows count against the budget of the question."""


class _CountedConnection(Connection):
    """A connection whose statements and fetched rows count against the budget of the question."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.set_progress_handler(_is_over_budget, SQLITE_STEPS)

    def cursor(self, factory: Any = _CountedCursor) -> Any:
        """Return a cursor, by default one whose fetched rows count against the budget."""
        return super().cursor(factory)


def _is_over_budget() -> bool:
    """Return whether SQLite should interrupt the statement that the current thread executes."""
    try:
        check_budget()
    except QuestionEndedError:
        return True
    return False


class TemporarySqlite(Sqlite):
    """A database for the life of one process. It is created with the present schema, without migrations.

    Nothing in it has to survive a crash.
    """

    def prepare(self) -> None:
        """Create the database. Raises StoreError if the file cannot be created."""
        engine = self.writing_engine()
        try:
            with translate_errors(), engine.begin() as connection:
                METADATA.create_all(connection)
                connection.execute(IDENTITY.insert().values(id=str(uuid.uuid4())))
        except StoreUnavailableError as e:
            raise StoreError(f"cannot use {self.file}: {e}") from e
        finally:
            engine.dispose()
        self._opened = self._stat_file()


def _insert_many(connection: sa.Connection, table: sa.Table, statement: sa.Insert, rows: Sequence[Row]) -> None:
    """Execute an insert statement for many rows, with the columns that the first row has."""
    columns = [column.name for column in table.c if column.name in rows[0]]
    compiled = statement.values(dict.fromkeys(columns)).compile(dialect=connection.dialect)
    connection.exec_driver_sql(str(compiled), list(map(itemgetter(*columns), rows)))


def _migrate_schema(database: Sqlite, *, new: bool) -> None:
    from herodotus_endpoint.store.schema_migration import migrate_schema

    migrate_schema(database, new=new)


def _migrate_copy(backup: Path, copy: Path) -> None:
    """Migrate the copy of a backup. Raises StoreError, which names the backup, if the backup cannot be used."""
    copied = Sqlite(copy)
    copied.name = str(backup)
    _migrate_schema(copied, new=False)


def _publish(partial_file: Path, to: Path) -> None:
    """Rename a complete file to `to`, and sync it and its directory, so that both survive a power loss."""
    for path in (partial_file, to.parent):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            if path is partial_file:
                partial_file.rename(to)
        finally:
            os.close(descriptor)


def _remove(file: Path) -> None:
    """Delete a database file, and its write-ahead log and journal files if they exist."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def sqlite_url(file: Path) -> str:
    """Return the database URL of a SQLite file."""
    return f"sqlite:///{file}"
