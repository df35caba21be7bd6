"""An LRU cache of node tables: an answer about a pod needs the complete node table that its decision saw.

Owns: which tables are cached, reading a table, deriving a table from a cached one. Does not own: statements
(`node_rows`), the representation of a table (`packed_node_table`).

Invariant: a cached table never changes: callers get copies. Tables of one incarnation share the amounts of equal rows.
Caching is correct because the table at a generation never changes once its rows are stored (`node_rows`), and because
ids of incarnations are not reused.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

import sqlalchemy as sa

from herodotus_endpoint.store.node_rows import NodeNames, find_changed_slots, load_rows
from herodotus_endpoint.store.packed_node_table import NO_AMOUNTS, PackedTable
from herodotus_record.lru import Lru

MAX_SLOTS: Final = (
    80_000  # of all cached tables: 16 of 5,000 nodes; about 100 bytes a slot, so 8 MB if no rows are shared
)
MAX_CHANGED_SLOTS: Final = 300  # changed rows between two tables; with more, reading the complete table is as fast


class _TableKey(NamedTuple):
    """The key of a cached node table: incarnation, generation (version of the table), and number of node slots."""

    incarnation_id: int
    generation: int
    slots: int


class NodeTableCache:
    """An LRU cache of node tables, the names and resource amounts of all nodes. Safe for concurrent use."""

    def __init__(self, max_slots: int = MAX_SLOTS) -> None:
        self._max_slots = max_slots
        self._tables: Lru[_TableKey, PackedTable] = Lru(max_slots, lambda table: len(table.names))
        self._lock = threading.Lock()  # never held during a query
        self._names = NodeNames()

    def get(self, connection: sa.Connection, incarnation_id: int, generation: int, slots: int) -> PackedTable:
        """Return a copy of an incarnation's node table at a generation, with `slots` node slots.

        A slot without a node has an empty name.
        """
        key = _TableKey(incarnation_id, generation, slots)
        with self._lock:
            table = self._tables.get(key)
            nearest = None if table else self._nearest(key)
        if not table:
            table = self._derive(nearest, connection, key) if nearest else None
            table = table or self.read(connection, key)
            self._add(key, table)
        return table.copied(generation, slots)

    def read(self, connection: sa.Connection, key: tuple[int, int, int]) -> PackedTable:
        """Read a node table from the database, without the cache.

        `key` is the incarnation id, the generation of the table and the number of node slots.
        """
        _, generation, slots = key
        table = PackedTable.empty(generation, slots)
        self._fill(connection, key, table)
        return table

    def _nearest(self, key: _TableKey) -> PackedTable | None:
        """Return the cached table of the same incarnation with the closest generation, or None if none is cached."""
        candidates = [
            (abs(k.generation - key.generation), k) for k in self._tables if k.incarnation_id == key.incarnation_id
        ]
        return self._tables.peek(min(candidates)[1]) if candidates else None

    def _add(self, key: _TableKey, table: PackedTable) -> None:
        if key.slots > self._max_slots:
            return
        with self._lock:
            self._tables.put(key, table)

    def _derive(self, base: PackedTable, connection: sa.Connection, key: _TableKey) -> PackedTable | None:
        """Return the node table for `key`: a copy of `base`, another table of the incarnation, with changed rows.

        Returns None if more than MAX_CHANGED_SLOTS rows changed.
        """
        changed_slots = find_changed_slots(
            connection, key.incarnation_id, base.generation, key.generation, MAX_CHANGED_SLOTS
        )
        added = range(len(base.names), key.slots)
        if changed_slots is None or len(changed_slots) + len(added) > MAX_CHANGED_SLOTS:
            return None
        table = base.copied(key.generation, key.slots)
        changed = {slot for slot in (*changed_slots, *added) if slot < key.slots}
        table.put_all((slot, -1, "", "", NO_AMOUNTS) for slot in changed)
        if changed:
            self._fill(connection, key, table, sorted(changed))
        return table

    def _fill(
        self, connection: sa.Connection, key: tuple[int, int, int], table: PackedTable, only: Sequence[int] = ()
    ) -> None:
        """Read the rows of all node slots, or of those in `only` if it is not empty, into `table`.

        A slot without a stored row is not changed.
        """
        incarnation_id, generation, slots = key
        rows = load_rows(connection, incarnation_id, generation, slots, only)
        names = self._names.load(connection, {row.node_id for row in rows if row.node_id})
        table.put_all(
            (row.slot, row.since, *names.get(row.node_id or 0, ("", "")), row.amounts if row.node_id else NO_AMOUNTS)
            for row in rows
        )
