"""Node tables kept in memory: a question about a pod needs the whole table that its decision saw.

Owns: which tables are kept, reading one, building one from a kept one. Does not own: the rows' statements (`noderows`),
how a table holds its rows (`packed`).

Invariant: a kept table is never changed: who asks gets lists of its own. Tables of one incarnation share the amounts
of rows that they have in common. That a table may be kept at all follows from `noderows`: at a generation whose rows
are stored it never changes, and ids of incarnations are not used again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

import sqlalchemy as sa

from herodotus_endpoint.store.node_rows import NodeNames, find_changed_slots, load_rows
from herodotus_endpoint.store.packed_node_table import NO_AMOUNTS, PackedTable

MAX_SLOTS: Final = 80_000  # of all kept tables: 16 of 5,000 nodes; some 100 bytes a slot, so 8 MB when none share rows
MAX_CHANGED_SLOTS: Final = 300  # rows between two tables that are looked at; beyond, a whole table is as fast


class _TableKey(NamedTuple):
    """What a table is kept by."""

    incarnation_id: int
    generation: int
    slots: int


class NodeTableCache:
    """The node tables asked for last. Every thread may ask."""

    def __init__(self, kept_slots: int = MAX_SLOTS) -> None:
        self._kept_slots = kept_slots
        self._kept: OrderedDict[_TableKey, PackedTable] = OrderedDict()  # the one asked for last at the end
        self._slots = 0
        self._lock = threading.Lock()  # never held while the database is asked
        self._names = NodeNames()

    def at(self, connection: sa.Connection, incarnation_id: int, generation: int, slots: int) -> PackedTable:
        """The table as a decision of that generation saw it; a slot without a node has no name."""
        at = _TableKey(incarnation_id, generation, slots)
        with self._lock:
            found = self._kept.get(at)
            nearest = None if found else self._nearest(at)
            if found:
                self._kept.move_to_end(at)
        if not found:
            found = self._from(nearest, connection, at) if nearest else None
            found = found or self.read(connection, at)
            self._keep(at, found)
        return found.copied(generation, slots)

    def read(self, connection: sa.Connection, at: tuple[int, int, int]) -> PackedTable:
        """The table of an incarnation at a generation with so many slots, from the database alone."""
        _, generation, slots = at
        table = PackedTable.empty(generation, slots)
        self._fill(connection, at, table)
        return table

    def _nearest(self, at: _TableKey) -> PackedTable | None:
        """The kept table of the incarnation with the fewest generations between."""
        kin = [(abs(k.generation - at.generation), k) for k in self._kept if k.incarnation_id == at.incarnation_id]
        return self._kept[min(kin)[1]] if kin else None

    def _keep(self, at: _TableKey, table: PackedTable) -> None:
        if at.slots > self._kept_slots:
            return
        with self._lock:
            if at in self._kept:  # another thread was faster
                return
            self._kept[at] = table
            self._slots += at.slots
            while self._slots > self._kept_slots:
                oldest, _ = self._kept.popitem(last=False)
                self._slots -= oldest.slots

    def _from(self, base: PackedTable, connection: sa.Connection, at: _TableKey) -> PackedTable | None:
        """The table out of another one of its incarnation, older or newer; None when too much may differ."""
        changed = find_changed_slots(connection, at.incarnation_id, base.generation, at.generation, MAX_CHANGED_SLOTS)
        changed |= set(range(len(base.names), at.slots))
        if len(changed) > MAX_CHANGED_SLOTS:
            return None
        table = base.copied(at.generation, at.slots)
        changed = {slot for slot in changed if slot < at.slots}
        table.put_all((slot, -1, "", "", NO_AMOUNTS) for slot in changed)
        if changed:
            self._fill(connection, at, table, sorted(changed))
        return table

    def _fill(
        self, connection: sa.Connection, at: tuple[int, int, int], table: PackedTable, only: Sequence[int] = ()
    ) -> None:
        """Read rows into a table, of `only` some slots or of all; a slot whose row is not there is left as it is."""
        incarnation_id, generation, slots = at
        rows = load_rows(connection, incarnation_id, generation, slots, only)
        names = self._names.of(connection, {row.node_id for row in rows if row.node_id})
        nobody = ("", "")
        table.put_all(
            (row.slot, row.since, *names.get(row.node_id or 0, nobody), row.amounts if row.node_id else NO_AMOUNTS)
            for row in rows
        )
