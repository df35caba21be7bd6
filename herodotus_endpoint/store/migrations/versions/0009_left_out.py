"""Distinguish sequences that an imported file left out from missing ones.

A service of the previous version counts them as missing when it stores records of the same scheduler.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("holes", sa.Column("left_out", sa.Boolean, nullable=False, server_default=sa.false()))
