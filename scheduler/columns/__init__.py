"""Node state as arrays: one entry a slot, one row a resource, dictionaries for what repeats.

Owns: `NodeColumns` and its generation-stamped `Snapshot`. Does not own: which pods are assumed or confirmed
(`scheduler.cache`), nor what any plugin makes of a column.
"""

from scheduler.columns.nodes import NodeColumns, Snapshot, StaleSnapshotError

__all__ = ["NodeColumns", "Snapshot", "StaleSnapshotError"]
