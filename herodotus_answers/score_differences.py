"""Explain by what the best node was ahead of the others: for each plugin, what made up its scores of the best two.

Owns: the shape of this part of an answer, and its texts. Does not own: the margin and its shares (`explain`), what the
plugins reported (`reasons.SCORES`). Pure.

Invariant: a text names only what the record holds. Requests and allocatable amounts are of the node table at the
decision's generation; the record does not say which resources a profile scores, so the text says what they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, TypedDict

from herodotus_answers.balance import find_winners_without
from herodotus_answers.explain import Margin
from herodotus_answers.wording import shorten_lists
from herodotus_record import reasons
from herodotus_record.model import Decision, NodeTable, Reason
from herodotus_record.units import natural_sort_key, pluralize

_BY_RESOURCES: Final = ("NodeResourcesFit", "NodeResourcesBalancedAllocation")  # both score shares of resources
_ALWAYS: Final = ("cpu", "memory")  # scored for pods without requests too
_NONE: Final = "none"
_NAMED: Final = 2  # reasons of a node that a text names


class ScoreReason(TypedDict):
    """What made up a part of a score."""

    code: Annotated[str, "Stable code."]
    params: Annotated[dict[str, str], "Parameters by name."]
    text: Annotated[str, "It in a few words."]


class ScoreDifference(TypedDict):
    """What made up a plugin's scores of the best node and the next one, if it decided between them or for both."""

    plugin: Annotated[str, "The score plugin."]
    points: Annotated[
        int, "Its share in the difference, in weighted points. 0: without it another node would have won."
    ]
    text: Annotated[str, "What differs, that of the best node first, or what both have and the other node has not."]
    best: Annotated[list[ScoreReason], "What made up the score of the best node."]
    runnerUp: Annotated[list[ScoreReason], "What made up the score of the next one."]


def explain_margin(decision: Decision, table: NodeTable, margin: Margin) -> list[ScoreDifference]:
    """Return, for each plugin with a share in the margin, what made up its scores; the largest share first.

    Plugins that gave both nodes the same points and without which another node would have won come last. Plugins of
    whose scores the record does not say what made them up are absent.
    """
    recorded = {(entry.plugin, entry.node): entry.reasons for entry in decision.score_reasons}
    explained = list[ScoreDifference]()
    for plugin, points in sorted(margin.shares, key=lambda share: -abs(share[1])):
        ours, theirs = (recorded.get((plugin, table.names[slot])) for slot in (margin.best, margin.runner_up))
        if ours is not None and theirs is not None:
            text = _describe(ours, theirs)
        elif plugin in _BY_RESOURCES:
            ours, theirs, text = (), (), _compare_resources(decision, table, margin.best, margin.runner_up)
        else:
            continue
        if text:
            built = [[_build(reason) for reason in side] for side in (ours, theirs)]
            explained.append({"plugin": plugin, "points": points, "text": text, "best": built[0], "runnerUp": built[1]})
    return [*explained, *_explain_shared(decision, table, margin, recorded)]


def _explain_shared(
    decision: Decision, table: NodeTable, margin: Margin, recorded: Mapping[tuple[str, str], Sequence[Reason]]
) -> list[ScoreDifference]:
    """Return what made up the equal scores of both nodes, for each plugin without which another node would have won."""
    differing = {plugin for plugin, _ in margin.shares}
    explained = list[ScoreDifference]()
    for plugin in dict.fromkeys(plugin for plugin, _ in recorded if plugin not in differing):
        ours, theirs = (recorded.get((plugin, table.names[slot]), ()) for slot in (margin.best, margin.runner_up))
        winners = sorted((table.names[slot] for slot in find_winners_without(decision, plugin)), key=natural_sort_key)
        if not winners or not ours:
            continue
        both = _describe(ours, theirs) or f"both have {_name_few(ours)}"
        text = f"{both}; without it {winners[0]} would have won"
        best, other = [_build(reason) for reason in ours], [_build(reason) for reason in theirs]
        explained.append({"plugin": plugin, "points": 0, "text": text, "best": best, "runnerUp": other})
    return explained


def _build(reason: Reason) -> ScoreReason:
    return {"code": reason.code, "params": dict(reason.params), "text": _describe_reason(reason)}


def _describe(ours: Sequence[Reason], theirs: Sequence[Reason]) -> str:
    """Return what only one of two nodes has, as text; "" if the record names nothing in which they differ."""
    only = [[r for r in ours if r not in theirs], [r for r in theirs if r not in ours]]
    return " against ".join(map(_name_few, only)) if any(only) else ""


def _name_few(found: Sequence[Reason]) -> str:
    named = [_describe_reason(reason) for reason in found[:_NAMED]]
    return ", ".join([*named, *([f"{len(found) - _NAMED} more"] if len(found) > _NAMED else [])]) or _NONE


def _describe_reason(reason: Reason) -> str:
    p = reason.params
    match reason.code:
        case "preferred-node-affinity":
            return f"preferred {shorten_lists(p['wants'])} (weight {p['weight']})"
        case "spread-pods":
            return f"{_count_pods(p, 'matching ')} in {_name_domain(p)}"
        case "preferred-pod-affinity":
            return f"{_count_pods(p)} {shorten_lists(p['wants'])} in {_name_domain(p)} (weight {p['weight']})"
        case "preferred-by-pods":
            return f"{_count_pods(p)} in {_name_domain(p)} whose affinity is about this one (weight {p['weight']})"
        case _:
            return reasons.format_reason(reason)


def _count_pods(p: Mapping[str, str], kind: str = "") -> str:
    return pluralize(int(p["pods"]), f"{kind}pod")


def _name_domain(p: Mapping[str, str]) -> str:
    """Return a topology domain without the prefix of its key: `zone a` for topology.kubernetes.io/zone."""
    key = p["key"].rpartition("/")[2]
    return p["domain"] if key == "hostname" else f"{key} {p['domain']}"


def _compare_resources(decision: Decision, table: NodeTable, best: int, other: int) -> str:
    """Return which shares of two nodes' resources are requested with the pod; "" if the record does not tell."""
    if "snapshot.generation" in decision.unknown or "pod.requests" in decision.unknown:
        return ""
    resources = dict.fromkeys((*_ALWAYS, *(r for r, amount in decision.pod.requests.items() if amount and r != "pods")))
    parts = [_list_shares(decision, table, slot, resources) for slot in (best, other)]
    both = [resource for resource in resources if all(resource in shares for shares in parts)]
    differing = [resource for resource in both if parts[0][resource] != parts[1][resource]]
    if not differing:
        return ""  # containers without requests count with amounts that the record does not have
    texts = [", ".join(f"{resource} {shares[resource]}%" for resource in differing) for shares in parts]
    return f"{texts[0]} requested against {texts[1]}"


def _list_shares(decision: Decision, table: NodeTable, slot: int, resources: Mapping[str, None]) -> dict[str, int]:
    """Return the percentage of each resource that is requested on the slot's node with the pod, if the node has it."""
    allocatable, requested = table.allocatable[slot], table.requested[slot]
    return {
        r: round(100 * (requested.get(r, 0) + decision.pod.requests.get(r, 0)) / allocatable[r])
        for r in resources
        if allocatable.get(r)
    }
