"""Add the tables of pending reviews and of the schedulers that answer them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
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
