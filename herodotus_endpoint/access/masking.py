"""Removal of everything that a reader may not see from values of the store.

Owns: which namespaces a value of the store names, and the value without what is hidden. Does not own: the walk over
records and answers and what their fields disclose (`herodotus_record.disclosure`), who may see what (`access`),
documents. Pure.

A decision belongs to its pod's namespace. A reader of that namespace sees the decision except for pods of other
namespaces that it names and texts that may name any pod. A node's history names pods and workloads of all namespaces.

Invariant: `mask(value, visible)` names no pod, workload or namespace that `visible` does not include, and is
`value` itself where `visible` includes every namespace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from herodotus_answers.node import CounterName, NodeDecision, NodeHistoryCounts
from herodotus_answers.node_groups import RecordedNodeGroups
from herodotus_answers.placement_review import ReviewedAttempt
from herodotus_answers.workload import PlacementCount
from herodotus_endpoint.store import StoredAttempt
from herodotus_record import reasons
from herodotus_record.disclosure import (
    HIDDEN,
    list_named_namespaces,
    mask_answer,
    mask_decision,
    mask_message,
    mask_outcome,
)
from herodotus_record.model import Decision, Outcome
from herodotus_record.typed_decoding import decode_json

Value = TypeVar("Value", StoredAttempt, NodeDecision, NodeHistoryCounts, ReviewedAttempt)


@dataclass(frozen=True)
class VisibleNamespaces:
    """The namespaces whose decisions a reader may get.

    If `everything` is true, these are all namespaces.
    """

    namespaces: frozenset[str] = frozenset()
    everything: bool = False

    def sees(self, namespace: str) -> bool:
        """Return whether the reader may see a namespace."""
        return self.everything or namespace in self.namespaces


class VisibleRow:
    """A row of the table of decisions as a reader may see it: `message` is masked, other columns are unchanged.

    The other columns concern only the row's own pod, whose namespace the reader may see.
    """

    __slots__ = ("message", "row")

    def __init__(self, row: Any, message: str) -> None:
        self.row = row
        self.message = message

    def __getattr__(self, column: str) -> Any:
        return getattr(self.row, column)


def list_namespaces(value: StoredAttempt | NodeDecision | NodeHistoryCounts | ReviewedAttempt) -> frozenset[str]:
    """Return the namespaces of all pods and workloads that the stored value names."""
    if isinstance(value, NodeHistoryCounts):
        return frozenset(name.partition("/")[0] for name in {*value.workloads, *value.decided} if "/" in name)
    origins = value.origins if isinstance(value, StoredAttempt) else None
    return list_named_namespaces((value.decision, *value.outcomes, origins and origins.reconstructed))


def mask(value: Value, visible: VisibleNamespaces) -> Value:
    """Return a copy of the stored value without the names and texts that the reader may not see.

    If `visible` covers all namespaces, return `value` itself.
    """
    return value if visible.everything else replace(value, **_masked_fields(value, visible))


def mask_row(row: Any, visible: VisibleNamespaces) -> VisibleRow:
    """Return a row of the table of decisions with its message masked, if the message could name other pods.

    The message stays if `visible` covers all namespaces. The caller has checked the right to the row's namespace.
    """
    whole = visible.everything or row.message_names_nobody
    return VisibleRow(row, row.message if whole else mask_message(row.message))


def _masked_fields(
    value: StoredAttempt | NodeDecision | NodeHistoryCounts | ReviewedAttempt, visible: VisibleNamespaces
) -> dict[str, Any]:
    """Return the masked content, by field name, of those fields of the value that may name pods or workloads."""
    if isinstance(value, NodeHistoryCounts):
        return {
            "counters": _mask_counters(value.counters),
            "workloads": _mask_workloads(value.workloads, visible),
            "decided": _mask_deciding_factors(value.decided, visible),
        }
    outcomes = tuple(_mask_outcome(o, value.decision, visible) for o in value.outcomes)
    shown: dict[str, Any] = {"decision": mask_decision(value.decision, visible), "outcomes": outcomes}
    if isinstance(value, StoredAttempt) and value.origins is not None:
        shown["origins"] = replace(value.origins, reconstructed=mask_decision(value.origins.reconstructed, visible))
    return shown


def _mask_outcome(outcome: Outcome, decision: Decision, visible: VisibleNamespaces) -> Outcome:
    shown = mask_outcome(outcome, decision, visible)
    return replace(shown, node_groups=_mask_node_groups(outcome.node_groups, visible)) if outcome.node_groups else shown


def _mask_node_groups(text: str, visible: VisibleNamespaces) -> str:
    """Return recorded verdicts of node groups, as JSON, without what the reader may not see; "" if they are invalid."""
    try:
        recorded = decode_json(text, RecordedNodeGroups)
    except msgspec.DecodeError:
        return ""
    return msgspec.json.encode(mask_answer(recorded, RecordedNodeGroups, visible)).decode()


def _mask_counters(counters: Counter[CounterName]) -> Counter[CounterName]:
    """Return a node's counters with all rejection reasons of unknown codes summed, per plugin, under the code `text`.

    A plugin may choose an unknown code freely, so that the code could name a pod.
    """
    shown: Counter[CounterName] = Counter()
    for name, count in counters.items():
        is_known = name.counter != "reason" or name.detail.partition("/")[0] in reasons.CATALOGUE
        shown[name if is_known else CounterName(name.counter, name.plugin, "text")] += count
    return shown


def _mask_workloads(counts: Counter[str], visible: VisibleNamespaces) -> Counter[str]:
    """Return counts of placements by workload, with all hidden workloads summed under the name HIDDEN."""
    shown: Counter[str] = Counter()
    for name, count in counts.items():
        shown[_mask_workload(name, visible)] += count
    return shown


def _mask_deciding_factors(
    decided: Mapping[str, Mapping[str, PlacementCount]], visible: VisibleNamespaces
) -> dict[str, dict[str, PlacementCount]]:
    """Return placements by workload and deciding factor, with all hidden workloads summed under the name HIDDEN."""
    shown: dict[str, dict[str, PlacementCount]] = {}
    for name, by in decided.items():
        mine = shown.setdefault(_mask_workload(name, visible), {})
        for reason, tally in by.items():
            mine[reason] = tally.add(mine[reason]) if reason in mine else tally
    return shown


def _mask_workload(name: str, visible: VisibleNamespaces) -> str:
    """Return a workload's name, or HIDDEN if the reader may not see its namespace.

    A name without a namespace, such as `other`, is returned unchanged.
    """
    namespace, slash, _ = name.partition("/")
    return name if not slash or visible.sees(namespace) else HIDDEN
