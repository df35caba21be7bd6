"""Pod groups with a topology constraint: all pods in one domain, the one in which the most fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from herodotus_record.model import Evaluation
from scheduler.config import Configuration, build_profile
from scheduler.config.document import ConfigError
from scheduler.config.types import PluginRef, Plugins, PluginSet, ProfileConfig
from scheduler.engine.columns import Snapshot
from scheduler.engine.cycle import try_group_member
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.plugins.topology_placement import TopologyPlacementGenerator
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import NodeBuilder, columns_of, make_node
from tests.support.pod_group_loop import GroupWorld, bound, member
from tests.support.scheduling_loop import ran

GATES = {"TopologyAwareWorkloadScheduling": True}
UNPLACED = "0/2 placements are available, first placement status: pod group is unschedulable"
WAITS = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled,"
    " one or more plugins asked to wait and no plugin rejected pod"
)
NOT_ELIGIBLE = "preemption: not eligible due to placement-based pod group scheduling limitation"


def rack(node: str, name: str, cpu: str = "4") -> NodeBuilder:
    return make_node(node).allocatable(cpu=cpu).label("rack", name)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[GroupWorld]:
    made = GroupWorld(tmp_path / "spool", GATES)
    made.spec = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    yield made
    made.loop.binder.close()


def nodes_of(world: GroupWorld) -> set[str]:
    return {node for _, node in world.writes.bound}


def test_all_pods_are_placed_in_the_only_domain_with_room(world: GroupWorld) -> None:
    world.groups(g=3)
    world.start(
        rack("a1", "a"),
        rack("b1", "b", "2"),
        rack("b2", "b"),
        pods=[member("x", "2"), member("y", "2"), member("z", "2")],
    )
    world.settle()
    assert bound(world) == ["x", "y", "z"]
    assert nodes_of(world) == {"b1", "b2"}
    assert world.conditions == [("g", "True", "Scheduled", "")]
    assert {d.key.attempt for d in world.decisions} == {1}
    assert len(world.decisions) == 3  # trials are not recorded


def test_the_domain_in_which_the_most_pods_fit_is_chosen(world: GroupWorld) -> None:
    world.groups(g=1)
    pods = [member(name, "2") for name in "xyz"]
    world.start(rack("a1", "a", "2"), rack("b1", "b", "6"), rack("c1", "c"), pods=pods)
    world.until(lambda: len(bound(world)) == 3)
    assert nodes_of(world) == {"b1"}


def test_without_a_domain_with_room_no_pod_is_placed(world: GroupWorld) -> None:
    world.groups(g=3)
    pods = [ran("low", "1", -5, "a1"), *(member(name, "2").priority(9) for name in "xyz")]
    world.start(rack("a1", "a"), rack("b1", "b"), make_node("none"), pods=pods)
    world.until(lambda: len(world.conditions) == 1)
    assert world.conditions == [("g", "False", "Unschedulable", UNPLACED)]
    assert bound(world) == []
    assert world.reasons("x")[0] == WAITS
    assert world.reasons("z")[0].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert world.reasons("z")[0].endswith(NOT_ELIGIBLE)
    assert world.requested["a1"] == 1000


def test_nodes_outside_the_placement_are_neither_evaluated_nor_counted(world: GroupWorld) -> None:
    columns = columns_of([rack("a1", "a", "1"), rack("b1", "b", "6"), rack("b2", "b", "1")])
    placement = np.array([True, False, True])
    pod = member("x", "2").info()
    result = try_group_member(world.framework, pod, Snapshot.from_columns(columns, placement), seed=0)
    assert result.message == "0/2 nodes are available: 2 Insufficient cpu."
    assert list(result.trace.evaluation) == [Evaluation.EVALUATED, Evaluation.RESTRICTED, Evaluation.EVALUATED]
    whole = try_group_member(world.framework, pod, Snapshot.from_columns(columns), seed=0)
    assert whole.chosen == 1


def test_a_later_pod_goes_to_the_domain_of_the_pods_on_nodes(world: GroupWorld) -> None:
    world.groups(g=1)
    first = member("first", "2").node("a1")
    world.start(rack("a1", "a", "2"), rack("a2", "a", "2"), rack("b1", "b", "64"), pods=[first, member("later", "2")])
    world.until(lambda: bound(world) == ["later"])
    assert nodes_of(world) == {"a2"}


@pytest.mark.parametrize(
    ("racks", "error"),
    [
        (("a", "b"), "more than 1 domain found for pod group: a, b"),
        (("a", None), "no topology domain found for pod default/p1"),
    ],
)
def test_pods_in_several_domains_or_none_are_an_error(world: GroupWorld, racks: Any, error: str) -> None:
    world.groups(g=1)
    nodes = [make_node(f"n{i}") if name is None else rack(f"n{i}", name) for i, name in enumerate(racks)]
    on_nodes = [member(f"p{i}").node(f"n{i}") for i in range(2)]
    world.start(*nodes, pods=[*on_nodes, member("later")])
    world.until(lambda: len(world.conditions) == 1)
    message = f"cannot determine domain for already scheduled pods: {error}"
    assert world.conditions == [("g", "False", "SchedulerError", message)]
    assert world.reasons("later")[0] == message


def test_without_a_node_with_the_label_there_is_no_placement(world: GroupWorld) -> None:
    world.groups(g=1)
    world.start(make_node("n"), pods=[member("x")])
    world.until(lambda: len(world.conditions) == 1)
    assert world.conditions == [("g", "False", "Unschedulable", "no feasible placements found")]
    assert world.reasons("x")[0] == "no feasible placements found"


def test_a_group_without_a_constraint_has_one_placement(world: GroupWorld) -> None:
    world.spec = {}
    world.groups(g=2)
    world.start(rack("a1", "a", "2"), pods=[member("x", "2"), member("y", "2")])
    world.until(lambda: len(world.conditions) == 1)
    assert world.conditions[0][3] == UNPLACED.replace("0/2", "0/1")


def test_a_profile_has_at_most_one_plugin_that_generates_placements() -> None:
    class Other(TopologyPlacementGenerator):
        name = "Other"

    plugins = Plugins(placement_generate=PluginSet(enabled=(PluginRef(name="Other"),)))
    profile = ProfileConfig(scheduler_name="p", plugins=plugins)
    config = Configuration(feature_gates={**GATES, "GenericWorkload": True}, profiles=(profile,))
    with pytest.raises(ConfigError, match="at most one placement generate plugin is allowed"):
        build_profile(config, 0, {**IN_TREE, "Other": Other}, NoCluster())
