"""Figures of a cluster at one moment, computed by hand."""

from __future__ import annotations

import pytest

from scheduler.engine.columns import NodeColumns
from scheduler.engine.objects.csi_migration import ZONE
from scheduler.offline.simulate.moments import (
    GIVE_UP,
    Requests,
    count_removable,
    list_frequent,
    measure_fragmentation,
    measure_moment,
    measure_skew,
)
from tests.scheduler.builders import NodeBuilder, PodBuilder, columns_of, make_node, make_pod

GIB = 1 << 30
SMALL: tuple[Requests, float] = (frozenset({("cpu", 1000), ("memory", GIB)}), 0.5)
LARGE: tuple[Requests, float] = (frozenset({("cpu", 3000), ("memory", GIB)}), 0.3)
HUNGRY: tuple[Requests, float] = (frozenset({("cpu", 1000), ("memory", 9 * GIB)}), 0.1)
GPU: tuple[Requests, float] = (frozenset({("example.com/gpu", 1)}), 0.1)


def node(name: str, cpu: str = "4", memory: str = "8Gi", **more: str) -> NodeBuilder:
    return make_node(name).allocatable({"cpu": cpu, "memory": memory, "pods": "110", **more})


def on(place: str, name: str, cpu: str = "1") -> PodBuilder:
    return make_pod(name).request(cpu=cpu, memory="1Gi").node(place)


@pytest.fixture
def two_nodes() -> NodeColumns:
    """Return nodes with 3 and 1 free cpu."""
    return columns_of([node("a"), node("b")], [on("a", "p"), on("b", "q", "3")])


@pytest.mark.parametrize(
    ("demand", "lost"),
    [
        (SMALL, 0),
        (LARGE, 1 / 4),  # it fits on a, so the free cpu of b is lost
        (HUNGRY, 1),  # there is too little memory
        (GPU, 1),  # it does not request cpu
    ],
)
def test_a_demand_loses_the_free_amount_where_it_does_not_fit(
    demand: tuple[Requests, float], lost: float, two_nodes: NodeColumns
) -> None:
    assert measure_fragmentation(two_nodes, "cpu", [demand]) == pytest.approx(lost)


def test_the_fragmentation_is_the_mean_over_the_demands_by_their_shares(two_nodes: NodeColumns) -> None:
    lost = measure_fragmentation(two_nodes, "cpu", [SMALL, LARGE, HUNGRY, GPU])
    assert lost == pytest.approx(0.5 * 0 + 0.3 / 4 + 0.1 + 0.1)
    assert measure_fragmentation(two_nodes, "cpu", [(SMALL[0], 0.2), (LARGE[0], 0.2)]) == pytest.approx(1 / 8)


def test_nothing_is_fragmented_where_nothing_is_free_or_demanded(two_nodes: NodeColumns) -> None:
    assert measure_fragmentation(two_nodes, "cpu", []) == 0
    assert measure_fragmentation(two_nodes, "example.com/gpu", [GPU]) == 0


def test_a_node_without_room_for_a_pod_is_lost() -> None:
    full = columns_of([make_node("a").allocatable(cpu="4", memory="8Gi", pods="1")], [on("a", "p")])
    assert measure_fragmentation(full, "cpu", [SMALL]) == 1


@pytest.mark.parametrize(
    ("pods", "removable"),
    [
        ([], 3),
        ([on("a", "p")], 2),
        ([on("a", "p"), on("b", "q"), on("c", "r")], 2),  # 3 cpu fit on one node
        ([on("a", "p"), on("a", "q"), on("b", "r", "3"), on("c", "s", "2")], 1),  # 7 cpu need two nodes
        ([on("a", "p", "3"), on("b", "q", "3"), on("c", "r", "3")], 0),
        ([on("a", "p", "3"), on("b", "q", "3"), on("c", "r", "3").owner("DaemonSet", "d")], 1),  # it ends with its node
    ],
)
def test_nodes_are_removable_whose_pods_fit_on_the_others(pods: list[PodBuilder], removable: int) -> None:
    columns = columns_of([node("a"), node("b"), node("c")], pods)
    assert count_removable(columns, ["cpu", "memory"]) == removable


