"""Add the identity of the database, the time of retention, and checksums of new rows.

It only adds: rows that were stored before, or by a service of the previous version, have no checksum (null).
"""

from __future__ import annotations

from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
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
    op.add_column("incarnations", sa.Column("ingested_us", sa.BigInteger, nullable=True))
    for table in ("decisions", "outcomes", "gaps", "node_rows", "nodes"):
        op.add_column(table, sa.Column("checksum", sa.BigInteger, nullable=True))
