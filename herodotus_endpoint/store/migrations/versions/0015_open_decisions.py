"""Add an index of decisions without a stored result, which a scheduler requests after a restart."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    is_open = sa.text("state = 'Binding'")
    op.create_index("decisions_open", "decisions", ["cluster", "id"], sqlite_where=is_open, postgresql_where=is_open)
