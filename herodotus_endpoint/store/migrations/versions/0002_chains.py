"""Store decisions as deltas against a key frame. It only adds: decisions stored before stay readable."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("decisions", sa.Column("base", sa.BigInteger, nullable=True))
    op.create_index("decisions_by_chain", "decisions", ["incarnation_id", "base"])
