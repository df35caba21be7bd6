"""The loop with its real parts in one process: cache, queue, plugins, recorder, spool. Only the API server is missing.

What the watch would bring is put into the inbox; what the scheduler would send arrives at `SentWrites`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from herodotus_kube.watch import ListResult, WatchEvent
from herodotus_record.model import Code, Decision, DecisionPath, Outcome, RequeueEvent
from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.event_handlers import NODES, PODS
from scheduler.backend.queue import SchedulingQueue
from scheduler.config import Configuration, build_profile
from scheduler.engine.framework.events import ClusterEvent
from scheduler.engine.framework.nominated import Nomination
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.update_events import list_node_events
from scheduler.engine.framework.writes import NoWrites
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import PodGroup
from scheduler.engine.objects.preemptor import Preemptor
from scheduler.engine.objects.requests import CPU
from scheduler.engine.objects.types import Object
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.records.build import Origin
from scheduler.live.event_explanations import EventExplainer
from scheduler.live.in_flight import BindRequests
from scheduler.live.loop import Loop
from scheduler.live.metrics import SchedulerMetrics
from scheduler.live.plugin_handle import ApiHandle
from scheduler.live.scheduler import BackgroundThreads, Scheduler, WriteFence
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.spool import Spool
from tests.scheduler import spools
from tests.scheduler.builders import PROFILE, NodeBuilder, PodBuilder, make_node, make_pod
from tests.scheduler.engine.framework.plugins import Reserves, text

BACKOFF_S = 0.05  # long enough that a test sees what is before it is over


class SentWrites(NoWrites):
    """The requests of loop and plugins to the API server, in short; `fail` and `hold` make binding fail or wait."""

    def __init__(self, spool: Path) -> None:
        self.sent: list[tuple[str, ...]] = []
        self.refuse: list[str] = []  # what evictions fail with
        self.bound: list[tuple[str, str]] = []
        self.recorded_before: list[bool] = []
        self.fail: list[Exception] = []
        self.hold: threading.Event | None = None
        self.bind_requested = threading.Event()
        self.bind_requests: list[str] = []  # UIDs
        self._spool = spool

    def bind(self, pod: PodInfo, node: str, done: Callable[[str | None], None]) -> None:
        threading.Thread(target=lambda: done(self._bind(pod, node))).start()

    def _bind(self, pod: PodInfo, node: str) -> str | None:
        decided = [d for d in spools.of(Decision, self._spool) if d.key.pod_uid == pod.uid]
        names = spools.table(self._spool).names
        self.recorded_before.append(bool(decided) and names[decided[-1].chosen or 0] == node)
        failure = self.fail.pop(0) if self.fail else None  # of the first request, however long that one is held
        self.bind_requests.append(pod.uid)
        self.bind_requested.set()
        if self.hold is not None:
            assert self.hold.wait(60)
        if failure is not None:
            return str(failure)
        self.bound.append((pod.uid, node))
        return None

    def scheduled(self, pod: PodInfo, node: str) -> None:
        self.sent.append(("scheduled", pod.name, node))

    def not_scheduled(
        self, pod: PodInfo, reason: str, message: str, nomination: Nomination | None, explanation: str = ""
    ) -> None:
        self.sent.append((reason, pod.name, message) + ((explanation,) if explanation else ()))
        if nomination is not None and nomination.node != pod.pod.status.nominated_node_name:
            self.sent.append(("nominated", pod.name, nomination.node))

    def skipped(self, pod: PodInfo, note: str) -> None:
        self.sent.append(("skipped", pod.name, note))

    def nominate(self, pod: PodInfo, node: str) -> None:
        self.sent.append(("nominated", pod.name, node))

    def finish_bindings(self) -> None:
        self.sent.append(("finished",))

    def evict(self, victim: PodInfo, preemptor: Preemptor, node: str) -> None:
        if self.refuse:
            raise ValueError(self.refuse.pop(0))
        self.sent.append(("evicted", victim.name, node))

    def preempted(self, victim: PodInfo, preemptor: Preemptor, node: str, *, in_memory: bool) -> None:
        self.sent.append(("taken back" if in_memory else "preempted", victim.name, preemptor.name))


class World:
    """A loop and everything around it; `step` and `until` take the place of its thread."""

    def __init__(
        self,
        spool: Path,
        *,
        preempts: bool = True,
        dry_run: bool = False,
        gates: dict[str, bool] | None = None,
        schedulers: Sequence[str] = (PROFILE,),
        explains: bool = False,
    ) -> None:
        self.spool = spool
        self.shared = ClusterState()
        self.handle = ApiHandle(self.shared, preempts=preempts, evicts=not dry_run)
        self.writes = SentWrites(spool)
        self.handle.connect(self.writes)
        self.leading = True
        self.synced: list[int] = []  # nodes that were known whenever the loop said that it is ready
        profile = build_profile(Configuration(feature_gates=gates or {}), 0, IN_TREE, self.handle)
        self.framework = Framework(profile, time.monotonic, (), self.shared.nominator)
        frameworks = dict.fromkeys(schedulers, self.framework)
        recorder = Recorder(lambda incarnation: Spool(spool, incarnation), Origin("cluster", "test"), "0")
        scheduler = Scheduler(
            frameworks=frameworks,
            cluster=self.shared,
            queue=SchedulingQueue.for_profiles(frameworks, BACKOFF_S, BACKOFF_S),
            recorder=recorder,
            metrics=SchedulerMetrics(),
            requests=BindRequests(recorder),
            threads=BackgroundThreads(2),
            writes=self.writes,
            fence=WriteFence(lambda: self.leading),
        )
        synced = lambda: self.synced.append(len(self.shared.cache.columns.names))  # noqa: E731
        explainer = EventExplainer() if explains else None
        kinds: dict[str, type[Object]] = {"podgroups": PodGroup} if gates and gates.get("GenericWorkload") else {}
        self.loop = Loop(scheduler, kinds, dry_run=dry_run, on_synced=synced, event_explainer=explainer)

    def reserve_with(self, *plugins: Any) -> None:
        profile = self.framework.profile
        object.__setattr__(profile, "reserve", (*plugins, *profile.reserve))  # PreBind fails without the profile's own

    def nodes(self, *nodes: NodeBuilder) -> None:
        self.loop.inbox.put(ListResult(NODES, [n.obj() for n in nodes]))

    def pods(self, *pods: PodBuilder) -> None:
        self.loop.inbox.put(ListResult(PODS, [p.obj() for p in pods]))

    def node(self, type: str, node: NodeBuilder) -> None:
        self.loop.inbox.put(WatchEvent(NODES, type, node.obj()))

    def pod(self, type: str, pod: PodBuilder) -> None:
        self.loop.inbox.put(WatchEvent(PODS, type, pod.obj()))

    def start(self, *nodes: NodeBuilder, pods: Iterable[PodBuilder] = ()) -> None:
        self.nodes(*(nodes or (make_node("n"),)))
        self.pods(*pods)

    def settle(self) -> None:
        """Until there is nothing more to do at once."""
        while self.loop.step(0.0) or self.loop.scheduler.in_flight:
            pass

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "it did not happen"
            self.loop.step(0.002)

    @property
    def requested(self) -> dict[str, int]:
        """Return the requested cpu by node."""
        columns = self.loop.cache.columns
        return {columns.names[s]: int(columns.requested(CPU)[s]) for s in range(columns.slots) if columns.names[s]}

    @property
    def decisions(self) -> list[Decision]:
        return spools.of(Decision, self.spool)

    @property
    def outcomes(self) -> list[tuple[str, Code, str, bool]]:
        return [(o.phase, o.status, o.node, o.final) for o in spools.of(Outcome, self.spool)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "spool")
    yield made
    if made.writes.hold is not None:
        made.writes.hold.set()
    made.loop.binder.close()


def waiting(name: str = "p", cpu: str = "1") -> PodBuilder:
    return make_pod(name).request(cpu=cpu)


FULL = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: "
NO_VICTIMS, UNHELPFUL = "1 No preemption victims found for incoming pod.", "1 Preemption is not helpful for scheduling."


def test_the_loop_is_ready_once_every_kind_is_listed(world: World) -> None:
    """Plugins build what they keep about the cluster before the first pod, with the nodes that there are."""
    world.nodes(make_node("a").allocatable(cpu="4", pods="9"))
    world.loop.step(0.0)
    assert world.synced == []
    world.pods(waiting())
    world.settle()
    world.node("ADDED", make_node("b").allocatable(cpu="4", pods="9"))
    world.settle()
    assert world.synced == [1]


class TestTheWayOfAPod:
    def test_pod_is_recorded_then_bound_then_reported(self, world: World) -> None:
        world.start(pods=[waiting()])
        world.settle()

        assert world.writes.bound == [("uid-p", "n")]
        assert world.writes.recorded_before == [True]
        assert world.writes.sent == [("scheduled", "p", "n")]
        assert [(d.pod.name, d.key.attempt, d.path, d.chosen) for d in world.decisions] == [
            ("p", 1, DecisionPath.ONLY_FEASIBLE, 0)
        ]
        assert world.outcomes == [("Bind", Code.SUCCESS, "n", True)]
        assert spools.sequences(world.spool) == [1, 2]

    def test_a_pod_is_assumed_before_it_is_bound(self, world: World) -> None:
        world.writes.hold = threading.Event()
        world.start(make_node("n"), pods=[waiting("a", "3"), waiting("b", "3")])
        world.loop.step(0.0)
        assert world.writes.bind_requested.wait(60)
        assert world.requested == {"n": 3000}
        assert world.loop.cache.is_assumed("uid-a")

        world.loop.step(0.0)  # b sees a on the node although a is not bound yet

        assert world.writes.sent == [("Unschedulable", "b", FULL + NO_VICTIMS)]

    def test_the_watch_confirms_it(self, world: World) -> None:
        world.start(pods=[waiting()])
        world.settle()
        assert world.loop.cache.is_assumed("uid-p")
        world.pod("MODIFIED", waiting().node("n"))
        world.settle()
        assert (world.loop.cache.is_assumed("uid-p"), world.requested) == (False, {"n": 1000})

    def test_no_pod_is_tried_before_every_kind_is_listed(self, world: World) -> None:
        world.pods(waiting())
        world.settle()
        assert world.decisions == []
        world.nodes(make_node("n"))
        world.settle()
        assert len(world.decisions) == 1

    def test_the_best_of_several_nodes(self, world: World) -> None:
        world.start(make_node("small").allocatable(cpu="2"), make_node("large").allocatable(cpu="8"), pods=[waiting()])
        world.settle()
        assert world.writes.bound == [("uid-p", "large")]
        assert world.decisions[0].path is DecisionPath.SCORED

    def test_waiting_times_and_attempts_are_in_the_record(self, world: World) -> None:
        world.writes.fail = [RuntimeError("no")]
        world.start(pods=[waiting()])
        world.until(lambda: world.writes.bound)
        first, second = world.decisions
        assert (first.key.attempt, second.key.attempt) == (1, 2)
        assert (set(first.times.queues_s), set(second.times.queues_s)) == ({"active"}, {"active", "backoff"})
        assert second.times.queues_s["backoff"] >= BACKOFF_S
        assert first.times.queued_us == second.times.queued_us <= first.times.started_us < second.times.started_us
        assert first.times.created_us == 1_772_366_398_000_000


class TestNotPlaced:
    def test_an_unschedulable_pod_waits_for_an_event_that_may_help(self, world: World) -> None:
        world.start(pods=[waiting(cpu="5")])
        world.settle()
        assert world.writes.sent == [("Unschedulable", "p", FULL + UNHELPFUL)]
        assert world.loop.queue.lengths()["unschedulable"] == 1

        world.node("MODIFIED", make_node("n").label("irrelevant", "x"))
        world.settle()
        assert len(world.decisions) == 1

        world.node("MODIFIED", make_node("n").allocatable(cpu="8"))
        world.until(lambda: world.writes.bound)
        first, second = world.decisions
        assert second.key.attempt == 2
        assert (first.requeued_by, second.requeued_by) == (
            None,
            RequeueEvent("NodeUpdateNodeAllocatable", "NodeResourcesFit"),
        )
        assert first.retry is not None
        assert (first.retry.queue, second.retry) == ("unschedulable", None)

    def test_events_during_binding_are_not_missed(self, world: World) -> None:
        """The binding fails for want of room elsewhere; the room that came meanwhile is not waited for twice."""
        world.writes.hold = threading.Event()
        world.writes.fail = [RuntimeError("no")]
        world.start(pods=[waiting()])
        world.loop.step(0.0)
        assert world.writes.bind_requested.wait(60)
        world.node("MODIFIED", make_node("n").allocatable(cpu="8"))
        world.loop.step(0.0)
        assert world.loop.queue.in_flight() == (1, 1)
        world.writes.hold.set()
        world.until(lambda: world.writes.bound)
        world.until(lambda: world.loop.queue.in_flight() == (0, 0))

    @pytest.mark.parametrize(
        "makes_room",
        [
            pytest.param(lambda w: w.pod("DELETED", waiting("old", "4").node("n")), id="deleted"),
            pytest.param(lambda w: w.pod("MODIFIED", waiting("old", "4").node("n").phase("Succeeded")), id="finished"),
            pytest.param(lambda w: w.pod("MODIFIED", waiting("old", "1").node("n")), id="scaled down"),
            pytest.param(lambda w: w.node("ADDED", make_node("m")), id="another node"),
        ],
    )
    def test_freed_resources_requeue_the_pod(self, world: World, makes_room: Callable[[World], None]) -> None:
        world.start(pods=[waiting("old", "4").node("n"), waiting()])
        world.settle()
        assert world.writes.bound == []
        makes_room(world)
        world.until(lambda: world.writes.bound)

    def test_no_nodes(self, world: World) -> None:
        world.nodes()
        world.pods(waiting())
        world.loop.step(0.0)
        assert world.writes.sent == [("Unschedulable", "p", "no nodes available to schedule pods")]
        world.nodes(make_node("n"))
        world.until(lambda: world.writes.bound)

    def test_a_pod_is_kept_out_of_the_queue_until_its_resource_claim_exists(self, world: World) -> None:
        claims = [{"name": "gpu", "resourceClaimName": "x"}]
        world.start(pods=[waiting().with_spec(resourceClaims=claims), waiting("q")])
        world.settle()
        assert [uid for uid, _ in world.writes.bound] == ["uid-q"]
        assert world.decisions[-1].pod.name == "q"

    @pytest.mark.parametrize("field", ["schedulingGroup", "workloadRef"])
    def test_a_pod_of_a_group_is_not_placed_by_itself(self, world: World, field: str) -> None:
        world.start(pods=[waiting().with_spec(**{field: {"name": "x"}}), waiting("q")])
        world.settle()
        (report,) = [s for s in world.writes.sent if s[1] == "p"]
        assert report[0] == "Unschedulable"
        assert "Herodotus does not support gang scheduling yet (plugin GangScheduling)" in report[2]
        assert [uid for uid, _ in world.writes.bound] == ["uid-q"]

    def test_gated_pods_are_never_attempted(self, world: World) -> None:
        world.start(pods=[waiting().gate("g")])
        world.settle()
        assert (world.decisions, world.writes.sent) == ([], [])
        world.pod("MODIFIED", waiting())
        world.settle()
        assert world.writes.bound == [("uid-p", "n")]

    def test_terminating_pods_are_skipped(self, world: World) -> None:
        world.start(pods=[waiting().terminating()])
        world.settle()
        assert world.writes.sent == [("skipped", "p", "skip schedule deleting pod: default/p")]
        assert (world.decisions, len(world.loop.queue)) == ([], 0)

    def test_pods_of_other_schedulers_are_not_queued(self, world: World) -> None:
        world.start(pods=[waiting().scheduler("default-scheduler"), waiting("unset").scheduler("")])
        world.settle()
        assert (world.decisions, len(world.loop.queue)) == ([], 0)

    def test_pods_of_other_schedulers_count_on_their_nodes(self, world: World) -> None:
        world.start(pods=[waiting(cpu="3").scheduler("default-scheduler").node("n")])
        world.settle()
        assert world.requested == {"n": 3000}


class TestBindingFails:
    def test_a_pod_whose_binding_failed_is_forgotten_and_retried(self, world: World) -> None:
        world.writes.fail = [RuntimeError("the API server said no")]
        world.start(pods=[waiting()])
        world.until(lambda: world.writes.sent)

        words = 'running Bind plugin "DefaultBinder": the API server said no'
        assert world.writes.sent == [("SchedulerError", "p", words)]
        assert world.requested == {"n": 0}
        world.until(lambda: world.writes.bound)
        assert world.requested == {"n": 1000}
        world.settle()
        assert world.outcomes == [("Bind", Code.ERROR, "n", True), ("Bind", Code.SUCCESS, "n", True)]

    def test_resources_freed_by_a_failed_binding_requeue_other_pods(self, world: World) -> None:
        world.writes.hold = threading.Event()
        world.writes.fail = [RuntimeError("no")]
        world.start(pods=[waiting("a", "3"), waiting("b", "3")])
        world.loop.step(0.0)
        assert world.writes.bind_requested.wait(60)
        world.loop.step(0.0)
        world.pod("DELETED", waiting("a", "3"))
        world.writes.hold.set()
        world.until(lambda: world.writes.bound)
        assert world.writes.bound == [("uid-b", "n")]

    def test_deleted_during_binding(self, world: World) -> None:
        world.writes.hold = threading.Event()
        world.writes.fail = [RuntimeError("not found")]
        world.start(pods=[waiting()])
        world.loop.step(0.0)
        assert world.writes.bind_requested.wait(60)
        world.pod("DELETED", waiting())
        world.loop.step(0.0)
        assert world.requested == {"n": 0}  # whatever the answer will be, it is gone
        world.writes.hold.set()
        world.settle()
        assert (world.requested, len(world.loop.queue), world.writes.sent) == ({"n": 0}, 0, [])

    def test_a_node_is_deleted_during_binding_and_returns(self, world: World) -> None:
        world.start(make_node("n"), pods=[waiting()])
        world.writes.hold = threading.Event()
        world.until(world.writes.bind_requested.is_set)
        world.node("DELETED", make_node("n"))
        world.loop.step(0.0)
        world.writes.hold.set()
        world.settle()
        world.pod("MODIFIED", waiting().node("n"))
        world.node("ADDED", make_node("n"))
        world.settle()
        assert (world.writes.bound, world.requested) == ([("uid-p", "n")], {"n": 1000})

    def test_a_pod_is_bound_and_deleted_before_the_response(self, world: World) -> None:
        world.writes.hold = threading.Event()
        world.start(pods=[waiting()])
        world.loop.step(0.0)
        assert world.writes.bind_requested.wait(60)
        world.pod("MODIFIED", waiting().node("n"))
        world.pod("DELETED", waiting().node("n"))
        world.loop.step(0.0)
        world.writes.hold.set()
        world.settle()
        assert (world.requested, len(world.loop.queue)) == ({"n": 0}, 0)
        assert world.writes.sent == [("scheduled", "p", "n")]

    def test_bound_by_someone_else_meanwhile(self, world: World) -> None:
        world.writes.hold = threading.Event()
        world.writes.fail = [RuntimeError("pod p is already assigned to node m")]
        world.start(make_node("n"), make_node("m").cordoned(), pods=[waiting()])
        world.loop.step(0.0)
        assert world.writes.bind_requested.wait(60)
        world.pod("MODIFIED", waiting().node("m"))
        world.loop.step(0.0)
        assert world.requested == {"n": 0, "m": 1000}
        world.writes.hold.set()
        world.settle()
        assert (world.requested, len(world.loop.queue), world.writes.sent) == ({"n": 0, "m": 1000}, 0, [])

    def test_the_newest_version_of_the_pod_is_tried_again(self, world: World) -> None:
        world.writes.hold = threading.Event()
        world.writes.fail = [RuntimeError("no")]
        world.start(pods=[waiting()])
        world.loop.step(0.0)
        assert world.writes.bind_requested.wait(60)
        world.pod("MODIFIED", waiting().label("v", "2"))
        world.loop.step(0.0)
        world.writes.hold.set()
        world.until(lambda: world.writes.bound)
        assert [d.pod.labels for d in world.decisions] == [{}, {"v": "2"}]

    def test_a_rejected_reservation_is_undone_and_reported(self, world: World) -> None:
        calls: list[str] = []
        world.reserve_with(Reserves("One", calls), Reserves("Two", calls, said=text("no room")))
        world.start(pods=[waiting()])
        world.settle()
        assert calls == ["reserve One", "reserve Two", "unreserve Two", "unreserve One"]
        assert world.writes.sent == [("Unschedulable", "p", "0/1 nodes are available: 1 no room.")]
        assert (world.requested, world.writes.bound) == ({"n": 0}, [])
        assert world.outcomes == [("Reserve", Code.UNSCHEDULABLE, "n", True)]

    def test_a_reservation_that_fails_is_an_error(self, world: World) -> None:
        world.reserve_with(Reserves("One", [], said=ValueError("broken")))
        world.start(pods=[waiting()])
        world.loop.step(0.0)
        assert world.writes.sent == [("SchedulerError", "p", 'running Reserve plugin "One": broken')]

    def test_unreserve_after_a_failed_binding(self, world: World) -> None:
        calls: list[str] = []
        world.reserve_with(Reserves("One", calls, unreserve=ValueError("even so")))
        world.writes.fail = [RuntimeError("no")]
        world.start(pods=[waiting()])
        world.until(lambda: world.writes.bound)
        assert calls == ["reserve One", "unreserve One", "reserve One"]


class TestListedAgain:
    def test_object_missing_from_a_new_list_is_removed(self, world: World) -> None:
        world.start(
            make_node("n"),
            make_node("m"),
            pods=[waiting("on-n").node("n"), waiting("on-m").node("m"), waiting("big", "9")],
        )
        world.settle()
        world.nodes(make_node("n"))
        world.pods(waiting("on-n").node("n"))
        world.settle()
        assert world.requested == {"n": 1000}
        assert len(world.loop.queue) == 0

    def test_assumed_pods_missing_from_a_new_list_free_their_resources(self, world: World) -> None:
        world.start(pods=[waiting()])
        world.settle()
        assert world.loop.cache.is_assumed("uid-p")
        world.pods()
        world.settle()
        assert world.requested == {"n": 0}

    def test_a_pod_of_the_same_name_is_another_one(self, world: World) -> None:
        world.start(make_node("n").allocatable(cpu="1"), pods=[waiting()])
        world.settle()
        world.pod("MODIFIED", waiting().node("n"))
        world.pods(waiting().uid("again"))  # recreated while the watch was away
        world.until(lambda: len(world.writes.bound) == 2)
        assert world.writes.bound == [("uid-p", "n"), ("again", "n")]

    def test_a_node_of_the_same_name_is_another_one(self, world: World) -> None:
        world.start(make_node("n"))
        world.settle()
        world.nodes(make_node("n").uid("again"))
        world.settle()
        assert world.loop.cache.columns.uids == ["again"]

    def test_an_update_of_a_pod_in_flight_does_not_queue_it_again(self, world: World) -> None:
        world.writes.hold = threading.Event()
        world.start(pods=[waiting()])
        world.loop.step(0.0)
        assert world.writes.bind_requested.wait(60)
        world.pods(waiting())
        world.loop.step(0.0)
        world.writes.hold.set()
        world.settle()
        assert world.writes.bound == [("uid-p", "n")]
        assert len(world.decisions) == 1

    def test_a_heartbeat_changes_nothing(self, world: World) -> None:
        world.start(make_node("n"))
        world.settle()
        revision = world.loop.cache.columns.revision
        world.node("MODIFIED", make_node("n"))
        world.settle()
        assert world.loop.cache.columns.revision == revision


def test_the_record_has_the_node_table_that_the_cycle_saw(world: World) -> None:
    world.start(make_node("n"), make_node("gone"), pods=[waiting("a"), waiting("b")])
    world.settle()
    world.node("DELETED", make_node("gone"))
    world.node("ADDED", make_node("new").allocatable(cpu="64"))
    world.pod("ADDED", waiting("c"))
    world.settle()
    table = spools.table(world.spool)
    assert sorted(filter(None, table.names)) == ["n", "new"]
    assert spools.sequences(world.spool) == list(range(1, 7))
    assert table.generation == world.decisions[-1].generation


@pytest.mark.parametrize(
    ("old", "new", "events"),
    [
        pytest.param(None, make_node(), [ClusterEvent.NODE_ADD], id="new"),
        pytest.param(make_node(), make_node(), [], id="the same"),
        pytest.param(make_node(), make_node().allocatable(cpu="5"), [ClusterEvent.NODE_ALLOCATABLE], id="allocatable"),
        pytest.param(make_node(), make_node().label("k", "v"), [ClusterEvent.NODE_LABEL], id="labels"),
        pytest.param(make_node(), make_node().taint("k"), [ClusterEvent.NODE_TAINT], id="taints"),
        pytest.param(make_node().cordoned(), make_node(), [ClusterEvent.NODE_TAINT], id="uncordoned"),
        pytest.param(make_node(), make_node().cordoned(), [], id="cordoned"),
        pytest.param(make_node(), make_node().image(5, "i:1"), [], id="images"),
        pytest.param(
            make_node(),
            make_node().taint("k").label("k", "v").allocatable(cpu="5"),
            [ClusterEvent.NODE_ALLOCATABLE, ClusterEvent.NODE_LABEL, ClusterEvent.NODE_TAINT],
            id="several",
        ),
    ],
)
def test_node_update_becomes_cluster_events(
    old: NodeBuilder | None, new: NodeBuilder, events: list[ClusterEvent]
) -> None:
    assert list_node_events(old.obj() if old else None, new.obj()) == events


def test_loop_stops_and_waits_for_its_bindings(world: World) -> None:
    world.writes.hold = threading.Event()
    world.start(pods=[waiting()])
    stop = threading.Event()
    thread = threading.Thread(target=world.loop.run, args=(stop,))
    thread.start()
    assert world.writes.bind_requested.wait(60)
    stop.set()
    world.loop.inbox.put(ListResult(NODES, [make_node("n").obj()]))  # wakes it
    world.writes.hold.set()
    thread.join(60)
    assert not thread.is_alive()
    assert sorted(world.writes.sent) == [("finished",), ("scheduled", "p", "n")]


def test_work_submitted_after_the_loop_ended_is_dropped(world: World) -> None:
    world.loop.binder.close()
    world.loop.scheduler.threads.submit(lambda: pytest.fail("too late"))


def test_balance_counts_what_pods_request_of_each_node(world: World) -> None:
    nodes = (make_node("a").allocatable(cpu="4", memory="1Gi", pods="9"), make_node("b").allocatable(cpu="4", pods="9"))
    world.start(*nodes, pods=[waiting("p").node("a"), waiting("q").node("a")])
    world.settle()
    assert world.loop.scheduler.sizes().requested_shares == {
        "cpu": pytest.approx([0.0, 0.05, 0.25, 0.45, 0.5]),
        "memory": [0.0] * 5,
    }


def test_a_preemptor_whose_evictions_are_denied_backs_off(world: World) -> None:
    low = make_pod("low").node("n").priority(1).request(cpu="1")
    world.writes.refuse = ["admission webhook denied the request"] * 10_000
    world.start(make_node("n").allocatable(cpu="1"), pods=[low, make_pod("high").priority(100).request(cpu="1")])
    end = time.monotonic() + 20 * BACKOFF_S
    while time.monotonic() < end:
        world.loop.step(0.002)
    denied = [o for o in world.outcomes if o[:2] == ("Evict", Code.ERROR)]
    attempts = len(world.decisions) + world.loop.scheduler.recorder.repeated
    assert 2 < attempts <= 2 + 20
    assert len(denied) in (attempts, attempts - 1)
    assert len(world.decisions) <= 3  # of about a second
