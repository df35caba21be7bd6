"""Add the pod group of a decision, and an index by it. Decisions that were stored before have none."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.add_column("decisions", sa.Column("pod_group", sa.String, nullable=True))
    op.add_column("decisions", sa.Column("group_cycle", sa.BigInteger, nullable=True))
    op.add_column("decisions", sa.Column("group_position", sa.BigInteger, nullable=True))
    in_group, columns = sa.text("pod_group IS NOT NULL"), ["pod_group", "namespace", "id"]
    op.create_index("decisions_by_pod_group", "decisions", columns, sqlite_where=in_group, postgresql_where=in_group)
