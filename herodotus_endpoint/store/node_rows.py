"""Storing and reading the node tables of incarnations, row by row.

Owns: statements on node rows, the store's node ids, finding and deleting ids that nothing contains any more, the check
that no rows are missing. Does not own: which frames are stored (`writer`), when ids are deleted (`retention`), building
a table from rows (`node_table_cache`).

Invariant: rows are only added, so the table at a generation never changes once its rows are stored. A node id denotes
one (cluster, name, UID) permanently, in any slot. It stays as long as a node table or a history contains it; the
highest id always stays, so that no id is assigned twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import sqlalchemy as sa

from herodotus_endpoint.store import integrity
from herodotus_endpoint.store.counters import Ints
from herodotus_endpoint.store.packed_node_table import pack_amounts
from herodotus_endpoint.store.rollups import PART_NODES, node_ids_in
from herodotus_endpoint.store.schema import INCARNATIONS, NODE_ROWS, NODES, ROLLUPS
from herodotus_record.model import NodeRows

MAX_NAMES_IN_QUERY: Final = 500  # nodes in one query; with more, reading all nodes is as fast
MAX_CACHED_NAMES: Final = 100_000  # cached names: 20 MB
Row = dict[str, Any]


class NodeRowsMissingError(Exception):
    """Node-table rows that continue rows which were never stored: the sender must send the complete node table."""


@dataclass
class SlotMap:
    """Which node is in each node slot at one generation (version) of an incarnation's node table.

    `node_ids` has the node's id in the table `nodes` by slot, 0 for a free slot. `row_since` has the generation since
    which the slot's latest row is valid, -1 for a slot without a row.
    """

    generation: int
    since: int  # first generation for which `node_ids` is valid
    node_ids: Ints
    row_since: Ints
    _assigned: Ints | None = None  # last result of `nodes_of`, until a slot's node changes

    def nodes_of(self, slots: int) -> Ints:
        """Return the node ids of the first `slots` node slots, 0 for a free slot. Do not change the returned array.

        The same object is returned until a slot gets another node: callers group decisions by its identity.
        """
        if self._assigned is None or len(self._assigned) != slots:
            self._assigned = np.zeros(slots, np.int64)
            self._assigned[: len(self.node_ids)] = self.node_ids[:slots]
        return self._assigned

    def put(self, slot: int, node_id: int, since: int) -> None:
        """Assign the node with this id to a node slot, since generation `since` of the node table."""
        self.node_ids[slot] = node_id
        self.since = max(self.since, since)
        self._assigned = None

    def grow(self, slots: int) -> None:
        """Extend the map with free slots to at least `slots` node slots."""
        more = slots - len(self.node_ids)
        if more <= 0:
            return
        self.node_ids = np.pad(self.node_ids, (0, more))
        self.row_since = np.pad(self.row_since, (0, more), constant_values=-1)


class NodeRegistry:
    """Cache of the ids that nodes have in the table `nodes`; it inserts nodes that have none yet.

    Discard it after a rollback.
    """

    def __init__(self) -> None:
        self._ids: dict[str, dict[tuple[str, str], int]] = {}
        self._names: dict[int, str] = {}

    def name(self, connection: sa.Connection, node_id: int) -> str | None:
        """Return the name of the node with this id, or None if the id is 0, which stands for a free slot."""
        if node_id and node_id not in self._names:
            self._names[node_id] = connection.scalar(sa.select(NODES.c.name).where(NODES.c.id == node_id)) or ""
        return self._names.get(node_id)

    def ids(self, connection: sa.Connection, cluster: str, nodes: list[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Return the known node ids of a cluster by (name, UID); nodes of `nodes` without an id are inserted."""
        ids_by_node = self._ids.setdefault(cluster, {})
        if any(node not in ids_by_node for node in nodes):  # another process may have stored them
            self._load(connection, cluster, ids_by_node, nodes)
            fresh = [node for node in dict.fromkeys(nodes) if node not in ids_by_node]
            if fresh:
                rows: list[Row] = [{"cluster": cluster, "name": n, "uid": uid, "considered": False} for n, uid in fresh]
                for row in rows:
                    row["checksum"] = integrity.NODE.checksum(row)
                connection.execute(NODES.insert(), rows)
                self._load(connection, cluster, ids_by_node, fresh)
        return ids_by_node

    def _load(
        self,
        connection: sa.Connection,
        cluster: str,
        ids_by_node: dict[tuple[str, str], int],
        nodes: Sequence[tuple[str, str]],
    ) -> None:
        """Read the ids of those `nodes` that `ids_by_node` lacks from the database into `ids_by_node`.

        If many are missing, all nodes of the cluster are read, which is as fast.
        """
        statement = sa.select(NODES.c.id, NODES.c.name, NODES.c.uid).where(NODES.c.cluster == cluster)
        missing = {name for name, uid in nodes if (name, uid) not in ids_by_node}
        if len(missing) <= MAX_NAMES_IN_QUERY:
            statement = statement.where(NODES.c.name.in_(missing))
        for row in connection.execute(statement):
            ids_by_node[row.name, row.uid] = row.id
            self._names[row.id] = row.name


