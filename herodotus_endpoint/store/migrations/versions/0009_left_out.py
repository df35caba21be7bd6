"""Sequences that a file may have left out are told from those that are missing.

A service of the version before takes them for missing, and says so when it stores records of the same scheduler.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("holes", sa.Column("left_out", sa.Boolean, nullable=False, server_default=sa.false()))
