"""Names of nodes that nothing tells of any more.

Owns: finding and deleting them. Does not own: when (`retention`), giving ids out (`noderows`).

Invariant: a name stays as long as a node table or a history holds its id. The highest id stays, so that none is given
out twice.
"""

from __future__ import annotations

import sqlalchemy as sa

from herodotus_endpoint.store.rollups import ALL_NODES_PART, PART_NODES, node_ids_in
from herodotus_endpoint.store.schema import INCARNATIONS, NODE_ROWS, NODES, ROLLUPS


def find_unused_nodes(connection: sa.Connection, part: int) -> set[int]:
    """The ids of a part of the nodes that nothing tells of."""
    row = NODES.c
    highest = sa.select(sa.func.max(row.id)).scalar_subquery()
    within = (row.id >= part * PART_NODES, row.id < (part + 1) * PART_NODES, row.id < highest)
    left = set(connection.scalars(sa.select(row.id).where(*within)))
    left -= _select_used(connection, left)
    if left:
        blobs = sa.select(ROLLUPS.c.counters).where(ROLLUPS.c.part.in_((part, ALL_NODES_PART)))
        for blob in connection.execute(blobs.execution_options(yield_per=100)).scalars():
            left -= node_ids_in(blob)
    return left


def delete_nodes(connection: sa.Connection, ids: set[int]) -> int:
    """Delete those of the unused ids that no node table has taken up meanwhile; how many."""
    going = ids - _select_used(connection, ids)
    connection.execute(NODES.delete().where(NODES.c.id.in_(going)))
    return len(going)


def count_parts(connection: sa.Connection) -> int:
    """How many parts the nodes are in."""
    return int(connection.scalar(sa.select(sa.func.max(NODES.c.id))) or 0) // PART_NODES + 1


def _select_used(connection: sa.Connection, ids: set[int]) -> set[int]:
    """Those that are in a node table, found incarnation by incarnation: so the index is ordered."""
    theirs = sa.and_(NODE_ROWS.c.incarnation_id == INCARNATIONS.c.id, NODE_ROWS.c.node_id.in_(ids))
    found = sa.select(NODE_ROWS.c.node_id).select_from(INCARNATIONS).join(NODE_ROWS, theirs).distinct()
    return {node_id for node_id in connection.scalars(found) if node_id}
