"""Lists know whether a decision's message may name other pods. Of those that were stored before it is not known."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("decisions", sa.Column("message_names_nobody", sa.Boolean, nullable=True))
