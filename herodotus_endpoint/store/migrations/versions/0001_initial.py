"""The first schema: incarnations, node table, decisions, outcomes, gaps, rollups."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    postgresql = op.get_bind().dialect.name == "postgresql"
    text = sa.String(collation="C") if postgresql else sa.String()  # ordered alike on both
    by_time = ("ingested_us",) if postgresql else ()  # every key of a partitioned table holds what it is parted by
    op.create_table(
        "incarnations",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("incarnation", text, nullable=False, unique=True),
        sa.Column("cluster", text, nullable=False),
        sa.Column("identity", text, nullable=False),
        sa.Column("rows_generation", sa.BigInteger, nullable=False),
        sa.Column("highest", sa.BigInteger, nullable=False),
        sa.Column("first_us", sa.BigInteger, nullable=False),
        sa.Column("last_us", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "incarnation_profiles",
        sa.Column("incarnation_id", sa.Integer, primary_key=True),
        sa.Column("profile", text, primary_key=True),
        sa.Column("first_us", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "holes",
        sa.Column("incarnation_id", sa.Integer, primary_key=True),
        sa.Column("first", sa.BigInteger, primary_key=True),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("explained", sa.Boolean, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "gaps",
        sa.Column("incarnation_id", sa.Integer, primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("reason", text, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("ingested_us", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "nodes",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("cluster", text, nullable=False),
        sa.Column("name", text, nullable=False),
        sa.Column("uid", text, nullable=False),
        sa.Column("considered", sa.Boolean, nullable=False),
        sa.UniqueConstraint("name", "cluster", "uid"),
    )
    op.create_table(
        "node_rows",
        sa.Column("incarnation_id", sa.Integer, primary_key=True),
        sa.Column("slot", sa.Integer, primary_key=True),
        sa.Column("since", sa.BigInteger, primary_key=True),
        sa.Column("node_id", sa.Integer, nullable=True),
        sa.Column("amounts", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("node_rows_by_node", "node_rows", ["incarnation_id", "node_id", "since"])
    op.create_table(
        "decisions",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("incarnation_id", sa.Integer, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("decision_id", text, nullable=False),
        sa.Column("cluster", text, nullable=False),
        sa.Column("source", text, nullable=False),
        sa.Column("profile", text, nullable=False),
        sa.Column("namespace", text, nullable=False),
        sa.Column("pod", text, nullable=False),
        sa.Column("pod_uid", text, nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("owner", text, nullable=True),
        sa.Column("started_us", sa.BigInteger, nullable=False),
        sa.Column("ingested_us", sa.BigInteger, primary_key=postgresql, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("path", text, nullable=False),
        sa.Column("state", text, nullable=False),
        sa.Column("node", text, nullable=True),
        sa.Column("nodes_total", sa.Integer, nullable=False),
        sa.Column("nodes_evaluated", sa.Integer, nullable=False),
        sa.Column("nodes_feasible", sa.Integer, nullable=False),
        sa.Column("message", text, nullable=False),
        sa.Column("frame", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("incarnation_id", "sequence", *by_time),
        postgresql_partition_by="RANGE (ingested_us)",
    )
    op.create_index("decisions_by_pod", "decisions", ["pod", "namespace", "started_us"])
    op.create_index("decisions_by_namespace", "decisions", ["namespace", "id"])
    op.create_index("decisions_by_decision_id", "decisions", ["decision_id"])
    op.create_table(
        "outcomes",
        sa.Column("incarnation_id", sa.Integer, primary_key=True),
        sa.Column("decision_sequence", sa.BigInteger, primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True),
        sa.Column("state", text, nullable=True),
        sa.Column("ingested_us", sa.BigInteger, primary_key=postgresql, nullable=False),
        sa.Column("frame", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
        postgresql_partition_by="RANGE (ingested_us)",
    )
    op.create_table(
        "rollups",
        sa.Column("bucket", sa.BigInteger, primary_key=True),
        sa.Column("cluster", text, primary_key=True),
        sa.Column("profile", text, primary_key=True),
        sa.Column("ingested_us", sa.BigInteger, nullable=False),
        sa.Column("counters", sa.LargeBinary, nullable=False),
    )
