"""Store in the schema which services can use it, so that the service can be rolled back without its data.

A later revision that only adds columns with defaults keeps the row; services from this revision on can use it. A
revision that removes or changes what they need writes its own number to the row.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    usable_from = op.create_table("usable_from", sa.Column("revision", sa.String, primary_key=True))
    op.bulk_insert(usable_from, [{"revision": revision}])
