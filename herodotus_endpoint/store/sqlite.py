"""SQLite: one file, no set-up, one process that writes.

Owns: the file and its permissions, pragmas and transaction modes. Does not own: statements that both databases share.

Beside the database lies a small file with its identity (MARKER). It tells a first start from a start without the
database that was there before: only the first start creates one.

Invariant: no transaction begins or commits on a file that no longer has its name. SQLite itself would go on in a file
that is deleted, and what it acknowledged would be gone with the process.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from sqlite3 import DatabaseError
from typing import Any, Final

import sqlalchemy as sa

from herodotus_endpoint.store.database import (
    BUSY_TIMEOUT_S,
    READERS,
    Row,
    StoreError,
    StoreUnavailableError,
    migrate_schema,
    read_identity,
    translate_errors,
)
from herodotus_endpoint.store.query_results import TierSize
from herodotus_endpoint.store.schema import DECISIONS, FULL, ROLLUPS, SUMMARY

PAGE_BYTES: Final = 16384  # decisions are blobs of 0.2 to 20 kB: a third faster than pages of 4 kB
WAL_LIMIT: Final = f"journal_size_limit={64 << 20}"  # what a burst leaves of the write-ahead log on disk
ROW_BYTES: Final = 700  # of a decision beside its frame: columns and indexes
TRIAL_BYTES: Final = 4 << 20  # more than SQLite's cache of 2 MB, so that some goes to the disk; takes 5 ms
MARKER: Final = ".identity"  # ending of the file that holds the identity of the database beside it
VACUUM_PAGES: Final = 2_000  # free pages given back to the file system in one go: 32 MB
_WRITING: Final = (f"page_size={PAGE_BYTES}", "auto_vacuum=INCREMENTAL", "journal_mode=WAL", "synchronous=FULL")
_TRIAL: Final = {
    "bucket": -1,
    "cluster": "",
    "profile": "",
    "part": 0,
    "ingested_us": 0,
    "counters": sa.func.zeroblob(TRIAL_BYTES),
}
_TEXT: Final = partial(str, encoding="utf-8", errors="replace")  # of a damaged text: its checksum tells
_log: Final = logging.getLogger(__name__)


class Sqlite:
    """The database in a file. synchronous=FULL: an acknowledged batch survives power loss, at one fsync a batch."""

    partitioned = False

    def __init__(self, file: Path) -> None:
        self.file = file
        self.name = str(file)
        self._marker = file.with_name(file.name + MARKER)
        self._opened: tuple[int, int] | None = None  # device and inode of the file that was prepared
        self._gone = False

    def prepare(self) -> None:
        """Make the file 0600, in a directory of 0700, at the first start; later it must be there."""
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
                f"cannot use {self.file}: the file is empty (0 bytes), its records are gone; restore a backup, or"
                f" delete it and {self._marker.name} to begin with an empty database"
            )
        migrate_schema(self, new=False)
        self._compare_identity()
        self._opened = self._found()

    def _create(self) -> None:
        """Make a database under another name first: a start that is broken off leaves no half of one."""
        if self._marker.exists():
            raise StoreError(
                f"cannot use {self.file}: there is no such file, but {self._marker} says that a database was there;"
                f" restore a backup, or delete {self._marker.name} to begin with an empty database"
            )
        unnamed = self.file.with_name(f"{self.file.name}.new")
        try:
            _remove(unnamed)
            os.close(os.open(unnamed, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            made = Sqlite(unnamed)
            made.name = self.name
            migrate_schema(made, new=True)
            _publish(unnamed, self.file)
        finally:
            _remove(unnamed)

    def _compare_identity(self) -> None:
        """Raise StoreError where the marker names another database; write the marker where there is none."""
        engine = self.reading_engine()
        try:
            with translate_errors(), engine.begin() as connection:
                identity = read_identity(connection)
            if not self._marker.exists():
                self._mark(identity)
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

    def _mark(self, identity: str) -> None:
        unnamed = self._marker.with_name(f"{self._marker.name}.new")
        unnamed.unlink(missing_ok=True)
        with open(os.open(unnamed, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(f"{identity}\n")
        _publish(unnamed, self._marker)

    def _found(self) -> tuple[int, int] | None:
        """Return device and inode of the file that has the name now; None where there is none."""
        try:
            found = os.stat(self.file)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _require_same_file(self) -> None:
        """Raise StoreUnavailableError if the file was deleted or replaced since it was prepared."""
        if self._opened is None:
            return
        found = self._found()
        if found == self._opened:
            self._gone = False
            return
        what = "is gone" if found is None else "was replaced by another file"
        if not self._gone:
            _log.critical(
                "the database %s %s while the service runs: nothing is stored or answered until it is put back;"
                " to go on with another one, stop the service and restore a backup",
                self.file,
                what,
            )
        self._gone = True
        raise StoreUnavailableError(f"the database file {what}")

    def require(self) -> None:
        """StoreError where there is no file: for what asks or takes away, a new database would answer for another."""
        if not self.file.exists():
            raise StoreError(f"cannot use {self.file}: there is no such file; --data says where the service keeps it")

    def writing_engine(self) -> sa.Engine:
        """SQLite's one write lock is held from the first statement on."""
        return self._engine((*_WRITING, WAL_LIMIT), begin="BEGIN IMMEDIATE", connections=1)

    def reading_engine(self) -> sa.Engine:
        """A connection a thread."""
        return self._engine(("query_only=ON",), begin="BEGIN", connections=READERS)

    def ensure_partition(self, connection: sa.Connection, ingested_us: int, tier: int) -> None:
        """Nothing: tables have no partitions here."""

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
        """One statement, stepped once a row: by the driver alone, since no value needs SQLAlchemy to be bound."""
        columns = [column.name for column in table.c if column.name in rows[0]]
        statement = table.insert().values(dict.fromkeys(columns)).compile(dialect=connection.dialect)
        connection.exec_driver_sql(str(statement), list(map(itemgetter(*columns), rows)))

    def check_writable(self, connection: sa.Connection) -> None:
        """A write that fills the cache, since a small one may find room where no batch does; then one page, synced."""
        with connection.begin() as large:
            connection.execute(ROLLUPS.insert().values(_TRIAL))
            large.rollback()
        with connection.begin():
            connection.exec_driver_sql("PRAGMA user_version=0")  # nobody uses it: Alembic has its own table

    def try_prune_lock(self, connection: sa.Connection) -> AbstractContextManager[bool]:
        """One process has the file."""
        return nullcontext(True)

    def prunable_before_us(self, now_us: int) -> int:
        """All: any row gives its room back, and the writer notices when an open chain is gone."""
        return 1 << 62

    def drop_oldest_partition(self, connection: sa.Connection, tiers: Sequence[int], before_us: int, most: int) -> int:
        """There are no partitions to drop."""
        return 0

    def drop_empty_partitions(self, connection: sa.Connection) -> None:
        """There are no partitions to drop."""

    def find_damaged_pages(self, connection: sa.Connection) -> list[str]:
        """By `PRAGMA integrity_check`: pages, and each index against its table. The first hundred."""
        found = connection.exec_driver_sql("PRAGMA integrity_check(100)").scalars().all()
        return [f"page check: {line}" for line in found if line != "ok"]

    def live_bytes(self, connection: sa.Connection) -> int:
        """Of pages in use, whatever the file's size."""
        pages = [connection.exec_driver_sql(f"PRAGMA {p}").scalar_one() for p in ("page_count", "freelist_count")]
        size: int = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
        return (int(pages[0]) - int(pages[1])) * size

    def measure_tiers(self, connection: sa.Connection) -> dict[str, TierSize]:
        """Out of an index: frames, and what a row has besides."""
        row = DECISIONS.c
        statement = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(row.frame_bytes), 0))
        counted = {
            name: connection.execute(statement.where(row.tier == tier)).one()
            for name, tier in (("full", FULL), ("summary", SUMMARY))
        }
        return {name: TierSize(count, int(size) + count * ROW_BYTES) for name, (count, size) in counted.items()}

    def file_bytes(self) -> int:
        """Return the size of the database files, including the write-ahead log."""
        found = (self.file.with_name(self.file.name + suffix) for suffix in ("", "-wal", "-shm"))
        return sum(f.stat().st_size for f in found if f.exists())

    def release_space(self, connection: sa.Connection) -> None:
        """Cut free pages off the file. One a statement: Python's driver steps the pragma once, whatever its number."""
        free: int = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
        for _ in range(min(free, VACUUM_PAGES)):
            connection.exec_driver_sql("PRAGMA incremental_vacuum(1)")

    def back_up(self, to: Path) -> None:
        """Write a copy of what is committed now; the database may be in use. StoreError when that is not possible."""
        self.require()
        self._copy(self.file, to)

    def restore(self, backup: Path) -> None:
        """Make a copy the database, of an earlier version too. StoreError when it is none, or there is one already.

        The copy gets its name when it is migrated and on disk: a refusal leaves nothing behind.
        """
        if self.file.exists():
            raise StoreError(f"cannot use {self.file}: there is a database; move it away first, with its -wal and -shm")
        if not backup.exists():
            raise StoreError(f"cannot use {backup}: there is no such file")
        made = [p for p in (self.file.parent, *self.file.parent.parents) if not p.exists()]
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._copy(backup, self.file, partial(_migrate_copy, backup))
            self._marker.unlink(missing_ok=True)  # of the database that was there before
        except BaseException:
            for folder in made:
                with suppress(OSError):
                    folder.rmdir()
            raise
        self.prepare()

    def _copy(self, source: Path, to: Path, finish: Callable[[Path], None] | None = None) -> None:
        """VACUUM INTO reads one snapshot, and fails where the target is there. `finish`: before it has its name."""
        engine = Sqlite(source).reading_engine()
        unnamed = to.with_name(f"{to.name}.part")
        try:
            if to.exists():
                raise StoreError(f"cannot use {to}: the file is there already")
            _remove(unnamed)
            connection = engine.raw_connection()
            found = connection.cursor().execute("SELECT count(*) FROM sqlite_master WHERE name = 'alembic_version'")
            if found.fetchone() != (1,):
                raise StoreError(f"cannot use {source}: it is not a database of this service")
            connection.cursor().execute("PRAGMA query_only=OFF")  # it would refuse the copy too
            os.close(os.open(unnamed, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # empty: taken as it is
            connection.cursor().execute("VACUUM INTO ?", (str(unnamed),))
            if finish:
                finish(unnamed)
            _publish(unnamed, to)
        except (OSError, DatabaseError) as e:
            raise StoreError(f"cannot copy {source} to {to}: {e}") from e
        finally:
            _remove(unnamed)
            engine.dispose()

    def _engine(self, pragmas: tuple[str, ...], begin: str, connections: int) -> sa.Engine:
        engine = sa.create_engine(
            sqlite_url(self.file),
            poolclass=sa.QueuePool,
            pool_size=connections,
            max_overflow=0,
            pool_timeout=BUSY_TIMEOUT_S,
            connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False},
        )

        def connected(connection: Any, _record: object) -> None:
            connection.text_factory = _TEXT
            connection.isolation_level = None  # transactions begin where `begun` says, not where the driver guesses
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


def _migrate_copy(backup: Path, copy: Path) -> None:
    """Bring a copy of a backup up to date. StoreError about the backup when it cannot be used."""
    copied = Sqlite(copy)
    copied.name = str(backup)
    migrate_schema(copied, new=False)


def _publish(unnamed: Path, to: Path) -> None:
    """Give a finished file its name, so that it keeps both over a power loss."""
    for path in (unnamed, to.parent):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            if path is unnamed:
                unnamed.rename(to)
        finally:
            os.close(descriptor)


def _remove(file: Path) -> None:
    """Delete a database file with what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def sqlite_url(file: Path) -> str:
    """The database URL of a SQLite file."""
    return f"sqlite:///{file}"
