"""The plugins' handle in a live scheduler: access to the shared state, the API server and Prometheus."""

from __future__ import annotations

import os

from scheduler.backend.cluster_state import ClusterState
from scheduler.engine.framework.plugin import PodGroupStates
from scheduler.engine.framework.waiting import WaitingPods
from scheduler.engine.framework.writes import NoWrites, Writes
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.types import Node
from scheduler.prometheus import BackgroundQuery, query_in_background


class ApiHandle:
    """Gives plugins access to the cluster state, to writes to the API server and to Prometheus. Implements `Handle`."""

    def __init__(self, shared: ClusterState, *, preempts: bool, evicts: bool) -> None:
        self.preempts = preempts
        self.evicts = evicts
        self._process = os.getpid()
        self._shared = shared
        self._writes: Writes = NoWrites()
        self._queries: dict[tuple[object, ...], BackgroundQuery] = {}  # by settings: equal queries are one

    def connect(self, writes: Writes) -> None:
        """Set the object through which plugins write to the API server; it is connected after the plugins are built."""
        self._writes = writes

    @property
    def writes(self) -> Writes:
        """The object for writes to the API server. In a forked copy, which answers a review, it writes nothing."""
        return self._writes if self._process == os.getpid() else NoWrites()

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

    def query_metrics(self, url: str, query: str, label: str, *, every_s: float, timeout_s: float) -> BackgroundQuery:
        """Return a Prometheus query that runs in the background every `every_s` seconds.

        Its results are keyed by the value of the series label `label`.
        """
        key = (url, query, label, every_s, timeout_s)
        if key not in self._queries:
            self._queries[key] = query_in_background(url, query, label, every_s=every_s, timeout_s=timeout_s)
        return self._queries[key]
