"""The plugins' handle in a live scheduler: access to the shared state, the API server and Prometheus."""

from __future__ import annotations

import os
from collections.abc import Callable

from scheduler.backend.cluster_state import ClusterState
from scheduler.engine.framework.plugin import ClaimWrites, PodGroupStates
from scheduler.engine.framework.waiting import WaitingPods
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.engine.objects.types import Node
from scheduler.live.api_writes import ApiWrites, NotLeadingError
from scheduler.prometheus import BackgroundQuery, query_in_background


class ApiHandle:
    """Gives plugins access to the cluster state, to writes to the API server and to Prometheus. Implements `Handle`.

    `writes` is None until an API server is connected, which is after plugins are built.
    """

    def __init__(self, shared: ClusterState, *, preempts: bool, evicts: bool) -> None:
        self.preempts = preempts
        self.evicts = evicts
        self._process = os.getpid()
        self.writes: ApiWrites | None = None
        self._shared = shared
        self._queries: dict[tuple[object, ...], BackgroundQuery] = {}  # by settings: equal queries are one

    @property
    def writes_claims(self) -> bool:
        """False in a forked copy too, which answers a review."""
        return self.evicts and self._process == os.getpid()

    @property
    def claim_writes(self) -> ClaimWrites:
        return self._writes()

    @property
    def objects(self) -> ClusterObjects:
        return self._shared.objects

    @property
    def pod_groups(self) -> PodGroupStates:
        return self._shared.pod_groups

    @property
    def waiting_pods(self) -> WaitingPods:
        return self._shared.waiting

    def is_preempting(self, uid: str) -> bool:
        return uid in self._shared.preempting

    def node(self, name: str) -> Node | None:
        return self._shared.cache.node(name)

    def bind(self, pod: PodInfo, node: str, done: Callable[[str | None], None]) -> None:
        self._writes().bind(pod, node, done)

    def bind_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim, *, by_controller: bool) -> int:
        return self._writes().bind_volume(volume, claim, by_controller=by_controller)

    def query_metrics(self, url: str, query: str, label: str, *, every_s: float, timeout_s: float) -> BackgroundQuery:
        """Return a Prometheus query that runs in the background every `every_s` seconds.

        Its results are keyed by the value of the series label `label`.
        """
        key = (url, query, label, every_s, timeout_s)
        if key not in self._queries:
            self._queries[key] = query_in_background(url, query, label, every_s=every_s, timeout_s=timeout_s)
        return self._queries[key]

    def select_node(self, claim: PersistentVolumeClaim, node: str) -> int:
        return self._writes().select_node(claim, node)

    def _writes(self) -> ApiWrites:
        if self.writes is None:
            raise NotLeadingError
        return self.writes
