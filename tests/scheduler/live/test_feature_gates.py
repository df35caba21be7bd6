"""Feature gates that change the way of a pod through the loop, each with the other value than its default."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scheduler.engine.framework.reserve_and_bind import ReserveAndBindPlugins
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


@contextmanager
def world_with(directory: Path, **gates: bool) -> Iterator[LoopWorld]:
    made = LoopWorld(directory / "spool", gates=gates)
    yield made
    made.loop.binder.close()


def test_without_asynchronous_preemption_the_victims_go_before_the_attempt_is_reported(tmp_path: Path) -> None:
    with world_with(tmp_path, SchedulerAsyncPreemption=False) as world:
        world.start(pods=[ran("a", "2"), ran("b", "1500m", 1), waiting("high", "3").priority(10)])
        world.loop.step(0.0)
        sent = [said[:2] for said in world.writes.sent]
        assert sent == [
            ("evicted", "b"),
            ("preempted", "b"),
            ("evicted", "a"),
            ("preempted", "a"),
            ("Unschedulable", "high"),
            ("nominated", "high"),
        ]
        assert sorted(messages(world)) == ["default/a evicted", "default/b evicted"]
        assert world.shared.preempting == set()  # PreEnqueue holds nothing back
        world.pod("DELETED", ran("a", "2"))
        world.pod("DELETED", ran("b", "1500m", 1))
        world.until(lambda: world.writes.bound == [("uid-high", "n")])


def test_an_eviction_that_fails_does_not_end_synchronous_preemption(tmp_path: Path) -> None:
    with world_with(tmp_path, SchedulerAsyncPreemption=False) as world:
        world.writes.refuse = ["server is tired"]
        world.start(pods=[ran("a", "2"), ran("b", "1500m", 1), waiting("high", "3").priority(10)])
        world.loop.step(0.0)
        assert [said[:2] for said in world.writes.sent if said[0] == "evicted"] == [("evicted", "a")]
        assert "default/b not evicted: server is tired" in messages(world)


def test_without_expectation_a_pod_that_waits_on_permit_is_not_nominated(tmp_path: Path) -> None:
    with world_with(tmp_path, NominatedNodeNameForExpectation=False) as world:
        with_plugins(world, permit=Permits())
        world.start(pods=[waiting()])
        world.until(lambda: len(world.shared.waiting))
        the_waiting(world).allow("Gate")
        world.until(lambda: world.writes.bound == [("uid-p", "n")])
        world.settle()
        assert [said[0] for said in world.writes.sent] == ["scheduled"]


def test_without_expectation_a_pod_with_work_in_pre_bind_is_not_nominated(tmp_path: Path) -> None:
    with world_with(tmp_path, NominatedNodeNameForExpectation=False) as world:
        with_plugins(world, pre_bind=PreBinds())
        world.start(pods=[waiting()])
        world.until(lambda: world.loop._cycles.parked)
        assert phases(world)[0][0] == "PreBind"
        assert world.writes.sent == []


def test_the_queue_of_a_profile_has_its_gates(tmp_path: Path) -> None:
    with world_with(tmp_path, SchedulerPopFromBackoffQ=False) as world:
        assert isinstance(world.framework, ReserveAndBindPlugins)
        assert not world.loop.queue.pops_from_backoff
    with world_with(tmp_path / "default") as world:
        assert world.loop.queue.pops_from_backoff
