"""The schema says which services can use it: from here on the one before can be put back without the data going back.

A later revision adds what is new with a default, and says nothing; services from this revision on go on with it. One
that takes away or changes what they need updates the row to itself.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    usable_from = op.create_table("usable_from", sa.Column("revision", sa.String, primary_key=True))
    op.bulk_insert(usable_from, [{"revision": revision}])
