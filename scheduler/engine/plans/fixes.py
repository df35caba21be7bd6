"""Plans that consist of one fix: the change of a pod or of a node that is suggested for a pod which fits nowhere.

Owns: which suggestions are plans, and the changed pods or node with which each is proven. Does not own: the search and
the check of suggestions (`engine.suggestions`), the proof (`verification`), the steps (`fitting`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from herodotus_record.model import Reason, Suggestion
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node, Taint
from scheduler.engine.plans.world import World
from scheduler.engine.suggestions.changes import CHANGES_OF_NODES
from scheduler.engine.suggestions.check import change_spec
from scheduler.engine.suggestions.search import build_suggestion, find_changes, is_last_resort
from scheduler.engine.whatif.nodes import mark_schedulable

_OTHERS_LEAVE: Final = frozenset({"await-end", "set-priority-class", "set-rollout-strategy"})


class SuggestedFix(NamedTuple):
    """A checked suggestion for pods of one spec.

    `pods` are the pods with the change, and `node` is the changed node, None if the pods alone are changed. `is_exact`
    is False if these do not show its effect, as other pods leave or both are changed.
    """

    suggestion: Suggestion
    pods: Sequence[PodInfo]
    node: Node | None
    is_exact: bool
    is_last_resort: bool


def list_fixes(world: World, pods: Sequence[PodInfo]) -> Iterator[SuggestedFix]:
    """Yield the checked suggestions for the pods in their order; none unless the pods have one spec."""
    framework = world.framework(pods[0].pod)
    if framework is None or len({pod.spec_digest for pod in pods}) != 1:
        return
    draws = world.find_draws(pods[0])
    if draws.result is None or draws.slots:
        return
    for found in find_changes(framework, pods[0], world.nodes, draws.result):
        suggestion = build_suggestion(framework, found)
        if not suggestion.is_checked or not suggestion.node:
            continue  # plans add nodes themselves
        codes = {change.code for change in suggestion.changes}
        of_node = codes & CHANGES_OF_NODES
        is_exact = (not of_node or of_node == codes) and codes.isdisjoint(_OTHERS_LEAVE)
        node = world.nodes.nodes[world.nodes.index[found.node]] if of_node else None
        changed = pods if of_node else [change_spec(pod, found.draft.spec) for pod in pods]
        if node is not None:
            node = _change_node(node, suggestion.changes)
        yield SuggestedFix(suggestion, changed, node, is_exact, is_last_resort(found.draft))


def _change_node(node: Node, changes: Sequence[Reason]) -> Node:
    labels, taints = dict(node.metadata.labels or {}), list[Taint](node.spec.taints or ())
    for change in changes:
        p = change.params
        if change.code == "label-node":
            labels[p["key"]] = p["value"]
        elif change.code == "uncordon":
            node = mark_schedulable(node, True)
            taints = list(node.spec.taints or ())
        else:
            taints = [taint for taint in taints if (taint.key, taint.effect) != (p.get("key"), p.get("effect"))]
    metadata = msgspec.structs.replace(node.metadata, labels=labels)
    return msgspec.structs.replace(node, metadata=metadata, spec=msgspec.structs.replace(node.spec, taints=taints))
