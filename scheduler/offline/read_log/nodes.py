"""Gives each node that the log names a node slot (the node's row index in the columns of records).

A log has no facts about nodes but their names, so the rows of this node table have no amounts and no UIDs.

Invariant: a slot belongs to one node until the log reports the removal of the node; then it may be reused.
"""

from __future__ import annotations

from array import array

from herodotus_record.model import NodeRows


class LogNodeTable:
    """The nodes that kube-scheduler's log names, each with a slot (its row index in the columns of records).

    It remembers which rows of this node table changed since `changes` was called last.
    """

    def __init__(self) -> None:
        self.names: list[str] = []  # by slot; "" where it is free
        self.generation = 0
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._since: list[int] = []
        self._touched: set[int] = set()
        self._base = -1

    def slot(self, name: str) -> int:
        """Return the node's slot (row index in the columns of records). A new node gets a free one."""
        existing = self._slots.get(name)
        if existing is not None:
            return existing
        if self._free:
            slot = self._free.pop()
        else:
            slot = len(self.names)
            self.names.append("")
            self._since.append(-1)
        self._slots[name] = slot
        self._set(slot, name)
        return slot

    def remove(self, name: str) -> None:
        """Free the slot of a removed node, so that another node may get it."""
        slot = self._slots.pop(name, None)
        if slot is not None:
            self._free.append(slot)
            self._set(slot, "")

    def changes(self, cluster: str, incarnation: str) -> NodeRows | None:
        """Return the rows of the node table that changed since the last call, or None if no row changed.

        The first call returns the whole table.
        """
        if not self._touched and self._base >= 0:
            return None
        rows = self._rows(sorted(self._touched), self._base, cluster, incarnation)
        self._touched.clear()
        self._base = self.generation
        return rows

    def table(self, cluster: str, incarnation: str) -> NodeRows:
        """Return all rows of the node table, which readers need at the start of a spool segment."""
        return self._rows(range(len(self.names)), -1, cluster, incarnation)

    def _set(self, slot: int, name: str) -> None:
        self.generation += 1
        self.names[slot] = name
        self._since[slot] = self.generation
        self._touched.add(slot)

    def _rows(self, slots: list[int] | range, base: int, cluster: str, incarnation: str) -> NodeRows:
        return NodeRows(
            cluster=cluster,
            incarnation=incarnation,
            base=base,
            generation=self.generation,
            resources=(),
            slot=array("i", slots),
            since=array("q", (self._since[slot] for slot in slots)),
            name=tuple(self.names[slot] for slot in slots),
            uid=("",) * len(slots),
            allocatable=(),
            requested=(),
        )
