"""Add to decisions whether the message may name other pods; null for decisions stored before."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("decisions", sa.Column("message_names_nobody", sa.Boolean, nullable=True))
