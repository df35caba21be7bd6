"""Convert rows of placed decisions into placements with their deciding factor.

Owns: the conversion of a row and its decision into a `Placement`. Does not own: sums and documents
(`herodotus_record.placements`), routes, and which rows are read.
"""

from __future__ import annotations

from typing import Any, Final

from herodotus_endpoint.store import StoredAttempt
from herodotus_endpoint.store.counters import workload_name
from herodotus_record.placements import Placement, find_deciding_factor

PLACED_STATES: Final = ("Bound", "Binding", "DryRun")


def build_placement(row: Any, stored: StoredAttempt | None) -> Placement:
    """Return the placement that a row of the table of decisions describes.

    `stored` is the row's whole decision, or None if it was not read; then the deciding factor is unknown.
    """
    placed = row.state in PLACED_STATES
    return Placement(
        namespace=row.namespace,
        pod=row.pod,
        workload=workload_name(stored.decision) if stored else f"{row.namespace}/{row.owner or row.pod}",
        node=row.node if placed else None,
        started_us=row.started_us,
        state=row.state,
        message=row.message,
        decided_by=find_deciding_factor(stored.decision) if stored and placed else None,
    )
