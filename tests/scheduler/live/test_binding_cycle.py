"""From the choice to the binding with the loop's real parts: waiting on Permit, volumes, nominated pods, preemption."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from herodotus_record.model import SUCCESS, Code, DecisionPath, Outcome, Reason, Verdict
from scheduler.engine.framework.verdicts import error
from scheduler.engine.framework.waiting import WaitingPod
from scheduler.live.binding_cycle import DRY_RUN_MESSAGE, NOT_LEADING
from scheduler.live.in_flight import INITIAL_IN_FLIGHT
from scheduler.live.metrics import SCHEDULED
from tests.scheduler import spools
from tests.scheduler.builders import make_node, make_pod
from tests.support.scheduling_loop import (
    LoopWorld,
    Permits,
    PreBinds,
    messages,
    phases,
    ran,
    the_waiting,
    waiting,
    with_plugins,
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LoopWorld]:
    made = LoopWorld(tmp_path / "spool")
    yield made
    made.loop.binder.close()


class TestPermit:
    def start(self, world: LoopWorld) -> None:
        with_plugins(world, permit=Permits())
        world.start(pods=[waiting()])
        world.until(lambda: len(world.shared.waiting))

    def test_a_waiting_pod_is_listed_and_keeps_its_resources_without_a_thread(self, world: LoopWorld) -> None:
        with_plugins(world, permit=Permits())
        world.start(make_node("n"), pods=[waiting(f"p{i}", "100m") for i in range(8)])  # of two threads
        world.until(lambda: len(world.shared.waiting) == 8)
        assert (world.requested, world.writes.bound) == ({"n": 800}, [])
        assert phases(world) == [("Permit", Code.WAIT, False)] * 8
        assert "waiting for Gate until 2" in messages(world)[0]
        world.until(lambda: ("nominated", "p0", "n") in world.writes.sent)

        object.__setattr__(world.framework.profile, "permit", ())
        world.pod("ADDED", waiting("free", "100m"))
        world.until(lambda: world.writes.bound == [("uid-free", "n")])

    def test_an_allowed_pod_is_bound(self, world: LoopWorld) -> None:
        self.start(world)
        the_waiting(world).allow("Gate")
        world.until(lambda: world.writes.bound == [("uid-p", "n")])
        world.settle()
        assert phases(world) == [
            ("Permit", Code.WAIT, False),
            ("Permit", Code.SUCCESS, False),
            ("Bind", Code.SUCCESS, True),
        ]

    def test_rejected_pod_gets_the_reason_and_waits_for_the_plugin(self, world: LoopWorld) -> None:
        self.start(world)
        assert the_waiting(world).reject("Gate", "not today")
        assert not the_waiting(world).reject("Gate", "again")
        world.until(lambda: world.writes.sent[-1:] == [("Unschedulable", "p", "0/1 nodes are available: 1 not today.")])
        assert (world.requested, len(world.shared.waiting)) == ({"n": 0}, 0)
        assert phases(world)[-1] == ("Permit", Code.UNSCHEDULABLE, True)

    def test_a_waiting_pod_is_rejected_after_its_timeout(self, world: LoopWorld) -> None:
        with_plugins(world, permit=Permits(timeout_s=0.01))
        world.start(pods=[waiting()])
        words = "rejected due to timeout after waiting 10ms at plugin Gate"
        world.until(lambda: ("Unschedulable", "p", f"0/1 nodes are available: 1 {words}.") in world.writes.sent)

    def test_deleted_pod_frees_its_resources_without_an_event(self, world: LoopWorld) -> None:
        self.start(world)
        world.pod("DELETED", waiting())
        world.until(lambda: not world.loop.scheduler.in_flight)
        assert (world.requested, len(world.loop.queue)) == ({"n": 0}, 0)
        assert [said[0] for said in world.writes.sent] == ["nominated"]


class TestPreBindThatWaits:
    def start(self, world: LoopWorld, plugin: PreBinds) -> None:
        with_plugins(world, pre_bind=plugin)
        world.start(pods=[waiting()])
        world.until(lambda: world.loop._cycles.parked)

    def test_permit_plugin_is_run_until_it_allows(self, world: LoopWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("scheduler.live.binding_cycle.POLL_S", 0.01)
        slow = PreBinds()
        self.start(world, slow)
        assert world.writes.sent == [("nominated", "p", "n")]
        assert messages(world) == ["Slow waits for the tide"]
        slow.said = SUCCESS
        world.until(lambda: world.writes.bound)
        world.settle()
        assert phases(world) == [
            ("PreBind", Code.WAIT, False),
            ("PreBind", Code.SUCCESS, False),
            ("Bind", Code.SUCCESS, True),
        ]

    @pytest.mark.parametrize(
        ("timeout_s", "said", "words"), [(60.0, error("ebb"), "ebb"), (0.0, None, "too late")], ids=["failed", "late"]
    )
    def test_a_failing_permit_plugin_fails_the_attempt(
        self, world: LoopWorld, monkeypatch: pytest.MonkeyPatch, timeout_s: float, said: Verdict | None, words: str
    ) -> None:
        monkeypatch.setattr("scheduler.live.binding_cycle.POLL_S", 0.01)
        slow = PreBinds(timeout_s)
        self.start(world, slow)
        slow.said = said
        failed = ("SchedulerError", "p", f'running PreBind plugin "Slow": {words}')
        world.until(lambda: failed in world.writes.sent)
        assert world.writes.bound == []

    def test_deleting_a_waiting_pod_ends_its_wait(self, world: LoopWorld) -> None:
        self.start(world, PreBinds())
        world.pod("DELETED", waiting())
        world.until(lambda: not world.loop.scheduler.in_flight)
        assert messages(world)[-1] == 'running PreBind plugin "Slow": pod does not exist any more'
        assert (world.requested, len(world.loop.queue)) == ({"n": 0}, 0)


class TestUnknownResult:
    """The request to bind ended without a result: nothing about the pod is final until there is one."""

    def start(self, world: LoopWorld, pods: int) -> None:
        world.writes.hold = threading.Event()
        world.start(make_node("n"), pods=[waiting(f"p{i}", "10m") for i in range(pods)])
        world.until(lambda: len(world.writes.bind_requests) == min(pods, INITIAL_IN_FLIGHT))
        for uid in world.writes.bind_requests:
            world.loop.scheduler.requests.mark_unknown(uid, "504")

    def test_the_decision_stays_open_until_the_result_is_known(self, world: LoopWorld) -> None:
        self.start(world, 1)
        world.loop.step(0.01)
        assert phases(world) == [("Bind", Code.WAIT, False)]
        assert "the result of the binding is unknown" in messages(world)[0]
        assert world.requested == {"n": 10}
        assert world.writes.hold is not None
        world.writes.hold.set()
        world.settle()
        assert phases(world) == [("Bind", Code.WAIT, False), ("Bind", Code.SUCCESS, True)]
        assert world.writes.sent == [("scheduled", "p0", "n")]

    def test_a_binding_with_an_unknown_result_does_not_block_other_bindings(self, world: LoopWorld) -> None:
        self.start(world, INITIAL_IN_FLIGHT + 1)
        world.until(lambda: len(world.writes.bind_requests) == INITIAL_IN_FLIGHT + 1)
        assert world.writes.hold is not None
        world.writes.hold.set()
        world.settle()
        assert len(world.writes.bound) == INITIAL_IN_FLIGHT + 1
        assert world.loop.scheduler.requests._counted == 0

    def test_no_more_is_decided_while_too_many_results_are_unknown(
        self, world: LoopWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("scheduler.live.in_flight.MOST_UNKNOWN", 1)
        self.start(world, 1)
        world.pod("ADDED", waiting("later", "10m"))
        for _ in range(5):
            assert world.loop.step(0.0)
        assert len(world.decisions) == 1
        assert world.writes.hold is not None
        world.writes.hold.set()
        world.until(lambda: len(world.writes.bound) == 2)


class TestNominatedPods:
    def test_nominated_pods_count_for_pods_of_lower_priority(self, world: LoopWorld) -> None:
        hopeful = waiting("hopeful", "3").priority(10).nominated("n").gate("wait")
        world.start(pods=[hopeful, waiting("low", "2")])
        world.settle()
        assert [(d.pod.name, d.path) for d in world.decisions] == [("low", DecisionPath.NONE)]
        assert "1 Insufficient cpu" in world.decisions[0].message
        assert world.decisions[0].notes == (Reason("nominated-pods", {"node": "n", "nominated": "default/hopeful"}),)

    def test_nominated_pods_do_not_count_for_pods_of_higher_priority(self, world: LoopWorld) -> None:
        hopeful = waiting("hopeful", "3").priority(10).nominated("n").gate("wait")
        world.start(pods=[hopeful, waiting("high", "2").priority(11)])
        world.settle()
        assert world.writes.bound == [("uid-high", "n")]

    def test_nominated_pods_do_not_satisfy_required_affinity(self, world: LoopWorld) -> None:
        """Affinity to a pod that is only nominated: the second pass, without it, decides."""
        hopeful = waiting("hopeful", "1").priority(10).label("app", "db").nominated("n").gate("wait")
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        friend = waiting("friend", "1").with_spec(affinity=affinity)
        world.start(make_node("n").label("kubernetes.io/hostname", "n"), pods=[hopeful, friend])
        world.settle()
        assert world.writes.bound == []

    def test_deleted_nominated_pods_free_their_resources(self, world: LoopWorld) -> None:
        hopeful = waiting("hopeful", "3").priority(10).nominated("n").gate("wait")
        world.start(pods=[hopeful, waiting("low", "2")])
        world.settle()
        world.pod("DELETED", hopeful)
        world.until(lambda: world.writes.bound == [("uid-low", "n")])


class TestPreemption:
    def test_victims_are_evicted_and_the_preemptor_is_nominated(self, world: LoopWorld) -> None:
        high = waiting("high", "3").priority(10)
        world.start(pods=[ran("a", "2"), ran("b", "1500m", 1), high])
        world.until(lambda: ("preempted", "a", "high") in world.writes.sent)
        assert [said for said in world.writes.sent if said[0] == "evicted"] == [
            ("evicted", "b", "n"),
            ("evicted", "a", "n"),  # the least important last, alone
        ]
        assert ("Unschedulable", "high", "0/1 nodes are available: 1 Insufficient cpu.") in world.writes.sent
        assert ("nominated", "high", "n") in world.writes.sent
        assert world.shared.nominator.node_of("uid-high") == "n"
        world.until(lambda: sorted(messages(world)) == ["default/a evicted", "default/b evicted"])
        assert world.decisions[0].preemption is not None
        assert world.decisions[0].preemption.evicted

        world.pod("ADDED", waiting("low", "2"))  # there would be room when the victims are gone, but it is kept
        world.pod("DELETED", ran("a", "2"))
        world.pod("DELETED", ran("b", "1500m", 1))
        world.until(lambda: world.writes.bound)
        assert world.writes.bound == [("uid-high", "n")]

    def test_preemptor_stays_out_of_the_active_queue_until_evictions_end(self, world: LoopWorld) -> None:
        hold, told = threading.Event(), threading.Event()

        def evict(victim: Any, preemptor: Any, node: str) -> None:
            told.set()
            assert hold.wait(60)

        world.writes.evict = evict  # type: ignore[method-assign]
        world.start(pods=[ran("a", "3"), waiting("high", "3").priority(10)])
        world.until(told.is_set)
        world.pod("DELETED", ran("a", "3"))
        world.settle()
        assert world.loop.queue.lengths()["gated"] == 1
        hold.set()
        world.until(lambda: world.writes.bound == [("uid-high", "n")])

    def test_the_nominated_node_comes_first_also_before_the_pod_shows_it(self, world: LoopWorld) -> None:
        hold, told = threading.Event(), threading.Event()

        def evict(victim: Any, preemptor: Any, node: str) -> None:
            told.set()
            assert hold.wait(60)

        world.writes.evict = evict  # type: ignore[method-assign]
        world.start(pods=[ran("a", "3"), ran("b", "1"), waiting("high", "3").priority(10)])
        world.until(told.is_set)
        world.node("ADDED", make_node("empty"))
        world.pod("DELETED", ran("a", "3"))
        hold.set()
        world.until(lambda: world.writes.bound)
        assert world.writes.bound == [("uid-high", "n")]

    def test_a_deleted_preemptor_frees_its_nomination(self, world: LoopWorld) -> None:
        hold, told = threading.Event(), threading.Event()

        def evict(victim: Any, preemptor: Any, node: str) -> None:
            told.set()
            assert hold.wait(60)

        world.writes.evict = evict  # type: ignore[method-assign]
        high = waiting("high", "3").priority(10)
        world.start(pods=[ran("a", "3"), high])
        world.until(told.is_set)
        world.pod("DELETED", high)
        world.pod("ADDED", waiting("low", "3"))
        world.settle()
        hold.set()
        world.pod("DELETED", ran("a", "3"))
        world.until(lambda: world.writes.bound == [("uid-low", "n")])
        world.until(lambda: not world.shared.preempting)
        assert world.shared.nominator.node_of("uid-high") == ""

    def test_victim_that_never_terminates_is_reported_once(self, world: LoopWorld) -> None:
        world.start(pods=[ran("a", "3"), waiting("high", "3").priority(10)])
        world.until(lambda: ("preempted", "a", "high") in world.writes.sent)
        world.pod("MODIFIED", ran("a", "3").terminating())  # a finalizer keeps it
        world.pod("MODIFIED", waiting("high", "3").priority(10).nominated("n"))
        world.settle()
        world.loop.queue.activate("uid-high", time.monotonic())
        world.settle()
        assert [said for said in world.writes.sent if said[0] == "evicted"] == [("evicted", "a", "n")]
        assert world.shared.nominator.node_of("uid-high") == "n"
        world.pod("DELETED", ran("a", "3"))
        world.until(lambda: world.writes.bound == [("uid-high", "n")])

    def test_a_failed_eviction_requeues_the_preemptor_at_once(self, world: LoopWorld) -> None:
        world.writes.refuse = ["server is tired"]
        world.start(pods=[ran("a", "3"), waiting("high", "3").priority(10)])
        world.until(lambda: ("evicted", "a", "n") in world.writes.sent)
        assert [d.key.attempt for d in world.decisions] == [1]  # the second is equal and counts on its record
        assert "default/a not evicted: server is tired" in messages(world)

    def test_terminating_victims_are_not_evicted_again(self, world: LoopWorld) -> None:
        world.start(pods=[ran("a", "3").terminating(), waiting("high", "3").priority(10)])
        world.settle()
        assert not [said for said in world.writes.sent if said[0] == "evicted"]
        assert world.shared.nominator.node_of("uid-high") == "n"

    def test_a_victim_that_waits_on_permit_is_requeued(self, world: LoopWorld) -> None:
        with_plugins(world, permit=Permits())
        world.start(pods=[waiting("low", "3")])
        world.until(lambda: len(world.shared.waiting))
        world.pod("ADDED", waiting("high", "3").priority(10))
        world.until(lambda: ("taken back", "low", "high") in world.writes.sent)
        world.until(lambda: world.shared.waiting.get("uid-high") is not None)
        assert ("SchedulerError", "low", "preempted") in world.writes.sent
        assert not [said for said in world.writes.sent if said[0] == "evicted"]

    def test_a_victim_in_pre_bind_is_requeued(self, world: LoopWorld) -> None:
        with_plugins(world, pre_bind=PreBinds())
        world.start(pods=[waiting("low", "3")])
        world.until(lambda: world.loop._cycles.parked)
        world.pod("ADDED", waiting("high", "3").priority(10))
        world.until(lambda: ("SchedulerError", "low", "preempted by DefaultPreemption") in world.writes.sent)

    def test_nominations_of_lower_priority_on_the_node_are_cleared(self, world: LoopWorld) -> None:
        hopeful = waiting("hopeful", "3").priority(5).nominated("n").gate("wait")
        world.start(pods=[ran("a", "3"), hopeful, waiting("high", "3").priority(10)])
        world.until(lambda: ("nominated", "hopeful", "") in world.writes.sent)

    def test_disabled_feature_is_reported(self, tmp_path: Path) -> None:
        world = LoopWorld(tmp_path / "off", preempts=False)
        world.start(pods=[ran("a", "3"), waiting("high", "3").priority(10)])
        world.settle()
        off = "no new claims to deallocate, preemption: switched off by --disable-preemption."
        assert world.writes.sent == [("Unschedulable", "high", f"0/1 nodes are available: 1 Insufficient cpu. {off}")]
        world.loop.binder.close()


class TestDryRun:
    @pytest.fixture
    def dry(self, tmp_path: Path) -> Iterator[LoopWorld]:
        made = LoopWorld(tmp_path / "spool", dry_run=True)
        yield made
        made.loop.binder.close()

    def test_pods_are_decided_once_and_count_but_nothing_is_bound(self, dry: LoopWorld) -> None:
        dry.start(pods=[waiting("a", "3"), waiting("b", "3")])
        dry.settle()
        dry.settle()
        assert dry.writes.bound == []
        assert (dry.requested, len(dry.decisions)) == ({"n": 3000}, 2)
        assert [(o.phase, o.status, o.message, o.final) for o in spools.of(Outcome, dry.spool)] == [
            ("DryRun", Code.SKIP, DRY_RUN_MESSAGE, True)
        ]

    def test_a_pod_that_is_not_bound_has_no_attempt_under_way(self, dry: LoopWorld) -> None:
        dry.start(pods=[waiting("a", "3")])
        dry.settle()
        metrics = dry.loop.scheduler.metrics
        metrics.ended(dry.decisions[0].pod.uid, SCHEDULED, dry.decisions[0].scheduler.profile)
        assert "scheduler_schedule_attempts_total{" not in generate_latest(metrics.registry).decode()

    def test_a_pod_that_changes_is_decided_again(self, dry: LoopWorld) -> None:
        dry.start(pods=[waiting("a", "3")])
        dry.settle()
        dry.pod("MODIFIED", waiting("a", "3"))
        dry.settle()
        assert len(dry.decisions) == 1
        dry.pod("MODIFIED", waiting("a", "3").label("new", "label"))
        dry.settle()
        assert (len(dry.decisions), dry.requested) == (2, {"n": 3000})

    def test_a_pod_that_another_bound_or_deleted_leaves_the_dry_run(self, dry: LoopWorld) -> None:
        dry.start(make_node("n"), make_node("m"), pods=[waiting("a", "3"), waiting("b", "3")])
        dry.settle()
        dry.pod("MODIFIED", waiting("a", "3").node("m"))
        dry.pod("DELETED", waiting("b", "3"))
        dry.settle()
        assert dry.requested == {"n": 0, "m": 3000}

    def test_victims_are_named_and_stay(self, dry: LoopWorld) -> None:
        dry.start(pods=[ran("a", "3"), waiting("high", "3").priority(10)])
        dry.settle()
        found = dry.decisions[0].preemption
        assert found is not None
        assert (found.nominated_node, found.evicted) == ("n", False)
        assert not [said for said in dry.writes.sent if said[0] in ("evicted", "preempted")]


def test_without_the_lease_nothing_is_bound(world: LoopWorld) -> None:
    world.leading = False
    world.start(pods=[waiting()])
    world.until(lambda: ("SchedulerError", "p", NOT_LEADING) in world.writes.sent)
    assert world.writes.bound == []


def test_waiting_pods_expire_by_the_clock_that_is_passed_in() -> None:
    ended: list[Any] = []
    pod = WaitingPod(make_pod().info(), "n", {"A": 2.0, "B": 5000.0}, 100.0, ended.append)
    assert pod.pending_plugins() == {"A": 102.0, "B": 1000.0}  # fifteen minutes at most
    pod.expire(101.9)
    pod.allow("A")
    pod.expire(999.0)
    assert ended == []
    pod.expire(1000.0)
    assert [refusal.verdict.reasons[0].params["text"] for refusal in ended] == [
        "rejected due to timeout after waiting 15m0s at plugin B"
    ]
