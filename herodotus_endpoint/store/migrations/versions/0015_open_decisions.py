"""An index of the decisions whose result is not stored: a scheduler asks for those that an earlier one left open."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    is_open = sa.text("state = 'Binding'")
    op.create_index("decisions_open", "decisions", ["cluster", "id"], sqlite_where=is_open, postgresql_where=is_open)
