"""The loop with its real parts in one process: cache, queue, plugins, recorder, spool. Only the API server is missing.

What the watch would bring is put into the inbox; what the scheduler would send arrives at `SentWrites`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from herodotus_kube.watch import ListResult
from herodotus_record.model import Code, DecisionPath, RequeueEvent
from scheduler.backend.event_handlers import NODES
from scheduler.engine.framework.events import ClusterEvent
from scheduler.engine.framework.update_events import list_node_events
from tests.scheduler import spools
from tests.scheduler.builders import NodeBuilder, make_node, make_pod
from tests.scheduler.engine.framework.plugins import Reserves, text
from tests.support.scheduling_loop import BACKOFF_S, LoopWorld, waiting


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LoopWorld]:
    made = LoopWorld(tmp_path / "spool")
    yield made
    if made.writes.hold is not None:
        made.writes.hold.set()
    made.loop.binder.close()


FULL = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: "
NO_VICTIMS, UNHELPFUL = "1 No preemption victims found for incoming pod.", "1 Preemption is not helpful for scheduling."


def test_the_loop_is_ready_once_every_kind_is_listed(world: LoopWorld) -> None:
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
    def test_pod_is_recorded_then_bound_then_reported(self, world: LoopWorld) -> None:
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

    def test_a_pod_is_assumed_before_it_is_bound(self, world: LoopWorld) -> None:
        world.writes.hold = threading.Event()
        world.start(make_node("n"), pods=[waiting("a", "3"), waiting("b", "3")])
        world.loop.step(0.0)
        assert world.writes.bind_requested.wait(60)
        assert world.requested == {"n": 3000}
        assert world.loop.cache.is_assumed("uid-a")

        world.loop.step(0.0)  # b sees a on the node although a is not bound yet

        assert world.writes.sent == [("Unschedulable", "b", FULL + NO_VICTIMS)]

    def test_the_watch_confirms_it(self, world: LoopWorld) -> None:
        world.start(pods=[waiting()])
        world.settle()
        assert world.loop.cache.is_assumed("uid-p")
        world.pod("MODIFIED", waiting().node("n"))
        world.settle()
        assert (world.loop.cache.is_assumed("uid-p"), world.requested) == (False, {"n": 1000})

    def test_no_pod_is_tried_before_every_kind_is_listed(self, world: LoopWorld) -> None:
        world.pods(waiting())
        world.settle()
        assert world.decisions == []
        world.nodes(make_node("n"))
        world.settle()
        assert len(world.decisions) == 1

    def test_the_best_of_several_nodes(self, world: LoopWorld) -> None:
        world.start(make_node("small").allocatable(cpu="2"), make_node("large").allocatable(cpu="8"), pods=[waiting()])
        world.settle()
        assert world.writes.bound == [("uid-p", "large")]
        assert world.decisions[0].path is DecisionPath.SCORED

    def test_waiting_times_and_attempts_are_in_the_record(self, world: LoopWorld) -> None:
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
    def test_an_unschedulable_pod_waits_for_an_event_that_may_help(self, world: LoopWorld) -> None:
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

    def test_events_during_binding_are_not_missed(self, world: LoopWorld) -> None:
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
    def test_freed_resources_requeue_the_pod(self, world: LoopWorld, makes_room: Callable[[LoopWorld], None]) -> None:
        world.start(pods=[waiting("old", "4").node("n"), waiting()])
        world.settle()
        assert world.writes.bound == []
        makes_room(world)
        world.until(lambda: world.writes.bound)

    def test_no_nodes(self, world: LoopWorld) -> None:
        world.nodes()
        world.pods(waiting())
        world.loop.step(0.0)
        assert world.writes.sent == [("Unschedulable", "p", "no nodes available to schedule pods")]
        world.nodes(make_node("n"))
        world.until(lambda: world.writes.bound)

    def test_a_pod_is_kept_out_of_the_queue_until_its_resource_claim_exists(self, world: LoopWorld) -> None:
        claims = [{"name": "gpu", "resourceClaimName": "x"}]
        world.start(pods=[waiting().with_spec(resourceClaims=claims), waiting("q")])
        world.settle()
        assert [uid for uid, _ in world.writes.bound] == ["uid-q"]
        assert world.decisions[-1].pod.name == "q"

    @pytest.mark.parametrize("field", ["schedulingGroup", "workloadRef"])
    def test_a_pod_of_a_group_is_not_placed_by_itself(self, world: LoopWorld, field: str) -> None:
        world.start(pods=[waiting().with_spec(**{field: {"name": "x"}}), waiting("q")])
        world.settle()
        (report,) = [s for s in world.writes.sent if s[1] == "p"]
        assert report[0] == "Unschedulable"
        assert "Herodotus does not support gang scheduling yet (plugin GangScheduling)" in report[2]
        assert [uid for uid, _ in world.writes.bound] == ["uid-q"]

    def test_gated_pods_are_never_attempted(self, world: LoopWorld) -> None:
        world.start(pods=[waiting().gate("g")])
        world.settle()
        assert (world.decisions, world.writes.sent) == ([], [])
        world.pod("MODIFIED", waiting())
        world.settle()
        assert world.writes.bound == [("uid-p", "n")]

    def test_terminating_pods_are_skipped(self, world: LoopWorld) -> None:
        world.start(pods=[waiting().terminating()])
        world.settle()
        assert world.writes.sent == [("skipped", "p", "skip schedule deleting pod: default/p")]
        assert (world.decisions, len(world.loop.queue)) == ([], 0)

    def test_pods_of_other_schedulers_are_not_queued(self, world: LoopWorld) -> None:
        world.start(pods=[waiting().scheduler("default-scheduler"), waiting("unset").scheduler("")])
        world.settle()
        assert (world.decisions, len(world.loop.queue)) == ([], 0)

    def test_pods_of_other_schedulers_count_on_their_nodes(self, world: LoopWorld) -> None:
        world.start(pods=[waiting(cpu="3").scheduler("default-scheduler").node("n")])
        world.settle()
        assert world.requested == {"n": 3000}


class TestBindingFails:
    def test_a_pod_whose_binding_failed_is_forgotten_and_retried(self, world: LoopWorld) -> None:
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

    def test_resources_freed_by_a_failed_binding_requeue_other_pods(self, world: LoopWorld) -> None:
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

    def test_deleted_during_binding(self, world: LoopWorld) -> None:
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

    def test_a_node_is_deleted_during_binding_and_returns(self, world: LoopWorld) -> None:
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

    def test_a_pod_is_bound_and_deleted_before_the_response(self, world: LoopWorld) -> None:
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

    def test_bound_by_someone_else_meanwhile(self, world: LoopWorld) -> None:
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

    def test_the_newest_version_of_the_pod_is_tried_again(self, world: LoopWorld) -> None:
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

    def test_a_rejected_reservation_is_undone_and_reported(self, world: LoopWorld) -> None:
        calls: list[str] = []
        world.reserve_with(Reserves("One", calls), Reserves("Two", calls, said=text("no room")))
        world.start(pods=[waiting()])
        world.settle()
        assert calls == ["reserve One", "reserve Two", "unreserve Two", "unreserve One"]
        assert world.writes.sent == [("Unschedulable", "p", "0/1 nodes are available: 1 no room.")]
        assert (world.requested, world.writes.bound) == ({"n": 0}, [])
        assert world.outcomes == [("Reserve", Code.UNSCHEDULABLE, "n", True)]

    def test_a_reservation_that_fails_is_an_error(self, world: LoopWorld) -> None:
        world.reserve_with(Reserves("One", [], said=ValueError("broken")))
        world.start(pods=[waiting()])
        world.loop.step(0.0)
        assert world.writes.sent == [("SchedulerError", "p", 'running Reserve plugin "One": broken')]

    def test_unreserve_after_a_failed_binding(self, world: LoopWorld) -> None:
        calls: list[str] = []
        world.reserve_with(Reserves("One", calls, unreserve=ValueError("even so")))
        world.writes.fail = [RuntimeError("no")]
        world.start(pods=[waiting()])
        world.until(lambda: world.writes.bound)
        assert calls == ["reserve One", "unreserve One", "reserve One"]


class TestListedAgain:
    def test_object_missing_from_a_new_list_is_removed(self, world: LoopWorld) -> None:
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

    def test_assumed_pods_missing_from_a_new_list_free_their_resources(self, world: LoopWorld) -> None:
        world.start(pods=[waiting()])
        world.settle()
        assert world.loop.cache.is_assumed("uid-p")
        world.pods()
        world.settle()
        assert world.requested == {"n": 0}

    def test_a_pod_of_the_same_name_is_another_one(self, world: LoopWorld) -> None:
        world.start(make_node("n").allocatable(cpu="1"), pods=[waiting()])
        world.settle()
        world.pod("MODIFIED", waiting().node("n"))
        world.pods(waiting().uid("again"))  # recreated while the watch was away
        world.until(lambda: len(world.writes.bound) == 2)
        assert world.writes.bound == [("uid-p", "n"), ("again", "n")]

    def test_a_node_of_the_same_name_is_another_one(self, world: LoopWorld) -> None:
        world.start(make_node("n"))
        world.settle()
        world.nodes(make_node("n").uid("again"))
        world.settle()
        assert world.loop.cache.columns.uids == ["again"]

    def test_an_update_of_a_pod_in_flight_does_not_queue_it_again(self, world: LoopWorld) -> None:
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

    def test_a_heartbeat_changes_nothing(self, world: LoopWorld) -> None:
        world.start(make_node("n"))
        world.settle()
        revision = world.loop.cache.columns.revision
        world.node("MODIFIED", make_node("n"))
        world.settle()
        assert world.loop.cache.columns.revision == revision


def test_the_record_has_the_node_table_that_the_cycle_saw(world: LoopWorld) -> None:
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


def test_loop_stops_and_waits_for_its_bindings(world: LoopWorld) -> None:
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


def test_work_submitted_after_the_loop_ended_is_dropped(world: LoopWorld) -> None:
    world.loop.binder.close()
    world.loop.scheduler.threads.submit(lambda: pytest.fail("too late"))


def test_balance_counts_what_pods_request_of_each_node(world: LoopWorld) -> None:
    nodes = (make_node("a").allocatable(cpu="4", memory="1Gi", pods="9"), make_node("b").allocatable(cpu="4", pods="9"))
    world.start(*nodes, pods=[waiting("p").node("a"), waiting("q").node("a")])
    world.settle()
    assert world.loop.scheduler.sizes().requested_shares == {
        "cpu": pytest.approx([0.0, 0.05, 0.25, 0.45, 0.5]),
        "memory": [0.0] * 5,
    }


def test_a_preemptor_whose_evictions_are_denied_backs_off(world: LoopWorld) -> None:
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
