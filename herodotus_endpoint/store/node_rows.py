"""Storing and reading the node tables of incarnations, row by row.

Owns: statements on node rows, the store's node ids, the check that no rows are missing. Does not own: which frames are
stored (`writer`), building a table from rows (`node_table_cache`).

Invariant: rows are only added, so the table at a generation never changes once its rows are stored. A node id denotes
one (cluster, name, UID) permanently, in any slot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from herodotus_endpoint.store import integrity
from herodotus_endpoint.store.counters import Ints
from herodotus_endpoint.store.packed_node_table import pack_amounts
from herodotus_endpoint.store.schema import NODE_ROWS, NODES
from herodotus_record.model import NodeRows

MAX_NAMES_IN_QUERY: Final = 500  # nodes in one query; with more, reading all nodes is as fast
MAX_CACHED_NAMES: Final = 100_000  # cached names: 20 MB
Row = dict[str, Any]


class NodeRowsMissingError(Exception):
    """Node rows whose predecessors were never stored: the sender must send a complete node table."""


@dataclass
class SlotMap:
    """The node in each slot at one generation of an incarnation. `node_ids` has 0 for a free slot."""

    generation: int
    since: int  # first generation for which `node_ids` is valid
    node_ids: Ints
    row_since: Ints
    _assigned: Ints | None = None  # last result of `nodes_of`, until a slot's node changes

    def nodes_of(self, slots: int) -> Ints:
        """Return the node ids of the first `slots` slots. The array is shared and must not be changed.

        Returns the same object until the node of a slot changes: callers group decisions by its identity.
        """
        if self._assigned is None or len(self._assigned) != slots:
            self._assigned = np.zeros(slots, np.int64)
            self._assigned[: len(self.node_ids)] = self.node_ids[:slots]
        return self._assigned

    def put(self, slot: int, node_id: int, since: int) -> None:
        """Assign a node id to a slot since a generation."""
        self.node_ids[slot] = node_id
        self.since = max(self.since, since)
        self._assigned = None

    def grow(self, slots: int) -> None:
        """Extend the map to at least `slots` slots."""
        more = slots - len(self.node_ids)
        if more <= 0:
            return
        self.node_ids = np.pad(self.node_ids, (0, more))
        self.row_since = np.pad(self.row_since, (0, more), constant_values=-1)


class NodeRegistry:
    """Cache of node ids, which are assigned when a node is first stored. Discard it after a rollback."""

    def __init__(self) -> None:
        self._ids: dict[str, dict[tuple[str, str], int]] = {}
        self._names: dict[int, str] = {}

    def name(self, connection: sa.Connection, node_id: int) -> str | None:
        """Return the name of a node id, or None for 0, which denotes no node."""
        if node_id and node_id not in self._names:
            self._names[node_id] = connection.scalar(sa.select(NODES.c.name).where(NODES.c.id == node_id)) or ""
        return self._names.get(node_id)

    def ids(self, connection: sa.Connection, cluster: str, nodes: list[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Return the cluster's ids by (name, UID), which include `nodes`; new nodes are stored."""
        known = self._ids.setdefault(cluster, {})
        if any(node not in known for node in nodes):  # another process may have stored them
            self._load(connection, cluster, known, nodes)
            fresh = [node for node in dict.fromkeys(nodes) if node not in known]
            if fresh:
                rows: list[Row] = [{"cluster": cluster, "name": n, "uid": uid, "considered": False} for n, uid in fresh]
                for row in rows:
                    row["checksum"] = integrity.NODE.checksum(row)
                connection.execute(NODES.insert(), rows)
                self._load(connection, cluster, known, fresh)
        return known

    def _load(
        self,
        connection: sa.Connection,
        cluster: str,
        known: dict[tuple[str, str], int],
        nodes: Sequence[tuple[str, str]],
    ) -> None:
        """Add the ids of `nodes` to `known`; many nodes are read with all others of the cluster."""
        statement = sa.select(NODES.c.id, NODES.c.name, NODES.c.uid).where(NODES.c.cluster == cluster)
        missing = {name for name, uid in nodes if (name, uid) not in known}
        if len(missing) <= MAX_NAMES_IN_QUERY:
            statement = statement.where(NODES.c.name.in_(missing))
        for row in connection.execute(statement):
            known[row.name, row.uid] = row.id
            self._names[row.id] = row.name


