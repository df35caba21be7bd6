"""Divide histories into parts of some hundred nodes, so that a query for one node reads one part of a bucket.

Blobs that were stored before are one part with all nodes (-1), which is read beside the others.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    text = sa.String(collation="C") if op.get_bind().dialect.name == "postgresql" else sa.String()
    op.rename_table("rollups", "rollups_whole")
    op.create_table(
        "rollups",
        sa.Column("bucket", sa.BigInteger, primary_key=True),
        sa.Column("cluster", text, primary_key=True),
        sa.Column("profile", text, primary_key=True),
        sa.Column("part", sa.Integer, primary_key=True),
        sa.Column("ingested_us", sa.BigInteger, nullable=False),
        sa.Column("counters", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("bucket", "cluster", "profile", "part", name="rollups_parts_pkey"),
    )
    op.execute("INSERT INTO rollups SELECT bucket, cluster, profile, -1, ingested_us, counters FROM rollups_whole")
    op.drop_table("rollups_whole")
    op.create_index("rollups_by_part", "rollups", ["part", "bucket"])
