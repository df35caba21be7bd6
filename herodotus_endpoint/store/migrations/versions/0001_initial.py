"""The first schema: incarnations, node table, decisions, outcomes, gaps, rollups."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "incarnations",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("incarnation", sa.String, nullable=False, unique=True),
        sa.Column("cluster", sa.String, nullable=False),
        sa.Column("identity", sa.String, nullable=False),
        sa.Column("rows_generation", sa.BigInteger, nullable=False),
        sa.Column("highest", sa.BigInteger, nullable=False),
        sa.Column("first_us", sa.BigInteger, nullable=False),
        sa.Column("last_us", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "incarnation_profiles",
        sa.Column("incarnation_id", sa.Integer, primary_key=True),
        sa.Column("profile", sa.String, primary_key=True),
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
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("ingested_us", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "nodes",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("cluster", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("uid", sa.String, nullable=False),
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
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("incarnation_id", sa.Integer, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("decision_id", sa.String, nullable=False),
        sa.Column("cluster", sa.String, nullable=False),
        sa.Column("source", sa.String, nullable=False),
        sa.Column("profile", sa.String, nullable=False),
        sa.Column("namespace", sa.String, nullable=False),
        sa.Column("pod", sa.String, nullable=False),
        sa.Column("pod_uid", sa.String, nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.String, nullable=True),
        sa.Column("started_us", sa.BigInteger, nullable=False),
        sa.Column("ingested_us", sa.BigInteger, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("path", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("node", sa.String, nullable=True),
        sa.Column("nodes_total", sa.Integer, nullable=False),
        sa.Column("nodes_evaluated", sa.Integer, nullable=False),
        sa.Column("nodes_feasible", sa.Integer, nullable=False),
        sa.Column("message", sa.String, nullable=False),
        sa.Column("frame", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("incarnation_id", "sequence"),
    )
    op.create_index("decisions_by_pod", "decisions", ["pod", "namespace", "started_us"])
    op.create_index("decisions_by_namespace", "decisions", ["namespace", "id"])
    op.create_index("decisions_by_decision_id", "decisions", ["decision_id"])
    op.create_table(
        "outcomes",
        sa.Column("incarnation_id", sa.Integer, primary_key=True),
        sa.Column("decision_sequence", sa.BigInteger, primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True),
        sa.Column("state", sa.String, nullable=True),
        sa.Column("ingested_us", sa.BigInteger, nullable=False),
        sa.Column("frame", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rollups",
        sa.Column("bucket", sa.BigInteger, primary_key=True),
        sa.Column("cluster", sa.String, primary_key=True),
        sa.Column("profile", sa.String, primary_key=True),
        sa.Column("ingested_us", sa.BigInteger, nullable=False),
        sa.Column("counters", sa.LargeBinary, nullable=False),
    )
