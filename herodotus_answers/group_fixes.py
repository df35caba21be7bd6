"""Say how far the fixes of a pod group's first blocked member carry, and combine those that open single nodes.

Owns: what a fix does for the members that still lack a node. Does not own: which fixes help one member (the scheduler),
their commands (`suggestions`). Pure.

Invariant: a fix that reaches fewer members than the group lacks says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from herodotus_answers.node_results import list_obstacles
from herodotus_answers.suggestions import SuggestedChange
from herodotus_record.model import Decision, NodeTable
from herodotus_record.units import natural_sort_key

_UNCORDON: Final = "uncordon"


def fit_to_group(
    suggestions: Sequence[SuggestedChange], decision: Decision, table: NodeTable, missing: int
) -> list[SuggestedChange]:
    """Return the suggestions for a member of a group that lacks nodes for `missing` members, the farthest first.

    `decision` is that of the member. Each suggestion was checked for this member alone.
    """
    if missing < 2:
        return list(suggestions)
    widened = [_widen(each, decision, table, missing) for each in suggestions]
    return [each for _, each in sorted(widened, key=lambda pair: -pair[0])]


def _widen(
    suggestion: SuggestedChange, decision: Decision, table: NodeTable, missing: int
) -> tuple[int, SuggestedChange]:
    """Return how many of the missing members a suggestion reaches, and the suggestion for as many as it can."""
    slot = table.find_slot(suggestion["node"])
    if slot is None or not suggestion["object"].startswith("Node/"):
        is_of_pod = suggestion["object"].startswith("Pod/")  # a template or new nodes may serve more members
        return 1, _append_reach(suggestion, 1, missing) if is_of_pod else suggestion
    nodes = [slot]
    if suggestion["kind"] == _UNCORDON and not suggestion["also"]:
        nodes += [other for other in range(len(table.names)) if other != slot and _is_only_cordoned(decision, other)]
    reach, chosen = 0, list[str]()
    for each in nodes:
        if reach < missing:
            reach += _count_room(decision, table, each)
            chosen.append(table.names[each])
    if len(chosen) > 1:
        names = sorted(chosen, key=natural_sort_key)
        text = f"uncordon {', '.join(names[:-1])} and {names[-1]}"
        suggestion = {**suggestion, "text": text, "command": f"kubectl uncordon {' '.join(names)}"}
    if reach > 1:
        suggestion = {**suggestion, "checked": False}  # the room for the others was counted by their requests alone
    return reach, _append_reach(suggestion, reach, missing)


def _append_reach(suggestion: SuggestedChange, reach: int, missing: int) -> SuggestedChange:
    if reach >= missing:
        return suggestion
    return {**suggestion, "text": f"{suggestion['text']}, for {reach} of {missing} pods"}


def _is_only_cordoned(decision: Decision, slot: int) -> bool:
    """Return whether nothing but the cordon keeps the pod off the slot's node."""
    return [reason.code for reason in list_obstacles(decision, slot)] == ["unschedulable"]


def _count_room(decision: Decision, table: NodeTable, slot: int) -> int:
    """Return for how many pods with the requests of the decision's pod the slot's node has room, at least 1."""
    wanted = {"pods": 1} | {resource: amount for resource, amount in decision.pod.requests.items() if amount > 0}
    return max(1, min(table.free(slot, resource) // amount for resource, amount in wanted.items()))
