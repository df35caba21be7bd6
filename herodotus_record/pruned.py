"""What can still be said of a decision whose full record was pruned, and that the rest cannot.

Owns: the sentence about what is kept, finding a node in a decision that may hold a few of them only. Does not own: what
a summary keeps (`herodotus_endpoint.store.summaries`), its counts (`explain`). Pure.

Invariant: a node that is not kept is never called absent.
"""

from __future__ import annotations

from typing import Any

from herodotus_record.model import Decision, Evaluation, NodeTable
from herodotus_record.units import timestamp

NOT_KEPT = "no longer kept"  # of what a pruned record said


class PrunedError(LookupError):
    """Of this node nothing is kept. The message says what is."""


def kept(decision: Decision) -> str:
    """What is left of a decision and since when; "" where all of it is."""
    if decision.summary is None:
        return ""
    day = timestamp(decision.summary.pruned_us)[:10]
    return (
        f"the full record was pruned on {day}; kept: {decision.slots} of {decision.nodes_total} nodes"
        " (the best, and the nearest of those rejected), and how many nodes got each verdict"
    )


def pruned(decision: Decision) -> dict[str, Any] | None:
    """The same as part of a document; None where all of it is kept."""
    if decision.summary is None:
        return None
    return {"at": timestamp(decision.summary.pruned_us), "keptNodes": decision.slots, "text": kept(decision)}


def slot_of(decision: Decision, table: NodeTable, node: str) -> int:
    """The slot of a node. KeyError where it was not in the cluster, PrunedError where that is not known any more."""
    slot = table.slot_of(node)
    if slot is not None and slot < decision.slots and decision.evaluation[slot] != Evaluation.ABSENT:
        return slot
    if decision.summary:
        raise PrunedError(f'what was decided about node "{node}" is {NOT_KEPT}: {kept(decision)}')
    raise KeyError(node)
