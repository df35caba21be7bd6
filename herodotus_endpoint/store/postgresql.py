"""The store in a PostgreSQL database, for many clusters and for several replicas of the service.

Owns: connections and their timeouts, the lock that lets one replica write at a time, COPY, partitions by ingest time.
Does not own: statements that both databases share, connection strings (`connection_string`), reading from replicas of
the server (`replicas`).

A server that is stopped, or that waits for a synchronous standby which never answers, keeps its TCP connections alive
and never answers a statement. PostgreSQL's own timeouts do not end such a wait: the server does not run, or it has
committed already and must not say so. `ConnectionWatchdog` ends it by shutting down the socket, which wakes the thread
that waits for it. The transaction then counts as failed, although the server may have committed it; a sender repeats
it, and the store recognizes what it has.

The connection string may name several servers. Connections go to the primary among them, and after a failover to the
new primary.

Decisions and outcomes are partitioned by tier and ingest time. A partition covers PARTITION_US of full records, or a
day of other tiers, and is created for its first row. Retention drops complete partitions, so a decision may stay that
much longer than its age. Records that are kept longer first move to a partition of another tier, because dropping a
partition frees its space without vacuum.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.pool import ConnectionPoolEntry

from herodotus_endpoint.store.connection_string import ConnectionString
from herodotus_endpoint.store.database import BUSY_TIMEOUT_S, READERS, Row
from herodotus_endpoint.store.delta_chains import PARTITION_US
from herodotus_endpoint.store.query_results import TierSize
from herodotus_endpoint.store.read_budget import CountedFetches, enforce_budget
from herodotus_endpoint.store.schema import (
    DECISIONS,
    FULL,
    GAPS,
    KEPT_LONGER,
    NODE_ROWS,
    OUTCOMES,
    ROLLUPS,
    SUMMARY,
)

WRITER_LOCK: Final = 0x6865_726F_646F_7475  # "herodotu": advisory lock of the writer
PRUNER_LOCK: Final = WRITER_LOCK + 1  # advisory lock of retention
STATEMENT_TIMEOUT_S: Final = 30.0  # of reading statements: counting 10 million rows for /metrics takes some seconds
TRANSACTION_TIMEOUT_S: Final = 30.0  # of a writing transaction, which takes milliseconds to seconds
REPLICA_TIMEOUT_S: Final = STATEMENT_TIMEOUT_S + 5  # of a read from a replica, whose server ends it before
HEARTBEAT_TIMEOUT_S: Final = 5.0  # of a heartbeat; with an older one no replica is used anyway
WRITABLE: Final = "read-write"  # values of libpq's target_session_attrs
PRIMARY: Final = "primary"
STANDBY: Final = "standby"
CANCEL_TIMEOUT_S: Final = 2.0  # of a request to the server to end a statement
IDLE_TIMEOUT_S: Final = 60.0  # between statements: compressing 256 decisions or a page of an export takes 1 s
PARTITIONED: Final = (DECISIONS, OUTCOMES)
COUNTED: Final = (DECISIONS, OUTCOMES, NODE_ROWS, ROLLUPS, GAPS)  # tables whose sizes add up to that of the database
_WITHOUT_STATEMENT_TIMEOUT: Final = "-c statement_timeout=0"
_NAMES: Final = {FULL: "", KEPT_LONGER: "_longer", SUMMARY: "_summary"}  # of tiers in the names of partitions
_TIERS: Final = {name: tier for tier, name in _NAMES.items()}
_DAY_US: Final = 4 * PARTITION_US  # few records are kept long, and each query looks into all partitions
_WIDTH_US: Final = {FULL: PARTITION_US, KEPT_LONGER: _DAY_US, SUMMARY: _DAY_US}
_PARTITIONS_OF: Final = (
    "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = '{}'::regclass"
)
_TYPES: Final = {
    sa.Boolean: "bool",
    sa.Integer: "int4",
    sa.BigInteger: "int8",
    sa.String: "text",
    sa.LargeBinary: "bytea",
}
_NUL: Final = "\N{REPLACEMENT CHARACTER}"  # PostgreSQL cannot store NUL in text; the frame has the original


@dataclass(frozen=True)
class _Sessions:
    """The sessions of an engine.

    `role` is the kind of server to connect to (target_session_attrs), `options` are options of the sessions, and
    `connections` is the size of the pool. A connection is closed when it is in use for more than `limit_s` seconds.
    """

    role: str
    options: str
    connections: int = 1
    limit_s: float | None = None
    cursors: type[psycopg.Cursor[Any]] = psycopg.Cursor


class Postgresql:
    """The store's database on a PostgreSQL server, which several replicas of the service can share.

    A writing transaction holds an advisory lock until its commit, so that one replica writes at a time.
    """

    partitioned = True

    def __init__(self, address: ConnectionString) -> None:
        self._address = address
        self._watchdog = ConnectionWatchdog()
        self.name = address.name

    def prepare(self) -> None:
        """Migrate the schema of the database, which must exist and may be empty.

        Raises StoreError if the database cannot be used.
        """
        from herodotus_endpoint.store.schema_migration import migrate_schema

        migrate_schema(self, new=True)

    def writing_engine(self, *, bounded: bool = True) -> sa.Engine:
        """Return an engine whose transactions begin by taking the writer's advisory lock, so that one writes at a time.

        With READ COMMITTED the statements after it see everything that was committed before. The session has no
        statement timeout: one that ends the wait for a synchronous standby would make the commit look successful.
        `bounded` ends a transaction after TRANSACTION_TIMEOUT_S seconds.
        """
        limit_s = TRANSACTION_TIMEOUT_S if bounded else None
        engine = self._engine(self._address, _Sessions(WRITABLE, _WITHOUT_STATEMENT_TIMEOUT, limit_s=limit_s))

        def begun(connection: sa.Connection) -> None:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITER_LOCK})")

        sa.event.listen(engine, "begin", begun)
        return engine

    def reading_engine(self) -> sa.Engine:
        """Return an engine for reading, with one snapshot per transaction (REPEATABLE READ) and a statement timeout."""
        return self._reading_engine(self._address, PRIMARY)

    def heartbeat_engine(self) -> sa.Engine:
        """Return an engine that writes heartbeats on the primary, without waiting for the writer's lock."""
        sessions = _Sessions(WRITABLE, _WITHOUT_STATEMENT_TIMEOUT, limit_s=HEARTBEAT_TIMEOUT_S)
        return self._engine(self._address, sessions)

    def replica_engine(self, address: ConnectionString) -> sa.Engine:
        """Return an engine for reading from the replica of this database at `address`."""
        return self._reading_engine(address, STANDBY, REPLICA_TIMEOUT_S)

    def _reading_engine(self, address: ConnectionString, role: str, limit_s: float | None = None) -> sa.Engine:
        """Return an engine whose statements are cancelled when the budget of their question is exceeded.

        `role` is the kind of server to connect to (target_session_attrs). A connection is closed when it is in use for
        more than `limit_s` seconds, unless that is None.
        """
        sessions = _Sessions(role, _reading_options(), READERS, limit_s, _CountedCursor)
        engine = self._engine(address, sessions)
        enforce_budget(engine, _cancel)
        return engine

    def ensure_partition(self, connection: sa.Connection, ingested_us: int, tier: int) -> None:
        """Create the partitions of `decisions` and `outcomes` for this ingest time and tier if they do not exist.

        The tier SUMMARY has no partitions of `outcomes`, because summaries contain their outcomes.
        """
        start, end = _bounds(tier, ingested_us // _WIDTH_US[tier])
        for table in PARTITIONED if tier != SUMMARY else (DECISIONS,):
            name = _partition(table, tier, ingested_us // _WIDTH_US[tier])
            if connection.exec_driver_sql(f"SELECT to_regclass('{name}')").scalar() is None:
                bounds = f"FROM ({tier}, {start}) TO ({tier}, {end})"
                connection.exec_driver_sql(f"CREATE TABLE {name} PARTITION OF {table.name} FOR VALUES {bounds}")

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
        """Insert rows into a table with a binary COPY."""
        columns = [column for column in table.c if column.name in rows[0]]
        names = ", ".join(f'"{column.name}"' for column in columns)
        cursor: Any = connection.connection.cursor()
        statement = f"COPY {table.name} ({names}) FROM STDIN (FORMAT BINARY)"
        try:
            with cursor, cursor.copy(statement) as copy:
                copy.set_types([_TYPES[type(column.type)] for column in columns])
                for row in rows:
                    copy.write_row([_storable(row[column.name]) for column in columns])
        except psycopg.Error as e:  # SQLAlchemy does not see it, for example when the server ends
            raise sa.exc.DBAPIError.instance(statement, None, e, psycopg.Error, dialect=connection.dialect) from e

    def insert_missing(self, connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
        """Insert the rows whose primary key is not in the table yet, without COPY, which cannot skip the others."""
        connection.execute(insert(table).on_conflict_do_nothing(), rows)

    def check_writable(self, connection: sa.Connection) -> None:
        """Check with a small committed write that the database can be written.

        The server monitors its own disk, so nothing more can be checked.
        """
        with connection.begin():
            connection.execute(ROLLUPS.delete().where(ROLLUPS.c.bucket < 0))

    @contextmanager
    def try_prune_lock(self, connection: sa.Connection) -> Iterator[bool]:
        """Yield whether this process got the advisory lock for running retention, and release it when the block ends.

        It is a lock of the session, which needs no open transaction and ends with the connection.
        """
        session = connection.execution_options(isolation_level="AUTOCOMMIT")
        locked = bool(session.exec_driver_sql(f"SELECT pg_try_advisory_lock({PRUNER_LOCK})").scalar())
        try:
            yield locked
        finally:
            if locked:
                session.exec_driver_sql(f"SELECT pg_advisory_unlock({PRUNER_LOCK})")

    def prunable_before_us(self, now_us: int) -> int:
        """Return the start of the current partition in microseconds; retention drops only partitions before it."""
        return now_us - now_us % PARTITION_US

    def drop_oldest_partition(self, connection: sa.Connection, tiers: Sequence[int], before_us: int, most: int) -> int:
        """Drop the oldest partition of these tiers that ended before `before_us`; return how many decisions it had.

        Empty partitions before it are dropped too, and partitions with more than `most` decisions are skipped.
        """
        partitions = self._partitions(connection)
        ended = [
            (_bounds(tier, n)[1], tier, n)
            for tier in tiers
            for n in partitions[tier]
            if _bounds(tier, n)[1] <= before_us
        ]
        for _, tier, number in sorted(ended):
            if dropped := self._drop(connection, tier, number, most):
                return dropped
        return 0

    def drop_empty_partitions(self, connection: sa.Connection) -> None:
        """Drop the oldest partitions of full records, up to the first that contains a decision or is the newest.

        The partitions of outcomes for the same times are dropped too: no outcome is in an older partition than its
        decision.
        """
        for number in self._partitions(connection)[FULL][:-1]:
            left = f"SELECT EXISTS (SELECT FROM {_partition(DECISIONS, FULL, number)})"
            if connection.exec_driver_sql(left).scalar():
                return
            self._drop(connection, FULL, number, 0)

    def find_damaged_pages(self, connection: sa.Connection) -> list[str]:
        """Return an empty list: the server checks pages itself when it reads them (initdb --data-checksums)."""
        return []

    def live_bytes(self, connection: sa.Connection) -> int:
        """Return the bytes of tables and indexes, including deleted rows that are not vacuumed yet."""
        unpartitioned = sum(self._bytes(connection, t.name) for t in COUNTED if t not in PARTITIONED)
        return unpartitioned + sum(self._tier_bytes(connection).values())

    def measure_tiers(self, connection: sa.Connection) -> dict[str, TierSize]:
        """Return the number of decisions and the bytes used for each of the tiers "full" and "summary".

        The bytes include indexes and deleted rows that are not vacuumed yet.
        """
        numbers = connection.execute(sa.select(DECISIONS.c.tier, sa.func.count()).group_by(DECISIONS.c.tier))
        counts: dict[int, int] = {row.tier: row[1] for row in numbers}
        size = self._tier_bytes(connection)

        def measure(*tiers: int) -> TierSize:
            return TierSize(sum(counts.get(t, 0) for t in tiers), sum(size[t] for t in tiers))

        return {"full": measure(FULL, KEPT_LONGER), "summary": measure(SUMMARY)}

    def file_bytes(self) -> None:
        """Return None, because the files are on the database server."""

    def release_space(self, connection: sa.Connection) -> None:
        """Do nothing: dropped partitions free their files, and autovacuum handles the rest."""

    def _drop(self, connection: sa.Connection, tier: int, number: int, most: int) -> int:
        name = _partition(DECISIONS, tier, number)
        count: int = connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar_one()
        if count > most:
            return 0
        for table in PARTITIONED:
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {_partition(table, tier, number)}")
        return count

    def _partitions(self, connection: sa.Connection) -> dict[int, list[int]]:
        """Return the numbers of the existing partitions of `decisions` by tier, oldest first.

        A partition's number is its start time divided by its width.
        """
        numbers_by_tier: dict[int, list[int]] = {tier: [] for tier in _NAMES}
        for name in connection.exec_driver_sql(_PARTITIONS_OF.format(DECISIONS.name)).scalars():
            tier_name, _, number = name.removeprefix(DECISIONS.name).rpartition("_p")
            numbers_by_tier[_TIERS[tier_name]].append(int(number))
        return {tier: sorted(numbers) for tier, numbers in numbers_by_tier.items()}

    def _tier_bytes(self, connection: sa.Connection) -> dict[int, int]:
        size = dict.fromkeys(_NAMES, 0)
        for table in PARTITIONED:
            for name in connection.exec_driver_sql(_PARTITIONS_OF.format(table.name)).scalars():
                tier_name = name.removeprefix(table.name).rpartition("_p")[0]
                size[_TIERS[tier_name]] += self._bytes(connection, name)
        return size

    def _bytes(self, connection: sa.Connection, table: str) -> int:
        size = connection.exec_driver_sql(f"SELECT pg_total_relation_size(to_regclass('{table}'))").scalar()
        return int(size or 0)

    def _engine(self, address: ConnectionString, sessions: _Sessions) -> sa.Engine:
        """Create an engine with a lock timeout, BUSY_TIMEOUT_S, and a timeout for idle transactions, IDLE_TIMEOUT_S.

        Without the second timeout, a process that is stopped in a transaction would keep the writer's lock, and keep
        vacuum from removing old rows.
        """
        options = f"{sessions.options} -c lock_timeout={int(BUSY_TIMEOUT_S * 1000)}"
        options += f" -c idle_in_transaction_session_timeout={int(IDLE_TIMEOUT_S * 1000)}"
        engine = sa.create_engine(
            "postgresql+psycopg://",
            poolclass=sa.QueuePool,
            pool_size=sessions.connections,
            max_overflow=0,
            pool_timeout=BUSY_TIMEOUT_S,
            connect_args=address.connection_parameters(sessions.role, options) | {"cursor_factory": sessions.cursors},
        )
        self._watchdog.watch(engine, sessions.limit_s)
        return engine


class _CountedCursor(CountedFetches, psycopg.Cursor[Any]):
    """A cursor whose fetched rows count against the budget of the question."""


def _cancel(connection: Any) -> None:
    """Make the server end the statement that a connection of the driver executes."""
    connection.cancel_safe(timeout=CANCEL_TIMEOUT_S)


def _reading_options() -> str:
    """Return the options of a session that only reads; each of its transactions sees one snapshot."""
    options = "-c default_transaction_read_only=on -c default_transaction_isolation=repeatable\\ read"
    options += f" -c statement_timeout={int(STATEMENT_TIMEOUT_S * 1000)}"
    return f"{options} -c jit=off"  # JIT compilation takes longer than these queries


def _partition(table: sa.Table, tier: int, number: int) -> str:
    return f"{table.name}{_NAMES[tier]}_p{number}"


def _bounds(tier: int, number: int) -> tuple[int, int]:
    return number * _WIDTH_US[tier], (number + 1) * _WIDTH_US[tier]


def _storable(value: Any) -> Any:
    return value.replace("\0", _NUL) if type(value) is str and "\0" in value else value


PING_TIMEOUT_S: Final = 5.0  # a pooled connection that does not answer by then is replaced
IDLE_S: Final = 60.0  # after which the thread ends; the next limit starts another one

_log: Final = logging.getLogger(__name__)


class ConnectionWatchdog:
    """Shuts down connections that are in use for longer than their limit. Thread-safe.

    It has a thread only while connections have limits, and for IDLE_S seconds afterwards.
    """

    def __init__(self) -> None:
        self._deadlines: dict[ConnectionPoolEntry, float] = {}  # monotonic seconds
        self._changed = threading.Condition()
        self._wakes_at = float("inf")  # when the thread looks again
        self._thread: threading.Thread | None = None

    def watch(self, engine: sa.Engine, limit_s: float | None) -> None:
        """Make an engine test each pooled connection before use, and limit how long a connection is in use.

        A connection that does not answer the test within PING_TIMEOUT_S seconds is replaced by a new one. If `limit_s`
        is None, only the test has a limit.
        """

        def checked_out(dbapi_connection: Any, entry: ConnectionPoolEntry, _proxy: object) -> None:
            if entry.info.setdefault("used", False):  # a new connection needs no test
                self._set(entry, PING_TIMEOUT_S)
                try:
                    engine.dialect.do_ping(dbapi_connection)
                except engine.dialect.loaded_dbapi.Error as e:
                    raise sa.exc.InvalidatePoolError(str(e)) from e  # the pool connects again
                finally:
                    self._clear(entry)
            entry.info["used"] = True
            if limit_s is not None:
                self._set(entry, limit_s)

        def checked_in(_dbapi_connection: Any, entry: ConnectionPoolEntry) -> None:
            self._clear(entry)

        sa.event.listen(engine, "checkout", checked_out)
        sa.event.listen(engine, "checkin", checked_in)

    def _set(self, entry: ConnectionPoolEntry, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        with self._changed:
            self._deadlines[entry] = deadline
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="connection-watchdog", daemon=True)
                self._thread.start()
            elif deadline < self._wakes_at:
                self._changed.notify()

    def _clear(self, entry: ConnectionPoolEntry) -> None:
        with self._changed:
            self._deadlines.pop(entry, None)

    def _run(self) -> None:
        with self._changed:
            idle_since = time.monotonic()
            while True:
                now = time.monotonic()
                for entry in [entry for entry, deadline in self._deadlines.items() if deadline <= now]:
                    del self._deadlines[entry]
                    _shut_down(entry)
                if self._deadlines:
                    idle_since = now
                elif now - idle_since >= IDLE_S:
                    self._thread = None
                    return
                self._wakes_at = min(self._deadlines.values(), default=now + IDLE_S)
                self._changed.wait(self._wakes_at - now)


def _shut_down(entry: ConnectionPoolEntry) -> None:
    """Shut down the socket of a connection, so that the thread that waits for the server gets an error."""
    connection: Any = entry.dbapi_connection
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as copy:
            copy.shutdown(socket.SHUT_RDWR)
    except Exception:  # the driver's errors and those of the socket: it was closed meanwhile
        return
    _log.warning("the database has not answered for too long: the connection was closed")
