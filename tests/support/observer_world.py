"""An observer with its queue, clock and spool, and a scheduler whose decisions it observes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from herodotus_kube.watch import ListResult, WatchEvent
from herodotus_record.model import (
    Agreement,
    Decision,
    Reconstruction,
)
from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.event_handlers import NODES, PODS
from scheduler.config import Configuration, build_profile
from scheduler.config.types import ProfileConfig
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler.engine.objects.types import Object
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.records.build import Origin
from scheduler.live.plugin_handle import ApiHandle
from scheduler.offline.observe.configuration import drop_unknown_plugins
from scheduler.offline.observe.metrics import ObserverMetrics
from scheduler.offline.observe.observer import Observer
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.spool import Spool
from tests.scheduler import spools
from tests.scheduler.builders import PROFILE, NodeBuilder, PodBuilder, make_node, make_pod

WINDOW_S = 1.0
STORAGE_KINDS: dict[str, type[Object]] = {
    "persistentvolumes": PersistentVolume,
    "persistentvolumeclaims": PersistentVolumeClaim,
    "storageclasses": StorageClass,
}
DEFAULT = Configuration(profiles=(ProfileConfig(scheduler_name=PROFILE),))


class ObserverWorld:
    """An observer and everything around it. Each change comes `BETWEEN_S` after the last."""

    BETWEEN_S = 0.01

    def __init__(
        self, spool: Path, config: Configuration = DEFAULT, kinds: Mapping[str, type[Object]] = STORAGE_KINDS
    ) -> None:
        self.spool, self.now, self.kinds = spool, 0.0, kinds
        self.shared = shared = ClusterState()
        evaluated, theirs = drop_unknown_plugins(config, IN_TREE)
        profile = build_profile(evaluated, 0, IN_TREE, ApiHandle(shared, preempts=True, evicts=False))
        self.metrics = ObserverMetrics()
        self.observer = Observer(
            {PROFILE: Framework(profile, time.monotonic, (), shared.nominator)},
            theirs,
            kinds,
            WINDOW_S,
            Recorder(lambda incarnation: Spool(spool, incarnation), Origin("cluster", "test"), "0"),
            shared,
            self.metrics,
            clock=lambda: self.now,
        )

    def start(self, *nodes: NodeBuilder, pods: tuple[PodBuilder, ...] = ()) -> None:
        self.observer.inbox.put(ListResult(NODES, [n.obj() for n in nodes]))
        self.observer.inbox.put(ListResult(PODS, [p.obj() for p in pods]))
        for kind in self.kinds:
            self.observer.inbox.put(ListResult(kind, []))
        self.observer.step(0.0)

    def set(self, *objects: Object) -> None:
        for obj in objects:
            kind = next(name for name, decoded in self.kinds.items() if isinstance(obj, decoded))
            self.observer.inbox.put(WatchEvent(kind, "MODIFIED", obj))
        self.now += self.BETWEEN_S
        self.observer.step(0.0)

    def pod(self, type: str, pod: PodBuilder) -> None:
        self.observer.inbox.put(WatchEvent(PODS, type, pod.obj()))
        self.now += self.BETWEEN_S
        self.observer.step(0.0)

    def node(self, type: str, node: NodeBuilder) -> None:
        self.observer.inbox.put(WatchEvent(NODES, type, node.obj()))
        self.now += self.BETWEEN_S
        self.observer.step(0.0)

    def pause(self) -> None:
        """Longer than the window: nothing is in flight any more."""
        self.now += 2 * WINDOW_S
        self.observer.step(0.0)

    @property
    def found(self) -> list[tuple[str, str | None, Reconstruction | None]]:
        """(pod, node, comparison) of every record."""
        names = spools.table(self.spool).names
        return [
            (d.pod.name, None if d.chosen is None else names[d.chosen], d.reconstruction)
            for d in spools.of(Decision, self.spool)
        ]


def waiting(name: str = "p", cpu: str = "1") -> PodBuilder:
    return make_pod(name).request(cpu=cpu)


SMALL, LARGE = make_node("small").allocatable(cpu="2"), make_node("large").allocatable(cpu="8")
AGREE = Reconstruction(Agreement.AGREE)
