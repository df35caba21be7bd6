"""Node tables kept in memory: a question about a pod needs the whole table that its decision saw.

Owns: which tables are kept, and building one from a kept one. Does not own: the rows' statements (`noderows`).

Invariant: a kept table is never changed: who asks gets lists of its own. Tables of one incarnation share the amounts
of rows that they have in common. That a table may be kept at all follows from `noderows`: at a generation whose rows
are stored it never changes, and ids of incarnations are not used again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace
from typing import Final, NamedTuple

import sqlalchemy as sa

from herodotus_endpoint.store.noderows import changed_between, fill, table_at
from herodotus_record.model import NodeTable

KEPT_SLOTS: Final = 80_000  # of all kept tables: 16 of 5,000 nodes; at most 1 kB a slot, so 80 MB when none share rows
MOST_CHANGED: Final = 300  # rows between two tables that are looked at; beyond, a whole table is as fast


class _At(NamedTuple):
    """What a table is kept by."""

    incarnation_id: int
    generation: int
    slots: int


class Tables:
    """The node tables asked for last. Every thread may ask."""

    def __init__(self, kept_slots: int = KEPT_SLOTS) -> None:
        self._kept_slots = kept_slots
        self._kept: OrderedDict[_At, NodeTable] = OrderedDict()  # the one asked for last at the end
        self._slots = 0
        self._lock = threading.Lock()  # never held while the database is asked

    def at(self, connection: sa.Connection, incarnation_id: int, generation: int, slots: int) -> NodeTable:
        """The table as `noderows.table_at` reads it; its lists may be changed, their amounts may not."""
        at = _At(incarnation_id, generation, slots)
        with self._lock:
            found = self._kept.get(at)
            nearest = None if found else self._nearest(at)
            if found:
                self._kept.move_to_end(at)
        if not found:
            found = _from(nearest, connection, at) if nearest else None
            found = found or table_at(connection, incarnation_id, generation, slots)
            self._keep(at, found)
        return _copy(found)

    def _nearest(self, at: _At) -> NodeTable | None:
        """The kept table of the incarnation with the fewest generations between."""
        kin = [(abs(k.generation - at.generation), k) for k in self._kept if k.incarnation_id == at.incarnation_id]
        return self._kept[min(kin)[1]] if kin else None

    def _keep(self, at: _At, table: NodeTable) -> None:
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


def _from(base: NodeTable, connection: sa.Connection, at: _At) -> NodeTable | None:
    """The table out of another one of its incarnation, older or newer; None when too much may differ."""
    changed = changed_between(connection, at.incarnation_id, base.generation, at.generation, MOST_CHANGED)
    changed |= set(range(len(base.names), at.slots))
    if len(changed) > MOST_CHANGED:
        return None
    table = _copy(base)
    table.generation = at.generation
    _resize(table, at.slots)
    changed = {slot for slot in changed if slot < at.slots}
    for slot in changed:
        table.names[slot], table.uids[slot], table.since[slot] = "", "", -1
        table.allocatable[slot], table.requested[slot] = {}, {}
    if changed:
        fill(connection, at.incarnation_id, table, sorted(changed))
    return table


def _resize(table: NodeTable, slots: int) -> None:
    """Cut the slots off that are too many, or add free ones."""
    more = max(0, slots - len(table.names))
    table.names = table.names[:slots] + [""] * more
    table.uids = table.uids[:slots] + [""] * more
    table.since = table.since[:slots] + [-1] * more
    table.allocatable = table.allocatable[:slots] + [{} for _ in range(more)]
    table.requested = table.requested[:slots] + [{} for _ in range(more)]


def _copy(table: NodeTable) -> NodeTable:
    return replace(
        table,
        names=table.names.copy(),
        uids=table.uids.copy(),
        since=table.since.copy(),
        allocatable=table.allocatable.copy(),
        requested=table.requested.copy(),
    )
