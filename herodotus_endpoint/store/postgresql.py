"""PostgreSQL: for many clusters, and for several replicas that write to one database.

Owns: connections and their timeouts, the lock that makes one writer of many replicas, COPY, partitions by time of
ingest. Does not own: statements that both databases share.

Decisions and outcomes are in partitions of PARTITION_US, made when the first row of one comes. Retention drops them
whole, so a decision stays up to that much longer than asked for, and the partition of now is never dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from herodotus_endpoint.store.chains import PARTITION_US
from herodotus_endpoint.store.engine import BUSY_TIMEOUT_S, READERS, Row, migrated
from herodotus_endpoint.store.schema import DECISIONS, GAPS, NODE_ROWS, OUTCOMES, ROLLUPS

WRITER_LOCK: Final = 0x6865_726F_646F_7475  # "herodotu": the advisory lock of whoever writes to this database
PARTITIONED: Final = (DECISIONS, OUTCOMES)
COUNTED: Final = (DECISIONS, OUTCOMES, NODE_ROWS, ROLLUPS, GAPS)  # whose sizes are the database's
_TYPES: Final = {sa.Integer: "int4", sa.BigInteger: "int8", sa.String: "text", sa.LargeBinary: "bytea"}
_NUL: Final = "\N{REPLACEMENT CHARACTER}"  # PostgreSQL's texts hold no NUL; the frame has them whole


class Postgresql:
    """The database behind a postgresql:// URL. Replicas share it; the advisory lock is held to the commit."""

    def __init__(self, url: sa.URL) -> None:
        self._url = url.set(drivername="postgresql+psycopg")
        self.name = url.render_as_string(hide_password=True)

    def prepare(self) -> None:
        """The database itself must be there."""
        migrated(self)

    def writing_engine(self) -> sa.Engine:
        """READ COMMITTED: the first statement waits for the lock, those after it see what was committed before."""
        engine = self._engine(1, f"-c lock_timeout={int(BUSY_TIMEOUT_S * 1000)}")

        def begun(connection: sa.Connection) -> None:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITER_LOCK})")

        sa.event.listen(engine, "begin", begun)
        return engine

    def reading_engine(self) -> sa.Engine:
        """REPEATABLE READ: one snapshot a transaction."""
        options = "-c default_transaction_read_only=on -c default_transaction_isolation=repeatable\\ read"
        return self._engine(READERS, f"{options} -c jit=off")  # compiling takes longer than these queries

    def make_room(self, connection: sa.Connection, now_us: int) -> None:
        """The partitions of now."""
        number = now_us // PARTITION_US
        for table in PARTITIONED:
            name = _partition(table, number)
            if connection.exec_driver_sql(f"SELECT to_regclass('{name}')").scalar() is None:
                connection.exec_driver_sql(
                    f"CREATE TABLE {name} PARTITION OF {table.name}"
                    f" FOR VALUES FROM ({number * PARTITION_US}) TO ({(number + 1) * PARTITION_US})"
                )

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
        """Binary COPY."""
        columns = [column for column in table.c if column.name in rows[0]]
        names = ", ".join(f'"{column.name}"' for column in columns)
        cursor: Any = connection.connection.cursor()
        with cursor, cursor.copy(f"COPY {table.name} ({names}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types([_TYPES[type(column.type)] for column in columns])
            for row in rows:
                copy.write_row([_storable(row[column.name]) for column in columns])

    def trial(self, connection: sa.Connection) -> None:
        """The server looks after its own disk: a transaction that writes and commits is what can be asked."""
        with connection.begin():
            connection.execute(ROLLUPS.delete().where(ROLLUPS.c.bucket < 0))

    def delete_oldest(self, connection: sa.Connection, cutoff_us: int, over: bool) -> int:
        """One partition."""
        numbers = self._numbers(connection)
        if len(numbers) < 2 or not (over or (numbers[0] + 1) * PARTITION_US <= cutoff_us):
            return 0
        gone = _partition(DECISIONS, numbers[0])
        count: int = connection.exec_driver_sql(f"SELECT count(*) FROM {gone}").scalar_one()
        for table in PARTITIONED:
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {_partition(table, numbers[0])}")
        return count or self.delete_oldest(connection, cutoff_us, over)

    def live_bytes(self, connection: sa.Connection) -> int:
        """Tables and indexes, what is deleted and not yet vacuumed included."""
        whole = sum(self._bytes(connection, t.name) for t in COUNTED if t not in PARTITIONED)
        parts = [_partition(t, number) for number in self._numbers(connection) for t in PARTITIONED]
        return whole + sum(self._bytes(connection, name) for name in parts)

    def file_bytes(self) -> None:
        """They are the server's."""

    def give_back(self, connection: sa.Connection) -> None:
        """Nothing: a dropped partition's files are gone, and autovacuum looks after the rest."""

    def _numbers(self, connection: sa.Connection) -> list[int]:
        """The partitions that are there, the oldest first."""
        found = connection.exec_driver_sql(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            f" WHERE i.inhparent = '{DECISIONS.name}'::regclass"
        )
        return sorted(int(name.rpartition("_p")[2]) for name in found.scalars())

    def _bytes(self, connection: sa.Connection, table: str) -> int:
        size = connection.exec_driver_sql(f"SELECT pg_total_relation_size(to_regclass('{table}'))").scalar()
        return int(size or 0)

    def _engine(self, connections: int, options: str) -> sa.Engine:
        return sa.create_engine(
            self._url,
            poolclass=sa.QueuePool,
            pool_size=connections,
            max_overflow=0,
            pool_timeout=BUSY_TIMEOUT_S,
            pool_pre_ping=True,  # the server may have been restarted
            connect_args={"connect_timeout": int(BUSY_TIMEOUT_S), "options": options},
        )


def _partition(table: sa.Table, number: int) -> str:
    return f"{table.name}_p{number}"


def _storable(value: Any) -> Any:
    return value.replace("\0", _NUL) if type(value) is str and "\0" in value else value