def apply_rows(
    connection: sa.Connection, registry: NodeRegistry, incarnation_id: int, slot_map: SlotMap, rows: NodeRows
) -> tuple[bool, list[Row]]:
    """Apply a frame of node-table rows to `slot_map`; return whether the frame was new, and the rows to insert.

    Some of these rows may already be stored. Raises NodeRowsMissingError if earlier rows, which the frame continues,
    are not stored.
    """
    if rows.base > slot_map.generation:
        raise NodeRowsMissingError(
            f"node rows of incarnation {rows.incarnation} start after generation {rows.base},"
            f" stored are those up to {slot_map.generation}: send a complete table"
        )
    pairs = [(name, uid) for name, uid in zip(rows.name, rows.uid, strict=True) if name]
    ids = registry.ids(connection, rows.cluster, pairs)
    node_ids = [ids[name, uid] if name else 0 for name, uid in zip(rows.name, rows.uid, strict=True)]
    slot_map.grow(max(rows.slot, default=-1) + 1)
    new_rows = _build_new_rows(incarnation_id, rows, node_ids, slot_map.row_since)
    _update_slot_map(slot_map, rows, node_ids)
    new = rows.generation > slot_map.generation
    slot_map.generation = max(slot_map.generation, rows.generation)
    return new, new_rows


def load_slot_map(connection: sa.Connection, incarnation_id: int, generation: int) -> SlotMap:
    """Read which node was in each node slot at a generation (version) of an incarnation's node table."""
    slots = connection.scalar(
        sa.select(sa.func.max(NODE_ROWS.c.slot)).where(NODE_ROWS.c.incarnation_id == incarnation_id)
    )
    slot_map = SlotMap(generation, -1, np.zeros(0, np.int64), np.zeros(0, np.int64))
    if slots is None:
        return slot_map
    slot_map.grow(slots + 1)
    for row in connection.execute(_rows_at(incarnation_id, generation, slots + 1)):
        slot_map.node_ids[row.slot] = row.node_id or 0
        slot_map.row_since[row.slot] = row.since
    slot_map.since = int(slot_map.row_since.max())
    return slot_map


def load_rows(
    connection: sa.Connection, incarnation_id: int, generation: int, slots: int, only: Sequence[int] = ()
) -> Sequence[Any]:
    """Return the rows of an incarnation's node table that were valid at a generation, at most one per node slot.

    The first `slots` slots are read, or only those in `only` if it is not empty. Slots without a row are left out.
    Raises DamagedError if a row is damaged.
    """
    rows = connection.execute(_rows_at(incarnation_id, generation, slots, only)).all() if slots else ()
    integrity.require_intact(integrity.NODE_ROW, rows)
    return rows


class NodeNames:
    """Cache of names and UIDs of nodes by node id; they never change. Safe for concurrent use."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, str]] = {}

    def load(self, connection: sa.Connection, node_ids: Collection[int]) -> Mapping[int, tuple[str, str]]:
        """Return a mapping from node id to (name, UID) that has all stored nodes of `node_ids`, and possibly others."""
        missing = [node_id for node_id in node_ids if node_id not in self._known]
        if missing:
            if len(self._known) + len(missing) > MAX_CACHED_NAMES:
                self._known = {}
                missing = list(node_ids)
            statement = sa.select(NODES)
            statement = statement.where(
                NODES.c.id.in_(missing) if len(missing) <= MAX_NAMES_IN_QUERY else NODES.c.id >= min(missing)
            )
            rows = connection.execute(statement.where(NODES.c.id <= max(missing))).all()
            integrity.require_intact(integrity.NODE, rows)
            names = {row.id: (row.name, row.uid) for row in rows}
            self._known = self._known | names
        return self._known


def find_changed_slots(
    connection: sa.Connection, incarnation_id: int, one: int, other: int, most: int
) -> set[int] | None:
    """Return the node slots whose rows changed between two generations of an incarnation's node table.

    Returns None if there are more than `most` changed rows, several of which may be of the same slot.
    """
    rows = NODE_ROWS.c
    between = (rows.incarnation_id == incarnation_id, rows.since > min(one, other), rows.since <= max(one, other))
    slots = connection.scalars(sa.select(rows.slot).where(*between).limit(most + 1)).all()
    return set(slots) if len(slots) <= most else None


def find_slot(connection: sa.Connection, incarnation_id: int, generation: int, node_id: int) -> int | None:
    """Return the node slot of a node at a generation of an incarnation's node table, or None if it was in no slot."""
    rows = NODE_ROWS.alias()
    mine = (
        sa.select(rows.c.slot)
        .where(rows.c.incarnation_id == incarnation_id, rows.c.node_id == node_id, rows.c.since <= generation)
        .order_by(rows.c.since.desc())
        .limit(1)
    )
    slot: int | None = connection.scalar(mine)
    if slot is None:
        return None
    held = sa.select(rows.c.node_id).where(
        rows.c.incarnation_id == incarnation_id, rows.c.slot == slot, rows.c.since <= generation
    )
    return slot if connection.scalar(held.order_by(rows.c.since.desc()).limit(1)) == node_id else None


