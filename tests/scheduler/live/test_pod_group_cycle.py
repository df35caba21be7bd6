"""Pod groups in the loop: together or not at all, from the gated pods to the condition of the group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from herodotus_record.model import SUCCESS, Code, Outcome, PodGroupCycle, Verdict
from scheduler.engine.framework.verdicts import error
from tests.scheduler import spools
from tests.scheduler.builders import PROFILE, make_node
from tests.support.pod_group_loop import GroupWorld, bound, member
from tests.support.scheduling_loop import LoopWorld, messages, ran, waiting, with_plugins

WAITS = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled,"
    " one or more plugins asked to wait and no plugin rejected pod"
)
PREEMPTS = "pod group is unschedulable, pod group is waiting for preemption to complete"
FULL = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: "
NO_VICTIMS = FULL + "1 No preemption victims found for incoming pod."


class Breaks:
    """A Reserve plugin that fails for the pod "b"."""

    name = "Breaks"

    def reserve(self, state: Any, pod: Any, node: str) -> Verdict:
        return error("out of order") if pod.name == "b" else SUCCESS

    def unreserve(self, state: Any, pod: Any, node: str) -> None:
        pass


@pytest.fixture
def world(tmp_path: Path) -> Iterator[GroupWorld]:
    made = GroupWorld(tmp_path / "spool")
    yield made
    made.loop.binder.close()


class TestRecord:
    def test_decisions_name_the_group_its_cycle_and_their_place_in_it(self, world: GroupWorld) -> None:
        world.groups(g=2)
        world.start(make_node("n"), pods=[member("a"), member("b"), member("c", "64")])
        world.until(lambda: bound(world) == ["a", "b"])
        first = world.decisions[:3]
        assert [(d.pod.name, d.pod.pod_group) for d in first] == [("a", "g"), ("b", "g"), ("c", "g")]
        assert [d.group_cycle for d in first] == [PodGroupCycle(1, place, 3, 0, 2) for place in (1, 2, 3)]

    def test_a_later_cycle_counts_the_pods_that_are_on_nodes(self, world: GroupWorld) -> None:
        world.groups(g=1)
        world.start(make_node("n"), pods=[member("a")])
        world.until(lambda: bound(world) == ["a"])
        world.pod("ADDED", member("b"))
        world.until(lambda: bound(world) == ["a", "b"])
        assert world.decisions[-1].group_cycle == PodGroupCycle(2, 1, 1, 1, 1)

    def test_a_pod_without_a_group_has_no_cycle(self, world: GroupWorld) -> None:
        world.groups()
        world.start(make_node("n"), pods=[waiting("a", "1")])
        world.until(lambda: bound(world) == ["a"])
        assert (world.decisions[0].pod.pod_group, world.decisions[0].group_cycle) == ("", None)


class TestPlaced:
    def test_a_group_that_fits_is_bound_in_one_cycle(self, world: GroupWorld) -> None:
        world.groups(g=3)
        world.start(make_node("n"), pods=[member("a"), member("b"), member("c")])
        world.settle()
        assert bound(world) == ["a", "b", "c"]
        assert world.conditions == [("g", "True", "Scheduled", "")]
        assert {d.key.attempt for d in world.decisions} == {1}

    def test_more_than_the_quorum_is_bound_if_it_fits(self, world: GroupWorld) -> None:
        world.groups(g=2)
        world.start(make_node("n"), pods=[member("a"), member("b"), member("c"), member("d", "4")])
        world.until(lambda: bound(world) == ["a", "b", "c"])
        assert world.reasons("d")[0] == NO_VICTIMS
        assert world.conditions == [("g", "True", "Scheduled", "")]

    def test_members_are_tried_by_priority_and_age(self, world: GroupWorld) -> None:
        world.groups(g=2)
        world.start(make_node("n"), pods=[member("a", "2"), member("b", "2"), member("c", "2").priority(5)])
        world.until(lambda: len(world.decisions) >= 3)
        assert [d.pod.name for d in world.decisions[:3]] == ["c", "a", "b"]

    def test_a_later_member_counts_those_that_are_bound(self, world: GroupWorld) -> None:
        world.groups(g=2)
        world.start(make_node("n"), pods=[member("a"), member("b")])
        world.settle()
        for name in "ab":
            world.pod("MODIFIED", member(name).node("n"))
        world.pod("ADDED", member("late"))
        world.until(lambda: "late" in bound(world))

    def test_the_basic_policy_has_no_quorum(self, world: GroupWorld) -> None:
        world.groups(g=0)
        world.start(make_node("n"), pods=[member("a", "3"), member("b", "3")])
        world.until(lambda: len(bound(world)) == 1 and len(world.decisions) >= 2)


class TestNotPlaced:
    def test_no_member_is_bound_if_the_quorum_does_not_fit(self, world: GroupWorld) -> None:
        world.groups(g=3)
        world.start(make_node("n"), pods=[member("a", "2"), member("b", "2"), member("c", "2")])
        world.until(lambda: world.conditions)
        assert (world.writes.bound, world.requested) == ([], {"n": 0})
        assert (world.reasons("a")[0], world.reasons("b")[0], world.reasons("c")[0]) == (WAITS, WAITS, NO_VICTIMS)
        assert world.conditions == [("g", "False", "Unschedulable", "pod group is unschedulable")]
        assert world.loop.queue.lengths()["backoff"] == 3

    def test_the_record_has_the_node_of_a_member_that_was_undone(self, world: GroupWorld) -> None:
        world.groups(g=3)
        world.start(make_node("n"), pods=[member("a", "2"), member("b", "2"), member("c", "2")])
        world.until(lambda: world.conditions)
        found = [(o.phase, o.status, o.node, o.final, o.message) for o in spools.of(Outcome, world.spool)]
        assert found == [("PodGroup", Code.UNSCHEDULABLE, "n", True, WAITS)] * 2
        assert [d.chosen is None for d in world.decisions[:3]] == [False, False, True]

    def test_anti_affinity_of_a_member_that_was_assumed_counts(self, world: GroupWorld) -> None:
        term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        world.groups(g=2)
        node = make_node("n").label("kubernetes.io/hostname", "n")
        world.start(node, pods=[member("a").with_spec(affinity=affinity).priority(1), member("b").label("app", "x")])
        world.until(lambda: world.conditions)
        assert "didn't satisfy existing pods anti-affinity rules" in world.reasons("b")[0]
        assert world.writes.bound == []

    def test_room_that_a_group_only_tried_is_free_for_others(self, world: GroupWorld) -> None:
        world.groups(g=3)
        world.start(make_node("n"), pods=[member("a", "2"), member("b", "2"), member("c", "2")])
        world.until(lambda: world.conditions)
        world.pod("ADDED", waiting("alone", "4"))
        world.until(lambda: bound(world) == ["alone"])

    def test_it_is_tried_again_and_placed_when_there_is_room(self, world: GroupWorld) -> None:
        world.groups(g=2)
        world.start(make_node("n"), pods=[ran("old", "3"), member("a", "2"), member("b", "2")])
        world.until(lambda: world.conditions)
        world.pod("DELETED", ran("old", "3"))
        world.until(lambda: bound(world) == ["a", "b"])
        assert world.conditions[-1] == ("g", "True", "Scheduled", "")

    def test_further_pods_do_not_revoke_that_a_group_was_scheduled(self, world: GroupWorld) -> None:
        world.groups(g=1)
        world.start(make_node("n"), pods=[member("a")])
        world.settle()
        world.pod("MODIFIED", member("a").node("n"))
        world.pod("ADDED", member("big", "9"))
        world.until(lambda: world.reasons("big"))
        assert world.conditions == [("g", "True", "Scheduled", "")]

    def test_a_condition_is_not_revoked_before_the_watch_shows_it(self, world: GroupWorld) -> None:
        written: list[Any] = []
        world.writes.set_pod_group_condition = lambda _group, condition, **_: written.append(condition)  # type: ignore[method-assign]
        world.groups(g=1)
        world.start(make_node("n"), pods=[member("a"), member("big", "4")])
        world.until(lambda: len(world.reasons("big")) >= 3)
        assert written == [("True", "Scheduled", "")]

    def test_an_error_ends_the_cycle_for_all(self, world: GroupWorld) -> None:
        with_plugins(world, reserve=Breaks())
        world.groups(g=3)
        world.start(make_node("n"), pods=[member("a"), member("b"), member("c")])
        world.until(lambda: world.conditions)
        own = 'running Reserve plugin "Breaks": out of order'
        other = f"failed to schedule other pod from a pod group: {own}"
        assert (world.reasons("a")[0], world.reasons("b")[0], world.reasons("c")[0]) == (other, own, other)
        assert (world.writes.bound, world.requested) == ([], {"n": 0})
        assert world.conditions == [("g", "False", "SchedulerError", other)]

    def test_pods_of_two_profiles_cannot_be_one_group(self, tmp_path: Path) -> None:
        world = GroupWorld(tmp_path / "two", schedulers=(PROFILE, "other"))
        world.groups(g=2)
        world.start(make_node("n"), pods=[member("a"), member("b").scheduler("other")])
        world.until(lambda: world.reasons("b"))
        message = "all pods in a single pod group should have the same .spec.schedulerName set, got: "
        assert world.reasons("a")[0].startswith(message)
        assert world.writes.bound == []
        world.loop.binder.close()


class TestGated:
    def test_pods_wait_for_their_pod_group(self, world: GroupWorld) -> None:
        world.groups()
        world.start(make_node("n"), pods=[member("a")])
        world.settle()
        gate = next(iter(world.loop.queue)).gate
        assert gate is not None
        assert gate.verdict.reasons[0].code == "gang-no-group"
        world.group("g", 1, "ADDED")
        world.until(lambda: bound(world) == ["a"])

    def test_pods_that_are_listed_before_their_group_are_tried(self, world: GroupWorld) -> None:
        world.start(make_node("n"), pods=[member("a").gate("later"), member("b"), member("c")])
        world.groups(g=2)
        world.until(lambda: bound(world) == ["b", "c"])
        assert world.loop.queue.lengths()["gated"] == 1

    def test_pods_wait_for_the_quorum(self, world: GroupWorld) -> None:
        world.groups(g=2)
        world.start(make_node("n"), pods=[member("a"), member("other", group="h")])
        world.settle()
        assert world.loop.queue.lengths()["gated"] == 2
        world.pod("ADDED", member("b"))
        world.until(lambda: bound(world) == ["a", "b"])

    def test_without_the_gates_a_member_is_refused(self, tmp_path: Path) -> None:
        world = LoopWorld(tmp_path / "off")
        world.start(make_node("n"), pods=[member("a")])
        world.settle()
        assert "does not support gang scheduling" in world.writes.sent[0][2]
        world.loop.binder.close()


class TestPreemption:
    def test_a_group_waits_for_the_victims_of_its_members(self, world: GroupWorld) -> None:
        world.groups(g=2)
        pods = [ran("old", "3"), member("a", "1").priority(10), member("b", "3").priority(10)]
        world.start(make_node("n"), pods=pods)
        world.until(lambda: ("evicted", "old", "n") in world.writes.sent)
        world.until(lambda: world.conditions)
        assert world.reasons("a")[0] == PREEMPTS
        assert world.reasons("b")[0] == "0/1 nodes are available: 1 Insufficient cpu."
        assert {said[1:] for said in world.writes.sent if said[0] == "nominated"} >= {("a", "n"), ("b", "n")}
        assert world.conditions == [("g", "False", "Unschedulable", PREEMPTS)]
        assert world.writes.bound == []
        world.until(lambda: "default/old evicted" in messages(world))
        world.pod("DELETED", ran("old", "3"))
        world.until(lambda: bound(world) == ["a", "b"])

    def test_a_dry_run_keeps_the_whole_group(self, tmp_path: Path) -> None:
        world = GroupWorld(tmp_path / "dry", dry_run=True)
        world.groups(g=2)
        world.start(make_node("n"), pods=[member("a"), member("b")])
        world.settle()
        assert (world.writes.bound, world.requested) == ([], {"n": 2000})
        world.loop.binder.close()


def test_a_group_that_does_not_fit_waits_for_its_backoff(world: GroupWorld) -> None:
    """Its pods go to backoff without an event, so that taking them from there early would try them without a pause."""
    world.groups(g=2)
    world.start(make_node("n"), pods=[member("a"), member("b", "64")])
    for _ in range(50):
        world.loop.step(0.0)
    assert [(d.pod.name, d.key.attempt) for d in world.decisions] == [("a", 1), ("b", 1)]
