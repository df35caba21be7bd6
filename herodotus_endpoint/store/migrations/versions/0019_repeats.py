"""Add to decisions how many later attempts repeat them and are only counted."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.add_column("decisions", sa.Column("repeats", sa.BigInteger, nullable=False, server_default="0"))
