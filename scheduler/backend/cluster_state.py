"""The scheduler's state in memory, shared by the scheduling loop, its plugins and its helpers.

Owns: the list of the parts of this state. Does not own: what changes them. Only the loop's thread changes them, except
`waiting`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.backend.cache import Cache
from scheduler.backend.pod_groups import PodGroupMembers
from scheduler.engine.framework.nominated import Nominator
from scheduler.engine.framework.waiting import WaitingPods
from scheduler.engine.objects.cluster import ClusterObjects


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