def test_pods_that_moved_move_again_with_their_new_node() -> None:
    pods = [on("a", "p"), on("b", "q"), on("b", "r"), on("c", "s"), on("c", "t"), on("c", "u")]
    columns = columns_of([node("a", "4"), node("b", "4"), node("c", "8")], pods)
    assert count_removable(columns, ["cpu", "memory"]) == 2  # p goes to b, which then has three pods for c


def test_a_failed_move_takes_nothing_from_the_others() -> None:
    # Of the pods of a, only p fits on c. After that attempt r still fits there.
    nodes = [node("a", "4"), make_node("b").allocatable(cpu="5", memory="8Gi", pods="1"), node("c", "8")]
    pods = [on("a", "p", "3"), on("a", "q", "1"), on("b", "r", "3"), on("c", "u", "5")]
    assert count_removable(columns_of(nodes, pods), ["cpu", "memory"]) == 1


def test_small_nodes_are_removed_first() -> None:
    nodes = [node(f"n{i}", "1") for i in range(GIVE_UP)] + [node("large", "9")]
    pods = [on(f"n{i}", f"p{i}") for i in range(GIVE_UP)]
    assert count_removable(columns_of(nodes, pods), ["cpu"]) == GIVE_UP  # the idle large node is tried last


@pytest.mark.parametrize(("stuck", "removable"), [(GIVE_UP - 1, 1), (GIVE_UP, 0)])
def test_the_search_ends_after_several_failures(stuck: int, removable: int) -> None:
    nodes = [node(f"n{i}", "1") for i in range(stuck)] + [node("idle", "2", memory="1Mi")]
    pods = [on(f"n{i}", f"p{i}") for i in range(stuck)]
    assert count_removable(columns_of(nodes, pods), ["cpu", "memory"]) == removable


def test_the_skew_is_the_mean_over_controllers_of_most_less_fewest_pods_in_a_domain() -> None:
    nodes = [node("a").zone("east"), node("b").zone("east"), node("c").zone("west"), node("d")]
    pods = [on(place, f"web-{i}").owner("ReplicaSet", "web") for i, place in enumerate("aabc")]  # east 3, west 1
    pods += [on("a", f"db-{i}").owner("StatefulSet", "db") for i in range(4)]  # east 4, west 0
    pods += [on("c", "single").owner("Job", "single"), on("a", "bare"), on("a", "bare-2")]
    pods += [on("d", "none").owner("ReplicaSet", "web")]  # in no zone
    assert measure_skew(columns_of(nodes, pods), ZONE) == pytest.approx((2 + 4) / 2)


def test_there_is_no_skew_in_one_domain() -> None:
    pods = [on("a", f"web-{i}").owner("ReplicaSet", "web") for i in range(3)]
    assert measure_skew(columns_of([node("a").zone("east"), node("b").zone("east")], pods), ZONE) is None
    assert measure_skew(columns_of([node("a").zone("east"), node("b").zone("west")]), ZONE) is None


def test_a_moment_has_sums_over_all_nodes(two_nodes: NodeColumns) -> None:
    moment = measure_moment(7.0, two_nodes, 3, ["cpu"], [LARGE], [ZONE])
    assert (moment.at_s, moment.nodes, moment.nodes_in_use, moment.removable_nodes) == (7, 2, 2, 1)
    assert (moment.requested, moment.allocatable, moment.skew) == ({"cpu": 4000}, {"cpu": 8000}, {})
    assert moment.fragmentation == {"cpu": pytest.approx(1 / 4)}


def test_the_most_frequent_values_reach_the_share_that_is_asked_for() -> None:
    assert list_frequent("aaaaaabbbc", 0.7) == [("a", 0.6), ("b", 0.3)]
    assert list_frequent("aaaaaabbbc", 1) == [("a", 0.6), ("b", 0.3), ("c", 0.1)]
    assert list_frequent("") == []
