"""Add an index of unsuccessful decisions, which a list of pending pods reads."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    failed = sa.text("state IN ('Unschedulable', 'Error', 'Failed')")
    op.create_index(
        "decisions_unsuccessful", "decisions", ["namespace", "id"], sqlite_where=failed, postgresql_where=failed
    )
