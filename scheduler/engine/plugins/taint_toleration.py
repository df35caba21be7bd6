"""TaintToleration: keeps pods off nodes whose taints they do not tolerate, and prefers nodes with fewer soft ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

import numpy as np

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.formulas.allocation import default_normalize
from scheduler.engine.framework.events import ActionType, ClusterEventWithHint, EventResource, queue_own_update
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.plugin import BasePlugin, DependsOn, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Verdicts, unresolvable
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.taints import HARD_EFFECTS, format_taint, is_tolerated
from scheduler.engine.objects.types import Node, Taint, Toleration
from scheduler.engine.rules.feature_gates import COMPARISON_OPERATORS

SOFT_EFFECT = "PreferNoSchedule"


class TaintToleration(BasePlugin):
    """The plugin for taints: filters by NoSchedule and NoExecute, and scores by PreferNoSchedule.

    It evaluates each distinct list of taints once.
    """

    name = "TaintToleration"
    reads = frozenset({PluginInput.NODE})
    depends_on = DependsOn.NODE
    idle_at = frozenset({"preScore"})
    fails_without: ClassVar = {
        "score": ("preScore", 'failed to read "PreScoreTaintToleration" from cycleState: not found')
    }

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        yield ClusterEventWithHint(
            EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT, self._is_schedulable_after_node_change
        )
        yield ClusterEventWithHint(EventResource.POD, ActionType.UPDATE_POD_TOLERATION, queue_own_update)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Reject nodes with a taint that the pod does not tolerate.

        The message names the first such taint; the reason's parameters also list the others, for the record.
        """

        def verdict(number: int) -> Verdict:
            return _rejection(self._untolerated(nodes.taints.values[number], pod))

        return Verdicts.from_ids(nodes.taints.ids(nodes.slots), len(nodes.taints.values), verdict)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return, for each node slot, the number of PreferNoSchedule taints that the pod does not tolerate."""
        counts = [sum(1 for _ in self._soft_untolerated(taints, pod)) for taints in nodes.taints.values]
        return np.array(counts, np.int64).take(nodes.taints.ids(nodes.slots))

    def explain_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, slot: int) -> list[Reason]:
        """Return the node's PreferNoSchedule taints that the pod does not tolerate."""
        taints = nodes.taints.values[nodes.taints.ids(nodes.slots)[slot]]
        return [Reason("preferred-taint", {"taint": format_taint(t)}) for t in self._soft_untolerated(taints, pod)]

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        return default_normalize(raw, feasible, reverse=True)

    def _is_schedulable_after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> bool:
        was_closed = old is None or not self._is_open(old, pod)
        return was_closed and self._is_open(new, pod)

    def _is_open(self, node: Node, pod: PodInfo) -> bool:
        return next(self._untolerated(node.spec.taints or (), pod), None) is None

    def _untolerated(self, taints: Iterable[Taint], pod: PodInfo) -> Iterator[Taint]:
        tolerations = pod.pod.spec.tolerations or ()
        return (t for t in taints if t.effect in HARD_EFFECTS and not self._is_tolerated(t, tolerations))

    def _soft_untolerated(self, taints: Iterable[Taint], pod: PodInfo) -> Iterator[Taint]:
        soft = [t for t in pod.pod.spec.tolerations or () if t.effect in ("", SOFT_EFFECT)]
        return (t for t in taints if t.effect == SOFT_EFFECT and not self._is_tolerated(t, soft))

    def _is_tolerated(self, taint: Taint, tolerations: Iterable[Toleration]) -> bool:
        return is_tolerated(taint, tolerations, comparison_operators=self.rules.enabled(COMPARISON_OPERATORS))


def _rejection(taints: Iterator[Taint]) -> Verdict:
    first = next(taints, None)
    if first is None:
        return SUCCESS
    params = {"key": first.key, "value": first.value, "effect": first.effect}
    others = ", ".join(map(format_taint, taints))
    return unresolvable(Reason("untolerated-taint", params | ({"others": others} if others else {})))
