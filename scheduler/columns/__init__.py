"""Node state as arrays: one entry a slot, one row a resource, dictionaries for what repeats.

Owns: `NodeColumns`, its generation-stamped `Snapshot`, parts of it. Does not own: which pods are assumed or confirmed
(`scheduler.cache`), nor what any plugin makes of a column.
"""

from scheduler.columns.nodes import NodeColumns, Snapshot, StaleSnapshotError
from scheduler.columns.parts import Copy, Rows

__all__ = ["Copy", "NodeColumns", "Rows", "Snapshot", "StaleSnapshotError"]
