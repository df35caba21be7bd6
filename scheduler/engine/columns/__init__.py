"""Node state as arrays with one entry for each node slot.

Owns: `NodeColumns`, its `Snapshot`, and subsets of its rows. Does not own: which pods are assumed or confirmed
(`scheduler.backend.cache`), how a plugin uses a column.
"""

from scheduler.engine.columns.keyed import match_node_requirement
from scheduler.engine.columns.node_objects import InvalidAmountError, MissingInputError, NodeObjectColumns
from scheduler.engine.columns.nodes import (
    NodeColumns,
    Snapshot,
    StaleSnapshotError,
    UndeclaredAnnotationError,
    columns_differ,
)
from scheduler.engine.columns.row_subset import RowCopy, RowSubset

__all__ = [
    "InvalidAmountError",
    "MissingInputError",
    "NodeColumns",
    "NodeObjectColumns",
    "RowCopy",
    "RowSubset",
    "Snapshot",
    "StaleSnapshotError",
    "UndeclaredAnnotationError",
    "columns_differ",
    "match_node_requirement",
]
