"""The members of pod groups, for the plugin GangScheduling and the scheduling cycle of a group.

Owns: which pods belong to a group. Does not own: which of them count on a node (`Cache`), or wait on Permit
(`WaitingPods`). Only the loop's thread changes and reads it.

Source: pkg/scheduler/backend/cache/podgroupstate.go v1.36. There are no states of their own here: a member is bound or
assumed if the cache counts it, also within the scheduling cycle of the group, which assumes pods in the cache.
"""

from __future__ import annotations

from scheduler.backend.cache import Cache
from scheduler.engine.framework.waiting import WaitingPod, WaitingPods
from scheduler.engine.objects.pod import PodGroupKey, PodInfo


class PodGroupMembers:
    """The pods of each pod group that are bound, assumed, or wait for this scheduler. Implements `PodGroupStates`."""

    def __init__(self, cache: Cache, waiting: WaitingPods) -> None:
        self._cache = cache
        self._waiting = waiting
        self._members: dict[PodGroupKey, dict[str, PodInfo]] = {}
        self._group_of: dict[str, PodGroupKey] = {}

    def set_pod(self, pod: PodInfo) -> None:
        """Add or replace a pod, if it belongs to a group."""
        key = pod.pod_group
        if key is not None:
            self._members.setdefault(key, {})[pod.uid] = pod
            self._group_of[pod.uid] = key

    def remove_pod(self, uid: str) -> None:
        """Remove a deleted or finished pod, if it is known."""
        key = self._group_of.pop(uid, None)
        if key is not None:
            del self._members[key][uid]
            if not self._members[key]:
                del self._members[key]

    def count_members(self, group: PodGroupKey) -> int:
        return len(self._members.get(group, ()))

    def count_scheduled(self, group: PodGroupKey) -> int:
        return sum(map(self._cache.is_counted, self._members.get(group, ())))

    def list_scheduled(self, group: PodGroupKey) -> list[tuple[PodInfo, str]]:
        found = ((pod, self._cache.node_of(uid)) for uid, pod in self._members.get(group, {}).items())
        return [(pod, node) for pod, node in found if node is not None]

    def find_waiting(self, group: PodGroupKey) -> list[WaitingPod]:
        return [waiting for waiting in self._waiting() if waiting.pod.pod_group == group] if self._waiting else []

    def unscheduled(self, group: PodGroupKey) -> list[str]:
        """Return the UIDs of the group's pods that are neither bound nor assumed."""
        return [uid for uid in self._members.get(group, ()) if not self._cache.is_counted(uid)]
