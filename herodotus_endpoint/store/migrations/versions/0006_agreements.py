"""Add to decisions whether another scheduler's outcome agrees with the reconstruction."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    for name in ("agreement", "cause"):
        op.add_column("decisions", sa.Column(name, sa.String, nullable=True))
