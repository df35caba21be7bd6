"""SchedulingGates: a pod with scheduling gates waits until they are lifted."""

from __future__ import annotations

from collections.abc import Iterable

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.engine.framework.events import ActionType, ClusterEventWithHint, EventResource, queue_own_update
from scheduler.engine.framework.plugin import BasePlugin
from scheduler.engine.framework.verdicts import unresolvable
from scheduler.engine.objects.pod import PodInfo


class SchedulingGates(BasePlugin):
    """A plugin that keeps gated pods, which have scheduling gates, out of the active queue."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Verdict:
        """Reject a pod with scheduling gates; the reason names them."""
        gates = [gate.name for gate in pod.pod.spec.scheduling_gates or ()]
        return unresolvable(Reason("gated", {"gates": f"[{' '.join(gates)}]"})) if gates else SUCCESS

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        ungated = ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        yield ClusterEventWithHint(EventResource.POD, ungated, queue_own_update)
