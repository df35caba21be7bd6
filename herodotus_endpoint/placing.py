"""Rows of placed decisions as placements with what decided them.

Owns: how a row and its decision become a `Placement`. Does not own: sums and documents (`herodotus_record.placements`),
routes, which rows are read.
"""

from __future__ import annotations

from typing import Any, Final

from herodotus_endpoint.store import Stored
from herodotus_endpoint.store.counters import workload
from herodotus_record.placements import Placement, why

PLACED: Final = ("Bound", "Binding", "DryRun")


def placement(row: Any, stored: Stored | None) -> Placement:
    """A row of a list, with its decision where that was read."""
    placed = row.state in PLACED
    return Placement(
        namespace=row.namespace,
        pod=row.pod,
        workload=workload(stored.decision) if stored else f"{row.namespace}/{row.owner or row.pod}",
        node=row.node if placed else None,
        started_us=row.started_us,
        state=row.state,
        message=row.message,
        why=why(stored.decision) if stored and placed else None,
    )
