"""What the store needs of a database, whichever it is: the contract, its errors, the schema's migration.

Owns: the contract that `sqlite` and `postgresql` fulfil, Alembic's start, the store's exceptions. Does not own:
statements that are the same for both.

Invariant: there is one writer at a time over all processes, from the first statement of its transaction to the commit,
so that it never fails half-way because another came between, and ids are in the order of commits; what reads cannot
write, and reads one snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError

from herodotus_endpoint.store.query_results import TierSize
from herodotus_endpoint.store.schema import IDENTITY, METADATA, USABLE_FROM

BUSY_TIMEOUT_S: Final = 5.0  # a writer waits this long for another process; then the shipper is told to come again
READERS: Final = 16  # connections kept for queries; one a thread
DISK_FULL: Final = "53100"  # PostgreSQL's codes of errors
UNDEFINED: Final = ("42P01", "42703")  # a table or a column that is not there
MIGRATIONS: Final = Path(__file__).parent / "migrations"

Row = dict[str, Any]

_log: Final = logging.getLogger(__name__)


class StoreError(Exception):
    """The database cannot be opened as it is: wrong path, wrong permissions, a newer schema. The message says why."""


class StoreUnavailableError(Exception):
    """The database could not do it now (locked, disk full, gone); nothing of the transaction was stored."""


class StoreFullError(StoreUnavailableError):
    """There is no room for it."""


class Database(Protocol):
    """One kind of database."""

    name: str
    """For messages: a path or an address, never a password."""

    def prepare(self) -> None:
        """Create what is not there and bring the schema up to date. StoreError when that is not possible."""

    def writing_engine(self) -> sa.Engine:
        """One connection that writes. What it acknowledged survives power loss."""

    def reading_engine(self) -> sa.Engine:
        """Connections that only read, each request in one snapshot."""

    partitioned: bool
    """Whether what is old is dropped in partitions; otherwise rows are deleted."""

    def ensure_partition(self, connection: sa.Connection, ingested_us: int, tier: int) -> None:
        """Whatever must be there before a row of that time and tier can be inserted."""

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
        """Many rows that are not there yet."""

    def check_writable(self, connection: sa.Connection) -> None:
        """Begin a write and take it back, then commit a small one; fails where nothing can be written."""

    def try_prune_lock(self, connection: sa.Connection) -> AbstractContextManager[bool]:
        """Whether no other process is in such a block now; none comes in until it ends. `connection`: in none yet."""

    def prunable_before_us(self, now_us: int) -> int:
        """Where the database is too large: chains must have ended by then to be taken out, others give no room back."""

    def drop_oldest_partition(self, connection: sa.Connection, tiers: Sequence[int], before_us: int, most: int) -> int:
        """Drop one partition of these tiers that ended before a moment; how many decisions it held. 0: there is none.

        One that held none goes too, and another is looked for; one that holds more than `most` stays.
        """

    def drop_empty_partitions(self, connection: sa.Connection) -> None:
        """Drop the oldest partitions of full records, as long as no decision is left in them."""

    def find_damaged_pages(self, connection: sa.Connection) -> list[str]:
        """Return what the database itself finds damaged, a line each."""

    def live_bytes(self, connection: sa.Connection) -> int:
        """Bytes in use."""

    def measure_tiers(self, connection: sa.Connection) -> dict[str, TierSize]:
        """Decisions and their bytes, by what is kept of them: "full" and "summary"."""

    def file_bytes(self) -> int | None:
        """Bytes on disk, where this machine can tell."""

    def release_space(self, connection: sa.Connection) -> None:
        """Return to the file system what was deleted."""


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turns the database's refusals into StoreUnavailableError; a statement that is wrong stays an error of ours.

    A table or a column that is missing is the database's fault: a test compares the statements with the schema.
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
    except UnicodeDecodeError as e:  # in SQLite's own message about its damaged schema
        raise StoreUnavailableError(f"the database is damaged: {e}") from e


def _full(error: BaseException | None) -> bool:
    """Whether the disk, or the database by its own limit, is full, as either driver says it."""
    return getattr(error, "sqlite_errorname", "") == "SQLITE_FULL" or getattr(error, "sqlstate", "") == DISK_FULL


def migrate_schema(database: Database, *, new: bool) -> None:
    """Bring the schema up to date, or leave one of a newer version as it is. StoreError when neither can be used.

    `new`: the database may be empty; otherwise it must be one of this service already.
    """
    engine = database.writing_engine()
    try:
        with translate_errors(), engine.begin() as connection:
            _refuse_foreign(connection, new=new)
            config = Config()
            config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
            config.set_main_option("path_separator", "os")
            config.attributes["connection"] = connection
            if not _newer_and_usable(connection, ScriptDirectory.from_config(config)):
                command.upgrade(config, "head")
            verify_schema(connection)
    except (StoreUnavailableError, CommandError, _UnusableError) as e:
        raise StoreError(f"cannot use {database.name}: {e}") from e
    finally:
        engine.dispose()


def verify_schema(connection: sa.Connection) -> None:
    """Raise StoreUnavailableError if a table, or a column of one, is missing."""
    for table in METADATA.sorted_tables:
        try:
            with translate_errors():
                connection.execute(sa.select(table).limit(0))
        except StoreUnavailableError as e:
            raise StoreUnavailableError(f"table {table.name} cannot be read: {e}") from e


def read_identity(connection: sa.Connection) -> str:
    """Return the identity that the database was given when it was made; "" where it has none."""
    return connection.scalar(sa.select(IDENTITY.c.id).limit(1)) or ""


class _UnusableError(Exception):
    """The database is another program's, or its schema is one that this version cannot use."""


def _refuse_foreign(connection: sa.Connection, *, new: bool) -> None:
    """Raise _UnusableError for a database that this service has not made."""
    tables = set(sa.inspect(connection).get_table_names())
    if "alembic_version" in tables and ("incarnations" in tables or len(tables) == 1):
        return
    if tables:
        named = ", ".join(sorted(tables)[:3])
        raise _UnusableError(f"it is not a database of this service: it holds the tables {named}; use one of its own")
    if not new:
        raise _UnusableError("it is not a database of this service: it holds no tables")


def _newer_and_usable(connection: sa.Connection, scripts: ScriptDirectory) -> bool:
    """Whether a newer version has changed the schema in a way that this one can live with: expand, then contract.

    What this version does not know has a default; what it needs is still there. `usable_from` is the revision whose
    service is the oldest of which that is true. _UnusableError where this one is older.
    """
    known = {script.revision for script in scripts.walk_revisions()}
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is None or revision in known:
        return False
    usable = None
    if sa.inspect(connection).has_table(USABLE_FROM.name):
        usable = connection.scalar(sa.select(USABLE_FROM.c.revision))
    if usable not in known:
        raise _UnusableError(
            f"a newer version of the service has changed its schema to {revision}, which services of schema"
            f" {usable or revision} and later can use; this one's is {scripts.get_current_head()}"
        )
    _log.warning(
        "the database's schema %s is of a newer version of the service; this one can use it as it is, and does",
        revision,
    )
    return True
