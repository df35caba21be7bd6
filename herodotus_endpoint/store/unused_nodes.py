"""Node ids that no node table and no history contains any more.

Owns: finding and deleting them. Does not own: when they are deleted (`retention`), assigning ids (`node_rows`).

Invariant: an id stays as long as a node table or a history contains it. The highest id always stays, so that no id is
assigned twice.
"""

from __future__ import annotations

import sqlalchemy as sa

from herodotus_endpoint.store.rollups import PART_NODES, node_ids_in
from herodotus_endpoint.store.schema import INCARNATIONS, NODE_ROWS, NODES, ROLLUPS


def find_unused_nodes(connection: sa.Connection, part: int) -> set[int]:
    """Return the node ids that no node table and no node history contains, within one range of ids.

    `part` is the number of the range, see `rollups.part_of`. The highest id always counts as used.
    """
    row = NODES.c
    highest = sa.select(sa.func.max(row.id)).scalar_subquery()
    within = (row.id >= part * PART_NODES, row.id < (part + 1) * PART_NODES, row.id < highest)
    unused = set(connection.scalars(sa.select(row.id).where(*within)))
    unused -= _select_used(connection, unused)
    if unused:
        blobs = sa.select(ROLLUPS.c.counters).where(ROLLUPS.c.part == part)
        for blob in connection.execute(blobs.execution_options(yield_per=100)).scalars():
            unused -= node_ids_in(blob)
    return unused


def delete_nodes(connection: sa.Connection, ids: set[int]) -> int:
    """Delete nodes that no node table contains from the table `nodes`, and return how many were deleted.

    `ids` are the candidates; a node table may contain some of them by now.
    """
    deleted = ids - _select_used(connection, ids)
    connection.execute(NODES.delete().where(NODES.c.id.in_(deleted)))
    return len(deleted)


def count_parts(connection: sa.Connection) -> int:
    """Return the number of ranges into which node ids are divided, see `rollups.part_of`."""
    return int(connection.scalar(sa.select(sa.func.max(NODES.c.id))) or 0) // PART_NODES + 1


def _select_used(connection: sa.Connection, ids: set[int]) -> set[int]:
    """Return those of `ids` that a node table contains. The join by incarnation lets the database use an index."""
    on_ids = sa.and_(NODE_ROWS.c.incarnation_id == INCARNATIONS.c.id, NODE_ROWS.c.node_id.in_(ids))
    found = sa.select(NODE_ROWS.c.node_id).select_from(INCARNATIONS).join(NODE_ROWS, on_ids).distinct()
    return {node_id for node_id in connection.scalars(found) if node_id}
