"""The first schema.

On PostgreSQL the tables of records are partitioned by tier and ingest time, so that retention can drop a partition.
"""

from __future__ import annotations

from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    postgresql = op.get_bind().dialect.name == "postgresql"
    text = sa.String(collation="C") if postgresql else sa.String()  # ordered alike on both
    partition = ("ingested_us", "tier") if postgresql else ()  # each key of a partitioned table has its partition key
    usable_from = op.create_table("usable_from", sa.Column("revision", sa.String, primary_key=True))
    op.bulk_insert(usable_from, [{"revision": revision}])
    identity = op.create_table("store_identity", sa.Column("id", sa.String, primary_key=True))
    op.bulk_insert(identity, [{"id": str(uuid4())}])
    op.create_table(
        "retention_clock",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("now_us", sa.BigInteger, nullable=False),
        sa.Column("day_us", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("held", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("removed", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_table(
        "heartbeat",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("beat", sa.BigInteger, nullable=False),
    )
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
        sa.Column("ingested_us", sa.BigInteger, nullable=True),
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
        sa.Column("left_out", sa.Boolean, nullable=False, server_default=sa.false()),
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
        sa.Column("checksum", sa.BigInteger, nullable=True),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "nodes",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("cluster", text, nullable=False),
        sa.Column("name", text, nullable=False),
        sa.Column("uid", text, nullable=False),
        sa.Column("considered", sa.Boolean, nullable=False),
        sa.Column("checksum", sa.BigInteger, nullable=True),
        sa.UniqueConstraint("name", "cluster", "uid"),
    )
    op.create_table(
        "node_rows",
        sa.Column("incarnation_id", sa.Integer, primary_key=True),
        sa.Column("slot", sa.Integer, primary_key=True),
        sa.Column("since", sa.BigInteger, primary_key=True),
        sa.Column("node_id", sa.Integer, nullable=True),
        sa.Column("amounts", sa.LargeBinary, nullable=False),
        sa.Column("checksum", sa.BigInteger, nullable=True),
        sqlite_with_rowid=False,
    )
    op.create_index("node_rows_by_node", "node_rows", ["incarnation_id", "node_id", "since"])
    op.create_index("node_rows_by_since", "node_rows", ["incarnation_id", "since"])
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
        sa.Column("base", sa.BigInteger, nullable=True),
        sa.Column("agreement", sa.String, nullable=True),
        sa.Column("cause", sa.String, nullable=True),
        sa.Column("tier", sa.Integer, primary_key=postgresql, nullable=False, server_default="0"),
        sa.Column("frame_bytes", sa.Integer, nullable=True),
        sa.Column("labels", sa.String, nullable=True),
        sa.Column("checksum", sa.BigInteger, nullable=True),
        sa.Column("message_names_nobody", sa.Boolean, nullable=True),
        sa.Column("pod_group", sa.String, nullable=True),
        sa.Column("group_cycle", sa.BigInteger, nullable=True),
        sa.Column("group_position", sa.BigInteger, nullable=True),
        sa.Column("victims", sa.String, nullable=True),
        sa.Column("repeats", sa.BigInteger, nullable=False, server_default="0"),
        sa.UniqueConstraint("incarnation_id", "sequence", *partition),
        postgresql_partition_by="RANGE (tier, ingested_us)",
    )
    op.create_index("decisions_by_chain", "decisions", ["incarnation_id", "tier", "base"])
    op.create_index("decisions_by_pod", "decisions", ["pod", "namespace", "started_us"])
    op.create_index("decisions_by_namespace", "decisions", ["namespace", "id"])
    op.create_index("decisions_by_decision_id", "decisions", ["decision_id"])
    if not postgresql:  # whose partitions are tiers
        op.create_index("decisions_by_tier", "decisions", ["tier", "id", "frame_bytes"])
    for name, columns, condition in (
        ("decisions_unsuccessful", ["namespace", "id"], "state IN ('Unschedulable', 'Error', 'Failed')"),
        ("decisions_open", ["cluster", "id"], "state = 'Binding'"),
        ("decisions_by_pod_group", ["pod_group", "namespace", "id"], "pod_group IS NOT NULL"),
        ("decisions_preempting", ["id"] if postgresql else ["id", "started_us", "victims"], "victims IS NOT NULL"),
    ):
        predicate = sa.text(condition)
        op.create_index(name, "decisions", columns, sqlite_where=predicate, postgresql_where=predicate)
    op.create_table(
        "outcomes",
        sa.Column("incarnation_id", sa.Integer, primary_key=True),
        sa.Column("decision_sequence", sa.BigInteger, primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True),
        sa.Column("state", text, nullable=True),
        sa.Column("ingested_us", sa.BigInteger, primary_key=postgresql, nullable=False),
        sa.Column("frame", sa.LargeBinary, nullable=False),
        sa.Column("tier", sa.Integer, primary_key=postgresql, nullable=False, server_default="0"),
        sa.Column("checksum", sa.BigInteger, nullable=True),
        sqlite_with_rowid=False,
        postgresql_partition_by="RANGE (tier, ingested_us)",
    )
    op.create_table(
        "rollups",
        sa.Column("bucket", sa.BigInteger, primary_key=True),
        sa.Column("cluster", text, primary_key=True),
        sa.Column("profile", text, primary_key=True),
        sa.Column("part", sa.Integer, primary_key=True),
        sa.Column("ingested_us", sa.BigInteger, nullable=False),
        sa.Column("counters", sa.LargeBinary, nullable=False),
        sa.Column("nodes", sa.Integer, nullable=False, server_default="0"),
        sa.Column("chosen", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_index("rollups_by_part", "rollups", ["part", "bucket"])
    op.create_index("rollups_in_sum", "rollups", ["bucket", "cluster", "profile", "nodes", "chosen"])
    op.create_table(
        "reviewers",
        sa.Column("cluster", sa.String, primary_key=True),
        sa.Column("scheduler", sa.String, primary_key=True),
        sa.Column("seen_us", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "reviews",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("cluster", sa.String, nullable=False),
        sa.Column("scheduler", sa.String, nullable=False),
        sa.Column("asked_us", sa.BigInteger, nullable=False),
        sa.Column("taken", sa.Boolean, nullable=False),
        sa.Column("question", sa.LargeBinary, nullable=False),
        sa.Column("answer", sa.LargeBinary, nullable=True),
        sa.Column("answer_type", sa.String, nullable=False),
    )