def _rows_at(incarnation_id: int, generation: int, slots: int, only: Sequence[int] = ()) -> sa.Select[Any]:
    """Return a query for the node-table row of each slot that was valid at `generation`, with two index seeks per slot.

    This is the row with the greatest `since` up to `generation`. If `only` is not empty, only these slots are selected.
    """
    rows = NODE_ROWS
    numbers, latest = _latest(incarnation_id, generation, slots, only)
    return (
        sa.select(rows)
        .select_from(numbers)
        .join(rows, sa.and_(rows.c.incarnation_id == incarnation_id, rows.c.slot == numbers.c.slot))
        .where(rows.c.since == latest)
    )


def _latest(
    incarnation_id: int, generation: int, slots: int, only: Sequence[int]
) -> tuple[sa.CTE, sa.ScalarSelect[Any]]:
    """Return a CTE of node slots, and a subquery for the greatest `since` up to `generation` of a slot's rows.

    The CTE has all slots below `slots`, or only those in `only` if it is not empty.
    """
    numbers = sa.select(sa.literal(0).label("slot")).cte("every", recursive=True)
    numbers = numbers.union_all(sa.select(numbers.c.slot + 1).where(numbers.c.slot < slots - 1))
    if only:
        numbers = sa.select(numbers.c.slot).where(numbers.c.slot.in_(only)).cte("numbers")
    return numbers, latest_since(incarnation_id, numbers.c.slot, generation)


def latest_since(incarnation_id: int, slot: Any, generation: int) -> sa.ScalarSelect[Any]:
    """Return a subquery for the greatest `since` up to `generation` of the rows of a node slot.

    `slot` is a column of the outer statement.
    """
    rows = NODE_ROWS.alias().c
    latest = sa.select(sa.func.max(rows.since)).where(
        rows.incarnation_id == incarnation_id, rows.slot == slot, rows.since <= generation
    )
    return latest.correlate(slot.table).scalar_subquery()


def _build_new_rows(incarnation_id: int, rows: NodeRows, node_ids: list[int], row_since: Ints) -> list[Row]:
    """Return the rows that a frame of node-table rows adds to the table `node_rows`.

    `node_ids` has the node id for each row of the frame, and `row_since` the generation of each slot's latest row. Rows
    that are already a slot's latest are skipped, so that a table that is sent again costs little.
    """
    fresh: list[Row] = [
        {
            "incarnation_id": incarnation_id,
            "slot": slot,
            "since": rows.since[i],
            "node_id": node_ids[i] or None,
            "amounts": pack_amounts(
                {r: (a[i], q[i]) for r, a, q in zip(rows.resources, rows.allocatable, rows.requested, strict=True)}
            ),
        }
        for i, slot in enumerate(rows.slot)
        if rows.since[i] != row_since[slot] or rows.since[i] < 0
    ]
    for row in fresh:
        row["checksum"] = integrity.NODE_ROW.checksum(row)
    return fresh


def _update_slot_map(slot_map: SlotMap, rows: NodeRows, node_ids: list[int]) -> None:
    for slot, since, node_id in zip(rows.slot, rows.since, node_ids, strict=True):
        if since <= slot_map.row_since[slot]:
            continue  # this row was sent before
        # The first known row of a slot counts too, even of a free slot: before it the slot's node is unknown.
        changed = slot_map.row_since[slot] < 0 or slot_map.node_ids[slot] != node_id
        slot_map.row_since[slot] = since
        if changed:
            slot_map.put(slot, node_id, since)


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
    used = sa.select(NODE_ROWS.c.node_id).select_from(INCARNATIONS).join(NODE_ROWS, on_ids).distinct()
    return {node_id for node_id in connection.scalars(used) if node_id}
