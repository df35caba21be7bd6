"""Rows of placed decisions as placements with what decided them, and which workloads a node keeps getting.

Owns: how a row and its decision become a `Placement`, how many are read. Does not own: sums and documents
(`herodotus_record.placements`), routes.
"""

from __future__ import annotations

from typing import Any, Final

from herodotus_endpoint.questions import Questions
from herodotus_endpoint.store import Stored
from herodotus_endpoint.store.counters import workload
from herodotus_endpoint.store.listing import COUNTED, Condition
from herodotus_record.placements import Placement, kept_getting, why

PLACED: Final = ("Bound", "Binding", "DryRun")
READ: Final = 50  # a node's newest placements whose reasons are told: at 5,000 nodes up to a second
MOST_NODES: Final = 20_000  # kubemark went to 30,000; supported are 5,000
_CHOSEN: Final = COUNTED.index("chosen")

Json = dict[str, Any]


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


def kept_by(questions: Questions, node: str, since_us: int) -> Json:
    """The workloads that a node got, and why, of its newest READ placements since a time."""
    conditions = [Condition("node", (node,)), Condition("state", PLACED)]
    rows = [row for row in questions.listing.decisions(conditions, None, READ) if row.started_us >= since_us]
    placements = [placement(row, questions.decision_by_id(row.namespace, row.decision_id)) for row in rows]
    return {"keepsGetting": kept_getting(placements), "keepsGettingOf": len(placements)}


def share(questions: Questions, from_bucket: int) -> Json:
    """All placements since a bucket, and over how many nodes: what the node would have if all were alike."""
    counts = questions.listing.nodes("", MOST_NODES, from_bucket)
    return {"placements": sum(node.counts[_CHOSEN] for node in counts), "nodes": sum(any(n.counts) for n in counts)}
