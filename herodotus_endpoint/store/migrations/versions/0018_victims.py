"""Add the pods that a decision evicted, and an index of decisions that evicted any.

Preemptions that were stored before are not listed any more.
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column("decisions", sa.Column("victims", sa.String, nullable=True))
    preempting = sa.text("victims IS NOT NULL")
    op.create_index("decisions_preempting", "decisions", ["id"], sqlite_where=preempting, postgresql_where=preempting)
