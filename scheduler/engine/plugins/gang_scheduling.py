"""GangScheduling: holds the pods of a group back until enough of them can be scheduled at the same time.

Source: pkg/scheduler/framework/plugins/gangscheduling v1.36. Differs from it in that Permit does not activate the other
pods of the group: all that may enter the active queue are in the scheduling cycle of the group already.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.engine.framework.events import ActionType, ClusterEventWithHint, EventResource
from scheduler.engine.framework.plugin import BasePlugin
from scheduler.engine.framework.verdicts import Wait, error, unresolvable
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import PodGroup, find_pod_group

PERMIT_TIMEOUT_S: Final = 300.0  # upstream's permitTimeoutDuration
TOO_FEW: Final = unresolvable(Reason("gang-too-few"))
WAIT: Final = Wait(PERMIT_TIMEOUT_S, Reason("gang-waiting"))


class GangScheduling(BasePlugin):
    """A plugin that lets `minCount` pods of a PodGroup with the gang policy pass together, or none."""

    name = "GangScheduling"

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        yield ClusterEventWithHint(EventResource.POD, ActionType.ADD, _is_schedulable_after_pod_added)
        yield ClusterEventWithHint(EventResource.POD_GROUP, ActionType.ADD, _is_schedulable_after_group_added)

    def pre_enqueue(self, pod: PodInfo) -> Verdict:
        """Reject a pod until its PodGroup and `minCount` pods of the group exist."""
        key = pod.pod_group
        if key is None:
            return SUCCESS
        group = find_pod_group(self.handle.objects, key)
        if group is None:
            return unresolvable(Reason("gang-no-group", {"group": key.name}))
        return TOO_FEW if self.handle.pod_groups.count_members(key) < group.min_count else SUCCESS

    def permit(self, state: object, pod: PodInfo, node: str) -> Verdict | Wait:
        """Return Wait until `minCount` pods of the group are assumed or bound, then Success.

        With Success, the group's waiting pods are allowed too. A pod without a group passes. Returns an error if the
        PodGroup does not exist.
        """
        key = pod.pod_group
        if key is None:
            return SUCCESS
        group = find_pod_group(self.handle.objects, key)
        if group is None:
            return error(f'failed to get podGroup {key}: podgroup.scheduling.k8s.io "{key.name}" not found')
        if self.handle.pod_groups.count_scheduled(key) < group.min_count:
            return WAIT
        for waiting in self.handle.pod_groups.find_waiting(key) if group.min_count else ():
            waiting.allow(self.name)
        return SUCCESS


def _is_schedulable_after_pod_added(pod: PodInfo, old: PodInfo | None, new: PodInfo) -> bool:
    return pod.pod_group is not None and new.pod_group == pod.pod_group


def _is_schedulable_after_group_added(pod: PodInfo, old: PodGroup | None, new: PodGroup) -> bool:
    return pod.pod_group == (new.metadata.namespace, new.metadata.name)