def apply_rows(
    connection: sa.Connection, registry: NodeRegistry, incarnation_id: int, slot_map: SlotMap, rows: NodeRows
) -> tuple[bool, list[Row]]:
    """Update `slot_map` with a NodeRows frame; return whether the frame was new, and its rows for `insert_rows`.

    Raises NodeRowsMissingError if earlier rows are not stored.
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


def insert_rows(connection: sa.Connection, rows: list[Row]) -> None:
    """Insert rows of node tables and ignore rows that are already stored."""
    if rows:
        insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
        connection.execute(insert(NODE_ROWS).on_conflict_do_nothing(), rows)


def load_slot_map(connection: sa.Connection, incarnation_id: int, generation: int) -> SlotMap:
    """Read which node was in which slot of an incarnation at a generation."""
    slots = connection.scalar(
        sa.select(sa.func.max(NODE_ROWS.c.slot)).where(NODE_ROWS.c.incarnation_id == incarnation_id)
    )
    found = SlotMap(generation, -1, np.zeros(0, np.int64), np.zeros(0, np.int64))
    if slots is None:
        return found
    found.grow(slots + 1)
    for row in connection.execute(_rows_at(incarnation_id, generation, slots + 1)):
        found.node_ids[row.slot] = row.node_id or 0
        found.row_since[row.slot] = row.since
    found.since = int(found.row_since.max())
    return found


def load_rows(
    connection: sa.Connection, incarnation_id: int, generation: int, slots: int, only: Sequence[int] = ()
) -> Sequence[Any]:
    """Return the latest row of each slot at a generation, of all slots or of those in `only`.

    A slot may have no row. Raises DamagedError if a row is damaged.
    """
    found = connection.execute(_rows_at(incarnation_id, generation, slots, only)).all() if slots else ()
    integrity.require_intact(integrity.NODE_ROW, found)
    return found


class NodeNames:
    """Cache of the name and UID of node ids, which never change. Safe for concurrent use."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, str]] = {}

    def load(self, connection: sa.Connection, node_ids: Collection[int]) -> Mapping[int, tuple[str, str]]:
        """Return a mapping that contains (name, UID) of each of the ids, and possibly of others."""
        missing = [node_id for node_id in node_ids if node_id not in self._known]
        if missing:
            if len(self._known) + len(missing) > MAX_CACHED_NAMES:
                self._known = {}
                missing = list(node_ids)
            found = sa.select(NODES)
            found = found.where(
                NODES.c.id.in_(missing) if len(missing) <= MAX_NAMES_IN_QUERY else NODES.c.id >= min(missing)
            )
            rows = connection.execute(found.where(NODES.c.id <= max(missing))).all()
            integrity.require_intact(integrity.NODE, rows)
            known = {row.id: (row.name, row.uid) for row in rows}
            self._known = self._known | known
        return self._known


def find_changed_slots(connection: sa.Connection, incarnation_id: int, one: int, other: int, most: int) -> set[int]:
    """Return the slots whose rows differ between two generations, from at most `most` + 1 changed rows."""
    rows = NODE_ROWS.c
    between = (rows.incarnation_id == incarnation_id, rows.since > min(one, other), rows.since <= max(one, other))
    return set(connection.scalars(sa.select(rows.slot).where(*between).limit(most + 1)))


def find_slot(connection: sa.Connection, incarnation_id: int, generation: int, node_id: int) -> int | None:
    """Return the slot of a node at a generation, or None if the node was in no slot."""
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
    """Select each slot's row with the greatest `since` up to `generation`, with two index seeks per slot."""
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
    """Return a CTE of slot numbers (all, or those in `only`) and a subquery of each slot's latest `since`."""
    numbers = sa.select(sa.literal(0).label("slot")).cte("every", recursive=True)
    numbers = numbers.union_all(sa.select(numbers.c.slot + 1).where(numbers.c.slot < slots - 1))
    if only:
        numbers = sa.select(numbers.c.slot).where(numbers.c.slot.in_(only)).cte("numbers")
    return numbers, latest_since(incarnation_id, numbers.c.slot, generation)


def latest_since(incarnation_id: int, slot: Any, generation: int) -> sa.ScalarSelect[Any]:
    """Return a subquery of the greatest `since` up to a generation; `slot` is a column of the outer statement."""
    rows = NODE_ROWS.alias().c
    latest = sa.select(sa.func.max(rows.since)).where(
        rows.incarnation_id == incarnation_id, rows.slot == slot, rows.since <= generation
    )
    return latest.correlate(slot.table).scalar_subquery()


def _build_new_rows(incarnation_id: int, rows: NodeRows, node_ids: list[int], row_since: Ints) -> list[Row]:
    """Return the rows to store of a frame.

    Rows that are already a slot's latest are skipped, so that a table that is sent again costs little.
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
