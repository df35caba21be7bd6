"""Preemption for a pod group as a whole: the least important pods and groups beside which it does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from herodotus_kube.watch import ListResult
from scheduler.engine.objects.pod_groups import PodGroup
from scheduler.engine.objects.workloads import PodDisruptionBudget
from tests.scheduler.builders import PodBuilder, make_node
from tests.support.pod_group_loop import GroupWorld, a_group, bound, member
from tests.support.scheduling_loop import messages, ran

GATES = {"WorkloadAwarePreemption": True}
UNSCHEDULABLE = "pod group is unschedulable"
BY_GROUP = "preemption: not eligible due to workload aware preemption enabled"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[GroupWorld]:
    made = GroupWorld(tmp_path / "spool", GATES)
    yield made
    made.loop.binder.close()


def list_groups(world: GroupWorld, *groups: PodGroup) -> None:
    world.loop.inbox.put(ListResult("podgroups", list(groups)))


def evicted(world: GroupWorld) -> list[str]:
    return sorted(said[1] for said in world.writes.sent if said[0] == "evicted")


def on_node(name: str, cpu: str, group: str = "") -> PodBuilder:
    pod = ran(name, cpu)
    return pod.with_spec(schedulingGroup={"podGroupName": group}) if group else pod


def test_the_least_important_pods_are_evicted_and_the_group_follows(world: GroupWorld) -> None:
    list_groups(world, a_group("g", 2, spec={"priority": 10}))
    old = [on_node("old", "1").priority(5), on_node("young", "2").priority(1)]
    world.start(make_node("n").allocatable(cpu="4"), pods=[*old, member("a", "1"), member("b", "2")])
    world.until(lambda: evicted(world) == ["young"])
    world.until(lambda: len(world.conditions) == 1)
    assert world.conditions == [("g", "False", "Unschedulable", UNSCHEDULABLE)]
    assert world.reasons("a")[0] == UNSCHEDULABLE
    assert world.reasons("b")[0].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert world.reasons("b")[0].endswith(BY_GROUP)
    assert ("nominated", "a", "n") in world.writes.sent
    assert bound(world) == []
    assert ("preempted", "young", "g") in world.writes.sent
    world.until(lambda: "default/young evicted" in messages(world))
    world.pod("DELETED", old[1])
    world.until(lambda: bound(world) == ["a", "b"])


def test_a_group_with_disruption_mode_podgroup_is_evicted_as_a_whole(world: GroupWorld) -> None:
    together = {"disruptionMode": "PodGroup", "priority": 1}
    list_groups(world, a_group("g", 2, spec={"priority": 10}), a_group("low", 2, spec=together))
    lows = [on_node(f"low-{i}", "1", "low").priority(50) for i in range(3)]  # of which one would be enough
    pods = [*lows, on_node("rest", "1").priority(2), member("a", "1"), member("b", "1")]
    world.start(make_node("n").allocatable(cpu="5"), pods=pods)
    world.until(lambda: evicted(world) == ["low-0", "low-1", "low-2"])


def test_pods_of_other_groups_are_evicted_one_by_one(world: GroupWorld) -> None:
    list_groups(world, a_group("g", 2, spec={"priority": 10}), a_group("low", 2))
    lows = [on_node(f"low-{i}", "1", "low").started(f"2026-01-0{i + 1}T00:00:00Z") for i in range(3)]
    world.start(make_node("n").allocatable(cpu="4"), pods=[*lows, member("a", "1"), member("b", "1")])
    world.until(lambda: len(evicted(world)) == 1)


def test_a_disruption_budget_is_spared_if_possible(world: GroupWorld) -> None:
    budget = {
        "metadata": {"name": "keep", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "kept"}}},
        "status": {"disruptionsAllowed": 0},
    }
    world.shared.objects.set(msgspec.convert(budget, PodDisruptionBudget))
    list_groups(world, a_group("g", 2, spec={"priority": 10}))
    pods = [on_node("kept", "2").label("app", "kept"), on_node("free", "2").priority(5)]
    world.start(make_node("n").allocatable(cpu="4"), pods=[*pods, member("a", "1"), member("b", "1")])
    world.until(lambda: evicted(world) == ["free"])


@pytest.mark.parametrize(
    ("priority", "fields", "size", "message"),
    [
        pytest.param(10, {}, "1", "No preemption victims found for incoming preemptor", id="no-victims"),
        pytest.param(20, {}, "9", UNSCHEDULABLE, id="too-large"),
        pytest.param(20, {"preemptionPolicy": "Never"}, "1", "not eligible due to preemptionPolicy=Never.", id="never"),
    ],
)
def test_why_a_group_does_not_preempt(world: GroupWorld, priority: int, fields: Any, size: str, message: str) -> None:
    list_groups(world, a_group("g", 2, spec={"priority": priority}))
    before = [on_node("old", "4").priority(10)]
    members = [member(name, size).priority(99).with_spec(**fields) for name in "ab"]
    world.start(make_node("n").allocatable(cpu="4"), pods=[*before, *members])
    world.until(lambda: len(world.conditions) == 1)
    assert world.conditions == [("g", "False", "Unschedulable", f"{UNSCHEDULABLE}, {message}")]
    assert evicted(world) == []
    assert world.requested == {"n": 4000}


def test_a_group_with_a_topology_constraint_does_not_preempt(tmp_path: Path) -> None:
    world = GroupWorld(tmp_path / "spool", {**GATES, "TopologyAwareWorkloadScheduling": True})
    spec = {"priority": 10, "schedulingConstraints": {"topology": [{"key": "rack"}]}}
    list_groups(world, a_group("g", 1, spec=spec))
    world.start(make_node("n").allocatable(cpu="4").label("rack", "a"), pods=[on_node("old", "4"), member("a", "1")])
    world.until(lambda: len(world.conditions) == 1)
    assert world.conditions[0][3] == (
        "0/1 placements are available, first placement status: pod group is unschedulable,"
        " workload aware preemption is not supported for pod groups with scheduling constraints"
    )
    assert evicted(world) == []
    world.loop.binder.close()


def test_while_victims_are_evicted_no_pod_of_the_group_is_tried(world: GroupWorld) -> None:
    list_groups(world, a_group("g", 1, spec={"priority": 10}))
    world.shared.preempting.add("uid-g")
    world.start(make_node("n").allocatable(cpu="4"), pods=[member("a", "1")])
    world.settle()
    assert world.decisions == []
    gate = world.loop.queue.get("uid-a")
    assert gate is not None
    assert gate.gate is not None
    assert gate.gate.plugin == "DefaultPreemption"


def test_a_dry_run_evicts_nothing(tmp_path: Path) -> None:
    world = GroupWorld(tmp_path / "spool", GATES, dry_run=True)
    list_groups(world, a_group("g", 1, spec={"priority": 10}))
    world.start(make_node("n").allocatable(cpu="4"), pods=[on_node("old", "4"), member("a", "1")])
    world.until(lambda: world.reasons("a") != [])
    assert world.shared.preempting == set()
    assert evicted(world) == []
    world.loop.binder.close()


def test_without_the_plugin_no_group_preempts(world: GroupWorld) -> None:
    object.__setattr__(world.framework.profile, "post_filter", ())
    list_groups(world, a_group("g", 1, spec={"priority": 10}))
    world.start(make_node("n").allocatable(cpu="4"), pods=[on_node("old", "4"), member("a", "1")])
    world.until(lambda: len(world.conditions) == 1)
    assert world.conditions[0][3].endswith(
        "default preemption plugin is not registered, workload aware preemption is disabled"
    )


def test_a_failed_eviction_lets_the_group_be_tried_again(world: GroupWorld) -> None:
    world.writes.refuse, world.spec = ["the API server is away"], {"priority": 10}
    list_groups(world, a_group("g", 2, spec={"priority": 10}))
    pods = [on_node("old", "4"), member("a", "1"), member("b", "1")]
    world.start(make_node("n").allocatable(cpu="4"), pods=pods)
    world.until(lambda: evicted(world) == ["old"])  # by the second attempt
    world.until(lambda: not world.shared.preempting)
    world.pod("DELETED", pods[0])
    world.until(lambda: bound(world) == ["a", "b"])
