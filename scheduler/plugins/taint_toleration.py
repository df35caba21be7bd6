"""TaintToleration: keeps pods off nodes whose taints they do not tolerate, and prefers nodes with fewer soft ones."""

from __future__ import annotations

import numpy as np

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.columns import NodeColumns
from scheduler.formulas.allocation import default_normalize
from scheduler.framework.events import Event
from scheduler.framework.interface import Mask, Scores
from scheduler.framework.plugin import InTreePlugin
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import Verdicts, unresolvable
from scheduler.objects.pod import PodInfo
from scheduler.objects.taints import HARD_EFFECTS, tolerated
from scheduler.objects.types import Taint

SOFT_EFFECT = "PreferNoSchedule"


class TaintToleration(InTreePlugin):
    """Both answers are asked once of each distinct list of taints."""

    name = "TaintToleration"
    idle_at = frozenset({"preScore"})
    wakes_on = frozenset({Event.NODE_ADD, Event.NODE_TAINT, Event.POD_CHANGED})

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """The reason names the first taint that is not tolerated."""
        tolerations = pod.pod.spec.tolerations or ()

        def verdict(number: int) -> Verdict:
            taints = nodes.taints.values[number]
            hard = (t for t in taints if t.effect in HARD_EFFECTS and not tolerated(t, tolerations))
            return _rejection(next(hard, None))

        return Verdicts.each(nodes.taints.ids(nodes.slots), len(nodes.taints.values), verdict)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """How many PreferNoSchedule taints the pod does not tolerate."""
        soft = [t for t in pod.pod.spec.tolerations or () if t.effect in ("", SOFT_EFFECT)]
        counts = [
            sum(t.effect == SOFT_EFFECT and not tolerated(t, soft) for t in taints) for taints in nodes.taints.values
        ]
        return np.array(counts, np.int64).take(nodes.taints.ids(nodes.slots))

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """None is best."""
        return default_normalize(raw, feasible, reverse=True)


def _rejection(taint: Taint | None) -> Verdict:
    if taint is None:
        return SUCCESS
    params = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    return unresolvable(Reason("untolerated-taint", params))
