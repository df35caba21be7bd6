"""Store the numbers of nodes and placements of a history beside its blob.

Totals of all nodes then need no blob. A service of the previous version can still store records. It does not update the
numbers of the hour; the next batch of this version corrects them.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import sqlalchemy as sa
import zstandard
from alembic import op

revision = "0007"
down_revision = "0006"

STEP = 200  # blobs in memory at a time
KEYS = ("bucket", "cluster", "profile", "part")


def upgrade() -> None:
    op.add_column("rollups", sa.Column("nodes", sa.Integer, nullable=False, server_default="0"))
    op.add_column("rollups", sa.Column("chosen", sa.BigInteger, nullable=False, server_default="0"))
    _count(op.get_bind())
    op.create_index("rollups_in_sum", "rollups", ["bucket", "cluster", "profile", "nodes", "chosen"])


def _count(connection: sa.Connection) -> None:
    rollups = sa.table("rollups", *(sa.column(name) for name in (*KEYS, "counters", "nodes", "chosen")))
    keys = [rollups.c[name] for name in KEYS]
    after: tuple[object, ...] | None = None
    update = rollups.update().where(*(key == sa.bindparam(f"of_{key.name}") for key in keys))
    while True:
        statement = sa.select(*keys, rollups.c.counters).order_by(*keys).limit(STEP)
        if after:
            statement = statement.where(sa.tuple_(*keys) > sa.tuple_(*map(sa.literal, after)))
        rows = connection.execute(statement).all()
        if not rows:
            return
        counted = [{f"of_{k}": v for k, v in zip(KEYS, row[:4], strict=True)} | _sums(row) for row in rows]
        connection.execute(update, counted)
        after = tuple(rows[-1][:4])


def _sums(row: Any) -> dict[str, int]:
    """Of a blob in the form of this revision. One of all nodes (-1) stands beside others that count the same nodes."""
    packed = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(row.counters))
    chosen = sum(
        int(np.frombuffer(raw, np.dtype(code)).sum())
        for name, _, _, code, raw in packed["counters"]
        if name == "chosen"
    )
    return {"nodes": 0 if row.part < 0 else len(packed["nodes"]) // 4, "chosen": chosen}
