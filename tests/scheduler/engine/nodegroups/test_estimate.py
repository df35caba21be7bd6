"""How many new nodes pending pods need in each group."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus_answers.node_groups import NodeEstimate
from tests.scheduler.engine.nodegroups.objects import (
    ZONE,
    ask,
    daemon_set,
    grouped,
    machine_deployment,
    node_claim,
    node_pool,
)
from tests.scheduler.engine.whatif.clusters import a_node, a_pod
from tests.support.examples import examples

Json = dict[str, Any]
HOST = "kubernetes.io/hostname"


def estimates(objects: list[Json], pods: list[Json]) -> dict[str, NodeEstimate]:
    return {found["group"]: found for found in ask([*objects, *pods], estimate=True)["estimates"]}


def pods(count: int, cpu: str, **spec: Any) -> list[Json]:
    return [a_pod(f"new-{i}", cpu=cpu, **spec) for i in range(count)]


def test_nodes_are_added_until_the_pods_fit() -> None:
    full = [
        grouped("n0", "small"),
        grouped("n1", "large", cpu="16"),
        a_pod("a", "n0", cpu="4"),
        a_pod("b", "n1", cpu="15"),
    ]
    found = estimates([*full, daemon_set("agent", "500m")], pods(10, "1500m"))
    assert {name: (e["nodes"], e["pods"], e["left"]) for name, e in found.items()} == {
        "small": (5, 10, 0),
        "large": (1, 10, 0),
    }


def test_pods_that_fit_on_present_nodes_need_none() -> None:
    (found,) = estimates([grouped("n0", "small")], pods(6, "1")).values()
    assert (found["nodes"], found["pods"], found["onPresentNodes"]) == (1, 6, 4)


def test_the_estimate_ends_at_the_size_of_the_group() -> None:
    md = machine_deployment("md", 1, annotations={"cpu": "4", "memory": "8Gi", "max-size": "3"})
    (found,) = estimates([a_node("n0", cpu="1"), md], pods(5, "3")).values()
    assert (found["nodes"], found["pods"], found["left"], found["limitedBy"]) == (2, 2, 3, "size 1 of at most 3")


def test_a_limit_of_a_resource_that_the_nodes_lack_is_none() -> None:
    pool = node_pool("g", limits={"nvidia.com/gpu": "1"})
    claim = node_claim(
        "c", "g", {"node.kubernetes.io/instance-type": "l", ZONE: "a"}, {"cpu": "4", "memory": "32Gi", "pods": "110"}
    )
    (found,) = estimates([a_node("n0", cpu="1"), pool, claim], pods(3, "3")).values()
    assert (found["nodes"], found["left"], found["limitedBy"]) == (3, 0, "")


def test_zones_get_nodes_in_turn_and_volumes_none_that_they_cannot_use() -> None:
    nodes = [grouped("n0", "both", zone="a", cpu="2"), grouped("n1", "both", zone="b", cpu="2")]
    (found,) = estimates(nodes, pods(6, "1500m")).values()
    assert (found["nodes"], found["zones"], found["onPresentNodes"]) == (4, {"a": 2, "b": 2}, 2)


def test_pods_that_avoid_each_other_need_a_node_each() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    (found,) = estimates([grouped("n0", "small")], pods(4, "10m", affinity=apart)).values()
    assert (found["nodes"], found["pods"], found["onPresentNodes"]) == (3, 4, 1)


def test_pods_that_fit_nowhere_are_left_and_add_nothing() -> None:
    (found,) = estimates([grouped("n0", "small")], pods(3, "9")).values()
    assert (found["nodes"], found["pods"], found["left"]) == (0, 0, 3)


def test_no_pod_is_evicted_for_an_estimate() -> None:
    full = [grouped("n0", "small"), a_pod("low", "n0", cpu="4", priority=-1)]
    (found,) = estimates(full, pods(1, "4", priority=1000)).values()
    assert (found["nodes"], found["onPresentNodes"]) == (1, 0)


@settings(deadline=None, max_examples=examples(25))
@given(st.lists(st.integers(1, 4000), max_size=12))
def test_no_node_is_added_without_need(amounts: list[int]) -> None:
    (found,) = estimates(
        [grouped("n0", "small"), a_pod("a", "n0", cpu="4")],
        [a_pod(f"new-{i}", cpu=f"{amount}m") for i, amount in enumerate(amounts)],
    ).values()
    assert found["pods"] == len(amounts)
    assert -(-sum(amounts) // 4000) <= found["nodes"] <= len(amounts)
