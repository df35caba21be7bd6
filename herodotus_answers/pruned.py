"""Describe what is left of a decision whose full record was pruned.

Owns: the sentence about what is kept, and finding a node in a decision that may hold only a few. Does not own: what a
summary keeps (`herodotus_endpoint.store.summaries`), its counts (`explain`). Pure.

Invariant: a node whose entries were pruned is never reported as absent from the cluster.
"""

from __future__ import annotations

from typing import Annotated, TypedDict

from herodotus_record.model import Decision, Evaluation, NodeTable
from herodotus_record.units import format_timestamp

NOT_KEPT = "no longer kept"  # in place of what a pruned record held


class Pruned(TypedDict):
    """When the full record was pruned, and what is left of it."""

    at: Annotated[str, "Time at which retention reduced the record to a summary."]
    keptNodes: Annotated[int, "Number of nodes whose entries are kept."]
    text: Annotated[str, "Both as a sentence."]


class PrunedError(LookupError):
    """The record of a decision was pruned and no longer holds what was decided about this node.

    The message says what is kept.
    """


def describe_kept(decision: Decision) -> str:
    """Return a text that says when a decision's record was pruned and what is left, or "" if the record is complete."""
    if decision.summary is None:
        return ""
    day = format_timestamp(decision.summary.pruned_us)[:10]
    return (
        f"the full record was pruned on {day}; kept: {decision.slots} of {decision.nodes_total} nodes"
        " (the best, and the nearest of those rejected), and how many nodes got each verdict"
    )


def build_pruned(decision: Decision) -> Pruned | None:
    """Return when a decision's record was pruned and what is left, as JSON, or None if the record is complete."""
    if decision.summary is None:
        return None
    return {
        "at": format_timestamp(decision.summary.pruned_us),
        "keptNodes": decision.slots,
        "text": describe_kept(decision),
    }


def find_slot(decision: Decision, table: NodeTable, node: str) -> int:
    """Return the slot (row index) of a node for which the decision has entries.

    Raises KeyError if the node was not in the cluster, PrunedError if the record was pruned and no longer tells.
    """
    slot = table.find_slot(node)
    if slot is not None and slot < decision.slots and decision.evaluation[slot] != Evaluation.ABSENT:
        return slot
    if decision.summary:
        raise PrunedError(f'what was decided about node "{node}" is {NOT_KEPT}: {describe_kept(decision)}')
    raise KeyError(node)
