"""One pod against one cluster: a cycle of the live scheduler's engine, with nothing to bind to.

Does not own: the cycle, the forms of its outcome (`outcome`), the record (`scheduler.recorder.build`).
"""

from __future__ import annotations

import gc
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from herodotus_record.codec import complete
from herodotus_record.document import decision_document
from herodotus_record.model import Key, NodeTable, Path, SchedulerInfo, Source, Times
from herodotus_record.version import __version__
from scheduler.columns import NodeColumns, Snapshot
from scheduler.config import Configuration, Registry, build_profile
from scheduler.cycle import CycleResult, schedule
from scheduler.evaluate.cluster import Cluster
from scheduler.evaluate.outcome import outcome_of
from scheduler.framework.errors import PluginError
from scheduler.framework.runtime import Framework
from scheduler.framework.waiting import WaitingPods
from scheduler.objects.cluster import ClusterObjects
from scheduler.objects.pod import PodInfo
from scheduler.objects.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.objects.types import Node
from scheduler.recorder import build
from scheduler.recorder.build import Attempt
from scheduler.recorder.ids import uuid7

Json = dict[str, Any]

MARKS: Final = ("evaluated: no pod was bound",)


class NoCluster:
    """The plugins' handle where there is nothing to bind to."""

    preempts = True
    evicts = True  # what kube-scheduler would do

    def __init__(self, objects: ClusterObjects | None = None) -> None:
        self.objects = objects or ClusterObjects()
        self.waiting_pods = WaitingPods()

    def preempting(self, uid: str) -> bool:
        """Nothing is going on."""
        return False

    def node(self, name: str) -> Node | None:
        """Never asked by a cycle, as everything below."""
        raise RuntimeError("evaluate binds nothing")

    def bind(self, pod: PodInfo, node: str, done: Callable[[str | None], None]) -> None:
        """See `node`."""
        raise RuntimeError("evaluate binds nothing")

    def bind_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim, *, by_controller: bool) -> int:
        """See `node`."""
        raise RuntimeError("evaluate binds nothing")

    def select_node(self, claim: PersistentVolumeClaim, node: str) -> int:
        """See `node`."""
        raise RuntimeError("evaluate binds nothing")


@dataclass(frozen=True)
class Evaluation:
    """A decided pod, and what decided it."""

    framework: Framework
    nodes: NodeColumns
    pod: PodInfo
    result: CycleResult

    def outcome(self) -> Json:
        """In the form of tests/golden/README.md. Scored even where kube-scheduler, with one node left, would not."""
        trace = self.result.trace
        if self.result.path is Path.ONLY_FEASIBLE:
            with suppress(PluginError):
                self.framework.run_scores(self.result.state, self.pod, self.nodes, trace.feasible, trace)
        return outcome_of(self.framework.profile, self.nodes, self.result)

    def decision(self) -> Json:
        """As the record of an attempt, of kind Decision."""
        incarnation, now_us = str(uuid.uuid4()), time.time_ns() // 1000
        table = NodeTable()
        table.apply(build.node_rows(self.nodes, range(self.nodes.slots), "", incarnation, base=-1))
        profile, result = self.framework.profile.scheduler_name, self.result
        times = Times(
            created_us=build.microseconds(self.pod.pod.metadata.creation_timestamp),
            queued_us=now_us,
            started_us=now_us,
            phases_s=dict(result.trace.phases_s),
        )
        record = build.decision(
            Attempt(self.pod, 1, profile, Snapshot.of(self.nodes), result, times, 0),
            id=uuid7(),
            key=Key("", Source.RECONSTRUCTED, incarnation, self.pod.uid, 1),
            sequence=1,
            scheduler=SchedulerInfo(profile, "evaluate", __version__),
            marks=MARKS,
        )
        return decision_document(complete(record), (), table)


class Engine:
    """A cluster and a profile, ready to decide: what plugins keep about the cluster is built at once.

    `not_asked`: marks about who would have a say in a live scheduler.

    ConfigError when the profile cannot be built.
    """

    def __init__(self, cluster: Cluster, config: Configuration, registry: Registry, profile: int = 0) -> None:
        """`profile`: which of the configuration's decides. `registry`: the plugins that there are."""
        self.nodes = cluster.nodes
        self.not_asked = [f"extender {e.url_prefix} was not asked: evaluate asks nobody" for e in config.extenders]
        self.framework = Framework(build_profile(config, profile, registry, NoCluster(cluster.objects)), time.monotonic)
        self.framework.prepare(self.nodes)

    def evaluate(self, pod: PodInfo) -> Evaluation:
        """Decide the pod."""
        with _uncollected():
            result = schedule(self.framework, pod, Snapshot.of(self.nodes), seed=0)
        result.trace.marks += self.not_asked
        return Evaluation(self.framework, self.nodes, pod, result)


@contextmanager
def _uncollected() -> Iterator[None]:
    """The cluster is no garbage: a collection within the cycle need not look at it."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
