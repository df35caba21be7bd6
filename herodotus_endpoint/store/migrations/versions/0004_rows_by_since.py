"""An index that tells what differs between a node table at two generations."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_index("node_rows_by_since", "node_rows", ["incarnation_id", "since"])
