"""The scheduler's state in memory, shared by the scheduling loop, its plugins and its helpers.

Owns: the list of the parts of this state, and which pods belong to a group. Does not own: what changes them, and which
pods count on a node (`Cache`) or wait on Permit (`WaitingPods`). Only the loop's thread changes them, except `waiting`.

Source of pod groups: pkg/scheduler/backend/cache/podgroupstate.go v1.36. There are no states of their own here: a
member is bound or assumed if the cache counts it, also within the scheduling cycle of the group, which assumes pods in
the cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.backend.cache import Cache
from scheduler.engine.framework.nominated import Nominator
from scheduler.engine.framework.waiting import WaitingPod, WaitingPods
from scheduler.engine.objects.cluster import ClusterObjects
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
        """Remove a deleted or finished pod from its group; do nothing if it is in none."""
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
        pods = ((pod, self._cache.node_of(uid)) for uid, pod in self._members.get(group, {}).items())
        return [(pod, node) for pod, node in pods if node is not None]

    def find_waiting(self, group: PodGroupKey) -> list[WaitingPod]:
        return [waiting for waiting in self._waiting() if waiting.pod.pod_group == group] if self._waiting else []

    def unscheduled(self, group: PodGroupKey) -> list[str]:
        """Return the UIDs of the group's pods that are neither bound nor assumed."""
        return [uid for uid in self._members.get(group, ()) if not self._cache.is_counted(uid)]


@dataclass(frozen=True)
class ClusterState:
    """Everything that one scheduler process knows about the cluster.

    `cache` holds nodes and the pods on them, `objects` all other kinds, `nominator` the nominated pods, `waiting` the
    pods at Permit, `preempting` the UIDs of pods whose victims are being evicted, `pod_groups` the members of groups.
    """

    objects: ClusterObjects = field(default_factory=ClusterObjects)
    cache: Cache = field(default_factory=Cache)
    nominator: Nominator = field(default_factory=Nominator)
    waiting: WaitingPods = field(default_factory=WaitingPods)
    preempting: set[str] = field(default_factory=set)
    pod_groups: PodGroupMembers = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pod_groups", PodGroupMembers(self.cache, self.waiting))
