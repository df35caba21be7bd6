"""Add the labels of pods to decisions. Decisions that were stored before have none."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("decisions", sa.Column("labels", sa.String, nullable=True))
