"""Add an index for the rows that differ between two generations of a node table."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_index("node_rows_by_since", "node_rows", ["incarnation_id", "since"])
