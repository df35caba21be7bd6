"""The plugins' handle in a live scheduler: `framework.plugin.Handle` on the state in memory and the API server."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.framework.waiting import WaitingPods
from scheduler.objects.cluster import ClusterObjects
from scheduler.objects.pod import PodInfo
from scheduler.objects.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.objects.types import Node
from scheduler.shared import Shared
from scheduler.writes import ApiWrites, NotLeadingError


class ApiHandle:
    """`writes`: set when there is an API server to write to; plugins are made, and may be refused, before that."""

    def __init__(self, shared: Shared, *, preempts: bool, evicts: bool) -> None:
        self.preempts = preempts
        self.evicts = evicts
        self.writes: ApiWrites | None = None
        self._shared = shared

    @property
    def objects(self) -> ClusterObjects:
        """As `Handle`, like all below."""
        return self._shared.objects

    @property
    def waiting_pods(self) -> WaitingPods:
        """See `Handle`."""
        return self._shared.waiting

    def preempting(self, uid: str) -> bool:
        """See `Handle`."""
        return uid in self._shared.preempting

    def node(self, name: str) -> Node | None:
        """See `Handle`."""
        return self._shared.cache.node(name)

    def bind(self, pod: PodInfo, node: str, done: Callable[[str | None], None]) -> None:
        """See `Handle`."""
        self._writes().bind(pod, node, done)

    def bind_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim, *, by_controller: bool) -> int:
        """See `Handle`."""
        return self._writes().bind_volume(volume, claim, by_controller=by_controller)

    def select_node(self, claim: PersistentVolumeClaim, node: str) -> int:
        """See `Handle`."""
        return self._writes().select_node(claim, node)

    def _writes(self) -> ApiWrites:
        if self.writes is None:
            raise NotLeadingError
        return self.writes
