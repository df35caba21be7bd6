"""Add a tier to decisions and outcomes: full records, full records that are kept longer, summaries.

On PostgreSQL tables are partitioned by the tier, so that records can leave a partition before it is dropped. The
existing partitions become partitions of full records. The current one stays and the next one is created, so that a
service of the previous version can still store records.
"""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

PARTITION_US = 6 * 3_600_000_000
KEYS = {
    "decisions": (("id", "ingested_us", "tier"), ("incarnation_id", "sequence", "ingested_us", "tier")),
    "outcomes": (("incarnation_id", "decision_sequence", "sequence", "ingested_us", "tier"),),
}
INDEXES = {
    "decisions": {
        "decisions_by_chain": "incarnation_id, tier, base",
        "decisions_by_pod": "pod, namespace, started_us",
        "decisions_by_namespace": "namespace, id",
        "decisions_by_decision_id": "decision_id",
    },
    "outcomes": {},
}


def upgrade() -> None:
    for table in KEYS:
        op.add_column(table, sa.Column("tier", sa.Integer, nullable=False, server_default="0"))
    op.add_column("decisions", sa.Column("frame_bytes", sa.Integer, nullable=True))
    if op.get_bind().dialect.name == "postgresql":
        for table in KEYS:
            _part_by_tier(table)
    else:
        op.drop_index("decisions_by_chain")
        op.create_index("decisions_by_chain", "decisions", ["incarnation_id", "tier", "base"])
        op.create_index("decisions_by_tier", "decisions", ["tier", "id", "frame_bytes"])


def _part_by_tier(table: str) -> None:
    """Create the table again with another partition key; its rows stay in their partitions."""
    numbers = {int(name.rpartition("_p")[2]) for name in _partitions(table)}
    for name in _partitions(table):
        op.execute(f"ALTER TABLE {table} DETACH PARTITION {name}")
    op.execute(f"ALTER TABLE {table} RENAME TO {table}_before")
    op.execute(f"CREATE TABLE {table} (LIKE {table}_before INCLUDING DEFAULTS) PARTITION BY RANGE (tier, ingested_us)")
    if table == "decisions":
        op.execute(f"ALTER SEQUENCE {table}_id_seq OWNED BY {table}.id")
    op.execute(f"DROP TABLE {table}_before")
    for number in sorted(numbers):
        _attach(table, number)
    primary, *unique = KEYS[table]
    op.execute(f"ALTER TABLE {table} ADD PRIMARY KEY ({', '.join(primary)})")
    for columns in unique:
        op.execute(f"ALTER TABLE {table} ADD UNIQUE ({', '.join(columns)})")
    for name, indexed in INDEXES[table].items():
        op.execute(f"CREATE INDEX {name} ON {table} ({indexed})")
    now = int(time.time() * 1e6) // PARTITION_US
    for number in {now, now + 1} - numbers:
        bounds = f"FROM (0, {number * PARTITION_US}) TO (0, {(number + 1) * PARTITION_US})"
        op.execute(f"CREATE TABLE {table}_p{number} PARTITION OF {table} FOR VALUES {bounds}")


def _attach(table: str, number: int) -> None:
    """Attach a partition to the table again, after dropping its keys, because the new table's keys include them."""
    name, start, end = f"{table}_p{number}", number * PARTITION_US, (number + 1) * PARTITION_US
    for key in _keys(name):
        op.execute(f'ALTER TABLE {name} DROP CONSTRAINT "{key}"')
    op.execute(f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM (0, {start}) TO (0, {end})")


def _partitions(table: str) -> list[str]:
    query = "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
    return list(op.get_bind().exec_driver_sql(f"{query} WHERE i.inhparent = '{table}'::regclass").scalars())


def _keys(table: str) -> list[str]:
    query = f"SELECT conname FROM pg_constraint WHERE conrelid = '{table}'::regclass AND contype IN ('p', 'u')"
    return list(op.get_bind().exec_driver_sql(query).scalars())
