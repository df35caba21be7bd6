"""Objects other than nodes and pods, in the loop: they wake the pods that wait for them, and may be absent."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from herodotus_kube.watch import ListResult, WatchEvent
from herodotus_record import notes
from herodotus_record.model import Decision
from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.event_handlers import NODES, PODS
from scheduler.backend.queue import SchedulingQueue
from scheduler.config import Configuration, build_profile
from scheduler.engine.framework.events import ClusterEvent
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.update_events import list_node_events
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler.engine.objects.types import Object
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.records.build import Origin
from scheduler.live.in_flight import BindRequests
from scheduler.live.loop import Loop
from scheduler.live.metrics import SchedulerMetrics
from scheduler.live.plugin_handle import ApiHandle
from scheduler.live.scheduler import BackgroundThreads, Scheduler
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.spool import Spool
from tests.scheduler import spools
from tests.scheduler.builders import PROFILE, NodeBuilder, make_node
from tests.scheduler.storage import claim, claiming, storage_class, volume
from tests.support.scheduling_loop import SentWrites

CLAIMS, VOLUMES, CLASSES = "persistentvolumeclaims", "persistentvolumes", "storageclasses"


KINDS: dict[str, type[Object]] = {CLAIMS: PersistentVolumeClaim, VOLUMES: PersistentVolume, CLASSES: StorageClass}


class VolumeWrites(SentWrites):
    """Keeps what is bound, and what is written of volumes."""

    def __init__(self, spool: Path) -> None:
        super().__init__(spool)
        self.wrote: list[tuple[str, str]] = []

    def bind_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim, *, by_controller: bool) -> int:
        self.wrote.append((volume.metadata.name, claim.metadata.name))
        return 1

    def select_node(self, claim: PersistentVolumeClaim, node: str) -> int:
        self.wrote.append((claim.metadata.name, node))
        return 1

    def bind(self, pod: PodInfo, node: str, done: Callable[[str | None], None]) -> None:
        self.bound.append((pod.name, node))
        done(None)


class World:
    """A loop that watches volumes, claims and classes; `p` mounts the claim `c`."""

    def __init__(self, spool: Path) -> None:
        self.spool, self.shared, self.writes = spool, ClusterState(), VolumeWrites(spool)
        handle = ApiHandle(self.shared, preempts=True, evicts=True)
        handle.connect(self.writes)
        framework = Framework(build_profile(Configuration(), 0, IN_TREE, handle), time.monotonic)
        recorder = Recorder(lambda incarnation: Spool(spool, incarnation), Origin("cluster", "test"), "0")
        scheduler = Scheduler(
            frameworks={PROFILE: framework},
            cluster=self.shared,
            queue=SchedulingQueue.for_profiles({PROFILE: framework}, 0.001, 0.001),
            recorder=recorder,
            metrics=SchedulerMetrics(),
            requests=BindRequests(recorder),
            threads=BackgroundThreads(1),
            writes=self.writes,
        )
        kinds: dict[str, type[Object]] = {
            CLAIMS: PersistentVolumeClaim,
            VOLUMES: PersistentVolume,
            CLASSES: StorageClass,
        }
        self.loop = Loop(scheduler, kinds)

    def start(self, listed: Mapping[str, Sequence[Object]] | None = None, *, absent: str = "") -> None:
        """List a node, the pod and `listed` by kind. The API server does not serve the kind `absent`."""
        self.loop.inbox.put(ListResult(NODES, [make_node("n").obj()]))
        self.loop.inbox.put(ListResult(PODS, [claiming("c").obj()]))
        for kind in (CLAIMS, VOLUMES, CLASSES):
            self.loop.inbox.put(ListResult(kind, list((listed or {}).get(kind, [])), absent=kind == absent))
        self.settle()

    def change(self, kind: str, type: str, obj: Object) -> None:
        self.loop.inbox.put(WatchEvent(kind, type, obj))

    def settle(self) -> None:
        """Until there is nothing more to do at once; a pod that waits for its volumes waits on."""
        while self.loop.step(0.0) or self.loop.scheduler.in_flight.keys() - self.loop._cycles.parked:
            pass

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "it did not happen"
            self.loop.step(0.002)

    @property
    def messages(self) -> list[str]:
        return [report[2] for report in self.writes.sent if report[0] == "Unschedulable"]

    @property
    def decisions(self) -> list[Decision]:
        return spools.of(Decision, self.spool)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "spool")
    yield made
    made.loop.binder.close()


def test_a_claim_and_its_volume_requeue_the_pod_that_waits_for_them(world: World) -> None:
    world.start()
    assert 'persistentvolumeclaim "c" not found' in world.messages[-1]
    world.change(CLAIMS, "ADDED", claim("c", volume="v"))
    world.until(lambda: len(world.messages) == 2)
    assert "persistentvolume" in world.messages[-1]
    world.change(VOLUMES, "ADDED", volume("v"))
    world.until(lambda: world.writes.bound)
    assert world.writes.bound == [("p", "n")]


def test_a_changed_claim_requeues_the_pod(world: World) -> None:
    world.start({CLAIMS: [claim("c")], VOLUMES: [volume("v")], CLASSES: [storage_class(mode="Immediate")]})
    assert "pod has unbound immediate PersistentVolumeClaims" in world.messages[-1]
    world.change(CLAIMS, "MODIFIED", claim("c", volume="v"))
    world.until(lambda: world.writes.bound)


def test_a_new_list_of_claims_requeues_the_pod(world: World) -> None:
    world.start({VOLUMES: [volume("v")]})
    world.loop.inbox.put(ListResult(CLAIMS, [claim("c", volume="v")]))
    world.until(lambda: world.writes.bound)


def test_unrelated_events_do_not_requeue(world: World) -> None:
    world.start()
    attempts = len(world.messages)
    world.change(VOLUMES, "DELETED", volume("v"))
    world.change(CLASSES, "ADDED", storage_class())  # the claim is missing: VolumeRestrictions asks for nothing else
    time.sleep(0.01)
    world.settle()
    assert len(world.messages) == attempts


def test_a_claim_that_waits_for_its_node_is_bound_before_the_pod_is(world: World) -> None:
    world.start({CLAIMS: [claim("c")], VOLUMES: [volume("v")], CLASSES: [storage_class()]})
    world.until(lambda: world.writes.wrote)
    assert (world.writes.wrote, world.writes.bound) == ([("v", "c")], [])
    world.change(VOLUMES, "MODIFIED", volume("v", claim="default/c", claim_uid="uid-c", version="2"))
    world.change(CLAIMS, "MODIFIED", claim("c", volume="v", version="3"))
    world.until(lambda: world.writes.bound)


def test_absent_kind_counts_as_empty_and_is_marked_in_records(world: World) -> None:
    world.start({CLAIMS: [claim("c", volume="v")], VOLUMES: [volume("v")]}, absent=CLASSES)
    world.until(lambda: world.writes.bound)
    assert (
        notes.format_decision_notes(world.decisions[-1])[-1] == "absent: the API server does not serve storageclasses"
    )


def test_the_note_about_an_absent_kind_ends_when_it_is_served(world: World) -> None:
    world.start(absent=CLASSES)
    world.loop.inbox.put(ListResult(CLASSES, [storage_class()]))
    world.change(CLAIMS, "ADDED", claim("c"))
    world.until(lambda: len(world.decisions) == 2)
    assert [any("storageclasses" in mark for mark in notes.format_decision_notes(d)) for d in world.decisions] == [
        True,
        False,
    ]


def featured(*features: str) -> NodeBuilder:
    made = make_node("n")
    made.json["status"]["declaredFeatures"] = list(features)
    return made


def test_declared_features_are_an_event() -> None:
    assert list_node_events(featured("a").obj(), featured("a", "b").obj()) == [ClusterEvent.NODE_FEATURE]
    assert list_node_events(featured("a").obj(), featured("a").obj()) == []
