"""The node tables of incarnations: rows in, the rows of a generation out.

Owns: the rows' statements, the store's own node ids, the check that no rows are missing. Does not own: which frames
come (`writer`), what a table is made of its rows (`tables`).

Invariant: rows are only added, so the table at a generation never changes once its rows are stored; a node id stands
for one (cluster, name, UID) for ever, whatever slots it passes through.
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

MAX_NAMES_IN_QUERY: Final = 500  # nodes asked for by name; beyond, the whole cluster is as fast
MAX_CACHED_NAMES: Final = 100_000  # nodes whose names are kept: 20 MB
Row = dict[str, Any]


class NodeRowsMissingError(Exception):
    """Node rows before these were never stored: the sender must start again from a complete table."""


@dataclass
class SlotMap:
    """Which node is in which slot, as of the latest rows of an incarnation. `node_ids` holds 0 for a free slot."""

    generation: int
    since: int  # the newest change of a slot's node: from here on `node_ids` holds
    node_ids: Ints
    row_since: Ints
    _assigned: Ints | None = None  # what `nodes_of` gave last, if no slot's node has changed since

    def nodes_of(self, slots: int) -> Ints:
        """The node in each of so many slots, not to be changed: the same array as long as none of them changes."""
        if self._assigned is None or len(self._assigned) != slots:
            self._assigned = np.zeros(slots, np.int64)
            self._assigned[: len(self.node_ids)] = self.node_ids[:slots]
        return self._assigned

    def put(self, slot: int, node_id: int, since: int) -> None:
        """A slot's node, since a generation."""
        self.node_ids[slot] = node_id
        self.since = max(self.since, since)
        self._assigned = None

    def grow(self, slots: int) -> None:
        """Make room for slots up to `slots`."""
        more = slots - len(self.node_ids)
        if more <= 0:
            return
        self.node_ids = np.pad(self.node_ids, (0, more))
        self.row_since = np.pad(self.row_since, (0, more), constant_values=-1)


class NodeRegistry:
    """Node ids of a cluster's nodes, given out on first sight. Forget it when a transaction is rolled back."""

    def __init__(self) -> None:
        self._ids: dict[str, dict[tuple[str, str], int]] = {}
        self._names: dict[int, str] = {}

    def name(self, connection: sa.Connection, node_id: int) -> str | None:
        """The name behind an id; None for 0, the id of no node."""
        if node_id and node_id not in self._names:
            self._names[node_id] = connection.scalar(sa.select(NODES.c.name).where(NODES.c.id == node_id)) or ""
        return self._names.get(node_id)

    def ids(self, connection: sa.Connection, cluster: str, nodes: list[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """The ids of (name, UID) pairs; new ones are registered."""
        known = self._ids.setdefault(cluster, {})
        if any(node not in known for node in nodes):  # another process may have registered them
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
        """Read the ids of nodes that are not known; of a whole cluster's in one statement."""
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
    """Bring `slot_map` up to a NodeRows frame: whether it was new, and the rows to `store_rows`.

    NodeRowsMissingError when rows before these are not there.
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
    fresh = _build_new_rows(incarnation_id, rows, node_ids, slot_map.row_since)
    _update_slot_map(slot_map, rows, node_ids)
    new = rows.generation > slot_map.generation
    slot_map.generation = max(slot_map.generation, rows.generation)
    return new, fresh


def insert_rows(connection: sa.Connection, rows: list[Row]) -> None:
    """Store rows of node tables; those that are there already stay as they are."""
    if rows:
        insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
        connection.execute(insert(NODE_ROWS).on_conflict_do_nothing(), rows)


def load_slot_map(connection: sa.Connection, incarnation_id: int, generation: int) -> SlotMap:
    """Which node was in which slot at a generation, from the stored rows."""
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
    """A node table as rows: of `only` some slots, or of all. Some may have none. DamagedError if one is damaged."""
    found = connection.execute(_rows_at(incarnation_id, generation, slots, only)).all() if slots else ()
    integrity.require_intact(integrity.NODE_ROW, found)
    return found


class NodeNames:
    """Name and UID behind node ids, for any number of threads. They never change, so what was read is kept."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, str]] = {}

    def of(self, connection: sa.Connection, node_ids: Collection[int]) -> Mapping[int, tuple[str, str]]:
        """Those of the ids, and others."""
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
    """The slots with a row from between two generations; at most one more than `most` rows are looked at."""
    rows = NODE_ROWS.c
    between = (rows.incarnation_id == incarnation_id, rows.since > min(one, other), rows.since <= max(one, other))
    return set(connection.scalars(sa.select(rows.slot).where(*between).limit(most + 1)))


def find_slot(connection: sa.Connection, incarnation_id: int, generation: int, node_id: int) -> int | None:
    """The slot that a node was in at a generation; None when it was in none."""
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
    """Each slot's row with the greatest `since` up to `generation`: two seeks a slot, however long the history is."""
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
    """The numbers of the slots (all, or `only` some), and of each the greatest `since` up to `generation`."""
    numbers = sa.select(sa.literal(0).label("slot")).cte("every", recursive=True)
    numbers = numbers.union_all(sa.select(numbers.c.slot + 1).where(numbers.c.slot < slots - 1))
    if only:
        numbers = sa.select(numbers.c.slot).where(numbers.c.slot.in_(only)).cte("numbers")
    return numbers, latest_since(incarnation_id, numbers.c.slot, generation)


def latest_since(incarnation_id: int, slot: Any, generation: int) -> sa.ScalarSelect[Any]:
    """The greatest `since` up to a generation of the rows of a slot, a column of the statement around it."""
    rows = NODE_ROWS.alias().c
    latest = sa.select(sa.func.max(rows.since)).where(
        rows.incarnation_id == incarnation_id, rows.slot == slot, rows.since <= generation
    )
    return latest.correlate(slot.table).scalar_subquery()


def _build_new_rows(incarnation_id: int, rows: NodeRows, node_ids: list[int], row_since: Ints) -> list[Row]:
    """Rows that are a slot's latest are known to be stored: a table that is sent again costs little."""
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
            continue  # a row that was sent again
        slot_map.row_since[slot] = since
        if slot_map.node_ids[slot] != node_id:
            slot_map.put(slot, node_id, since)
